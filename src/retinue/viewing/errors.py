"""What goes wrong when recorded runs are looked at."""

from __future__ import annotations

from typing import ClassVar

from retinue.security.errors import RetinueError

__all__ = ["TraceFileError"]


class TraceFileError(RetinueError):
    """A file of recorded runs cannot be used, or does not have the run that was asked for. Nothing was changed.

    Attributes:
        reason: "missing" (there is no file), "forbidden" (it may not be read), "damaged" (it is no such file, or broken), "newer" (a later version of Retinue
            wrote it), "busy" (a writer holds it for too long), "empty" (it has no run) or "unknown" (it has no such run, or several that begin so).
    """

    code: ClassVar[str] = "trace.file"

    def __init__(self, message: str, *, reason: str = "damaged") -> None:
        super().__init__(message)
        self.reason = reason
