"""Answers in pieces from deployments in a running system: order, backpressure, early ends, authority, concurrency."""

from __future__ import annotations

import logging

import pytest
import trio

import retinue as rt
from retinue import llm
from told_server import DONE, GOOD, HEAD, RESET, STALL, STOP, refusal, sse, told

HELLO = llm.Complete.of("hello")
PIECES = llm.CompleteStream.of("hello")


def deployment(system, server, **options):
    options = {"model": "m", "base_url": server.url, "proxies": False, "retries": 0, "name": "model"} | options
    return system.spawn(llm.OpenAICompatible, **options)


async def read(model, message=PIECES, **options):
    async with model.stream(message, **options) as events:
        return [event async for event in events]


async def test_a_stream_ends_with_what_a_plain_request_is_answered_with():
    async with told(GOOD) as server, rt.ActorSystem() as system:
        model = await deployment(system, server)
        events = await read(model)
        assert [event.text for event in events[:-1]] == ["Hel", "lo"]
        assert events[-1].completion == await model.ask(HELLO) == llm.fold(events)


async def test_a_slow_reader_holds_the_endpoint_back_and_loses_nothing():
    script = [HEAD, *[sse("x" * 100_000)] * 50, STOP, DONE]
    async with told(script) as server, rt.ActorSystem() as system:
        model = await deployment(system, server)
        size = 0
        async with model.stream(PIECES, window=1) as events:
            async for event in events:
                await trio.sleep(0.002)
                size += len(event.text) if isinstance(event, llm.TextDelta) else 0
    assert size == 5_000_000


async def test_leaving_a_stream_early_ends_it_at_the_endpoint_and_frees_the_worker():
    async with told([HEAD + sse("Hel"), STALL], GOOD) as server, rt.ActorSystem() as system:
        model = await deployment(system, server, concurrency=1)
        async with model.stream(PIECES) as events:
            async for _event in events:
                break
        assert (await model.ask(HELLO)).text == "Hello"
        with trio.fail_after(10):
            while not server.left:
                await trio.sleep(0.005)
        assert all(actor.failures == actor.restarts == 0 for actor in system.actors())


async def test_a_stream_under_way_holds_up_nobody_else():
    async with told([HEAD + sse("Hel"), STALL], GOOD) as server, rt.ActorSystem() as system:
        model = await deployment(system, server)
        async with model.stream(PIECES) as events:
            async for _event in events:
                assert (await model.ask(HELLO)).text == "Hello"
                assert (await read(model))[-1].completion.text == "Hello"
                break


async def test_a_retry_is_an_event_of_the_stream():
    async with told([refusal(503)], GOOD) as server, rt.ActorSystem() as system:
        model = await deployment(system, server, retries=llm.Retries(1, chance=lambda: 1.0))
        events = await read(model)
    assert isinstance(events[0], llm.Retrying)
    assert (events[0].attempt, events[0].seconds) == (2, 0.375)
    assert "503" in events[0].reason
    assert events[-1].completion.text == "Hello"


async def test_a_deployment_that_forgets_to_start_its_workers_is_told_so():
    class Forgetful(llm.Deployment):
        async def on_start(self):
            pass

    async with rt.ActorSystem() as system:
        model = await system.spawn(Forgetful)
        with pytest.raises(rt.DefinitionError, match=r"super\(\).on_start"):
            await model.ask(HELLO)


async def test_an_interrupted_stream_is_an_answer_and_no_failure():
    async with told([HEAD + sse("Hel"), RESET]) as server, rt.ActorSystem() as system:
        model = await deployment(system, server)
        for _ in range(2):
            pieces = []
            with pytest.raises(llm.ModelInterrupted) as caught:
                async with model.stream(PIECES) as events:
                    async for event in events:
                        pieces.append(event)
            assert pieces == [llm.TextDelta("Hel")]
            assert caught.value.partial.text == "Hel"
        assert all(actor.failures == actor.restarts == 0 for actor in system.actors())


async def test_without_the_operation_a_stream_is_denied_and_the_endpoint_is_not_asked():
    async with told(GOOD) as server, rt.ActorSystem() as system:
        model = await deployment(system, server)
        with pytest.raises(rt.Denied, match=r"model\.complete"):
            await read(model, context=system.authority.mint(subject="ada", permissions=["tool.*"]))
        short = rt.where("model.complete", max_tokens=rt.at_most(50))
        ada = system.authority.mint(subject="ada", permissions=["model.complete", short])
        with pytest.raises(rt.Denied):
            await read(model, context=ada)
        assert (await read(model, llm.CompleteStream.of("hello", max_tokens=50), context=ada))[-1].completion.text == "Hello"
    assert len(server.asked) == 1


