"""A damaged database file is moved aside, never changed and never deleted; what can be read of it goes into a new one in its place.

The order makes a recovery that was cut off one that is taken up again: the file is moved first, then a `.reason.part` beside it says that it is not done. The new file is
made under another name and takes the place whole. Only then the `.part` becomes the `.reason.txt` for people. Whoever opens the path and finds nothing there looks for a
`.part` first. All of it happens under the folder's lock.
"""

from __future__ import annotations

import contextlib
import glob
import json
import logging
import os
import sqlite3
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import attrs
from sqlite_utils import Database

from retinue.actors.store.errors import StoreUnavailable
from retinue.actors.store.failures import unavailable
from retinue.actors.store.files import SIDES, Identity, beside, create, folder_lock, identity, refused, sync_folder
from retinue.actors.store.salvage import Salvaged, salvage
from retinue.actors.store.schema import Schema, migrate

__all__ = ["RECOVERIES", "Recovery", "recover", "recoveries_of", "set_log_aside", "unfinished"]

_log = logging.getLogger("retinue.store")

RECOVERIES: Final = "_store_recoveries"
"""The table in which a file tells that it took the place of a damaged one; there is none where it never did."""


@attrs.frozen
class Recovery:
    """A damaged file was moved aside, and another took its place.

    Attributes:
        at_ms: When, in milliseconds since 1970.
        reason: Why the file was believed to be damaged.
        moved_to: The damaged file's new name, in the same folder.
        saved: How many rows of each table are in the new file.
        complete: Whether every row that was looked for was found: no table and no range of rows was unreadable. True promises nothing about rows whose content was
            changed: SQLite has no checksums.
    """

    at_ms: int
    reason: str
    moved_to: str
    saved: Mapping[str, int]
    complete: bool


def unfinished(path: Path) -> Path | None:
    """The damaged file whose recovery was cut off before another took its place; None where there is none."""
    marks = sorted(path.parent.glob(glob.escape(path.name) + ".damaged-*.reason.part"))
    return marks[-1].with_name(marks[-1].name.removesuffix(".reason.part")) if marks else None


def recover(path: Path, schema: Schema, reason: str | None, *, aside: Path | None = None) -> Recovery:
    """Moves the file at the path aside and puts another in its place, with what could be read. Called under the folder's lock.

    Args:
        path: The file.
        schema: Its schema.
        reason: Why it is believed to be damaged; None to go on with a recovery that was cut off.
        aside: What `unfinished` found, in that case.

    Raises:
        StoreUnavailable: The folder cannot be written, or the disk is full. Nothing is lost: the next opening takes it up again.
    """
    try:
        if aside is None:
            aside = _name_aside(path)
            _write(beside(aside, ".reason.part"), reason or "")
        else:
            reason = beside(aside, ".reason.part").read_text(encoding="utf-8", errors="replace")
        assert reason is not None
        for suffix in ("", *SIDES, "-journal"):
            with contextlib.suppress(FileNotFoundError):
                if not beside(aside, suffix).exists():
                    beside(path, suffix).rename(beside(aside, suffix))
        sync_folder(path.parent)
        recovery = _replace(path, schema, aside, reason)
        _write(beside(aside, ".reason.part"), _told(path, recovery))
        beside(aside, ".reason.part").rename(beside(aside, ".reason.txt"))
        sync_folder(path.parent)
    except OSError as error:
        raise refused(path, "could not be mended", error) from error
    except sqlite3.Error as error:
        raise unavailable(error, f"{path} could not be mended") or StoreUnavailable(f"{path} could not be mended: {error}") from error
    _log.error(
        "%s could not be used (%s). What was there was moved to %s; %d rows of it are in the new file%s.",
        path,
        reason,
        recovery.moved_to,
        sum(recovery.saved.values()),
        "" if recovery.complete else ", and others could not be read",
    )
    return recovery


def set_log_aside(path: Path, opened: Identity, timeout: float) -> None:
    """Another file was put in the place of one that was open. The old one's log lies beside it still, and SQLite would play it into the new one: it is moved aside.

    Args:
        path: The place.
        opened: Which files were open there.
        timeout: Seconds to wait for the folder's lock.

    Raises:
        StoreUnavailable: It could not be moved.
    """
    with folder_lock(path.parent, timeout):
        now = identity(path)
        if now[0] in {None, opened[0]} or now[1] is None or now[1] != opened[1]:
            return
        aside = _name_aside(path)
        try:
            _write(
                beside(aside, ".reason.txt"),
                f"{path.name} was replaced by another file while it was open. {aside.name}-wal is the log of the one before, and does not belong to it.\n",
            )
            beside(path, "-wal").rename(beside(aside, "-wal"))
            if now[2] is not None and now[2] == opened[2]:
                beside(path, "-shm").unlink()
            sync_folder(path.parent)
        except OSError as error:
            raise refused(beside(path, "-wal"), "is the log of another file than lies there, and could not be moved", error) from error
    _log.error("%s was replaced by another file while it was open; the log of the one before was moved to %s-wal", path, aside.name)


