"""Options whose names are misspelt: whoever writes them is told the nearest one there is, where Python would say only that it does not know the name."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any, TypeVar

from retinue.security.errors import DefinitionError

__all__ = ["misspelt", "names_the_nearest"]

C = TypeVar("C", bound=type)


def misspelt(what: str, unknown: Iterable[str], known: Iterable[str]) -> DefinitionError:
    """The error for options that something does not take.

    Args:
        what: What was called, as its author knows it: "RunLimits".
        unknown: The names that it does not take.
        known: Those that it does.
    """
    from difflib import get_close_matches

    names = list(known)
    wrong = list(unknown)
    meant = [
        found[0]
        for name in wrong
        for found in [get_close_matches(name[:100], names, n=1) or [one for one in names if one.startswith(name)]]
        if found
    ]
    meaning = f"did you mean {', '.join(f'{name}=' for name in meant)}? It" if meant else "it"
    shown = ", ".join(f"{name[:100]}=" for name in wrong)
    return DefinitionError(f"{what} does not take {shown}: {meaning} takes {', '.join(names) or 'nothing'}")


def names_the_nearest(cls: C) -> C:
    """A class of values, made by attrs, whose constructor tells of options that it does not know. For those that are made now and then: a call more costs time."""
    made = cls.__init__  # type: ignore[misc]
    known = tuple(field.alias for field in cls.__attrs_attrs__ if field.init)  # type: ignore[attr-defined]

    @functools.wraps(made)
    def checked(self: Any, *arguments: Any, **options: Any) -> None:
        try:
            made(self, *arguments, **options)
        except TypeError:
            unknown = [name for name in options if name not in known]
            if not unknown:
                raise
            raise misspelt(cls.__name__, unknown, known) from None

    cls.__init__ = checked  # type: ignore[misc]
    return cls
