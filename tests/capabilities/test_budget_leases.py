"""Leases of a ledger: who comes when others have leased what there is waits in order, and for nothing else."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, precondition, rule

from retinue.capabilities import budgets
from retinue.capabilities.budgets import Ledger, Queued, Reservation
from retinue.security.accounts import Account, Amounts
from retinue.security.errors import BudgetExceeded, ConstraintError, Expired
from retinue.security.limits import NEVER, UNLIMITED


def account(*parents: Account, tokens: int = UNLIMITED, cost: int = UNLIMITED, deadline_ms: int = NEVER) -> Account:
    return Account(parents, Amounts(UNLIMITED, tokens, cost), deadline_ms)


def just(tokens: int) -> Callable[[Amounts, Amounts], Amounts]:
    """Wants so many, whatever there is."""
    return lambda _left, _free: Amounts(tokens=tokens)


@pytest.fixture
def ledger() -> Ledger:
    return Ledger(lambda: 0)


def waits(found: object) -> Queued:
    assert isinstance(found, Queued)
    assert found.reservation is None
    assert found.error is None
    return found


def has(found: object) -> Reservation:
    """The reservation, had at once or by now."""
    if isinstance(found, Queued):
        found = found.reservation
    assert isinstance(found, Reservation)
    assert found.state == "open"
    return found


def test_who_comes_while_others_have_leased_it_all_gets_what_they_leave(ledger: Ledger) -> None:
    root = account(tokens=10)
    woken: list[str] = []
    first = has(ledger.lease([root], just(8)))
    second = waits(ledger.lease([root], just(5), wake=lambda: woken.append("second")))
    assert ledger.balance(root).reserved.tokens == 8
    ledger.settle(first, tokens=5)
    assert woken == ["second"]
    assert has(second).amounts.tokens == 5
    assert ledger.balance(root).remaining.tokens == 0


@pytest.mark.parametrize("before", ["spent", "reserved"])
def test_what_is_spent_or_reserved_otherwise_is_not_waited_for(ledger: Ledger, before: str) -> None:
    root = account(tokens=10)
    ledger.charge([root], tokens=6) if before == "spent" else ledger.reserve([root], tokens=6)
    lease = has(ledger.lease([root], just(1)))
    with pytest.raises(BudgetExceeded, match=r"5 wanted, 4 left of 10") as caught:
        ledger.lease([root], just(5))
    assert (caught.value.resource, caught.value.account) == ("tokens", root.id)
    waits(ledger.lease([root], just(4)))
    ledger.release(lease)


def test_who_waits_is_refused_once_what_was_leased_is_spent(ledger: Ledger) -> None:
    root = account(tokens=10)
    first = has(ledger.lease([root], just(8)))
    second = waits(ledger.lease([root], just(5)))
    ledger.settle(first, tokens=8)
    assert isinstance(second.error, BudgetExceeded)
    assert second.reservation is None
    assert ledger.balance(root).reserved.tokens == 0


def test_those_who_wait_are_served_in_order_and_nobody_overtakes(ledger: Ledger) -> None:
    root = account(tokens=10)
    first = has(ledger.lease([root], just(6)))
    large = waits(ledger.lease([root], just(9)))
    small = waits(ledger.lease([root], just(1)))  # it would fit at once
    ledger.settle(first, tokens=0)
    has(large)
    has(small)
    third = waits(ledger.lease([root], just(2)))
    ledger.settle(has(large), tokens=0)
    has(third)


def test_a_thousand_who_wait_behind_one_another_are_not_all_looked_at_for_each_that_is_served(ledger: Ledger) -> None:
    root = account(tokens=10)
    looks = 0

    def all_of_it(_left: Amounts, _free: Amounts) -> Amounts:
        nonlocal looks
        looks += 1
        return Amounts(tokens=10)

    first = has(ledger.lease([root], all_of_it))
    queue = [waits(ledger.lease([account(root, tokens=10)], all_of_it)) for _ in range(1_000)]
    came, looks = looks, 0
    assert came == 1_001
    ledger.settle(first, tokens=0)
    assert looks == 2  # the first, who has it now, and the next
    for one in queue[1:500]:
        ledger.withdraw(one)
    assert looks <= 2 + 499  # the next one, for each that leaves
    ledger.release(has(queue[0]))
    has(queue[500])
    waits(queue[501])


def test_one_who_leaves_the_queue_lets_those_through_who_waited_behind_it_alone(ledger: Ledger) -> None:
    root = account(tokens=10)
    has(ledger.lease([root], just(6)))
    large = waits(ledger.lease([root], just(9)))
    small, other = waits(ledger.lease([root], just(1))), waits(ledger.lease([root], just(2)))
    ledger.withdraw(large)
    has(small)
    has(other)


def test_who_waits_for_one_account_keeps_nobody_from_another(ledger: Ledger) -> None:
    root = account(tokens=100)
    narrow, other = account(root, tokens=5), account(root, tokens=50)
    has(ledger.lease([narrow], just(5)))
    waits(ledger.lease([narrow], just(1)))
    has(ledger.lease([other], just(50)))
    has(ledger.lease([root], just(45)))


def test_what_is_wanted_is_asked_as_if_nobody_else_had_leased_anything(ledger: Ledger) -> None:
    root = account(tokens=100, cost=7)
    seen: list[tuple[int, int]] = []

    def want(left: Amounts, free: Amounts) -> Amounts:
        assert (left.calls, left.cost_micro_usd, free.cost_micro_usd) == (UNLIMITED, 7, 7)
        seen.append((left.tokens, free.tokens))
        return Amounts(tokens=max(30, min(free.tokens, left.tokens // 2)))

    one = has(ledger.lease([root], want))
    two = has(ledger.lease([root], want))
    assert (one.amounts.tokens, two.amounts.tokens) == (50, 50)
    three = waits(ledger.lease([root], want))
    ledger.settle(one, tokens=20)
    assert has(three).amounts.tokens == 30
    assert seen == [(100, 100), (100, 50), (100, 0), (80, 30)]


def test_who_gives_up_waiting_lets_the_next_one_have_it(ledger: Ledger) -> None:
    root = account(tokens=10)
    has(ledger.lease([root], just(6)))
    large, small = waits(ledger.lease([root], just(9))), waits(ledger.lease([root], just(4)))
    ledger.withdraw(large)
    has(small)
    assert large.reservation is None
    ledger.withdraw(large)  # once more changes nothing
    assert ledger.balance(root).reserved.tokens == 10


def test_who_gives_up_when_it_has_come_already_gives_it_back(ledger: Ledger) -> None:
    root = account(tokens=10)
    first = has(ledger.lease([root], just(6)))
    second = waits(ledger.lease([root], just(6)))
    ledger.release(first)
    has(second)
    ledger.withdraw(second)
    assert ledger.balance(root).reserved.tokens == 0
    ledger.withdraw(second)


def test_who_waits_for_an_account_that_expires_is_told_so() -> None:
    now = 0
    ledger = Ledger(lambda: now)
    root = account(tokens=10)
    ending = account(root, deadline_ms=50)
    first = has(ledger.lease([root], just(6)))
    second = waits(ledger.lease([ending], just(6)))
    now = 60
    ledger.release(first)
    assert isinstance(second.error, Expired)
    with pytest.raises(Expired):
        ledger.lease([ending], just(1))


def test_a_lease_that_expires_counts_as_spent_until_it_is_settled_after_all() -> None:
    now = 0
    ledger = Ledger(lambda: now)
    root = account(tokens=10)
    lease = has(ledger.lease([root], just(8), deadline_ms=50))
    second = waits(ledger.lease([root], just(5)))
    now = 60
    assert ledger.balance(root).spent.tokens == 8
    with pytest.raises(BudgetExceeded):
        ledger.lease([root], just(5))
    ledger.settle(lease, tokens=1)
    assert has(second).amounts.tokens == 5
    assert ledger.balance(root).spent.tokens == 1


def test_how_many_wait_is_bounded(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budgets, "MOST_WAITING", 2)
    root = account(tokens=1)
    has(ledger.lease([root], just(1)))
    for _ in range(2):
        waits(ledger.lease([root], just(1)))
    with pytest.raises(BudgetExceeded, match="2 others wait"):
        ledger.lease([root], just(1))


@pytest.mark.parametrize(
    ("wanted", "resource"),
    [(Amounts(calls=1), "calls"), (Amounts(tokens=2), "tokens"), (Amounts(cost_micro_usd=1), "cost"), (Amounts(0, 1, 1), "cost")],
    ids=["calls", "tokens", "cost", "cost beside tokens"],
)
def test_who_comes_when_too_many_wait_is_told_what_they_wait_for(
    wanted: Amounts, resource: str, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budgets, "MOST_WAITING", 0)
    root = Account((), Amounts(1, 2, 1), NEVER)
    has(ledger.lease([root], lambda _left, _free: wanted))
    with pytest.raises(BudgetExceeded, match="0 others wait") as refused:
        ledger.lease([root], lambda _left, _free: wanted)
    assert (refused.value.resource, refused.value.account) == (resource, root.id)


def test_who_comes_behind_too_many_others_is_told_what_it_wanted(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budgets, "MOST_WAITING", 1)
    root = account(tokens=2, cost=5)
    has(ledger.lease([root], just(2)))
    waits(ledger.lease([root], just(1)))
    with pytest.raises(BudgetExceeded, match="1 others wait") as refused:
        ledger.lease([root], lambda _left, _free: Amounts(cost_micro_usd=1))  # it is there, but nobody overtakes
    assert refused.value.resource == "cost"


@pytest.mark.parametrize("odd", [Amounts(tokens=-1), Amounts(tokens=2**63), Amounts(tokens=1.5), Amounts(cost_micro_usd=True)])  # type: ignore[arg-type]
def test_odd_amounts_are_refused_and_change_nothing(ledger: Ledger, odd: Amounts) -> None:
    root = account(tokens=10)
    with pytest.raises(ConstraintError):
        ledger.lease([root], lambda _left, _free: odd)
    assert ledger.balance(root).reserved == Amounts()


def test_threads_that_wait_for_each_other_all_come_to_their_turn_and_never_have_too_much() -> None:
    ledger = Ledger()
    root = account(tokens=10_000)
    tight = account(root, tokens=400)
    most = 0
    lock = threading.Lock()
    held = 0

    def work(number: int) -> None:
        nonlocal held, most
        for turn in range(5):
            event = threading.Event()
            found = ledger.lease([tight], just(100 + number), wake=event.set)
            if isinstance(found, Queued):
                assert event.wait(20)
                found = found.reservation
            assert isinstance(found, Reservation)
            with lock:
                held += found.amounts.tokens
                most = max(most, held)
            with lock:
                held -= found.amounts.tokens
            ledger.settle(found, tokens=turn % 2)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not any(thread.is_alive() for thread in threads)
    assert most <= 400
    assert ledger.balance(root).spent.tokens == 12 * 2
    assert ledger.balance(root).reserved.tokens == 0


class Queue(RuleBasedStateMachine):
    """Whatever is leased, settled and given up: sums are exact, nobody waits for nothing, and nobody overtakes."""

    accounts = Bundle("accounts")
    leases = Bundle("leases")

    def __init__(self) -> None:
        super().__init__()
        self.ledger = Ledger(lambda: 0)
        self.known: list[Account] = []
        self.waiting: list[tuple[Queued, set[Account]]] = []
        self.open: list[Reservation | Queued] = []

    @initialize(target=accounts, cap=st.integers(0, 60))
    def root(self, cap: int) -> Account:
        made = account(tokens=cap)
        self.known.append(made)
        return made

    @rule(target=accounts, parent=accounts, cap=st.one_of(st.just(UNLIMITED), st.integers(0, 60)))
    def child(self, parent: Account, cap: int) -> Account:
        made = account(parent, tokens=cap)
        self.known.append(made)
        return made

    @rule(target=leases, given=accounts, wanted=st.integers(0, 30), share=st.sampled_from([0, 1, 2, 4]))
    def lease(self, given: Account, wanted: int, share: int) -> object:
        def want(left: Amounts, free: Amounts) -> Amounts:
            return Amounts(tokens=max(wanted, left.tokens // share) if share and left.tokens != UNLIMITED else wanted)

        try:
            found = self.ledger.lease([given], want)
        except BudgetExceeded:
            return multiple()
        self.open.append(found)
        return found

    @precondition(lambda self: self.open)
    @rule(found=consumes(leases), share=st.integers(0, 2), by=st.sampled_from(["settle", "release", "withdraw"]))
    def end(self, found: Reservation | Queued, share: int, by: str) -> None:
        self.open.remove(found)
        if isinstance(found, Queued):
            if found.error is not None:
                return
            if found.reservation is None or by == "withdraw":
                self.ledger.withdraw(found)
                assert found.reservation is None or found.reservation.state == "released"
                return
            found = found.reservation
        if by == "settle":
            self.ledger.settle(found, tokens=found.amounts.tokens * share // 2)
        else:
            self.ledger.release(found)

    @rule(given=accounts, tokens=st.integers(1, 10))
    def spend(self, given: Account, tokens: int) -> None:
        try:
            self.ledger.charge([given], tokens=tokens)
        except BudgetExceeded:
            pass

    @invariant()
    def sums_hold(self) -> None:
        for one in self.known:
            balance = self.ledger.balance(one)
            leased = self.ledger._leased.get(one, Amounts()).tokens
            assert balance.reserved.tokens == leased
            assert balance.caps.tokens == UNLIMITED or balance.spent.tokens + balance.reserved.tokens <= balance.caps.tokens

    @invariant()
    def nobody_waits_for_nothing(self) -> None:
        waiting = [one for one in self.open if isinstance(one, Queued) and one.reservation is None and one.error is None]
        assert list(self.ledger._waiting) == waiting
        if waiting:
            first = waiting[0]
            assert self.ledger._leased[first._behind].tokens > 0

    def teardown(self) -> None:
        for found in self.open:
            if isinstance(found, Reservation):
                self.ledger.release(found)
        while waiting := [one for one in self.open if isinstance(one, Queued)]:
            done = [one for one in waiting if one.error is not None or one.reservation is not None]
            assert done  # else somebody waits for ever
            for one in done:
                self.open.remove(one)
                if one.reservation is not None:
                    self.ledger.release(one.reservation)
        for one in self.known:
            assert self.ledger.balance(one).reserved == Amounts()


TestQueue = Queue.TestCase
TestQueue.settings = settings(max_examples=25, stateful_step_count=25)
