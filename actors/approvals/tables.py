"""The tables of the desk: what is asked, decided, spent and noted. Plain SQLite; `datasette approvals.db` shows it.

What a table must never do stands in the table itself, as a trigger, so that it holds for every program that opens the file: a decision is not taken back, what is
spent stays spent, and events are only added.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import attrs

from retinue.actors.store.database import Schema
from retinue.actors.store.schema import Migration
from retinue.security.approvals import BINDING_FIELDS, ApprovalRequest, Binding
from retinue.security.canonical import digest
from retinue.security.errors import ApprovalError, DefinitionError

if TYPE_CHECKING:
    from sqlite_utils import Database

__all__ = ["FILE", "KEEP_MS", "SCHEMA", "Row", "question_digest", "request_of", "row_of"]

Row = dict[str, Any]
"""A row as SQLite has it, by column."""

FILE: Final = "approvals.db"
"""The name of the desk's file in a folder of data."""

KEEP_MS: Final = 30 * 24 * 3_600_000
"""How long what is decided, used or over is kept for people to look at."""

_STATEMENTS: Final = (
    """CREATE TABLE requests (
        id TEXT PRIMARY KEY NOT NULL,
        status TEXT NOT NULL CHECK (status IN ('pending', 'approved', 'rejected', 'expired', 'cancelled')),
        operation TEXT,
        message_type TEXT NOT NULL,
        arguments TEXT NOT NULL,
        subject TEXT NOT NULL,
        tenant TEXT,
        session TEXT,
        audience TEXT NOT NULL,
        reasons TEXT NOT NULL,
        risk TEXT,
        four_eyes INTEGER NOT NULL CHECK (four_eyes IN (0, 1)),
        created_ms INTEGER NOT NULL,
        expires_ms INTEGER NOT NULL,
        decided_ms INTEGER,
        reviewer TEXT,
        reviewer_asserted INTEGER NOT NULL DEFAULT 0,
        note TEXT NOT NULL DEFAULT '',
        edit_of TEXT REFERENCES requests (id),
        edited_to TEXT,
        batch TEXT,
        context_id TEXT NOT NULL,
        arguments_digest TEXT NOT NULL,
        definition TEXT NOT NULL,
        policy_version TEXT NOT NULL,
        question TEXT NOT NULL,
        jti TEXT UNIQUE,
        token TEXT,
        token_expires_ms INTEGER,
        epoch INTEGER
    )""",
    "CREATE INDEX requests_status ON requests (status, expires_ms)",
    "CREATE INDEX requests_question ON requests (question, status)",
    "CREATE INDEX requests_subject ON requests (subject, status)",
    """CREATE TRIGGER requests_are_decided_once BEFORE UPDATE OF status ON requests WHEN OLD.status <> 'pending'
        BEGIN SELECT RAISE(ABORT, 'a request is decided once'); END""",
    """CREATE TRIGGER requests_ask_what_they_asked
        BEFORE UPDATE OF id, operation, message_type, arguments, arguments_digest, subject, tenant, session, audience, definition, policy_version, question, four_eyes,
            edit_of ON requests
        BEGIN SELECT RAISE(ABORT, 'what a request asks does not change'); END""",
    """CREATE TABLE spent (
        jti TEXT PRIMARY KEY NOT NULL,
        kind TEXT NOT NULL CHECK (kind IN ('token', 'standing')),
        request_id TEXT,
        standing_id TEXT,
        operation TEXT,
        subject TEXT NOT NULL,
        audience TEXT NOT NULL,
        arguments_digest TEXT NOT NULL,
        question TEXT NOT NULL,
        approver TEXT NOT NULL,
        expires_ms INTEGER NOT NULL,
        spent_ms INTEGER NOT NULL,
        owner TEXT NOT NULL,
        outcome TEXT,
        outcome_ms INTEGER,
        resolved_by TEXT,
        note TEXT NOT NULL DEFAULT ''
    )""",
    "CREATE INDEX spent_outcome ON spent (outcome)",
    "CREATE INDEX spent_question ON spent (question)",
    """CREATE TRIGGER what_is_spent_stays_spent BEFORE UPDATE OF jti, kind, request_id, standing_id, expires_ms, spent_ms, owner ON spent
        BEGIN SELECT RAISE(ABORT, 'what is spent stays spent'); END""",
    """CREATE TABLE standing (
        id TEXT PRIMARY KEY NOT NULL,
        pattern TEXT NOT NULL,
        subject TEXT,
        tenant TEXT,
        audience TEXT,
        described TEXT NOT NULL,
        approver TEXT NOT NULL,
        issued_ms INTEGER NOT NULL,
        expires_ms INTEGER NOT NULL,
        withdrawn_ms INTEGER,
        withdrawn_by TEXT,
        signed TEXT NOT NULL,
        epoch INTEGER NOT NULL
    )""",
    "CREATE INDEX standing_expires ON standing (expires_ms)",
    """CREATE TRIGGER what_was_withdrawn_stays_withdrawn BEFORE UPDATE ON standing WHEN OLD.withdrawn_ms IS NOT NULL
        BEGIN SELECT RAISE(ABORT, 'what was withdrawn stays withdrawn'); END""",
    """CREATE TABLE feedback (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        request_id TEXT NOT NULL REFERENCES requests (id),
        at_ms INTEGER NOT NULL,
        reviewer TEXT NOT NULL,
        reviewer_asserted INTEGER NOT NULL,
        text TEXT NOT NULL
    )""",
    "CREATE INDEX feedback_request ON feedback (request_id)",
    """CREATE TABLE events (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        at_ms INTEGER NOT NULL,
        kind TEXT NOT NULL,
        request_id TEXT,
        jti TEXT,
        standing_id TEXT,
        who TEXT,
        detail TEXT NOT NULL DEFAULT '',
        via TEXT NOT NULL DEFAULT ''
    )""",
    "CREATE INDEX events_request ON events (request_id)",
    "CREATE TRIGGER events_are_not_changed BEFORE UPDATE ON events BEGIN SELECT RAISE(ABORT, 'events are only added'); END",
    "CREATE TRIGGER events_are_not_removed BEFORE DELETE ON events BEGIN SELECT RAISE(ABORT, 'events are only added'); END",
    "CREATE TABLE marks (name TEXT PRIMARY KEY NOT NULL, number INTEGER NOT NULL)",
    "CREATE TABLE clock (id INTEGER PRIMARY KEY CHECK (id = 1), floor_ms INTEGER NOT NULL)",
    "INSERT INTO clock VALUES (1, 0)",
    "CREATE TRIGGER the_clock_does_not_go_back BEFORE UPDATE ON clock WHEN NEW.floor_ms < OLD.floor_ms BEGIN SELECT RAISE(ABORT, 'the clock does not go back'); END",
)


