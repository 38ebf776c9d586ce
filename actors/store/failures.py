"""What SQLite's errors mean to whoever uses a store."""

from __future__ import annotations

import sqlite3
from typing import Final

from retinue.actors.store.errors import StoreReason, StoreUnavailable

__all__ = ["is_damage", "primary_code", "unavailable"]

_BUSY: Final = 5
_LOCKED: Final = 6
_NOMEM: Final = 7
_READONLY: Final = 8
_IOERR: Final = 10
_CORRUPT: Final = 11
_FULL: Final = 13
_CANTOPEN: Final = 14
_PROTOCOL: Final = 15
_NOLFS: Final = 22
_NOTADB: Final = 26
_IOERR_SHMSIZE: Final = 4_874  # the index of the log could not be made larger

_MEANING: Final[dict[int, tuple[StoreReason, str]]] = {
    _BUSY: ("locked", "another process holds the database, for longer than the busy time-out. Try again; if it stays so, end that process"),
    _LOCKED: ("locked", "another connection holds the database. Try again"),
    _NOMEM: ("failed", "there was no memory left"),
    _READONLY: ("read_only", "the file or its folder cannot be written. Make both writable for this user"),
    _IOERR: ("failed", "the disk or the file system failed, or a limit on file sizes was met. Look into the system's log"),
    _CORRUPT: ("failed", "the file is damaged. When it is opened next, it is moved aside, and what can be read of it is kept"),
    _FULL: ("full_disk", "the disk is full. Make room"),
    _CANTOPEN: ("failed", "the file cannot be opened. Look at the rights of the file and its folder, and whether the folder is there"),
    _PROTOCOL: ("locked", "other processes opened the database at the same moment, again and again. Try again"),
    _NOLFS: ("full_disk", "the file is larger than the file system permits"),
    _NOTADB: ("failed", "the file is no database any more. When it is opened next, it is moved aside"),
}


def primary_code(error: BaseException) -> int:
    """SQLite's result code without its extension; 0 where the error is not SQLite's."""
    code = getattr(error, "sqlite_errorcode", 0)
    return (code & 0xFF) if isinstance(code, int) and isinstance(error, sqlite3.Error) else 0


def is_damage(error: BaseException) -> bool:
    """Whether it tells that the file's content is damaged."""
    return primary_code(error) in {_CORRUPT, _NOTADB}


def unavailable(error: BaseException, what: str) -> StoreUnavailable | None:
    """The typed error, where SQLite's says that the database cannot be used at the moment; None where it is about what was asked (a constraint, a mistake in
    SQL).

    Args:
        error: SQLite's error.
        what: What could not be done, as the beginning of a sentence.
    """
    code = primary_code(error)
    if getattr(error, "sqlite_errorcode", 0) == _IOERR_SHMSIZE:
        code = _FULL
    meaning = _MEANING.get(code)
    if meaning is None:
        return None
    reason, text = meaning
    return StoreUnavailable(f"{what}: {text}. (SQLite: {getattr(error, 'sqlite_errorname', 'error')}, {error})", reason=reason)
