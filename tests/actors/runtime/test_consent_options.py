"""What a handler may say of consent, and what may be sent as one."""

from __future__ import annotations

from typing import Any

import pytest
import trio

import retinue as rt
from consent_actors import WAYS, Plain, Worker
from core_authority import error_of
from core_hosts import conserved
from fake_desk import FakeDesk, with_desk


async def test_a_predicate_decides_message_by_message() -> None:
    class Picky(rt.Actor):
        @rt.handler(requires="work.plain", approval=lambda message: message.text != "small")
        def plain(self, message: Plain) -> str:
            return message.text

    async with rt.ActorSystem() as system:
        desk = with_desk(system, FakeDesk())
        picky = await system.spawn(Picky)
        for _ in range(3):
            assert await picky.ask(Plain("small")) == "small"
            assert isinstance(await error_of(picky.ask(Plain("large"))), rt.ApprovalRequired)
        assert len(desk.requests) == 3
        assert conserved(system)


async def test_a_predicate_runs_as_the_turn_that_it_decides_about() -> None:
    found: list[Any] = []

    def predicate(_: Any) -> bool:
        try:
            system.authority.mint("mallory", ["**"])
        except rt.Denied as error:
            found.append(error.reason)
        return False

    class Sly(rt.Actor):
        @rt.handler(requires="work.plain", approval=predicate)
        def plain(self, message: Plain) -> str:
            return message.text

    async with rt.ActorSystem() as system:
        with_desk(system, FakeDesk())
        sly = await system.spawn(Sly)
        assert await sly.ask(Plain()) == "plain"
        sly.tell(Plain())
        await system.wait_quiet()
    assert found == ["lineage", "lineage"]


@pytest.mark.parametrize("options", [{"approval": "yes"}, {"approval": None}, {"approval": 1}, {"four_eyes": "yes"}, {"four_eyes": None}])
def test_what_a_handler_says_of_consent_is_a_bool_or_a_function(options: dict[str, Any]) -> None:
    with pytest.raises(rt.DefinitionError):
        rt.handler(requires="work.plain", **options)


def test_a_predicate_is_no_async_function() -> None:
    async def later(_: Any) -> bool:
        return False

    with pytest.raises(rt.DefinitionError, match="plain function"):
        rt.handler(requires="work.plain", approval=later)


@pytest.mark.parametrize("approvals", ["a token", b"a token", [b"a token"], [None], [1], {"a token": 1}, 3, ["a"] * 17])
async def test_what_is_sent_as_approvals_is_a_list_of_a_few_texts(approvals: Any) -> None:
    async with rt.ActorSystem() as system:
        desk = with_desk(system, FakeDesk())
        worker = await system.spawn(Worker, [])
        for way, send in WAYS.items():
            if way != "queued":
                assert isinstance(await error_of(send(worker, approvals=approvals)), rt.DefinitionError), way
        with pytest.raises(rt.DefinitionError):
            worker.tell(Plain(), approvals=approvals)
        with pytest.raises(rt.DefinitionError):
            await trio.to_thread.run_sync(lambda: worker.tell(Plain(), context=system.authority.root, approvals=approvals))
        assert desk.log == []
