from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import inspect
import json
import math
import pathlib
import sys
import uuid
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from decimal import Decimal
from typing import Annotated, Any, Generic, Literal, NewType, TypeVar

import attrs
import pytest

from retinue.mailbox.errors import WireError
from retinue.mailbox.messages import Message, Request, message
from retinue.mailbox.wire import Limits, WireRegistry
from retinue.security.errors import DefinitionError

T = TypeVar("T")
Cents = NewType("Cents", int)


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Mixed(enum.Enum):
    ONE = 1
    TWO = "two"
    NONE = None


class Rights(enum.Flag):
    READ = 1
    WRITE = 2


@attrs.frozen
class Point:
    x: int
    y: int = 0


@attrs.frozen
class Node:
    value: int
    next: Node | None = None
    children: tuple[Node, ...] = ()


@attrs.frozen
class Pair(Generic[T]):
    first: T
    second: T


@dataclasses.dataclass
class Item:
    name: str
    tags: list[str] = dataclasses.field(default_factory=list)
    _private: int = 0


@attrs.frozen
class Private:
    _hidden: int
    made: int = attrs.field(init=False, default=7)
    only: int = attrs.field(kw_only=True, default=1)


@message(name="shop/Pay@1", timeout=5)
class Pay(Request[int]):
    amount: int
    note: str = ""


@message
class Batch(Message):
    messages: list[Message]


@message
class Wrapped(Request[T], Generic[T]):
    value: T


@message
class Positive(Message):
    x: int = attrs.field(validator=attrs.validators.gt(0))


@message
class Anything(Message):
    value: Any


@pytest.fixture
def registry():
    registry = WireRegistry()
    for cls in (Pay, Batch, Wrapped, Positive, Anything):
        registry.register(cls)
    return registry


def problem_of(call: Any, *arguments: Any) -> tuple[str, str]:
    with pytest.raises(WireError) as caught:
        call(*arguments)
    return caught.value.problem, str(caught.value)


def body(**fields: Any) -> bytes:
    return json.dumps({"type": "shop/Pay@1", "body": fields}).encode()


# The form


def test_a_message_is_its_name_and_its_fields_as_json(registry):
    assert registry.encode(Pay(5, "é")) == '{"type":"shop/Pay@1","body":{"amount":5,"note":"é"}}'.encode()
    assert registry.decode(b' {"body": {"note": "\\u00e9", "amount": 5}, "type": "shop/Pay@1"} ') == Pay(5, "é")


def test_a_field_with_a_default_may_be_left_out(registry):
    assert registry.decode(body(amount=5)) == Pay(5)


def test_decoded_bytes_may_be_any_bytes_like_object(registry):
    data = registry.encode(Pay(5))
    assert registry.decode(bytearray(data)) == registry.decode(memoryview(data)) == Pay(5)
    assert problem_of(registry.decode, data.decode())[0] == "malformed"


# Names


def test_the_default_name_is_made_of_module_and_qualified_name(registry):
    assert registry.name_of(Positive) == f"{__name__}:Positive"
    assert registry.register(Positive) == f"{__name__}:Positive"
    assert registry.class_of("shop/Pay@1") is Pay
    assert Pay in registry
    assert set(registry) == {Pay, Batch, Wrapped, Positive, Anything}
    assert len(registry) == 5


def test_a_class_that_was_defined_again_takes_the_place_of_the_older_one(registry):
    def define():
        @message
        class Again(Message):
            x: int

        return Again

    old, new = define(), define()
    registry.register(old)
    data = registry.encode(old(1))
    registry.register(new)
    assert registry.decode(data) == new(1)
    problem, text = problem_of(registry.encode, old(1))
    assert problem == "unknown_type"
    assert "defined again" in text
    assert old not in registry


def test_the_same_class_defined_again_may_keep_its_explicit_name(registry):
    def define():
        @message(name="again/Again@1")
        class Again(Message):
            pass

        return Again

    registry.register(define())
    new = define()
    registry.register(new)
    assert registry.class_of("again/Again@1") is new


def test_two_classes_cannot_have_one_explicit_name(registry):
    @message(name="shop/Pay@1")
    class Thief(Message):
        pass

    with pytest.raises(DefinitionError, match=r"Thief and .*Pay both have the wire name 'shop/Pay@1'"):
        registry.register(Thief)
    assert registry.class_of("shop/Pay@1") is Pay
    assert Thief not in registry


