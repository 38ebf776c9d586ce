"""The audit log in a file: one record a line, JSON, appended and never rewritten.

A record is handed to the operating system before `write` returns, so it outlives the process, killed or not; `fsync="record"` makes it
outlive the machine's power too, at the price of a disk's round trip. Where writing fails midway, what was written of the record is taken
back; where the process died midway, the next one to open the file moves the torn line aside and says so in the log.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, Literal, final

from retinue.security.audit_chain import AuditEntry
from retinue.security.errors import AuditBroken, AuditUnavailable
from retinue.security.strict_json import read_json

__all__ = ["AuditFile", "read_audit_file"]

MAX_LINE: Final = 2**20
"""Bytes of the longest line that is read; records are far shorter."""

_BLOCK: Final = 2**16


def entry_of(line: bytes) -> AuditEntry:
    """The record of a line, its end left out.

    Raises:
        AuditBroken: It is no record, or is written in another way than records are: no byte may differ.
    """
    try:
        entry = AuditEntry.from_data(read_json(line, max_bytes=MAX_LINE, max_depth=1))
    except ValueError as error:
        raise AuditBroken(f"a line of the audit file is no record: {error}.") from None
    if entry.line.encode("ascii") != line:
        raise AuditBroken("a line of the audit file is not written as records are: it was edited.")
    return entry


def read_audit_file(path: str | os.PathLike[str], *, on_torn: Callable[[int], None] | None = None) -> Iterator[AuditEntry]:
    """The records of an audit file, oldest first; they are not verified (`verify_chain` does that). It may be in use meanwhile.

    Args:
        path: The file.
        on_torn: Called with the number of bytes after the last whole line, where there are some: a record being written, or what a killed
            process left.

    Raises:
        AuditBroken: A line is no record.
        OSError: The file cannot be read.
    """
    # Not blocking: a pipe without a writer would be waited for without end.
    with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:  # noqa: PTH123 - of a descriptor
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is no plain file", str(path))
        number = 0
        while line := file.readline(MAX_LINE + 1):
            number += 1
            if not line.endswith(b"\n"):
                if len(line) > MAX_LINE:
                    raise AuditBroken(f"line {number} of the audit file is longer than any record.", number=number)
                if on_torn is not None:
                    on_torn(len(line))
                return
            try:
                entry = entry_of(line[:-1])
            except AuditBroken as error:
                raise AuditBroken(f"{error} It is line {number}.", number=number) from None
            yield entry


@final
class AuditFile:
    """A file that audit records are appended to: give it to an `AuditLog` as its sink. One process at a time has it, and one log.

    Args:
        path: The file; made, with mode 600, where there is none. Its folder must exist.
        fsync: "close": the disk is waited for by `flush` and `close` alone. "record": by every record. Default: "close".

    Attributes:
        path: The file.
        recovered: What had to be mended when it was opened, as a sentence; "" if nothing.

    Raises:
        AuditUnavailable: It cannot be opened, is no plain file, can be used by others than its owner, or another process has it.
        AuditBroken: Its last line is no record.
    """

    __slots__ = ("_before", "_dirty", "_each", "_file", "_last", "_pid", "_place", "_size", "path", "recovered")

    def __init__(self, path: str | os.PathLike[str], *, fsync: Literal["close", "record"] = "close") -> None:
        if fsync not in ("close", "record"):
            raise ValueError(f'AuditFile(fsync={fsync!r}): write "close" or "record".')
        self.path: Final = Path(path)
        self._place: Final = self.path.absolute()  # where it is, also when the process goes to another folder
        self._each: Final = fsync == "record"
        self._pid: Final = os.getpid()
        self.recovered = ""
        self._dirty = False
        self._file = -1
        self._file = _open(self.path)
        try:
            self._size = os.fstat(self._file).st_size
            self._mend()
            self._last = self._read_last()
            self._before = self._size
            if self._last is not None:
                self._before -= len(self._last.line) + 1
        except OSError as error:
            self._abandon()
            raise AuditUnavailable(f"the audit file {self.path} cannot be read: {error.strerror}.") from error
        except BaseException:
            self._abandon()
            raise

    def last(self) -> AuditEntry | None:
        """The last record in the file, or None."""
        return self._last

    def write(self, entry: AuditEntry) -> None:
        """Append the record; one of the last one's number replaces it. Nothing of it stays in the file where this raises.

        Raises:
            OSError: It cannot be written: the disk is full, the file is closed, or somebody else changed it or took it away.
        """
        if self._file < 0 or os.getpid() != self._pid:
            raise OSError(errno.EBADF, f"the audit file {self.path} is closed, or belongs to the process that this one was forked from")
        number = 0 if self._last is None else self._last.number
        if entry.number == number + 1:
            start = self._size
        elif entry.number == number:
            start = self._before
        else:
            raise OSError(errno.EINVAL, f"record {entry.number} does not follow record {number} of the audit file {self.path}")
        size = self._size_in_place()
        if size != self._size and not self._dirty:
            raise OSError(errno.EIO, f"the audit file {self.path} was changed by somebody else: check it with `retinue audit verify`")
        # Set before the first change and cleared after the last: whatever happens in between, the next write begins by cutting off.
        self._dirty = True
        if size != start:
            os.ftruncate(self._file, start)
        line = entry.line.encode("ascii") + b"\n"
        try:
            _write_all(self._file, line, start)
            if self._each:
                os.fsync(self._file)
        except OSError:
            os.ftruncate(self._file, start)
            raise
        self._before, self._size, self._last = start, start + len(line), entry
        self._dirty = False

    def _size_in_place(self) -> int:
        """The file's size. An open file outlives its name, but nobody would find there what is written to it."""
        status = os.fstat(self._file)
        try:
            named = self._place.stat(follow_symlinks=False)
        except OSError:
            named = None
        if named is None or (named.st_ino, named.st_dev) != (status.st_ino, status.st_dev):
            raise OSError(errno.ENOENT, f"the audit file {self.path} was removed, moved away or replaced while it was in use: put it back")
        return status.st_size

    def flush(self) -> None:
        """Wait until the disk has every record.

        Raises:
            AuditUnavailable: It cannot be said that it has.
        """
        if self._file < 0:
            return
        try:
            os.fsync(self._file)
        except OSError as error:
            raise AuditUnavailable(f"the audit file {self.path} could not be brought to the disk: {error.strerror}.") from error

    def close(self) -> None:
        """Wait until the disk has every record, and let go of the file. Closing twice is fine.

        Raises:
            AuditUnavailable: It cannot be said that the disk has every record. The file is closed all the same.
        """
        try:
            self.flush()
        finally:
            self._abandon()

    def _abandon(self) -> None:
        if self._file >= 0:
            os.close(self._file)  # and with it goes the lock
            self._file = -1

    def _mend(self) -> None:
        """Move what comes after the last whole line into a file beside this one."""
        end = self._size - len(self._tail(self._size))
        if end == self._size:
            return
        torn = os.pread(self._file, self._size - end, end)
        aside = _keep_aside(self.path, torn)
        os.ftruncate(self._file, end)
        os.fsync(self._file)
        self._size = end
        self.recovered = (
            f"A record that was not written to its end, {len(torn)} bytes, was moved to {aside.name}: the process was killed then."
        )

    def _tail(self, end: int) -> bytes:
        """The bytes before `end` and after the last line's end before it."""
        found = b""
        while end > 0:
            start = max(0, end - _BLOCK)
            block = os.pread(self._file, end - start, start)
            at = block.rfind(b"\n")
            found = block[at + 1 :] + found
            if at >= 0:
                break
            if len(found) > MAX_LINE:
                raise AuditBroken(f"the end of the audit file {self.path} is no record: it has a line longer than any. Move the file away.")
            end = start
        return found

    def _read_last(self) -> AuditEntry | None:
        if self._size == 0:
            return None
        try:
            return entry_of(self._tail(self._size - 1))
        except AuditBroken as error:
            raise AuditBroken(
                f"the last line of the audit file {self.path}: {error} "
                "Check the file with `retinue audit verify`; move it away to begin a new chain."
            ) from None

    def __repr__(self) -> str:
        return f"<AuditFile {str(self.path)!r}{' closed' if self._file < 0 else ''}>"


