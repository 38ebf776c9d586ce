"""Checked by mypy and pyright, never run: both must report an error on exactly the lines that end in `# error`."""

from __future__ import annotations

from typing import Any, assert_type

import retinue as rt
from retinue import aio, sync


@rt.message
class Say(rt.Request[int], rt.Stream[str]):
    text: str


@rt.message
class Spell(rt.Stream[str]):
    text: str


class Talker(rt.Actor, rt.TakesText[int, str]):
    @classmethod
    def coerce(cls, message: object, *, streamed: bool) -> Say | Spell | None:
        if isinstance(message, str):
            return Spell(message) if streamed else Say(message)
        return None

    @rt.handler
    def say(self, message: Say) -> int:
        return len(message.text)

    @rt.handler(forwards=True)
    def spell(self, message: Spell) -> None:
        self.ctx.forward(self.ctx.ref, message)

    @rt.handler
    async def pass_on(self, message: Say) -> int:
        decision = await self.ctx.decision("apr_x", wait=5)
        assert_type(decision, rt.Decision)
        return await self.ctx.ref.ask(message, approvals=self.ctx.approvals + decision.approvals)  # type: ignore[no-any-return,unused-ignore]


class Special(Talker):
    pass


class Plain(rt.Actor):
    @rt.handler
    def say(self, message: Say) -> int:
        return len(message.text)


async def in_the_loop(talker: rt.Ref[Talker], special: rt.Ref[Special], plain: rt.Ref[Plain], anybody: rt.Ref[Any]) -> None:
    assert_type(await talker.ask("hi"), int)
    assert_type(await talker.ask("hi", timeout=2), int)
    assert_type(await special.ask("hi"), int)
    assert_type(await talker.ask(Say("hi")), int)
    talker.tell("hi")
    await talker.send("hi", timeout=2)
    async with talker.stream("hi") as letters:
        async for letter in letters:
            assert_type(letter, str)
    async with talker.stream(Say("hi"), window=2) as letters:
        async for letter in letters:
            assert_type(letter, str)
    await anybody.ask("hi")
    await talker.ask(5)  # error
    await plain.ask("hi")  # error
    plain.tell("hi")  # error
    await plain.send("hi")  # error
    plain.stream("hi")  # error
    rt.CarriedApprovals() + ["token"]  # noqa: RUF005  # error


def virtual(talkers: rt.Virtual[Talker]) -> None:
    talkers["ada"].tell("hi")
    assert_type(talkers["ada"].stream("hi"), rt.StreamReader[str])


def in_a_script(talker: sync.Ref[Talker], plain: sync.Ref[Plain]) -> None:
    assert_type(talker.ask("hi"), int)
    assert_type(talker.ask("hi", block=False), sync.Future[int])
    assert_type(talker.ask(Say("hi")), int)
    talker.tell("hi")
    talker.send("hi")
    with talker.stream("hi") as letters:
        for letter in letters:
            assert_type(letter, str)
    plain.ask("hi")  # error
    plain.tell("hi")  # error
    plain.stream("hi")  # error


async def under_asyncio(talker: aio.Ref[Talker], plain: aio.Ref[Plain]) -> None:
    assert_type(await talker.ask("hi"), int)
    talker.tell("hi")
    await talker.send("hi")
    async with talker.stream(Say("hi")) as letters:
        async for letter in letters:
            assert_type(letter, str)
    await plain.ask("hi")  # error
    plain.stream("hi")  # error
