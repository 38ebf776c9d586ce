"""The ledger: exact sums over a tree of accounts."""

import copy
import gc
import pickle
import threading

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, multiple, precondition, rule

from retinue.capabilities.budgets import Ledger
from retinue.security import Authority
from retinue.security.accounts import NOTHING_SPENT, Account, Amounts, all_accounts
from retinue.security.errors import AuthorityError, BudgetExceeded, ConstraintError, Denied, Expired
from retinue.security.limits import UNLIMITED
from retinue.security.restrictions import expires, limit


def account(*parents: Account, calls: int = UNLIMITED, tokens: int = UNLIMITED, cost: int = UNLIMITED, **more) -> Account:
    return Account(parents, Amounts(calls, tokens, cost), **more)


@pytest.fixture
def ledger():
    return Ledger(lambda: 1_000)


def test_what_is_reserved_is_no_longer_there_and_what_is_settled_is_spent(ledger):
    root = account(calls=10, tokens=1_000, cost=500)
    reservation = ledger.reserve([root], calls=1, tokens=400, cost_micro_usd=50)
    assert ledger.balance(root).remaining == Amounts(9, 600, 450)
    assert ledger.balance(root).reserved == Amounts(1, 400, 50)
    assert ledger.settle(reservation, calls=1, tokens=123, cost_micro_usd=7) == NOTHING_SPENT
    balance = ledger.balance(root)
    assert (balance.spent, balance.reserved, balance.remaining) == (Amounts(1, 123, 7), NOTHING_SPENT, Amounts(9, 877, 493))
    assert (balance.account, balance.caps) == (root.id, Amounts(10, 1_000, 500))
    assert reservation.state == "settled"


def test_release_gives_back_exactly_what_was_reserved(ledger):
    root = account(tokens=100)
    child = account(root, tokens=60)
    before = (ledger.balance(root), ledger.balance(child))
    reservation = ledger.reserve([child], calls=3, tokens=60)
    ledger.release(reservation)
    assert (ledger.balance(root), ledger.balance(child)) == before
    assert reservation.state == "released"


@pytest.mark.parametrize(("field", "resource"), [("calls", "calls"), ("tokens", "tokens"), ("cost_micro_usd", "cost")])
def test_what_does_not_fit_is_reserved_nowhere_and_says_which_resource(ledger, field, resource):
    root = Account((), Amounts(5, 5, 5))
    child = Account((root,), Amounts(5, 5, 5))
    ledger.charge([root], **{field: 3})
    for attempt in (ledger.reserve, ledger.charge):
        with pytest.raises(BudgetExceeded, match="3 wanted, 2 left of 5") as caught:
            attempt([child], **{field: 3})
        assert (caught.value.resource, caught.value.reason) == (resource, "budget")
        assert isinstance(caught.value, Denied)
    assert ledger.balance(child).spent == ledger.balance(child).reserved == NOTHING_SPENT
    ledger.charge([child], **{field: 2})
    assert getattr(ledger.balance(child).remaining, field) == 0


def test_siblings_cannot_jointly_exceed_their_parent(ledger):
    root = account(tokens=100)
    ada, bob = account(root, tokens=80), account(root, tokens=80)
    ledger.charge([ada], tokens=80)
    with pytest.raises(BudgetExceeded):
        ledger.reserve([bob], tokens=21)
    ledger.charge([bob], tokens=20)
    assert ledger.balance(root).spent.tokens == 100
    assert ledger.balance(bob).remaining.tokens == 0


def test_an_ancestor_that_is_reached_on_two_ways_is_charged_once(ledger):
    root = account(calls=10)
    context, grant = account(root, calls=5), account(root, calls=5)
    ledger.charge([context, grant], calls=2)
    assert [ledger.balance(one).spent.calls for one in (root, context, grant)] == [2, 2, 2]
    ledger.charge([context, context], calls=1)
    assert [ledger.balance(one).spent.calls for one in (root, context, grant)] == [3, 3, 2]


