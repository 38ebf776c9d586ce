"""Whatever is written comes back; whatever the bytes are, the only error is WireError."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import attrs
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from message_strategies import Leaf, Shape, Suit, Twig, json_values, messages, shapes
from retinue.mailbox.errors import WireError
from retinue.mailbox.messages import Message, message
from retinue.mailbox.wire import WireRegistry

unhurried = settings(suppress_health_check=[HealthCheck.too_slow])  # a busy machine is no failure

PROBLEMS = {"malformed", "unknown_type", "too_large", "too_deep", "invalid_fields"}


@message(name="fuzz/Target@1")
class Target(Message):
    count: int
    ratio: float
    blob: bytes
    leaf: Leaf | None
    either: Leaf | Twig | str | int
    by_suit: dict[Suit, list[Leaf]]
    numbers: dict[int, float]
    words: frozenset[str]
    pair: tuple[int, str]
    anything: Any
    inner: list[Message]


def registry_of(*classes: type[Message]) -> WireRegistry:
    registry = WireRegistry()
    for cls in classes:
        registry.register(cls)
    return registry


REGISTRY = registry_of(Target)
TARGET = Target(
    1, 0.5, b"x", Leaf(1, "é"), Twig(2), {Suit.CLUBS: [Leaf(3)]}, {4: 5.0}, frozenset({"a", "b"}), (1, "z"), {"k": [None, True]}, []
)
VALID = REGISTRY.encode(attrs.evolve(TARGET, inner=[TARGET]))


def attempt(call: Callable[..., Any], *arguments: Any) -> tuple[Any, WireError | None]:
    """What it returns, or the one error that it may raise."""
    try:
        return call(*arguments), None
    except WireError as error:
        return None, error


def decodes_or_refuses(data: bytes) -> None:
    decoded, error = attempt(REGISTRY.decode, data)
    if error is not None:
        assert error.problem in PROBLEMS
        assert len(str(error)) < 2000
    else:
        assert isinstance(decoded, Target)
        assert REGISTRY.decode(REGISTRY.encode(decoded)) == decoded


@unhurried
@given(messages())
def test_messages_of_generated_classes_come_back(sent):
    registry = registry_of(type(sent))
    data = registry.encode(sent)
    received = registry.decode(data)
    assert received == sent
    assert [type(value) for value in attrs.astuple(received, recurse=False)] == [
        type(value) for value in attrs.astuple(sent, recurse=False)
    ]
    assert registry.encode(received) == data


@unhurried
@given(st.data(), shapes, json_values)
def test_any_json_is_a_value_of_a_generated_type_or_refused(data: st.DataObject, shape: Shape, value: Any):
    kind, values = shape
    text = json.dumps(data.draw(st.just(value) | values.map(lambda good: json.loads(REGISTRY.encode_value(good, kind)))))
    decoded, error = attempt(REGISTRY.decode_value, text.encode(), kind)
    if error is not None:
        assert error.problem in PROBLEMS
    else:
        assert REGISTRY.decode_value(REGISTRY.encode_value(decoded, kind), kind) == decoded


@unhurried
@given(st.binary(max_size=200))
@example(b"")
@example(b"\xff\xfe{}")
@example(b'{"type":"fuzz/Target@1","body":{}}')
def test_arbitrary_bytes_are_decoded_or_refused(data):
    decodes_or_refuses(data)


@unhurried
@given(st.text(alphabet='{}[]",:\\ud8001eE+-.trfalsenu/@_typebodyfuzzTarget', max_size=200))
def test_texts_that_look_like_json_are_decoded_or_refused(text):
    decodes_or_refuses(text.encode())


@unhurried
@given(st.data())
def test_mutated_valid_bytes_are_decoded_or_refused(data: st.DataObject):
    mutated = bytearray(VALID)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(mutated)))
        removed = data.draw(st.integers(0, 3))
        mutated[at : at + removed] = data.draw(
            st.binary(max_size=3) | st.sampled_from([b'"', b"{", b"}", b"[", b"]", b",", b"0", b"null", b"1e999", b"NaN"])
        )
    decodes_or_refuses(bytes(mutated))


@unhurried
@given(st.data())
def test_mutated_valid_trees_are_decoded_or_refused(data: st.DataObject):
    tree: Any = json.loads(VALID)
    place: Any = tree
    for _ in range(data.draw(st.integers(1, 6))):
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            break
        key = data.draw(st.sampled_from(keys))
        if isinstance(place[key], dict | list) and data.draw(st.booleans()):
            place = place[key]
            continue
        change = data.draw(st.sampled_from(["replace", "remove", "add"]))
        if change == "replace":
            place[key] = data.draw(json_values)
        elif change == "remove":
            del place[key]
        elif isinstance(place, dict):
            place[data.draw(st.sampled_from(["type", "body", "count", "x", "__class__", "extra"]))] = data.draw(json_values)
        else:
            place.append(data.draw(json_values))
    decodes_or_refuses(json.dumps(tree).encode())


@unhurried
@given(messages(), st.data())
def test_a_field_of_another_type_is_refused_or_comes_back(sent, data: st.DataObject):
    """The sender learns of a value that does not fit; nothing is sent that the receiver could not read."""
    names = [field.name for field in attrs.fields(type(sent))]
    if names:
        name = data.draw(st.sampled_from(names))
        sent = attrs.evolve(sent, **{name: data.draw(json_values | st.builds(object) | st.builds(Leaf, json_values))})
    registry = registry_of(type(sent))
    written, error = attempt(registry.encode, sent)
    if error is not None:
        assert error.problem in {"not_encodable", "too_large", "too_deep"}
    else:
        assert registry.decode(written) == sent
