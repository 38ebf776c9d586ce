from __future__ import annotations

import datetime as dt
import inspect
import json
import sys
import uuid
from decimal import Decimal
from typing import Any, Generic, Literal, TypeVar

import pytest

from retinue.mailbox.errors import WireError
from retinue.mailbox.messages import Message, message
from retinue.mailbox.wire import Limits, WireRegistry
from retinue.security.errors import DefinitionError
from wire_examples import Anything, Batch, Colour, Item, Node, Pay, Plain, Point, Positive, Wrapped, examples, pay_bytes, problem_of

T = TypeVar("T")


@pytest.fixture
def registry():
    return examples()


# The form


def test_a_message_is_its_name_and_its_fields_as_json(registry):
    assert registry.encode(Pay(5, "é")) == '{"type":"shop/Pay@1","body":{"amount":5,"note":"é"}}'.encode()
    assert registry.decode(b' {"body": {"note": "\\u00e9", "amount": 5}, "type": "shop/Pay@1"} ') == Pay(5, "é")


def test_a_field_with_a_default_may_be_left_out(registry):
    assert registry.decode(pay_bytes(amount=5)) == Pay(5)


def test_decoded_bytes_may_be_any_bytes_like_object(registry):
    data = registry.encode(Pay(5))
    assert registry.decode(bytearray(data)) == registry.decode(memoryview(data)) == Pay(5)
    assert problem_of(registry.decode, data.decode())[0] == "malformed"


# Names


def test_the_default_name_is_made_of_module_and_qualified_name(registry):
    assert registry.name_of(Positive) == f"{Positive.__module__}:Positive"
    assert registry.register(Positive) == f"{Positive.__module__}:Positive"
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
    problem, text = problem_of(registry.decode, pay_bytes(amount=1))
    assert (problem, "'shop/Pay@1'" in text) == ("unknown_type", True)
    assert problem_of(registry.class_of, "x")[0] == "unknown_type"


@pytest.mark.parametrize("value", [5, None, "Pay", Point(1)])
def test_what_is_no_message_is_not_encoded(registry, value):
    assert problem_of(registry.encode, value)[0] == "not_encodable"


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
    assert problem_of(registry.decode, pay_bytes(**fields)) == ("invalid_fields", text)


def test_a_refusal_names_the_path_to_a_nested_field(registry):
    text = b'{"value":1,"children":[{"value":1},{"value":1,"next":{"value":"x"}}]}'
    assert problem_of(registry.decode_value, text, Node)[1] == "value.children[1].next.value: expected an integer, got a string"
    assert problem_of(registry.encode_value, Node(1, children=(Node(2, Node("x")),)), Node)[1] == (
        "value.children[0].next.value: is annotated int but holds str"
    )
    assert problem_of(registry.decode_value, b'{"a":{"x":[]}}', dict[str, Point])[1].startswith("value.a.x: ")
    assert problem_of(registry.encode_value, {"a": [1, object()]}, Any)[1].startswith("value.a[1]: ")


def test_the_classs_own_validators_are_heard(registry):
    problem, text = problem_of(registry.decode, json.dumps({"type": f"{Positive.__module__}:Positive", "body": {"x": -1}}).encode())
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
    text = f'{{"type":"{Anything.__module__}:Anything","body":{{"value":{json.dumps(nested(63))}}}}}'
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


def test_a_part_of_a_larger_text_is_loaded_as_its_own_bytes_would_be(registry):
    value = json.loads('{"reply": [1, 2], "message": {"type": "shop/Pay@1", "body": {"amount": 5}}}')
    assert registry.load_value(value["reply"], tuple[int, ...]) == registry.decode_value(b"[1,2]", tuple[int, ...]) == (1, 2)
    assert registry.load(value["message"]) == Pay(5)
    assert problem_of(registry.load_value, value["reply"], list[str]) == problem_of(registry.decode_value, b"[1,2]", list[str])
    assert problem_of(registry.load, value)[0] == "malformed"
