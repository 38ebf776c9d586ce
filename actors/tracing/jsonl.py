"""The exporter to a file of JSON lines: one span a line, with the names of the SQLite table."""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from retinue.actors.tracing.errors import TraceFileUnusable
from retinue.actors.tracing.places import check_folder_of, is_at
from retinue.actors.tracing.rows import json_text, made, row_of
from retinue.security.private_files import Unfit, make_private

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

__all__ = ["MOST_BYTES", "JsonlFile"]

MOST_BYTES: Final = 64 * 1024 * 1024
"""Bytes of one file; then it becomes `NAME.1`, in the place of the one before, and a new one begins."""


_FIRST: Final = b'{"trace_id"'


class JsonlFile:
    """A file that grows by a line a span, with mode 600.

    Args:
        path: The file.
        system: The system's name, for each line.

    Raises TraceFileUnusable for a file that others may write, or that cannot be written.
    """

    def __init__(self, path: Path, system: str) -> None:
        self.name = str(path)
        self._path = path
        self._system = system
        self._file = _opened(path)

    def write(self, spans: Sequence[ReadableSpan]) -> int:
        """Appends them, in one write. Returns how many cannot be written down."""
        lines = made(spans, lambda span: json_text(row_of(span, self._system)))
        if lines:
            self._append(("\n".join(lines) + "\n").encode())
        return len(spans) - len(lines)

    def _append(self, data: bytes) -> None:
        if self._file.closed or not is_at(self._path, self._file.fileno()):  # somebody has moved it away, or deleted it
            self._file.close()
            self._file = _opened(self._path)
        begun = os.fstat(self._file.fileno()).st_size
        if begun and begun + len(data) > MOST_BYTES:
            self._path.replace(self._path.with_name(f"{self._path.name}.1"))
            self._file.close()
            self._file = _opened(self._path)
            begun = 0
        written = self._file.write(data)
        if written != len(data):  # a full disk takes what it can: no half of a line stays
            os.truncate(self._file.fileno(), begun)
            raise OSError(f"only {written} of {len(data)} bytes were written")

    def hurry(self, seconds: float) -> None:
        """Nothing here waits."""

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


def _opened(path: Path) -> io.FileIO:
    try:
        check_folder_of(path)
        make_private(path)
        return _open(path)
    except Unfit as unfit:
        raise TraceFileUnusable(f"{path} {unfit}") from None
    except OSError as error:
        raise TraceFileUnusable(f"{path} cannot be opened for traces ({type(error).__name__}): look whether it may be written") from error


def _open(path: Path) -> io.FileIO:
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise Unfit("is no plain file. Name another.")
    if os.pread(descriptor, len(_FIRST), 0) not in (b"", _FIRST):
        os.close(descriptor)
        raise Unfit("is a file of something else. Name another.")
    return io.FileIO(descriptor, "wb")
