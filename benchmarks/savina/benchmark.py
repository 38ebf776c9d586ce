"""What a program of the suite is: its sizes, its ports, and the result that each port must come to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import attrs

from benchmarks.harness import Block, BrokenBlock, Timer

__all__ = ["Benchmark", "Outcome", "Port", "Size", "block_of"]

Size: TypeAlias = Any
"""The parameters of one run: an attrs class of the program's own."""

Outcome: TypeAlias = tuple[Timer, Any]
"""What it took, and the result."""

Port: TypeAlias = Callable[[Size], Outcome]
"""Runs a program once. Actors that are there before the first message are made untimed, and ended untimed."""


@attrs.frozen
class Benchmark:
    """One program.

    Attributes:
        name: For the command line.
        title: For tables.
        unit: What is counted, a second.
        how: What is done and timed, and what is checked.
        operations: How many of them a size has.
        expected: The result of a size; a port that comes to another breaks the run.
        full, quick, tiny: Sizes: for results, for a first look, for tests.
        ports: Contender → port.
        smaller: Contender → its size instead of `full`, where that is more than it can do. Rates are compared then.
        notes: Contender → what one should know to judge its figure.
    """

    name: str
    title: str
    unit: str
    how: str
    operations: Callable[[Size], int]
    expected: Callable[[Size], Any]
    full: Size
    quick: Size
    tiny: Size
    ports: Mapping[str, Port]
    smaller: Mapping[str, Size] = attrs.field(factory=dict)
    notes: Mapping[str, str] = attrs.field(factory=dict)


def block_of(benchmark: Benchmark, contender: str, port: Port, size: Size, cpu: list[float]) -> Block:
    """The port as a block of the harness: one run is so many operations, no more and no fewer. To `cpu` each run adds the processor's seconds for one of them."""
    operations = benchmark.operations(size)
    expected = benchmark.expected(size)

    def run(count: int) -> float:
        timer, result = port(size)
        if count != operations or result != expected:
            raise BrokenBlock(f"{benchmark.name}: {contender} came to {result!r} and not to {expected!r}")
        cpu.append(timer.cpu_seconds / operations)
        return timer.seconds

    return Block(run, step=operations, most=operations, note=benchmark.notes.get(contender, ""))
