"""Workers for the tests of pools: they say who they are, take their time on a clock, and fail when they are told to."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from typing import Any

import attrs
import trio

import retinue as rt


class Fault(Exception):
    """What a worker raises when a test asks for it."""


class Declared(Exception):
    """An answer, not a failure."""


@rt.message(timeout=3_600)
class Job(rt.Request[str]):
    """Take `seconds`, and answer with the worker's name. `work` says what is done; `key` is for hashing, `urgency` for a priority (0 is most urgent)."""

    number: int = 0
    seconds: float = 0.0
    work: str = "done"
    key: Any = None
    urgency: int = 9


@rt.message
class Quick(rt.Request[str]):
    """Answer with the worker's name at once, in a plain handler."""

    number: int = 0
    key: Any = None


@rt.message
class Count(rt.Stream[str]):
    """Answer with that many texts."""

    most: int = 3


@attrs.define
class Ledger:
    """What the workers of a test have done, outside of them so that it outlives them."""

    begun: list[tuple[str, int]] = attrs.field(factory=list)
    done: list[tuple[str, int]] = attrs.field(factory=list)
    lives: list[str] = attrs.field(factory=list)
    running: int = 0
    most_running: int = 0

    def numbers(self) -> list[int]:
        """What was done, in its order."""
        return [number for _, number in self.done]

    def workers(self) -> list[str]:
        """Who did it."""
        return [worker for worker, _ in self.done]


class PoolWorker(rt.Actor):
    def __init__(self, ledger: Ledger | None = None) -> None:
        self.ledger = ledger if ledger is not None else Ledger()
        self.name = self.ctx.path.rpartition("/")[2]
        self.ledger.lives.append(self.name)

    @rt.handler(raises=Declared)
    async def job(self, message: Job) -> str:
        ledger = self.ledger
        ledger.begun.append((self.name, message.number))
        ledger.running += 1
        ledger.most_running = max(ledger.most_running, ledger.running)
        try:
            if message.seconds:
                await trio.sleep(message.seconds)
        finally:
            ledger.running -= 1
        if message.work == "fail":
            raise Fault(f"{self.name} failed on {message.number}")
        if message.work == "declare":
            raise Declared
        if message.work == "leave":
            self.ctx.stop()
        if message.work == "stash" and self.name == "0" and ledger.lives.count("0") == 1:
            self.ctx.stash()
        ledger.done.append((self.name, message.number))
        return self.name

    @rt.handler
    def quick(self, message: Quick) -> str:
        self.ledger.done.append((self.name, message.number))
        return self.name

    @rt.handler
    async def count(self, message: Count) -> AsyncIterator[str]:
        for number in range(message.most):
            yield f"{self.name}: {number}"


class ThreadWorker(rt.Actor, blocking=True):
    """A worker with a thread of its own, which it can be stuck in."""

    def __init__(self, meeting: threading.Barrier | None = None, stuck: threading.Event | None = None) -> None:
        self.meeting = meeting
        self.stuck = stuck

    @rt.handler
    def job(self, message: Job) -> str:
        if message.work == "meet" and self.meeting is not None:
            self.meeting.wait(10)
        if message.work == "hang" and self.stuck is not None:
            self.stuck.wait(10)
        return self.ctx.path.rpartition("/")[2]


POOLS = {
    "round_robin": rt.Pool.round_robin,
    "least_loaded": rt.Pool.least_loaded,
    "consistent_hash": lambda size=4: rt.Pool.consistent_hash(size, key=lambda message: message.key),
    "work_pulling": rt.Pool.work_pulling,
}
"""The pools that can be asked, by name."""


def workers_of(system: rt.ActorSystem, pool: rt.Ref[Any]) -> list[rt.Ref[Any]]:
    """The pool's workers as they are now, in the order of their places."""
    names = sorted(
        (one.path for one in system.actors() if one.path.startswith(f"{pool.path}/")), key=lambda path: int(path.rpartition("/")[2])
    )
    found = [system.registry.get(path) for path in names]
    return [one for one in found if one is not None]
