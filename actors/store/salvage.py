"""Reading what can be read of a damaged database, row by row.

A table is a tree whose leaves hold rows in the order of their rowid. Where a leaf is damaged, its rows are lost, and those before and after it are not: they are
read from the front up to the damage, from the back down to it, and what lies between two damages is looked for by halving the range.
"""

from __future__ import annotations

import contextlib
import logging
import sqlite3
from collections import deque
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, Final

import attrs
from sqlite_utils import Database

from retinue.actors.store.files import SIDES, beside, create
from retinue.actors.store.schema import Schema, migrate

__all__ = ["Salvaged", "salvage"]

_log = logging.getLogger("retinue.store")

_PROBES: Final = 4_096
"""How often a table is probed between its damages."""
_PAGES: Final = frozenset(512 << step for step in range(8))
"""The sizes that a page can have, in bytes."""
_LOWEST: Final = -(2**63)
_HIGHEST: Final = 2**63 - 1


Row = tuple[Any, ...]


class _Text(bytes):
    """Text of a damaged file, not decoded yet: it may not be UTF-8 any more, and must not be taken for a BLOB."""


@attrs.define
class Salvaged:
    """What was found.

    Attributes:
        saved: How many rows of each table.
        complete: Whether nothing was unreadable.
        recoveries: The rows in which the file told of its own recoveries.
    """

    saved: dict[str, int] = attrs.field(factory=dict)
    complete: bool = True
    recoveries: list[list[Any]] = attrs.field(factory=list)


def salvage(damaged: Path, fresh: Database, schema: Schema) -> Salvaged:
    """Copies what can be read into a new database.

    Args:
        damaged: The file, which may be missing, and its log beside it; they are not changed.
        fresh: An empty database. It is brought to the version that the damaged file was of, for that is what the rows fit into; the caller takes the other steps.
        schema: The schema of both.
    """
    found = Salvaged()
    with _reading(damaged) as source:
        version = _version(source, schema) if source is not None else None
        migrate(fresh, schema, until=schema.version if version is None else version)
        if source is None or version is None:
            found.complete = False
            return found
        fresh.conn.execute("PRAGMA foreign_keys = OFF")  # a row whose parent is lost is worth keeping
        with fresh.atomic():
            _copy_all(source, fresh, found)
    fresh.conn.execute("PRAGMA foreign_keys = ON")
    return found


@contextlib.contextmanager
def _reading(damaged: Path) -> Iterator[sqlite3.Connection | None]:
    """The damaged file, opened so that nothing changes it, and so that SQLite reads on where it would refuse the whole file."""
    with _with_a_first_page(damaged) as readable:
        source: sqlite3.Connection | None = None
        if readable.exists():
            with contextlib.suppress(sqlite3.Error):
                source = sqlite3.connect(f"{readable.as_uri()}?mode=ro", uri=True, isolation_level=None)
        if source is None:
            yield None
            return
        try:
            source.text_factory = _Text
            for pragma in ("writable_schema = ON", "trusted_schema = OFF", "cell_size_check = ON", "query_only = ON"):
                with contextlib.suppress(sqlite3.Error):
                    source.execute(f"PRAGMA {pragma}")
            yield source
        finally:
            source.close()


@contextlib.contextmanager
def _with_a_first_page(damaged: Path) -> Iterator[Path]:
    """The file itself; or, where it is empty or gone and its log is not, a copy of the log beside a file of one page: of an empty one SQLite would throw the log
    away. What is in the log (all of it, in a young database) is read from there.
    """
    log = beside(damaged, "-wal")
    if (damaged.exists() and damaged.stat().st_size) or not log.exists():
        yield damaged
        return
    scratch = damaged.with_name(f".{damaged.name}.scratch")
    try:
        for suffix in ("", *SIDES):
            beside(scratch, suffix).unlink(missing_ok=True)
        create(scratch)
        content = log.read_bytes()
        beside(scratch, "-wal").write_bytes(content)
        page = int.from_bytes(content[8:12], "big")  # as the log's header says
        scratch.write_bytes(bytes(page if page in _PAGES else 4_096))
        yield scratch
    finally:
        for suffix in ("", *SIDES):
            beside(scratch, suffix).unlink(missing_ok=True)


def _version(source: sqlite3.Connection, schema: Schema) -> int | None:
    """The damaged file's version; None where not even its list of tables can be read."""
    try:
        source.execute("SELECT name FROM sqlite_master").fetchall()
        version = int(source.execute("PRAGMA user_version").fetchone()[0])
    except sqlite3.Error:
        return None
    return version if 0 <= version <= schema.version else schema.version


def _copy_all(source: sqlite3.Connection, fresh: Database, found: Salvaged) -> None:
    connection = fresh.conn
    size = _size(source)
    triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
    for name, _ in triggers:  # they have done their work when the rows were written first
        connection.execute(f"DROP TRIGGER {_quoted(name)}")
    for table, sql in connection.execute(
        "SELECT name, sql FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
    ).fetchall():
        if not sql.upper().startswith("CREATE VIRTUAL"):
            found.saved[table] = _copy(source, connection, table, found, size)
    for _, sql in triggers:
        connection.execute(sql)
    _copy_recoveries(source, found)


def _size(source: sqlite3.Connection) -> int:
    """Bytes of the damaged file with its log, about."""
    try:
        return int(source.execute("PRAGMA page_count").fetchone()[0]) * int(source.execute("PRAGMA page_size").fetchone()[0])
    except sqlite3.Error:
        return 1 << 20


def _copy_recoveries(source: sqlite3.Connection, found: Salvaged) -> None:
    try:
        rows = source.execute("SELECT at_ms, reason, moved_to, saved, complete FROM _store_recoveries ORDER BY id").fetchall()
        found.recoveries = [_decoded(row) for row in rows]
    except (sqlite3.Error, UnicodeDecodeError):
        pass  # there are none, or they are lost


