"""Contract point 6: each failure is charged once; an error that a handler got from its own ask and lets through is an answer there."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.lowlevel
import trio.testing
from trio.testing import MockClock

import retinue as rt
from core_actors import Boom, Break, Double, Forbidden, Hold, Note, Notes, Plain, Refuse, Unknown
from core_hosts import Host, conserved
from core_latch import Latch


@rt.message
class Through(rt.Request[int]):
    """Ask the next one to fail, in this way."""

    way: str = "plain"


class Link(Plain):
    """One link of a chain."""

    def __init__(self, following: rt.Ref[Any]) -> None:
        super().__init__()
        self.following = following

    @rt.handler
    async def through(self, message: Through) -> int:
        match message.way:
            case "plain":
                return await self.following.ask(Break())
            case "suspended":
                await trio.lowlevel.checkpoint()
                return await self.following.ask(Break())
            case "in a nursery":
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self.following.ask, Break())
                return 0
            case "raised again":
                try:
                    return await self.following.ask(Break())
                except Boom as error:
                    raise error from None
            case "another":
                try:
                    return await self.following.ask(Break())
                except Boom as error:
                    raise Boom("my own") from error
            case "alike":
                try:
                    return await self.following.ask(Break())
                except Boom:
                    pass
                raise Boom("my own")
            case "mixed":
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self.following.ask, Break())
                    nursery.start_soon(self.fail_alone)
                return 0
            case "denied":
                return await self.following.ask(Forbidden())
            case "refused":
                return await self.following.ask(Refuse())
            case "unhandled":
                return await self.following.ask(Unknown())
            case "cycle":
                return await self.ctx.ref.ask(Through())
            case "time-out":
                return await self.following.ask(Hold(), timeout=1)
            case "full":
                return await self.following.ask(Double(1), timeout=1)
            case "sent":
                await self.following.send(Note(1), timeout=1)
                return 0
        raise AssertionError(message.way)

    async def fail_alone(self) -> None:
        try:
            await trio.sleep_forever()
        finally:  # the other one has failed
            raise KeyError("alone")


def charges(system: rt.ActorSystem) -> dict[str, int]:
    return {actor.path.removeprefix("/user/"): actor.failures for actor in system.actors()}


@pytest.mark.parametrize("way", ["plain", "suspended", "in a nursery", "raised again"])
async def test_the_error_of_one_leaf_is_charged_to_that_leaf_only(loop_host: Host, way: str) -> None:
    async with loop_host.system() as system:
        leaf = await system.spawn(loop_host.plain, name="leaf")
        middle = await system.spawn(Link, leaf, name="middle")
        middle.tell(Note(1))
        with pytest.raises((Boom, ExceptionGroup)):
            await middle.ask(Through(way))
        await system.wait_quiet()
        assert charges(system) == {"leaf": 1, "middle": 0}
        assert await middle.ask(Notes()) == [1]
        assert conserved(system)


async def test_a_long_chain_is_not_restarted_for_the_error_of_its_end(loop_host: Host) -> None:
    class Chain(Plain):
        def __init__(self, following: rt.Ref[Any]) -> None:
            super().__init__()
            self.following = following

        @rt.handler
        async def fail(self, message: Break) -> int:
            return await self.following.ask(message)

    async with loop_host.system() as system:
        ref: rt.Ref[Any] = await system.spawn(loop_host.plain, name="end")
        for _ in range(40):
            ref = await system.spawn(Chain, ref)
        with pytest.raises(Boom):
            await ref.ask(Break())
        await system.wait_quiet()
        found = charges(system)
        assert found.pop("end") == 1
        assert set(found.values()) == {0}


@pytest.mark.parametrize("way", ["another", "alike", "mixed"])
async def test_an_error_of_its_own_is_charged_although_it_came_of_an_answer(loop_host: Host, way: str) -> None:
    async with loop_host.system() as system:
        leaf = await system.spawn(loop_host.plain, name="leaf")
        middle = await system.spawn(Link, leaf, name="middle")
        with pytest.raises((Boom, ExceptionGroup)):
            await middle.ask(Through(way))
        await system.wait_quiet()
        assert charges(system) == {"leaf": 1, "middle": 1}


@pytest.mark.parametrize(("way", "error"), [("denied", rt.Denied), ("refused", rt.Reject)])
async def test_a_refusal_that_a_handler_lets_through_is_charged_to_nobody(loop_host: Host, way: str, error: type[Exception]) -> None:
    async with loop_host.system() as system:
        leaf = await system.spawn(loop_host.plain, name="leaf", grant=["core.other"])
        middle = await system.spawn(Link, leaf, name="middle")
        with pytest.raises(error):
            await middle.ask(Through(way))
        await system.wait_quiet()
        assert charges(system) == {"leaf": 0, "middle": 0}


@pytest.mark.parametrize("hosted", ["leaf stopped before", "leaf stops meanwhile"])
async def test_the_end_of_the_asked_actor_is_charged_to_no_asker(loop_host: Host, hosted: str) -> None:
    async with loop_host.system() as system:
        latch = Latch()
        leaf = await system.spawn(loop_host.holder, None, latch)
        middle = await system.spawn(Link, leaf, name="middle")
        if hosted == "leaf stopped before":
            await leaf.stop()
            with pytest.raises(rt.ActorStopped):
                await middle.ask(Through("plain"))
        else:
            leaf.tell(Hold())
            await latch.until(entered=1)

            async def ask() -> None:
                with pytest.raises(rt.ActorStopped):
                    await middle.ask(Through("plain"))

            async with trio.open_nursery() as nursery:
                nursery.start_soon(ask)
                await trio.testing.wait_all_tasks_blocked()
                nursery.start_soon(leaf.stop)
                await trio.testing.wait_all_tasks_blocked()
                latch.open()
        await system.wait_quiet()
        assert charges(system) == {"middle": 0}


@pytest.mark.parametrize(("way", "error"), [("unhandled", rt.Unhandled), ("cycle", rt.AskCycle)])
async def test_an_ask_that_was_never_sent_is_an_answer_too(loop_host: Host, way: str, error: type[Exception]) -> None:
    """Which ref or message an actor is handed must not decide whether it is restarted."""
    async with loop_host.system() as system:
        leaf = await system.spawn(loop_host.plain, name="leaf")
        middle = await system.spawn(Link, leaf, name="middle")
        middle.tell(Note(1))
        with pytest.raises(error):
            await middle.ask(Through(way))
        assert await middle.ask(Notes()) == [1]
        assert charges(system) == {"leaf": 0, "middle": 0}


@pytest.mark.parametrize(("way", "error"), [("time-out", rt.AskTimeout), ("full", rt.MailboxFull)])
async def test_a_time_out_that_a_handler_lets_through_is_charged_to_nobody(
    loop_host: Host, autojump_clock: MockClock, way: str, error: type[Exception]
) -> None:
    async with loop_host.system() as system:
        latch = Latch()
        leaf = await system.spawn(loop_host.holder, None, latch, name="leaf", mailbox=rt.Mailbox.bounded(1))
        middle = await system.spawn(Link, leaf, name="middle")
        if way == "full":
            leaf.tell(Hold())
            await latch.until(entered=1)
            leaf.tell(Note(1))
        with pytest.raises(error):
            await middle.ask(Through(way))
        latch.open()
        await system.wait_quiet()
        assert charges(system) == {"leaf": 0, "middle": 0}
        assert conserved(system)


async def test_an_error_kept_from_an_earlier_message_is_an_error_of_its_own(loop_host: Host) -> None:
    class Grudge(Plain):
        def __init__(self, following: rt.Ref[Any]) -> None:
            super().__init__()
            self.following = following
            self.kept: BaseException | None = None

        @rt.handler
        async def through(self, message: Through) -> int:
            if self.kept is not None:
                raise self.kept
            try:
                await self.following.ask(Break())
            except Boom as error:
                self.kept = error
            return 0

    async with loop_host.system() as system:
        leaf = await system.spawn(loop_host.plain, name="leaf")
        middle = await system.spawn(Grudge, leaf, name="middle")
        await middle.ask(Through())
        with pytest.raises(Boom):
            await middle.ask(Through())
        await system.wait_quiet()
        assert charges(system) == {"leaf": 1, "middle": 1}


async def test_a_told_message_whose_handler_lets_an_answer_through_is_a_dead_letter_and_no_failure(loop_host: Host) -> None:
    async with loop_host.system() as system:
        leaf = await system.spawn(loop_host.plain, name="leaf")
        middle = await system.spawn(Link, leaf, name="middle")
        middle.tell(Through())
        await system.wait_quiet()
        assert charges(system) == {"leaf": 1, "middle": 0}
        assert system.dead_letters.counts["poison"] == 1
        assert conserved(system)
