"""Canonical bytes: one byte string for each value of plain data, so that what is shown, hashed, approved and done can be compared.

Two values that differ in anything, their types included, have different bytes: `1`, `True`, `1.0` and `"1"` are four, a list is no tuple,
`Decimal("1.0")` is not `Decimal("1.00")`. What is not plain data, or could mean two things (NaN, a lone surrogate, a subclass of `str`),
has none. The form is made to be hashed and compared, not read back: each part is a tag, a length and the part itself.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import hashlib
import hmac
import pathlib
import uuid
import zoneinfo
from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final, NoReturn

import attrs

from retinue.security.errors import CanonicalError
from retinue.security.records import FlagValue, Member, Record

__all__ = ["MAX_CHARACTERS", "MAX_DEPTH", "MAX_PARTS", "canonical", "canonical_of_stored", "digest", "keyed_digest"]

MAX_DEPTH: Final = 64
"""Containers within containers; a value that contains itself is refused by this."""

MAX_PARTS: Final = 250_000
"""Values within a value, itself included."""

MAX_CHARACTERS: Final = 16 * 2**20
"""Characters and bytes within a value, counted where a single one has more than 256."""

_SMALL: Final = 256


def canonical(value: Any) -> bytes:
    """The canonical bytes of a value of plain data.

    Plain data are None, bool, int, float (finite), str, bytes, Decimal (finite), datetime with a zone, date, time without one, timedelta,
    UUID, pure and real paths, members of enums, messages and other attrs classes and dataclasses (by qualified name and fields), and
    lists, tuples, sets, frozensets and dicts with str keys of such. Types are exact: a subclass is refused, unless it is such a class itself.

    Args:
        value: The value; it must not change meanwhile.

    Raises:
        CanonicalError: Something in it is none of these, or it is too deep or too large (`MAX_DEPTH`, `MAX_PARTS`, `MAX_CHARACTERS`); the
            text says where, not what.
    """
    return _bytes_of(value, _Writer())


def canonical_of_stored(value: Any) -> bytes:
    """`canonical` for what `typed_data` has read back: a record, or a member of an enum, has the bytes of what it stands for.

    Only a store may ask so. Nothing that is about to be done is compared by this, since a record is not the message that it stands for.

    Raises:
        CanonicalError: See `canonical`.
    """
    writer = _Writer()
    writer.stored = True
    return _bytes_of(value, writer)


def _bytes_of(value: Any, writer: _Writer) -> bytes:
    try:
        _write(value, writer, 0)
        # Every part but the values of strings is ASCII by construction; this is where a lone surrogate is found.
        return "".join(writer.parts).encode("utf-8")
    except _OddValue as odd:
        where = "".join(reversed(odd.steps))
        raise CanonicalError(f"{'the value' + where if where else 'the value'} {odd.text}") from None
    except UnicodeEncodeError:
        raise CanonicalError(
            "the value has a text with half of a surrogate pair, which no encoding knows. Decode it properly first."
        ) from None
    except (RuntimeError, AttributeError) as error:  # a container changed while it was read; a field that was never set
        raise CanonicalError(f"the value changed while it was read, or is not complete ({type(error).__name__}).") from error


def digest(value: Any) -> str:
    """The SHA-256 of the value's canonical bytes, 64 hex digits. Do not publish it for values that can be guessed: see `keyed_digest`.

    Raises:
        CanonicalError: See `canonical`.
    """
    return hashlib.sha256(b"retinue/canonical/1\0" + canonical(value)).hexdigest()


def keyed_digest(key: bytes, value: Any) -> str:
    """HMAC-SHA-256 of the value's canonical bytes, 64 hex digits: without the key, the value cannot be found by trying.

    Raises:
        CanonicalError: See `canonical`.
    """
    return hmac.digest(key, b"retinue/keyed/1\0" + canonical(value), "sha256").hex()


class _OddValue(Exception):
    """Something has no canonical form; on its way up it collects where that is."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text
        self.steps: list[str] = []

    def within(self, step: str) -> _OddValue:
        self.steps.append(step)
        return self


class _Writer:
    """The parts so far, how many more were joined into one of them, how much room is left, and whether records stand for what was stored."""

    __slots__ = ("joined", "parts", "room", "stored")

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.joined = 0
        self.room = MAX_CHARACTERS
        self.stored = False

    def charge(self, size: int) -> None:
        # Small ones are not charged: their number is bounded. (A list that holds one long text a million times has to be found early.)
        self.room -= size
        if self.room < 0:
            raise _OddValue(f"is too large: more than {MAX_CHARACTERS:,} characters. Pass a reference to what is large, and its digest.")


