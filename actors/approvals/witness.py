"""The witness: how far the approvals' file had come, kept outside of it, so that an older one in its place is noticed.

A backup that is put back, or a log that is lost, forgets what was spent and withdrawn since. So the number of the last such use stands in a small file beside it too,
with the name of the database that it is of, forced to the disk before the effect. Where the witness has seen more than the database, or another one, or is gone,
everything that was approved before is void: a new epoch begins, and people are asked again. One `fdatasync` serves all uses of one commit.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import time
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

import attrs

from retinue.actors.approvals.ledger import RESETS, TIMEOUT, add_event, first, floor_of
from retinue.actors.approvals.owners import folder_of
from retinue.actors.store.files import sync_folder
from retinue.actors.store.work import Work
from retinue.mailbox.messages import message
from retinue.security.errors import ApprovalError

if TYPE_CHECKING:
    from sqlite_utils import Database

__all__ = ["FILE", "Renew", "Witness", "check_witness", "count_use", "read_witness", "write_witness"]

FILE: Final = "approvals.seen"
"""The name of the file, in a folder of data."""

PATIENCE: Final = 5.0
"""Seconds to wait for another process that writes it."""

_POLL: Final = 0.001
_FORMAT: Final = "retinue-approvals-seen/1"
_FILE_ID: Final = "file"
_USES: Final = "uses"


@attrs.frozen
class Witness:
    """What was seen.

    Attributes:
        file: The name of the database, a random number; 0 for a witness that cannot be read, which is nobody's.
        uses: How many uses and withdrawals it has had.
    """

    file: int
    uses: int


@attrs.frozen
class _State:
    """The database beside the witness; None for a name or a witness that is not there."""

    file: int | None
    uses: int
    witness: Witness | None

    @property
    def problem(self) -> str:
        """Why the database is not the one that was seen last; "" where it is."""
        seen = self.witness
        if seen is None:
            return "" if self.file is None else f"{FILE} is gone, which tells what was used"
        if seen.file == 0:
            return f"{FILE} cannot be read, which tells what was used"
        if self.file != seen.file:
            return "another file is in the place of the one that was used last"
        if self.uses < seen.uses:
            return f"it is older than what was seen of it: {seen.uses - self.uses:,} uses or withdrawals of approvals are not in it"
        return ""


def check_witness(database: Database) -> None:
    """For works that use something up, in their transaction: is this the file that was used last?

    Raises:
        ApprovalError: It is not (reason "store"); `Renew` ends that.
    """
    folder = folder_of(database)
    if folder is None:
        return
    state = _state_of(database, folder)
    if state.problem:
        raise ApprovalError(f"the approvals' file: {state.problem}. What was approved before is void. Ask again.", reason="store")
    if state.file is None:  # the first work of all, without a look before it: others may follow in its commit
        name = secrets.randbits(62) | 1
        _put(database, _FILE_ID, name)
        _bring_up(folder, Witness(name, 0))


def count_use(database: Database) -> None:
    """Counts one use, or withdrawal, in the transaction that makes it."""
    database.execute("INSERT INTO marks VALUES (?, 1) ON CONFLICT (name) DO UPDATE SET number = number + 1", (_USES,))


def write_witness(database: Database) -> None:
    """Brings the witness up to the database, and to the disk. Called after a commit, before anybody is told of it. Raises OSError."""
    folder = folder_of(database)
    file = _get(database, _FILE_ID)
    if folder is None or file is None:
        return
    _bring_up(folder, Witness(file, _get(database, _USES) or 0))


def _bring_up(folder: Path, now: Witness) -> None:
    path = folder / FILE
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        _lock(descriptor, fcntl.LOCK_EX)
        before = _parsed(os.pread(descriptor, 256, 0))
        if before is not None and before.file == now.file and before.uses >= now.uses:
            return  # another process has seen this use too, and its own beside it
        os.pwrite(descriptor, _written(now), 0)
        os.fdatasync(descriptor)
        if before is None:
            sync_folder(folder)
    finally:
        os.close(descriptor)


def read_witness(folder: Path) -> Witness | None:
    """The witness of a folder; None where there is none. One that cannot be read is nobody's. Raises OSError."""
    try:
        descriptor = os.open(folder / FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EACCES, errno.EPERM):
            return Witness(0, 0)
        raise
    try:
        found = _parsed(os.pread(descriptor, 256, 0))
        if found is None or found.file == 0:  # written in this moment, perhaps
            _lock(descriptor, fcntl.LOCK_SH)
            found = _parsed(os.pread(descriptor, 256, 0))
    finally:
        os.close(descriptor)
    return Witness(0, 0) if found is None else found


@message(name="retinue-approvals/Renew@1", timeout=TIMEOUT)
class Renew(Work["str | None"]):
    """Looks whether the file is the one that was used last, and begins a new epoch where it is not. Answers with why, or None.

    Attributes:
        now_ms: The time.
        via: The desk that looks.
        why: Why it is known that another has taken its place; "": the witness tells.
    """

    full: ClassVar[bool] = True
    after_commit = staticmethod(write_witness)

    now_ms: int
    via: str = ""
    why: str = ""

    def run(self, database: Database) -> str | None:
        """See the class."""
        folder = folder_of(database)
        if folder is None:
            return None
        state = _state_of(database, folder)
        why = state.problem or self.why
        if not why and state.file is not None:
            return None
        _put(database, _FILE_ID, secrets.randbits(62) | 1)
        if not why or _is_new(database):
            return None
        _put(database, RESETS, (_get(database, RESETS) or 0) + 1)
        count_use(database)
        add_event(database, max(self.now_ms, floor_of(database) or 0), "older file", who="the desk", detail=why, via=self.via)
        return why


def _is_new(database: Database) -> bool:
    """Whether nothing was ever asked or approved in it, so that nothing is there to be void."""
    return all(first(database, f"SELECT 1 FROM {table}") is None for table in ("requests", "standing"))  # noqa: S608 - our own names


def _state_of(database: Database, folder: Path) -> _State:
    return _State(_get(database, _FILE_ID), _get(database, _USES) or 0, read_witness(folder))


def _get(database: Database, name: str) -> int | None:
    found = first(database, "SELECT number FROM marks WHERE name = ?", name)
    return None if found is None else int(found["number"])


def _put(database: Database, name: str, number: int) -> None:
    database.execute("INSERT OR REPLACE INTO marks VALUES (?, ?)", (name, number))


def _written(witness: Witness) -> bytes:
    text = f"{_FORMAT} {witness.file:016x} {witness.uses:020d}"
    return f"{text} {zlib.crc32(text.encode('ascii')):08x}\n".encode("ascii")


def _parsed(data: bytes) -> Witness | None:
    """What was written; None for an empty file, and nobody's for anything else."""
    if not data:
        return None
    try:
        name, file, uses, _ = data.decode("ascii").split(" ")
        found = Witness(int(file, 16), int(uses))
    except ValueError:
        return Witness(0, 0)
    return found if name == _FORMAT and _written(found) == data else Witness(0, 0)


def _lock(descriptor: int, how: int) -> None:
    end = time.monotonic() + PATIENCE
    while True:
        try:
            fcntl.flock(descriptor, how | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= end:
                raise TimeoutError(errno.ETIMEDOUT, f"another process holds the lock of {FILE}, for longer than {PATIENCE:g} s") from None
            time.sleep(_POLL)
        else:
            return
