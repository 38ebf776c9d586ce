"""Every wait for an endpoint is bounded, in virtual time: connecting, the first token, between tokens, in all, and between attempts."""

from __future__ import annotations

import math
from contextlib import aclosing

import attrs
import pytest
import trio

from model_transport import Answer, Memory
from retinue import llm
from retinue.actors.llm.endpoint import Endpoint
from retinue.actors.llm.profiles.generic import GENERIC
from retinue.actors.llm.retrying import Retries
from told_server import DONE, GOOD, STOP, USAGE, sse

HELLO = llm.Complete.of("hello")
WELL = Answer(*GOOD[0].partition(b"\r\n\r\n")[2:])
BUSY = Answer(b"{}", status=503, kind="application/json")
COMMENT = b": still here\n\n"


def endpoint(transport, **options):
    options = {"model": "m", "base_url": "http://endpoint.test/v1", "transport": transport, "retries": 0, "proxies": False} | options
    return Endpoint(**options)


async def events_of(one, request=HELLO):
    async with aclosing(one.stream(request)) as events:
        return [event async for event in events]


async def fails(transport, kind=llm.ModelTimeout, *, streamed=True, **options):
    began = trio.current_time()
    async with endpoint(transport, **options) as one:
        with pytest.raises(kind) as caught:
            await (events_of(one) if streamed else one.complete(HELLO))
    return caught.value, trio.current_time() - began


@pytest.mark.parametrize("streamed", [True, False])
async def test_a_connection_that_does_not_open_ends_after_10_s(autojump_clock, streamed):
    error, seconds = await fails(Memory(Answer(connect=math.inf)), streamed=streamed)
    assert seconds == 10
    assert "Timeouts.connect" in str(error)


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize(
    "answer",
    [
        Answer(before=math.inf, connect=9),
        Answer(math.inf, connect=9),
        Answer(sse(role="assistant"), math.inf, connect=9),
        Answer(*[COMMENT, 1.0] * 1000, connect=9),
        Answer(*[b"\n", 1.0] * 1000, connect=9),
        Answer(b"d", 1.0, b"a", 1.0, b"ta: {", math.inf, connect=9),
    ],
    ids=["no head", "no byte", "no token", "comments", "blanks", "half an event"],
)
async def test_a_first_token_that_never_comes_ends_60_s_after_the_connection(autojump_clock, answer, streamed):
    error, seconds = await fails(Memory(answer), streamed=streamed)
    assert seconds == 69
    assert "Timeouts.first_token" in str(error)


async def test_the_body_of_an_error_is_waited_for_5_s(autojump_clock):
    error, seconds = await fails(Memory(Answer(b'{"error"', math.inf, status=500)), llm.ModelFailed)
    assert seconds == 5
    assert error.status == 500


async def test_an_answer_that_falls_silent_ends_after_120_s_and_what_was_said_is_kept(autojump_clock):
    error, seconds = await fails(Memory(Answer(59.0, sse("Hel"), 119.0, sse("lo"), math.inf)), llm.ModelInterrupted)
    assert seconds == 59 + 119 + 120
    assert "Timeouts.between_tokens" in str(error)
    assert isinstance(error.__cause__, llm.ModelTimeout)
    assert error.partial.text == "Hello"


async def test_comments_keep_an_answer_alive_but_not_for_ever(autojump_clock):
    alive = Answer(sse("Hel"), *[COMMENT, 100.0] * 5, sse("lo"), STOP, DONE)
    async with endpoint(Memory(alive)) as one:
        assert (await one.complete(HELLO)).text == "Hello"
    error, seconds = await fails(Memory(Answer(sse("Hel"), *[COMMENT, 100.0] * 1000)), llm.ModelInterrupted)
    assert seconds == 1200
    assert "Timeouts.between_tokens" in str(error)


async def test_the_total_ends_an_answer_that_goes_on_and_on(autojump_clock):
    error, seconds = await fails(Memory(Answer(*[sse("x"), 1.0] * 1000)), llm.ModelInterrupted, timeouts=llm.Timeouts(total=30))
    assert seconds == 30
    assert "Timeouts.total" in str(error)


async def test_the_total_holds_for_all_attempts_and_no_attempt_begins_that_cannot_end_in_time(autojump_clock):
    transport = Memory(BUSY)
    error, seconds = await fails(transport, llm.ModelFailed, timeouts=llm.Timeouts(total=3), retries=Retries(20, chance=lambda: 0.0))
    assert seconds == 0.5 + 1
    assert len(transport.times) == 3
    assert error.status == 503
    slow = Memory(Answer(before=math.inf))
    error, seconds = await fails(slow, llm.ModelTimeout, timeouts=llm.Timeouts(total=100), retries=2)
    assert seconds == 100
    assert len(slow.times) == 2
    assert "Timeouts.total" in str(error)


async def test_without_limits_an_answer_may_take_for_ever(autojump_clock):
    none = llm.Timeouts(connect=math.inf, first_token=math.inf, between_tokens=math.inf)
    slow = Answer(1e6, sse("Hel"), 1e6, sse("lo"), STOP, DONE, connect=1e6, before=1e6)
    async with endpoint(Memory(slow), timeouts=none) as one:
        assert (await one.complete(HELLO)).text == "Hello"


async def test_a_slow_reader_is_no_silence_of_the_endpoint(autojump_clock):
    async with endpoint(Memory(Answer(sse("Hel"), sse("lo"), STOP, DONE))) as one:
        async with aclosing(one.stream(HELLO)) as events:
            async for _event in events:
                await trio.sleep(1000)