def recoveries_of(database: Database) -> tuple[Recovery, ...]:
    """What a file tells of the damaged ones before it, oldest first."""
    if database.conn.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (RECOVERIES,)).fetchone() is None:
        return ()
    rows = database.conn.execute(f"SELECT at_ms, reason, moved_to, saved, complete FROM {RECOVERIES} ORDER BY id").fetchall()  # noqa: S608 - a constant
    return tuple(Recovery(at, why, moved, json.loads(saved), bool(complete)) for at, why, moved, saved, complete in rows)


def _write(path: Path, text: str) -> None:
    """Writes a file that is this user's alone, as the database is that it tells of."""
    with open(path, "w", encoding="utf-8", opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW, 0o600)) as file:
        file.write(text)


def _name_aside(path: Path) -> Path:
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    name, count = f"{path.name}.damaged-{stamp}", 1
    while any(path.with_name(name + suffix).exists() for suffix in ("", "-wal", ".reason.part", ".reason.txt")):
        name, count = f"{path.name}.damaged-{stamp}.{count}", count + 1
    return path.with_name(name)


def _replace(path: Path, schema: Schema, aside: Path, reason: str) -> Recovery:
    """Makes the new file under another name, and puts it in the place."""
    fresh = path.with_name(f".{path.name}.mended")
    for suffix in ("", *SIDES, "-journal"):  # of a recovery that was cut off
        beside(fresh, suffix).unlink(missing_ok=True)
    create(fresh)
    connection = sqlite3.connect(fresh, isolation_level=None)
    try:
        database = Database(connection, execute_plugins=False)
        connection.execute("PRAGMA synchronous = FULL")
        found = salvage(aside, database, schema)
        recovery = Recovery(time.time_ns() // 1_000_000, reason, aside.name, found.saved, found.complete)
        _note(database, recovery, found)
        migrate(database, schema)
    finally:
        connection.close()
    fresh.rename(path)
    sync_folder(path.parent)
    return recovery


def _note(database: Database, recovery: Recovery, found: Salvaged) -> None:
    """Writes the recovery into the new file, after those that the damaged one told of."""
    with database.atomic():
        table = database.table(RECOVERIES)
        table.create(
            {"id": int, "at_ms": int, "reason": str, "moved_to": str, "saved": str, "complete": int}, pk="id", not_null={"at_ms", "reason"}
        )
        for row in found.recoveries:
            table.insert(dict(zip(("at_ms", "reason", "moved_to", "saved", "complete"), row, strict=True)))
        table.insert(
            {
                "at_ms": recovery.at_ms,
                "reason": recovery.reason,
                "moved_to": recovery.moved_to,
                "saved": json.dumps(dict(recovery.saved), ensure_ascii=False, sort_keys=True),
                "complete": int(recovery.complete),
            }
        )


def _told(path: Path, recovery: Recovery) -> str:
    rows = "".join(f"    {table}: {count} rows\n" for table, count in sorted(recovery.saved.items())) or "    nothing\n"
    at = f"{time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime(recovery.at_ms / 1000))} UTC"
    left = [suffix for suffix in (*SIDES, "-journal") if path.with_name(recovery.moved_to + suffix).exists()]
    if path.with_name(recovery.moved_to).exists() or not left:
        what = f"{path.name} was damaged and moved to {recovery.moved_to} at {at}.\n"
    else:
        logs = " and ".join(path.name + suffix for suffix in left)
        what = (
            f"{path.name} was taken away, and {logs} left behind: that was moved to {' and '.join(recovery.moved_to + suffix for suffix in left)} at {at}.\n"
            "It belongs to the file that was taken away, and has its last commits: put them together again under one name.\n"
        )
    return f"{what}Why: {recovery.reason}\nWhat could be read of it is in the new {path.name}:\n{rows}" + (
        "Every row that was looked for was found.\n"
        if recovery.complete
        else "Some of it could not be read. The damaged file was not changed: `sqlite3 FILE .recover` may find more.\n"
    )
