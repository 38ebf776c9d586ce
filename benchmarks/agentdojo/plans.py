"""The rows of the table: how much a task's context permits, and whether its arguments are pinned."""

from __future__ import annotations

import random
from typing import Any

import attrs

import retinue as rt
from benchmarks.agentdojo.errand import operation_of

__all__ = ["PLANS", "Plan"]

_SEED = 0


@attrs.frozen
class Plan:
    """One row.

    Attributes:
        name: For the table and `--only`.
        about: What the row stands for.
        narrowed: Whether the task's context permits the planned tools only; else every tool.
        pinned: Whether the arguments are pinned by the errand's policy.
        extra: So many tools more than planned, drawn at random: a planner that grants too much.
    """

    name: str
    about: str
    narrowed: bool = True
    pinned: bool = False
    extra: int = 0

    def permitted(self, task: Any) -> list[str]:
        """The tools that the task's context permits."""
        if not self.narrowed:
            return sorted(task.all_tools)
        others = sorted(set(task.all_tools) - task.planned_tools)
        drawn = random.Random(f"{_SEED} {task.suite} {task.task_id}").sample(others, min(self.extra, len(others)))
        return sorted({*task.planned_tools, *drawn})

    def restriction(self, task: Any) -> rt.Restriction:
        """What the context of a task is narrowed by."""
        return rt.allow(*map(operation_of, self.permitted(task)))


PLANS = (
    Plan("allow-all", "every tool, nothing pinned: the replay's own check, as every injection must succeed", narrowed=False),
    Plan("tools", "the context is narrowed to the planned tools"),
    Plan("full", "planned tools, arguments pinned, foreign links and what cannot be undone are asked about", pinned=True),
    Plan("full+1", "the same, and the planner grants 1 tool too many", pinned=True, extra=1),
    Plan("full+2", "2 too many", pinned=True, extra=2),
    Plan("full+4", "4 too many", pinned=True, extra=4),
    Plan("tools+4", "4 too many, nothing pinned", extra=4),
)
