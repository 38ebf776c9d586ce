"""How long a message to an idle actor waits while another actor burns 2 ms a message and never runs out of mail: median, and 99th of a hundred."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import attrs
import pykka
import trio
import trio.testing

import retinue as rt
from benchmarks.harness import BrokenBlock, Progress, Spread, quiet, spread

__all__ = ["LATENCY_HOW", "LATENCY_TITLE", "PROBES", "LatencyResult", "latency_results"]

LATENCY_TITLE = "tell to handle, beside an actor that burns 2 ms a message"

LATENCY_HOW = """One actor has more mail than it can handle, and each message keeps its handler busy for 2 ms. About each millisecond an idle actor is told something from
outside, once it has handled what came before; taken is the time from the tell to its handler. The peers do the same with threads (a thread may be interrupted in
the middle of a message, a handler not) and with tasks."""

BURN = 0.002
PAUSE = 0.001
"""Seconds between two probes."""

Waits = list[float]
Probe = Callable[[int], Waits]
"""Sends so many probes, one after the other, and returns how long each has waited."""


@attrs.frozen
class LatencyResult:
    """Milliseconds, a figure a round and contender."""

    median: Mapping[str, Spread]
    late: Mapping[str, Spread]
    lower: Mapping[str, Spread]
    """How many times lower ours is, of the 99th of a hundred; a ratio a round."""


@rt.message
class Burn(rt.Message):
    pass


@rt.message
class Stamp(rt.Message):
    sent: float


def burn() -> None:
    until = time.perf_counter() + BURN
    while time.perf_counter() < until:
        pass


def _messages(probes: int) -> int:
    """So many to burn that they last longer than all the probes, which wait for at least one of them each."""
    return 4 * probes + 50


class Burner(rt.Actor):
    @rt.handler(requires="bench.burn")
    def burn(self, _: Burn) -> None:
        burn()


class Quiet(rt.Actor):
    def __init__(self, waits: Waits) -> None:
        self.waits = waits

    @rt.handler(requires="bench.probe")
    def probe(self, message: Stamp) -> None:
        self.waits.append(time.perf_counter() - message.sent)


def ours(probes: int) -> Waits:
    waits: Waits = []

    async def main() -> None:
        async with rt.ActorSystem("latency", permissions=["bench.**"]) as system:
            burner = await system.spawn(Burner, mailbox=rt.Mailbox.unbounded())
            idle = await system.spawn(Quiet, waits)
            for _ in range(_messages(probes)):
                burner.tell(Burn())
            for number in range(probes):
                idle.tell(Stamp(time.perf_counter()))
                while len(waits) <= number:  # noqa: ASYNC110 - the probe tells nobody when it was handled, for that would be part of what is measured
                    await trio.sleep(PAUSE)
            if not system.statistics().queued:
                raise BrokenBlock("the burner ran out of mail")
            await system.stop(grace=0)

    trio.run(main)
    return waits


class PykkaBurner(pykka.ThreadingActor):
    def __init__(self, over: threading.Event) -> None:
        super().__init__()
        self.over = over
        self.burned = 0

    def on_receive(self, _: Any) -> int:
        if not self.over.is_set():
            burn()
            self.burned += 1
        return self.burned


class PykkaQuiet(pykka.ThreadingActor):
    def __init__(self, waits: Waits) -> None:
        super().__init__()
        self.waits = waits

    def on_receive(self, message: Any) -> None:
        self.waits.append(time.perf_counter() - message.sent)


def with_pykka(probes: int) -> Waits:
    waits: Waits = []
    over = threading.Event()
    burner, idle = PykkaBurner.start(over), PykkaQuiet.start(waits)
    for _ in range(_messages(probes)):
        burner.tell(Burn())
    for number in range(probes):
        idle.tell(Stamp(time.perf_counter()))
        while len(waits) <= number:
            time.sleep(PAUSE)
    over.set()  # what waits is gone through at once now
    if burner.ask(None) >= _messages(probes):
        raise BrokenBlock("the burner ran out of mail")
    for ref in (burner, idle):
        ref.stop()
    return waits


async def _serve_burner(messages: trio.MemoryReceiveChannel[Burn]) -> None:
    async for _ in messages:
        burn()


async def _serve_quiet(messages: trio.MemoryReceiveChannel[Stamp], waits: Waits) -> None:
    async for message in messages:
        waits.append(time.perf_counter() - message.sent)


def with_trio(probes: int) -> Waits:
    waits: Waits = []

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            burner, burned = trio.open_memory_channel[Burn](float("inf"))
            idle, probed = trio.open_memory_channel[Stamp](1024)
            nursery.start_soon(_serve_burner, burned)
            nursery.start_soon(_serve_quiet, probed, waits)
            for _ in range(_messages(probes)):
                burner.send_nowait(Burn())
            for number in range(probes):
                idle.send_nowait(Stamp(time.perf_counter()))
                while len(waits) <= number:  # noqa: ASYNC110 - the probe tells nobody when it was handled, for that would be part of what is measured
                    await trio.sleep(PAUSE)
            if not burned.statistics().current_buffer_used:
                raise BrokenBlock("the burner ran out of mail")
            nursery.cancel_scope.cancel()

    trio.run(main)
    return waits


PROBES: Mapping[str, Probe] = {"retinue": ours, "pykka": with_pykka, "trio": with_trio}


def latency_results(names: list[str], *, rounds: int, probes: int = 200, progress: Progress = quiet) -> LatencyResult:
    """Every contender once a round, in an order that rotates."""
    labels = [name for name in names if name in PROBES]
    median: dict[str, list[float]] = {label: [] for label in labels}
    late: dict[str, list[float]] = {label: [] for label in labels}
    for number in range(rounds):
        shift = number % len(labels)
        for label in labels[shift:] + labels[:shift]:
            progress(f"latency: {label}")
            waits = PROBES[label](probes)
            if len(waits) != probes:
                raise BrokenBlock(f"{label}: {len(waits)} of {probes} probes were handled")
            percentiles = statistics.quantiles(waits, n=100, method="inclusive")
            median[label].append(percentiles[49] * 1000)
            late[label].append(percentiles[98] * 1000)
    own = late.get("retinue", [])
    lower = {
        label: spread([b / a for a, b in zip(own, theirs, strict=True)]) for label, theirs in late.items() if own and label != "retinue"
    }
    return LatencyResult(
        {label: spread(each) for label, each in median.items()}, {label: spread(each) for label, each in late.items()}, lower
    )
