"""The hosts that the contract suite runs on.

"loop" is the plain one, "workers" the same on a trio without the attributes that let an asker's own task run async handlers, "thread" a thread for each
actor, "loopback" the loop with every message and answer encoded, "seeded" the loop in a pseudo-random order.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable
from typing import Any

import attrs
import trio

import retinue as rt
from core_actors import Holder, Hooked, Plain, ThreadHolder, ThreadHooked, ThreadPlain
from retinue.testing import assert_conserved as conserved

__all__ = ["HOSTS", "LOOP_NAMES", "NAMES", "Host", "conserved", "reasons", "seconds"]

NAMES = ("loop", "workers", "thread", "loopback", "seeded")
LOOP_NAMES = ("loop", "workers", "loopback", "seeded")


@attrs.frozen
class Host:
    """One host: how its systems are made, and the actor classes that run on it.

    Attributes:
        name: One of NAMES.
        options: What its systems are made with.
        plain, holder, hooked: The classes of core_actors for it.
        moment: A short time-out in seconds: of the mock clock, or a real one where threads work.
    """

    name: str
    options: dict[str, Any]
    plain: type[Plain] = Plain
    holder: type[Any] = Holder
    hooked: type[Any] = Hooked
    moment: float = 1.0

    @property
    def blocking(self) -> bool:
        """Whether its actors run in threads of their own."""
        return self.name == "thread"

    def system(self, name: str = "test", **options: Any) -> rt.ActorSystem:
        return rt.ActorSystem(name, **{"block_warning": math.inf, **self.options, **options})


HOSTS = {
    "loop": Host("loop", {}),
    "workers": Host("workers", {}),
    "thread": Host("thread", {}, ThreadPlain, ThreadHolder, ThreadHooked, 0.05),
    "loopback": Host("loopback", {"loopback": True}),
    "seeded": Host("seeded", {"seed": 7}),
}


def reasons(system: rt.ActorSystem) -> dict[str, int]:
    """The dead letters so far by reason, without those that never happened."""
    return {str(reason): count for reason, count in system.dead_letters.counts.items() if count}


async def seconds(working: Awaitable[object]) -> float:
    """How long it took, by the test's clock."""
    began = trio.current_time()
    await working
    return trio.current_time() - began
