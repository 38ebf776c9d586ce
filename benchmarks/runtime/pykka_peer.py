"""Pykka, used as its documentation does: `ThreadingActor`, blocking `ask` from a plain thread, `tell` and then an ask that waits for the rest."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Sequence
from typing import Any

import attrs
import pykka

from benchmarks.harness import Block, BrokenBlock, Contender, Run, Timer
from benchmarks.machine import version_of
from benchmarks.runtime.meter import Meter


@attrs.frozen
class Add:
    amount: int


@attrs.frozen
class Total:
    pass


class Counter(pykka.ThreadingActor):
    def __init__(self) -> None:
        super().__init__()
        self.total = 0

    def on_receive(self, message: object) -> int:
        if isinstance(message, Add):
            self.total += message.amount
        return self.total


class Asker(pykka.ThreadingActor):
    """Asks another actor, from inside its own turn, as often as it is told."""

    def __init__(self, target: pykka.ActorRef[Counter]) -> None:
        super().__init__()
        self.target = target

    def on_receive(self, message: int) -> int:
        for _ in range(message):
            self.target.ask(Add(1), block=True)
        return message


class Latch:
    """Opens when it was counted so many times, from whichever threads (`next` of a count is atomic under the GIL)."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.goal = 0
        self._count = itertools.count(1)

    def reset(self, goal: int) -> None:
        self.opened.clear()
        self.goal = goal
        self._count = itertools.count(1)

    def count(self) -> None:
        if next(self._count) == self.goal:
            self.opened.set()


class Listener(pykka.ThreadingActor):
    def __init__(self, latch: Latch) -> None:
        super().__init__()
        self.latch = latch
        self.total = 0

    def on_receive(self, message: object) -> int:
        if isinstance(message, Add):
            self.total += message.amount
            self.latch.count()
        return self.total


def _check(total: int, count: int) -> None:
    if total != count:
        raise BrokenBlock(f"pykka handled {total} of {count} messages")


def _stop(refs: Sequence[pykka.ActorRef[Any]]) -> None:
    for stopping in [ref.stop(block=False) for ref in refs]:
        stopping.get(timeout=60)


def ask(count: int) -> float:
    ref = Counter.start()
    ref.ask(Total(), block=True)
    with Timer() as timer:
        for _ in range(count):
            ref.ask(Add(1), block=True)
    _check(ref.ask(Total(), block=True), count)
    ref.stop()
    return timer.seconds


def ask_inside(count: int) -> float:
    ref = Counter.start()
    asker = Asker.start(ref)
    with Timer() as timer:
        asker.ask(count)
    _check(ref.ask(Total(), block=True), count)
    _stop([asker, ref])
    return timer.seconds


def tell(count: int) -> float:
    ref = Counter.start()
    with Timer() as timer:
        for _ in range(count // 1000):
            for _ in range(1000):
                ref.tell(Add(1))
            ref.ask(Total(), block=True)
    _check(ref.ask(Total(), block=True), count)
    ref.stop()
    return timer.seconds


def spawn(count: int) -> float:
    with Timer() as timer:
        refs = [Counter.start() for _ in range(count)]
    _check(sum(ref.ask(Add(1), block=True) for ref in refs), count)
    _stop(refs)
    return timer.seconds


def spawn_ask(count: int) -> float:
    refs, total = [], 0
    with Timer() as timer:
        for _ in range(count):
            ref = Counter.start()
            total += ref.ask(Add(1), block=True)
            refs.append(ref)
    _check(total, count)
    _stop(refs)
    return timer.seconds


def fan_out(count: int) -> float:
    latch = Latch()
    refs = [Listener.start(latch) for _ in range(1000)]
    with Timer() as timer:
        for _ in range(count // 1000):
            latch.reset(1000)
            for ref in refs:
                ref.tell(Add(1))
            latch.opened.wait()
    _check(sum(ref.ask(Total(), block=True) for ref in refs), count)
    _stop(refs)
    return timer.seconds


def flood(count: int) -> float:
    ref = Counter.start()
    each = count // 8
    gate = threading.Barrier(9)

    def send() -> None:
        gate.wait()
        for _ in range(each):
            ref.tell(Add(1))

    threads = [threading.Thread(target=send) for _ in range(8)]
    for thread in threads:
        thread.start()
    with Timer() as timer:
        gate.wait()
        for thread in threads:
            thread.join()
        total = ref.ask(Total(), block=True)
    _check(total, count)
    ref.stop()
    return timer.seconds


def idle(count: int, meter: Meter) -> None:
    with meter:
        refs = [Counter.start() for _ in range(count)]
    _check(sum(ref.ask(Add(1), block=True) for ref in refs), count)
    _stop(refs)


CONTENDER = Contender(
    "pykka",
    version_of("pykka"),
    {
        "ask": Block(ask),
        "ask_queued": Block(ask),
        "ask_async": Block(ask),
        "ask_inside": Block(ask_inside),
        "tell": Block(tell, step=1000),
        "spawn": Block(spawn, most=400),
        "spawn_ask": Block(spawn_ask, most=400),
        "fan_out": Block(fan_out, step=1000, note="1,000 threads"),
        "thread_host": Block(ask),
        "flood": Block(flood, step=8),
    },
)


_cores = itertools.cycle(sorted(os.sched_getaffinity(0))) if hasattr(os, "sched_getaffinity") else None


def _on_one_core(run: Run) -> Run:
    def pinned(count: int) -> float:
        assert _cores is not None
        allowed = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {next(_cores)})  # threads inherit it
        try:
            return run(count)
        finally:
            os.sched_setaffinity(0, allowed)

    return pinned


ONE_CORE = Contender(
    "pykka-one-core",
    version_of("pykka"),
    {}
    if _cores is None
    else {
        name: Block(_on_one_core(block.run), block.step, block.most, block.note)
        for name, block in CONTENDER.blocks.items()
        if name not in ("ask_queued", "thread_host")
    },
)
"""Pykka with all its threads pinned to one core. Nobody's documentation says so and few would do it, but where a wake-up across cores is dear (in
virtual machines) it is pykka at its best, up to several times faster: the honest yardstick beside the usual one."""
