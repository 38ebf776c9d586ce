"""Runs the programs: every contender that can be had, block by block in this process, in rounds."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache

import attrs

from benchmarks.harness import Timed, interleave, quiet, ratios, spread
from benchmarks.savina.banking import BANKING
from benchmarks.savina.barber import BARBER
from benchmarks.savina.benchmark import Benchmark, Port, Size, block_of
from benchmarks.savina.big import BIG
from benchmarks.savina.bounded_buffer import BOUNDED_BUFFER
from benchmarks.savina.chameneos import CHAMENEOS
from benchmarks.savina.counting import COUNTING
from benchmarks.savina.fibonacci import FIBONACCI
from benchmarks.savina.fork_join import CREATE, THROUGHPUT
from benchmarks.savina.philosophers import PHILOSOPHERS
from benchmarks.savina.ping_pong import PING_PONG
from benchmarks.savina.thread_ring import THREAD_RING

__all__ = ["BENCHMARKS", "EXTRA_PEERS", "OURS", "ProgramResult", "extra_ports", "ports_of", "program_results", "size_of"]

OURS = "retinue"

BENCHMARKS = (
    PING_PONG,
    COUNTING,
    THROUGHPUT,
    CREATE,
    THREAD_RING,
    CHAMENEOS,
    BIG,
    BOUNDED_BUFFER,
    PHILOSOPHERS,
    BARBER,
    BANKING,
    FIBONACCI,
)

EXTRA_PEERS: Mapping[str, str] = {"autogen-core": "benchmarks.savina.autogen_peer", "xoscar": "benchmarks.savina.xoscar_peer"}
"""Peers that come with the extra `bench`, and the module of their ports."""


@attrs.frozen
class ProgramResult:
    """One program: what each contender did, its size, and the processor's seconds for one operation, a figure a round."""

    benchmark: Benchmark
    timed: Mapping[str, Timed]
    sizes: Mapping[str, Size]
    cpu: Mapping[str, tuple[float, ...]]

    def best_peer(self) -> str | None:
        """The peer with the best median rate."""
        peers = {name: spread(timed.rates).median for name, timed in self.timed.items() if name != OURS}
        return max(peers, key=lambda name: peers[name]) if peers else None

    def margin(self) -> float | None:
        """How many times faster than the best peer ours is: the median of the rounds; None where there is nobody to compare with."""
        best = self.best_peer()
        if best is None or OURS not in self.timed:
            return None
        return spread(ratios(self.timed[OURS].rates, self.timed[best].rates)).median

    def cpu_margin(self) -> tuple[str, float] | None:
        """The peer that takes the least of the processor for an operation, and how many times less ours takes: the median of the rounds."""
        peers = {name: spread(figures).median for name, figures in self.cpu.items() if name != OURS}
        if not peers or OURS not in self.cpu:
            return None
        best = min(peers, key=lambda name: peers[name])
        return best, spread(ratios(self.cpu[best], self.cpu[OURS])).median


@cache
def extra_ports(peer: str) -> Mapping[str, Port]:
    """The ports of a peer that may be absent, by program. Raises ImportError where it is."""
    ports: Mapping[str, Port] = importlib.import_module(EXTRA_PEERS[peer]).PORTS
    return ports


def ports_of(benchmark: Benchmark, contenders: Collection[str]) -> dict[str, Port]:
    """The ports of a program for those of the contenders that have one and can be imported."""
    ports = {name: port for name, port in benchmark.ports.items() if name in contenders}
    for peer in EXTRA_PEERS:
        if peer in contenders:
            try:
                found = extra_ports(peer).get(benchmark.name)
            except ImportError:
                continue
            if found is not None:
                ports[peer] = found
    return ports


def size_of(benchmark: Benchmark, contender: str, kind: str) -> Size:
    """The size ("full", "quick" or "tiny") that a contender runs."""
    size: Size = getattr(benchmark, kind)
    smaller = benchmark.smaller.get(contender)
    if kind != "tiny" and smaller is not None and benchmark.operations(smaller) < benchmark.operations(size):
        return smaller
    return size


def program_results(
    contenders: Collection[str],
    *,
    only: Collection[str] = (),
    rounds: int,
    kind: str = "full",
    progress: Callable[[str], None] = quiet,
) -> Iterable[ProgramResult]:
    """One result a program, as it comes."""
    for benchmark in BENCHMARKS:
        if only and benchmark.name not in only:
            continue
        ports = ports_of(benchmark, contenders)
        sizes = {name: size_of(benchmark, name, kind) for name in ports}
        cpu: dict[str, list[float]] = {name: [] for name in ports}
        blocks = {name: block_of(benchmark, name, port, sizes[name], cpu[name]) for name, port in ports.items()}
        timed = interleave(blocks, rounds=rounds, seconds=0.1, progress=lambda label, name=benchmark.name: progress(f"{name}: {label}"))  # type: ignore[misc]
        yield ProgramResult(
            benchmark, timed, sizes, {name: tuple(figures[-rounds:]) for name, figures in cpu.items()}
        )  # without the warm-up