@pytest.mark.parametrize("rest", [[math.inf], [DONE, math.inf], [USAGE, DONE, math.inf]], ids=["nothing", "[DONE]", "usage"])
async def test_after_the_model_is_finished_the_rest_is_waited_for_5_s_at_most(autojump_clock, rest):
    began = trio.current_time()
    async with endpoint(Memory(Answer(sse("Hello"), STOP, *rest))) as one:
        answer = await one.complete(HELLO)
    assert answer.text == "Hello"
    assert answer.usage.total_tokens == (8 if USAGE in rest else None)
    assert trio.current_time() - began <= 5


async def test_a_plain_answer_has_the_time_of_both_together(autojump_clock):
    plain = attrs.evolve(GENERIC, streams=False)
    body = b'{"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]}'
    async with endpoint(Memory(Answer(body, before=179, kind="application/json")), profile=plain) as one:
        assert (await one.complete(HELLO)).text == "hi"
    error, seconds = await fails(Memory(Answer(body, before=181, kind="application/json")), profile=plain)
    assert seconds == 180
    assert "Timeouts.first_token" in str(error)


# -- attempts ------------------------------------------------------------------------------------------------------------------------------


async def test_a_failure_that_passes_is_tried_again_twice_with_growing_waits(autojump_clock):
    transport = Memory(BUSY, BUSY, WELL)
    async with endpoint(transport, retries=2) as one:
        events = await events_of(one)
    assert [type(event).__name__ for event in events[:2]] == ["Retrying", "Retrying"]
    assert [event.attempt for event in events[:2]] == [2, 3]
    assert transport.gaps == pytest.approx([event.seconds for event in events[:2]])
    assert 0.375 <= transport.gaps[0] <= 0.5 < 0.75 <= transport.gaps[1] <= 1
    assert "503" in events[0].reason
    assert events[-1].completion.text == "Hello"
    assert len(set(transport.bodies)) == 1


async def test_after_the_last_attempt_the_error_itself_is_raised(autojump_clock):
    transport = Memory(BUSY)
    await fails(transport, llm.ModelFailed, retries=2)
    assert len(transport.times) == 3
    assert transport.closed == 3


@pytest.mark.parametrize(
    ("headers", "least"),
    [
        ({"retry-after": "7"}, 7),
        ({"retry-after": "0.9"}, 0.9),
        ({"retry-after-ms": "2500"}, 2.5),
        ({"x-ratelimit-reset-requests": "6s"}, 6),
    ],
)
async def test_the_wait_that_an_endpoint_asks_for_is_kept(autojump_clock, headers, least):
    transport = Memory(Answer(b"{}", status=429, headers=headers, kind="application/json"), WELL)
    async with endpoint(transport, retries=1) as one:
        assert (await one.complete(HELLO)).text == "Hello"
    assert least <= transport.gaps[0] <= least + 0.13


async def test_a_wait_that_is_too_long_is_told_at_once(autojump_clock):
    transport = Memory(Answer(b"{}", status=429, headers={"retry-after": "61"}, kind="application/json"))
    error, seconds = await fails(transport, llm.RateLimited, retries=5)
    assert seconds == 0
    assert error.retry_after == 61
    assert len(transport.times) == 1


async def test_an_asker_whose_time_is_over_before_is_told_what_happened(autojump_clock):
    transport = Memory(Answer(b"{}", status=503, headers={"retry-after": "30"}, kind="application/json"))
    async with endpoint(transport, retries=5) as one:
        with trio.fail_after(20), pytest.raises(llm.ModelFailed) as caught:
            await one.complete(HELLO)
    assert caught.value.retry_after == 30


async def test_a_wait_can_be_cancelled(autojump_clock):
    transport = Memory(Answer(b"{}", status=503, headers={"retry-after": "30"}, kind="application/json"))
    async with endpoint(transport, retries=5) as one:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(one.complete, HELLO)
            await trio.sleep(10)
            nursery.cancel_scope.cancel()
    assert len(transport.times) == 1


async def test_a_time_out_before_the_first_token_is_tried_again_and_one_after_it_is_not(autojump_clock):
    transport = Memory(Answer(before=math.inf), WELL)
    async with endpoint(transport, retries=1) as one:
        assert (await events_of(one))[-1].completion.text == "Hello"
    late = Memory(Answer(sse("Hel"), math.inf), WELL)
    error, _ = await fails(late, llm.ModelInterrupted, retries=5)
    assert len(late.times) == 1
    assert error.partial.text == "Hel"


async def test_a_plain_request_has_passed_nothing_on_and_is_tried_again_whenever_it_breaks(autojump_clock):
    transport = Memory(Answer(sse("Hel"), math.inf), Answer(sse("Hel")), Answer(sse("Hel"), b"data: {broken\n\n"), WELL)
    async with endpoint(transport, retries=3) as one:
        assert (await one.complete(HELLO)).text == "Hello"


async def test_an_endpoint_that_says_that_trying_again_is_of_no_use_is_believed(autojump_clock):
    transport = Memory(Answer(b"{}", status=503, headers={"x-should-retry": "false"}, kind="application/json"), WELL)
    await fails(transport, llm.ModelFailed, retries=5)
    assert len(transport.times) == 1


@pytest.mark.parametrize("retries", [-1, 101, 1.5, True, "2", None])
def test_a_number_of_retries_that_is_none_is_refused(retries):
    with pytest.raises(ValueError, match="retries"):
        endpoint(Memory(WELL), retries=retries)
