"""What every constraint is: a closed set of immutable, comparable values, each a question about one argument with the answer yes or no."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Final, Self

from retinue.security.constraints_scalars import type_name
from retinue.security.errors import ConstraintError
from retinue.security.sources import Source

__all__ = ["MAX_ITEMS", "MAX_NESTING", "MISSING", "NO_SOURCES", "Constraint", "Missing", "Parse", "check_constraint"]

MAX_ITEMS: Final = 4096
"""Values, folders, hosts or constraints in one constraint."""

MAX_NESTING: Final = 8
"""Levels of `each` and `any_of` within each other."""


class Missing(enum.Enum):
    """The type of `MISSING`."""

    MISSING = "an argument that was not given"

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = Missing.MISSING
"""Stands for an argument that was not given. It fails every constraint but `absent()`, and an `any_of` that has it."""

NO_SOURCES: Final[Mapping[str, Source]] = MappingProxyType({})
"""No source at all: every `known_from` fails."""

_HOMES: Final = frozenset(
    f"retinue.security.constraints_{room}" for room in ("values", "numbers", "places", "combined")
)  # the only modules that may define a kind


class Constraint:
    """A question about one argument. Made by `one_of`, `at_most`, `within` and the other functions of `retinue.security.constraints`.

    The set of kinds is closed: nothing else may be a constraint, because one that answers as it likes would be a hole in every context
    that has it. Constraints are immutable and hashable; equal ones ask the same question.

    Attributes:
        kind: The word that names the kind in `to_data`.
        keys: The keys of `to_data` beside "kind".
    """

    __slots__ = ()

    kind: ClassVar[str]
    keys: ClassVar[frozenset[str]]

    def __init_subclass__(cls) -> None:
        if cls.__module__ not in _HOMES:
            raise TypeError(
                f"{cls.__qualname__} cannot be a constraint: the set of kinds is closed. Combine one_of(), within(), each(), any_of() and their like, "
                "or decide in a policy."
            )

    def holds(self, value: object, sources: Mapping[str, Source] = NO_SOURCES) -> bool:
        """Whether the argument's value is one that this constraint permits.

        Never raises, whatever the value is: what cannot be judged is not permitted. Only exact types are: a subclass of `str`, `int` or
        `list` is refused, because it may behave otherwise where it is used.

        Args:
            value: The argument's value, or `MISSING`.
            sources: The authority's sources by name, for `known_from`.
        """
        try:
            return self._holds(value, sources) is True
        except Exception:
            return False

    @property
    def text(self) -> str:
        """The constraint as one would type it, for people; long values are cut."""
        return self._text()

    @property
    def nesting(self) -> int:
        """How many levels of constraints are within this one; 0 for one that asks about the value itself."""
        return max((inner.nesting + 1 for inner in self._inner()), default=0)

    def to_data(self) -> dict[str, object]:
        """The constraint as plain JSON-able data, of which `constraint_from_data` makes an equal one."""
        return {"kind": self.kind, **self._fields()}

    # What a kind writes. `_read` is the inverse of `_fields`: it gets exactly the keys in `keys`, with any values; `parse` reads a
    # constraint within.

    def _holds(self, value: object, sources: Mapping[str, Source], /) -> bool:
        raise NotImplementedError

    def _inner(self) -> tuple[Constraint, ...]:
        return ()

    def _text(self) -> str:
        raise NotImplementedError

    def _fields(self) -> dict[str, object]:
        raise NotImplementedError

    @classmethod
    def _read(cls, data: Mapping[str, object], parse: Parse, /) -> Self:
        raise NotImplementedError

    def __repr__(self) -> str:
        return self.text

    __str__ = __repr__


Parse = Callable[[Any], Constraint]
"""Reads a constraint within another one from its data."""


def check_constraint(value: object, what: str) -> Constraint:
    """The constraint itself, if it is one.

    Raises:
        ConstraintError: It is something else; the text says what to write.
    """
    kind = type(value)
    if kind is not Constraint and issubclass(kind, Constraint):
        return value  # type: ignore[return-value]
    raise ConstraintError(
        f"{what} is a constraint such as one_of('ACME'), at_most(100) or within('reports/'), not an object of type {type_name(value)}. "
        "For one exact value write one_of(value)."
    )
