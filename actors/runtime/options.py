"""Options that a ref's `ask` and `stream` do not take: many belong to the message, and which one that is, is said."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import attrs

from retinue.actors.runtime.coercing import addressed
from retinue.security.errors import DefinitionError, RetinueError
from retinue.security.spelling import misspelt

if TYPE_CHECKING:
    from retinue.actors.runtime.ref import Ref

__all__ = ["no_option"]

_TAKEN = {"ask": ("timeout", "context", "approvals", "detached"), "stream": ("timeout", "window", "context", "approvals")}


def no_option(ref: Ref[Any], what: str, message: Any, unknown: Iterable[str]) -> DefinitionError:
    """The error for options of a ref's method that it does not take.

    Args:
        ref: The ref.
        what: "ask" or "stream".
        message: What is sent.
        unknown: The options' names.
    """
    names = list(unknown)
    cell = ref._cell
    try:
        kinds = [type(addressed(cell, message, streamed=what == "stream")[1]), *cell.handlers]
    except RetinueError:  # that cannot be sent either: the options come first
        kinds = list(cell.handlers)
    for kind in kinds:
        if attrs.has(kind) and set(names) <= attrs.fields_dict(kind).keys():
            shown = ", ".join(f"{name}=…" for name in names)
            return DefinitionError(
                f"{cell.path}: {what} does not take {', '.join(f'{name}=' for name in names)}, which is said in the message: {what}({kind.__name__}(…, {shown}))"
            )
    return misspelt(f"{cell.path}: {what}", names, _TAKEN[what])
