from __future__ import annotations

import dataclasses
import datetime as dt
import json
import math
import pathlib
import sys
import uuid
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from decimal import Decimal
from typing import Annotated, Any, Literal

import attrs
import pytest

from retinue.mailbox.messages import Message, message
from steady_ids import steady
from wire_examples import (
    Batch,
    Cents,
    Colour,
    Item,
    Level,
    Mixed,
    Node,
    Pair,
    Pay,
    Plain,
    Point,
    Positive,
    Private,
    Rights,
    Wrapped,
    examples,
    problem_of,
)


@pytest.fixture
def registry():
    return examples()


# Values, both ways

UTC = dt.UTC

CROSSING = [
    ("é\0\U0001f600", str), (5, int), (-(10**999), int), (2.5, float), (-0.0, float), (1e308, float), (3, float), (True, bool), (None, None),
    (b"\0\xff", bytes), (b"", bytes), (Decimal("1.50"), Decimal), (Decimal("-1E+10"), Decimal), (Decimal("0E-7"), Decimal),
    (dt.datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC), dt.datetime),
    (dt.datetime(2026, 1, 2, tzinfo=dt.timezone(dt.timedelta(hours=-5, seconds=1))), dt.datetime),
    (dt.date(2026, 1, 2), dt.date), (dt.time(1, 2, 3, 4), dt.time), (dt.timedelta(days=-1, microseconds=1), dt.timedelta),
    (uuid.UUID(int=5), uuid.UUID), (pathlib.Path("/a/ü"), pathlib.Path), (pathlib.PurePosixPath("a"), pathlib.PurePosixPath),
    (pathlib.PureWindowsPath("c:\\x"), pathlib.PureWindowsPath),
    (Colour.RED, Colour), (Level.HIGH, Level), (Mixed.TWO, Mixed), (Mixed.NONE, Mixed), (Rights.READ | Rights.WRITE, Rights),
    ("a", Literal["a", 1]), (1, Literal["a", 1]), (Colour.RED, Literal[Colour.RED, "x"]), (b"x", Literal[b"x"]),
    ([1, 2], list[int]), ([], list[int]), ((1, "a"), tuple[int, str]), ((1, 2, 3), tuple[int, ...]), ((), tuple[()]), ((1,), Sequence[int]),
    ({1, 2}, set[int]), (frozenset("ab"), frozenset[str]), (frozenset({1}), AbstractSet[int]), ({Point(1), Point(2)}, set[Point]),
    ({"a": 1}, dict[str, int]), ({1: "a", 2: "b"}, dict[int, str]), ({Colour.RED: 1}, dict[Colour, int]), ({(1, 2): 3}, dict[tuple[int, int], int]),
    ({uuid.UUID(int=1): b"x"}, dict[uuid.UUID, bytes]), ({"a": {"b": [1]}}, Mapping[str, Any]), ({}, dict), ([1, "a"], list), ((1,), tuple),
    (Point(1, 2), Point), (Node(1, Node(2), (Node(3), Node(4))), Node), (Pair(1, 2), Pair[int]), (Pair("a", [1]), Pair),
    (Pair(Point(1), None), Pair[Point | None]), (Item("n", ["t"], 3), Item), (Private(5, only=2), Private), (Pay(5), Pay),
    (5, Cents), (5, Annotated[int, "cents"]), (5, Annotated[int, []]), ({"a": [1, 2.5, None, True, {"b": []}]}, Any), ("x", object),
    (None, int | None), (5, int | None), (Point(1), Point | None), ("a", int | str), (5, int | str), (5.0, int | float), (5, int | float),
    (5, float | None), (b"a", bytes | None), (b"a", bytes | str), ("a", bytes | str), (Point(1), Point | Item), (Item("a"), Point | Item | None),
    ([1], list[int] | int), ([1], list[int] | Point), (Point(1), list[int] | dict[str, int] | Point), ("auto", Literal["auto"] | int),
    ("auto", Literal["auto"] | str), (1, Literal[1, 2] | float), (dt.timedelta(1), dt.timedelta | int), (Colour.RED, Colour | str | None),  # noqa: PYI051
    ("red", Colour | str), (uuid.UUID(int=1), uuid.UUID | Decimal), (Decimal(1), uuid.UUID | Decimal),
    ("anything", Any | None), (Point(1), "Point"), (Pay(1), Message), ([Pay(1), Pay(2)], list[Message]), (Pay(3), Message | None),
]  # fmt: skip


@pytest.mark.parametrize(("value", "kind"), CROSSING, ids=lambda given: steady(given)[:40])
def test_values_come_back_as_they_went(registry, value, kind):
    if kind == "Point":
        kind = Point
    data = registry.encode_value(value, kind)
    back = registry.decode_value(data, kind)
    assert back == value
    if kind not in (float, float | None):
        assert type(back) is type(value)
    json.loads(data)


def test_a_float_annotation_gives_a_float(registry):
    assert type(registry.decode_value(registry.encode_value(3, float), float)) is float
    assert math.copysign(1, registry.decode_value(registry.encode_value(-0.0, float), float)) == -1


