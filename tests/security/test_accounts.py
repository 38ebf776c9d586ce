"""Accounts: which limits open one, what it hangs below, and that a token has one for all its presentations."""

import copy
import pickle
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retinue.security import Authority, AuthorityError, DefinitionError, Denied, ForgedContext, Limits, Revoked, allow, expires, limit
from retinue.security.accounts import Account, AccountTable, Amounts, all_accounts, join_accounts
from retinue.security.limits import NEVER, UNLIMITED


@pytest.fixture
def authority():
    return Authority()


def caps(context):
    return [(account.caps.calls, account.caps.tokens, account.caps.cost_micro_usd) for account in context.accounts]


def test_a_limit_that_shrinks_something_opens_an_account_below_the_present_ones(authority):
    alice = authority.mint("alice", ["**", limit(calls=10)])
    assert authority.root.accounts == ()
    assert caps(alice) == [(10, UNLIMITED, UNLIMITED)]
    (account,) = alice.accounts
    assert account.parents == ()
    child = alice.narrow(limit(calls=5, cost_usd="0.50"))
    assert caps(child) == [(5, UNLIMITED, 500_000)]
    assert child.accounts[0].parents == (account,)
    assert child.accounts[0].id != account.id
    tokens_too = child.narrow(limit(tokens=7))
    assert caps(tokens_too) == [(5, 7, 500_000)], "the caps of an account are all limits of its context"
    assert (account.spent, account.reserved) == (Amounts(), Amounts())


def test_narrowing_that_leaves_the_budget_alone_keeps_the_account(authority):
    alice = authority.mint("alice", ["fs.*", limit(calls=10)])
    for same in (alice.narrow("fs.read"), alice.narrow(expires(seconds=60)), alice.narrow(limit(depth=3)), alice.narrow(limit(calls=99))):
        assert same.accounts is alice.accounts
    assert alice.narrow(limit(calls=10)) is alice
    assert alice.narrow(limit(calls=99)) is alice
    assert alice._grant(["fs.read"]).accounts is alice.accounts
    assert alice._meet(authority.root.narrow("fs.read")).accounts is alice.accounts


def test_siblings_have_accounts_of_their_own_below_one(authority):
    alice = authority.mint("alice", ["**", limit(calls=10)])
    left, right = alice.narrow(limit(calls=6)), alice.narrow(limit(calls=6))
    assert left.accounts != right.accounts
    assert left.accounts[0].parents == right.accounts[0].parents == alice.accounts


def test_a_root_with_a_limit_is_charged_for_all(authority):
    narrow_root = Authority(["**", limit(tokens=100)])
    assert caps(narrow_root.root) == [(UNLIMITED, 100, UNLIMITED)]
    assert narrow_root.mint("alice", ["fs.*"]).accounts is narrow_root.root.accounts
    bob = narrow_root.mint("bob", ["fs.*", limit(tokens=10)])
    assert bob.accounts[0].parents == narrow_root.root.accounts


def test_a_meet_with_a_grant_is_charged_to_both(authority):
    alice = authority.mint("alice", ["**", limit(calls=10)])
    grant = authority.root.narrow(limit(calls=3))
    met = alice._meet(grant)
    assert met.accounts == (*alice.accounts, *grant.accounts)
    assert met.limits.calls == 3
    assert alice._meet(grant) is met
    assert met._meet(grant) is met
    wide = authority.root.narrow(limit(calls=50))
    other = alice._meet(wide)
    assert other is not alice, "though nothing shrinks, the grant is charged too"
    assert other.permissions is alice.permissions
    assert other.accounts == (*alice.accounts, *wide.accounts)


def test_an_account_that_another_one_charges_is_not_listed_beside_it(authority):
    alice = authority.mint("alice", ["**", limit(calls=10)])
    child = alice.narrow(limit(calls=3))
    assert child._meet(alice) is child
    assert alice._meet(child).accounts == child.accounts
    assert child.narrow(alice) is child
    assert alice.narrow(child).accounts == child.accounts


def test_a_narrower_limit_on_what_two_accounts_are_charged_to_hangs_below_both(authority):
    alice = authority.mint("alice", ["**", limit(calls=10)])
    met = alice._meet(authority.root.narrow(limit(calls=5)))
    narrow = met.narrow(limit(calls=1))
    assert narrow.accounts[0].parents == met.accounts
    assert set(all_accounts(narrow.accounts)) == {*narrow.accounts, *met.accounts}


@given(st.lists(st.integers(0, 5), min_size=1, max_size=6), st.data())
def test_joining_keeps_what_is_charged_and_nothing_twice(shape, data):
    accounts = [Account((), Amounts())]
    for number in shape:
        parents = data.draw(st.lists(st.sampled_from(accounts), max_size=2, unique_by=id))
        accounts.append(Account(tuple(parents), Amounts(calls=number)))
    mine, others = (tuple(data.draw(st.lists(st.sampled_from(accounts), max_size=3, unique_by=id))) for _ in range(2))
    joined = join_accounts(mine, others)
    charged = set(all_accounts(joined))
    assert charged == {*all_accounts(mine), *all_accounts(others)}
    assert len(joined) == len(set(joined))
    assert len(all_accounts(joined)) == len(charged)
    assert join_accounts(joined, others) is joined
    assert set(join_accounts(others, mine)) == set(joined) or not mine or not others


