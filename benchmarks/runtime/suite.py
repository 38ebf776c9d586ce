"""Runs the measures of this suite: contenders block by block in this process, idle actors each in a fresh one."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path

import attrs

from benchmarks.harness import Block, Contender, Timed, interleave, quiet
from benchmarks.runtime import slow_subscriber, storms, waking
from benchmarks.runtime.measures import IDLE, MEASURES, Idle, Measure

__all__ = ["CONTENDERS", "OURS", "IdleResult", "MeasureResult", "block_of", "idle_results", "load", "measure_results"]

OURS = "retinue"

CONTENDERS: Mapping[str, str] = {
    OURS: "benchmarks.runtime.ours:CONTENDER",
    "pykka": "benchmarks.runtime.pykka_peer:CONTENDER",
    "pykka-one-core": "benchmarks.runtime.pykka_peer:ONE_CORE",
    "autogen-core": "benchmarks.runtime.autogen_peer:CONTENDER",
    "trio": "benchmarks.runtime.trio_peer:CONTENDER",
    "floor": "benchmarks.runtime.floor:CONTENDER",
}
"""Name → where it is defined, ours first. Each of these modules has a function `idle(count, meter)` too."""


MORE: Mapping[str, Mapping[str, Block]] = {
    "crash_storm": storms.BLOCKS,
    "slow_subscriber": slow_subscriber.BLOCKS,
    "wake_one": waking.BLOCKS,
}
"""Measures that stand in a module of their own, all contenders together."""


@attrs.frozen
class MeasureResult:
    """A measure, and what each contender did in it, by name ("retinue:tell" is another measure of ours, run in the same rounds)."""

    measure: Measure
    timed: Mapping[str, Timed]
    notes: Mapping[str, str]


@attrs.frozen
class IdleResult:
    """What so many idle actors took: `grown` bytes more than before, `total` bytes in the whole process (0 when traced)."""

    idle: Idle
    grown: int
    total: int

    @property
    def bytes_each(self) -> float:
        return self.grown / self.idle.count


def load(names: Iterable[str]) -> tuple[list[Contender], dict[str, str]]:
    """The contenders that can be imported, and why the others could not. Ours is never skipped: its error is raised."""
    loaded, absent = [], {}
    for name in names:
        try:
            module, _, attribute = CONTENDERS[name].partition(":")
            loaded.append(getattr(importlib.import_module(module), attribute))
        except ImportError as error:
            if name == OURS:
                raise
            absent[name] = f"{error} (peers come with the extra `bench`: pip install '.[bench]')"
    return loaded, absent


def block_of(contender: Contender, measure: str) -> Block | None:
    """What a contender does in a measure, or None."""
    return contender.blocks.get(measure) or MORE.get(measure, {}).get(contender.name)


def _blocks(measure: Measure, contenders: Collection[Contender]) -> dict[str, Block]:
    blocks = {contender.name: block for contender in contenders if (block := block_of(contender, measure.name)) is not None}
    ours = next((contender for contender in contenders if contender.name == OURS), None)
    if ours is not None:
        for target in measure.targets:
            name, _, other = target.against.partition(":")
            if name == OURS:
                blocks[target.against] = ours.blocks[other]
    return blocks


def measure_results(
    contenders: Collection[Contender],
    *,
    only: Collection[str] = (),
    rounds: int,
    seconds: float,
    progress: Callable[[str], None] = quiet,
) -> Iterable[MeasureResult]:
    """One result a measure, as it comes."""
    for measure in MEASURES:
        if only and measure.name not in only:
            continue
        blocks = _blocks(measure, contenders)
        if not blocks:
            continue
        timed = interleave(blocks, rounds=rounds, seconds=seconds, progress=lambda label, name=measure.name: progress(f"{name}: {label}"))  # type: ignore[misc]
        yield MeasureResult(measure, timed, {label: block.note for label, block in blocks.items() if block.note})


def idle_results(names: Collection[str], *, largest: int | None = None, progress: Callable[[str], None] = quiet) -> Iterable[IdleResult]:
    """One result a row of `IDLE`, each from a fresh process; rows larger than `largest` are left out."""
    for idle in IDLE:
        if idle.contender not in names or (largest is not None and idle.count > largest):
            continue
        progress(f"idle: {idle.count:,} of {idle.contender}")
        command = [sys.executable, "-m", "benchmarks.runtime.idle", idle.contender, str(idle.count), *(["--traced"] if idle.traced else [])]
        root = Path(__file__).parents[2]
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            raise RuntimeError(f"{idle.count:,} idle actors of {idle.contender} did not come to an end:\n{done.stderr[-2000:]}")
        answer = json.loads(done.stdout.splitlines()[-1])
        yield IdleResult(idle, answer["grown"], answer["total"])
