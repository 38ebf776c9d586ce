"""Whatever bytes and pauses come, in whatever pieces: a whole answer or a typed error, in bounded time, and the same for both ways to ask."""

from __future__ import annotations

import math
from contextlib import aclosing

import attrs
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from model_transport import Answer, Memory
from retinue import llm
from retinue.actors.llm.endpoint import Endpoint
from told_server import DONE, STOP, USAGE, event, sse

HELLO = llm.Complete.of("hello")
PIECES = st.sampled_from(
    [
        sse("Hel"),
        sse("lo ü 世"),
        sse(role="assistant"),
        sse(reasoning_content="hm"),
        sse(tool_calls=[{"index": 0, "id": "c", "function": {"name": "t", "arguments": "{"}}]),
        sse(tool_calls=[{"index": 0, "function": {"arguments": "}"}}]),
        sse("<think>so</think>"),
        sse(finish="length"),
        STOP,
        USAGE,
        DONE,
        b": comment\n\n",
        b"\n",
        b"data: {",
        event("{broken"),
        event({"choices": None}),
        event({"error": {"code": 429, "message": "busy"}}),
        b"<html>",
        b'{"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]}',
    ]
)
PAUSES = st.sampled_from([0.5, 30.0, 61.0, 119.0, 121.0, math.inf])
STEPS = st.lists(PIECES | PIECES | st.binary(max_size=12) | PAUSES, max_size=14)


def cut(steps, size):
    """The same bytes in other pieces."""
    for step in steps:
        if isinstance(step, bytes):
            yield from (step[start : start + size] for start in range(0, len(step), size))
        else:
            yield step


def without_ids(answer):
    """Ids are made up where none came."""
    return attrs.evolve(answer, tool_calls=tuple(attrs.evolve(call, id="") for call in answer.tool_calls))


@given(steps=STEPS, size=st.sampled_from([1, 3, 7, 1000]), status=st.sampled_from([200, 200, 200, 201, 400, 500]))
@settings(max_examples=12)
def test_an_answer_is_whole_or_a_typed_error_in_bounded_time_however_it_is_asked_for(steps, size, status):
    async def plainly(one):
        return await one.complete(HELLO)

    async def in_pieces(one):
        events = []
        async with aclosing(one.stream(HELLO)) as stream:
            async for item in stream:
                events.append(item)
        return llm.fold(events)

    async def outcome(ask):
        transport = Memory(Answer(*cut(steps, size), status=status))
        began = trio.current_time()
        async with Endpoint(model="m", base_url="http://endpoint.test/v1", transport=transport, retries=0, proxies=False) as one:
            try:
                answer = await ask(one)
            except llm.ModelError as error:
                answer = error.__cause__ if isinstance(error, llm.ModelInterrupted) else error
        assert trio.current_time() - began <= 10 + 60 + len(steps) * 121 + 1200
        assert transport.closed >= 1
        return answer

    def run(ask):
        return trio.run(outcome, ask, clock=trio.testing.MockClock(autojump_threshold=0))

    plain, streamed = run(plainly), run(in_pieces)
    if isinstance(plain, llm.Completion):
        assert without_ids(streamed) == without_ids(plain)
        assert plain.text or plain.tool_calls or plain.reasoning or plain.refusal
    else:
        assert type(streamed) is type(plain)
        assert str(plain).isprintable()
