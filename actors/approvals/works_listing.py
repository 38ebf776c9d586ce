"""A work of the desk that chooses what a person is shown first, so that one who asks much hides nobody else's requests."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, ClassVar

import attrs

from retinue.actors.approvals.ledger import TIMEOUT, read_at, rows
from retinue.actors.approvals.works_asking import status_at
from retinue.actors.store.work import Work
from retinue.mailbox.messages import message

if TYPE_CHECKING:
    from sqlite_utils import Database

    from retinue.actors.approvals.tables import Row

__all__ = ["Choose", "Chosen"]


@attrs.frozen
class Chosen:
    """Some requests, and how many more there are.

    Attributes:
        rows: The rows, oldest first.
        more: How many were left out, by subject, most first.
    """

    rows: tuple[Row, ...]
    more: tuple[tuple[str, int], ...]


@message(name="retinue-approvals/Choose@1", timeout=TIMEOUT)
class Choose(Work[Chosen]):
    """Answers with the oldest requests of each subject in turn: the oldest of each, then the second of each, as long as there is room.

    Attributes:
        now_ms: The time.
        status: Only those of this status; None: all of them.
        limit: How many at most.
    """

    reads: ClassVar[bool] = True

    now_ms: int
    status: str | None
    limit: int

    def run(self, database: Database) -> Chosen:
        """See the class."""
        now = read_at(database, self.now_ms)
        condition, parameters = _condition(self.status, now)
        found = database.execute(f"SELECT rowid, subject FROM requests WHERE {condition} ORDER BY created_ms, rowid", parameters).fetchall()  # noqa: S608
        seen: Counter[str] = Counter()
        turns = []
        for place, (number, subject) in enumerate(found):
            turns.append((seen[subject], place, number))
            seen[subject] += 1
        turns.sort()
        chosen = sorted((place, number) for _, place, number in turns[: self.limit])
        taken = [row for _, number in chosen for row in rows(database, "SELECT * FROM requests WHERE rowid = ?", number)]
        seen.subtract(row["subject"] for row in taken)
        return Chosen(tuple(status_at(row, now) for row in taken), tuple((who, count) for who, count in seen.most_common() if count > 0))


def _condition(status: str | None, now: int) -> tuple[str, tuple[Any, ...]]:
    if status == "expired":
        return "(status = 'expired' OR (status = 'pending' AND expires_ms <= ?))", (now,)
    if status == "pending":
        return "status = 'pending' AND expires_ms > ?", (now,)
    return ("1", ()) if status is None else ("status = ?", (status,))
