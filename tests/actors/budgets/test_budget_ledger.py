"""The ledger as an actor: exact under real concurrency, from blocking actors too, and whatever is cancelled."""

import pytest
import trio
import trio.testing

import retinue as rt
import retinue.testing as rtt
from retinue.actors.budgets.ledger import BudgetLedger, reserving
from retinue.actors.budgets.messages import Balances, Release, Reserve, Settle
from retinue.capabilities.budgets import Ledger
from retinue.security.accounts import NOTHING_SPENT, Amounts
from retinue.security.errors import BudgetExceeded, ConstraintError, Expired
from retinue.security.restrictions import expires, limit


@rt.message
class Spend(rt.Request[bool]):
    times: int = 1


class Spender(rt.Actor):
    """Reserves, waits a little, settles."""

    def __init__(self, ledger):
        self.ledger = ledger

    @rt.handler
    async def spend(self, message: Spend) -> bool:
        try:
            async with reserving(self.ledger, calls=message.times) as tab:
                await trio.sleep(0.001)
                tab.use(calls=message.times)
        except BudgetExceeded:
            return False
        return True


class BlockingSpender(rt.Actor, blocking=True):
    def __init__(self, ledger):
        self.ledger = ledger

    @rt.handler
    def spend(self, message: Spend) -> bool:
        request = Reserve(calls=message.times)
        try:
            self.ctx.ask(self.ledger, request)
        except BudgetExceeded:
            return False
        self.ctx.ask(self.ledger, Settle(request.key, calls=message.times))
        return True


async def test_a_hundred_concurrent_reservations_over_a_budget_for_ten_give_exactly_ten():
    async with rt.ActorSystem("budget") as system:
        ledger = await system.spawn(BudgetLedger, Ledger(system.authority.now_ms), name="ledger")
        spenders = [await system.spawn(Spender, ledger) for _ in range(50)]
        spenders += [await system.spawn(BlockingSpender, ledger) for _ in range(5)]
        ada = system.authority.mint("ada", ["**", limit(calls=10)])
        kinds = [ada.narrow(limit(calls=8)) for _ in range(5)]
        results: list[bool] = []

        async def one(number: int) -> None:
            results.append(await spenders[number % len(spenders)].ask(Spend(), context=kinds[number % 5]))

        async with trio.open_nursery() as nursery:
            for number in range(100):
                nursery.start_soon(one, number)
        assert results.count(True) == 10
        (balance,) = await ledger.ask(Balances(), context=ada)
        assert (balance.spent.calls, balance.reserved.calls, balance.remaining.calls) == (10, 0, 0)


@pytest.mark.parametrize("after", range(12))
async def test_whatever_is_cancelled_nothing_stays_reserved(after):
    async with rt.ActorSystem("budget") as system:
        books = Ledger(system.authority.now_ms)
        ledger = await system.spawn(BudgetLedger, books, name="ledger")
        context = system.authority.mint("ada", ["**", limit(tokens=1_000)])
        (account,) = context.accounts
        entered = []

        async def work() -> None:
            async with reserving(ledger, tokens=10) as tab:
                entered.append(tab)
                for _ in range(20):
                    await trio.lowlevel.checkpoint()

        class Worker(rt.Actor):
            @rt.handler
            async def run_it(self, message: Spend) -> bool:
                await work()
                return True

        worker = await system.spawn(Worker, name="worker")
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:

                async def ask() -> None:
                    await worker.ask(Spend(), context=context)

                nursery.start_soon(ask)
                for _ in range(after):
                    await trio.lowlevel.checkpoint()
                scope.cancel()
        await trio.testing.wait_all_tasks_blocked(0.01)  # the worker has ended its turn, the ledger has heard of it
        balance = books.balance(account)
        assert balance.reserved == NOTHING_SPENT
        assert balance.spent.tokens == (10 if entered else 0), "what nobody told of counts as spent, what was never begun does not"


