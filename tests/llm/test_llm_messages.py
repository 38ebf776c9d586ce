"""Requests to a model are refused where they are made, when no endpoint could take them."""

from __future__ import annotations

import attrs
import pytest

from retinue.actors.llm.events import Completed, ModelEvent, ReasoningDelta, Retrying, TextDelta, ToolCallDelta
from retinue.actors.llm.messages import ChatMessage, Complete, CompleteStream, Completion, OutputSpec, ToolCall, ToolSpec
from retinue.actors.llm.replies import tidy
from retinue.actors.llm.usage import Usage
from retinue.mailbox.messages import message_info
from retinue.mailbox.wire import WireRegistry

HELLO = ChatMessage("user", "hello")
CALL = ToolCall("c", "now")


def test_a_list_of_messages_becomes_a_tuple_that_nobody_can_change():
    given = [HELLO]
    request = Complete(given)
    given.append(ChatMessage("user", "more"))
    assert request.messages == (HELLO,)
    assert message_info(Complete).mutable_fields == frozenset()


def test_of_puts_the_instructions_before_the_prompt():
    assert Complete.of("hello", system="Be kind.").messages == (ChatMessage("system", "Be kind."), HELLO)
    assert Complete.of("hello").messages == (HELLO,)


def test_a_request_and_a_stream_ask_for_the_same():
    request = Complete([HELLO], 5, 0.5, ("a",), 7, (ToolSpec("t"),), "t", OutputSpec("o", "{}"), False, "low", "{}")
    stream = request.as_stream()
    assert type(stream) is CompleteStream
    assert stream.as_request() == request
    assert list(message_info(CompleteStream).field_types) == list(message_info(Complete).field_types)
    assert message_info(CompleteStream).mutable_fields == frozenset()
    assert message_info(CompleteStream).reply == ModelEvent
    assert CompleteStream.of("hello") == Complete.of("hello").as_stream()


def test_requests_and_events_pass_the_wire():
    call = ToolCall("c", "t", '{"a": 1}', truncated=True)
    talk = (HELLO, ChatMessage("assistant", "", (call,), reasoning="Hm."), ChatMessage("tool", "ok", tool_call_id="c"))
    request = Complete(talk, tools=(ToolSpec("t"),), output=OutputSpec("o", "{}"))
    wire = WireRegistry()
    for value in (request, request.as_stream()):
        wire.register(type(value))
        assert wire.decode(wire.encode(value)) == value
    completion = Completion("Hi", "m", Usage(1, 2, 3), "stop", (call,), "Hm.", None, ("{}",))
    for event in (TextDelta("a"), ReasoningDelta("b"), ToolCallDelta(0, "c", "t", "{"), Retrying("busy", 2, 0.5), Completed(completion)):
        assert wire.decode_value(wire.encode_value(event, ModelEvent), ModelEvent) == event


def test_a_completion_may_take_ten_minutes_and_is_statically_known():
    assert message_info(Complete).timeout == 600
    assert message_info(Complete).reply is Completion