def _write(value: Any, writer: _Writer, depth: int) -> None:
    kind = type(value)
    if kind is str:
        if len(value) > _SMALL:
            writer.charge(len(value))
        writer.parts.append(f"s{len(value)}:{value}")
    elif kind is int:
        if value.bit_length() > _SMALL:
            writer.charge(value.bit_length() // 4)
        writer.parts.append(f"i{value:x};")  # hexadecimal, because decimal digits take quadratic time
    elif value is None:
        writer.parts.append("n")
    elif kind is bool:
        writer.parts.append("t" if value else "f")
    else:
        write = _WRITERS.get(id(kind))
        if write is not None:
            write(value, writer, depth)
        else:
            _write_instance(value, writer, depth)


def _enter(writer: _Writer, depth: int, size: int) -> None:
    if depth >= MAX_DEPTH:
        raise _OddValue(f"is nested more than {MAX_DEPTH} deep, or contains itself. Flatten it.")
    if len(writer.parts) + writer.joined + size > MAX_PARTS:
        raise _OddValue(f"has more than {MAX_PARTS:,} parts. Pass a reference to what is large, and its digest.")


def _write_items(tag: str, value: Any, writer: _Writer, depth: int) -> None:
    _enter(writer, depth, len(value))
    writer.parts.append(f"{tag}{len(value)}:")
    number = -1
    try:
        for number, item in enumerate(value):  # noqa: B007 -- for the error
            _write(item, writer, depth + 1)
    except _OddValue as odd:
        raise odd.within(f"[{number}]") from None


def _write_list(value: Any, writer: _Writer, depth: int) -> None:
    _write_items("l", value, writer, depth)


def _write_tuple(value: Any, writer: _Writer, depth: int) -> None:
    _write_items("u", value, writer, depth)


def _write_dict(value: Any, writer: _Writer, depth: int) -> None:
    _enter(writer, depth, 2 * len(value))
    key: Any = None
    for key in value:
        if type(key) is not str:
            raise _OddValue(
                f"is a dict with a key of type {type(key).__name__}, and only str is one. Make the keys strings, or pass pairs."
            )
    parts = writer.parts
    parts.append(f"m{len(value)}:")
    try:
        for key in sorted(value):
            if len(key) > _SMALL:
                writer.charge(len(key))
            parts.append(f"{len(key)}:{key}")
            _write(value[key], writer, depth + 1)
    except _OddValue as odd:
        raise odd.within(f"[{key[:40]!r}]") from None


def _write_set(tag: str, value: Any, writer: _Writer, depth: int) -> None:
    _enter(writer, depth, len(value))
    texts: list[str] = []
    parts = writer.parts
    start = len(parts)
    for item in value:
        try:
            _write(item, writer, depth + 1)
        except _OddValue as odd:
            raise odd.within("{…}") from None
        texts.append("".join(parts[start:]))
        writer.joined += len(parts) - start
        del parts[start:]
    texts.sort()
    parts.append(f"{tag}{len(texts)}:")
    parts.extend(texts)


def _write_float(value: float, writer: _Writer, _: int) -> None:
    if value - value != 0.0:
        raise _OddValue("is NaN or infinite, which compares with nothing. Pass a finite number, or None.")
    writer.parts.append(f"d{value.hex()};")


def _write_bytes(value: bytes, writer: _Writer, _: int) -> None:
    if len(value) > _SMALL:
        writer.charge(2 * len(value))
    writer.parts.append(f"b{len(value)}:{value.decode('latin-1')}")


def _write_decimal(value: Decimal, writer: _Writer, _: int) -> None:
    if not value.is_finite():
        raise _OddValue("is a Decimal that is NaN or infinite. Pass a finite number, or None.")
    text = str(value).upper()  # one to one: sign, digits and exponent can be read off it. The context of the thread may ask for a small e
    if len(text) > _SMALL:
        writer.charge(len(text))
    writer.parts.append(f"D{text};")


def _write_datetime(value: dt.datetime, writer: _Writer, _: int) -> None:
    zone = type(value.tzinfo)
    if (
        zone is not dt.timezone and zone is not zoneinfo.ZoneInfo
    ):  # a class may claim to equal another, so none is looked for in a collection
        raise _OddValue(
            "is a datetime without a zone of the standard library, so its moment is not certain. Use datetime.now(timezone.utc)."
        )
    writer.parts.append(f"w{value.isoformat()};")


def _write_time(value: dt.time, writer: _Writer, _: int) -> None:
    if value.tzinfo is not None:
        raise _OddValue("is a time of day with a zone, which is no moment. Pass a datetime, or a time without a zone.")
    writer.parts.append(f"h{value.fold}{value.isoformat()};")


def _write_path(value: pathlib.PurePath, writer: _Writer, _: int) -> None:
    text = str(value)
    if len(text) > _SMALL:
        writer.charge(len(text))
    windows = "w" if isinstance(value, pathlib.PureWindowsPath) else "p"
    writer.parts.append(f"P{windows}{len(text)}:{text}")


_BY_TYPE: Final[dict[type, Callable[[Any, _Writer, int], None]]] = {
    list: _write_list,
    tuple: _write_tuple,
    dict: _write_dict,
    frozenset: lambda value, writer, depth: _write_set("z", value, writer, depth),
    set: lambda value, writer, depth: _write_set("Z", value, writer, depth),
    float: _write_float,
    bytes: _write_bytes,
    Decimal: _write_decimal,
    dt.datetime: _write_datetime,
    dt.date: lambda value, writer, _: writer.parts.append(f"y{value.isoformat()};"),
    dt.time: _write_time,
    dt.timedelta: lambda value, writer, _: writer.parts.append(f"T{value.days:x},{value.seconds:x},{value.microseconds:x};"),
    uuid.UUID: lambda value, writer, _: writer.parts.append(f"U{value.int:x};"),
    **dict.fromkeys(
        (pathlib.PurePosixPath, pathlib.PureWindowsPath, type(pathlib.Path())),
        _write_path,
    ),
}

# By identity: a class whose metaclass claims that it equals `list` is none. (These classes live as long as the process, so no other has their ids.)
_WRITERS: Final = {id(kind): write for kind, write in _BY_TYPE.items()}


@lru_cache(maxsize=1024)
def _plan_of(cls: Any) -> tuple[Any, str, Callable[[Any], Any] | None, tuple[str, ...]]:
    """How instances of a class are written: the class, what comes first, what reads the fields (None: a member of an enum), and their names.

    A memo of a pure function: it saves time and nothing else.
    """
    name = f"{cls.__module__}.{cls.__qualname__}"
    if issubclass(cls, enum.Enum):
        return cls, f"e{len(name)}:{name}", None, ()
    if "__attrs_attrs__" in cls.__dict__:
        fields = tuple(field.name for field in attrs.fields(cls))
    elif "__dataclass_fields__" in cls.__dict__:
        fields = tuple(field.name for field in dataclasses.fields(cls))
    else:
        _refuse_type(cls)
    getter: Callable[[Any], Any] = attrgetter(*fields) if fields else lambda _: ()
    # Names of fields are identifiers, so the list of them has one reading.
    return cls, _head_of_record(name, fields), getter, fields


def _head_of_record(name: str, fields: tuple[str, ...]) -> str:
    return f"c{len(name)}:{name}({','.join(fields)})"


def _refuse_type(cls: type) -> NoReturn:
    plain = next((base.__name__ for base in cls.__mro__[1:] if base in _BY_TYPE or base in {str, int}), None)
    fix = f"Pass a plain {plain}." if plain else "Pass plain data: str, numbers, lists, dicts, messages."
    raise _OddValue(f"is of type {cls.__name__}, which has no canonical form. {fix}")


def _write_instance(value: Any, writer: _Writer, depth: int) -> None:
    cls: Any = type(value)
    if writer.stored and (cls is Record or cls is Member or cls is FlagValue):
        _write_stored(value, writer, depth)
        return
    known, first, getter, fields = _plan_of(cls)
    if known is not cls:  # a class that claims to equal another
        _, first, getter, fields = _plan_of.__wrapped__(cls)
    if getter is None:
        _write_member(first, value, writer)
        return
    _enter(writer, depth, len(fields))
    writer.parts.append(first)
    found = getter(value)
    number = 0
    try:
        if len(fields) == 1:
            _write(found, writer, depth + 1)
        else:
            for number, item in enumerate(found):  # noqa: B007 -- for the error
                _write(item, writer, depth + 1)
    except _OddValue as odd:
        raise odd.within(f".{fields[number]}") from None


def _write_stored(value: Record | Member | FlagValue, writer: _Writer, depth: int) -> None:
    """What stands for an instance, exactly as `_write_instance` would write that."""
    name = value.type_name
    if type(value) is Member:
        writer.parts.append(_named_member(f"e{len(name)}:{name}", value.name))
    elif type(value) is FlagValue:
        writer.parts.append(_flag(f"e{len(name)}:{name}", value.number))
    else:
        assert type(value) is Record
        names = tuple(field for field, _ in value.fields)
        _enter(writer, depth, len(names))
        writer.parts.append(_head_of_record(name, names))
        for field, item in value.fields:
            try:
                _write(item, writer, depth + 1)
            except _OddValue as odd:
                raise odd.within(f".{field}") from None


def _flag(first: str, number: int) -> str:
    return f"{first}|{number:x};"


def _named_member(first: str, name: str) -> str:
    return f"{first}.{len(name)}:{name}"


def _write_member(first: str, value: enum.Enum, writer: _Writer) -> None:
    if isinstance(value, enum.Flag):
        number = value._value_
        if type(number) is not int:
            raise _OddValue("is a flag whose value is no int.")
        writer.parts.append(_flag(first, number))
        return
    name = value._name_
    if type(name) is not str or type(value)._member_map_.get(name) is not value:
        raise _OddValue("is no member of its own enum.")
    writer.parts.append(_named_member(first, name))