async def test_the_accounts_are_those_of_the_message_and_of_nobody_else():
    async with rt.ActorSystem("budget") as system:
        ledger = await system.spawn(BudgetLedger, Ledger(system.authority.now_ms), name="ledger")
        ada = system.authority.mint("ada", ["**", limit(tokens=100)])
        eve = system.authority.mint("eve", ["**"])
        request = Reserve(tokens=60)
        await ledger.ask(request, context=ada)
        with pytest.raises(ConstraintError, match="made under another context"):
            await ledger.ask(Settle(request.key), context=eve)
        assert await ledger.ask(Release(request.key), context=eve) is False
        assert await ledger.ask(Balances(), context=eve) == ()
        with pytest.raises(BudgetExceeded):
            await ledger.ask(Reserve(tokens=41), context=ada.narrow(limit(tokens=90)))
        assert await ledger.ask(Settle(request.key, tokens=5), context=ada.narrow(rt.deny("fs.**"))) == NOTHING_SPENT
        (balance,) = await ledger.ask(Balances(), context=ada)
        assert (balance.spent, balance.reserved) == (Amounts(0, 5, 0), NOTHING_SPENT)
        with pytest.raises(ConstraintError, match="no reservation of this key"):
            await ledger.ask(Settle(request.key, tokens=5), context=ada)


def test_one_key_names_one_reservation():
    ledger = rtt.BehaviorTest(BudgetLedger, Ledger())
    ada = ledger.authority.mint("ada", ["**", limit(tokens=100)])
    ledger.ask(Reserve(tokens=60, key="mine"), context=ada)
    with pytest.raises(ConstraintError, match="already"):
        ledger.ask(Reserve(tokens=1, key="mine"), context=ada)
    assert ledger.ask(Release("mine"), context=ada) is True
    assert ledger.ask(Release("mine"), context=ada) is False
    for odd in ("", "x" * 256, 3, None):
        with pytest.raises(ConstraintError):
            ledger.ask(Reserve(key=odd), context=ada)


@pytest.mark.parametrize("odd", [-1, 1.5, True, "1", 2**63])
def test_odd_amounts_are_answers_and_no_failure_of_the_actor(odd):
    ledger = rtt.BehaviorTest(BudgetLedger, Ledger())
    ada = ledger.authority.mint("ada", ["**", limit(tokens=100)])
    ledger.ask(Reserve(tokens=60, key="mine"), context=ada)
    for message in (Reserve(tokens=odd), Reserve(seconds=odd), Settle("mine", tokens=odd)):
        with pytest.raises(ConstraintError):
            ledger.ask(message, context=ada)
        assert [type(effect) for effect in ledger.effects] == [rtt.Replied]
    assert ledger.ask(Settle("mine", tokens=60), context=ada) == NOTHING_SPENT


async def test_a_reservation_that_nobody_settles_counts_as_spent_after_its_time():
    now = [1_000]
    async with rt.ActorSystem("budget") as system:
        books = Ledger(lambda: now[0])
        ledger = await system.spawn(BudgetLedger, books, name="ledger")
        ada = system.authority.mint("ada", ["**", limit(tokens=100)])
        request = Reserve(tokens=60, seconds=5)
        await ledger.ask(request, context=ada)
        now[0] = 6_000
        (balance,) = await ledger.ask(Balances(), context=ada)
        assert (balance.spent.tokens, balance.reserved.tokens) == (60, 0)
        await ledger.ask(Settle(request.key, tokens=7), context=ada)
        (balance,) = await ledger.ask(Balances(), context=ada)
        assert balance.spent.tokens == 7