def test_accounts_of_a_context_and_of_a_grant_are_both_charged(ledger):
    authority = Authority()
    ada = authority.mint("ada", ["**", limit(tokens=100)])
    shop = authority.mint("shop", ["**", limit(tokens=30)])
    both = ada._meet(shop)
    assert set(both.accounts) == {*ada.accounts, *shop.accounts}
    ledger.charge(both.accounts, tokens=30)
    with pytest.raises(BudgetExceeded):
        ledger.charge(both.accounts, tokens=1)
    ledger.charge(ada.accounts, tokens=70)
    with pytest.raises(BudgetExceeded):
        ledger.charge(ada.accounts, tokens=1)


def test_what_is_not_limited_is_counted_and_never_used_up(ledger):
    root = account(calls=1)
    ledger.charge([root], tokens=UNLIMITED)
    ledger.charge([root], tokens=UNLIMITED)
    assert ledger.balance(root).remaining.tokens == UNLIMITED
    assert ledger.balance(root).spent.tokens == 2 * UNLIMITED


def test_no_account_is_no_limit(ledger):
    reservation = ledger.reserve([], calls=10**9)
    assert ledger.settle(reservation, calls=10**9) == NOTHING_SPENT


def test_nothing_can_be_reserved_on_an_empty_account_but_nothing(ledger):
    root = account(calls=0)
    ledger.release(ledger.reserve([root]))
    with pytest.raises(BudgetExceeded):
        ledger.reserve([root], calls=1)


def test_what_is_not_limited_reads_as_words(ledger):
    shown = repr(ledger.balance(account(tokens=50)))
    assert "caps=Amounts(calls=unlimited, tokens=50, cost_micro_usd=unlimited)" in shown
    assert shown.endswith("deadline_ms=never)")


def test_an_amount_that_settling_leaves_out_is_what_was_reserved_of_it(ledger):
    root = account(calls=10, tokens=1_000, cost=500)
    assert ledger.settle(ledger.reserve([root], calls=1, tokens=400, cost_micro_usd=50)) == NOTHING_SPENT
    assert ledger.balance(root).spent == Amounts(1, 400, 50)
    assert ledger.settle(ledger.reserve([root], calls=1, tokens=400, cost_micro_usd=50), tokens=100) == NOTHING_SPENT
    assert ledger.balance(root).spent == Amounts(2, 500, 100)
    assert ledger.settle(ledger.reserve([root], calls=1, tokens=400), calls=0, tokens=0) == NOTHING_SPENT
    assert ledger.balance(root).spent == Amounts(2, 500, 100)


def test_more_than_was_reserved_is_charged_as_far_as_it_goes_and_the_rest_is_told(ledger):
    root = account(tokens=100)
    child = account(root, tokens=50)
    reservation = ledger.reserve([child], tokens=10)
    assert ledger.settle(reservation, tokens=70) == Amounts(0, 20, 0)
    assert ledger.balance(child).spent.tokens == 50, "used up exactly"
    assert ledger.balance(root).spent.tokens == 70


def test_a_reservation_ends_once(ledger):
    root = account(calls=5)
    settled, released = ledger.reserve([root], calls=1), ledger.reserve([root], calls=1)
    ledger.settle(settled, calls=1)
    ledger.release(released)
    for reservation in (settled, released):
        with pytest.raises(ConstraintError, match="before"):
            ledger.settle(reservation)
        with pytest.raises(ConstraintError, match="before"):
            ledger.release(reservation)
    assert ledger.balance(root).spent.calls == 1


def test_a_reservation_of_another_ledger_is_none_of_this_one(ledger):
    root = account(calls=5)
    with pytest.raises(ConstraintError, match="no reservation of this ledger"):
        ledger.settle(Ledger().reserve([root], calls=1))
    for odd in (None, object(), "key"):
        with pytest.raises(ConstraintError, match="no reservation"):
            ledger.release(odd)


@pytest.mark.parametrize("amount", [-1, 1.0, True, "1", None, 2**63, float("nan"), float("inf")])
@pytest.mark.parametrize("field", ["calls", "tokens", "cost_micro_usd"])
def test_an_amount_is_a_whole_number_of_its_own_type(ledger, amount, field):
    root = account(calls=5, tokens=5, cost=5)
    open_one = ledger.reserve([root], calls=1)
    for attempt in (ledger.reserve, ledger.charge):
        with pytest.raises(ConstraintError):
            attempt([root], **{field: amount})
    if amount is not None:  # which leaves it out
        with pytest.raises(ConstraintError):
            ledger.settle(open_one, **{field: amount})
    assert open_one.state == "open"
    assert ledger.balance(root).reserved == Amounts(1, 0, 0)


