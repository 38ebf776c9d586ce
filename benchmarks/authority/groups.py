"""What is measured, what each figure is compared with, and what is to be reached."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Literal

import attrs

from benchmarks.harness import Block

__all__ = ["GROUPS", "Group", "Target", "blocks_of"]


@attrs.frozen
class Target:
    """At most so much.

    Attributes:
        at_most: The figure.
        of: "microseconds" of the thing itself; "added microseconds", or "added share" (0.15 is 15 %), to the group's base.
    """

    at_most: float
    of: Literal["microseconds", "added microseconds", "added share"]

    @property
    def text(self) -> str:
        """For tables."""
        if self.of == "added share":
            return f"≤ +{self.at_most:.0%}"
        return f"≤ {'+' if self.of == 'added microseconds' else ''}{self.at_most:g} µs"


@attrs.frozen
class Group:
    """Things that are timed block by block in turns, so that they can be compared.

    Attributes:
        name: For `--only`.
        title: For tables.
        how: What exactly is done and timed.
        source: "module:function" that gives the blocks, label → block; imported when it is needed.
        base: The label that the others are compared with, or None.
        targets: Label → what is to be reached.
    """

    name: str
    title: str
    how: str
    source: str
    base: str | None = None
    targets: Mapping[str, Target] = attrs.field(factory=dict)


def blocks_of(group: Group) -> dict[str, Block]:
    """The group's blocks."""
    module, _, function = group.source.partition(":")
    blocks: dict[str, Block] = getattr(importlib.import_module(module), function)()
    return blocks


_ASK = """One asker asks one idle actor again and again, under the system's root context. "no gate": the handler has no `requires`. "static permission": it has
one, and the context permits it by name. "path constraint": the context has `where("bench.read", path=within("reports/"))` too. "two more constraints":
and a bound on a number, and a choice of values. "one sync policy": as the static permission, and a policy that allows. "audited": the handler's risk is
L2, so a chained record is made (in memory) before each answer."""

GROUPS = (
    Group(
        "ask",
        "ask, in the asker's own task",
        _ASK,
        "benchmarks.authority.asks:inline",
        base="no gate",
        targets={"path constraint": Target(15, "added microseconds")},
    ),
    Group(
        "queued",
        "ask, through the queue",
        f"{_ASK} `detached=True` sends each through mailbox, ready queue and a worker task.",
        "benchmarks.authority.asks:queued",
        base="no gate",
        targets={"static permission": Target(0.15, "added share"), "path constraint": Target(15, "added microseconds")},
    ),
    Group(
        "gate",
        "decisions of the bare gate",
        "`Gate.admit` and what it is made of, without a system around it.",
        "benchmarks.authority.decisions:gate",
        targets={"admit, path constraint": Target(15, "microseconds")},
    ),
    Group(
        "contexts",
        "contexts",
        "Narrowing and meeting, as a handler and the runtime do it for each message.",
        "benchmarks.authority.decisions:contexts",
    ),
    Group(
        "tokens",
        "sealed tokens",
        """A context of three layers is sealed, attenuated five times without a key, and unsealed. "warm": the same token again, MAC and look-up; "cold": for the first time, all of it parsed and
met. biscuit-python does the nearest: mint, five attenuations (an append each), parsing from text with the six signatures, and an authorisation.""",
        "benchmarks.authority.borders:tokens",
        targets={"unseal, warm": Target(50, "microseconds"), "unseal, cold": Target(1000, "microseconds")},
    ),
    Group(
        "records",
        "canonical bytes, budgets, records",
        "A message of about 600 bytes is made canonical and hashed; a reservation over three accounts is made and settled; an audit record is chained.",
        "benchmarks.authority.borders:records",
    ),
)
