"""Room on the stack, asked for before a step that must not be cut off in the middle.

A handler may send from any depth of calls, and Python's RecursionError may come at any call then, that of a method of a list included (up to 3.11). What is called on a
sender's stack and changes two things asks for room first; so it raises with nothing changed, or is done altogether.
"""

from __future__ import annotations

from typing import Final

__all__ = ["START_DEPTH", "STEP_DEPTH", "TRIO_DEPTH", "check_stack"]

START_DEPTH: Final = 40
"""Calls that the start of a worker task may need, and more."""

STEP_DEPTH: Final = 20
"""Calls that a step of the runtime's own may need, and more."""

TRIO_DEPTH: Final = 10
"""Calls that trio may need to take a new deadline, and more."""


def check_stack(depth: int) -> None:
    """Raises RecursionError where there is no room for so many calls."""
    if depth:
        check_stack(depth - 1)