def test_what_has_no_call_left_is_not_allowed_and_says_so(authority):
    context = authority.mint("alice", ["**", limit(calls=2)])
    (account,) = context.accounts
    child = context.narrow("fs.read")
    account.spent, account.reserved = Amounts(calls=1), Amounts()
    assert child.allows("fs.read")
    account.reserved = Amounts(calls=1)
    assert not child.allows("fs.read")
    assert f"none of the 2 calls of {account.id} is left (added by " in child.explain("fs.read")
    assert not authority.mint("bob", ["**", limit(calls=0)]).allows("fs.read")


def test_an_account_is_neither_copied_nor_pickled(authority):
    (account,) = authority.mint("alice", [limit(calls=3)]).accounts
    for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="not (copied|pickled)"):
            attempt(account)
    assert repr(account) == f"<Account {account.id}: calls=3>"
    assert "unlimited" in repr(Account((), Amounts(UNLIMITED, UNLIMITED, UNLIMITED)))


# --- tokens


def test_a_token_that_is_adopted_twice_has_one_account(authority):
    principal = authority.principal("alice", session="s1")
    blocks = [("root", [allow("fs.*"), limit(calls=10)]), ("second", [limit(calls=4)]), ("third", [allow("fs.read")])]
    first, second = authority.adopt(principal, blocks), authority.adopt(principal, blocks)
    assert first is not second
    assert first.permissions is second.permissions is authority.root.narrow(["fs.*"], "fs.read", limit(calls=4)).permissions
    assert first.accounts == second.accounts
    assert caps(first) == [(4, UNLIMITED, UNLIMITED)]
    assert [account.caps.calls for account in all_accounts(first.accounts)] == [4, 10]
    assert (first.parent, first.subject, first.session) == (None, "alice", "s1")
    wider = authority.adopt(principal, blocks[:1])
    assert wider.accounts == first.accounts[0].parents, "the shorter chain is charged to the account above"
    other = authority.adopt(principal, [*blocks[:1], ("another", [limit(calls=4)])])
    assert other.accounts != first.accounts
    assert other.accounts[0].parents == first.accounts[0].parents
    assert authority.statistics().token_accounts == 3


def test_what_is_adopted_stays_within_the_root():
    authority = Authority(["fs.*", limit(calls=5)])
    context = authority.adopt(authority.principal("alice"), [("t", [allow("**"), limit(calls=50)])])
    assert context.allows("fs.read")
    assert not context.allows("web.get")
    assert context.accounts is authority.root.accounts


def test_a_token_whose_origin_is_here_descends_from_it_and_ends_with_it(authority):
    alice = authority.mint("alice", ["fs.*", limit(calls=10)])
    blocks = [("root", [allow("fs.*"), limit(calls=10)]), ("second", [allow("fs.read")])]
    context = authority.adopt(alice._principal, blocks, origin=alice)
    assert context.accounts is alice.accounts
    assert context.descends_from(alice)
    authority.revoke(alice)
    with pytest.raises(Revoked):
        authority.check(context)
    with pytest.raises(Revoked):
        authority.adopt(alice._principal, blocks, origin=alice)
    with pytest.raises(ForgedContext):
        authority.adopt(alice._principal, blocks, origin=Authority().root)
    with pytest.raises(DefinitionError):
        authority.adopt("alice", blocks)


def test_adopting_asks_the_guard(authority):
    def refuse():
        raise Denied("inside a handler")

    authority.guard = refuse
    with pytest.raises(Denied):
        authority.adopt(authority.principal("alice"), [])


def test_the_table_of_token_accounts_is_bounded_and_refuses_rather_than_forgets():
    now = [1_000]
    table = AccountTable(lambda: now[0], most=2)
    one = table.account("a", (), Limits(calls=1, deadline_ms=2_000))
    two = table.account("b", (), Limits(calls=1, deadline_ms=NEVER))
    assert table.account("a", (), Limits(calls=9)) is one
    with pytest.raises(AuthorityError, match="shorter lives"):
        table.account("c", (), Limits(calls=1))
    now[0] = 2_000
    three = table.account("c", (), Limits(calls=1))
    assert table.account("b", (), Limits(calls=9)) is two
    assert len({one, two, three}) == 3
    assert len(table) == 2
    assert one.caps == Amounts(1, UNLIMITED, UNLIMITED)


def test_threads_that_present_one_token_share_its_account():
    table = AccountTable(lambda: 0)
    found = []
    barrier = threading.Barrier(8)

    def present():
        barrier.wait()
        found.append(table.account("token", (), Limits(calls=1)))

    threads = [threading.Thread(target=present) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1
