"""Canonical bytes: different values have different ones, equal values the same, and what is no plain data has none."""

from __future__ import annotations

import collections
import copy
import dataclasses
import datetime as dt
import decimal
import enum
import hashlib
import itertools
import math
import pathlib
import random
import time
import types
import uuid
import zoneinfo
from decimal import Decimal
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import retinue as rt
from laws import examples
from plain_values import PLAIN, TEXTS, same
from retinue.security.canonical import MAX_CHARACTERS, MAX_DEPTH, MAX_PARTS, canonical, digest, keyed_digest
from retinue.security.errors import CanonicalError


class Colour(enum.Enum):
    RED = 1
    ROSE = "RED"


class Shade(enum.Enum):
    RED = 1


class Level(enum.IntEnum):
    ONE = 1


class Access(enum.Flag):
    READ = 1
    WRITE = 2


@rt.message
class Pay(rt.Message):
    to: str
    amount: Any


@rt.message
class Refund(rt.Message):
    to: str
    amount: Any


@rt.message
class Nothing(rt.Message):
    pass


@attrs.define
class Box:
    content: Any


@dataclasses.dataclass
class Crate:
    content: Any


NOON = dt.datetime(2026, 11, 30, 12, tzinfo=dt.UTC)

DIFFERENT: list[Any] = [
    None,
    True,
    False,
    0,
    1,
    -1,
    2**70,
    0.0,
    -0.0,
    1.0,
    0.1,
    "",
    "1",
    "n",
    "t",
    "True",
    "s1:a",
    "é",
    "e\u0301",  # the same to the eye
    "\u00a0",
    b"",
    b"1",
    "b1:1",
    [],
    (),
    {},
    frozenset(),
    set(),
    [1],
    (1,),
    [True],
    ["1"],
    [1.0],
    [[1], 2],
    [[1, 2]],
    [1, [2]],
    [1, 2],
    [2, 1],
    {"a": 1},
    {"a": True},
    {"a": "1"},
    {"a": 1, "b": 2},
    {"a": {"b": 2}},
    {"a": 1, "": 2},
    [["a", 1]],
    frozenset({1}),
    {1},
    frozenset({"1"}),
    frozenset({(1, 2)}),
    Decimal(1),
    Decimal("1.0"),
    Decimal("1.00"),
    Decimal("-0"),
    Decimal(0),
    Decimal("1E+3"),
    Decimal(1000),
    NOON,
    NOON.replace(microsecond=1),
    NOON.astimezone(dt.timezone(dt.timedelta(hours=1))),
    NOON.isoformat(),
    NOON.date(),
    NOON.time(),
    NOON.time().replace(fold=1),
    dt.timedelta(seconds=1),
    dt.timedelta(days=1),
    dt.timedelta(days=-1),
    uuid.UUID(int=1),
    str(uuid.UUID(int=1)),
    pathlib.PurePosixPath("a"),
    pathlib.PureWindowsPath("a"),
    Colour.RED,
    Colour.ROSE,
    Shade.RED,
    Level.ONE,
    Access.READ,
    Access.READ | Access.WRITE,
    Access(0),
    Pay("ACME", 1),
    Pay("ACME", True),
    Pay("ACME", 1.0),
    Pay("ACME", "1"),
    Pay("ACME", None),
    Refund("ACME", 1),
    {"to": "ACME", "amount": 1},
    ("ACME", 1),
    Nothing(),
    Box(1),
    Box(Box(1)),
    Crate(1),
]


def test_values_that_differ_in_anything_have_different_bytes() -> None:
    found: dict[bytes, Any] = {}
    for value in DIFFERENT:
        raw = canonical(value)
        assert raw not in found, f"{value!r} and {found.get(raw)!r}"
        found[raw] = value
    assert len({digest(value) for value in DIFFERENT}) == len(DIFFERENT)


@given(PLAIN, PLAIN)
@settings(max_examples=examples(500))
def test_bytes_are_equal_exactly_if_the_values_are(one: Any, other: Any) -> None:
    assert (canonical(one) == canonical(other)) == same(one, other)


