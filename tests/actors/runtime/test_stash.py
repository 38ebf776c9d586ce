"""Stash: mail set aside inside an actor, bounded, and brought back in its order."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from typing import Any

import pytest
import trio
from trio.testing import MockClock

import retinue as rt
from core_hosts import conserved, reasons
from core_puppet import Call, Puppet
from retinue.actors.runtime import stepping


@rt.message
class Open(rt.Request[int]):
    """From now on jobs are done; those that were set aside first."""


@rt.message
class Job(rt.Request[str]):
    number: int


@rt.message
class Jobs(rt.Request[list[int]]):
    """Which jobs were done, in their order."""


class Door(rt.Actor):
    """Sets jobs aside until it is open."""

    def __init__(self) -> None:
        self.open = False
        self.done: list[int] = []

    @rt.handler
    def on_open(self, _: Open) -> int:
        self.open = True
        return self.ctx.unstash_all()

    @rt.handler
    def job(self, message: Job) -> str:
        if not self.open:
            self.ctx.stash()
            return "not yet"
        self.done.append(message.number)
        return f"job {message.number} done"

    @rt.handler
    def jobs(self, _: Jobs) -> list[int]:
        return self.done


class AsyncDoor(Door):
    @rt.handler
    async def job(self, message: Job) -> str:
        await trio.lowlevel.checkpoint()
        return super().job(message)


@pytest.fixture(params=["inline", "by workers", "seeded"])
def system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> rt.ActorSystem:
    if request.param == "by workers":
        monkeypatch.setattr(stepping, "supported", lambda: False)
    return rt.ActorSystem("stash", block_warning=math.inf, seed=4 if request.param == "seeded" else None)


@pytest.fixture(params=[Door, AsyncDoor])
def door(request: pytest.FixtureRequest) -> type[Door]:
    found = request.param
    assert isinstance(found, type)
    return found


async def test_stashed_messages_come_back_in_their_order_and_before_those_that_wait(system: rt.ActorSystem, door: type[Door]) -> None:
    async with system:
        ref = await system.spawn(door)
        for number in range(3):
            ref.tell(Job(number))
        await system.wait_quiet()
        assert await ref.ask(Jobs()) == []
        ref.tell(Open())
        ref.tell(Job(3))
        ref.tell(Job(4))
        await system.wait_quiet()
        assert await ref.ask(Jobs()) == [0, 1, 2, 3, 4]
        assert conserved(system)


async def test_unstash_says_how_many(system: rt.ActorSystem, door: type[Door]) -> None:
    async with system:
        ref = await system.spawn(door)
        assert await ref.ask(Open()) == 0
        other = await system.spawn(door)
        other.tell(Job(1))
        other.tell(Job(2))
        assert await other.ask(Open()) == 2
        assert conserved(system)


async def test_the_asker_of_a_stashed_request_gets_its_answer_in_the_end(system: rt.ActorSystem, door: type[Door]) -> None:
    async with system, trio.open_nursery() as nursery:
        ref = await system.spawn(door)
        answers: list[str] = []

        async def ask(number: int) -> None:
            answers.append(await ref.ask(Job(number)))

        for number in range(5):
            nursery.start_soon(ask, number)
        await trio.testing.wait_all_tasks_blocked()
        assert answers == []
        await ref.ask(Open())
        await trio.testing.wait_all_tasks_blocked()
        assert sorted(answers) == [f"job {number} done" for number in range(5)]
        assert conserved(system)


async def test_a_stashed_request_keeps_its_deadline(system: rt.ActorSystem, door: type[Door], autojump_clock: MockClock) -> None:
    async with system:
        ref = await system.spawn(door)
        with pytest.raises(rt.AskTimeout):
            await ref.ask(Job(1), timeout=1)
        assert trio.current_time() == 1
        await ref.ask(Open())
        assert await ref.ask(Jobs()) == []  # nobody waits for it any more
        assert reasons(system) == {"expired": 1}
        assert conserved(system)


async def test_a_cancelled_asker_withdraws_its_stashed_request(system: rt.ActorSystem, door: type[Door], autojump_clock: MockClock) -> None:
    async with system:
        ref = await system.spawn(door)
        with trio.move_on_after(1):
            await ref.ask(Job(1))
        ref.tell(Job(2))
        await ref.ask(Open())
        await system.wait_quiet()
        assert await ref.ask(Jobs()) == [2]
        assert reasons(system) == {"withdrawn": 1}
        assert conserved(system)


async def test_the_stash_holds_as_many_as_the_mailbox(system: rt.ActorSystem, door: type[Door], autojump_clock: MockClock) -> None:
    async with system:
        ref = await system.spawn(door, mailbox=rt.Mailbox.bounded(3), supervision=rt.Supervision(on={rt.MailboxFull: "resume"}))
        for number in range(5):
            await ref.send(Job(number))
            await system.wait_quiet()
        assert reasons(system) == {"poison": 2}
        assert system.statistics().queued == 3
        await ref.ask(Open())
        await system.wait_quiet()
        assert await ref.ask(Jobs()) == [0, 1, 2]
        assert conserved(system)


async def test_the_full_stash_says_where_and_what_to_do(system: rt.ActorSystem, autojump_clock: MockClock) -> None:
    async with system:
        ref = await system.spawn(Door, name="door", mailbox=rt.Mailbox.bounded(1))
        ref.tell(Job(1))
        await system.wait_quiet()
        with pytest.raises(rt.MailboxFull, match=r"/user/door has stashed 1 .* unstash"):
            await ref.ask(Job(2))


async def test_stashed_messages_survive_a_restart(system: rt.ActorSystem, door: type[Door], autojump_clock: MockClock) -> None:
    class Fragile(door):  # type: ignore[valid-type, misc]
        @rt.handler
        def call(self, message: Call) -> Any:
            return message.script(self)

    def fail(_: Any) -> None:
        raise ValueError("restart me")

    async with system:
        ref = await system.spawn(Fragile)
        for number in range(3):
            ref.tell(Job(number))
        ref.tell(Call(fail))
        await trio.sleep(1)
        assert system.statistics().queued == 3  # handed to the new instance, which has set them aside again
        await ref.ask(Open())
        await system.wait_quiet()
        assert await ref.ask(Jobs()) == [0, 1, 2]
        assert conserved(system)


async def test_stashed_messages_are_dead_letters_when_the_actor_stops(system: rt.ActorSystem, door: type[Door]) -> None:
    async with system, trio.open_nursery() as nursery:
        ref = await system.spawn(door)
        errors: list[str] = []

        async def ask() -> None:
            try:
                await ref.ask(Job(1))
            except rt.ActorStopped as error:
                errors.append(type(error).__name__)

        nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
        ref.tell(Job(2))
        await system.wait_quiet()
        await ref.stop()
        await trio.testing.wait_all_tasks_blocked()
        assert errors == ["ActorStopped"]
        assert reasons(system) == {"stopped": 2}
        assert conserved(system)


async def test_what_cannot_be_stashed_is_told(system: rt.ActorSystem) -> None:
    texts: list[str] = []

    def twice(actor: Puppet) -> None:
        actor.ctx.stash()
        try:
            actor.ctx.stash()
        except rt.DefinitionError as error:
            texts.append(str(error))

    class Early(rt.Actor):
        def on_start(self) -> None:
            self.ctx.stash()

    async with system:
        ref = await system.spawn(Puppet)
        ref.tell(Call(twice))
        await system.wait_quiet()
        assert "before" in texts[0]
        with pytest.raises(rt.DefinitionError, match="no current message"):
            await system.spawn(Early)


async def test_a_stash_in_a_priority_mailbox_comes_back_first(system: rt.ActorSystem) -> None:
    async with system:
        ref = await system.spawn(Door, mailbox=rt.Mailbox.priority(lambda message: -getattr(message, "number", 0)))
        ref.tell(Job(1))
        await system.wait_quiet()
        ref.tell(Open())
        ref.tell(Job(2))
        await system.wait_quiet()
        assert await ref.ask(Jobs()) == [1, 2]
        assert conserved(system)


async def test_the_sender_and_the_context_of_a_stashed_message_are_kept(system: rt.ActorSystem) -> None:
    seen: list[Any] = []

    def stash_once(actor: Puppet) -> None:
        seen.append((actor.ctx.sender, actor.ctx.security.subject))
        if len(seen) == 1:
            actor.ctx.stash()

    async with system:
        ref, other = await system.spawn(Puppet), await system.spawn(Puppet)
        ada = system.authority.mint("ada", ["**"])
        await other.ask(Call(lambda _: ref.tell(Call(stash_once))), context=ada)
        await system.wait_quiet()
        await ref.ask(Call(lambda actor: actor.ctx.unstash_all()))
        await system.wait_quiet()
        assert seen == [(other, "ada"), (other, "ada")]


async def test_a_stream_between_stashed_jobs_is_no_trouble(system: rt.ActorSystem) -> None:
    @rt.message
    class Count(rt.Stream[int]):
        pass

    class Both(Door):
        @rt.handler
        async def count(self, _: Count) -> AsyncIterator[int]:
            yield 1
            self.open = True
            yield self.ctx.unstash_all()

    async with system:
        ref = await system.spawn(Both)
        ref.tell(Job(1))
        async with ref.stream(Count()) as items:
            assert [item async for item in items] == [1, 1]
        assert await ref.ask(Jobs()) == [1]
        assert conserved(system)
