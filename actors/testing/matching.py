"""Which messages a fault is for: by what they are, where they go, and who sent them."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from retinue.actors.runtime.actor import Actor
from retinue.actors.runtime.ref import Ref
from retinue.mailbox.messages import Message
from retinue.security.errors import DefinitionError

if TYPE_CHECKING:
    from retinue.actors.runtime.cell import Cell
    from retinue.actors.runtime.current import Delivery

__all__ = ["OUTSIDE", "Match", "Pattern", "Place"]

Pattern: TypeAlias = "type[Any] | tuple[type[Any], ...] | Callable[[Any], object] | None"
"""A message class, several, a function of the message that says whether it is meant, or None: every message."""

Place: TypeAlias = "Ref[Any] | type[Actor] | str | None"
"""An actor: its ref, its class, its path (with `*` for any part of it), or None: any."""

OUTSIDE = "outside"
"""As `sender=`: whatever no actor sent."""


class Match:
    """What a fault's `match`, `to=` and `sender=` say together.

    Args:
        pattern: Which messages.
        to: Which receivers.
        sender: Which senders.

    Raises:
        DefinitionError: One of them is malformed.
    """

    __slots__ = ("_kinds", "_predicate", "_sender", "_to")

    def __init__(self, pattern: Pattern, to: Place, sender: Place) -> None:
        self._kinds: tuple[type[Any], ...] | None = None
        self._predicate: Callable[[Any], object] | None = None
        if isinstance(pattern, type | tuple):
            kinds = pattern if isinstance(pattern, tuple) else (pattern,)
            wrong = [kind for kind in kinds if not (isinstance(kind, type) and not issubclass(kind, Actor))]
            if wrong or not kinds:
                raise DefinitionError(
                    f"{pattern!r} matches no message: give a message class, a tuple of them, or a function of the message; actors go with to= and sender="
                )
            self._kinds = kinds
        elif isinstance(pattern, Message):
            raise DefinitionError(
                f"{type(pattern).__qualname__}(…) is a message; give its class, or a function such as `lambda message: message == wanted`"
            )
        elif callable(pattern):
            self._predicate = pattern
        elif pattern is not None:
            raise DefinitionError(
                f"{pattern!r} matches no message: give a message class, a tuple of them, a function of the message, or None for all"
            )
        self._to = _place("to", to)
        self._sender = _place("sender", sender)

    def fits(self, delivery: Delivery, target: Cell, *, message: Any) -> bool:
        """Whether a message is meant. Raises what a function of the test's raises."""
        if self._kinds is not None and not isinstance(message, self._kinds):
            return False
        if self._to is not None and not self._to(target):
            return False
        if self._sender is not None and not self._sender(delivery.origin):
            return False
        return self._predicate is None or bool(self._predicate(message))


def _place(name: str, place: Any) -> Callable[[Cell | None], bool] | None:
    if place is None:
        return None
    if isinstance(place, Ref):
        return lambda found: found is not None and found.ref is place  # a virtual actor's cell is another one each time
    if isinstance(place, type) and issubclass(place, Actor):
        return lambda found: found is not None and issubclass(found.spec.cls, place)
    if name == "sender" and place == OUTSIDE:
        return lambda found: found is None
    path = place if isinstance(place, str) else getattr(place, "path", None)
    if not isinstance(path, str) or not path.startswith("/"):
        raise DefinitionError(
            f"{name}={place!r}: give a ref, an actor class, or a path such as '/user/bank' or '/user/workers/*'"
            + (f"; {OUTSIDE!r} is whatever no actor sent" if name == "sender" else "")
        )
    return lambda found: found is not None and fnmatch.fnmatchcase(found.path, path)