def test_an_undecorated_class_cannot_be_registered(registry):
    class Forgotten(Pay):
        pass

    with pytest.raises(DefinitionError, match="decorate it"):
        registry.register(Forgotten)
    problem, text = problem_of(registry.encode, Forgotten(1))
    assert (problem, "decorate it" in text) == ("unknown_type", True)


def test_a_message_that_is_not_registered_says_what_to_do():
    registry = WireRegistry()
    problem, text = problem_of(registry.encode, Pay(1))
    assert problem == "unknown_type"
    assert "Pay is not registered: spawn an actor that handles it" in text
    problem, text = problem_of(registry.decode, body(amount=1))
    assert (problem, "'shop/Pay@1'" in text) == ("unknown_type", True)
    assert problem_of(registry.class_of, "x")[0] == "unknown_type"


@pytest.mark.parametrize("value", [5, None, "Pay", Point(1)])
def test_what_is_no_message_is_not_encoded(registry, value):
    assert problem_of(registry.encode, value)[0] == "not_encodable"


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


@pytest.mark.parametrize(("value", "kind"), CROSSING, ids=lambda given: str(given)[:40])
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


@pytest.mark.parametrize(("value", "kind"), NOT_CROSSING, ids=lambda given: ascii(given)[:40])
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


class Plain:
    pass


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


# Where and why


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"amount": "5"}, "Pay.amount: expected an integer, got a string"),
        ({}, "Pay.amount: is missing"),
        ({"amount": 1, "z": 2, "a": 3}, "Pay: unknown fields 'a', 'z'"),
    ],
)
def test_a_refusal_names_the_field_and_what_was_expected(registry, fields, text):
    assert problem_of(registry.decode, body(**fields)) == ("invalid_fields", text)


def test_a_refusal_names_the_path_to_a_nested_field(registry):
    text = b'{"value":1,"children":[{"value":1},{"value":1,"next":{"value":"x"}}]}'
    assert problem_of(registry.decode_value, text, Node)[1] == "value.children[1].next.value: expected an integer, got a string"
    assert problem_of(registry.encode_value, Node(1, children=(Node(2, Node("x")),)), Node)[1] == (
        "value.children[0].next.value: is annotated int but holds str"
    )
    assert problem_of(registry.decode_value, b'{"a":{"x":[]}}', dict[str, Point])[1].startswith("value.a.x: ")
    assert problem_of(registry.encode_value, {"a": [1, object()]}, Any)[1].startswith("value.a[1]: ")


def test_the_classs_own_validators_are_heard(registry):
    problem, text = problem_of(registry.decode, json.dumps({"type": f"{__name__}:Positive", "body": {"x": -1}}).encode())
    assert problem == "invalid_fields"
    assert "Positive: ValueError: 'x' must be > 0" in text


def test_refusals_do_not_quote_values(registry):
    for kind in (int, float, Decimal, dt.datetime, uuid.UUID, Colour, Literal["a"], bytes, Point, list[int], int | None):
        assert "hunter2" not in problem_of(registry.decode_value, b'"hunter2!"', kind)[1]
        assert "hunter2" not in problem_of(registry.encode_value, {"hunter2"}, kind)[1]


def test_names_from_the_bytes_are_cut_short(registry):
    name = "x" * 10_000
    assert len(problem_of(registry.decode, json.dumps({"type": name, "body": {}}).encode())[1]) < 500
    assert len(problem_of(registry.decode, json.dumps({"type": "shop/Pay@1", "body": {"amount": 1, name: 1}}).encode())[1]) < 500
    assert len(problem_of(registry.decode_value, json.dumps({name: "a"}).encode(), dict[str, int])[1]) < 500


