"""`ctx.budget.lease`: a reservation that waits where only such leases of others are in the way."""

from __future__ import annotations

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

import retinue as rt


@rt.message
class Take(rt.Request[int]):
    tokens: int


class Taker(rt.Actor):
    """Leases tokens, holds them until it is told to go on, and settles with half of them."""

    def __init__(self, log: list[str], go_on: trio.Event) -> None:
        self.log = log
        self.go_on = go_on

    @rt.handler
    async def take(self, message: Take) -> int:
        budget = self.ctx.budget
        lease = await budget.lease(tokens=message.tokens)
        self.log.append(f"{self.ctx.path} has {message.tokens}")
        await self.go_on.wait()
        budget.settle(lease, tokens=message.tokens // 2)
        return message.tokens // 2


async def test_a_lease_of_amounts_waits_for_another_and_has_what_that_gives_back() -> None:
    log: list[str] = []
    async with rt.ActorSystem("leases") as system:
        ada = system.authority.mint("ada", ["**", rt.limit(tokens=100)])
        events = [trio.Event(), trio.Event()]
        one = await system.spawn(Taker, log, events[0], name="one")
        two = await system.spawn(Taker, log, events[1], name="two")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: one.ask(Take(80), context=ada))
            await wait_all_tasks_blocked()
            nursery.start_soon(lambda: two.ask(Take(60), context=ada))
            await wait_all_tasks_blocked()
            assert log == ["/user/one has 80"]  # 20 are left
            events[0].set()
            await wait_all_tasks_blocked()
            assert log == ["/user/one has 80", "/user/two has 60"]
            events[1].set()
        [balance] = await system.budgets.balance(ada)
        assert (balance.spent.tokens, balance.reserved.tokens) == (70, 0)
        with pytest.raises(rt.BudgetExceeded):
            await one.ask(Take(31), context=ada)


@pytest.mark.parametrize("tokens", [-1, 2.5, True, "4", None], ids=repr)
async def test_what_is_no_amount_cannot_be_leased(tokens: object) -> None:
    async with rt.ActorSystem("leases") as system:
        one = await system.spawn(Taker, [], trio.Event())
        with pytest.raises(rt.ConstraintError):
            await one.ask(Take(tokens))  # type: ignore[arg-type]
