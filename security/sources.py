"""Sources: values that the program itself has learned, which `known_from` permits as arguments.

An agent may pay whom it likes only if a trusted part of the program has met the payee before: the tool that reads the address book adds
each payee to a source, and `where("payments.send", to=known_from("payees"))` lets no other one through. A source is an object
capability: whoever holds the object may add to it. A context only names it.
"""

from __future__ import annotations

import re
import threading
from typing import Any, Final, NoReturn, Self, final

from retinue.security.constraints_scalars import Scalar, check_scalar, scalar_key, type_name
from retinue.security.errors import ConstraintError

__all__ = ["MAX_SOURCE_VALUES", "Source", "check_source_name", "make_source"]

MAX_SOURCE_VALUES: Final = 100_000
"""Values in one source, unless it was made with another limit."""

_NAME: Final = re.compile(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*")
_MAX_NAME: Final = 64


def check_source_name(name: object) -> str:
    """The name of a source, checked: segments of `A-Z a-z 0-9 _ -` parted by dots, at most 64 characters.

    Raises:
        ConstraintError: It is malformed, or no plain `str`.
    """
    if type(name) is not str:
        raise ConstraintError(
            f"the name of a source is a plain str, not an object of type {type_name(name)}. Write, for example, 'payees'."
        )
    if len(name) > _MAX_NAME or not _NAME.fullmatch(name):
        raise ConstraintError(
            f"the name of a source has 1 to {_MAX_NAME} characters of A-Z a-z 0-9 _ - in segments parted by dots; "
            f"{name[:_MAX_NAME]!r} does not. Write, for example, 'payees'."
        )
    return name


@final
class Source:
    """A named, bounded set of values that are known to the program; thread-safe.

    Made by `system.authority.source(name)`, and for that authority only. Values are compared with their types: `1`, `True`, `1.0` and
    `"1"` are four. Adding can widen what contexts with `known_from` permit, so hand the object to none but the code that is to say so.

    Attributes:
        name: What `known_from` calls it.
        limit: The largest number of values.
    """

    __slots__ = ("__weakref__", "_lock", "_values", "limit", "name")

    name: str
    limit: int
    _values: dict[tuple[str, object], Scalar]
    _lock: threading.RLock

    def __new__(cls, *_args: object, **_kwargs: object) -> Self:
        """Refused: see the class."""
        raise TypeError("a Source is made by an authority, which then knows it: use system.authority.source(name).")

    def __init_subclass__(cls) -> None:
        raise TypeError("Source is final: a subclass could answer for itself.")

    def add(self, *values: Scalar) -> None:
        """Make the values known, all of them or, if one is refused, none. Adding a value again changes nothing.

        Raises:
            ConstraintError: A value is no None, bool, int, float, str or bytes of exactly that type, or is longer than 4,096 characters;
                or the source would hold more values than its limit (`discard` or `clear` makes room).
        """
        keys = {check_scalar(value, f"a value of the source '{self.name}'"): value for value in values}
        with self._lock:
            new = {key: value for key, value in keys.items() if key not in self._values}
            if len(self._values) + len(new) > self.limit:
                raise ConstraintError(
                    f"the source '{self.name}' holds {len(self._values)} values, and {len(new)} more would exceed its limit of {self.limit}. "
                    "Nothing was added: discard values that are no longer needed, or make the source with a higher limit."
                )
            self._values.update(new)

    def discard(self, *values: Scalar) -> None:
        """Make the values unknown again; a value that is not known changes nothing."""
        with self._lock:
            for value in values:
                key = scalar_key(value)
                if key is not None:
                    self._values.pop(key, None)

    def clear(self) -> None:
        """Make all values unknown again."""
        with self._lock:
            self._values.clear()

    def knows(self, value: object) -> bool:
        """Whether exactly this value, of exactly this type, was added. False for anything odd; never raises."""
        key = scalar_key(value)
        return key is not None and key in self._values

    def values(self) -> tuple[Scalar, ...]:
        """The known values, in the order in which they were added."""
        with self._lock:
            return tuple(self._values.values())

    def __len__(self) -> int:
        return len(self._values)

    def __bool__(self) -> bool:
        return True  # also when empty: `if source:` asks whether there is one

    def __repr__(self) -> str:
        return f"<source '{self.name}' with {len(self)} of at most {self.limit} values>"  # never the values

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{name!r} of a Source cannot be set: what it knows changes by add() and discard() only.")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{name!r} of a Source cannot be deleted.")

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a Source is not pickled: on the other side no authority would know it. Send its values, and add them there.")


def make_source(name: str, *, limit: int = MAX_SOURCE_VALUES) -> Source:
    """A new, empty source, for an authority to keep under its name. One that no authority keeps is never asked.

    Raises:
        ConstraintError: The name is malformed, or the limit is no whole number above 0.
    """
    if type(limit) is not int or limit < 1:
        raise ConstraintError(
            f"the limit of a source is a whole number above 0, not this {type_name(limit)}. Leave it out for {MAX_SOURCE_VALUES}."
        )
    made: Source = object.__new__(Source)
    fields: dict[str, Any] = {"name": check_source_name(name), "limit": limit, "_values": {}, "_lock": threading.RLock()}
    # The lock is re-entrant, because a collection while it is held may run anybody's finaliser.
    for field, value in fields.items():
        object.__setattr__(made, field, value)
    return made
