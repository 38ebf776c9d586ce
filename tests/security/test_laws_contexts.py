"""Laws of contexts: what a message is handled under is what its context, the receiver's grant and whatever was joined permit, and it is charged to the accounts of all."""

from hypothesis import given, settings
from hypothesis import strategies as st

import retinue as rt
from permission_strategies import argument_dicts, asked_lists, operations, verdict_by_definition
from retinue.capabilities.budgets import Ledger
from retinue.security import Authority
from retinue.security.accounts import all_accounts


def context_of(authority, asked):
    return authority.mint("ada", ["**", *(one.restriction for one in asked)])


def ways(context, other):
    """The ways in which two contexts come to one."""
    return {"grant": context._meet(other), "fan-in": context.narrow(other), "the other way round": other.narrow(context)}


@given(asked_lists, asked_lists, operations, argument_dicts)
def test_two_contexts_together_permit_what_both_permit_with_the_labels_of_both(x, y, operation, arguments):
    authority = Authority()
    for how, met in ways(context_of(authority, x), context_of(authority, y)).items():
        expected = verdict_by_definition([*x, *y], operation, arguments)
        assert met.permissions.decision(operation).evaluate(arguments, {}).value == expected, how
        limits = met.limits
        permitted = expected == "allow" and limits.risk == 3 and limits.calls > 0
        assert met.allows(operation, arguments) is permitted, how
        assert (f"{operation!r} is permitted" in met.explain(operation, arguments)) is permitted, how


caps = st.none() | st.integers(0, 4)


@settings(max_examples=60)
@given(caps, caps, caps, st.integers(1, 6))
def test_calls_are_charged_to_every_account_on_the_way_and_once(mine, narrower, theirs, wanted):
    """A grant's account too, for whoever asks; and an account that both have is not charged twice."""
    authority = Authority()
    common = authority.mint("ada", ["**", rt.limit(calls=5)])

    def below(context, most):
        return context if most is None else context.narrow(rt.limit(calls=most))

    context, grant = below(below(common, mine), narrower), below(common, theirs)
    for met in ways(context, grant).values():
        assert set(all_accounts(met.accounts)) == {*all_accounts(context.accounts), *all_accounts(grant.accounts)}
    met = context._meet(grant)
    ledger = Ledger(authority.now_ms)
    done = 0
    for _ in range(wanted):
        try:
            ledger.charge(met.accounts, calls=1)
        except rt.BudgetExceeded:
            break
        done += 1
    least = min(5, *(most for most in (mine, narrower, theirs) if most is not None)) if (mine, narrower, theirs) != (None,) * 3 else 5
    assert done == min(wanted, least)
    for account in all_accounts((*context.accounts, *grant.accounts)):
        assert account.spent.calls == done


def test_what_is_charged_to_a_grant_is_charged_for_every_asker():
    authority = Authority()
    grant = authority.root._grant(["**", rt.limit(calls=3)])
    ledger = Ledger(authority.now_ms)
    for _ in range(3):
        asker = authority.mint("ada", ["**"])
        ledger.charge(asker._meet(grant).accounts, calls=1)
    for asker in (authority.mint("ada", ["**"]), authority.root, authority.mint("eve", ["**", rt.limit(calls=9)])):
        met = asker._meet(grant)
        assert met.allows("fs.read") is False
        assert asker.allows("fs.read") is True
        try:
            ledger.charge(met.accounts, calls=1)
        except rt.BudgetExceeded:
            continue
        raise AssertionError("the grant's account was not charged")


@given(st.lists(st.integers(1, 50), min_size=1, max_size=5), st.integers(0, 60))
def test_the_first_deadline_on_the_way_is_the_end_however_it_came_in(seconds, later):
    now = 10**12
    authority = Authority(clock=lambda: now)
    context = authority.root
    for number, one in enumerate(seconds):
        other = authority.mint("ada", ["**", rt.expires(seconds=one)])
        context = [context.narrow(rt.expires(seconds=one)), context.narrow(other), context._meet(other), other.narrow(context)][number % 4]
    now += later * 1000
    assert context.allows("fs.read") is (later < min(seconds))
    assert authority.expired(context) is (later >= min(seconds))


@given(st.permutations(range(4)), st.integers(0, 3))
def test_whatever_was_joined_ends_it_when_it_is_revoked(order, which):
    authority = Authority()
    contexts = [authority.mint(f"a{number}", ["**"]) for number in range(4)]
    context = contexts[order[0]]
    for number in order[1:]:
        context = context._meet(contexts[number].narrow(rt.deny("x.y"))) if number % 2 else context.narrow(contexts[number])
    assert context.allows("fs.read")
    authority.revoke(contexts[which])
    assert not context.allows("fs.read")
