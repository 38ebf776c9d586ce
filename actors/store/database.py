"""Opening a database file: created, checked, mended where it is damaged, and brought to its schema's version.

Everything here is plain and blocking, and works without a system: the command line opens the same files from other processes.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from sqlite_utils import Database

from retinue.actors.store.errors import StoreUnavailable
from retinue.actors.store.failures import is_damage, unavailable
from retinue.actors.store.files import Identity, beside, create, folder_lock, identity, look_at
from retinue.actors.store.recovery import Recovery, recover, recoveries_of, unfinished
from retinue.actors.store.schema import Schema, check_schema, migrate

__all__ = ["BUSY_TIMEOUT", "Schema", "StoreDatabase", "open_database"]

BUSY_TIMEOUT: Final = 5.0
"""Seconds that an operation waits for another process to let go of the database."""

_JOURNAL_LIMIT: Final = 16 * 1024 * 1024
"""Bytes that the write-ahead log is cut back to after it was taken over into the file."""

_ATTEMPTS: Final = 3
"""How often a file is opened anew after it was mended, before that is given up."""


class StoreDatabase(Database):
    """A `sqlite_utils.Database` that knows where it came from. Its connection is in autocommit mode: whoever wants a transaction begins it.

    Attributes:
        path: The file; None in memory.
        store_schema: Its schema.
        identity: Which files were opened; None in memory.
        recovered: What was done about a damaged file when this was opened; None where nothing was. All that were ever mended: `recoveries()`.
    """

    path: Path | None
    store_schema: Schema
    identity: Identity | None
    recovered: Recovery | None

    def recoveries(self) -> tuple[Recovery, ...]:
        """Each time that this file took the place of a damaged one, oldest first. Whoever counts on what was in it (a spent token!) must look."""
        return recoveries_of(self)


def open_database(path: Path | str | None, schema: Schema, *, busy_timeout: float = BUSY_TIMEOUT) -> StoreDatabase:
    """Opens the database at the path, or makes it.

    WAL mode, foreign keys on, `synchronous = NORMAL`; a file that is made has mode 600. A damaged file is moved aside and what can be read of it goes into a new
    one (`docs/store.md`); that is logged, and told in `recovered`.

    Args:
        path: The file; its folder exists. None: a database in memory.
        schema: What the file holds.
        busy_timeout: Seconds to wait for another process's lock; default 5.

    Raises:
        StoreUnavailable: It cannot be used; `reason` says why. A file of a later version, or of something else, is left as it is.
    """
    if path is None:
        database = _wrap(sqlite3.connect(":memory:", isolation_level=None), None, schema)
        try:
            _configure(database.conn, busy_timeout)
            migrate(database, schema)
        except BaseException:
            database.conn.close()
            raise
        return database
    place = Path(path).absolute()
    recovered: Recovery | None = None
    for _ in range(_ATTEMPTS):
        try:
            # An opening begins under the lock, so that nobody opens the half of what somebody else is moving.
            with folder_lock(place.parent, busy_timeout):
                recovered = _make_sure(place, schema) or recovered
                database = _connect(place, schema, busy_timeout)
            _check(database)
        except _Damaged as damaged:
            with folder_lock(place.parent, busy_timeout):
                if look_at(place) and identity(place)[0] == damaged.inode:  # else another process has mended it
                    recovered = recover(place, schema, damaged.reason)
            continue
        database.recovered = recovered
        return database
    raise StoreUnavailable(f"{place} was mended and is damaged again, {_ATTEMPTS} times: the disk fails, or something writes over it.")


class _Damaged(Exception):
    """The file at hand is damaged.

    Attributes:
        reason: Why that is believed.
        inode: Which file it was.
    """

    def __init__(self, reason: str, inode: tuple[int, int] | None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.inode = inode


def _make_sure(place: Path, schema: Schema) -> Recovery | None:
    """There is a file at the path from now on. Called under the folder's lock, in which every opening begins: nobody sees half of a move."""
    if look_at(place):
        wal = beside(place, "-wal")
        if place.lstat().st_size == 0 and wal.exists() and wal.lstat().st_size:
            # SQLite writes the file's first page before anything goes to the log; of an empty file it would now throw the log away.
            return recover(place, schema, "the file was empty, while the log beside it was not")
        return None
    left = unfinished(place)
    if left is not None:
        return recover(place, schema, None, aside=left)
    if beside(place, "-wal").exists():
        return recover(place, schema, "the file was gone, and its log still there")
    create(place)
    return None


def _connect(place: Path, schema: Schema, busy_timeout: float) -> StoreDatabase:
    """Connects, and knows then that it is a database, and one of this schema. Called under the folder's lock."""
    before = identity(place)
    with _explained(place, before[0]):
        database = _wrap(sqlite3.connect(place, timeout=busy_timeout, isolation_level=None), place, schema)
    with _explained(place, before[0], database):
        _configure(database.conn, busy_timeout)
        check_schema(database, schema)
        _use_wal(database.conn, place)
        database.identity = before
        return database


def _check(database: StoreDatabase) -> None:
    """Looks through the whole file, and brings it to its schema's version."""
    place, connection = database.path, database.conn
    assert place is not None and database.identity is not None
    inode = database.identity[0]
    with _explained(place, inode, database):
        problem = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if problem != "ok":
            raise _Damaged(f"its check says: {problem}", inode)
        migrate(database, database.store_schema)
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()  # the log is open from here on, so its inode can be noted
        database.identity = identity(place)
        if database.identity[0] != inode:
            raise StoreUnavailable(f"{place} was replaced while it was being opened. Try again.", reason="gone")


@contextlib.contextmanager
def _explained(place: Path, inode: tuple[int, int] | None, database: StoreDatabase | None = None) -> Iterator[None]:
    """Makes of SQLite's errors _Damaged, for a file that is to be mended, or StoreUnavailable, for one that is to be left alone. Closes the database then."""
    try:
        yield
    except BaseException as error:
        if database is not None:
            database.conn.close()
        cause = error.__cause__ if isinstance(error, StoreUnavailable) else error
        if cause is not None and is_damage(cause):
            raise _Damaged(f"SQLite says: {cause}", inode) from error
        if isinstance(error, sqlite3.Error):
            raise unavailable(error, f"{place} could not be opened") or StoreUnavailable(f"{place} could not be opened: {error}") from error
        raise


def _wrap(connection: sqlite3.Connection, path: Path | None, schema: Schema) -> StoreDatabase:
    database = StoreDatabase(
        connection, execute_plugins=False
    )  # a plugin of sqlite-utils is somebody else's code, and this file may hold what consents
    database.path = path
    database.store_schema = schema
    database.identity = database.recovered = None
    return database


def _configure(connection: sqlite3.Connection, busy_timeout: float) -> None:
    for pragma in (
        f"busy_timeout = {int(busy_timeout * 1000)}",
        "foreign_keys = ON",
        "synchronous = NORMAL",
        "trusted_schema = OFF",  # no function or virtual table is run because a file's schema says so
        "cell_size_check = ON",  # damage is noticed where it is read
        f"journal_size_limit = {_JOURNAL_LIMIT}",
    ):
        connection.execute(f"PRAGMA {pragma}")


def _use_wal(connection: sqlite3.Connection, place: Path) -> None:
    mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
    if mode != "wal":
        raise StoreUnavailable(
            f"{place}: its file system cannot do write-ahead logging (SQLite stays in mode {mode!r}), as many network file systems. Put it on a local disk."
        )
