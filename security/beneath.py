"""Files beneath a folder: opened, listed, looked at and removed without ever leaving it.

A permission such as `within("reports/")` judges a path's text. Where the path leads is decided by the file system when it is opened:
symbolic links, hard links, a link that is put in place a moment after somebody looked. So the text is checked again, the way down is
walked without following links (see `beneath_walk`), and what was opened is looked at before a byte is read, written or cut off.

The calls block, as all file access does: in an actor on the event loop run them in a thread.
"""

from __future__ import annotations

import codecs
import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from typing import BinaryIO, Final, Literal, TextIO, TypeAlias, cast, overload

import attrs

from retinue.security.beneath_walk import HANDLE, open_at
from retinue.security.errors import GuardRefused
from retinue.security.paths import check_folder, check_path

__all__ = ["Entry", "listing_beneath", "open_beneath", "remove_beneath", "stat_beneath"]

TextMode: TypeAlias = Literal["r", "r+", "w", "w+", "a", "a+", "x", "x+"]
BinaryMode: TypeAlias = Literal["rb", "r+b", "rb+", "wb", "w+b", "wb+", "ab", "a+b", "ab+", "xb", "x+b", "xb+"]
FolderPath: TypeAlias = str | os.PathLike[str]

_FLAGS: Final = {"r": 0, "w": os.O_CREAT, "a": os.O_CREAT | os.O_APPEND, "x": os.O_CREAT | os.O_EXCL}
_ALL_BITS: Final = 0o777
_DELETED: Final = " (deleted)"


@attrs.frozen
class Entry:
    """What is known of a name beneath a folder.

    Attributes:
        name: The last part of its path; "" for the folder itself.
        kind: "file", "folder", "link" (a symbolic link: where it leads was not looked at), or "other" (a FIFO, a socket, a device).
        size: Bytes.
        links: How many names the file has: one, if it has no hard links.
        modified_ms: When its content last changed, in milliseconds since 1970 (UTC).
    """

    name: str
    kind: Literal["file", "folder", "link", "other"]
    size: int
    links: int
    modified_ms: int


@overload
def open_beneath(
    folder: FolderPath,
    path: str,
    mode: TextMode = "r",
    *,
    encoding: str = "utf-8",
    links: bool = False,
    mounts: bool = True,
    permissions: int = 0o600,
) -> TextIO: ...


@overload
def open_beneath(
    folder: FolderPath,
    path: str,
    mode: BinaryMode,
    *,
    encoding: str = "utf-8",
    links: bool = False,
    mounts: bool = True,
    permissions: int = 0o600,
) -> BinaryIO: ...


def open_beneath(
    folder: FolderPath,
    path: str,
    mode: str = "r",
    *,
    encoding: str = "utf-8",
    links: bool = False,
    mounts: bool = True,
    permissions: int = 0o600,
) -> TextIO | BinaryIO:
    """Open a file beneath a folder, and never anything else, whatever others do to the folder meanwhile.

    Args:
        folder: The folder, which is trusted: links in its own path are followed.
        path: The file's path from there, with `/` between its parts, as `within()` judges it.
        mode: As for `open`: one of r, w, a, x, with `+` and `b` if wanted; default "r". A file is cut to nothing ("w") only after
            everything was checked.
        encoding: Of the text; default "utf-8". Not used with `b`.
        links: Whether a file may have hard links. Default False: another name of it may lie outside of the folder.
        mounts: Whether the way may lead into another file system that is mounted beneath the folder, a bind mount too; default True.
        permissions: Of a file that is created, less the umask; default 0o600, its owner's alone.

    Returns:
        The file object; use it in a `with` block. Its `name` is `path`.

    Raises:
        GuardRefused: The path's text is refused (see `check_path`) or is absolute; a symbolic link is on the way or at its end; the file
            is a FIFO, a socket or a device, has hard links, or is in another mount where that is not allowed; or it was removed or
            renamed at that very moment. Nothing was changed or cut off. Its `what` is "path".
        OSError: As `open` raises it: FileNotFoundError, FileExistsError, IsADirectoryError, PermissionError and the like.
        ValueError: The mode is none of those above, or `permissions` are none.
        LookupError: There is no such encoding.
    """
    parts = _parts(check_path(path), path)
    if type(mode) is not str:
        raise ValueError(f"open_beneath(mode=…) is a str such as 'r', not an object of type {type(mode).__name__}")
    if type(permissions) is not int or not 0 <= permissions <= _ALL_BITS:
        raise ValueError("open_beneath(permissions=…) is a number from 0 to 0o777: who may read, write and start the file")
    kind, rest = mode[:1], mode[1:]
    if kind not in _FLAGS or rest not in ("", "+", "b", "+b", "b+"):
        raise ValueError(f"open_beneath() cannot open with mode {mode!r}: give 'r', 'w', 'a' or 'x', with '+' and 'b' if wanted")
    access = os.O_RDWR if "+" in rest else os.O_RDONLY if kind == "r" else os.O_WRONLY

    def opener(_path: str, _flags: int) -> int:
        with _root(folder) as root, _refusing(path), _parent(root, parts, mounts=mounts) as parent:
            return _open_file(parent, path, access | _FLAGS[kind], permissions, cut=kind == "w", links=links is True, mounts=mounts)

    if "b" in rest:
        return cast("BinaryIO", open(path, mode, opener=opener))
    codecs.lookup(encoding)  # before anything is made or cut off
    return cast("TextIO", open(path, mode, encoding=encoding, opener=opener))


