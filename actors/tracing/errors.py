"""What may be wrong with where traces are to go."""

from __future__ import annotations

from typing import ClassVar

from retinue.security.errors import RetinueError

__all__ = ["TraceFileUnusable"]


class TraceFileUnusable(RetinueError):
    """A file for traces cannot be used: others may write it, it is something else, or it cannot be written. Raised when the system starts, never while it runs."""

    code: ClassVar[str] = "trace.unusable"