def _open(path: Path) -> int:
    """Open and lock the file, made with mode 600 if there is none."""
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
    except OSError as error:
        raise AuditUnavailable(
            f"the audit file {path} cannot be opened: {error.strerror}. It is a plain file in a folder that exists."
        ) from error
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise AuditUnavailable(f"the audit file {path} is no plain file.")
        if status.st_mode & 0o077 or status.st_uid != os.geteuid():
            raise AuditUnavailable(
                f"the audit file {path} can be used by others than its owner, or is another user's: chmod 600 it, or chown it."
            )
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise AuditUnavailable(
                f"the audit file {path} is in use by another process or another system. Give each a file of its own."
            ) from error
        if status.st_size == 0:
            _sync_folder(path.parent)
    except BaseException:
        os.close(file)
        raise
    return file


def _sync_folder(folder: Path) -> None:
    """Bring a new file's name to the disk."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError:
        pass  # some file systems have no such thing, some folders cannot be read; the records' own fsync is what tells


def _keep_aside(path: Path, torn: bytes) -> Path:
    number = 1
    while True:
        aside = path.with_name(f"{path.name}.torn-{number}")
        try:
            file = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except FileExistsError:
            number += 1
            continue
        try:
            _write_all(file, torn, 0)
            os.fsync(file)
        finally:
            os.close(file)
        return aside


def _write_all(file: int, data: bytes, start: int) -> None:
    done = 0
    while done < len(data):
        done += os.pwrite(file, data[done:], start + done)
