"""Small files that are one user's alone: read only if they are, and written so that there is always either the old one or the new one, whole.

Public ones beside them anybody may read, and nobody else may write.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

__all__ = [
    "Signature",
    "Unfit",
    "check_place",
    "create_private",
    "locked_folder",
    "make_private",
    "read_private",
    "read_public",
    "replace_private",
    "replace_public",
    "signature_of",
]

PATIENCE: Final = 5.0
"""Seconds to wait for the lock of a folder."""

_POLL: Final = 0.01
"""Seconds from one attempt to the next."""

Signature = tuple[int, ...]
"""What of a file changes when the file does, or who may use it."""


class Unfit(Exception):
    """The file is there, and must not be used; the text says why and ends with the fix. Callers turn it into an error of their own."""


def signature_of(path: Path) -> Signature:
    """The signature of the file as it is now; a link is not followed. Raises OSError."""
    return _signature(os.lstat(path))  # asked for each token, and pathlib takes twice as long


def _signature(status: os.stat_result) -> Signature:
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_mode, status.st_uid


def read_private(path: Path, most: int) -> tuple[bytes, Signature]:
    """The file's bytes, and its signature when they were read.

    Args:
        path: The file.
        most: The largest size that is read, in bytes.

    Raises:
        Unfit: It is a link or no plain file, is another user's, can be used by others, or is larger.
        OSError: It cannot be read.
    """
    return _read(path, most, 0o077, "can be used by others than its owner: chmod 600 it, and if it is a secret, make a new one.")


def read_public(path: Path, most: int) -> tuple[bytes, Signature]:
    """As `read_private`, for a file that others may read: it is refused only where others can write it."""
    return _read(path, most, 0o022, "can be written by others than its owner: chmod 644 it, and look whether everything in it is yours.")


def _read(path: Path, most: int, forbidden: int, problem: str) -> tuple[bytes, Signature]:
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        if path.is_symlink():
            raise Unfit("is a link, and what it leads to may be anybody's. Name the file itself.") from None
        raise
    with os.fdopen(file, "rb") as stream:
        status = os.fstat(stream.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise Unfit("is no plain file. Name another.")
        if status.st_mode & forbidden:
            raise Unfit(problem)
        if status.st_uid != os.geteuid():
            raise Unfit("belongs to another user: chown it, or run as its owner.")
        data = stream.read(most + 1)
        if len(data) > most:
            raise Unfit(f"is larger than {most:,} bytes, so it is something else. Name another.")
    return data, _signature(status)


@contextlib.contextmanager
def locked_folder(path: Path) -> Iterator[None]:
    """Hold the lock of the file's folder: one at a time makes or replaces private files in it. The kernel lets go of it, whatever happens.

    Raises:
        TimeoutError: Another process holds it for longer than `PATIENCE` seconds. (An OSError, as whatever else keeps the folder from being locked.)
    """
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _lock(folder, PATIENCE)
        yield
    finally:
        os.close(folder)


def _lock(descriptor: int, seconds: float) -> None:
    end = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= end:
                text = f"another process holds the lock of its folder, for longer than {seconds:g} s. Find it (`lslocks`), and try again"
                raise TimeoutError(errno.ETIMEDOUT, text) from None
            time.sleep(_POLL)
        else:
            return


def check_place(folder: Path) -> None:
    """Raises Unfit where anybody can put another file in the place of one in the folder, so that no mode of a file is worth anything. Raises OSError."""
    status = folder.stat()
    if status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX:
        raise Unfit("can be written by everybody: chmod 700 it, and look whether everything in it is yours.")


def make_private(path: Path) -> bool:
    """Takes a file that is this user's away from everybody else; one that is not there is fine. Whether others could use it.

    Raises:
        Unfit: Others can write it, and it is another user's.
        OSError: It cannot be looked at, or changed.
    """
    try:
        status = path.lstat()
    except FileNotFoundError:
        return False
    if not stat.S_ISREG(status.st_mode) or not status.st_mode & 0o077:
        return False  # what is no plain file is refused by whoever opens it
    if status.st_uid == os.geteuid():
        path.chmod(stat.S_IMODE(status.st_mode) & 0o700)
        return True
    if status.st_mode & 0o022:
        raise Unfit("belongs to another user, and others can write it: chown it, or run as its owner.")
    return False  # its owner's to say; whoever opens it finds out what may be done


def create_private(path: Path, data: bytes) -> None:
    """Make the file, whole and with mode 600; call it under `locked_folder`. Raises FileExistsError, or another OSError."""
    temporary = _write_beside(path, data)
    try:
        # A link, because unlike a rename it fails where the name is taken.
        os.link(temporary, path, follow_symlinks=False)
    finally:
        temporary.unlink()
    _sync(path.parent)


def replace_private(path: Path, data: bytes) -> None:
    """Put new bytes in the file's place, with mode 600; call it under `locked_folder`. Raises OSError."""
    _write_beside(path, data).replace(path)
    _sync(path.parent)


def replace_public(path: Path, data: bytes) -> None:
    """As `replace_private`, with mode 644, whatever the umask."""
    _write_beside(path, data, 0o644).replace(path)
    _sync(path.parent)


def _write_beside(path: Path, data: bytes, mode: int = 0o600) -> Path:
    # Whoever holds the folder's lock may remove what a process that was killed here has left.
    for left in path.parent.glob(f".{path.name}.*.new"):
        left.unlink()
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}.new")
    file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(file, "wb") as stream:
            stream.write(data)
            os.fchmod(stream.fileno(), mode)
            stream.flush()
            os.fsync(stream.fileno())
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    return temporary


def _sync(folder: Path) -> None:
    """Bring the names in a folder to the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError:
        pass  # some file systems have no such thing
    finally:
        os.close(descriptor)
