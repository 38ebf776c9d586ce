"""The error of the testing kit that an actor can meet."""

from __future__ import annotations

from retinue.security.errors import RetinueError

__all__ = ["Killed"]


class Killed(RetinueError):
    """An actor was killed by a test (`Faults.kill`): it fails with this as if its handler had raised it."""