_BOUNDS: Final = (
    # A second witness of what was spent, beside the row that says so.
    "ALTER TABLE requests ADD COLUMN used_ms INTEGER",
    "CREATE TRIGGER requests_are_used_once BEFORE UPDATE OF used_ms ON requests WHEN OLD.used_ms IS NOT NULL BEGIN SELECT RAISE(ABORT, 'a request is used once'); END",
    # What a subject has the desk keep is counted without reading the arguments.
    "ALTER TABLE requests ADD COLUMN size INTEGER NOT NULL DEFAULT 0",
    "UPDATE requests SET size = length(arguments)",
    "CREATE INDEX requests_sizes ON requests (status, subject, size)",
    "CREATE INDEX requests_recent ON requests (subject, created_ms, size)",
    "CREATE INDEX requests_edited ON requests (edit_of)",
    """CREATE TRIGGER what_is_spent_is_remembered BEFORE DELETE ON spent
        WHEN (SELECT floor_ms FROM clock) IS NULL OR OLD.expires_ms >= (SELECT floor_ms FROM clock)
        BEGIN SELECT RAISE(ABORT, 'what is spent is remembered while it could be spent again'); END""",
    "DROP TRIGGER events_are_not_removed",
    """CREATE TRIGGER events_are_not_removed BEFORE DELETE ON events
        WHEN (SELECT floor_ms FROM clock) IS NULL OR OLD.at_ms >= (SELECT floor_ms FROM clock) - 30 * 24 * 3600000
        BEGIN SELECT RAISE(ABORT, 'events are only added, and forgotten after 30 days'); END""",
)