def test_an_int_and_a_float_stay_apart_in_a_union(registry):
    assert type(registry.decode_value(b"5", int | float)) is int
    assert type(registry.decode_value(b"5.0", float | int)) is float


def test_moments_keep_their_offset(registry):
    value = dt.datetime(2026, 1, 2, tzinfo=dt.timezone(dt.timedelta(hours=2)))
    assert registry.decode_value(registry.encode_value(value, dt.datetime), dt.datetime).utcoffset() == dt.timedelta(hours=2)


def test_one_set_has_one_text(registry):
    texts = {registry.encode_value(set(order), set[str]) for order in ("abcdef", "fedcba", "cafebd")}
    assert texts == {b'["a","b","c","d","e","f"]'}


def test_a_dict_keeps_its_order(registry):
    for value, kind in (({"b": 1, "a": 2}, dict[str, int]), ({2: "x", 1: "y"}, dict[int, str])):
        assert list(registry.decode_value(registry.encode_value(value, kind), kind)) == list(value)


def test_unions_are_bare_where_json_tells_the_member_and_named_where_not(registry):
    assert registry.encode_value(Point(1), Point | None) == b'{"x":1,"y":0}'
    assert registry.encode_value(Point(1), Point | Item) == b'{"type":"Point","body":{"x":1,"y":0}}'
    assert registry.encode_value(b"a", bytes | None) == b'"YQ=="'
    assert registry.encode_value(b"a", bytes | str) == b'{"type":"bytes","body":"YQ=="}'
    assert registry.encode_value("auto", Literal["auto"] | str) == b'"auto"'  # noqa: PYI051


def test_a_subclass_of_str_or_int_crosses_as_what_it_is_annotated(registry):
    class Word(str):
        __slots__ = ()

    back = registry.decode_value(registry.encode_value(Word("a"), str), str)
    assert (back, type(back)) == ("a", str)
    assert registry.encode_value(Level.HIGH, int) == b"2"


def test_messages_of_any_registered_class_cross_in_a_field_of_messages(registry):
    batch = Batch([Pay(1), Batch([]), Positive(2)])
    assert registry.decode(registry.encode(batch)) == batch


def test_generic_messages_carry_json_values_where_the_type_is_open(registry):
    assert registry.decode(registry.encode(Wrapped({"a": [1]}))) == Wrapped({"a": [1]})

    @message
    class Bound(Wrapped[Point]):
        pass

    registry.register(Bound)
    assert registry.decode(registry.encode(Bound(Point(1)))) == Bound(Point(1))


def test_messages_defined_in_functions_cross_with_types_from_there(registry):
    @attrs.frozen
    class Local:
        x: int

    @message
    class Order(Message):
        items: list[Local]
        parent: Order | None = None

    registry.register(Order)
    order = Order([Local(1)], Order([]))
    assert registry.decode(registry.encode(order)) == order


def test_fields_made_by_the_class_itself_do_not_cross(registry):
    assert json.loads(registry.encode_value(Private(5), Private)) == {"_hidden": 5, "only": 1}


def test_fields_whose_names_mean_something_to_cattrs_cross(registry):
    @dataclasses.dataclass
    class Odd:
        cl: int
        converter: int
        o: int
        self_: int
        res: int = 1

    assert registry.decode_value(registry.encode_value(Odd(1, 2, 3, 4), Odd), Odd) == Odd(1, 2, 3, 4)


# What does not cross

NOT_CROSSING = [
    ("5", int), (5, str), (True, int), (1, bool), (True, float), (5.0, int), (None, str), (b"a", str), ("a", bytes), ([1], tuple[int]),
    ((1,), list[int]), ([1], set[int]), ({1}, frozenset[int]), ([1], dict[int, int]), ((1, 2), tuple[int]), ("ab", list[str]), ("ab", Sequence[str]),
    (math.nan, float), (math.inf, float), (-math.inf, float), (2**53 + 1, float), (10**400, float), (math.nan, Any), ([math.inf], Any),
    (Decimal("NaN"), Decimal), (Decimal("Infinity"), Decimal), (5, Decimal), (dt.datetime(2026, 1, 1), dt.datetime), (dt.date(2026, 1, 1), dt.datetime),  # noqa: DTZ001
    (dt.datetime(2026, 1, 1, tzinfo=UTC), dt.date), ("red", Colour), (Colour.RED, Level), ("b", Literal["a"]), (True, Literal[1]), (1.0, Literal[1]),
    ([], Literal["a"]), (Point("1"), Point), (Point(1), Item), ({"x": 1}, Point), (5, Point | None), ("a", int | None), (object(), Any), ((1,), Any),
    ({1: 2}, Any), ({1}, Any), ("\ud800", str), ({"\ud800": 1}, Any), (["\ud800"], list[str]), (pathlib.PurePosixPath("a\udc80"), pathlib.PurePath),
    (object(), Message), (True, float | None), (Colour.RED, int | str),
]  # fmt: skip


@pytest.mark.parametrize(("value", "kind"), NOT_CROSSING, ids=lambda given: steady(given)[:40])
def test_a_value_that_does_not_fit_its_annotation_is_not_encoded(registry, value, kind):
    assert problem_of(registry.encode_value, value, kind)[0] == "not_encodable"


