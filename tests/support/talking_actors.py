"""Actors that are sent texts, and a front that hands everything over, for the tests of coercion and of handing over."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import trio

import retinue as rt


@rt.message(name="talking/Say@1")
class Say(rt.Request[str], rt.Stream[str]):
    """Asked, it is answered by the text in capitals; streamed, by its letters."""

    text: str
    pause: float = 0.0


@rt.message(name="talking/Spell@1")
class Spell(rt.Stream[str]):
    """The letters."""

    text: str
    pause: float = 0.0


@rt.message(name="talking/Heard@1")
class Heard(rt.Request[tuple[str, ...]]):
    """What the actor did so far."""


class Talker(rt.Actor, rt.TakesText[str, str]):
    """Answers."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    @classmethod
    def coerce(cls, message: object, *, streamed: bool) -> rt.Message | None:
        """Texts, and what is asked and streamed."""
        if isinstance(message, str):
            return Spell(message) if streamed else Say(message)
        if isinstance(message, Say) and streamed:
            return Spell(message.text, message.pause)
        return None

    @rt.handler
    async def say(self, message: Say) -> str:
        """One answer."""
        if message.pause:
            await trio.sleep(message.pause)
        self.heard.append(message.text)
        return message.text.upper()

    @rt.handler
    async def spell(self, message: Spell) -> AsyncIterator[str]:
        """Many."""
        try:
            for letter in message.text:
                if letter == "!":
                    raise ValueError("what a noise")
                yield letter
                self.heard.append(letter)
                await trio.sleep(message.pause)
        finally:
            self.heard.append("end")

    @rt.handler
    def tell(self, _: Heard) -> tuple[str, ...]:
        """What it did."""
        return tuple(self.heard)


class Front(Talker):
    """Hands over whatever comes."""

    def __init__(self, to: rt.Ref[Any]) -> None:
        super().__init__()
        self.to = to

    @rt.handler(forwards=True)
    def say(self, message: Say) -> None:  # type: ignore[override]
        """To the other one."""
        if message.text != "keep":
            self.ctx.forward(self.to, message)

    @rt.handler(forwards=True)
    def spell(self, message: Spell) -> None:  # type: ignore[override]
        """To the other one."""
        if message.text == "raise":
            raise rt.Reject("not today")
        if message.text == "text":
            self.ctx.forward(self.to, "text")  # type: ignore[arg-type]
        elif message.text != "keep":
            self.ctx.forward(self.to, message)


async def letters(ref: rt.Ref[Any], message: Any, **options: Any) -> list[str]:
    """All items, and as the last one the name of the error if the stream ended with one."""
    found: list[str] = []
    try:
        async with ref.stream(message, **options) as items:
            async for item in items:
                found.append(item)
    except Exception as error:
        found.append(type(error).__name__)
    return found
