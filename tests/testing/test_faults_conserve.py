"""The books balance, and every ask ends, whatever faults are injected: seeded schedules of everything that actors do, with random faults."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import pytest
import trio

import retinue as rt
import retinue.testing as rtt
from core_schedule import Flow, Guarded, Quick, Work, broken_by

BLOCK = 25


@contextmanager
def random_faults(system: rt.ActorSystem, dice: random.Random) -> Iterator[None]:
    """Some faults of all kinds; now and then they end before the system does."""
    with ExitStack() as stack:
        faults = rtt.Faults(system, seed=dice.randrange(1_000_000))
        early = dice.random() < 0.5
        (stack.enter_context if early else faults.__class__.__enter__)(faults)
        for _ in range(dice.randint(1, 6)):
            which: dict[str, Any] = {"probability": dice.choice((0.05, 0.2, 0.5)), "times": dice.choice((None, 1, 5))}
            match = dice.choice((None, Work, Quick, (Guarded, Flow)))
            fault = dice.choice(("drop", "duplicate", "delay", "kill", "drop_reply", "delay_reply"))
            if fault in ("delay", "delay_reply"):
                which["seconds"] = dice.choice((0, 0.1, 1, 40))
            if fault == "delay":
                which["reorder"] = dice.random() < 0.5
            if fault == "kill":
                which["after"] = dice.random() < 0.5
            getattr(faults, fault)(match, **which)
        trio.lowlevel.spawn_system_task(kill_some, system, faults, random.Random(dice.random()))
        yield


async def kill_some(system: rt.ActorSystem, faults: rtt.Faults, dice: random.Random) -> None:
    for _ in range(dice.randint(0, 5)):
        await trio.sleep(dice.choice((0, 0.1, 0.3, 1)))
        paths = [actor.path for actor in system.actors()]
        ref = system.registry.get(dice.choice(paths)) if paths else None
        if ref is not None:
            with suppress(rt.DefinitionError):  # the faults have ended
                faults.kill(ref, hard=dice.random() < 0.2)


@pytest.mark.parametrize("first", [0, *(pytest.param(first, marks=pytest.mark.slow) for first in range(BLOCK, 200, BLOCK))])
def test_no_promise_is_broken_in_200_schedules_with_faults(first: int) -> None:
    assert broken_by(range(first, first + BLOCK), random_faults) == {}
