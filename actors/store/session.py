"""One connection to a database file, and batches of work on it: a transaction for all, a savepoint for each, answers after the commit.

A session belongs to the thread that made it. The `Store` has one in its writer's thread; a command line uses one directly.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Self, TypeVar

import attrs

from retinue.actors.store.database import BUSY_TIMEOUT, StoreDatabase, open_database
from retinue.actors.store.errors import StoreUnavailable
from retinue.actors.store.failures import is_damage, primary_code, unavailable
from retinue.actors.store.files import identity
from retinue.actors.store.recovery import Recovery, set_log_aside
from retinue.actors.store.schema import Schema
from retinue.actors.store.work import Work
from retinue.security.errors import DefinitionError

__all__ = ["Outcome", "Session", "SessionCounts"]

_log = logging.getLogger("retinue.store")

R = TypeVar("R")

_BUSY: Final = 5
_READONLY: Final = 8
_IOERR: Final = 10
_AUTH: Final = 23

# Each with a text of its own: SQLite's permission is asked when a text is seen first, and a work's "COMMIT" must not be the same as the store's.
_BEGIN: Final = "BEGIN IMMEDIATE -- the store's"
_COMMIT: Final = "COMMIT -- the store's"
_ROLLBACK: Final = "ROLLBACK -- the store's"
_SAVE: Final = "SAVEPOINT retinue_store_work"
_UNDO: Final = "ROLLBACK TO SAVEPOINT retinue_store_work"
_RELEASE: Final = "RELEASE SAVEPOINT retinue_store_work"


@attrs.define
class Outcome:
    """What came of one work: the error, or else the value.

    Attributes:
        value: What it returned.
        error: What it raised, or a StoreUnavailable.
    """

    value: Any = None
    error: BaseException | None = None


@attrs.define
class SessionCounts:
    """What a session has done so far.

    Attributes:
        works: Works that were answered, with a value or an error.
        failed: Those of them that were answered with an error.
        commits: Transactions that were committed.
        full_commits: Those of them that were forced to the disk.
        largest: The most works in one transaction.
        opened: How often the file was opened; more than once after a failure.
        recoveries: What was done about damaged files.
    """

    works: int = 0
    failed: int = 0
    commits: int = 0
    full_commits: int = 0
    largest: int = 0
    opened: int = 0
    recoveries: list[Recovery] = attrs.field(factory=list)


_Pairs = list[tuple[Work[Any], Outcome]]


class Session:
    """A connection to a database that comes back after what interrupted it. Nothing is opened before it is needed.

    Args:
        path: The file; None for a database in memory, which lasts as long as the session.
        schema: What it holds.
        busy_timeout: Seconds to wait for another process's lock; default 5.
    """

    __slots__ = ("_at_work", "_database", "_doubtful", "_full", "_guarded_database", "busy_timeout", "counts", "path", "schema")

    def __init__(self, path: Path | str | None, schema: Schema, *, busy_timeout: float = BUSY_TIMEOUT) -> None:
        self.path = None if path is None else Path(path).absolute()
        self.schema = schema
        self.busy_timeout = busy_timeout
        self.counts = SessionCounts()
        self._database: StoreDatabase | None = None
        self._guarded_database: StoreDatabase | None = None
        self._full = False
        self._at_work = False  # a work's own code is on the stack
        self._doubtful = False  # something was met that a new connection may not meet

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def open(self) -> StoreDatabase:
        """The open database, opened now if it is not. Raises StoreUnavailable."""
        database = self._database
        if database is None:
            database = self._database = open_database(self.path, self.schema, busy_timeout=self.busy_timeout)
            self._full = False
            self.counts.opened += 1
            if database.recovered is not None:
                self.counts.recoveries.append(database.recovered)
        return database

    def close(self) -> None:
        """Closes the connection; the next work opens another."""
        database, self._database, self._guarded_database = self._database, None, None
        self._doubtful = False
        if database is not None:
            try:
                database.conn.close()
            except sqlite3.Error as error:
                _log.warning("%s could not be closed in good order: %s", self._name, error)

    def do(self, work: Work[R]) -> R:
        """Does one work, and returns its answer when it is committed.

        Raises:
            StoreUnavailable: It could not be done, or it is not known whether it was ("unknown").
            Exception: What the work raised; then nothing of it was done.
        """
        (outcome,) = self.run([work])
        if outcome.error is not None:
            raise outcome.error
        return outcome.value  # type: ignore[no-any-return]

    def run(self, works: Sequence[Work[Any]]) -> list[Outcome]:
        """Does works, and returns what came of each in the same order: those that write in one transaction, then those that only read in another.

        Where one raises, its own changes are undone and the others go on. Where the commit fails, none was done, and each gets the error.
        """
        outcomes = [Outcome() for _ in works]
        writing = [(work, outcome) for work, outcome in zip(works, outcomes, strict=True) if not work.reads]
        reading = [(work, outcome) for work, outcome in zip(works, outcomes, strict=True) if work.reads]
        if writing:
            self._guarded(self._write, writing)
        if reading:
            self._guarded(self._read, reading)
        if self._doubtful:
            self.close()
        self.counts.works += len(outcomes)
        self.counts.failed += sum(outcome.error is not None for outcome in outcomes)
        return outcomes

    # -- one transaction -----------------------------------------------------------------------------------------------------------------------------

    def _guarded(self, part: Any, pairs: _Pairs) -> None:
        """Runs a part; where it cannot be done at all, everybody in it is told so."""
        try:
            part(pairs)
        except StoreUnavailable as error:
            for _, outcome in pairs:
                # One error each: an exception that several askers raise collects all their tracebacks.
                outcome.value, outcome.error = None, StoreUnavailable(str(error), reason=error.reason)
                outcome.error.__cause__ = error
        except BaseException:
            self.close()  # whatever it was, the next work begins with a connection that nothing is known to be wrong with
            raise

    def _write(self, pairs: _Pairs) -> None:
        full = any(work.full for work, _ in pairs)
        database = self._ready()
        connection = database.conn
        gone_at: int | None = None
        try:
            if full is not self._full:  # cannot be changed within a transaction
                connection.execute(f"PRAGMA synchronous = {'FULL' if full else 'NORMAL'}")
                self._full = full
            connection.execute(_BEGIN)
            for at, (work, outcome) in enumerate(pairs):
                self._step(database, work, outcome)
                if not connection.in_transaction:
                    gone_at = at
                    break
        except sqlite3.Error as error:
            raise self._lost(error, "nothing was written") from error
        if gone_at is None:
            self._commit(connection, len(pairs), full=full)
            self._after(database, pairs)
        else:
            self._again(pairs, gone_at)

    def _commit(self, connection: sqlite3.Connection, count: int, *, full: bool) -> None:
        try:
            connection.execute(_COMMIT)
        except sqlite3.Error as error:
            # A page that could not be written is certain to be missing. One that could not be forced to the disk may be found there after a crash.
            unknown = primary_code(error) == _IOERR
            refused = self._lost(error, "it is not known whether it was written" if unknown else "nothing was written")
            if unknown:
                refused.reason = "unknown"
            raise refused from error
        self.counts.commits += 1
        self.counts.full_commits += full
        self.counts.largest = max(self.counts.largest, count)
        self._still_there("what was written went with it")

    def _after(self, database: StoreDatabase, pairs: _Pairs) -> None:
        """Does what works want done between the commit and their answers, once for all that want the same."""
        done: dict[Any, Exception | None] = {}
        for work, outcome in pairs:
            after = type(work).after_commit
            if after is Work.after_commit or outcome.error is not None:
                continue
            if after not in done:
                try:
                    after(database)
                except Exception as error:
                    _log.error("%s: what follows a commit failed", self._name, exc_info=error)
                    done[after] = error
                else:
                    done[after] = None
            cause = done[after]
            if cause is not None:
                text = f"{self._name}: it was written, and what must follow failed with {type(cause).__name__}: {cause}"
                outcome.value, outcome.error = None, StoreUnavailable(text, reason="unknown")
                outcome.error.__cause__ = cause

    def _step(self, database: StoreDatabase, work: Work[Any], outcome: Outcome) -> None:
        """Runs one work in a savepoint. Afterwards there may be no transaction any more: what it met (a trigger that rolls back, a full disk) has undone all."""
        connection = database.conn
        connection.execute(_SAVE)
        self._at_work = True
        try:
            outcome.value = work.run(database)
        except BaseException as error:
            outcome.error = self._own_error(work, error)
        finally:
            self._at_work = False
        if not connection.in_transaction:
            if outcome.error is None:
                text = f"the transaction was undone while {type(work).__qualname__} ran, and it went on: what it did then may be there. Let it raise what it catches."
                outcome.value, outcome.error = None, StoreUnavailable(text, reason="unknown")
            return
        if outcome.error is not None:
            connection.execute(_UNDO)
        connection.execute(_RELEASE)

    def _again(self, pairs: _Pairs, at: int) -> None:
        """The work at this place has met what undid the transaction: the others are done each in a transaction of its own, as nobody knows which is the next."""
        for other, (work, outcome) in enumerate(pairs):
            if other != at:
                outcome.value = outcome.error = None
                if len(pairs) > 1:
                    self._guarded(self._write, [(work, outcome)])

    def _read(self, pairs: _Pairs) -> None:
        database = self._ready()
        connection = database.conn
        try:
            connection.execute("PRAGMA query_only = ON")
            connection.execute("BEGIN -- the store's, to read")
            for work, outcome in pairs:
                self._at_work = True
                try:
                    outcome.value = work.run(database)
                except BaseException as error:
                    outcome.error = self._own_error(work, error)
                finally:
                    self._at_work = False
            if connection.in_transaction:
                connection.execute(_COMMIT)
            connection.execute("PRAGMA query_only = OFF")
        except sqlite3.Error as error:
            refused = self._lost(error, "nothing was read")
            self.close()  # it may still take no writes
            raise refused from error
        self._still_there("what was read is what was in it")

    def _own_error(self, work: Work[Any], error: BaseException) -> BaseException:
        """What the asker of a work that raised is told."""
        if not isinstance(error, sqlite3.Error) and isinstance(error, Exception):
            return error
        label, code = type(work).__qualname__, primary_code(error)
        made: BaseException
        if not isinstance(error, Exception):
            made = StoreUnavailable(f"{label} was not done: it raised {type(error).__name__}, which is no answer.")
        elif code == _AUTH:
            made = DefinitionError(f"{label} begins or ends a transaction, which is the store's: take that out of its `run`")
        elif code == _READONLY and work.reads:
            made = DefinitionError(f"{label} says that it only reads, and writes: take `reads = True` away from it")
        else:
            made = unavailable(error, f"{label} was not done") or error
        if code == _IOERR or is_damage(error):
            self._doubtful = True
        if made is not error:
            made.__cause__ = error
        return made

    # -- the connection ------------------------------------------------------------------------------------------------------------------------------

    def _ready(self) -> StoreDatabase:
        """The open database, still the file at the path. Raises StoreUnavailable: "gone", once, where it is not; then the next work opens what is there."""
        if self._database is not None:
            self._still_there("nothing was done")
        database = self.open()
        if self._guarded_database is not database:
            self._guarded_database = database
            database.conn.set_authorizer(self._authorize)
        return database

    def _authorize(self, action: int, *_: str | None) -> int:
        """Asked by SQLite for each statement that it has not seen before. (The store's own are written so that no work's text is the same.)"""
        return sqlite3.SQLITE_DENY if self._at_work and action == sqlite3.SQLITE_TRANSACTION else sqlite3.SQLITE_OK

    def _still_there(self, fate: str) -> None:
        database = self._database
        assert database is not None
        if database.path is None or identity(database.path) == database.identity:
            return
        assert database.identity is not None
        set_log_aside(database.path, database.identity, self.busy_timeout)  # where this fails, it is tried again before anything is opened
        self.close()
        _log.error("%s was removed or replaced while it was open", database.path)
        raise StoreUnavailable(
            f"{database.path} (or its -wal or -shm) was removed or replaced while it was open: {fate}. The next work opens what is there then, or a new file.",
            reason="gone",
        )

    def _lost(self, error: sqlite3.Error, what: str) -> StoreUnavailable:
        """The typed error for what a transaction met, which is undone. Only a lock leaves the connection as good as it was."""
        refused = unavailable(error, f"{self._name}: {what}") or StoreUnavailable(f"{self._name}: {what}: {error}")
        database = self._database
        if database is not None:
            try:
                if database.conn.in_transaction:
                    database.conn.execute(_ROLLBACK)
            except sqlite3.Error:
                self.close()
        if primary_code(error) != _BUSY:
            self.close()
        return refused

    @property
    def _name(self) -> str:
        return "the database in memory" if self.path is None else str(self.path)
