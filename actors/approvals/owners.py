"""Who spent an approval: a process that can be told from every other, also from one that gets its number later.

Where an outcome is missing, this says whether the effect may still be in progress, or was interrupted when its process died. Processes of one container know each
other by their numbers. For all others, each owner holds the lock of a file in the folder for as long as it lives: the kernel lets go of it, however it ends.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import logging
import os
import secrets
import time
from collections.abc import Collection
from functools import lru_cache
from pathlib import Path
from typing import Final, final

__all__ = ["FOLDER", "OwnerLock", "folder_of", "forget_the_dead", "is_alive", "new_owner"]

_log = logging.getLogger("retinue.approvals")

FOLDER: Final = "owners"
"""The name of the folder with the owners' files, in a folder of data."""

KEEP: Final = 60.0
"""Seconds that a file without a lock is left alone: it may be about to be locked."""

_BOOT = Path("/proc/sys/kernel/random/boot_id")


def new_owner() -> str:
    """The name of one desk in this process: boot, space of process numbers, process, when it was started, and a random part."""
    return f"{_machine()}/{os.getpid()}.{_started(os.getpid()) or 0}.{secrets.token_hex(4)}"


@final
class OwnerLock:
    """The lock that an owner holds for its life.

    Args:
        folder: The folder of data; it exists.
        owner: The owner.
    """

    __slots__ = ("_descriptor", "_path")

    def __init__(self, folder: Path, owner: str) -> None:
        self._descriptor: int | None = None
        self._path = _lock_of(folder, owner)
        try:
            self._path.parent.mkdir(mode=0o700, exist_ok=True)
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            _hold(self._descriptor)
        except OSError as error:
            # Without it everything works, but where the owner is not known by its number it is not known at all.
            _log.warning(
                "%s cannot be locked (%s): other containers cannot know whether this system still runs", self._path, error.strerror
            )
            self.close()

    def close(self, *, forget: bool = False) -> None:
        """Lets go of it. `forget`: nothing is open that is this owner's, so nobody will ask."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            if forget:
                with contextlib.suppress(OSError):
                    self._path.unlink()
            os.close(descriptor)

    def __del__(self) -> None:
        self.close()


def _hold(descriptor: int) -> None:
    for _ in range(100):  # whoever looks whether it is held holds it too, and lets go of it at once
        with contextlib.suppress(BlockingIOError):
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        time.sleep(0.01)
    raise OSError(errno.EAGAIN, "somebody else holds it")


def folder_of(database: object) -> Path | None:
    """The folder of data that a database lies in; None for one in memory."""
    path = getattr(database, "path", None)
    return path.parent if isinstance(path, Path) else None


def forget_the_dead(folder: Path | None, needed: Collection[str]) -> None:
    """Removes the files of owners that have ended, but for those that may still be asked for."""
    if folder is None:
        return
    kept = {_lock_of(folder, owner).name for owner in needed}
    with contextlib.suppress(OSError):
        for path in (folder / FOLDER).iterdir():
            if path.name not in kept and time.time() - path.lstat().st_mtime > KEEP and _is_held(path) is False:
                path.unlink()


def is_alive(owner: str, folder: Path | None = None) -> bool | None:
    """Whether the process that the owner lives in still runs, and the owner in it; None where that cannot be known: a person has to find out then.

    Args:
        owner: The owner.
        folder: The folder of data that it works on.
    """
    machine, _, rest = owner.partition("/")
    boot, _, space = machine.partition("+")
    here, _, our_space = _machine().partition("+")
    number, _, tail = rest.partition(".")
    started = tail.partition(".")[0]
    if not number.isascii() or not number.isdigit() or not started.isdigit():
        return False  # not written by a desk
    held = None if folder is None else _is_held(_lock_of(folder, owner))
    if held is False:
        return False
    if boot == here and space == our_space:
        return _runs(int(number), started)
    if held:
        return True
    return False if boot != here else None  # the machine was started again since; or another container


def _runs(number: int, started: str) -> bool:
    found = _started(number)
    if found is not None:
        return started in ("0", str(found))
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return not _BOOT.exists()  # with /proc, a process that is not in it has just ended


def _lock_of(folder: Path, owner: str) -> Path:
    return folder / FOLDER / f"{hashlib.sha256(owner.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}.lock"


def _is_held(path: Path) -> bool | None:
    """Whether somebody holds the lock of the file; None where it is not there, or that cannot be known."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return None
    else:
        return False
    finally:
        os.close(descriptor)


@lru_cache(maxsize=1)
def _machine() -> str:
    """The boot of the machine and the space in which processes are numbered. A memo: neither changes while a process lives."""
    try:
        boot = _BOOT.read_text(encoding="ascii").strip().replace("/", "")
        space = str(Path("/proc/self/ns/pid").readlink()).rpartition("[")[2].rstrip("]")
    except OSError:
        return "unknown+unknown"
    return f"{boot}+{space}"


def _started(number: int) -> int | None:
    """When the process was started, in ticks since the boot; None where it does not run, or that cannot be known."""
    try:
        text = Path(f"/proc/{number}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()  # the name in brackets may hold anything
    return None if len(fields) < 20 or fields[0] in ("Z", "X") else int(fields[19])
