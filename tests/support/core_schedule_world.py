"""The world of a random schedule (`core_schedule`): its messages, its errors, and what its actors and users share."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import retinue as rt


class Planned(Exception):
    """An error that a schedule wanted."""


class Declared(Exception):
    """One that the handlers declare: an answer."""


@rt.message
class Work(rt.Request[int]):
    """Do something in an async handler."""

    number: int
    depth: int


@rt.message
class Guarded(rt.Request[int]):
    """As Work, in a handler that its asker cannot cancel."""

    number: int
    depth: int


@rt.message
class Quick(rt.Request[int]):
    """Do something in a plain handler."""

    number: int
    depth: int


@rt.message
class Flow(rt.Stream[int]):
    """Yield some items."""

    number: int
    depth: int


DONE: Counter[str] = Counter()
"""How often which deed came to a good end, and which dead letters there were, in all schedules that this process has played."""


class World:
    """What the actors and users of one schedule share.

    Attributes:
        refs: All actors so far, dead ones too.
        open: Asks, sends and streams that somebody waits for at this moment.
        budget: Messages that may still be sent.
        slots: Deferred answers that somebody may give.
        faults: Broken promises.
        regions: All regions of virtual actors so far.
        fronts: Refs of pools and groups, which are among `refs`.
        busy: Paths of the actors that handle something at this moment.
        living: Paths of the virtual actors that have an instance at this moment.
        classes, session: What is spawned, and what stands for a key.
    """

    classes: tuple[type[Any], ...] = ()
    session: Any = None

    def __init__(self, seed: int, system: rt.ActorSystem) -> None:
        self.seed = seed
        self.system = system
        self.refs: list[rt.Ref[Any]] = []
        self.open: dict[int, str] = {}
        self.budget = 300
        self.slots: list[Any] = []
        self.faults: list[str] = []
        self.users = 0
        self.stashed: set[int] = set()
        self.regions: list[rt.Virtual[Any]] = []
        self.fronts: set[rt.Ref[Any]] = set()
        self.busy: set[str] = set()
        self.living: set[str] = set()
        self._numbers = itertools.count(1)

    def dice(self) -> random.Random:
        return random.Random(self.seed * 1_000_003 + next(self._numbers))

    def message(self, dice: random.Random, depth: int, kinds: tuple[type[Any], ...] = (Work, Work, Quick, Quick, Guarded)) -> Any:
        self.budget -= 1
        return dice.choice(kinds)(next(self._numbers), depth)

    @contextmanager
    def waiting(self, what: str) -> Iterator[None]:
        number = next(self._numbers)
        self.open[number] = what
        try:
            yield
        finally:
            del self.open[number]

    def look(self) -> None:
        """Conservation, whenever one can look."""
        counts = self.system.statistics()
        if counts.sent != counts.handled + counts.dead_letters + counts.queued:
            self.faults.append(f"not conserved: {counts}")
