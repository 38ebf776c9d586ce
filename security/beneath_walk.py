"""One way down from an open folder to a name beneath it, which no symbolic link and no racing rename leads astray.

Linux 5.6 and later walk it in the kernel (`openat2`). Elsewhere, and where a sandbox forbids the call, the walk is made here: each
folder on the way is opened from the one before it, without following a link. Both refuse the same with the same errors, and neither
ever looks a path up twice: what was opened is what was checked.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import os
import platform
import stat
import struct
import sys
from pathlib import Path
from typing import Any, Final

__all__ = ["HANDLE", "open_at", "openat2"]

HANDLE: Final[int] = getattr(os, "O_PATH", os.O_RDONLY | os.O_NONBLOCK)
"""How a file or folder is opened that is only looked at or walked through: no permission to read it is needed, and no device wakes up."""

_OPENAT2: Final = 437  # on every architecture but Alpha, which counts differently
_NO_XDEV: Final = 0x01
_NO_MAGICLINKS: Final = 0x02
_NO_SYMLINKS: Final = 0x04
_BENEATH: Final = 0x08
_TRIES: Final = 16

# The call is not there: an old kernel, a sandbox (which answers EPERM where it does not know a call). The walk meets the same EPERM again
# where it was meant for the file.
_NO_SUCH_CALL: Final = frozenset({errno.ENOSYS, errno.EPERM})


def open_at(folder: int, parts: tuple[str, ...], flags: int, mode: int = 0, *, mounts: bool = True) -> int:
    """Open what the parts lead to from an open folder, following no link, the last part's included.

    Args:
        folder: The folder's descriptor.
        parts: Names as `check_path` returns them for a relative path: never `.` or `..`, nor with a slash. At least one.
        flags: As for `os.open`; `O_NOFOLLOW` and `O_CLOEXEC` are added.
        mode: The permissions of a file that is created, less the umask.
        mounts: Whether the way may lead into another mounted file system (a bind mount too).

    Returns:
        The descriptor, which the caller closes.

    Raises:
        OSError: ELOOP for a link on the way or at its end (but a link's own descriptor where the flags are `HANDLE`), EXDEV for a mount
            that is not allowed, ENOTDIR, ENOENT, EACCES and so on as ever.
    """
    flags |= os.O_CLOEXEC
    if not flags & os.O_DIRECTORY:  # with both, a link at the end is "not a directory" rather than a link
        flags |= os.O_NOFOLLOW
    try:
        return openat2(folder, "/".join(parts), flags, mode, _BENEATH | _NO_SYMLINKS | _NO_MAGICLINKS | (0 if mounts else _NO_XDEV))
    except OSError as error:
        if error.errno not in _NO_SUCH_CALL:
            raise
    return _walk(folder, parts, flags | os.O_NOFOLLOW, mode, mounts=mounts)


def openat2(folder: int, path: str, flags: int, mode: int, resolve: int) -> int:
    """The system call of that name. Raises OSError, with ENOSYS where it does not exist."""
    call = _syscall()
    if call is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    sys.audit("open", path, None, flags)  # what os.open tells audit hooks
    how = struct.pack("=QQQ", flags, mode if flags & os.O_CREAT else 0, resolve)
    number = 0
    for _ in range(_TRIES):
        opened: int = call(
            ctypes.c_long(_OPENAT2),
            ctypes.c_long(folder),
            ctypes.c_char_p(os.fsencode(path)),
            ctypes.c_char_p(how),
            ctypes.c_size_t(len(how)),
        )
        if opened >= 0:
            return opened
        number = ctypes.get_errno()
        if number not in (errno.EINTR, errno.EAGAIN):  # EAGAIN: something was renamed on the way, so the kernel could not be sure
            break
    raise OSError(number, os.strerror(number))


@functools.cache
def _syscall() -> Any:
    """The C library's `syscall`, or None where it is of no use."""
    if sys.platform != "linux" or platform.machine() == "alpha":
        return None
    function = ctypes.CDLL(None, use_errno=True).syscall
    function.restype = ctypes.c_long
    return function


def _walk(folder: int, parts: tuple[str, ...], flags: int, mode: int, *, mounts: bool) -> int:
    start = None if mounts else _mount_of(folder)
    here = os.dup(folder)
    try:
        for name in parts[:-1]:
            here, above = _step(here, name, HANDLE | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, 0), here
            os.close(above)
        opened = _step(here, parts[-1], flags, mode)
    finally:
        os.close(here)
    try:
        # Without links and `..` the way never comes back from a mount that it has entered, so its end tells for all of it.
        _check_mount(opened, start)
    except OSError:
        os.close(opened)
        raise
    return opened


def _step(folder: int, name: str, flags: int, mode: int) -> int:
    try:
        return os.open(name, flags, mode, dir_fd=folder)
    except NotADirectoryError:
        # Where a folder is wanted, a link is "not a directory" like a file; openat2 tells them apart, so this does.
        found = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
        if not stat.S_ISLNK(found) and not stat.S_ISDIR(found):
            raise
        number = errno.ELOOP if stat.S_ISLNK(found) else errno.EAGAIN  # a folder by now: it was something else a moment ago
        raise OSError(number, os.strerror(number)) from None


def _check_mount(opened: int, start: str | None) -> None:
    if start is not None and _mount_of(opened) != start:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))


def _mount_of(opened: int) -> str:
    """Which mount a descriptor is on. The device's number alone would not tell a bind mount from what it was bound from."""
    if sys.platform != "linux":
        return str(os.fstat(opened).st_dev)
    with contextlib.suppress(FileNotFoundError):
        for line in Path(f"/proc/self/fdinfo/{opened}").read_text(encoding="ascii").splitlines():
            if line.startswith("mnt_id:"):
                return line.partition(":")[2].strip()
    raise OSError(errno.ENOTSUP, "mounts cannot be told apart without /proc or openat2")