def listing_beneath(folder: FolderPath, path: str = "", *, limit: int = 10_000, mounts: bool = True) -> list[Entry]:
    """What is in a folder beneath a folder, by name; where its links lead is not looked at.

    Args:
        folder: As in `open_beneath`.
        path: The path of the folder to list from there; default "": the folder itself. A trailing slash means nothing.
        limit: The most entries; default 10,000.
        mounts: As in `open_beneath`.

    Returns:
        Its entries in the order of their names, those of all kinds. A name that is refused as a path is among them as well.

    Raises:
        GuardRefused: As for `open_beneath`, or there are more than `limit` entries.
        OSError: As `os.scandir` raises it.
    """
    entries: list[Entry] = []
    flags = os.O_RDONLY | os.O_DIRECTORY
    with _root(folder) as root, _refusing(path), _opened(root, path, flags, mounts=mounts) as listed, os.scandir(listed) as found:
        for name in found:
            if len(entries) == limit:
                raise GuardRefused(f"the folder {path!r} has more than {limit:,} entries: give limit= as many as you can use", what="path")
            with contextlib.suppress(FileNotFoundError):  # removed while it was listed
                entries.append(_entry(name.name, name.stat(follow_symlinks=False)))
    return sorted(entries, key=lambda entry: entry.name)


def stat_beneath(folder: FolderPath, path: str = "", *, mounts: bool = True) -> Entry:
    """What a path beneath a folder names. Of a symbolic link it tells of the link itself.

    Args:
        folder: As in `open_beneath`.
        path: The path from there; default "": the folder itself.
        mounts: As in `open_beneath`.

    Raises:
        GuardRefused: As for `open_beneath`; but what it names may be of any kind, and have hard links.
        OSError: As `os.stat` raises it.
    """
    with _root(folder) as root, _refusing(path), _opened(root, path, HANDLE, mounts=mounts) as looked_at:
        return _entry(path.removesuffix("/").rpartition("/")[2], os.fstat(looked_at))


def remove_beneath(folder: FolderPath, path: str, *, mounts: bool = True) -> None:
    """Remove a file, a symbolic link (not what it leads to), or an empty folder beneath a folder.

    Args:
        folder: As in `open_beneath`.
        path: The path from there; never the folder itself.
        mounts: As in `open_beneath`.

    Raises:
        GuardRefused: As for `open_beneath`; hard links do not matter, since only this name goes.
        OSError: As `os.unlink` and `os.rmdir` raise it: a folder that is not empty, say.
    """
    parts = _parts(check_path(path), path)
    with _root(folder) as root, _refusing(path), _parent(root, parts, mounts=mounts) as parent:
        mode = os.stat(parts[-1], dir_fd=parent, follow_symlinks=False).st_mode
        if stat.S_ISDIR(mode):
            os.rmdir(parts[-1], dir_fd=parent)
        elif stat.S_ISREG(mode) or stat.S_ISLNK(mode):
            os.unlink(parts[-1], dir_fd=parent)  # if it is a folder by now, this fails; it is never emptied
        else:
            raise _special(path)


def _parts(checked: tuple[str, ...], path: str) -> tuple[str, ...]:
    if checked[0] == "/":
        raise GuardRefused(
            f"the path {path!r} is absolute. Give the path from the folder on, without a slash at its beginning.", what="path"
        )
    return checked


@contextlib.contextmanager
def _refusing(path: str) -> Iterator[None]:
    """Turn what the file system says of a way that leads elsewhere into GuardRefused, and have other errors name the path."""
    try:
        yield
    except OSError as error:
        why = _REFUSALS.get(error.errno or 0)
        if why is None:
            error.filename = path  # not the bare last part, nor a descriptor's number
            raise
        raise GuardRefused(f"the path {path!r} is refused: {why}", what="path") from None


_REFUSALS: Final = {
    errno.ELOOP: "a part of it is a symbolic link, and links are not followed. Give the path of the file itself.",
    errno.EXDEV: "it leads into another mounted file system. Give mounts=True if that is wanted.",
    errno.ENOTSUP: "whether it leads into another mount cannot be told here. Give mounts=True if that does not matter.",
    errno.ENXIO: "it is a FIFO or a socket. Only regular files are opened.",
    errno.EAGAIN: "it, or a folder on the way, was renamed or locked at that moment. Try again.",
}


