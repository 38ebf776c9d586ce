"""The errors of the testing kit."""

from __future__ import annotations

from retinue.security.errors import DefinitionError, RetinueError

__all__ = ["Killed", "NeedsLoop"]


class Killed(RetinueError):
    """An actor was killed by a test (`Faults.kill`): it fails with this as if its handler had raised it."""


class NeedsLoop(DefinitionError):
    """What a handler awaits needs a loop (time, a lock, a nursery, a socket), and a `BehaviorTest` has none: the text says what it is. Test it in a system."""
