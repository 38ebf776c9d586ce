"""What every work of the desk does to its tables: the time, the events, and what is due."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from retinue.actors.approvals.owners import folder_of, is_alive
from retinue.actors.store.recovery import RECOVERIES
from retinue.security.approvals import ASKER
from retinue.security.errors import ApprovalError

if TYPE_CHECKING:
    from sqlite_utils import Database

    from retinue.actors.approvals.tables import Row

__all__ = [
    "CLOCK_TOLERANCE_MS",
    "INDETERMINATE",
    "RESETS",
    "TIMEOUT",
    "add_event",
    "cancel",
    "epoch_of",
    "expire_due",
    "find_one",
    "first",
    "floor_of",
    "is_lost",
    "moment",
    "read_at",
    "rows",
    "seen_at",
    "take_back_lost",
    "unresolved",
]

TIMEOUT: Final = 60.0
"""Seconds that the desk has for one thing, whatever time-out the system's asks have otherwise."""

CLOCK_TOLERANCE_MS: Final = 5_000
"""Milliseconds that a clock may be behind the latest time in the file; two clocks of one machine differ a little. Time itself never goes back in the file."""


def rows(database: Database, sql: str, *parameters: Any) -> list[Row]:
    """The rows that a SELECT gives, by column."""
    cursor = database.execute(sql, parameters)
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def first(database: Database, sql: str, *parameters: Any) -> Row | None:
    """The first of these rows, or None."""
    found = rows(database, sql, *parameters)
    return found[0] if found else None


INDETERMINATE: Final = "indeterminate"
"""The outcome of what was spent, and whose process ended before it said how it went."""

LOST_TEXT: Final = "the run that asked has ended with its process"

RESETS: Final = "clock resets"
"""The mark that counts how often a person has set the file's clock back."""


def moment(database: Database, now_ms: int) -> int:
    """The time that counts, which is never before what the file has seen, and written down with what the work does. For works that write.

    Raises:
        ApprovalError: The clock is behind the file's by more than `CLOCK_TOLERANCE_MS` (reason "clock"), so nothing that expires can be judged.
    """
    now = seen_at(database, now_ms)
    if now == now_ms:
        database.execute("UPDATE clock SET floor_ms = ? WHERE id = 1 AND floor_ms < ?", (now, now))
    return now


def seen_at(database: Database, now_ms: int) -> int:
    """As `moment`, without writing it down: for works that judge whether something may be redeemed, and write nothing."""
    floor = floor_of(database)
    if floor is None:
        raise ApprovalError(
            "the approvals' file has lost its clock, so nothing that expires can be judged. `retinue approvals reset-clock` gives it one.",
            reason="clock",
        )
    if now_ms < floor - CLOCK_TOLERANCE_MS:
        raise ApprovalError(
            f"this machine's clock is {(floor - now_ms) / 1000:,.0f} s behind the latest time in the approvals' file, so nothing is approved or redeemed. "
            "Set the clock; where it is right, and another was ahead once, a person does `retinue approvals reset-clock`.",
            reason="clock",
        )
    return max(now_ms, floor)


def read_at(database: Database, now_ms: int) -> int:
    """The time for works that only look, which must be possible at any time: where the file's is far ahead, this machine's own."""
    floor = floor_of(database)
    return now_ms if floor is None or now_ms < floor - CLOCK_TOLERANCE_MS else max(now_ms, floor)


def floor_of(database: Database) -> int | None:
    """The latest time that the file has seen; None where that was lost."""
    found = first(database, "SELECT floor_ms FROM clock WHERE id = 1")
    return None if found is None else int(found["floor_ms"])


