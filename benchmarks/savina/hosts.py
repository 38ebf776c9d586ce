"""What the ports of one contender have in common: a system of its own for each run, a place for the result, and an end to a run whose actors fail."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Awaitable, Callable, Iterable
from functools import wraps
from typing import Any, Self

import pykka
import trio

import retinue as rt
from benchmarks.harness import BrokenBlock
from benchmarks.savina.benchmark import Outcome, Port, Size

__all__ = ["LIMIT", "MANY", "Answer", "Channel", "Failures", "in_pykka", "in_retinue", "in_trio", "inbox"]

LIMIT = 600.0
"""Seconds after which a run that has not come to its end is broken."""

LOOK = 0.5
"""Seconds between two looks at whether an actor in a thread has failed."""

MANY = rt.Mailbox.unbounded()
"""Savina's actors have mailboxes without a bound: where a program floods one, so has ours."""

Channel = trio.MemorySendChannel[Any]
"""The address of an actor that is a bare trio task."""


def inbox() -> tuple[Channel, trio.MemoryReceiveChannel[Any]]:
    """The mailbox of a bare trio task, without a bound, so that sending needs no scheduler pass (`send_nowait`): its fastest."""
    return trio.open_memory_channel[Any](math.inf)


class Answer:
    """Where the last actor puts the result, and whoever started it all waits for it."""

    __slots__ = ("_set", "_value")

    def __init__(self) -> None:
        self._set = trio.Event()
        self._value: Any = None

    def set(self, value: object) -> None:
        self._value = value
        self._set.set()

    async def get(self) -> Any:
        await self._set.wait()
        return self._value


class Failures(logging.Handler):
    """What a contender's actors have failed with while it is open, from what its library logs of it: a check that fails in an actor must end the run.

    Each library deals with the failure in its own way (a restart, the end of a thread), after which the result may never come.

    Attributes:
        texts: What was logged as an error.
    """

    def __init__(self, library: str, scope: trio.CancelScope | None = None) -> None:
        super().__init__(logging.ERROR)
        self.texts: list[str] = []
        self._logger = logging.getLogger(library)
        self._scope = scope

    def __enter__(self) -> Self:
        self._logger.addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._logger.removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Called with what is logged."""
        error = record.exc_info[1] if record.exc_info else None
        self.texts.append(record.getMessage() + (f": {error!r}" if error is not None else ""))
        if self._scope is not None:
            self._scope.cancel()

    def check(self) -> None:
        """Raises BrokenBlock where an actor has failed."""
        if self.texts:
            raise BrokenBlock(self.texts[0])

    def result_of(self, answer: pykka.Future[Any]) -> Any:
        """The result of a run in threads."""
        until = time.monotonic() + LIMIT
        while True:
            try:
                result = answer.get(timeout=LOOK)
            except pykka.Timeout:
                self.check()
                if time.monotonic() > until:
                    raise BrokenBlock(f"no result after {LIMIT:g} s") from None
            else:
                self.check()
                return result

    def ended(self, refs: Iterable[pykka.ActorRef[Any]]) -> None:
        """Returns when actors that end by themselves have ended."""
        until = time.monotonic() + LIMIT
        for ref in refs:
            while not ref.actor_stopped.wait(LOOK):
                self.check()
                if time.monotonic() > until:
                    raise BrokenBlock(f"{ref} has not ended after {LIMIT:g} s")
        self.check()


def in_retinue(body: Callable[[rt.ActorSystem, Size], Awaitable[Outcome]]) -> Port:
    """A port for Retinue: every message carries a context and passes the gate, and in the end the system's books must balance."""

    async def main(size: Size) -> Outcome:
        outcome: Outcome | None = None
        with trio.fail_after(LIMIT), trio.CancelScope() as scope, Failures("retinue", scope) as failures:
            async with rt.ActorSystem("savina", permissions=["savina.**"]) as system:
                outcome = await body(system, size)
                books = system.statistics()
                if books.sent != books.handled + books.dead_letters + books.queued:
                    raise BrokenBlock(f"not conserved: {books}")
        failures.check()
        if outcome is None:
            raise BrokenBlock("no result")
        return outcome

    return lambda size: trio.run(main, size)


def in_trio(body: Callable[[trio.Nursery, Size], Awaitable[Outcome]]) -> Port:
    """A port for bare trio: a task and a memory channel an actor. A task that fails ends the run."""

    async def main(size: Size) -> Outcome:
        with trio.fail_after(LIMIT):
            async with trio.open_nursery() as nursery:
                outcome = await body(nursery, size)
                nursery.cancel_scope.cancel()
        return outcome

    return lambda size: trio.run(main, size)


def in_pykka(body: Callable[[Failures, Size], Outcome]) -> Port:
    """A port for pykka, an actor a thread: what its actors fail with ends the run."""

    @wraps(body)
    def port(size: Size) -> Outcome:
        with Failures("pykka") as failures:
            try:
                return body(failures, size)
            except BaseException:
                pykka.ActorRegistry.stop_all(block=False)  # their threads would keep the process
                raise

    return port
