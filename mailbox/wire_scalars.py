"""How single values cross the wire: strictly. "1" is no int, True is no int, an int may stand for a float, and nothing is coerced."""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import enum
import math
import pathlib
import re
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from retinue.mailbox.wire_codec import BOOL, EVERY, INTEGER, NULL, NUMBER, STRING, Codec, Refused, at, expected, json_kind, unfit
from retinue.mailbox.wire_json import HUGE

__all__ = ["ANY", "enum_codec", "literal_codec", "scalar_codec"]

_LONGEST_DECIMAL = 1000
_LARGEST_EXPONENT = 6144  # of IEEE 754's decimal128; arithmetic on Decimal("1E+999999999") would take all memory
_DECIMAL = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?(?:E[+-]?[0-9]{1,9})?")


def _check_text(text: str) -> str:
    """The text, unless it holds lone surrogates."""
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            raise Refused("holds a lone surrogate, which is no character") from None
    return text


def _dump_str(value: Any) -> str:
    if not isinstance(value, str):
        raise unfit("str", value)
    return _check_text(str.__str__(value))


def _load_str(value: Any) -> str:
    if type(value) is not str:
        raise expected("a string", value)
    return value


def _dump_int(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise unfit("int", value)
    if not -HUGE < value < HUGE:
        raise Refused("is an integer of too many digits", problem="too_large")
    return int(value)


def _load_int(value: Any) -> int:
    if type(value) is not int:
        raise expected("an integer", value)
    return value


def _dump_float(value: Any) -> float | int:
    if isinstance(value, float):
        if not math.isfinite(value):
            raise Refused("is NaN or infinite, which JSON cannot say: use None, or a field of its own")
        return float(value)
    if isinstance(value, int) and not isinstance(value, bool):
        if int(_load_float(int(value))) != value:
            raise Refused("is an int that no float holds exactly: annotate the field int")
        return int(value)
    raise unfit("float", value)


def _load_float(value: Any) -> float:
    if type(value) is not float and type(value) is not int:
        raise expected("a number", value)
    try:
        return float(value)
    except OverflowError:
        raise Refused("the number is beyond the range of a float") from None


def _dump_bool(value: Any) -> bool:
    if type(value) is not bool:
        raise unfit("bool", value)
    return value


def _load_bool(value: Any) -> bool:
    if type(value) is not bool:
        raise expected("a boolean", value)
    return value


def _dump_none(value: Any) -> None:
    if value is not None:
        raise unfit("None", value)


def _load_none(value: Any) -> None:
    if value is not None:
        raise expected("null", value)


def _dump_any(value: Any) -> Any:
    kind = type(value)
    if kind is str:
        return _check_text(value)
    if kind is int:
        return _dump_int(value)
    if kind is float:
        return _dump_float(value)
    if kind is bool or value is None:
        return value
    if kind is list:
        return [at(_dump_any, item, index) for index, item in enumerate(value)]
    if kind is dict:
        return {_dump_key(key): at(_dump_any, item, key) for key, item in value.items()}
    raise Refused(
        f"is annotated Any (or not at all), where only JSON values cross, but holds {kind.__qualname__}: "
        "annotate the field with its type, or use str, int, float, bool, None, list and dict"
    )


def _dump_key(key: Any) -> str:
    if type(key) is not str:
        raise Refused(
            f"has a key of type {type(key).__qualname__}, where JSON has only strings: annotate the field dict[KeyType, ValueType]"
        )
    return _check_text(key)


ANY = Codec("Any", EVERY, lambda _: True, _dump_any)
"""Any JSON value."""


def _textual(cls: type, *, dump: Callable[[Any], str], load: Callable[[str], Any], what: str, exact: bool = True) -> Codec:
    """A codec for a class whose values cross as strings."""

    def accepts(value: Any) -> bool:
        return type(value) is cls if exact else isinstance(value, cls)

    def dump_checked(value: Any) -> str:
        if not accepts(value):
            raise unfit(cls.__name__, value)
        return _check_text(dump(value))

    def load_checked(value: Any) -> Any:
        if type(value) is not str:
            raise expected(what, value)
        try:
            return load(value)
        except (ValueError, ArithmeticError):
            raise Refused(f"expected {what}, got another string") from None

    return Codec(cls.__name__, STRING, accepts, dump_checked, load_checked)


def _load_bytes(text: str) -> bytes:
    data = base64.b64decode(text, validate=True)
    if base64.b64encode(data).decode("ascii") != text:  # padding bits that mean nothing: two texts for one value
        raise binascii.Error
    return data


def _dump_decimal(value: Decimal) -> str:
    return str(_check_decimal(value))


def _load_decimal(text: str) -> Decimal:
    if len(text) > _LONGEST_DECIMAL or not _DECIMAL.fullmatch(text):
        raise ValueError
    return _check_decimal(Decimal(text))


def _check_decimal(value: Decimal) -> Decimal:
    if not value.is_finite():
        raise Refused("is NaN or infinite: use None, or a field of its own")
    if abs(value.adjusted()) > _LARGEST_EXPONENT or len(value.as_tuple().digits) > _LONGEST_DECIMAL - 16:
        raise Refused("is a Decimal of too many digits or too large an exponent", problem="too_large")
    return value


def _dump_datetime(value: dt.datetime) -> str:
    if value.utcoffset() is None:
        raise Refused("is a datetime without a time zone, which means another moment elsewhere: give it one, datetime.now(timezone.utc)")
    return value.isoformat()


def _load_datetime(text: str) -> dt.datetime:
    value = dt.datetime.fromisoformat(text)
    if value.utcoffset() is None:
        raise Refused("expected a date and time with its offset from UTC, got one without")
    return value


def _load_uuid(text: str) -> uuid.UUID:
    value = uuid.UUID(text)
    if str(value) != text.lower():
        raise ValueError
    return value


def _dump_timedelta(value: Any) -> int:
    if type(value) is not dt.timedelta:
        raise unfit("timedelta", value)
    return value // dt.timedelta(microseconds=1)


def _load_timedelta(value: Any) -> dt.timedelta:
    try:
        return dt.timedelta(microseconds=_load_int(value))
    except OverflowError:
        raise Refused("the duration is too long for a timedelta") from None


def _paths() -> dict[Any, Codec]:
    here: list[Any] = [pathlib.Path, pathlib.PurePath, pathlib.PurePosixPath, pathlib.PureWindowsPath, type(pathlib.Path())]
    return {cls: _textual(cls, dump=str, load=cls, what="a path", exact=False) for cls in here}


_SCALARS: dict[Any, Codec] = {
    str: Codec("str", STRING, lambda value: isinstance(value, str), _dump_str, _load_str, plain=True),
    int: Codec("int", INTEGER, lambda value: isinstance(value, int) and not isinstance(value, bool), _dump_int, _load_int, plain=True),
    float: Codec("float", NUMBER, lambda value: isinstance(value, float), _dump_float, _load_float, plain=True),
    bool: Codec("bool", BOOL, lambda value: type(value) is bool, _dump_bool, _load_bool, plain=True),
    type(None): Codec("None", NULL, lambda value: value is None, _dump_none, _load_none, plain=True),
    bytes: _textual(bytes, dump=lambda value: base64.b64encode(value).decode("ascii"), load=_load_bytes, what="base64"),
    Decimal: _textual(Decimal, dump=_dump_decimal, load=_load_decimal, what="a decimal number in a string"),
    dt.datetime: _textual(dt.datetime, dump=_dump_datetime, load=_load_datetime, what="an ISO 8601 date and time", exact=False),
    dt.date: _textual(dt.date, dump=dt.date.isoformat, load=dt.date.fromisoformat, what="an ISO 8601 date"),
    dt.time: _textual(dt.time, dump=dt.time.isoformat, load=dt.time.fromisoformat, what="an ISO 8601 time"),
    dt.timedelta: Codec("timedelta", INTEGER, lambda value: type(value) is dt.timedelta, _dump_timedelta, _load_timedelta),
    uuid.UUID: _textual(uuid.UUID, dump=str, load=_load_uuid, what="a UUID", exact=False),
    **_paths(),
}


def scalar_codec(cls: Any) -> Codec | None:
    """The codec of a scalar type, or None."""
    return _SCALARS.get(cls)


def enum_codec(cls: type[enum.Enum]) -> Codec:
    """Members cross by their values where these are all strings or all integers, else by their names; flags as integers."""
    if issubclass(cls, enum.Flag):
        return _flag_codec(cls)
    members = list(cls)
    by_value = all(type(member.value) is str for member in members) or all(type(member.value) is int for member in members)
    spelled: dict[Any, Any] = {(member.value if by_value else member.name): member for member in members}
    kinds = INTEGER if by_value and members and type(members[0].value) is int else STRING

    def dump(value: Any) -> Any:
        if not isinstance(value, cls):
            raise unfit(cls.__name__, value)
        return value.value if by_value else value.name

    def load(value: Any) -> Any:
        if json_kind(value) not in kinds or value not in spelled:
            raise Refused(f"expected a {'value' if by_value else 'name'} of {cls.__name__}, got another {json_kind(value)}")
        return spelled[value]

    return Codec(cls.__qualname__, kinds, lambda value: isinstance(value, cls), dump, load)


def _flag_codec(cls: type[enum.Flag]) -> Codec:
    def dump(value: Any) -> int:
        if not isinstance(value, cls):
            raise unfit(cls.__name__, value)
        return _dump_int(value.value)

    def load(value: Any) -> Any:
        try:
            return cls(_load_int(value))
        except ValueError:
            raise Refused(f"expected flags of {cls.__name__}, got unknown ones") from None

    return Codec(cls.__qualname__, INTEGER, lambda value: isinstance(value, cls), dump, load)


def literal_codec(values: tuple[Any, ...]) -> Codec:
    """One of the given values; members of enumerations cross as such, bytes as base64."""
    spelled: dict[tuple[type, Any], Any] = {}
    for value in values:
        codec = enum_codec(type(value)) if isinstance(value, enum.Enum) else _SCALARS[type(value)]
        written = codec.dump(value)
        if (type(written), written) in spelled:
            raise Refused("has two Literal values that are the same on the wire: use one of them")
        spelled[type(written), written] = value
    reverse = {(type(value), value): written for (_, written), value in spelled.items()}
    kinds = frozenset(json_kind(written) for _, written in spelled)

    def accepts(value: Any) -> bool:
        try:
            return (type(value), value) in reverse
        except TypeError:  # not hashable
            return False

    def dump(value: Any) -> Any:
        if not accepts(value):
            raise Refused(f"is annotated Literal but holds another {type(value).__qualname__} than those listed")
        return reverse[type(value), value]

    def load(value: Any) -> Any:
        if kinds.isdisjoint({json_kind(value)}) or (type(value), value) not in spelled:
            raise Refused(f"expected one of the listed values, got another {json_kind(value)}")
        return spelled[type(value), value]

    plain = all(type(value) in (str, int, bool, type(None)) for value in values)
    return Codec("Literal", kinds, accepts, dump, load, plain=plain)
