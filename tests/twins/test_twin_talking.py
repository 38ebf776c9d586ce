"""Both twins: texts that become messages, messages that are asked and streamed, streams that are handed over, elastic pools."""

from __future__ import annotations

import asyncio

import pytest

import retinue as rt
from retinue import aio, sync
from talking_actors import Front, Heard, Say, Spell, Talker
from twin_actors import conserved
from twin_asyncio import under_asyncio


def test_a_script_sends_texts_and_reads_what_was_handed_over() -> None:
    with sync.ActorSystem("script") as system:
        inner = system.spawn(Talker, name="inner")
        front = system.spawn(Front, inner, name="front")
        for ref in (inner, front):
            assert ref.ask("hey") == ref.ask(Say("hey")) == ref.ask("hey", block=False).get() == "HEY"
            assert ref.tell("told") and ref.send("sent")
            for message in ("hey", Say("hey"), Spell("hey")):
                with ref.stream(message) as letters:  # type: ignore[call-overload]
                    assert list(letters) == ["h", "e", "y"]
            with pytest.raises(rt.Unhandled):
                ref.ask(Spell("x"))
            with pytest.raises(rt.Unhandled):
                ref.ask(5)  # type: ignore[call-overload]
        with front.stream(Spell("a!b")) as letters, pytest.raises(ValueError, match="noise"):
            list(letters)
        with front.stream(Spell("x" * 1_000, 0.01), window=1) as letters:
            assert next(letters) == "x"
        assert inner.ask(Heard())[-1] == "end"
        with front.stream(Spell("keep")) as letters, pytest.raises(rt.DefinitionError, match="without handing Spell over"):
            next(letters)
        assert conserved(system.statistics())


def test_a_script_has_elastic_pools_and_virtual_actors_that_take_texts() -> None:
    with sync.ActorSystem("script") as system:
        pool = system.spawn_pool(Talker, pool=rt.Pool.elastic(8), name="pool")
        assert [pool.ask("hey") for _ in range(5)] == ["HEY"] * 5
        futures = [pool.ask(Say("hey", 0.05), block=False) for _ in range(8)]
        assert [future.get() for future in futures] == ["HEY"] * 8
        assert 2 <= len([one for one in system.actors() if one.path.startswith("/user/pool/")]) <= 8
        region = system.spawn_virtual(Talker, name="talkers")
        assert region["ada"].ask("hey") == "HEY"
        with region["ada"].stream("hey") as letters:
            assert list(letters) == ["h", "e", "y"]


@under_asyncio
async def test_asyncio_sends_texts_and_reads_what_was_handed_over() -> None:
    async with aio.ActorSystem("twin") as system:
        inner = await system.spawn(Talker, name="inner")
        front = await system.spawn(Front, inner, name="front")
        assert await asyncio.gather(*(front.ask("hey") for _ in range(50))) == ["HEY"] * 50
        assert front.tell("told") and await front.send("sent")
        for message in ("hey", Say("hey"), Spell("hey")):
            async with front.stream(message) as letters:  # type: ignore[call-overload]
                assert [letter async for letter in letters] == ["h", "e", "y"]
        async with front.stream(Spell("x" * 1_000, 0.01), window=1) as letters:
            assert await anext(letters) == "x"
        assert (await inner.ask(Heard()))[-1] == "end"
        assert conserved(await system.statistics())