def _special(path: str) -> GuardRefused:
    return GuardRefused(f"the path {path!r} is refused: it is a FIFO, a socket or a device. Only regular files are opened.", what="path")


@contextlib.contextmanager
def _root(folder: FolderPath) -> Iterator[int]:
    path = os.fspath(folder)
    if not isinstance(path, str):
        raise GuardRefused(f"the folder is an object of type {type(folder).__name__}. Give its path as a str or a Path.", what="path")
    opened = os.open(path, HANDLE | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield opened
    finally:
        os.close(opened)


@contextlib.contextmanager
def _opened(root: int, path: str, flags: int, *, mounts: bool) -> Iterator[int]:
    """What the path names, or the folder itself for "", open for the length of a `with` block."""
    if path == "":
        opened = os.open(".", flags | os.O_CLOEXEC, dir_fd=root)
    else:
        opened = open_at(root, _parts(check_folder(path), path), flags, mounts=mounts)
    try:
        yield opened
    finally:
        os.close(opened)


@contextlib.contextmanager
def _parent(root: int, parts: tuple[str, ...], *, mounts: bool) -> Iterator[int]:
    """The folder that holds the last part, open for the length of a `with` block."""
    if len(parts) == 1:
        yield root
        return
    opened = open_at(root, parts[:-1], HANDLE | os.O_DIRECTORY, mounts=mounts)
    try:
        yield opened
    finally:
        os.close(opened)


def _open_file(parent: int, path: str, flags: int, permissions: int, *, cut: bool, links: bool, mounts: bool) -> int:
    name = path.rpartition("/")[2]
    # Opening a device can already do something (rewind a tape, start a watchdog), so its kind is looked at first. That settles nothing:
    # it may be another file a moment later, and what counts is looked at again once it is open.
    with contextlib.suppress(FileNotFoundError):
        _check_kind(os.stat(name, dir_fd=parent, follow_symlinks=False), path)
    # Opening a FIFO would wait for its other end, and a terminal would become ours.
    opened = open_at(parent, (name,), flags | os.O_NONBLOCK | os.O_NOCTTY, permissions, mounts=mounts)
    try:
        status = os.fstat(opened)
        _check_kind(status, path)
        if not links:
            _check_links(opened, parent, status, path)
        if cut:
            os.ftruncate(opened, 0)
        os.set_blocking(opened, True)
    except BaseException:
        os.close(opened)
        raise
    return opened


def _check_kind(status: os.stat_result, path: str) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if stat.S_ISLNK(status.st_mode):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    if not stat.S_ISREG(status.st_mode):
        raise _special(path)


def _check_links(opened: int, parent: int, status: os.stat_result, path: str) -> None:
    """Refuse a file that has, or had when it was opened, a name besides the one by which it was opened.

    A count of one is not enough: who put a hard link here may have taken it away again after it was opened, and then the one name that
    is counted is the other. The kernel remembers for ever that the name an open file was opened by was removed, also if it is put back.
    So: the count is read first, then whether the name is still there; if it is, it was the one that was counted.

    A removal counts the file down first and forgets the name a moment later, but holds its folder for both. So in between, a name that the folder
    cannot know is looked up: that waits until a removal under way has ended. (And a name that was moved may be on its way out elsewhere.)
    """
    if status.st_nlink > 1:
        raise GuardRefused(
            f"the path {path!r} is refused: it has {status.st_nlink} names (hard links), and others of them may lie outside of the folder. "
            "Copy it, or give links=True if that does not matter.",
            what="path",
        )
    with contextlib.suppress(OSError):
        os.stat(f".{secrets.token_hex(16)}", dir_fd=parent, follow_symlinks=False)
    name = path.rpartition("/")[2]
    try:
        there = _place(opened) == f"{_place(parent).rstrip('/')}/{name}"
    except FileNotFoundError:  # no /proc: the count is all there is
        there = True
    if not there or name.endswith(_DELETED) or status.st_nlink == 0:
        raise GuardRefused(
            f"the path {path!r} is refused: it was moved or removed while it was opened, or its name ends with {_DELETED!r}, which looks the same. "
            "Try again, or rename it.",
            what="path",
        )


def _place(opened: int) -> str:
    """Where an open file is by now, as the kernel has it."""
    return os.readlink(f"/proc/self/fd/{opened}")  # noqa: PTH115 - a Path would normalise what is compared


def _entry(name: str, status: os.stat_result) -> Entry:
    mode = status.st_mode
    kind: Literal["file", "folder", "link", "other"] = (
        "file" if stat.S_ISREG(mode) else "folder" if stat.S_ISDIR(mode) else "link" if stat.S_ISLNK(mode) else "other"
    )
    return Entry(name=name, kind=kind, size=status.st_size, links=status.st_nlink, modified_ms=status.st_mtime_ns // 1_000_000)
