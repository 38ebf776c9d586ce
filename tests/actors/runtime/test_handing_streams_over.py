"""Streams that are handed over: a handler with `forwards=True`, and whoever reads on from there."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from typing import Any

import pytest
import trio

import retinue as rt
from core_hosts import conserved, reasons
from talking_actors import Front, Heard, Say, Spell, Talker, letters


def make(**options: Any) -> rt.ActorSystem:
    return rt.ActorSystem("handed", block_warning=math.inf, **options)


async def pair(system: rt.ActorSystem, **options: Any) -> tuple[rt.Ref[Front], rt.Ref[Talker]]:
    inner = await system.spawn(Talker, name="inner", **options)
    return await system.spawn(Front, inner, name="front"), inner


async def test_a_stream_is_read_from_whoever_it_was_handed_to(turn_system: rt.ActorSystem) -> None:
    async with turn_system as system:
        front, inner = await pair(system)
        assert await letters(front, Spell("abc")) == ["a", "b", "c"]
        assert await letters(front, Say("abc")) == ["a", "b", "c"]
        assert await letters(front, "text") == ["t", "e", "x", "t"]  # forwarded as a str
        assert await front.ask("abc") == "ABC"
        assert (await inner.ask(Heard()))[:4] == ("a", "b", "c", "end")
        await system.wait_quiet()
        assert conserved(system)


async def test_the_front_is_free_while_the_stream_goes_on(autojump_clock: Any) -> None:
    async with make() as system:
        region = await system.spawn_virtual(Talker, name="talkers")

        class Door(Front):
            @rt.handler(forwards=True)
            def spell(self, message: Spell) -> None:  # type: ignore[override]
                self.ctx.forward(region[message.text], message)

        door = await system.spawn(Door, None, name="door")
        begun = trio.current_time()
        async with trio.open_nursery() as nursery:
            for text in ("abc", "xyz", "123"):
                nursery.start_soon(letters, door, Spell(text, 1.0))
        assert trio.current_time() - begun == pytest.approx(3.0)
        assert conserved(system)


async def test_a_stream_is_handed_over_twice_and_to_pools() -> None:
    async with make() as system:
        pool = await system.spawn_pool(Talker, pool=rt.Pool.work_pulling(2), name="pool")
        second = await system.spawn(Front, pool, name="second")
        fronts = await system.spawn_pool(Front, second, pool=rt.Pool.round_robin(2), name="fronts")
        for _ in range(4):
            assert await letters(fronts, Spell("abc")) == ["a", "b", "c"]
        assert conserved(system)


async def test_a_handler_that_keeps_what_it_was_to_hand_over_has_failed() -> None:
    async with make() as system:
        front, _ = await pair(system)
        with pytest.raises(
            rt.DefinitionError, match="spell of /user/front is a handler with forwards=True, and has returned without handing Spell over"
        ):
            async with front.stream(Spell("keep")) as items:
                await anext(aiter(items))
        with pytest.raises(rt.DefinitionError, match="without handing Say over"):
            await front.ask(Say("keep"))
        assert {one.path: one.failures for one in system.actors()} == {"/user/inner": 0, "/user/front": 2}
        assert conserved(system)


async def test_what_the_front_or_the_target_raises_is_the_readers() -> None:
    async with make() as system:
        front, _ = await pair(system)
        assert await letters(front, Spell("raise")) == ["Reject"]
        assert await letters(front, Spell("ab!c")) == ["a", "b", "ValueError"]
        assert {one.path: one.failures for one in system.actors()} == {"/user/inner": 1, "/user/front": 0}


async def test_backpressure_reaches_through() -> None:
    async with make() as system:
        front, inner = await pair(system)
        async with front.stream(Spell("abcdefgh"), window=2) as items:
            assert await anext(items) == "a"
            await trio.testing.wait_all_tasks_blocked()
            assert [cell.path for cell in system.actors() if cell.state == "running"] == [inner.path]
            assert [item async for item in items] == list("bcdefgh")


async def test_the_deadline_of_the_first_message_counts(autojump_clock: Any) -> None:
    async with make() as system:
        front, inner = await pair(system)
        assert await letters(front, Spell("abcdefgh", 1.0), timeout=3.5) == ["a", "b", "c", "d", "AskTimeout"]
        assert (await inner.ask(Heard()))[-1] == "end"
        assert conserved(system)


async def test_a_reader_that_leaves_ends_the_target(autojump_clock: Any) -> None:
    async with make() as system:
        front, inner = await pair(system)
        async with front.stream(Spell("abcdefgh", 1.0)) as items:
            assert await anext(items) == "a"
        assert await inner.ask(Heard()) == ("a", "end")
        assert conserved(system)


async def test_a_reader_that_leaves_while_the_target_is_busy_withdraws(autojump_clock: Any) -> None:
    async with make() as system:
        front, inner = await pair(system)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(inner.ask, Say("busy", 5.0))
            await trio.sleep(1)
            async with front.stream(Spell("abc")):
                await trio.sleep(1)
            assert reasons(system) == {"withdrawn": 1}
        assert conserved(system)


async def test_a_reader_that_leaves_before_it_is_handed_over(autojump_clock: Any) -> None:
    class Thinker(Front):
        @rt.handler(forwards=True, shield=True)
        async def spell(self, message: Spell) -> None:  # type: ignore[override]
            await trio.sleep(1)
            self.ctx.forward(self.to, message)

    async with make() as system:
        inner = await system.spawn(Talker, name="inner")
        thinker = await system.spawn(Thinker, inner, name="thinker")
        assert await letters(thinker, Spell("ab")) == ["a", "b"]
        async with thinker.stream(Spell("abc")):
            await trio.sleep(0.5)
        await trio.sleep(5)
        assert await inner.ask(Heard()) == ("a", "b", "end")
        assert conserved(system)


async def test_a_target_that_is_gone_or_full_or_stops() -> None:
    async with make() as system:
        front, inner = await pair(system, mailbox=rt.Mailbox.bounded(1))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(letters, front, Spell("abcdef", 0.001))
            nursery.start_soon(letters, front, Spell("abcdef"))
            nursery.start_soon(letters, front, Spell("abcdef"))  # waits for room
        assert len(await inner.ask(Heard())) == 21
        await inner.stop()
        assert await letters(front, Spell("abc")) == ["ActorStopped"]
        assert conserved(system)


async def test_who_hands_over_to_its_own_reader_is_told_of_the_ring() -> None:
    found: list[str] = []

    class Ring(Talker):
        def __init__(self, to: rt.Ref[Any]) -> None:
            super().__init__()
            self.to = to

        @rt.handler
        async def say(self, message: Say) -> str:
            found.extend(await letters(self.to, Spell(message.text), timeout=5))
            return ""

    class Back(Front):
        @rt.handler(forwards=True)
        def spell(self, message: Spell) -> None:  # type: ignore[override]
            self.ctx.forward(self.ctx.sender, message)  # type: ignore[arg-type]

    async with make() as system:
        back = await system.spawn(Back, None, name="back")
        ring = await system.spawn(Ring, back, name="ring")
        await ring.ask("abc")
        assert found == ["AskCycle"]


async def test_a_reader_that_is_an_actor_reads_on_and_has_no_wait_left() -> None:
    class Reader(rt.Actor):
        def __init__(self, to: rt.Ref[Any]) -> None:
            self.to = to

        @rt.handler
        async def read(self, message: Say) -> str:
            found = await letters(self.to, Spell(message.text), window=1)
            assert self.ctx._turn().waits is None
            return "".join(found)

    async with make() as system:
        front, _ = await pair(system)
        reader = await system.spawn(Reader, front, name="reader")
        assert await reader.ask(Say("abcdef")) == "abcdef"


async def test_one_value_is_not_handed_over_as_a_stream() -> None:
    class Odd(Front):
        @rt.handler(forwards=True)
        def spell(self, message: Spell) -> None:  # type: ignore[override]
            self.ctx.forward(self.to, Heard())

        @rt.handler(forwards=True)
        def say(self, message: Say) -> None:  # type: ignore[override]
            self.ctx.forward(self.to, Spell(message.text))

    async with make() as system:
        odd = await system.spawn(Odd, await system.spawn(Talker), name="odd")
        with pytest.raises(rt.Unhandled, match="answers Spell by a stream, and whoever sent Say waits for one value"):
            await odd.ask("x")
        assert await letters(odd, "x") == ["Unhandled"]


async def test_the_labels_of_who_streams_reach_the_reader() -> None:
    class Marked(Talker):
        @rt.handler
        async def spell(self, message: Spell) -> AsyncIterator[str]:
            self.ctx.taint("web")
            yield message.text

    class Reader(rt.Actor):
        @rt.handler
        async def read(self, _: Heard) -> tuple[str, ...]:
            await letters(self.to, Spell("a"))
            return tuple(self.ctx.labels)

        def __init__(self, to: rt.Ref[Any]) -> None:
            self.to = to

    async with make() as system:
        front = await system.spawn(Front, await system.spawn(Marked), name="front")
        reader = await system.spawn(Reader, front)
        assert await reader.ask(Heard()) == ("web",)


async def test_the_gate_stands_before_the_front_and_the_target() -> None:
    class Strict(Talker):
        @rt.handler(requires="talk")
        async def spell(self, message: Spell) -> AsyncIterator[str]:
            yield self.ctx.security.subject

    async with make() as system:
        front = await system.spawn(Front, await system.spawn(Strict, name="strict"), name="front")
        ada, eve = system.authority.mint("ada", ["talk"]), system.authority.mint("eve", ["walk"])
        assert await letters(front, Spell("abc"), context=ada) == ["ada"]
        assert await letters(front, Spell("abc"), context=eve) == ["Denied"]
        assert conserved(system)


def test_a_generator_and_a_blocking_actor_do_not_hand_over() -> None:
    with pytest.raises(rt.DefinitionError, match="answers its stream itself"):

        class One(rt.Actor):
            @rt.handler(forwards=True)
            async def spell(self, message: Spell) -> AsyncIterator[str]:
                yield message.text

    with pytest.raises(rt.DefinitionError, match="of a blocking actor, which cannot forward"):

        class Two(rt.Actor, blocking=True):
            @rt.handler(forwards=True)
            def spell(self, message: Spell) -> None:
                """Nothing."""

    with pytest.raises(rt.DefinitionError, match=r"with @handler\(forwards=True\)"):

        class Three(rt.Actor):
            @rt.handler
            def spell(self, message: Spell) -> None:
                """Nothing."""

    with pytest.raises(rt.DefinitionError, match="a Request as well as a Stream"):

        class Four(rt.Actor):
            @rt.handler
            async def say(self, message: Say) -> AsyncIterator[str]:
                yield message.text

    with pytest.raises(rt.DefinitionError, match="forwards='yes'"):
        rt.handler(forwards="yes")  # type: ignore[call-overload]


async def test_a_yielding_handler_still_cannot_forward() -> None:
    class Wrong(Talker):
        @rt.handler
        async def spell(self, message: Spell) -> AsyncIterator[str]:
            try:
                self.ctx.forward(self.ctx.ref, Say("x"))
            except rt.DefinitionError as error:
                yield str(error)

    async with make() as system:
        (text,) = await letters(await system.spawn(Wrong), "x")
        assert "nor handed over by a handler that yields" in text


async def test_streams_are_handed_over_in_the_order_of_a_seed() -> None:
    async with make(seed=7) as system:
        front, _ = await pair(system)
        async with trio.open_nursery() as nursery:
            for _ in range(8):
                nursery.start_soon(letters, front, Spell("abcdefgh"))
        await system.wait_quiet()
        assert conserved(system)
