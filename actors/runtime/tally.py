"""The tally: what passed the gate without a record of its own, counted, and written into the audit in batches.

What passes by a kept verdict is counted without touching it: the actor counts what it has handled anyway, so the number is noted when a verdict is kept, and the
difference is what passed by it. The rest (under a deadline, a budget, constraints or policies) is counted one by one.

An audit record costs as much as twenty messages, so there is not one for each context that an actor happens to work for: a batch that would be long is summed up, by
operation and context, or by operation alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from retinue.actors.runtime.cell import Cell
    from retinue.capabilities.gate import Gate
    from retinue.security.context import SecurityContext

__all__ = ["Tally"]

MOST_COUNTED = 512
"""Contexts, operations and actors for which what has passed is only counted, before it is written down."""

MOST_RECORDS = 64
"""Records of one batch, before it is summed up."""


class Tally:
    """Counts for one gate; all of it in the system's thread.

    Args:
        gate: What writes the records.
        audited: Whether there is an audit to write into; else passes by kept verdicts are counted for the gate's statistics alone.
    """

    __slots__ = ("_audited", "_entries", "_gate", "_gone", "_kept", "_more", "_passed")

    def __init__(self, gate: Gate, *, audited: bool) -> None:
        self._gate = gate
        self._audited = audited
        self._kept: dict[Cell, tuple[SecurityContext, str, int]] = {}  # effective context, operation, messages handled before
        self._passed: dict[Cell, dict[tuple[SecurityContext, str], int]] = {}
        self._gone: dict[tuple[str, SecurityContext, str], int] = {}  # the same of actors that have ended, by their paths
        self._more: dict[tuple[SecurityContext, str], list[int]] = {}  # of those beyond, whose paths would be summed up anyway
        self._entries = 0  # in both

    def keep(self, cell: Cell, security: SecurityContext, operation: str) -> None:
        """A verdict is kept, from the message on that is admitted now."""
        self._kept[cell] = (security, operation, cell.handled)

    def let_go(self, cell: Cell) -> None:
        """The verdict of the cell is kept no longer."""
        kept = self._kept.pop(cell, None)
        if kept is not None and cell.handled != kept[2]:
            self._take(cell, kept)

    def unhandled(self, cell: Cell) -> None:
        """What the cell does now, or did last, is not among what it has handled: a tell whose handler failed, a turn that its end cut off. It has passed all the
        same, if it was by a kept verdict.
        """
        kept = self._kept.get(cell)
        if kept is not None:
            self._kept[cell] = (kept[0], kept[1], kept[2] - 1)

    def add(self, cell: Cell, security: SecurityContext, operation: str | None, count: int = 1) -> None:
        """So many messages have passed that leave no record."""
        if operation is None or not self._audited:
            return
        passed = self._passed.get(cell)
        if passed is None:
            passed = self._passed[cell] = {}
        key = (security, operation)
        before = passed.get(key, 0)
        passed[key] = before + count
        if not before:
            self._entries += 1
            if self._entries >= MOST_COUNTED:
                self._write()

    def retire(self, cell: Cell) -> None:
        """The actor ends: counts what passed, what is cut off included, and holds it no longer."""
        if cell.turn is not None:
            self.unhandled(cell)
        kept = self._kept.pop(cell, None)
        passed = self._passed.pop(cell, None)
        if kept is not None and cell.handled != kept[2]:  # as `_take`, but for what is counted under the path from now on
            count = cell.handled - kept[2]
            self._gate.allowed += count
            if self._audited:
                key = kept[:2]
                if passed is None:
                    passed = {key: count}
                    self._entries += 1
                else:
                    self._entries += key not in passed
                    passed[key] = passed.get(key, 0) + count
        if passed is not None:
            self._keep_of_gone(cell, passed)

    def _keep_of_gone(self, cell: Cell, passed: dict[tuple[SecurityContext, str], int]) -> None:
        if len(self._gone) > MOST_RECORDS:
            more = self._more
            for key, count in passed.items():
                if key in more:
                    more[key].append(count)
                else:
                    more[key] = [count]
        else:
            path = cell.path
            for (security, operation), count in passed.items():
                self._gone[path, security, operation] = self._gone.get((path, security, operation), 0) + count
        if self._entries >= MOST_COUNTED:
            self._write()

    def flush(self) -> list[Cell]:
        """Writes down what has passed so far. Returns the cells whose kept verdicts nothing has passed by since the last time, nor does now."""
        idle = []
        for cell, kept in list(self._kept.items()):
            if cell.handled != kept[2]:
                self._kept[cell] = (kept[0], kept[1], cell.handled)
                self._take(cell, kept)
            elif cell.turn is None:
                idle.append(cell)
        self._write()
        return idle

    def _take(self, cell: Cell, kept: tuple[SecurityContext, str, int]) -> None:
        security, operation, before = kept
        self._gate.allowed += cell.handled - before
        self.add(cell, security, operation, cell.handled - before)

    def _write(self) -> None:
        passed, self._gone = self._gone, {}
        for cell, counts_of in self._passed.items():
            path = cell.path
            for (security, operation), count in counts_of.items():
                passed[path, security, operation] = passed.get((path, security, operation), 0) + count
        self._passed.clear()
        self._entries = 0
        if len(passed) <= MOST_RECORDS:
            for (path, security, operation), count in passed.items():
                self._gate.note_allowed(security, operation, path, count)
            return
        contexts, self._more = self._more, {}
        for (_, security, operation), count in passed.items():
            contexts.setdefault((security, operation), []).append(count)
        if len(contexts) <= MOST_RECORDS:
            for (security, operation), counts in contexts.items():
                self._gate.note_allowed(security, operation, None, sum(counts), detail=f"by {len(counts)} actors")
            return
        operations: dict[str, list[int]] = {}
        for (_, operation), counts in contexts.items():
            operations.setdefault(operation, []).append(sum(counts))
        for operation, sums in operations.items():
            self._gate.note_allowed(None, operation, None, sum(sums), detail=f"under {len(sums)} contexts")
