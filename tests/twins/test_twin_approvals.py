"""`system.approvals` of the two twins: a person decides in a plain script, or under asyncio."""

from __future__ import annotations

import asyncio
import inspect
import threading
from typing import Any

import pytest

import retinue as rt
import retinue.aio
import retinue.sync
from retinue._twin_approvals import AioApprovals, SyncApprovals
from retinue.actors.approvals.book import SystemApprovals


@rt.message
class Pay(rt.Request[str]):
    to: str
    cents: int


class Bank(rt.Actor):
    @rt.handler(requires="payments.send", approval=True)
    def pay(self, message: Pay) -> str:
        assert self.ctx.approval is not None
        return f"{message.cents} to {message.to}, as {self.ctx.approval.approver} says"


class Careless(rt.Actor):
    """Has got hold of a twin, and would approve what it asks for itself."""

    def __init__(self, found: list[Any]) -> None:
        self.found = found

    @rt.handler
    def pay(self, _: Pay) -> str:
        return str(self.found[0].approvals.pending())


def test_a_script_asks_approves_and_pays() -> None:
    with retinue.sync.ActorSystem() as system:
        bank = system.spawn(Bank)
        ada = system.authority.mint("ada", ["payments.send"])
        with pytest.raises(rt.ApprovalRequired) as caught:
            bank.ask(Pay("ACME", 40), context=ada)
        request = caught.value.request
        assert [one.id for one in system.approvals.pending()] == [request.id]
        token = system.approvals.approve(request.id, reviewer="bob")
        assert bank.ask(Pay("ACME", 40), context=ada, approvals=[token]) == "40 to ACME, as bob says"
        with pytest.raises(rt.Denied) as again:
            bank.ask(Pay("ACME", 40), context=ada, approvals=[token])
        assert again.value.reason == "spent"
        assert system.approvals.get(request.id).status == "approved"


def test_a_script_waits_in_one_thread_and_decides_in_another() -> None:
    with retinue.sync.ActorSystem() as system:
        bank = system.spawn(Bank)
        with pytest.raises(rt.ApprovalRequired) as caught:
            bank.ask(Pay("ACME", 40))
        request = caught.value.request
        found: list[str] = []
        events = system.approvals.watch()
        waiting = threading.Thread(target=lambda: found.append(system.approvals.wait(request.id, timeout=20).status))
        waiting.start()
        system.approvals.reject(request.id, reviewer="bob", note="no")
        waiting.join(20)
        assert found == ["rejected"]
        assert inspect.isgenerator(events)
        events.close()


def test_a_handler_that_has_got_hold_of_a_twin_decides_nothing() -> None:
    found: list[Any] = []
    with retinue.sync.ActorSystem() as system:
        found.append(system)
        careless = system.spawn(Careless, found)
        with pytest.raises(rt.WrongThread):
            careless.ask(Pay("ACME", 40))


def test_under_asyncio_it_is_the_same() -> None:
    async def main() -> None:
        async with retinue.aio.ActorSystem() as system:
            bank = await system.spawn(Bank)
            ada = system.authority.mint("ada", ["payments.send"])
            with pytest.raises(rt.ApprovalRequired) as caught:
                await bank.ask(Pay("ACME", 40), context=ada)
            request = caught.value.request
            assert [one.id for one in await system.approvals.pending()] == [request.id]
            watched = system.approvals.watch(after=0)
            assert (await asyncio.wait_for(anext(watched), 20)).request_id == request.id
            await watched.aclose()
            token = await system.approvals.approve(request.id, reviewer="bob")
            assert await bank.ask(Pay("ACME", 40), context=ada, approvals=[token]) == "40 to ACME, as bob says"
            with pytest.raises(rt.AskTimeout):
                other = (await _required(bank.ask(Pay("ACME", 41), context=ada))).request
                await system.approvals.wait(other.id, timeout=0.1)

    asyncio.run(main())


async def _required(asked: Any) -> rt.ApprovalRequired:
    with pytest.raises(rt.ApprovalRequired) as caught:
        await asked
    return caught.value


@pytest.mark.parametrize("twin", [SyncApprovals, AioApprovals])
def test_a_twin_has_every_method_with_the_same_parameters(twin: type) -> None:
    names = [name for name, value in vars(SystemApprovals).items() if inspect.isfunction(value) and not name.startswith("_")]
    assert len(names) > 15
    for name in names:
        core, own = inspect.signature(getattr(SystemApprovals, name)), inspect.signature(getattr(twin, name))
        assert [(one.name, one.kind, one.default) for one in core.parameters.values()] == [
            (one.name, one.kind, one.default) for one in own.parameters.values()
        ], name
