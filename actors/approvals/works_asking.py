"""Works of the desk: requests are made, decided, edited and read. Each is one transaction; see `retinue.actors.store`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, ClassVar, Final

from retinue.actors.approvals.ledger import (
    TIMEOUT,
    add_event,
    cancel,
    epoch_of,
    expire_due,
    find_one,
    first,
    is_lost,
    moment,
    read_at,
    rows,
    take_back_lost,
    unresolved,
)
from retinue.actors.approvals.owners import folder_of, is_alive
from retinue.actors.approvals.tables import Row
from retinue.actors.store.work import Work
from retinue.mailbox.messages import message
from retinue.security.approvals import ASKER, GIVEN_UP, MAX_REASONS, MOST_EDITS
from retinue.security.errors import ApprovalError
from retinue.security.limits import moment as shown_moment
from retinue.security.visible import quoted

if TYPE_CHECKING:
    from sqlite_utils import Database

__all__ = ["AddFeedback", "Ask", "Complete", "Decide", "Edit", "Find", "Get", "GiveUp", "ListFeedback", "Mark", "Search", "status_at"]

MAX_PENDING: Final = 10_000
"""Requests that may wait at one desk."""

MAX_PENDING_OF_SUBJECT: Final = 1_000
"""Requests of one subject that may wait at one desk."""

MAX_ARGUMENTS: Final = 262_144
"""Characters that the arguments of one request have at most, as they are stored: more than anybody reads who is to answer for it."""

MAX_BYTES: Final = 32 * 2**20
"""Characters of arguments in all requests that wait."""

MAX_BYTES_OF_SUBJECT: Final = 4 * 2**20
"""Characters of arguments in the requests of one subject that wait."""

MAX_AN_HOUR: Final = 10_000
"""Requests of one subject in an hour, whatever became of them."""

MAX_BYTES_AN_HOUR: Final = 16 * 2**20
"""Characters of arguments in them."""

HOUR: Final = 3_600_000

REJECTED_AGAIN_MS: Final = 60_000
"""How long what the reviewer hook has rejected stays rejected where the same is asked again: it is not asked about each time."""

MAX_FEEDBACK: Final = 1_000
"""Lines of feedback that one request may have."""


def status_at(row: Row, now: int) -> Row:
    """The row as it is at that time: one that waits and is due has expired, whoever writes that down."""
    if row["status"] == "pending" and row["expires_ms"] <= now:
        return {**row, "status": "expired", "decided_ms": row["expires_ms"]}
    return row


@message(name="retinue-approvals/Ask@1", timeout=TIMEOUT)
class Ask(Work[tuple[Row, bool]]):
    """Finds the request by which the same run asks the same, and which waits, or is approved and not spent; else makes one. Answers with it, and whether it is new.

    Those that wait for the same call by a handler that has changed since are cancelled, so that nobody decides about what cannot be done any more.

    Attributes:
        row: The row of a new request.
        now_ms: The time.
        via: The desk that asks.
        hook: What the reviewer hook is called, where there is one: what it has rejected within the last minute is answered with that.
    """

    full: ClassVar[bool] = True

    row: Row
    now_ms: int
    via: str = ""
    hook: str | None = None

    def run(self, database: Database) -> tuple[Row, bool]:
        """See the class. Raises ApprovalError ("full", "clock")."""
        now = moment(database, self.now_ms)
        expire_due(database, now)
        question = self.row["question"]
        same = first(
            database,
            "SELECT * FROM requests WHERE question = ? AND run IS ? AND (status = 'pending' OR (status = 'approved' AND token_expires_ms > ? AND epoch = ? "
            "AND NOT EXISTS (SELECT 1 FROM spent WHERE spent.jti = requests.jti))) ORDER BY status = 'approved' DESC, created_ms LIMIT 1",
            question,
            self.row["run"],
            now,
            epoch_of(database),
        )
        if same is None and self.hook is not None:
            same = first(
                database,
                "SELECT * FROM requests WHERE question = ? AND run IS ? AND status = 'rejected' AND reviewer = ? AND decided_ms > ? "
                "ORDER BY decided_ms DESC LIMIT 1",
                question,
                self.row["run"],
                self.hook,
                now - REJECTED_AGAIN_MS,
            )
        if same is not None:
            return same, False
        _cancel_stale(database, self.row, now, self.via)
        owner = None if self.row["run"] is None else self.via or None  # what no run asks waits on, whatever becomes of this process
        return _insert(database, {**self.row, "owner": owner, "reasons": _with_history(database, self.row)}, now), True


def _cancel_stale(database: Database, new: Row, now: int, via: str) -> None:
    """Cancels what waits for the same call by a handler that is another now."""
    stale = rows(
        database,
        "SELECT id FROM requests WHERE status = 'pending' AND subject = ? AND operation IS ? AND arguments_digest = ? AND tenant IS ? AND session IS ? "
        "AND audience = ? AND run IS ? AND definition <> ?",
        *(new[name] for name in ("subject", "operation", "arguments_digest", "tenant", "session", "audience", "run", "definition")),
    )
    for row in stale:
        note = f"the handler has changed since: {new['id']} asks about the one that there is now"
        database.execute("UPDATE requests SET status = 'cancelled', decided_ms = ?, note = ? WHERE id = ?", (now, note, row["id"]))
        add_event(database, now, "cancelled", request=row["id"], who="the desk", detail=note, via=via)


def _with_history(database: Database, row: Row) -> str:
    """The reasons, and what a person should know who is asked once more."""
    reasons = json.loads(row["reasons"])
    if len(reasons) > MAX_REASONS - 2:
        return str(row["reasons"])
    unknown = unresolved(database, row)
    if unknown is not None:
        reasons.append(
            f"the same was approved before and interrupted ({unknown}): whether it was done is not known. See `retinue approvals indeterminate`"
        )
    before = first(
        database,
        "SELECT id, reviewer, decided_ms FROM requests WHERE question = ? AND status = 'rejected' ORDER BY decided_ms DESC LIMIT 1",
        row["question"],
    )
    if before is not None:
        reasons.append(
            f"the same was rejected by {quoted(before['reviewer'] or '?')} on {shown_moment(before['decided_ms'])} ({before['id']})"
        )
    return json.dumps(reasons, ensure_ascii=False)


def _counted(database: Database, condition: str, *parameters: Any) -> tuple[int, int]:
    """How many requests there are, and the characters of their arguments."""
    number, size = database.execute(f"SELECT COUNT(*), COALESCE(SUM(size), 0) FROM requests WHERE {condition}", parameters).fetchone()  # noqa: S608
    return number, size


def _insert(database: Database, row: Row, now: int) -> Row:
    if len(row["arguments"]) > MAX_ARGUMENTS:
        raise ApprovalError(
            f"the arguments have {len(row['arguments']):,} characters, and nobody can be asked about more than {MAX_ARGUMENTS:,}. "
            "Pass a reference to what is large, and its digest.",
            reason="arguments",
        )
    try:
        _check_room(database, row, now)
    except ApprovalError:
        take_back_lost(database, now)  # what nobody can go on with keeps nobody from asking
        _check_room(database, row, now)
    names = ", ".join(row)
    database.execute(f"INSERT INTO requests ({names}) VALUES ({', '.join('?' * len(row))})", tuple(row.values()))  # noqa: S608 - our own names
    add_event(database, now, "requested", request=row["id"], who=row["subject"])
    return find_one(database, row["id"])


def _check_room(database: Database, row: Row, now: int) -> None:
    waiting, bytes_waiting = _counted(database, "status = 'pending'")
    of_subject, bytes_of_subject = _counted(database, "status = 'pending' AND subject = ?", row["subject"])
    if waiting >= MAX_PENDING or of_subject >= MAX_PENDING_OF_SUBJECT:
        whose, most = ("in all", MAX_PENDING) if waiting >= MAX_PENDING else (f"of {row['subject'][:80]!r}", MAX_PENDING_OF_SUBJECT)
        raise ApprovalError(
            f"{most:,} requests {whose} wait for a person, and no more are taken. Decide some: `retinue approvals list`.", reason="full"
        )
    shown = repr(row["subject"][:80])
    for counted, most, what in (
        (bytes_waiting + row["size"], MAX_BYTES, "characters of arguments wait for a person in all"),
        (bytes_of_subject + row["size"], MAX_BYTES_OF_SUBJECT, f"characters of arguments of {shown} wait for a person"),
    ):
        if counted > most:
            raise ApprovalError(f"more than {most:,} {what}, and no more are taken. Decide some: `retinue approvals list`.", reason="full")
    recent, bytes_recent = _counted(database, "subject = ? AND created_ms > ?", row["subject"], now - HOUR)
    if recent >= MAX_AN_HOUR or bytes_recent + row["size"] > MAX_BYTES_AN_HOUR:
        raise ApprovalError(f"{shown} has asked for {recent:,} approvals within an hour, and no more are taken. Ask later.", reason="full")


@message(name="retinue-approvals/Decide@1", timeout=TIMEOUT)
class Decide(Work[Row]):
    """Decides a request that waits: exactly one decision is taken, whoever else decides at the same time. Answers with its row.

    Attributes:
        id: The request.
        status: "approved", "rejected" or "cancelled".
        reviewer: Who decides.
        asserted: Whether code said who that is, and nothing proved it.
        note: What they say.
        now_ms: The time.
        token: With "approved": the signed token.
        jti: Its id.
        token_expires_ms: When it ends.
        kind: The event's name: "approved", "rejected", "responded" or "cancelled". Default: the status.
        batch: The id of the decision that it is decided in together with others.
        via: The desk that it is decided at.
    """

    full: ClassVar[bool] = True

    id: str
    status: str
    reviewer: str
    asserted: bool
    note: str
    now_ms: int
    token: str | None = None
    jti: str | None = None
    token_expires_ms: int | None = None
    kind: str | None = None
    batch: str | None = None
    via: str = ""

    def run(self, database: Database) -> Row:
        """See the class. Raises ApprovalError ("unknown", "decided", "expired", "clock")."""
        now = moment(database, self.now_ms)
        row = find_one(database, self.id)
        _check_open(row, now)
        if self.status == "approved":
            _check_asked(database, row)
        database.execute(
            "UPDATE requests SET status = ?, decided_ms = ?, reviewer = ?, reviewer_asserted = ?, note = ?, token = ?, jti = ?, token_expires_ms = ?, "
            "batch = COALESCE(?, batch), epoch = ? WHERE id = ? AND status = 'pending'",
            (
                self.status,
                now,
                self.reviewer,
                int(self.asserted),
                self.note,
                self.token,
                self.jti,
                self.token_expires_ms,
                self.batch,
                epoch_of(database),
                self.id,
            ),
        )
        add_event(database, now, self.kind or self.status, request=self.id, jti=self.jti, who=self.reviewer, detail=self.note, via=self.via)
        return find_one(database, self.id)


def _check_open(row: Row, now: int) -> None:
    status = status_at(row, now)["status"]
    if status == "expired":
        raise ApprovalError(
            f"the request {row['id']} has expired, on {shown_moment(row['expires_ms'])}. Whoever needs it asks again.", reason="expired"
        )
    if status != "pending":
        by = f" by {quoted(row['reviewer'])}" if row["reviewer"] else ""
        raise ApprovalError(f"the request {row['id']} was {status} before{by}, and a decision is not taken back.", reason="decided")


def _check_asked(database: Database, row: Row) -> None:
    if is_lost(database, row):
        raise ApprovalError(
            f"the request {row['id']} was asked by a run that has ended with its process, so nobody can go on with it. A run that wants the same asks again.",
            reason="expired",
        )


@message(name="retinue-approvals/Edit@1", timeout=TIMEOUT)
class Edit(Work[Row]):
    """Puts a request with other arguments in the place of one that waits. The old one is cancelled, the new one waits. Answers with the new row.

    Attributes:
        id: The old request.
        row: The row of the new one.
        reviewer: Who edits.
        asserted: Whether code said who that is.
        note: What they say.
        now_ms: The time.
        via: The desk that it is edited at.
    """

    full: ClassVar[bool] = True

    id: str
    row: Row
    reviewer: str
    asserted: bool
    note: str
    now_ms: int
    via: str = ""

    def run(self, database: Database) -> Row:
        """See the class. Raises ApprovalError ("unknown", "decided", "expired", "full", "clock")."""
        now = moment(database, self.now_ms)
        old = find_one(database, self.id)
        _check_open(old, now)
        _check_asked(database, old)
        database.execute(
            "UPDATE requests SET status = 'cancelled', decided_ms = ?, reviewer = ?, reviewer_asserted = ?, note = ?, edited_to = ? WHERE id = ?",
            (now, self.reviewer, int(self.asserted), self.note, self.row["id"], self.id),
        )
        add_event(database, now, "edited", request=self.id, who=self.reviewer, detail=f"to {self.row['id']}", via=self.via)
        return _insert(database, {**self.row, "owner": old["owner"]}, now)


@message(name="retinue-approvals/GiveUp@1", timeout=TIMEOUT)
class GiveUp(Work[tuple[Row, ...]]):
    """Cancels those that wait of what a run has asked, or of what has replaced it: nobody goes on with it. Answers with their rows.

    Attributes:
        ids: The requests.
        owner: For whom the run went, subject, tenant and session: what was asked for anybody else stays.
        now_ms: The time.
        via: The desk that they are cancelled at.
        runs: Runs of which all that waits is cancelled.
    """

    ids: tuple[str, ...]
    owner: tuple[str, str | None, str | None]
    now_ms: int
    via: str = ""
    runs: tuple[str, ...] = ()

    def run(self, database: Database) -> tuple[Row, ...]:
        """See the class. Raises ApprovalError ("clock")."""
        now = moment(database, self.now_ms)
        of_runs = (row for run in self.runs for row in rows(database, "SELECT id FROM requests WHERE status = 'pending' AND run = ?", run))
        ids = dict.fromkeys((*self.ids, *(row["id"] for row in of_runs)))
        return tuple(row for request in ids for row in self._given_up(database, request, now))

    def _given_up(self, database: Database, request: str, now: int) -> list[Row]:
        for _ in range(MOST_EDITS):
            row = first(database, "SELECT * FROM requests WHERE id = ?", request)
            if row is None or (row["subject"], row["tenant"], row["session"]) != self.owner:
                break
            if status_at(row, now)["status"] == "pending":
                cancel(database, row["id"], ASKER, GIVEN_UP, now, self.via)
                return [find_one(database, row["id"])]
            if row["edited_to"] is None:
                break
            request = row["edited_to"]
        return []


@message(name="retinue-approvals/AddFeedback@1", timeout=TIMEOUT)
class AddFeedback(Work[None]):
    """Adds what a person has to say about a request, whatever became of it.

    Attributes:
        id: The request.
        text: What they say.
        reviewer: Who.
        asserted: Whether code said who that is.
        now_ms: The time.
    """

    id: str
    text: str
    reviewer: str
    asserted: bool
    now_ms: int

    def run(self, database: Database) -> None:
        """See the class. Raises ApprovalError ("unknown", "full", "clock")."""
        now = moment(database, self.now_ms)
        find_one(database, self.id)
        (count,) = database.execute("SELECT COUNT(*) FROM feedback WHERE request_id = ?", (self.id,)).fetchone()
        if count >= MAX_FEEDBACK:
            raise ApprovalError(f"the request {self.id} has {count:,} lines of feedback, and no more are taken.", reason="full")
        database.execute(
            "INSERT INTO feedback (request_id, at_ms, reviewer, reviewer_asserted, text) VALUES (?, ?, ?, ?, ?)",
            (self.id, now, self.reviewer, int(self.asserted), self.text),
        )
        add_event(database, now, "feedback", request=self.id, who=self.reviewer, detail=self.text[:200])


@message(name="retinue-approvals/ListFeedback@1", timeout=TIMEOUT)
class ListFeedback(Work[tuple[Row, ...]]):
    """Answers with what people have said about a request, oldest first.

    Attributes:
        id: The request.
    """

    reads: ClassVar[bool] = True

    id: str

    def run(self, database: Database) -> tuple[Row, ...]:
        """See the class."""
        return tuple(rows(database, "SELECT * FROM feedback WHERE request_id = ? ORDER BY number", self.id))


@message(name="retinue-approvals/Get@1", timeout=TIMEOUT)
class Get(Work[Row]):
    """Answers with the row of a request, with what was spent of it as "spent_ms", "outcome" and "owner" (None where nothing was), whether its approval is "void",
    since it was given in an earlier file, whether who spent it is "alive" (None: that cannot be known), and the time as "read_ms".

    Attributes:
        id: The request's id; with `prefix`, the beginning of it.
        now_ms: The time.
        prefix: Whether a beginning is enough, where only one request has it.
    """

    reads: ClassVar[bool] = True

    id: str
    now_ms: int
    prefix: bool = False

    def run(self, database: Database) -> Row:
        """See the class. Raises ApprovalError ("unknown")."""
        now = read_at(database, self.now_ms)
        found = self._by_prefix(database) if self.prefix else find_one(database, self.id)
        spent = first(database, "SELECT spent_ms, outcome, owner FROM spent WHERE jti = ?", found["jti"])
        void = found["status"] == "approved" and found["epoch"] != epoch_of(database)
        alive = is_alive(spent["owner"], folder_of(database)) if spent is not None else None
        rest = {"void": void, "read_ms": now, "alive": alive}
        return {**status_at(found, now), **(spent or dict.fromkeys(("spent_ms", "outcome", "owner"))), **rest}

    def _by_prefix(self, database: Database) -> Row:
        beginning = self.id if self.id.startswith("apr_") else f"apr_{self.id}"
        exact = first(database, "SELECT * FROM requests WHERE id = ?", beginning)
        if exact is not None:
            return exact
        found = rows(database, "SELECT * FROM requests WHERE substr(id, 1, ?) = ? LIMIT 2", len(beginning), beginning)
        if len(found) > 1:
            raise ApprovalError(f"several requests begin with {beginning[:80]!r}. Give more of the id.", reason="unknown")
        return found[0] if found and len(beginning) > len("apr_") else find_one(database, self.id)


_IDS: Final = {"standing": ("id", "aps_"), "spent": ("jti", "apt_")}


@message(name="retinue-approvals/Complete@1", timeout=TIMEOUT)
class Complete(Work[str]):
    """Answers with the one id of a table that begins so; with what was given, where there is none.

    Attributes:
        table: "standing" or "spent".
        id: The beginning; what all ids there begin with may be left out.
    """

    reads: ClassVar[bool] = True

    table: str
    id: str

    def run(self, database: Database) -> str:
        """See the class. Raises ApprovalError ("unknown") where several begin so."""
        column, prefix = _IDS[self.table]
        beginning = self.id if self.id.startswith(prefix) else f"{prefix}{self.id}"
        found = rows(
            database,
            f"SELECT {column} AS id FROM {self.table} WHERE substr({column}, 1, ?) = ? ORDER BY {column} <> ? LIMIT 2",  # noqa: S608 - our own names
            len(beginning),
            beginning,
            beginning,
        )
        if len(found) > 1 and found[0]["id"] != beginning:
            raise ApprovalError(f"several ids begin with {beginning[:80]!r}. Give more of it.", reason="unknown")
        return str(found[0]["id"]) if found and len(beginning) > len(prefix) else self.id


@message(name="retinue-approvals/Find@1", timeout=TIMEOUT)
class Find(Work[tuple[Row, ...]]):
    """Answers with the rows of requests, oldest first.

    Attributes:
        now_ms: The time.
        status: Only those of this status.
        subject: Only those of this subject.
        operation: Only those of this operation.
        batch: Only those of this batch.
        limit: How many at most, the latest; with `after`, the first.
        tenant: Only those of this tenant.
        after: Only those that were made after the one of this id ("": all), so that one page after the other can be read.
    """

    reads: ClassVar[bool] = True

    now_ms: int
    status: str | None = None
    subject: str | None = None
    operation: str | None = None
    batch: str | None = None
    limit: int = 10_000
    tenant: str | None = None
    after: str | None = None

    def run(self, database: Database) -> tuple[Row, ...]:
        """See the class."""
        now = read_at(database, self.now_ms)
        where: list[str] = []
        parameters: list[Any] = []
        for name in ("subject", "operation", "batch", "tenant"):
            value = getattr(self, name)
            if value is not None:
                where.append(f"{name} = ?")
                parameters.append(value)
        if self.status == "expired":
            where.append("(status = 'expired' OR (status = 'pending' AND expires_ms <= ?))")
            parameters.append(now)
        elif self.status == "pending":
            where.append("status = 'pending' AND expires_ms > ?")
            parameters.append(now)
        elif self.status is not None:
            where.append("status = ?")
            parameters.append(self.status)
        if self.after:
            where.append("rowid > (SELECT rowid FROM requests WHERE id = ?)")
            parameters.append(self.after)
        condition = f"WHERE {' AND '.join(where)}" if where else ""
        order = "rowid" if self.after is not None else "created_ms DESC, rowid DESC"
        # Chosen and sorted before the arguments are read, which may be long.
        chosen = rows(database, f"SELECT rowid AS number FROM requests {condition} ORDER BY {order} LIMIT ?", *parameters, self.limit)  # noqa: S608
        found = [row for one in chosen for row in rows(database, "SELECT * FROM requests WHERE rowid = ?", one["number"])]
        return tuple(status_at(row, now) for row in (found if self.after is not None else reversed(found)))


@message(name="retinue-approvals/Search@1", timeout=TIMEOUT)
class Search(Work[tuple[int, tuple[Row, ...]]]):
    """Answers with the number of the last event, and the events after one, with the operation, subject, audience and message type of their requests.

    Attributes:
        after: The number of an event; -1 for none of them.
        limit: How many at most, the earliest.
    """

    reads: ClassVar[bool] = True

    after: int
    limit: int = 1_000

    def run(self, database: Database) -> tuple[int, tuple[Row, ...]]:
        """See the class."""
        (last,) = database.execute("SELECT COALESCE(MAX(number), 0) FROM events").fetchone()
        if self.after < 0 or self.after == last:
            return last, ()
        after = self.after if self.after < last else 0  # of a file that another has taken the place of: all is news then
        found = rows(
            database,
            "SELECT events.*, requests.operation, requests.subject, requests.audience, requests.message_type, requests.reviewer_asserted FROM events LEFT JOIN requests "
            "ON requests.id = events.request_id WHERE events.number > ? ORDER BY events.number LIMIT ?",
            after,
            self.limit,
        )
        return (found[-1]["number"] if found else last), tuple(found)


@message(name="retinue-approvals/Mark@1", timeout=TIMEOUT)
class Mark(Work[int]):
    """Keeps the number of the last event that somebody has dealt with, which never gets smaller. Answers with it.

    Attributes:
        name: What for.
        number: The number; 0 only answers.
    """

    name: str
    number: int = 0

    def run(self, database: Database) -> int:
        """See the class."""
        if self.number:
            database.execute(
                "INSERT INTO marks VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET number = max(number, excluded.number)",
                (self.name, self.number),
            )
        found = first(database, "SELECT number FROM marks WHERE name = ?", self.name)
        return 0 if found is None else int(found["number"])
