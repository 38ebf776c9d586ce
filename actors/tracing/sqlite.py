"""The exporter to an SQLite file: one row a span. `retinue runs` and `retinue show` read it, also while it is written."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from retinue.actors.tracing.errors import TraceFileUnusable
from retinue.actors.tracing.places import check_folder_of, identity_of
from retinue.actors.tracing.rows import COLUMNS, json_text, made, row_of
from retinue.security.private_files import Unfit, make_private

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

__all__ = ["SCHEMA_VERSION", "SqliteFile"]

SCHEMA_VERSION: Final = 1
"""`PRAGMA user_version` of the file."""

BUSY: Final = 2.0
"""Seconds to wait for another process that writes the same file."""

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS spans(
    trace_id TEXT NOT NULL, span_id TEXT NOT NULL, parent_id TEXT, name TEXT NOT NULL, kind TEXT NOT NULL, started_ns INTEGER NOT NULL, ended_ns INTEGER NOT NULL,
    status TEXT NOT NULL, status_text TEXT NOT NULL, attributes TEXT NOT NULL, events TEXT NOT NULL, system TEXT NOT NULL, PRIMARY KEY(trace_id, span_id)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS spans_started ON spans(started_ns);
"""

_JSON_COLUMNS: Final = frozenset({"attributes", "events"})

_INSERT: Final = f"INSERT OR REPLACE INTO spans({', '.join(COLUMNS)}) VALUES ({', '.join('?' * len(COLUMNS))})"  # noqa: S608 - our own names

KEEP_BYTES: Final = 1024 * 1024 * 1024
"""Bytes that the file keeps, about, whatever the number of its spans: those of conversations are large."""

_TRIM_EVERY: Final = 64
"""Writes between two looks at how many spans there are."""


class SqliteFile:
    """A file of spans.

    Args:
        path: The file; it is made with mode 600, and its folder with mode 700, where they are missing.
        system: The system's name, for each row.
        keep: How many spans it keeps, beside those of the newest trace; the oldest traces go first, each as a whole.

    Raises TraceFileUnusable for a file that others may write, or that is something else.
    """

    def __init__(self, path: Path, system: str, keep: int) -> None:
        self.name = str(path)
        self._system = system
        self._keep = keep
        self._writes = 0
        self._path = path
        self._connection = _open(path)
        self._identity = identity_of(path)

    def write(self, spans: Sequence[ReadableSpan]) -> int:
        """Inserts them, in one transaction. Returns how many cannot be written down."""
        rows = made(spans, self._row)
        if self._identity is None or identity_of(self._path) != self._identity:  # somebody has moved it away, or deleted it
            self._identity = None
            self._connection.close()
            self._connection = _open(self._path)
            self._identity = identity_of(self._path)
        connection = self._connection
        with connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(_INSERT, rows)
            if not self._writes % _TRIM_EVERY:
                self._trim()
        self._writes += 1
        return len(spans) - len(rows)

    def _row(self, span: ReadableSpan) -> tuple[object, ...]:
        row = row_of(span, self._system)
        return tuple(json_text(row[name]) if name in _JSON_COLUMNS else row[name] for name in COLUMNS)

    def hurry(self, seconds: float) -> None:
        """Waits no longer than that for other processes. (A connection may be told so from any thread.)"""
        self._connection.execute(f"PRAGMA busy_timeout = {int(min(seconds, BUSY) * 1000)}")

    def close(self) -> None:
        """Closes the file; the write-ahead log goes into it."""
        self._connection.close()

    def _trim(self) -> None:
        connection = self._connection
        (count,) = connection.execute("SELECT count(*) FROM spans").fetchone()
        (size,) = connection.execute(
            "SELECT (page_count - freelist_count) * page_size FROM pragma_page_count, pragma_freelist_count, pragma_page_size"
        ).fetchone()
        keep = min(self._keep, count * KEEP_BYTES // max(size, 1))
        if count <= keep:
            return
        # To nine tenths, so that not each batch has to do it. What is older than the first span that stays goes, with the whole of its trace.
        left = int(keep * 0.9)
        row = connection.execute("SELECT started_ns FROM spans ORDER BY started_ns DESC LIMIT 1 OFFSET ?", (left,)).fetchone()
        connection.execute(
            "DELETE FROM spans WHERE trace_id IN (SELECT trace_id FROM spans GROUP BY trace_id HAVING max(started_ns) <= ?)", row
        )
        (count,) = connection.execute("SELECT count(*) FROM spans").fetchone()
        if count > keep:  # one trace of that many spans: then its oldest go
            connection.execute("DELETE FROM spans WHERE started_ns <= ?", row)


def _open(path: Path) -> sqlite3.Connection:
    try:
        check_folder_of(path)
        make_private(path)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise Unfit("is no plain file. Name another.")
        finally:
            os.close(descriptor)
        # The log and the shared memory beside it get the mode that the file has.
        connection = sqlite3.connect(path, timeout=BUSY, isolation_level=None, check_same_thread=False)
    except Unfit as unfit:
        raise TraceFileUnusable(f"{path} {unfit}") from None
    except (OSError, sqlite3.Error) as error:
        raise TraceFileUnusable(f"{path} cannot be opened for traces ({type(error).__name__}): look whether it may be written") from error
    try:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version > SCHEMA_VERSION:
            raise TraceFileUnusable(f"{path} was written by a later Retinue (version {version} of its table): give sqlite= another path")
        if not version and connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            raise TraceFileUnusable(f"{path} is a database of something else: give sqlite= another path")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;")
    except sqlite3.Error as error:
        connection.close()
        raise TraceFileUnusable(
            f"{path} is no database that traces can be written to ({error}): move it away, or give sqlite= another path"
        ) from error
    except TraceFileUnusable:
        connection.close()
        raise
    return connection
