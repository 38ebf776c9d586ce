"""Constraints on numbers: at most, at least, between."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from typing import ClassVar, Final, Self, final

import attrs

from retinue.security.constraints_base import Constraint, Parse
from retinue.security.constraints_scalars import Number, check_number, number_from_data, number_key, scalar_to_data, shown
from retinue.security.errors import ConstraintError
from retinue.security.sources import Source

__all__ = ["Range"]

_MAX_BITS: Final = 16_384
"""Bits of an int that is compared: turning an int into a Decimal takes quadratic time, and somebody else may have chosen it."""


def _in_order(low: Number, high: Number) -> bool:
    """Whether `low <= high` by their exact values."""
    # Python compares the three types exactly. But a thread may have asked `decimal` to raise where a float meets a Decimal.
    if type(low) is float and type(high) is Decimal:
        return Decimal.from_float(low) <= high  # noqa: FURB164 - the constructor would raise too
    if type(low) is Decimal and type(high) is float:
        return low <= Decimal.from_float(high)  # noqa: FURB164 - as above
    return low <= high


def _bound(value: object) -> Number | None:
    return None if value is None else check_number(value, "the bound of a range")


@final
@attrs.frozen(repr=False, cache_hash=True)
class Range(Constraint):
    """`at_most`, `at_least` and `between`: a finite int, float or Decimal (no bool) within bounds, both of which belong to it.

    An int of more than 16,384 bits (4,932 digits) is not.
    """

    kind: ClassVar[str] = "range"
    keys: ClassVar[frozenset[str]] = frozenset({"low", "high"})

    low: Number | None = attrs.field(converter=_bound, eq=number_key)
    high: Number | None = attrs.field(converter=_bound, eq=number_key)

    def __attrs_post_init__(self) -> None:
        if self.low is None and self.high is None:
            raise ConstraintError("a range has a bound. Write at_most(100), at_least(1) or between(1, 100).")
        if self.low is not None and self.high is not None and not _in_order(self.low, self.high):
            raise ConstraintError(f"{self.text} permits nothing: its lower bound is above its upper one. Write the lower one first.")

    def _holds(self, value: object, _sources: Mapping[str, Source], /) -> bool:
        if type(value) is int and value.bit_length() > _MAX_BITS:
            return False
        if type(value) is int or (type(value) is float and math.isfinite(value)) or (type(value) is Decimal and value.is_finite()):
            return (self.low is None or _in_order(self.low, value)) and (self.high is None or _in_order(value, self.high))
        return False

    def _text(self) -> str:
        if self.low is None:
            return f"at_most({shown(self.high)})"
        if self.high is None:
            return f"at_least({shown(self.low)})"
        return f"between({shown(self.low)}, {shown(self.high)})"

    def _fields(self) -> dict[str, object]:
        return {"low": scalar_to_data(self.low), "high": scalar_to_data(self.high)}

    @classmethod
    def _read(cls, data: Mapping[str, object], _parse: Parse, /) -> Self:
        low, high = (None if data[side] is None else number_from_data(data[side], f"the {side} of a range") for side in ("low", "high"))
        return cls(low, high)