# Texts


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"nonsense", b"\xff", b"\xef\xbb\xbf{}", '{"type":"é"}'.encode("utf-16"), b"[]", b"null", b"5", b'"x"', b"{}", b'{"type":"shop/Pay@1"}',
     b'{"type":5,"body":{}}', b'{"type":null,"body":{}}', b'{"type":"shop/Pay@1","body":{"amount":5},"more":1}', b'{"type":"shop/Pay@1","body":{"amount":NaN}}',
     b'{"type":"shop/Pay@1","body":{"amount":Infinity}}', b'{"type":"shop/Pay@1","body":{"amount":-Infinity}}',
     b'{"type":"shop/Pay@1","body":{"amount":1,"amount":2}}', b'{"type":"shop/Pay@1","body":{"amount":1,"note":"\\ud800"}}',
     b'{"type":"shop/Pay@1","body":{"amount":1,"note":"\\udc00\\ud800"}}', b'{"type":"shop/Pay@1","body":{"amount":1,"note":"\xed\xa0\x80"}}',
     b'{"type":"shop/Pay@1","body":{"amount":1}}x', b'{"type":"shop/Pay@1","body":{"amount":1,}}', b'{"type":"shop/Pay@1","body":{"amount":01}}',
     b'{"type":"shop/Pay@1","body":{"amount":1,"note":"\n"}}', b'{"type":"shop/Pay@1","body":{"amount":1e999}}', b"\0"],
)  # fmt: skip
def test_malformed_bytes_are_refused(registry, data):
    assert problem_of(registry.decode, data)[0] == "malformed"


def test_a_surrogate_pair_is_a_character(registry):
    assert registry.decode(b'{"type":"shop/Pay@1","body":{"amount":1,"note":"\\ud83d\\ude00"}}') == Pay(1, "\U0001f600")


def test_a_text_longer_than_the_limit_is_refused_both_ways(registry):
    data = registry.encode(Pay(1, "x" * 50))
    exact, short = WireRegistry(Limits(max_bytes=len(data))), WireRegistry(Limits(max_bytes=len(data) - 1))
    for other in (exact, short):
        other.register(Pay)
    assert exact.decode(exact.encode(Pay(1, "x" * 50))) == Pay(1, "x" * 50)
    assert problem_of(short.encode, Pay(1, "x" * 50))[0] == "too_large"
    assert problem_of(short.decode, data)[0] == "too_large"


def test_the_default_limit_is_a_mebibyte(registry):
    assert registry.limits == Limits(1024 * 1024, 64)
    assert problem_of(registry.encode, Pay(1, "x" * 1024 * 1024))[0] == "too_large"
    assert problem_of(registry.decode, b" " * (1024 * 1024 + 1))[0] == "too_large"


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth - 1):
        value = [value]
    return value


def test_nesting_deeper_than_the_limit_is_refused_both_ways(registry):
    assert registry.decode(registry.encode(Anything(nested(62)))) == Anything(nested(62))
    assert problem_of(registry.encode, Anything(nested(63)))[0] == "too_deep"
    text = f'{{"type":"{__name__}:Anything","body":{{"value":{json.dumps(nested(63))}}}}}'
    assert problem_of(registry.decode, text.encode())[0] == "too_deep"


def test_brackets_in_strings_are_no_nesting(registry):
    for note in ('["{' * 500, '\\"[' * 500, '"' * 500 + "[" * 500, "\\" * 501 + "[" * 500):
        assert registry.decode(registry.encode(Pay(1, note))) == Pay(1, note)


@pytest.mark.parametrize(
    "data",
    [b"[" * 500_000, b'{"a":' * 150_000, b'["' + b'\\"' * 400_000 + b"[" * 100, b'["' + b"\\" * 99 + b"[" * 99, b"[" * 100 + b"]" * 1000],
)
def test_hostile_nesting_is_refused_without_being_parsed(registry, data):
    assert problem_of(registry.decode, data)[0] in ("too_deep", "malformed")


def test_a_value_that_contains_itself_is_refused(registry):
    loop: list[Any] = []
    loop.append(loop)
    assert problem_of(registry.encode, Anything(loop))[0] == "too_deep"
    item = Item("a", loop)
    assert problem_of(registry.encode_value, item, Item)[0] == "not_encodable"


def with_stack(frames: int, call: Any, *arguments: Any) -> str | None:
    """The problem of a call that has so many frames of the stack left, None where it went well."""
    usual = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + frames)
    try:
        call(*arguments)
    except WireError as error:
        return error.problem
    else:
        return None
    finally:
        sys.setrecursionlimit(usual)