@given(PLAIN)
def test_a_copy_has_the_same_bytes(value: Any) -> None:
    assert canonical(copy.deepcopy(value)) == canonical(value)


@given(st.lists(TEXTS, max_size=4), st.lists(TEXTS, max_size=4))
def test_texts_cannot_be_cut_elsewhere(one: list[str], other: list[str]) -> None:
    assert (canonical(one) == canonical(other)) == (one == other)


@given(st.dictionaries(TEXTS, st.integers(), max_size=6), st.randoms())
def test_the_order_of_keys_does_not_count(value: dict[str, int], chance: random.Random) -> None:
    items = list(value.items())
    chance.shuffle(items)
    assert canonical(dict(items)) == canonical(value)


def test_the_order_of_a_set_does_not_count() -> None:
    names = [f"name {number}" for number in range(100)]
    assert canonical(frozenset(names)) == canonical(frozenset(reversed(names)))


def test_the_form_does_not_change_from_one_version_to_the_next() -> None:
    value = {"to": "ACME", "amount": Decimal("12.50"), "lines": [1, True, 1.0, None, b"\xff"], "tags": frozenset({"b", "a"})}
    assert canonical(value) == (b"m4:6:amountD12.50;5:linesl5:i1;td0x1.0000000000000p+0;nb1:\xc3\xbf4:tagsz2:s1:as1:b2:tos4:ACME")
    assert digest(None) == hashlib.sha256(b"retinue/canonical/1\0n").hexdigest()
    assert canonical(Pay("ACME", -255)).startswith(f"c{len(__name__) + 4}:{__name__}.Pay(to,amount)s4:ACMEi-ff;".encode())


@pytest.mark.parametrize("value", [Decimal("1E+3"), Decimal("-2.5e-30"), Decimal("12.50")], ids=str)
def test_the_form_of_a_decimal_does_not_depend_on_what_the_thread_wants_of_decimals(value: Decimal) -> None:
    form = canonical(value)
    with decimal.localcontext(decimal.Context(prec=1, capitals=0)):
        assert canonical(value) == form


class Name(str):
    __slots__ = ()


class Many(list):  # type: ignore[type-arg]
    pass


class Zone(dt.tzinfo):
    def utcoffset(self, _: object) -> dt.timedelta:
        return dt.timedelta(0)


class Later(Pay):
    """Not decorated: what it adds would be lost."""


ODD: list[Any] = [
    math.nan,
    math.inf,
    -math.inf,
    Decimal("NaN"),
    Decimal("sNaN"),
    Decimal("-Infinity"),
    "\ud800",
    "a\udfffb",
    {"\ud800": 1},
    Name("a"),
    Many([1]),
    collections.OrderedDict(a=1),
    collections.defaultdict(int, a=1),
    types.MappingProxyType({"a": 1}),
    {1: "x"},
    {None: "x"},
    {Name("a"): 1},
    {b"a": 1},
    collections.namedtuple("P", "x")(1),  # noqa: PYI024
    bytearray(b"a"),
    memoryview(b"a"),
    1j,
    object(),
    object,
    Pay,
    len,
    lambda: None,
    iter([1]),
    range(3),
    NOON.replace(tzinfo=None),
    NOON.replace(tzinfo=Zone()),
    NOON.timetz(),
    Later("a", 1),
    decimal.Context(),
]