def _copy(source: sqlite3.Connection, target: sqlite3.Connection, table: str, found: Salvaged, size: int) -> int:
    """Copies one table; says how many rows of it are in the new file."""
    wanted = _columns(target, table)
    try:
        there = set(_columns(source, table))
    except (sqlite3.Error, UnicodeDecodeError):
        there = set()
    columns = [name for name in wanted if name in there]
    if not columns:
        found.complete = False
        return 0
    rowid = _has_rowid(target, table)
    names = ", ".join(map(_quoted, columns))
    if rowid:
        names = f"rowid, {names}"
    insert = f"INSERT OR IGNORE INTO {_quoted(table)} ({names}) VALUES ({', '.join('?' * (len(columns) + rowid))})"  # noqa: S608 - quoted names
    # Rows that the steps of the schema have put into the new file: those that were in the old one are the later ones.
    first = {row[0] for row in target.execute(f"SELECT rowid FROM {_quoted(table)}")} if rowid else set()  # noqa: S608 - quoted names
    scan = _Scan(source, f"SELECT {names} FROM {_quoted(table)}")  # noqa: S608 - quoted names
    count = 0
    for row in scan.by_rowid(size) if rowid else scan.from_both_ends(_key(target, table) or names):
        try:
            decoded = _decoded(row)
            if row[0] in first:
                first.discard(row[0])
                target.execute(f"DELETE FROM {_quoted(table)} WHERE rowid = ?", (row[0],))  # noqa: S608 - quoted names
            written = target.execute(insert, decoded).rowcount
        except (sqlite3.IntegrityError, UnicodeDecodeError):
            written = 0
        count += written
        if rowid and not written:
            scan.complete = False  # it can be read, and breaks a rule that it kept when it was written
    if not scan.complete:
        found.complete = False
        _log.warning("of the table %s of the damaged database, %d rows could be read, and others could not", table, count)
    return count


class _Scan:
    """The readable rows of a damaged table.

    Attributes:
        complete: Whether nothing was in the way so far.
    """

    __slots__ = ("_select", "_source", "complete")

    def __init__(self, source: sqlite3.Connection, select: str) -> None:
        self._source = source
        self._select = select
        self.complete = True

    def by_rowid(self, size: int) -> Iterator[Row]:
        """Every row once; the first column is the rowid.

        Args:
            size: Bytes of the file, which bound how far a rowid that was not seen can be from one that was.
        """
        last, whole = yield from self._upward(_LOWEST, _HIGHEST)
        if whole:
            return
        self.complete = False
        first, _ = yield from self._downward(last, _HIGHEST)
        if last == _LOWEST:
            last = max(last, first - size) if first != _HIGHEST else 0
        ranges = deque([(last, min(first, last + size))])  # open at both ends: of these rowids nothing is known
        probes = _PROBES
        while ranges and probes > 0:
            low, high = ranges.popleft()
            if high - low <= 1:
                continue
            probes -= 2
            middle = (low + high) // 2
            reached, whole = yield from self._upward(middle, high)
            if not whole:
                ranges.append((reached, high))
            reached, whole = yield from self._downward(low, middle + 1)
            if not whole:
                ranges.append((low, reached))

    def _upward(self, low: int, high: int) -> Generator[Row, None, tuple[int, bool]]:
        """The rows between two rowids, from the lower one up to the end or the first that is unreadable. Returns how far it came, and whether that is the end."""
        last = low
        try:
            for row in self._source.execute(f"{self._select} WHERE rowid > ? AND rowid < ? ORDER BY rowid", (low, high)):
                last = row[0]
                yield row
        except sqlite3.DatabaseError:
            return last, False
        return last, True

    def _downward(self, low: int, high: int) -> Generator[Row, None, tuple[int, bool]]:
        """As `_upward`, from the higher one down."""
        first = high
        try:
            for row in self._source.execute(f"{self._select} WHERE rowid > ? AND rowid < ? ORDER BY rowid DESC", (low, high)):
                first = row[0]
                yield row
        except sqlite3.DatabaseError:
            return first, False
        return first, True

    def from_both_ends(self, key: str) -> Iterator[Row]:
        """The rows of a table without rowids, some of them twice: from the front up to a damage, and from the back down to one."""
        for order in (key, ", ".join(f"{part} DESC" for part in key.split(", "))):
            try:
                yield from self._source.execute(f"{self._select} ORDER BY {order}")
                return
            except sqlite3.DatabaseError:
                self.complete = False


def _columns(connection: sqlite3.Connection, table: str) -> list[str]:
    return [_plain(row[1]) for row in connection.execute(f"PRAGMA table_info({_quoted(table)})")]


def _key(connection: sqlite3.Connection, table: str) -> str:
    """The columns of the primary key, in order."""
    rows = [row for row in connection.execute(f"PRAGMA table_info({_quoted(table)})") if row[5]]
    return ", ".join(_quoted(row[1]) for row in sorted(rows, key=lambda row: row[5]))


def _has_rowid(connection: sqlite3.Connection, table: str) -> bool:
    if "rowid" in {name.lower() for name in _columns(connection, table)}:
        return False  # a column of that name hides it
    try:
        connection.execute(f"SELECT rowid FROM {_quoted(table)} LIMIT 0")  # noqa: S608 - quoted
    except sqlite3.OperationalError:
        return False
    return True


def _decoded(row: Row) -> list[Any]:
    """The row with its texts. Raises UnicodeDecodeError for one that is none any more."""
    return [_plain(value) for value in row]


def _plain(value: Any) -> Any:
    return bytes(value).decode("utf-8") if isinstance(value, _Text) else value


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
