"""Fair timing on a machine whose speed swings: short blocks, interleaved, compared round by round.

A laptop or a shared virtual machine changes its speed by half within seconds, so two long runs, one after the other, compare the weather. Here
every contender runs one short block a round, all rounds in one process, and a ratio is formed *within* a round, between neighbours in time.
What is reported is the median over the rounds, with the quartiles beside it: how far to trust it.
"""

from __future__ import annotations

import gc
import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Self

import attrs

__all__ = [
    "Block",
    "BrokenBlock",
    "Contender",
    "Progress",
    "Spread",
    "Timed",
    "Timer",
    "calibrate",
    "gc_policy",
    "interleave",
    "quiet",
    "ratios",
    "spread",
]

Progress = Callable[[str], None]
"""Told what is about to run."""

Run = Callable[[int], float]
"""Does so many operations and returns the seconds they took: setting up and tearing down are not timed. It checks its own result."""


class BrokenBlock(AssertionError):
    """A block did not do what it was timed for (a message lost, a wrong total): its time means nothing."""


@attrs.frozen
class Block:
    """One thing that a contender can do, and how many of it make sense at once.

    Attributes:
        run: Does `count` operations, returns seconds.
        step: Counts are multiples of it (a fan-out to 10,000 has steps of 10,000). Default 1.
        most: Never more in one block (threads, say, are dear). Default: no bound.
        note: What one should know to judge the figure: how this contender does it.
    """

    run: Run
    step: int = 1
    most: float = math.inf
    note: str = ""


@attrs.frozen
class Contender:
    """A framework under test: what it is called, its version, what it can do.

    Attributes:
        name: Short, for tables and the command line.
        version: Of the framework, or a word on what it is.
        blocks: Measure name → block; what it cannot do is simply absent.
    """

    name: str
    version: str
    blocks: Mapping[str, Block]


@attrs.frozen
class Spread:
    """The median of some figures, and their quartiles."""

    median: float
    low: float
    high: float


@attrs.frozen
class Timed:
    """What one contender did in one measure: operations a second, a figure a round, and the size of its blocks."""

    count: int
    rates: tuple[float, ...]


class Timer:
    """`with Timer() as timer: …` and then `timer.seconds`, or `start()` and `stop()` where a block does not fit.

    The garbage is collected first: nobody pays for what the one before left.

    Attributes:
        seconds: By the clock on the wall.
        cpu_seconds: That the process, all its threads together, was on a processor: what it takes from the machine, whoever else wants it.
    """

    __slots__ = ("_began", "_cpu_began", "cpu_seconds", "seconds")

    def __init__(self) -> None:
        self.seconds = self.cpu_seconds = math.nan
        self._began = self._cpu_began = math.nan

    def start(self) -> None:
        gc.collect()
        self._cpu_began = time.process_time()
        self._began = time.perf_counter()

    def stop(self) -> None:
        self.seconds = time.perf_counter() - self._began
        self.cpu_seconds = time.process_time() - self._cpu_began

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def quiet(_: str) -> None:
    """Progress that nobody follows."""


def _fit(block: Block, count: float) -> int:
    steps = int(min(count, block.most) // block.step)
    return max(1, steps) * block.step


def calibrate(block: Block, seconds: float) -> int:
    """How many operations of this block take about so long. It also warms the code up."""
    count = _fit(block, 16)
    while True:
        taken = block.run(count)
        if taken >= seconds / 4:
            return _fit(block, count * seconds / taken)
        grown = _fit(block, count * min(8.0, max(2.0, seconds / max(taken, 1e-9))))
        if grown == count:  # at its bound: shorter than wished, and that is all it gives
            return count
        count = grown


def interleave(blocks: Mapping[str, Block], *, rounds: int, seconds: float, progress: Progress = quiet) -> dict[str, Timed]:
    """Run every block once a round, in an order that rotates, so that no one always runs first or behind the same neighbour.

    Args:
        blocks: Label → block.
        rounds: How many rounds. An odd number has a median that was measured.
        seconds: About how long one block lasts.
        progress: Told the label before its block runs.
    """
    labels = list(blocks)
    counts: dict[str, int] = {}
    for label in labels:
        progress(label)
        counts[label] = calibrate(blocks[label], seconds)
    rates: dict[str, list[float]] = {label: [] for label in labels}
    for number in range(rounds):
        shift = number % len(labels)
        for label in labels[shift:] + labels[:shift]:
            progress(label)
            rates[label].append(counts[label] / blocks[label].run(counts[label]))
    return {label: Timed(counts[label], tuple(rates[label])) for label in labels}


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """Ours by theirs, round by round."""
    return [a / b for a, b in zip(ours, theirs, strict=True)]


def spread(figures: Sequence[float]) -> Spread:
    """Median and quartiles. A single figure is its own quartile."""
    if len(figures) == 1:
        return Spread(figures[0], figures[0], figures[0])
    low, _, high = statistics.quantiles(figures, n=4, method="inclusive")
    return Spread(statistics.median(figures), low, high)


@contextmanager
def gc_policy(name: str) -> Iterator[None]:
    """The garbage collector's thresholds, the same for every contender: "default" (CPython's own) or "tuned" (what `rt.run` sets: the youngest objects are looked at every 20,000 allocations)."""
    before = gc.get_threshold()
    if name == "tuned":
        gc.set_threshold(20_000, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