def test_a_nearly_used_up_stack_gives_the_same_error(registry):
    node = Node(0)
    for value in range(50):
        node = Node(value, node)
    tree = registry.encode_value(node, Node)
    lists = registry.encode_value(nested(60), Any)
    calls = [
        (registry.decode_value, tree, Node),
        (registry.encode_value, node, Node),
        (registry.decode_value, lists, Any),
        (registry.encode_value, nested(60), Any),
    ]
    for call, *arguments in calls:
        problems = {with_stack(frames, call, *arguments) for frames in range(40, 400, 8)}
        assert problems <= {"too_deep", None}
        assert None in problems
    assert with_stack(60, *calls[0]) == with_stack(60, *calls[1]) == "too_deep"


def test_decimals_of_too_large_an_exponent_are_refused(registry):
    assert problem_of(registry.decode_value, b'"1E999999999"', Decimal)[0] == "too_large"


def test_integers_of_too_many_digits_are_refused_before_they_are_read(registry):
    assert problem_of(registry.decode, b'{"type":"shop/Pay@1","body":{"amount":' + b"9" * 1001 + b"}}")[0] == "too_large"
    assert registry.decode(b'{"type":"shop/Pay@1","body":{"amount":-' + b"9" * 1000 + b"}}") == Pay(1 - 10**1000)


@pytest.mark.parametrize("limits", [{"max_bytes": 0}, {"max_depth": 0}, {"max_depth": 201}])
def test_senseless_limits_are_refused(limits):
    with pytest.raises(ValueError, match="max_bytes="):
        Limits(**limits)


# Types of one's own


class Ref(Generic[T]):
    def __init__(self, path: str) -> None:
        self.path = path

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ref) and other.path == self.path

    __hash__ = None  # type: ignore[assignment]


def ref_from_json(value: Any) -> Ref[Any]:
    if not isinstance(value, str) or not value.startswith("/"):
        raise ValueError("no path")
    return Ref(value)


@message
class Call(Message):
    to: Ref[int]
    back: Ref[Any] | None = None
    others: tuple[Ref[str], ...] = ()
    either: Ref[str] | str = ""


def test_a_registry_can_be_taught_a_type(registry):
    registry.register(Call)
    assert problem_of(registry.encode, Call(Ref("/a")))[0] == "not_encodable"
    registry.add_type(Ref, lambda ref: ref.path, ref_from_json)
    call = Call(Ref("/a"), Ref("/b"), (Ref("/c"),), Ref("/d"))
    data = registry.encode(call)
    assert json.loads(data)["body"] == {"to": "/a", "back": "/b", "others": ["/c"], "either": {"type": "Ref", "body": "/d"}}
    assert registry.decode(data) == call
    assert registry.decode(registry.encode(Call(Ref("/a")))) == Call(Ref("/a"))
    problem, text = problem_of(registry.decode, data.replace(b'"/a"', b"5"))
    assert (problem, text) == ("invalid_fields", "Call.to: ValueError: no path")
    assert problem_of(registry.encode, Call("/a"))[1] == "Call.to: is annotated Ref but holds str"


def test_what_a_taught_type_becomes_must_be_json(registry):
    registry.register(Call)
    registry.add_type(Ref, lambda ref: object(), ref_from_json)
    assert problem_of(registry.encode, Call(Ref("/a")))[0] == "not_encodable"
    registry.add_type(Ref, lambda ref: 1 / 0, ref_from_json)
    assert "ZeroDivisionError" in problem_of(registry.encode, Call(Ref("/a")))[1]


def test_a_taught_type_may_refuse_in_its_own_words(registry):
    def refuse(value: Any) -> Ref[Any]:
        raise WireError("no such actor", problem="unknown_actor")

    registry.register(Call)
    registry.add_type(Ref, lambda ref: ref.path, refuse)
    assert problem_of(registry.decode, registry.encode(Call(Ref("/a")))) == ("unknown_actor", "Call.to: no such actor")


def test_registries_know_nothing_of_each_other(registry):
    other = WireRegistry()
    other.add_type(Plain, lambda _: "plain", lambda _: Plain())
    assert isinstance(other.decode_value(other.encode_value(Plain(), Plain), Plain), Plain)
    assert problem_of(registry.encode_value, Plain(), Plain)[0] == "not_encodable"
    assert problem_of(other.encode, Pay(1))[0] == "unknown_type"