async def test_settling_without_an_amount_counts_the_whole_reservation():
    async with rt.ActorSystem("budget") as system:
        ledger = await system.spawn(BudgetLedger, Ledger(system.authority.now_ms), name="ledger")
        ada = system.authority.mint("ada", ["**", limit(calls=1_000, tokens=100)])
        request = Reserve(calls=2, tokens=60)
        await ledger.ask(request, context=ada)
        await ledger.ask(Settle(request.key, tokens=7), context=ada)
        (balance,) = await ledger.ask(Balances(), context=ada)
        assert (balance.spent, balance.reserved) == (Amounts(2, 7, 0), NOTHING_SPENT)
        reservation = await system.budgets.reserve(ada, tokens=50)
        await system.budgets.settle(reservation)
        assert (await system.budgets.balance(ada))[0].spent.tokens == 57


async def test_under_a_context_that_has_expired_nothing_is_reserved():
    async with rt.ActorSystem("budget") as system:
        ledger = await system.spawn(BudgetLedger, Ledger(system.authority.now_ms), name="ledger")
        ada = system.authority.mint("ada", ["**", limit(tokens=100), expires(seconds=0.001)])
        await trio.sleep(0.01)
        with pytest.raises(Expired):
            await ledger.ask(Reserve(tokens=1), context=ada)


async def test_open_reservations_are_bounded_and_expired_ones_make_room(monkeypatch):
    monkeypatch.setattr("retinue.actors.budgets.ledger.MAX_OPEN", 3)
    now = [1_000]
    async with rt.ActorSystem("budget") as system:
        ledger = await system.spawn(BudgetLedger, Ledger(lambda: now[0]), name="ledger")
        for _ in range(3):
            await ledger.ask(Reserve(tokens=1, seconds=1))
        with pytest.raises(BudgetExceeded, match="3 reservations are open"):
            await ledger.ask(Reserve(tokens=1))
        now[0] = 2_000
        await ledger.ask(Reserve(tokens=1))


async def test_the_block_is_settled_with_what_it_says_and_whole_where_it_says_nothing():
    async with rt.ActorSystem("budget") as system:
        books = Ledger()
        ledger = await system.spawn(BudgetLedger, books, name="ledger")
        root = system.authority.root
        del root

        class Worker(rt.Actor):
            @rt.handler
            async def work(self, message: Spend) -> bool:
                try:
                    async with reserving(ledger, tokens=50) as tab:
                        assert tab.used is None
                        if message.times:
                            tab.use(tokens=3)
                            tab.use(tokens=message.times)
                        raise KeyError("work fails")
                except KeyError:
                    return True

        worker = await system.spawn(Worker)
        for times, spent in ((2, 5), (0, 55)):
            ada = system.authority.mint("ada", ["**", limit(tokens=100)]) if times else ada  # noqa: F821
            await worker.ask(Spend(times), context=ada)
            (balance,) = await ledger.ask(Balances(), context=ada)
            assert (balance.spent.tokens, balance.reserved.tokens) == (spent, 0)


class OwnSpender(rt.Actor, blocking=True):
    """Reserves in its own thread, without the actor."""

    @rt.handler
    def spend(self, message: Spend) -> bool:
        try:
            self.ctx.budget.settle(self.ctx.budget.reserve(calls=message.times))
        except BudgetExceeded:
            return False
        return True


async def test_the_actor_stands_before_the_ledger_that_blocking_actors_use_too():
    async with rt.ActorSystem("budget") as system:
        ledger = await system.spawn(BudgetLedger, name="ledger")
        spenders = [await system.spawn(kind, *birth) for kind, *birth in [(Spender, ledger), (OwnSpender,)] * 4]
        ada = system.authority.mint("ada", ["**", limit(calls=10)])
        results: list[bool] = []

        async def spend(number: int) -> None:
            results.append(await spenders[number % len(spenders)].ask(Spend(), context=ada))

        async with trio.open_nursery() as nursery:
            for number in range(100):
                nursery.start_soon(spend, number)
        await system.wait_quiet()
        assert results.count(True) == 10
        (balance,) = await system.budgets.balance(ada)
        assert (balance.spent.calls, balance.reserved.calls) == (10, 0)
        assert (await ledger.ask(Balances(), context=ada))[0].spent.calls == 10