@pytest.mark.parametrize("odd", [object(), "account", 3, Amounts()])
def test_what_is_no_account_is_refused(ledger, odd):
    for attempt in (lambda: ledger.reserve([odd], calls=1), lambda: ledger.charge([odd]), lambda: ledger.balance(odd)):
        with pytest.raises((ConstraintError, AttributeError)):
            attempt()


def test_a_reservation_is_neither_copied_nor_pickled(ledger):
    reservation = ledger.reserve([account(calls=5)], calls=1)
    for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="second time"):
            attempt(reservation)
    assert repr(reservation) == "<Reservation of 1 calls: open>"


# -- time --------------------------------------------------------------------------------------------------------------------------------------------------


def test_what_has_expired_unsettled_counts_as_spent_whole_until_it_is_settled_after_all():
    now = [0]
    ledger = Ledger(lambda: now[0])
    root = account(tokens=100)
    child = account(root, tokens=100, deadline_ms=50)
    lost, late = ledger.reserve([child], tokens=30), ledger.reserve([child], tokens=20)
    now[0] = 50
    balance = ledger.balance(root)
    assert (balance.spent.tokens, balance.reserved.tokens) == (50, 0)
    assert (lost.state, late.state) == ("expired", "expired")
    assert ledger.settle(late, tokens=4) == NOTHING_SPENT
    assert ledger.balance(root).spent.tokens == 34
    ledger.release(lost)
    assert ledger.balance(root).spent.tokens == 4


def test_nothing_is_spent_on_an_account_that_has_expired_nor_past_a_deadline():
    now = [49]
    ledger = Ledger(lambda: now[0])
    root = account(tokens=100)
    child = account(root, deadline_ms=50)
    ledger.charge([child], tokens=1)
    now[0] = 50
    for attempt in (ledger.reserve, ledger.charge):
        with pytest.raises(Expired):
            attempt([child], tokens=1)
    with pytest.raises(Expired):
        ledger.reserve([root], tokens=1, deadline_ms=50)
    assert ledger.balance(root).spent.tokens == 1
    ledger.charge([root], tokens=1)


def test_a_lease_ends_a_reservation_sooner_than_its_accounts():
    now = [0]
    ledger = Ledger(lambda: now[0])
    root = account(tokens=100)
    reservation = ledger.reserve([root], tokens=30, deadline_ms=10)
    ledger.sweep()
    assert reservation.state == "open"
    now[0] = 10
    ledger.sweep()
    assert reservation.state == "expired"
    assert ledger.balance(root).spent.tokens == 30


def test_a_context_that_expires_bounds_its_reservations():
    now = [1_000]
    authority = Authority(clock=lambda: now[0])
    ledger = Ledger(authority.now_ms)
    context = authority.mint("ada", ["**", limit(tokens=100), expires(seconds=1)])
    assert ledger.reserve(context.accounts, tokens=1).deadline_ms == 2_000
    now[0] = 2_000
    with pytest.raises(Expired):
        ledger.reserve(context.accounts, tokens=1)


def test_a_clock_that_fails_reserves_nothing_where_something_can_expire():
    def clock():
        raise AuthorityError("no clock")

    ledger = Ledger(clock)
    child = account(tokens=10, deadline_ms=50)
    with pytest.raises(AuthorityError):
        ledger.reserve([child], tokens=1)
    assert child.reserved == NOTHING_SPENT
    timeless = account(tokens=10)
    ledger.charge([timeless], tokens=1)
    assert timeless.spent.tokens == 1


def test_reservations_that_have_ended_are_forgotten():
    now = [0]
    ledger = Ledger(lambda: now[0])
    root = account(tokens=10**9)
    for number in range(100):
        ledger.settle(ledger.reserve([root], tokens=1, deadline_ms=number + 1), tokens=1)
    now[0] = 1_000
    ledger.sweep()
    assert not ledger._expiring
    gc.collect()


# -- everything at once ------------------------------------------------------------------------------------------------------------------------------------


