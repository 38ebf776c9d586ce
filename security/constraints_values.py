"""Constraints on a value as a whole: one of a list, known from a source, not given, not too long."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Self, final

import attrs

from retinue.security.constraints_base import MAX_ITEMS, MISSING, Constraint, Parse
from retinue.security.constraints_scalars import (
    Scalar,
    check_scalar,
    list_text,
    scalar_from_data,
    scalar_key,
    scalar_to_data,
    shown,
    type_name,
)
from retinue.security.errors import ConstraintError
from retinue.security.sources import Source, check_source_name

__all__ = ["Absent", "KnownFrom", "MaxLength", "OneOf"]


def _values(values: object) -> tuple[Scalar, ...]:
    if type(values) is not tuple or not values:
        raise ConstraintError("one_of() needs the values that are permitted. Write, for example, one_of('ACME', 'Bolt').")
    if len(values) > MAX_ITEMS:
        raise ConstraintError(f"one_of() has {len(values)} values, more than {MAX_ITEMS}. Put them into a source, and use known_from().")
    keyed = {check_scalar(value, "a value of one_of()"): value for value in values}
    # In one order, so that equal constraints look equal; ints by size, the rest by their text.
    order = sorted(keyed, key=lambda key: (key[0], key[1] if key[0] in ("int", "bool") else 0, repr(key[1])))
    return tuple(keyed[key] for key in order)


def _keys_of(values: tuple[Scalar, ...]) -> frozenset[tuple[str, object] | None]:
    return frozenset(map(scalar_key, values))


@final
@attrs.frozen(repr=False, cache_hash=True)
class OneOf(Constraint):
    """`one_of`: the value is one of those listed, with its type."""

    kind: ClassVar[str] = "one_of"
    keys: ClassVar[frozenset[str]] = frozenset({"values"})

    values: tuple[Scalar, ...] = attrs.field(converter=_values, eq=_keys_of)
    _permitted: frozenset[tuple[str, object] | None] = attrs.field(init=False, eq=False)

    def __attrs_post_init__(self) -> None:
        # attrs' own way to set what is derived on a frozen class.
        object.__setattr__(self, "_permitted", _keys_of(self.values))

    def _holds(self, value: object, _sources: Mapping[str, Source], /) -> bool:
        key = scalar_key(value)
        return key is not None and key in self._permitted

    def _text(self) -> str:
        return f"one_of({list_text(map(shown, self.values))})"

    def _fields(self) -> dict[str, object]:
        return {"values": [scalar_to_data(value) for value in self.values]}

    @classmethod
    def _read(cls, data: Mapping[str, object], _parse: Parse, /) -> Self:
        values = data["values"]
        if type(values) is not list:
            raise ConstraintError(f"the values of one_of are a list, not this {type_name(values)}.")
        return cls(tuple(scalar_from_data(value, "a value of one_of") for value in values))


@final
@attrs.frozen(repr=False, cache_hash=True)
class KnownFrom(Constraint):
    """`known_from`: the value was added to the authority's source of that name."""

    kind: ClassVar[str] = "known_from"
    keys: ClassVar[frozenset[str]] = frozenset({"source"})

    source: str = attrs.field(converter=check_source_name)

    def _holds(self, value: object, sources: Mapping[str, Source], /) -> bool:
        source = sources.get(self.source)
        return type(source) is Source and source.knows(value)

    def _text(self) -> str:
        return f"known_from({self.source!r})"

    def _fields(self) -> dict[str, object]:
        return {"source": self.source}

    @classmethod
    def _read(cls, data: Mapping[str, object], _parse: Parse, /) -> Self:
        return cls(check_source_name(data["source"]))


@final
@attrs.frozen(repr=False, cache_hash=True)
class Absent(Constraint):
    """`absent`: the argument was not given, or is None."""

    kind: ClassVar[str] = "absent"
    keys: ClassVar[frozenset[str]] = frozenset()

    def _holds(self, value: object, _sources: Mapping[str, Source], /) -> bool:
        return value is None or value is MISSING

    def _text(self) -> str:
        return "absent()"

    def _fields(self) -> dict[str, object]:
        return {}

    @classmethod
    def _read(cls, _data: Mapping[str, object], _parse: Parse, /) -> Self:
        return cls()


def _length(value: object) -> int:
    if type(value) is not int or not 0 <= value < 2**63:
        raise ConstraintError("max_length() takes a whole number from 0 on. Write, for example, max_length(200).")
    return value


@final
@attrs.frozen(repr=False, cache_hash=True)
class MaxLength(Constraint):
    """`max_length`: a str, bytes, list, tuple or dict of at most so many characters, bytes or items."""

    kind: ClassVar[str] = "max_length"
    keys: ClassVar[frozenset[str]] = frozenset({"most"})

    most: int = attrs.field(converter=_length)

    def _holds(self, value: object, _sources: Mapping[str, Source], /) -> bool:
        if type(value) is str or type(value) is bytes or type(value) is list or type(value) is tuple or type(value) is dict:
            return len(value) <= self.most
        return False

    def _text(self) -> str:
        return f"max_length({self.most})"

    def _fields(self) -> dict[str, object]:
        return {"most": scalar_to_data(self.most)}

    @classmethod
    def _read(cls, data: Mapping[str, object], _parse: Parse, /) -> Self:
        return cls(_length(scalar_from_data(data["most"], "the length of max_length")))
