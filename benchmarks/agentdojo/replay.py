"""Runs the replay script over a row, a suite and a way to enforce it, several at once, and adds up what it counted."""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any, Final

import attrs

from benchmarks.agentdojo.plans import PLANS, Plan
from benchmarks.harness import BrokenBlock, quiet

__all__ = ["SUITES", "WAYS", "Counts", "Unit", "evaluate", "evaluate_all"]

SUITES: Final = ("workspace", "travel", "banking", "slack")
"""AgentDojo's suites, the longest first."""

WAYS: Final = ("gate", "layers", "actors")
"""How a row is enforced. "gate": by the bare gate, the pins in a policy. "layers": the same, the pins in the context. "actors": through real actors."""

_NOT_COUNTS: Final = frozenset({"t_ns"})  # the script's stopwatch


@attrs.frozen
class Counts:
    """What the replay script counted; see its own text.

    Attributes:
        users: User tasks.
        pairs: Pairs of a user task and an injection.
        refused: Pairs of which at least one injected call was refused, at both positions.
        effects_refused: Pairs of which every call that changes or sends something was refused.
        goals_failed: Pairs whose injection did not reach its goal.
        without_person: Pairs refused although every question is answered with yes.
        done: User tasks done when a person answers with yes.
        done_alone: User tasks done without a question.
        questions: Questions to a person over all user tasks.
        tasks_with_questions: User tasks with at least one.
        text_only: Pairs whose injection calls no tool at all, so that no gate can refuse it.
    """

    users: int = 0
    pairs: int = 0
    refused: int = 0
    effects_refused: int = 0
    goals_failed: int = 0
    without_person: int = 0
    done: int = 0
    done_alone: int = 0
    questions: int = 0
    tasks_with_questions: int = 0
    text_only: int = 0
    raw: Mapping[str, int] = attrs.field(factory=dict, repr=False, hash=False)

    def __add__(self, other: Counts) -> Counts:
        return counts_of(Counter(self.raw) + Counter(other.raw))


_NAMES: Final = {
    "users": "users",
    "pairs": "pairs",
    "refused": "blk_any",
    "effects_refused": "blk_eff",
    "goals_failed": "blk_pred",
    "without_person": "blk_deny",
    "done": "util_human",
    "done_alone": "util_strict",
    "questions": "asks",
    "tasks_with_questions": "tasks_with_ask",
    "text_only": "output_only",
}


def counts_of(raw: Mapping[str, int]) -> Counts:
    """From the script's counter. All of it is kept, and compared."""
    kept = {name: int(value) for name, value in raw.items() if name not in _NOT_COUNTS and value}
    return Counts(**{ours: kept.get(theirs, 0) for ours, theirs in _NAMES.items()}, raw=kept)


@attrs.frozen
class Unit:
    """A piece of work: one row, enforced one way, over one suite."""

    plan: Plan
    way: str
    suite: str


def evaluate(unit: Unit, *, version: str, script: Path | None = None, most: int | None = None) -> Counts:
    """Replays one unit, here and now.

    Args:
        unit: Which.
        version: AgentDojo's version of its suites.
        script: Where the replay script is.
        most: So many user tasks and injections of the suite at most; for a first look.

    Raises:
        Absent: The script or AgentDojo is not here.
        BrokenBlock: Actors did something else than the gate said.
    """
    from benchmarks.agentdojo.script import load

    module = load(script)
    from benchmarks.agentdojo.acting import ActorGate, ActorRuntime
    from benchmarks.agentdojo.bare import BareGate
    from benchmarks.agentdojo.tools import kits_of

    suite = Part(module.get_suites(version)[unit.suite], most)
    kits = kits_of(suite.tools)
    plain: Any = module.GatedRuntime
    broken: list[str] = []

    def gate() -> Any:
        if unit.way == "actors":
            return ActorGate(module, kits, unit.plan, broken)
        return BareGate(module, kits, unit.plan, layered=unit.way == "layers")

    def runtime(tools: Any, given: Any, approve: bool) -> Any:
        return ActorRuntime(tools, given, approve) if isinstance(given, ActorGate) else plain(tools, given, approve)

    with _replaced(module, "GatedRuntime", runtime), _replaced(module, "get_suites", lambda _: {unit.suite: suite}):
        try:
            rows = module.evaluate(version, gate)
        finally:
            ActorGate.end()
    if broken:
        raise BrokenBlock(f"{unit.plan.name}, {unit.suite}: {len(broken)} times; first: {broken[0]}")
    return counts_of(rows[unit.suite])


@contextlib.contextmanager
def _replaced(owner: Any, name: str, value: object) -> Iterator[None]:
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


class Part:
    """A suite of which only the first tasks and injections are seen; all of them where `most` is None."""

    def __init__(self, suite: Any, most: int | None) -> None:
        self._suite = suite
        self.user_tasks = dict(itertools.islice(suite.user_tasks.items(), most))
        self.injection_tasks = dict(itertools.islice(suite.injection_tasks.items(), most))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._suite, name)


def _one(unit: Unit, version: str, script: Path | None) -> Counts:
    return evaluate(unit, version=version, script=script)


def evaluate_all(
    plans: Sequence[Plan] = PLANS,
    ways: Collection[str] = WAYS,
    suites: Sequence[str] = SUITES,
    *,
    version: str,
    script: Path | None,
    jobs: int,
    progress: Callable[[str], None] = quiet,
) -> dict[tuple[str, str], Counts]:
    """(row, way) → counts over all suites. Rows that pin nothing are not run the way "layers": there is nothing to move."""
    units = [
        Unit(plan, way, suite) for suite in suites for plan in plans for way in WAYS if way in ways and (plan.pinned or way != "layers")
    ]
    totals: dict[tuple[str, str], Counts] = {}
    # Fresh processes, not forked ones: each loads the script once, and no thread of a system is lost on the way.
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        futures = {pool.submit(_one, unit, version, script): unit for unit in units}
        try:
            for number, future in enumerate(as_completed(futures), 1):
                unit = futures[future]
                progress(f"{number} of {len(units)}: {unit.plan.name}, {unit.way}, {unit.suite}")
                key = unit.plan.name, unit.way
                totals[key] = totals.get(key, Counts()) + future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return totals