@pytest.mark.parametrize("value", ODD, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize(
    "wrap", [lambda value: value, lambda value: [value], lambda value: {"key": (1, value)}, lambda value: Pay("x", value)]
)
def test_what_is_no_plain_data_is_refused_wherever_it_stands(value: Any, wrap: Any) -> None:
    with pytest.raises(CanonicalError):
        canonical(wrap(value))


def test_the_error_says_where_and_not_what() -> None:
    with pytest.raises(CanonicalError) as caught:
        canonical(Pay("secret-to", {"lines": [1, {"price": math.nan, "note": "secret-note"}]}))
    assert str(caught.value).startswith("the value.amount['lines'][1]['price'] is NaN or infinite")
    assert "secret" not in str(caught.value)
    with pytest.raises(CanonicalError, match="is of type Name, .* Pass a plain str"):
        canonical([Name("secret")])


def test_a_zone_of_the_standard_library_is_fine() -> None:
    there = zoneinfo.ZoneInfo("UTC")
    assert canonical(NOON.astimezone(there)) == canonical(NOON)


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def test_depth_is_limited() -> None:
    assert canonical(nested(MAX_DEPTH))
    with pytest.raises(CanonicalError, match="nested more than 64 deep"):
        canonical(nested(MAX_DEPTH + 1))


def test_what_contains_itself_is_refused() -> None:
    knot: list[Any] = []
    knot.append({"again": (knot,)})
    with pytest.raises(CanonicalError, match="contains itself"):
        canonical(knot)
    box = Box(None)
    box.content = box
    with pytest.raises(CanonicalError, match="contains itself"):
        canonical(box)


def doubled(make: Any, rounds: int = 50) -> Any:
    """A small value that takes 2**50 parts to write out."""
    value = make(1, 2)
    for number in range(rounds):
        value = make(value, (value, number))
    return value


@pytest.mark.parametrize("make", [lambda a, b: [a, b], lambda a, b: (a, b), lambda a, b: {"a": a, "b": b}, lambda a, b: frozenset({a, b})])
def test_a_value_that_doubles_at_each_level_is_refused_at_once(make: Any) -> None:
    began = time.thread_time()
    with pytest.raises(CanonicalError):
        canonical(doubled(make))
    assert time.thread_time() - began < 10


@pytest.mark.parametrize(
    "value",
    [
        ["x" * 2**20] * 17,
        [b"x" * 2**20] * 9,
        ["x" * (MAX_CHARACTERS + 1)],
        1 << (MAX_CHARACTERS * 4 + 8),
        [None] * (MAX_PARTS + 1),
        {"x" * 2**20 + str(number): None for number in range(17)},
        pathlib.PurePosixPath("x" * (MAX_CHARACTERS + 1)),
    ],
    ids=["texts", "bytes", "text", "int", "parts", "keys", "path"],
)
def test_size_is_limited(value: Any) -> None:
    with pytest.raises(CanonicalError, match="too large|more than"):
        canonical(value)


def test_a_large_number_is_written_though_its_decimal_digits_are_too_many() -> None:
    assert canonical(10**10_000) != canonical(10**10_000 + 1)


def test_what_is_not_complete_is_refused() -> None:
    box = Box.__new__(Box)
    with pytest.raises(CanonicalError, match="not complete"):
        canonical(box)


def test_a_member_that_is_none_of_its_enum_is_refused() -> None:
    forged = object.__new__(Colour)
    forged._name_ = "RED"
    forged._value_ = 1
    with pytest.raises(CanonicalError, match="no member"):
        canonical(forged)


def test_a_keyed_digest_depends_on_the_key_and_is_no_plain_digest() -> None:
    keys = [b"k" * 32, b"l" * 32]
    found = {digest("hunter2"), *(keyed_digest(key, "hunter2") for key in keys)}
    assert len(found) == 3
    assert keyed_digest(keys[0], "hunter2") == keyed_digest(keys[0], "hunter2")


def test_classes_of_the_same_fields_differ_also_within_a_container() -> None:
    for one, other in itertools.combinations([Pay("a", 1), Refund("a", 1), Box(1), Crate(1)], 2):
        assert canonical([one]) != canonical([other])


def test_a_class_that_claims_to_be_another_is_not_taken_for_it() -> None:
    class Claims(type):
        """Its classes equal whatever they are compared with, and are found where that is found."""

        claimed: type = int

        def __eq__(cls, other: object) -> bool:
            return True

        def __hash__(cls) -> int:
            return hash(cls.claimed)

    for claimed in (list, dict, float, bytes, frozenset, Decimal, dt.datetime, uuid.UUID):
        impostor = Claims("Impostor", (), {"claimed": claimed, "isoformat": lambda self: "2026-01-01", "__iter__": lambda self: iter(())})
        with pytest.raises(rt.CanonicalError):
            canonical(impostor())