@pytest.mark.parametrize(
    ("make", "kind", "expected"),
    [
        (lambda: Complete(()), ValueError, "empty"),
        (lambda: Complete("hello"), TypeError, r"Complete\.of"),
        (lambda: Complete(HELLO), TypeError, r"Complete\.of"),
        (lambda: Complete(None), TypeError, "NoneType"),
        (lambda: Complete([{"role": "user"}]), TypeError, "dict"),
        (lambda: Complete.of(5), TypeError, "int"),
        (lambda: ChatMessage("robot", "x"), ValueError, "system, user, assistant, tool"),
        (lambda: ChatMessage("tool", "x"), ValueError, "tool_call_id"),
        (lambda: ChatMessage("user", "x", tool_call_id="c"), ValueError, "tool_call_id"),
        (lambda: ChatMessage("user", "x", (CALL,)), ValueError, "only an assistant"),
        (lambda: ChatMessage("assistant", "x", [CALL]), TypeError, "tuple of ToolCall"),
        (lambda: ChatMessage("assistant", "x", ("c",)), TypeError, "tuple of ToolCall"),
        (lambda: ChatMessage("user", "x", name=5), TypeError, "ChatMessage.name is a int"),
        (lambda: ToolSpec(""), ValueError, "ToolSpec.name is empty"),
        (lambda: ToolSpec("t", None), TypeError, "description of 't'"),
        (lambda: ToolSpec("t", parameters="{"), ValueError, "parameters of 't' is no JSON"),
        (lambda: ToolSpec("t", parameters="[]"), ValueError, "JSON list"),
        (lambda: ToolSpec("t", parameters={}), TypeError, "dict"),
        (lambda: OutputSpec("o", "5"), ValueError, "schema of 'o'"),
        (lambda: Complete.of("x", tools=ToolSpec("t")), TypeError, "sequence of ToolSpec"),
        (lambda: Complete.of("x", tools=("t",)), TypeError, "holds a str"),
        (lambda: Complete.of("x", tools=(ToolSpec("t"), ToolSpec("t"))), ValueError, "two tools named 't'"),
        (lambda: Complete.of("x", output="json"), TypeError, "OutputSpec"),
        (lambda: Complete([HELLO], tools=(ToolSpec("t"),), tool_choice="u"), ValueError, "auto, none, required, t"),
        (lambda: Complete([HELLO], tool_choice=True), TypeError, "tool_choice"),
        (lambda: Complete([HELLO], parallel_tool_calls=1), TypeError, "True, False or None"),
        (lambda: Complete([HELLO], reasoning_effort=1), TypeError, "reasoning_effort"),
        (lambda: Complete([HELLO], extra={}), TypeError, "JSON object"),
        (lambda: Complete([HELLO], extra="[]"), ValueError, "JSON list"),
        (lambda: Complete([HELLO], extra='{"max_completion_tokens": 5}'), ValueError, "max_completion_tokens"),
        (lambda: ChatMessage([], "x"), ValueError, "system, user, assistant, tool"),
        (lambda: Complete.of("x", max_tokens=0), ValueError, "max_tokens"),
        (lambda: Complete.of("x", max_tokens=True), TypeError, "max_tokens"),
        (lambda: Complete.of("x", max_tokens=1.5), TypeError, "max_tokens"),
        (lambda: Complete.of("x", max_tokens=10**5000), ValueError, "64 bits"),
        (lambda: Complete.of("x", seed=10**30), ValueError, "64 bits"),
        (lambda: Complete.of("x", temperature=-0.1), ValueError, "temperature"),
        (lambda: Complete.of("x", temperature=float("nan")), ValueError, "temperature"),
        (lambda: Complete.of("x", temperature=float("inf")), ValueError, "temperature"),
        (lambda: Complete.of("x", temperature="0"), TypeError, "temperature"),
        (lambda: Complete.of("x", stop="END"), TypeError, "sequence of strings"),
        (lambda: Complete.of("x", stop=(5,)), TypeError, "stop"),
    ],
)
def test_values_that_no_endpoint_takes_are_refused(make, kind, expected):
    with pytest.raises(kind, match=expected):
        make()


def test_tidy_makes_one_short_printable_line():
    assert tidy("a\x1b[2J\n\n  b\u202e\tc") == "a [2J b c"
    assert len(tidy("x" * 1000)) == 300


def test_the_same_request_about_another_conversation_differs_in_nothing_else():
    weather = ToolSpec("get_weather")
    before = Complete((ChatMessage("user", "a"),), 5, 0.5, ("x",), 7, (weather,), "get_weather", None, False, "low", '{"top_k": 3}')
    said = (ChatMessage("system", "be brief"), ChatMessage("user", "b"))
    assert before.about(said) == attrs.evolve(before, messages=said)
    assert before.about(list(said)) == before.about(said)
    assert hash(before.about(said)) == hash(before.about(said))
    for wrong in ((), ("b",), "b", (said[0], None)):
        with pytest.raises((TypeError, ValueError), match=r"Complete\.messages"):
            before.about(wrong)