@pytest.mark.parametrize(
    ("value", "kind"),
    [(10**1000, int), (10**1000, Any), (-(10**1000), Any), (Decimal("1E+9999"), Decimal), (Decimal("1" * 999), Decimal)],
    ids=lambda given: str(given)[:20],
)
def test_numbers_of_too_many_digits_do_not_cross(registry, value, kind):
    assert problem_of(registry.encode_value, value, kind)[0] == "too_large"


@pytest.mark.parametrize(
    ("text", "kind"),
    [('"1"', int), ("1.0", int), ("true", int), ("1", bool), ("1", str), ('"1"', float), ("true", float), ("1e999", float), ("null", int), ("0", None),
     ('"a"', bytes), ('"YR=="', bytes), ('"YQ==\\n"', bytes), ('"YQ=="', list[int]), ('"1_0"', Decimal), ('" 1"', Decimal), ('"NaN"', Decimal),
     ('"1E9999999999"', Decimal), ("1", Decimal), ('"2026-01-01T00:00:00"', dt.datetime), ('"yesterday"', dt.datetime), ("0", dt.datetime),
     ('"{00000000-0000-0000-0000-000000000005}"', uuid.UUID), ('"5"', uuid.UUID), ('"RED"', Colour), ('"green"', Colour), ("1", Colour),
     ("3", Level), ("true", Level), ("1.0", Level), ("[]", Colour), ("8", Rights), ('"ONE"', Rights), ("1", Mixed), ('"THREE"', Mixed), ('"b"', Literal["a"]),
     ("true", Literal[1]), ("1.0", Literal[1]), ("[]", Literal["a"]), ('"ab"', list[str]), ('{"0":1}', list[int]), ("[1]", tuple[int, int]),
     ("[1,1]", set[int]), ("[[]]", set), ("[[1,2],[1,3]]", dict[int, int]), ("[[1]]", dict[int, int]), ("[1]", dict[int, int]),
     ("[]", dict[str, int]), ("{}", dict[int, int]), ("[]", Point), ("{}", Point), ('{"x":1,"z":2}', Point), ('{"x":1,"y":"2"}', Point),
     ('{"x":1,"y":2}', Point | Item), ('{"type":"Point"}', Point | Item), ('{"type":"Node","body":{"value":1}}', Point | Item),
     ('{"type":["Point"],"body":{"x":1}}', Point | Item), ('{"type":"Point","body":{"x":1},"z":1}', Point | Item), ("1.5", int | str),
     ('{"_hidden":1,"made":2}', Private), ('{"hidden":1}', Private), ("1e400", dt.timedelta), ("9" * 30, dt.timedelta), ("9" * 400, float)],
    ids=lambda given: str(given)[:40],
)  # fmt: skip
def test_json_that_does_not_fit_its_annotation_is_refused(registry, text, kind):
    problem, _ = problem_of(registry.decode_value, text.encode(), kind)
    assert problem in ("invalid_fields", "malformed")


@pytest.mark.parametrize(
    "kind", [Plain, list[Plain], dict[str, Plain], Plain | None, complex, type, Exception, 5, "nonsense", set[Any] | list[Any] | Plain]
)
def test_a_type_without_a_form_on_the_wire_is_named_with_the_fix(registry, kind):
    problem, text = problem_of(registry.encode_value, [Plain()], kind)
    assert problem == "not_encodable"
    assert "no form on the wire" in text
    assert "add_type" in text
    assert problem_of(registry.decode_value, b"[]", kind)[0] == "not_encodable"


@pytest.mark.parametrize("kind", [list[int] | list[str], Pair[int] | Pair[str] | int, dict[str, int] | dict[int, str]])
def test_unions_that_cannot_be_told_apart_are_refused(registry, kind):
    assert "cannot be told apart" in problem_of(registry.encode_value, [1], kind)[1]


def test_a_literal_that_is_spelled_like_another_is_refused(registry):
    assert "same on the wire" in problem_of(registry.encode_value, "red", Literal["red", Colour.RED])[1]


def test_a_subclass_of_the_annotated_class_is_refused_rather_than_cut(registry):
    @attrs.frozen
    class Deep(Point):
        z: int = 0

    assert problem_of(registry.encode_value, Deep(1), Point)[0] == "not_encodable"


def test_an_annotation_that_cannot_be_found_names_its_field(registry):
    @message
    class Lost(Message):
        field: Nowhere  # noqa: F821

    registry.register(Lost)
    problem, text = problem_of(registry.encode, Lost(1))
    assert (problem, "Lost.field: " in text) == ("not_encodable", True)


def test_a_type_that_could_not_be_found_is_looked_for_again(registry):
    @attrs.frozen
    class Early:
        later: AppearsLater  # noqa: F821

    assert problem_of(registry.encode_value, Early(1), Early)[0] == "not_encodable"
    module = sys.modules[__name__]
    module.AppearsLater = int
    try:
        assert registry.encode_value(Early(1), Early) == b'{"later":1}'
    finally:
        del module.AppearsLater