def unresolved(database: Database, call: Row) -> str | None:
    """What was spent for the same deed and interrupted, and no person has said yet how that ended; None where there is none.

    The same deed is the same operation with the same arguments, for the same subject, at the same actor: also by a handler that was changed since.
    """
    found = rows(
        database,
        "SELECT jti, outcome, owner FROM spent WHERE (outcome IS NULL OR (outcome = ? AND resolved_by IS NULL)) AND operation IS ? AND subject = ? "
        "AND audience = ? AND arguments_digest = ? ORDER BY spent_ms",
        INDETERMINATE,
        *(call[name] for name in ("operation", "subject", "audience", "arguments_digest")),
    )
    return next((row["jti"] for row in found if row["outcome"] is not None or not is_alive(row["owner"], folder_of(database))), None)


def epoch_of(database: Database) -> int:
    """Which file this is: another number after each time that it took the place of a damaged one, or that its clock was set back. What was approved before is no
    good any more, for the rows that tell what was spent may be lost.
    """
    resets = first(database, "SELECT number FROM marks WHERE name = ?", RESETS)
    count = 0 if resets is None else int(resets["number"])
    if first(database, "SELECT 1 FROM sqlite_master WHERE name = ?", RECOVERIES) is None:
        return count
    # The sum, and not the latest: after the clock was set back a recovery may be of an earlier time than one before it.
    found = first(database, f"SELECT COALESCE(SUM(at_ms), 0) AS all_of_them FROM {RECOVERIES}")  # noqa: S608 - a constant
    return count if found is None else count + int(found["all_of_them"])


def add_event(
    database: Database,
    now: int,
    kind: str,
    *,
    request: str | None = None,
    jti: str | None = None,
    standing: str | None = None,
    who: str | None = None,
    detail: str = "",
    via: str = "",
) -> None:
    """Adds a line to what has happened. `via`: the desk that a person decided at."""
    database.execute(
        "INSERT INTO events (at_ms, kind, request_id, jti, standing_id, who, detail, via) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (now, kind, request, jti, standing, who, detail, via),
    )


def expire_due(database: Database, now: int) -> None:
    """Ends the requests whose time has passed."""
    due = rows(database, "SELECT id, expires_ms FROM requests WHERE status = 'pending' AND expires_ms <= ?", now)
    for row in due:
        database.execute("UPDATE requests SET status = 'expired', decided_ms = ? WHERE id = ?", (row["expires_ms"], row["id"]))
        add_event(database, now, "expired", request=row["id"])


def is_lost(database: Database, row: Row) -> bool:
    """Whether the run that asks has ended with its process, so that nobody can go on with it: runs are in memory."""
    return row["owner"] is not None and is_alive(row["owner"], folder_of(database)) is False


def take_back_lost(database: Database, now: int, *, ended: str = "", via: str = "") -> set[str]:
    """Takes back what runs ask whose process has ended, and of `ended`, which has ended in good order. Answers with the owners of what waits still."""
    living: set[str] = set()
    for row in rows(database, "SELECT DISTINCT owner FROM requests WHERE status = 'pending' AND owner IS NOT NULL"):
        owner = row["owner"]
        if owner != ended and not is_lost(database, row):
            living.add(owner)
            continue
        for lost in rows(database, "SELECT id FROM requests WHERE status = 'pending' AND owner = ?", owner):
            cancel(database, lost["id"], ASKER, LOST_TEXT, now, via)
    return living


def cancel(database: Database, request_id: str, who: str, note: str, now: int, via: str) -> None:
    """Takes a request back that waits."""
    database.execute(
        "UPDATE requests SET status = 'cancelled', decided_ms = ?, reviewer = ?, reviewer_asserted = 1, note = ? WHERE id = ?",
        (now, who, note, request_id),
    )
    add_event(database, now, "cancelled", request=request_id, who=who, detail=note, via=via)


def find_one(database: Database, request_id: str) -> Row:
    """The request's row.

    Raises:
        ApprovalError: There is none (reason "unknown").
    """
    found = first(database, "SELECT * FROM requests WHERE id = ?", request_id)
    if found is None:
        raise ApprovalError(
            f"there is no request {request_id[:80]!r}. `retinue approvals list` shows those that there are.", reason="unknown"
        )
    return found
