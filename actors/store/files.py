"""The files of a database: which they are, whether they are still the ones that were opened, and the lock under which they are made and moved."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from retinue.actors.store.errors import StoreUnavailable

__all__ = ["SIDES", "Identity", "beside", "create", "folder_lock", "identity", "look_at", "refused", "sync_folder"]

SIDES: Final = ("-wal", "-shm")
"""The files that SQLite keeps beside a database in WAL mode: the log of what is not in the file yet, and the index of it."""

_POLL: Final = 0.01
"""Seconds between two attempts to get the lock of a folder."""

Identity = tuple[tuple[int, int] | None, ...]
"""Device and inode of the database file and of its sides; None for one that is not there."""


def beside(path: Path, suffix: str) -> Path:
    """The file beside another whose name is longer by `suffix`."""
    return path.with_name(path.name + suffix)


def identity(path: Path) -> Identity:
    """Which files are at the path now. Never opens one of them: closing it again would drop the locks that SQLite has on it in this process."""
    return tuple(_inode(f"{path}{suffix}") for suffix in ("", *SIDES))


def _inode(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)  # noqa: PTH116 - for every batch, six times; pathlib takes twice as long
    except OSError:
        return None
    return status.st_dev, status.st_ino


def look_at(path: Path) -> bool:
    """Whether there is a file at the path that can be a database; False where there is nothing.

    Raises:
        StoreUnavailable: What is there is a link, a folder, a pipe or a device, or it cannot be looked at. It is not touched.
    """
    try:
        status = path.lstat()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise StoreUnavailable(
            f"{path} cannot be looked at: {error.strerror or type(error).__name__}. Look at the rights of its folder."
        ) from error
    if stat.S_ISREG(status.st_mode):
        return True
    kind = "a link" if stat.S_ISLNK(status.st_mode) else "a folder" if stat.S_ISDIR(status.st_mode) else "no plain file"
    raise StoreUnavailable(f"{path} is {kind}, and not a database file: it was left as it is. Name the file itself.")


def create(path: Path) -> None:
    """Makes an empty file that only this user may use (mode 600), under the folder's lock. SQLite gives its sides the same mode.

    Raises:
        StoreUnavailable: It cannot be made.
    """
    try:
        # Closing it is no danger here: nobody else can have opened a file that is made in this moment.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise refused(path, "cannot be made", error) from error
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Brings the names in a folder to the disk, where the file system can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def folder_lock(folder: Path, timeout: float) -> Iterator[None]:
    """One process at a time makes, opens or moves databases in a folder. The kernel lets go of the lock, whatever happens.

    Args:
        folder: The folder.
        timeout: Seconds to wait for it.

    Raises:
        StoreUnavailable: "locked" after the time-out; "failed" where the folder cannot be opened.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise StoreUnavailable(f"the folder {folder} is not there. Make it first.") from error
    except OSError as error:
        raise refused(folder, "cannot be opened", error) from error
    try:
        _acquire(descriptor, folder, timeout)
        yield
    finally:
        os.close(descriptor)


def _acquire(descriptor: int, folder: Path, timeout: float) -> None:
    end = time.monotonic() + timeout
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= end:
                raise StoreUnavailable(
                    f"another process holds the lock of {folder}, for longer than {timeout:g} s: it opens a database there, or mends one. Try again.",
                    reason="locked",
                ) from None
            time.sleep(_POLL)
        except OSError:
            return  # a file system without such locks: SQLite's own still hold, only two recoveries at one time are not kept apart
        else:
            return


def refused(path: Path, what: str, error: OSError) -> StoreUnavailable:
    """The typed error for what the operating system refused."""
    text = f"{path} {what}: {error.strerror or type(error).__name__}."
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return StoreUnavailable(f"{text} Make room.", reason="full_disk")
    if error.errno in {errno.EROFS, errno.EACCES, errno.EPERM}:
        return StoreUnavailable(f"{text} Make it writable for this user.", reason="read_only")
    return StoreUnavailable(text, reason="failed")
