"""A budget of calls is exact at the gate of a running system, whatever runs at once and whatever is cancelled."""

import pytest
import trio

import retinue as rt
from retinue.security.restrictions import limit


@rt.message
class Pay(rt.Request[int]):
    amount: int = 1


@rt.message
class Order(rt.Request[int]):
    pass


class Bank(rt.Actor):
    def __init__(self):
        self.paid = 0

    @rt.handler(requires="payments.send")
    async def pay(self, message: Pay) -> int:
        self.paid += 1
        await trio.lowlevel.checkpoint()
        return self.paid


class BlockingBank(rt.Actor, blocking=True):
    def __init__(self):
        self.paid = 0

    @rt.handler(requires="payments.send")
    def pay(self, message: Pay) -> int:
        self.paid += 1
        return self.paid


class Shop(rt.Actor):
    def __init__(self, banks):
        self.banks = banks

    @rt.handler(raises=rt.BudgetExceeded)
    async def order(self, message: Order) -> int:
        return await self.banks[id(message) // 64 % len(self.banks)].ask(Pay())


@rt.policy(operations=["payments.**"])
async def thinking(call):
    await trio.sleep(0.001)
    return rt.Verdict.allow()


@pytest.mark.parametrize("policies", [(), (thinking,)], ids=["no policy", "an asynchronous policy"])
async def test_a_hundred_concurrent_calls_over_a_budget_for_ten_are_exactly_ten(policies):
    async with rt.ActorSystem("calls", policies=policies) as system:
        banks = [await system.spawn(kind) for kind in (Bank, Bank, BlockingBank, BlockingBank)]
        shops = [await system.spawn(Shop, banks) for _ in range(20)]
        ada = system.authority.mint("ada", ["**", limit(calls=10)])
        below = [ada.narrow(limit(calls=8)) for _ in range(4)]
        results: list[bool] = []

        async def one(number: int) -> None:
            target, message = (shops[number % 20], Order()) if number % 2 else (banks[number // 2 % 4], Pay())
            try:
                await target.ask(message, context=below[number % 4])
            except rt.BudgetExceeded:
                results.append(False)
            else:
                results.append(True)

        async with trio.open_nursery() as nursery:
            for number in range(100):
                nursery.start_soon(one, number)
        assert len(results) == 100
        assert results.count(True) == 10
        (account,) = ada.accounts
        assert (account.spent.calls, account.reserved.calls) == (10, 0)
        assert sum(below_one.accounts[0].spent.calls for below_one in below) == 10


@pytest.mark.parametrize("policies", [(), (thinking,)], ids=["no policy", "an asynchronous policy"])
@pytest.mark.parametrize("after", range(8))
async def test_whatever_is_cancelled_what_is_charged_is_what_was_begun(policies, after):
    async with rt.ActorSystem("calls", policies=policies) as system:
        counted = []

        class Counting(Bank):
            @rt.handler(requires="payments.send")
            async def pay(self, message: Pay) -> int:
                counted.append(message)
                await trio.sleep(0.002)
                return 1

        banks = [await system.spawn(Counting) for _ in range(3)]
        ada = system.authority.mint("ada", ["**", limit(calls=5)])

        async def ask(bank) -> None:
            try:
                await bank.ask(Pay(), context=ada)
            except rt.BudgetExceeded:
                pass

        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                for number in range(9):
                    nursery.start_soon(ask, banks[number % 3])
                for _ in range(after):
                    await trio.sleep(0.001 if policies else 0)
                scope.cancel()
        await trio.sleep(0.02)
        (account,) = ada.accounts
        assert account.spent.calls == len(counted) <= 5
        assert account.reserved.calls == 0
