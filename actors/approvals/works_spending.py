"""Works of the desk: approvals are spent, their outcomes noted, and standing consents kept. Each is one transaction; see `retinue.actors.store`."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, ClassVar, Final

from retinue.actors.approvals.ledger import (
    CLOCK_TOLERANCE_MS,
    INDETERMINATE,
    TIMEOUT,
    add_event,
    epoch_of,
    expire_due,
    find_one,
    first,
    floor_of,
    moment,
    read_at,
    rows,
    seen_at,
    take_back_lost,
    unresolved,
)
from retinue.actors.approvals.owners import folder_of, forget_the_dead, is_alive
from retinue.actors.approvals.tables import KEEP_MS, Row
from retinue.actors.approvals.witness import check_witness, count_use, write_witness
from retinue.actors.store.work import Work
from retinue.mailbox.messages import message
from retinue.security.errors import ApprovalError

if TYPE_CHECKING:
    from sqlite_utils import Database

__all__ = [
    "Count",
    "Indeterminate",
    "KeepStanding",
    "ListStanding",
    "NoteOutcome",
    "Resolve",
    "Spend",
    "Tidy",
    "Unresolved",
    "Unspent",
    "WithdrawStanding",
]

MAX_STANDING: Final = 1_000
"""Standing consents in force at one desk."""

FORGET_AT_ONCE: Final = 1_000
"""Requests that one tidying forgets at most."""

UNKNOWN_TEXT: Final = "the file could not be used while the approval was spent"

DEAD_TEXT: Final = "its process ended between the approval's use and the outcome"


@message(name="retinue-approvals/Unspent@1", timeout=TIMEOUT)
class Unspent(Work[Row]):
    """Looks whether a token may be spent, without doing it. Answers with the request's row.

    Attributes:
        jti: The token's id.
        request_id: The request that it says it approves.
        now_ms: The time.
    """

    reads: ClassVar[bool] = True

    jti: str
    request_id: str
    now_ms: int

    def run(self, database: Database) -> Row:
        """See the class. Raises ApprovalError ("spent", "unknown", "decided", "clock")."""
        seen_at(database, self.now_ms)
        return _check_unspent(database, self.jti, self.request_id)


def _check_unspent(database: Database, jti: str, request_id: str) -> Row:
    if first(database, "SELECT jti FROM spent WHERE jti = ?", jti) is not None:
        raise ApprovalError(f"the approval {jti} was spent before, and each is good for one call. Ask again.", reason="spent")
    row = find_one(database, request_id)
    if row["status"] != "approved":
        raise ApprovalError(f"the request {request_id} of this approval is {row['status']}, not approved.", reason="decided")
    if row["jti"] != jti:
        raise ApprovalError(f"the request {request_id} was not approved with this token. Ask again.", reason="unknown")
    if row["used_ms"] is not None:
        raise ApprovalError(f"the approval {jti} was spent before, and each is good for one call. Ask again.", reason="spent")
    if row["epoch"] != epoch_of(database):
        raise ApprovalError(
            f"since the request {request_id} was approved, the approvals' file was damaged and mended, or is an older one, or its clock was set back: whether the approval was "
            "spent is not known. Ask again.",
            reason="store",
        )
    return row


@message(name="retinue-approvals/Spend@1", timeout=TIMEOUT)
class Spend(Work[int]):
    """Spends an approval: the commit point, before the effect. Answers with the time.

    Attributes:
        jti: What is spent; never again.
        kind: "token" or "standing".
        request_id: The request of a token.
        standing_id: The standing consent.
        operation, subject, audience, arguments_digest, question: Of the call, for those who read it.
        approver: Who consented.
        expires_ms: When the approval ends.
        owner: The process that goes on to do it.
        now_ms: The time.
    """

    full: ClassVar[bool] = True
    after_commit = staticmethod(write_witness)

    jti: str
    kind: str
    request_id: str | None
    standing_id: str | None
    operation: str | None
    subject: str
    audience: str
    arguments_digest: str
    question: str
    approver: str
    expires_ms: int
    owner: str
    now_ms: int

    def run(self, database: Database) -> int:
        """See the class. Raises ApprovalError ("spent", "unknown", "decided", "expired", "clock")."""
        now = moment(database, self.now_ms)
        check_witness(database)
        if self.kind == "token":
            row = _check_unspent(database, self.jti, self.request_id or "")
            ends = min(self.expires_ms, row["token_expires_ms"])
        else:
            ends = min(self.expires_ms, self._standing_end(database))
            self._check_resolved(database)
        if ends <= now:
            raise ApprovalError("the approval expired before it could be used. Ask again.", reason="expired")
        try:
            database.execute(
                "INSERT INTO spent (jti, kind, request_id, standing_id, operation, subject, audience, arguments_digest, question, approver, expires_ms, "
                "spent_ms, owner) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    self.jti,
                    self.kind,
                    self.request_id,
                    self.standing_id,
                    self.operation,
                    self.subject,
                    self.audience,
                    self.arguments_digest,
                    self.question,
                    self.approver,
                    ends,
                    now,
                    self.owner,
                ),
            )
        except sqlite3.IntegrityError:
            raise ApprovalError(
                f"the approval {self.jti} was spent before, and each is good for one call. Ask again.", reason="spent"
            ) from None
        if self.request_id is not None:
            database.execute("UPDATE requests SET used_ms = ? WHERE id = ?", (now, self.request_id))
        count_use(database)
        add_event(database, now, "spent", request=self.request_id, jti=self.jti, standing=self.standing_id, who=self.subject)
        return now

    def _check_resolved(self, database: Database) -> None:
        call = {name: getattr(self, name) for name in ("operation", "subject", "audience", "arguments_digest")}
        before = unresolved(database, call)
        if before is not None:
            raise ApprovalError(
                f"the same was begun before and interrupted ({before}), and no standing consent covers that it is done again. Ask again.",
                reason="indeterminate",
            )

    def _standing_end(self, database: Database) -> int:
        found = first(database, "SELECT withdrawn_ms, expires_ms, epoch FROM standing WHERE id = ?", self.standing_id)
        if found is None or found["withdrawn_ms"] is not None or found["epoch"] != epoch_of(database):
            raise ApprovalError(f"the standing consent {self.standing_id} is not in force any more. Ask again.", reason="decided")
        ends: int = found["expires_ms"]
        return ends


@message(name="retinue-approvals/NoteOutcome@1", timeout=TIMEOUT)
class NoteOutcome(Work[bool]):
    """Notes how it ended. Answers whether that was news: an outcome is noted once.

    Attributes:
        jti: What was spent.
        outcome: "succeeded", "failed: TypeName", "cancelled" or "not run"; "indeterminate" where nobody knows: a true one may follow.
        now_ms: The time.
    """

    jti: str
    outcome: str
    now_ms: int

    def run(self, database: Database) -> bool:
        """See the class."""
        now = _latest(database, self.now_ms)
        # Also what others took for interrupted: whoever did it knows better.
        changed = database.execute(
            "UPDATE spent SET outcome = ?, outcome_ms = ? WHERE jti = ? AND (outcome IS NULL OR (outcome = ? AND outcome <> ? AND resolved_by IS NULL))",
            (self.outcome, now, self.jti, INDETERMINATE, self.outcome),
        )
        if not changed.rowcount:
            return False
        if self.outcome == INDETERMINATE:
            add_event(database, now, INDETERMINATE, jti=self.jti, request=_request_of(database, self.jti), detail=UNKNOWN_TEXT)
            return True
        add_event(database, now, "outcome", jti=self.jti, request=_request_of(database, self.jti), detail=self.outcome)
        return True


def _latest(database: Database, now_ms: int) -> int:
    """The time for what is only noted: it must not be lost for a clock that is wrong."""
    try:
        return moment(database, now_ms)
    except ApprovalError:
        return floor_of(database) or now_ms


def _request_of(database: Database, jti: str) -> str | None:
    found = first(database, "SELECT request_id FROM spent WHERE jti = ?", jti)
    return None if found is None else found["request_id"]


@message(name="retinue-approvals/Tidy@1", timeout=TIMEOUT)
class Tidy(Work[tuple[Row, ...]]):
    """Ends what is due, and what runs ask whose process has ended; finds what was interrupted, and forgets what nobody can use any more. Answers with what was found interrupted by this.

    Attributes:
        now_ms: The time.
        ended: An owner that has ended in good order, whose open ones are interrupted too, and whose runs ask nothing any more.
        owner: Who asks.
        running: What is really in progress there: any other open one of it was interrupted, though its process lives.
        via: The desk that tidies.
    """

    now_ms: int
    ended: str = ""
    owner: str = ""
    running: tuple[str, ...] = ()
    via: str = ""

    def run(self, database: Database) -> tuple[Row, ...]:
        """See the class. Raises ApprovalError ("clock")."""
        now = moment(database, self.now_ms)
        expire_due(database, now)
        waiting = take_back_lost(database, now, ended=self.ended, via=self.via)
        interrupted = []
        folder = folder_of(database)
        still_open = rows(database, "SELECT * FROM spent WHERE outcome IS NULL")
        forget_the_dead(folder, waiting | {row["owner"] for row in still_open})
        for row in still_open:
            left = row["owner"] == self.owner and row["jti"] not in self.running
            if left or row["owner"] == self.ended or is_alive(row["owner"], folder) is False:
                database.execute("UPDATE spent SET outcome = ?, outcome_ms = ? WHERE jti = ?", (INDETERMINATE, now, row["jti"]))
                add_event(
                    database, now, INDETERMINATE, jti=row["jti"], request=row["request_id"], standing=row["standing_id"], detail=DEAD_TEXT
                )
                interrupted.append(row)
        # A token is refused by its own end from then on. The clock of the file never goes back, and whoever's is behind it by more than the tolerance is refused.
        database.execute(
            "DELETE FROM spent WHERE expires_ms < ? AND spent_ms < ? AND outcome IS NOT NULL AND outcome <> ?",
            (now - CLOCK_TOLERANCE_MS, now - KEEP_MS, INDETERMINATE),
        )
        _forget(database, now - KEEP_MS)
        return tuple(interrupted)


def _forget(database: Database, before: int) -> None:
    """Removes what is over for so long, some at a time: requests with what was said about them, and events. What people decided is in the audit."""
    over = rows(
        database,
        "SELECT id FROM requests WHERE status <> 'pending' AND COALESCE(decided_ms, expires_ms) < ? AND COALESCE(token_expires_ms, 0) < ? "
        "AND NOT EXISTS (SELECT 1 FROM spent WHERE spent.request_id = requests.id) "
        "AND NOT EXISTS (SELECT 1 FROM requests AS later WHERE later.edit_of = requests.id) ORDER BY rowid LIMIT ?",
        before,
        before,
        FORGET_AT_ONCE,
    )
    for row in over:
        database.execute("DELETE FROM feedback WHERE request_id = ?", (row["id"],))
        database.execute("DELETE FROM requests WHERE id = ?", (row["id"],))
    # The last one stays: its number says where the events go on.
    database.execute(
        "DELETE FROM events WHERE number IN (SELECT number FROM (SELECT number, at_ms FROM events ORDER BY number LIMIT ?) WHERE at_ms < ?) "
        "AND number < (SELECT MAX(number) FROM events)",
        (10 * FORGET_AT_ONCE, before),
    )


@message(name="retinue-approvals/Indeterminate@1", timeout=TIMEOUT)
class Indeterminate(Work[tuple[Row, ...]]):
    """Answers with what was spent and interrupted, and no person has resolved yet, oldest first; also what nobody can know whether it is in progress still."""

    reads: ClassVar[bool] = True

    def run(self, database: Database) -> tuple[Row, ...]:
        """See the class."""
        found = rows(
            database, "SELECT * FROM spent WHERE (outcome = ? AND resolved_by IS NULL) OR outcome IS NULL ORDER BY spent_ms", INDETERMINATE
        )
        folder = folder_of(database)
        return tuple(row for row in found if row["outcome"] is not None or not is_alive(row["owner"], folder))


@message(name="retinue-approvals/Resolve@1", timeout=TIMEOUT)
class Resolve(Work[None]):
    """A person has found out how something ended that was interrupted.

    Attributes:
        jti: What was spent.
        outcome: "succeeded", "failed" or "not run".
        reviewer: Who says so.
        asserted: Whether code said who that is.
        note: How they know.
        now_ms: The time.
        via: The desk that it is said at.
    """

    full: ClassVar[bool] = True

    jti: str
    outcome: str
    reviewer: str
    asserted: bool
    note: str
    now_ms: int
    via: str = ""

    def run(self, database: Database) -> None:
        """See the class. Raises ApprovalError ("unknown", "decided", "clock")."""
        now = moment(database, self.now_ms)
        row = first(database, "SELECT * FROM spent WHERE jti = ?", self.jti)
        if row is None:
            raise ApprovalError(
                f"no approval {self.jti[:80]!r} was spent. `retinue approvals indeterminate` shows those to resolve.", reason="unknown"
            )
        if row["outcome"] is None and is_alive(row["owner"], folder_of(database)):
            raise ApprovalError(f"what {self.jti} approves is in progress; its outcome will be noted when it ends.", reason="decided")
        if row["outcome"] not in (None, INDETERMINATE):
            raise ApprovalError(f"the outcome of {self.jti} is known: {row['outcome']}.", reason="decided")
        database.execute(
            "UPDATE spent SET outcome = ?, outcome_ms = ?, resolved_by = ?, note = ? WHERE jti = ?",
            (self.outcome, now, self.reviewer, self.note, self.jti),
        )
        add_event(
            database,
            now,
            "resolved",
            jti=self.jti,
            request=row["request_id"],
            who=self.reviewer,
            detail=f"{self.outcome}: {self.note}"[:500],
            via=self.via,
        )


@message(name="retinue-approvals/KeepStanding@1", timeout=TIMEOUT)
class KeepStanding(Work[None]):
    """Keeps a standing consent.

    Attributes:
        row: Its row.
        now_ms: The time.
        via: The desk that it is given at.
    """

    full: ClassVar[bool] = True

    row: Row
    now_ms: int
    via: str = ""

    def run(self, database: Database) -> None:
        """See the class. Raises ApprovalError ("full", "clock")."""
        now = moment(database, self.now_ms)
        (count,) = database.execute(
            "SELECT COUNT(*) FROM standing WHERE withdrawn_ms IS NULL AND expires_ms > ? AND epoch = ?", (now, epoch_of(database))
        ).fetchone()
        if count >= MAX_STANDING:
            raise ApprovalError(f"{count:,} standing consents are in force, and no more are taken. Withdraw some.", reason="full")
        row = {**self.row, "epoch": epoch_of(database)}
        names = ", ".join(row)
        database.execute(f"INSERT INTO standing ({names}) VALUES ({', '.join('?' * len(row))})", tuple(row.values()))  # noqa: S608 - our own names
        add_event(database, now, "always", standing=self.row["id"], who=self.row["approver"], detail=self.row["described"], via=self.via)


@message(name="retinue-approvals/ListStanding@1", timeout=TIMEOUT)
class ListStanding(Work[tuple[Row, ...]]):
    """Answers with the standing consents in force, oldest first.

    Attributes:
        now_ms: The time.
        judging: Whether something will be permitted by them, and not only shown.
        call: With `judging`: the subject, tenant and audience of a call that they may be for. (A column that somebody changed only hides one: what one is for is
            signed.)
    """

    reads: ClassVar[bool] = True

    now_ms: int
    judging: bool = False
    call: tuple[str, str | None, str] | None = None

    def run(self, database: Database) -> tuple[Row, ...]:
        """See the class. Raises ApprovalError ("clock")."""
        now = seen_at(database, self.now_ms) if self.judging else read_at(database, self.now_ms)
        which = (
            ""
            if self.call is None
            else "AND (subject IS NULL OR subject = ?) AND (tenant IS NULL OR tenant = ?) AND (audience IS NULL OR audience = ?)"
        )
        return tuple(
            rows(
                database,
                f"SELECT * FROM standing WHERE withdrawn_ms IS NULL AND expires_ms > ? AND epoch = ? {which} ORDER BY issued_ms, rowid",  # noqa: S608 - fixed
                now,
                epoch_of(database),
                *(self.call or ()),
            )
        )


@message(name="retinue-approvals/WithdrawStanding@1", timeout=TIMEOUT)
class WithdrawStanding(Work[None]):
    """Withdraws a standing consent: from the commit on it covers nothing.

    Attributes:
        id: The standing consent.
        reviewer: Who withdraws it.
        now_ms: The time.
        via: The desk that it is withdrawn at.
    """

    full: ClassVar[bool] = True
    after_commit = staticmethod(write_witness)

    id: str
    reviewer: str
    now_ms: int
    via: str = ""

    def run(self, database: Database) -> None:
        """See the class. Raises ApprovalError ("unknown", "decided")."""
        now = _latest(database, self.now_ms)  # taking away is right at any time
        found = first(database, "SELECT withdrawn_ms FROM standing WHERE id = ?", self.id)
        if found is None:
            raise ApprovalError(
                f"there is no standing consent {self.id[:80]!r}. `retinue approvals standing` shows them.", reason="unknown"
            )
        if found["withdrawn_ms"] is not None:
            raise ApprovalError(f"the standing consent {self.id} was withdrawn before.", reason="decided")
        database.execute("UPDATE standing SET withdrawn_ms = ?, withdrawn_by = ? WHERE id = ?", (now, self.reviewer, self.id))
        count_use(database)
        add_event(database, now, "withdrawn", standing=self.id, who=self.reviewer, via=self.via)


@message(name="retinue-approvals/Count@1", timeout=TIMEOUT)
class Count(Work[Row]):
    """Answers with how many there are of what: the statuses of requests, "spent", "indeterminate" and "standing".

    Attributes:
        now_ms: The time.
    """

    reads: ClassVar[bool] = True

    now_ms: int

    def run(self, database: Database) -> Row:
        """See the class."""
        now = read_at(database, self.now_ms)
        counts: Row = dict.fromkeys(("pending", "approved", "rejected", "expired", "cancelled"), 0)
        due = "CASE WHEN status = 'pending' AND expires_ms <= ? THEN 'expired' ELSE status END"
        for row in rows(database, f"SELECT {due} AS what, COUNT(*) AS number FROM requests GROUP BY what", now):  # noqa: S608
            counts[row["what"]] = row["number"]
        (counts["spent"],) = database.execute("SELECT COUNT(*) FROM spent").fetchone()
        (counts["indeterminate"],) = database.execute(
            "SELECT COUNT(*) FROM spent WHERE outcome = ? AND resolved_by IS NULL", (INDETERMINATE,)
        ).fetchone()
        (counts["standing"],) = database.execute(
            "SELECT COUNT(*) FROM standing WHERE withdrawn_ms IS NULL AND expires_ms > ? AND epoch = ?", (now, epoch_of(database))
        ).fetchone()
        return counts


@message(name="retinue-approvals/Unresolved@1", timeout=TIMEOUT)
class Unresolved(Work["str | None"]):
    """Answers with what was spent for the same deed and interrupted, and that no person has resolved yet; None where there is nothing.

    Attributes:
        operation, subject, audience, arguments_digest: Of the call.
    """

    reads: ClassVar[bool] = True

    operation: str | None
    subject: str
    audience: str
    arguments_digest: str

    def run(self, database: Database) -> str | None:
        """See the class."""
        return unresolved(database, {name: getattr(self, name) for name in ("operation", "subject", "audience", "arguments_digest")})