_RUNS: Final = (
    "ALTER TABLE requests ADD COLUMN run TEXT",
    "CREATE INDEX requests_runs ON requests (question, run, status)",
    "CREATE TRIGGER requests_are_of_their_run BEFORE UPDATE OF run ON requests BEGIN SELECT RAISE(ABORT, 'what a request asks does not change'); END",
)

_OWNERS: Final = (
    # The process in which the run lives that asks; NULL where no run does.
    "ALTER TABLE requests ADD COLUMN owner TEXT",
    "CREATE INDEX requests_owners ON requests (owner) WHERE status = 'pending' AND owner IS NOT NULL",
    "CREATE INDEX requests_of_runs ON requests (run) WHERE status = 'pending' AND run IS NOT NULL",
    "CREATE TRIGGER requests_are_of_their_owner BEFORE UPDATE OF owner ON requests BEGIN SELECT RAISE(ABORT, 'who asks does not change'); END",
)


def _step(statements: Iterable[str]) -> Migration:
    def step(database: Database) -> None:
        for statement in statements:
            database.execute(statement)

    return step


SCHEMA: Final = Schema("approvals", map(_step, (_STATEMENTS, _BOUNDS, _RUNS, _OWNERS)))
"""The schema of `approvals.db`."""


def question_digest(binding: Binding, *, four_eyes: bool) -> str:
    """What two requests have in common that ask the same, whichever run does: all else that a consent is bound to, and who may give it."""
    return digest(["question/1", attrs.evolve(binding, run=None).digest, four_eyes])


def row_of(request: ApprovalRequest) -> Row:
    """The row of a new request."""
    return {
        "id": request.id,
        "status": request.status,
        "message_type": request.message_type,
        "arguments": request.stored_arguments,
        "size": len(request.stored_arguments),
        "reasons": json.dumps(request.reasons, ensure_ascii=False),
        "risk": request.risk,
        "four_eyes": int(request.four_eyes),
        "created_ms": request.created_ms,
        "expires_ms": request.expires_ms,
        "edit_of": request.edit_of,
        "batch": request.batch,
        "context_id": request.context_id,
        "question": question_digest(request.binding, four_eyes=request.four_eyes),
        **request.binding.to_data(),
    }


def request_of(row: Row, *, token: bool = False) -> ApprovalRequest:
    """The request of a row.

    Args:
        row: The row.
        token: Whether the token goes with it, where there is one.

    Raises:
        ApprovalError: The row is none that a desk has written: somebody edited the file (reason "store", or "arguments").
    """
    try:
        reasons = json.loads(row["reasons"])
        return ApprovalRequest(
            binding=Binding(**{name: row[name] for name in BINDING_FIELDS}),
            stored_arguments=row["arguments"],
            reasons=tuple(reasons),
            four_eyes=_flag(row["four_eyes"]),
            reviewer_asserted=_flag(row["reviewer_asserted"]),
            token=row["token"] if token else None,
            **{name: row[name] for name in _SAME},
        )
    except (DefinitionError, ValueError, TypeError) as error:
        raise ApprovalError(
            f"the request {str(row.get('id'))[:80]!r} in the file is none that a desk has written: {error}", reason="store"
        ) from None


def _flag(value: object) -> bool:
    if type(value) is not int or value not in (0, 1):
        raise ValueError("a flag is 0 or 1")
    return value == 1


_SAME: Final = (
    "id",
    "status",
    "message_type",
    "risk",
    "context_id",
    "created_ms",
    "expires_ms",
    "decided_ms",
    "reviewer",
    "note",
    "edit_of",
    "edited_to",
    "batch",
)
