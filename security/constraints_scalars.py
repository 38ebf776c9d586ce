"""Single values as constraints and sources see them: compared with their types, written as plain JSON, shown in short.

`1`, `True`, `1.0` and `"1"` are four values here, though Python calls the first three equal. Types are told apart with `is`, never with
`==`, `in` or `isinstance`: a class from outside may answer those as it likes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import Decimal, InvalidOperation
from typing import Final, TypeAlias

from retinue.security.errors import ConstraintError

__all__ = [
    "MAX_VALUE_LENGTH",
    "Number",
    "Scalar",
    "check_number",
    "check_scalar",
    "list_text",
    "number_from_data",
    "number_key",
    "scalar_from_data",
    "scalar_key",
    "scalar_to_data",
    "shown",
    "type_name",
]

Scalar: TypeAlias = bool | int | float | str | bytes | None
"""A value that `one_of` may list and a source may hold."""

Number: TypeAlias = int | float | Decimal
"""A bound of `at_most` and its kin."""

MAX_VALUE_LENGTH: Final = 4096
"""Characters of a str, or bytes of a bytes, that a constraint or a source holds."""

_MAX_DIGITS: Final = 300  # far below the 4,300 beyond which Python refuses to turn an int into text
_MAX_INT: Final = 10**_MAX_DIGITS
_SAFE_INT: Final = 2**53  # beyond it a JSON reader that has floats only would lose digits
_SHOWN_CHARACTERS: Final = 60
_SHOWN_ITEMS: Final = 8

_ALLOWED: Final = "None, bool, int, float, str or bytes"


def type_name(value: object) -> str:
    """The name of a value's type, for an error's text; the value itself is not asked."""
    # Through `type`'s own descriptor: a metaclass may have put something else under that name.
    name = type.__dict__["__name__"].__get__(type(value))
    return name[:_SHOWN_CHARACTERS] if type(name) is str and name.isidentifier() else "?"


def shown(value: object) -> str:
    """A scalar or a `Decimal` as one would type it; long ones are cut."""
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"


def list_text(items: Iterable[str]) -> str:
    """The items parted by commas; long lists are cut."""
    texts = list(items)
    more = f", … ({len(texts)} in all)" if len(texts) > _SHOWN_ITEMS else ""
    return ", ".join(texts[:_SHOWN_ITEMS]) + more


def scalar_key(value: object) -> tuple[str, object] | None:
    """What stands for a scalar in sets: its type and its exact value. None if it is no scalar, or is a NaN or infinite.

    Subclasses are no scalars: an enum's member or a str that redefines equality could claim to be another value.
    """
    if type(value) is str:
        return ("str", value)
    if value is None:
        return ("none", None)
    if type(value) is int:
        return ("int", value)
    if type(value) is bool:
        return ("bool", value)
    if type(value) is float:
        # By its digits, because 0.0 == -0.0.
        return ("float", repr(value)) if math.isfinite(value) else None
    if type(value) is bytes:
        return ("bytes", value)
    return None


def _check_str(value: str, what: str) -> None:
    if len(value) > MAX_VALUE_LENGTH:
        raise ConstraintError(f"{what} has {len(value)} characters, more than {MAX_VALUE_LENGTH}. Constrain long values by max_length().")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ConstraintError(f"{what} has half of a surrogate pair, which no text has. Decode it properly first.") from None


def check_scalar(value: object, what: str) -> tuple[str, object]:
    """`scalar_key` of a value that a constraint or a source is to hold.

    Raises:
        ConstraintError: It is no scalar, is not finite, is too long, or is a str with a lone surrogate.
    """
    key = scalar_key(value)
    if key is None:
        raise ConstraintError(
            f"{what} is {_ALLOWED}, finite and of exactly that type, not an object of type {type_name(value)}. "
            "Give the values themselves, one by one; for ranges of numbers use between()."
        )
    if type(value) is str:
        _check_str(value, what)
    elif type(value) is bytes and len(value) > MAX_VALUE_LENGTH:
        raise ConstraintError(f"{what} has more than {MAX_VALUE_LENGTH} bytes. Constrain long values by max_length().")
    elif type(value) is int and not -_MAX_INT < value < _MAX_INT:
        raise ConstraintError(f"{what} is an int of more than {_MAX_DIGITS} digits. Use a smaller one.")
    return key


def check_number(value: object, what: str) -> Number:
    """A finite int, float or Decimal of exactly that type.

    Raises:
        ConstraintError: It is something else (a bool, say), is not finite, or has more than 300 digits.
    """
    if type(value) is int:
        check_scalar(value, what)
        return value
    if type(value) is float and math.isfinite(value):
        return value
    if type(value) is Decimal and value.is_finite() and len(value.as_tuple().digits) <= _MAX_DIGITS:
        return value
    raise ConstraintError(
        f"{what} is a finite int, float or Decimal of at most {_MAX_DIGITS} digits, not this {type_name(value)}. Write, for example, at_most(100)."
    )


def number_key(number: Number | None) -> tuple[str, object] | None:
    """What a bound is compared by: `1`, `1.0` and `Decimal(1)` are the same bound, and yet three constraints, each written as typed."""
    return ("decimal", str(number).upper()) if type(number) is Decimal else scalar_key(number)


def scalar_to_data(value: Scalar | Decimal) -> object:
    """A scalar or a Decimal as plain JSON: itself where JSON says the same thing, else an object of one key that names its type."""
    if type(value) is int and not -_SAFE_INT <= value <= _SAFE_INT:
        return {"int": str(value)}
    if type(value) is float:
        return {"float": repr(value)}
    if type(value) is bytes:
        return {"bytes": value.hex()}
    if type(value) is Decimal:
        return {"decimal": str(value).upper()}  # the context of the thread may ask for a small e
    return value


def _tagged(tag: str, text: str) -> int | float | Decimal | bytes | None:
    """The value that is written exactly so; None if it is written otherwise (`007`, `1_0`, ` 1`, `１`), too long, or none at all."""
    value: int | float | Decimal | bytes
    try:
        if tag == "bytes":
            value = bytes.fromhex(text)
        elif len(text) > 2 * _MAX_DIGITS:
            return None
        elif tag == "int":
            value = int(text)
        elif tag == "float":
            value = float(text)
        elif tag == "decimal":
            value = Decimal(text)
        else:
            return None
    except (ValueError, InvalidOperation):
        return None
    return value if scalar_to_data(value) == {tag: text} else None


def scalar_from_data(data: object, what: str) -> Scalar | Decimal:
    """The exact inverse of `scalar_to_data`.

    Raises:
        ConstraintError: The data is anything else than what `scalar_to_data` writes.
    """
    if data is None or type(data) is bool or type(data) is str:
        return data
    if type(data) is int and -_SAFE_INT <= data <= _SAFE_INT:
        return data
    if type(data) is dict and len(data) == 1:
        tag, text = next(iter(data.items()))
        if type(tag) is str and type(text) is str and len(text) <= 2 * MAX_VALUE_LENGTH:
            value = _tagged(tag, text)
            if value is not None:
                return value
    raise ConstraintError(
        f"{what} is null, true, false, a whole number, a text, or one of {{'int': '…'}}, {{'float': '…'}}, {{'decimal': '…'}}, {{'bytes': '…'}} "
        f"as to_data() writes them, not this {type_name(data)}. Write the constraint with to_data()."
    )


def number_from_data(data: object, what: str) -> Number:
    """`scalar_from_data` where a number is wanted.

    Raises:
        ConstraintError: See there, or it is no number.
    """
    return check_number(scalar_from_data(data, what), what)
