"""Who may change what the gate of a running system decides by. Internal to the gate."""

from __future__ import annotations

from typing import final
from weakref import ref

from retinue.security.authority import Authority

__all__ = ["Guard"]


@final
class Guard:
    """What is called before a registry or a policy file changes: whatever guards the authorities of the systems that use it. Keeps none of them alive.

    Args:
        authority: The authority of one more system.
        before: What stood there, the guard of other systems perhaps.
    """

    __slots__ = ("_authorities",)

    def __init__(self, authority: Authority, before: object) -> None:
        others = before._authorities if type(before) is Guard else ()
        self._authorities: tuple[ref[Authority], ...] = (*(one for one in others if one() not in (None, authority)), ref(authority))

    def __call__(self) -> None:
        """Ask each of them, before anything changes."""
        for one in self._authorities:
            alive = one()
            if alive is not None and alive.guard is not None:
                alive.guard()
