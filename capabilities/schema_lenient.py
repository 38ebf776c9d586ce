"""The second reading of a value that did not fit: it is there, only in another form. Nothing is made up, and nothing is looked for that was not said.

- Where no text is wanted, a string is read as JSON, once: "[1, 2]" for [1, 2], "3" for 3.
- Where text is wanted, a number is taken for its digits.
- Where an int is wanted, 2.0 is 2.
- A program that gives arguments itself may give values as they are: a date for a date, and what a person has edited as the store keeps it.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any, Final

from retinue.capabilities.json_reading import BrokenJson, read_exactly
from retinue.capabilities.repair import LONGEST
from retinue.capabilities.schema_shapes import Misfit, Number, Shape, kind_of, misfit
from retinue.security.records import Member, Record

__all__ = ["lenient"]


def lenient(shape: Shape, strict: Shape) -> Shape:
    """The same shape, read leniently.

    Args:
        shape: The shape; what is within it is lenient already.
        strict: The same with nothing lenient in it. Of a union it is asked first: one member does not get what another one takes as it is.
    """
    read = _reader(shape)
    memo = strict.memo

    def load(value: Any, _: Any = None) -> Any:
        if memo is None:
            return read(value)
        with memo:
            try:
                return strict.load(value)
            except Misfit:
                return read(value)

    made = Shape(shape.schema, load, shape.words, shape.kinds, text=shape.text, cls=shape.cls)
    made.memo = shape.memo
    return made


def _reader(shape: Shape) -> Callable[[Any], Any]:
    loose, cls = shape.load, shape.cls

    def read(value: Any) -> Any:
        if cls is not None:
            if isinstance(value, cls):
                return value
            if type(value) is Member and issubclass(cls, enum.Enum):
                if value.name in cls.__members__:
                    return cls[value.name]
                raise misfit(shape.words, value.name)
        try:
            return loose(value)
        except Misfit as error:
            for other in _other_forms(value, shape):
                try:
                    return loose(other)
                except Misfit:
                    continue
            raise error from None

    return read


def _other_forms(value: Any, shape: Shape) -> Iterator[Any]:
    kinds = shape.kinds
    kind = kind_of(value)
    if kind == "string":
        read = _read(value)
        what = kind_of(read) if read is not _NOTHING else ""
        # Where text is wanted as well, it takes a whole array or object to be sure that none was meant.
        if (what in kinds or (what == "integer" and "real" in kinds)) and ("string" not in kinds or what in ("array", "object")):
            yield read
    elif kind == "real":
        if "integer" in kinds and "real" not in kinds and abs(value) < 2**53 and _is_whole(value):
            yield int(value)
        elif "string" in kinds and shape.text and not kinds & {"integer", "real"}:
            yield value.text if type(value) is Number else repr(value)
        elif type(value) is float and shape.cls is Decimal:  # of a program
            yield Number(repr(value))
    elif kind == "integer":
        if "string" in kinds and shape.text and not kinds & {"integer", "real"}:
            yield str(value)
    elif type(value) is Record:
        yield dict(value.fields)


_LONGEST_NUMBER: Final = 400


def _is_whole(value: float) -> bool:
    """Whether a number is a whole one as it was written, and not only as the nearest float."""
    if type(value) is not Number:
        return value.is_integer()
    if len(value.text) > _LONGEST_NUMBER:
        return False
    try:
        written = Decimal(value.text)
        return written == written.to_integral_value()
    except ArithmeticError:  # an exponent of dozens of digits
        return False


_NOTHING: Final = object()


def _read(text: str) -> Any:
    if len(text) > LONGEST:
        return _NOTHING
    try:
        return read_exactly(text)
    except BrokenJson:
        return _NOTHING