def test_a_hundred_threads_over_a_budget_for_ten_give_exactly_ten():
    ledger = Ledger()
    root = account(calls=10)
    children = [account(root, calls=10) for _ in range(10)]
    results: list[bool] = []
    start = threading.Barrier(100)

    def spend(number: int) -> None:
        start.wait()
        try:
            ledger.settle(ledger.reserve([children[number % 10]], calls=1), calls=1)
        except BudgetExceeded:
            results.append(False)
        else:
            results.append(True)

    threads = [threading.Thread(target=spend, args=(number,)) for number in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results.count(True) == 10
    assert root.spent.calls == 10
    assert sum(child.spent.calls for child in children) == 10


amounts = st.builds(Amounts, st.integers(0, 4), st.integers(0, 8), st.integers(0, 8))
caps = st.builds(Amounts, *[st.one_of(st.integers(0, 20), st.just(UNLIMITED)) for _ in range(3)])


def test_what_has_ended_long_before_it_would_expire_is_let_go():
    now = 1_000
    ledger = Ledger(lambda: now)
    root = account(tokens=100_000, deadline_ms=10**12)
    kept = [ledger.reserve([root], tokens=1, deadline_ms=2_000) for _ in range(3)]
    for index in range(1_000):
        reservation = ledger.reserve([root], tokens=10)
        ledger.release(reservation) if index % 2 else ledger.settle(reservation, tokens=2)
    assert len(ledger._expiring) < 200
    now = 2_000
    ledger.sweep()
    assert [one.state for one in kept] == ["expired"] * 3
    assert ledger.balance(root).spent.tokens == 1_003
    now = 10**12
    ledger.sweep()
    assert (len(ledger._expiring), ledger._ended) == (0, 0)


class Books(RuleBasedStateMachine):
    """A ledger against a naive one, which recomputes every sum from the list of what was ever done."""

    accounts = Bundle("accounts")
    reservations = Bundle("reservations")

    def __init__(self):
        super().__init__()
        self.now = 0
        self.ledger = Ledger(lambda: self.now)
        self.known: list[Account] = []
        # What was done: [accounts it is charged to, amounts, "reserved" or "spent", deadline]
        self.entries: list[list] = []
        self.entry_of: dict = {}
        self.made = self.refused = self.granted = 0

    @initialize(target=accounts, cap=caps)
    def open_root(self, cap):
        made = Account((), cap)
        self.known.append(made)
        return made

    @rule(target=accounts, cap=caps, parents=st.lists(accounts, max_size=2), deadline=st.one_of(st.none(), st.integers(1, 40)))
    def open_account(self, cap, parents, deadline):
        made = Account(tuple(dict.fromkeys(parents)), cap, *([] if deadline is None else [deadline]))
        self.known.append(made)
        return made

    def lapse(self):
        for entry in self.entries:
            if entry[2] == "reserved" and entry[3] <= self.now:
                entry[2] = "spent"

    def sums(self, one, state):
        found = [entry[1] for entry in self.entries if one in entry[0] and entry[2] == state]
        return Amounts(sum(a.calls for a in found), sum(a.tokens for a in found), sum(a.cost_micro_usd for a in found))

    def fits(self, union, wanted):
        for one in union:
            spent, reserved = self.sums(one, "spent"), self.sums(one, "reserved")
            for name in ("calls", "tokens", "cost_micro_usd"):
                cap = getattr(one.caps, name)
                if cap != UNLIMITED and getattr(spent, name) + getattr(reserved, name) + getattr(wanted, name) > cap:
                    return False
        return True

    @rule(
        target=reservations,
        given=st.lists(accounts, min_size=1, max_size=3),
        wanted=amounts,
        lease=st.one_of(st.none(), st.integers(1, 40)),
    )
    def reserve(self, given, wanted, lease):
        self.lapse()
        union = set(all_accounts(given))
        deadline = min([one.deadline_ms for one in union] + ([] if lease is None else [lease]))
        more = {} if lease is None else {"deadline_ms": lease}
        named = {"calls": wanted.calls, "tokens": wanted.tokens, "cost_micro_usd": wanted.cost_micro_usd}
        if deadline <= self.now:
            with pytest.raises(Expired):
                self.ledger.reserve(given, **named, **more)
            return multiple()
        if not self.fits(union, wanted):
            self.refused += 1
            with pytest.raises(BudgetExceeded):
                self.ledger.reserve(given, **named, **more)
            return multiple()
        self.granted += 1
        self.made += 1
        made = self.ledger.reserve(given, **named, **more)
        entry = [union, wanted, "reserved", deadline]
        self.entries.append(entry)
        self.entry_of[made] = entry
        return made

    @rule(given=st.lists(accounts, min_size=1, max_size=3), wanted=amounts)
    def charge(self, given, wanted):
        self.lapse()
        union = set(all_accounts(given))
        named = {"calls": wanted.calls, "tokens": wanted.tokens, "cost_micro_usd": wanted.cost_micro_usd}
        if min(one.deadline_ms for one in union) <= self.now:
            with pytest.raises(Expired):
                self.ledger.charge(given, **named)
        elif self.fits(union, wanted):
            self.ledger.charge(given, **named)
            self.entries.append([union, wanted, "spent", 0])
        else:
            with pytest.raises(BudgetExceeded):
                self.ledger.charge(given, **named)

    @precondition(lambda self: self.made)
    @rule(reservation=reservations, share=st.sampled_from([0, 1, 2]))
    def settle(self, reservation, share):
        self.lapse()
        entry = self.entry_of.pop(reservation, None)
        whole = reservation.amounts
        actual = Amounts(whole.calls * share // 2, whole.tokens * share // 2, whole.cost_micro_usd * share // 2)
        named = {"calls": actual.calls, "tokens": actual.tokens, "cost_micro_usd": actual.cost_micro_usd}
        if entry is None:
            with pytest.raises(ConstraintError):
                self.ledger.settle(reservation, **named)
            return
        assert self.ledger.settle(reservation, **named) == NOTHING_SPENT
        entry[1], entry[2] = actual, "spent"

    @precondition(lambda self: self.made)
    @rule(reservation=reservations)
    def release(self, reservation):
        self.lapse()
        entry = self.entry_of.pop(reservation, None)
        if entry is None:
            with pytest.raises(ConstraintError):
                self.ledger.release(reservation)
            return
        self.ledger.release(reservation)
        entry[1], entry[2] = NOTHING_SPENT, "spent"

    @precondition(lambda self: self.now < 45)
    @rule(by=st.integers(1, 15))
    def time_passes(self, by):
        self.now += by

    @invariant()
    def every_sum_is_exact_and_within_its_cap(self):
        self.lapse()
        for one in self.known:
            balance = self.ledger.balance(one)
            assert balance.spent == self.sums(one, "spent")
            assert balance.reserved == self.sums(one, "reserved")
            for name in ("calls", "tokens", "cost_micro_usd"):
                cap, spent, reserved = getattr(one.caps, name), getattr(balance.spent, name), getattr(balance.reserved, name)
                assert spent >= 0
                assert reserved >= 0
                assert cap == UNLIMITED or spent + reserved <= cap


TestBooks = Books.TestCase
TestBooks.settings = settings(max_examples=20, stateful_step_count=30)


@pytest.mark.slow
def test_the_machine_grants_and_refuses_often_enough():
    """Else the law above would hold for empty reasons."""
    granted = refused = 0

    class Counting(Books):
        def teardown(self):
            nonlocal granted, refused
            granted += self.granted
            refused += self.refused

    case = Counting.TestCase()
    case.settings = settings(max_examples=30, stateful_step_count=30, derandomize=True, database=None)
    case.runTest()
    assert granted > 30
    assert refused > 10


def test_a_step_within_a_step_is_refused_and_hangs_nobody() -> None:
    """As where a collection in the middle of a step runs a finaliser that settles something."""
    caught: list[BaseException] = []

    def clock() -> int:
        try:
            ledger.sweep()
        except ConstraintError as error:
            caught.append(error)
        return 1

    ledger = Ledger(clock)
    ledger.reserve((), calls=1, deadline_ms=2)
    assert "in the middle of a step" in str(caught[0])
    ledger.release(ledger.reserve((), calls=1, deadline_ms=2))  # the next step is one like any other
