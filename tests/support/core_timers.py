"""An actor that notes its ticks, for tests of timers."""

from __future__ import annotations

import math
from typing import Any

import trio

import retinue as rt
from core_puppet import Puppet


@rt.message
class Tick(rt.Message):
    word: str


class Clocked(Puppet):
    """Notes its ticks with the time, in `seen`, which outlives a restart."""

    def __init__(self, seen: list[Any] | None = None, **given: Any) -> None:
        super().__init__(**given)
        self.seen = seen if seen is not None else []

    @rt.handler
    def tick(self, message: Tick) -> None:
        self.seen.append((message.word, round(trio.current_time(), 6)))


def make(**options: Any) -> rt.ActorSystem:
    return rt.ActorSystem("timers", block_warning=math.inf, **options)


def words(seen: list[Any]) -> list[str]:
    return [word for word, _ in seen]


def fail(_: Any) -> None:
    raise ValueError("restart me")