async def test_streams_and_requests_share_the_concurrency():
    going = []

    class Counted(llm.Deployment):
        now = most = 0

        async def complete_once(self, request):
            Counted.now += 1
            Counted.most = max(Counted.most, Counted.now)
            await trio.testing.wait_all_tasks_blocked()
            Counted.now -= 1
            return llm.Completion(request.messages[0].content, "counted")

    async with rt.ActorSystem() as system:
        model = await system.spawn(Counted, 3)

        async def one(number):
            text = f"request {number}"
            if number % 2:
                answer = (await read(model, llm.CompleteStream.of(text)))[-1].completion
            else:
                answer = await model.ask(llm.Complete.of(text))
            going.append(answer.text == text)

        async with trio.open_nursery() as nursery:
            for number in range(12):
                nursery.start_soon(one, number)
        assert going == [True] * 12
        assert Counted.most == 3


async def test_a_deployment_that_writes_stream_once_alone_answers_both():
    class Slow(llm.Deployment):
        async def stream_once(self, request):
            for letter in request.messages[0].content:
                yield llm.TextDelta(letter)
            yield llm.Completed(llm.Completion(request.messages[0].content, "slow"))

    async with rt.ActorSystem() as system:
        model = await system.spawn(Slow)
        assert (await model.ask(HELLO)).text == "hello"
        assert [event.text for event in (await read(model))[:-1]] == list("hello")


async def test_a_stream_without_its_end_is_a_models_error_for_a_plain_request():
    class Endless(llm.Deployment):
        async def stream_once(self, request):
            del request
            yield llm.TextDelta("x")

    async with rt.ActorSystem() as system:
        model = await system.spawn(Endless)
        with pytest.raises(llm.ModelError, match="Completed"):
            await model.ask(HELLO)


# -- scripts -------------------------------------------------------------------------------------------------------------------------------


async def test_a_scripted_stream_says_its_line_in_pieces():
    line = llm.tool_calls(("weather", {"city": "Paris"}), text="Let me have a look at it.", reasoning="hm")
    async with rt.ActorSystem() as system:
        model = await system.spawn(llm.Scripted, line)
        events = await read(model)
        assert events[0] == llm.ReasoningDelta("hm")
        assert 1 < sum(isinstance(event, llm.TextDelta) for event in events) <= 4
        assert events[-2] == llm.ToolCallDelta(0, "call-1", "weather", '{"city": "Paris"}')
        assert events[-1] == llm.Completed(line)


async def test_a_scripted_stream_takes_its_time(autojump_clock):
    async with rt.ActorSystem(block_warning=float("inf")) as system:
        model = await system.spawn(llm.Scripted, "one two three", seconds=8)
        began = trio.current_time()
        await read(model)
        assert trio.current_time() - began == pytest.approx(8)


async def test_an_error_of_the_script_is_the_streams():
    async with rt.ActorSystem() as system:
        model = await system.spawn(llm.Scripted, [llm.RateLimited("later"), "x"])
        with pytest.raises(llm.RateLimited):
            await read(model)
        assert (await read(model))[-1].completion.text == "x"


async def test_a_script_that_was_not_used_up_says_so_when_it_stops(caplog):
    async with rt.ActorSystem() as system:
        model = await system.spawn(llm.Scripted, ["one", "two", "three"], name="model")
        await model.ask(HELLO)
        assert await model.ask(llm.GetUnused()) == 2
        with pytest.raises(llm.ScriptUnused, match="2 lines") as caught:
            await llm.assert_used_up(model)
        assert caught.value.unused == 2
    said = [record.getMessage() for record in caplog.records if record.name == "retinue.llm"]
    assert len(said) == 1
    assert "/user/model" in said[0]
    assert "2 lines" in said[0]
    assert "'two'" in said[0]


async def test_a_script_that_was_used_up_says_nothing(caplog):
    async with rt.ActorSystem() as system:
        model = await system.spawn(llm.Scripted, ["one"], strict=True)
        await model.ask(HELLO)
        await llm.assert_used_up(model)
        await system.spawn(llm.Scripted, "always", strict=True)
    assert caplog.records == []


async def test_a_strict_script_that_was_not_used_up_is_an_error_when_it_stops(caplog):
    async with rt.ActorSystem() as system:
        await system.spawn(llm.Scripted, ["one"], strict=True, name="model")
    errors = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert [record.exc_info[0] for record in errors] == [llm.ScriptUnused]
