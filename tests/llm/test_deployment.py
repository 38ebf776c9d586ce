"""Deployments in a running system: queueing, concurrency, cancellation, authority, and nothing that is said to them restarts them."""

from __future__ import annotations

import threading

import pytest
import trio

import retinue as rt
from openai_loopback import completion, loopback
from retinue import llm

KEY = "sk-test-0123456789abcdef"
HELLO = llm.Complete.of("hello")


class Gate:
    """A server's answer that waits until the test lets it go, and tells a trio task of each request."""

    def __init__(self):
        self.token = trio.lowlevel.current_trio_token()
        self.arrived = trio.Semaphore(0)
        self.open = threading.Event()

    def __call__(self, asked):
        self.token.run_sync_soon(self.arrived.release)
        self.open.wait(30)
        return completion(asked.json["messages"][-1]["content"])


def deployment(system, server, **options):
    options = {
        "model": "m",
        "base_url": server.url,
        "api_key": KEY,
        "name": "model",
        "concurrency": 1,
        "retries": 0,
        "proxies": False,
    } | options
    return system.spawn(llm.OpenAICompatible, **options)


async def test_a_deployment_answers_a_completion():
    with loopback(completion("hi")) as server:
        async with rt.ActorSystem() as system:
            model = await deployment(system, server)
            answer = await model.ask(HELLO)
    assert answer == llm.Completion("hi", "served", llm.Usage(1, 7, 3), "stop")


async def test_requests_wait_in_the_mailbox_and_are_served_one_by_one_in_order():
    gate = Gate()
    with loopback(gate) as server:
        async with rt.ActorSystem() as system, trio.open_nursery() as nursery:
            model = await deployment(system, server)
            answers = []

            async def ask(text):
                answers.append((await model.ask(llm.Complete.of(text))).text)

            for text in "abc":
                nursery.start_soon(ask, text)
                await trio.testing.wait_all_tasks_blocked()
            await gate.arrived.acquire()
            assert sum(actor.queued for actor in system.actors()) == 3
            gate.open.set()
    assert answers == ["a", "b", "c"]
    assert server.busiest == 1


async def test_with_concurrency_as_many_requests_are_at_the_endpoint_at_once():
    gate = Gate()
    with loopback(gate) as server:
        async with rt.ActorSystem() as system:
            model = await deployment(system, server, concurrency=3)
            answers = []

            async def ask(text):
                answers.append((await model.ask(llm.Complete.of(text))).text)

            async with trio.open_nursery() as nursery:
                for text in "abcdef":
                    nursery.start_soon(ask, text)
                for _ in range(3):
                    await gate.arrived.acquire()
                gate.open.set()
            assert sorted(answers) == list("abcdef")
            assert server.busiest == 3
            await system.wait_quiet()
            statistics = system.statistics()
            assert statistics.sent == statistics.handled + statistics.dead_letters
            assert statistics.dead_letters == 0


@pytest.mark.parametrize("concurrency", [1, 2])
async def test_an_asker_that_gives_up_ends_its_request_at_the_endpoint_and_the_next_is_served(concurrency):
    gate = Gate()
    with loopback(gate) as server:
        async with rt.ActorSystem() as system:
            model = await deployment(system, server, concurrency=concurrency)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(model.ask, llm.Complete.of("x" * 10_000_000))
                await gate.arrived.acquire()
                nursery.cancel_scope.cancel()
            gate.open.set()
            assert await trio.to_thread.run_sync(server.hung_up.wait, 30)
            assert (await model.ask(HELLO)).text == "hello"
            assert all(actor.failures == 0 for actor in system.actors())


async def test_a_timed_out_ask_is_cancelled_at_the_endpoint_too():
    gate = Gate()
    with loopback(gate) as server:
        async with rt.ActorSystem() as system:
            model = await deployment(system, server)
            with pytest.raises(rt.AskTimeout):
                await model.ask(llm.Complete.of("x" * 1_000_000), timeout=1)
            gate.open.set()
            assert await trio.to_thread.run_sync(server.hung_up.wait, 30)


@pytest.mark.parametrize("concurrency", [1, 2])
async def test_a_models_error_is_an_answer_and_no_failure(concurrency):
    with loopback((500, {}, b"oh no")) as server:
        async with rt.ActorSystem() as system:
            model = await deployment(system, server, concurrency=concurrency)
            for _ in range(3):
                with pytest.raises(llm.ModelFailed, match="oh no"):
                    await model.ask(HELLO)
            assert all(actor.failures == actor.restarts == 0 for actor in system.actors())


async def test_without_the_operation_a_completion_is_denied_and_the_endpoint_is_not_asked():
    with loopback(completion("hi")) as server:
        async with rt.ActorSystem() as system:
            model = await deployment(system, server, concurrency=2)
            for permissions, allowed in ((["tool.*"], False), (["model.complete"], True)):
                caller = system.authority.mint(subject="ada", permissions=permissions)
                if allowed:
                    assert (await model.ask(HELLO, context=caller)).text == "hi"
                else:
                    with pytest.raises(rt.Denied, match=r"model\.complete"):
                        await model.ask(HELLO, context=caller)
    assert len(server.asked) == 1


async def test_every_handler_of_a_deployment_says_what_it_needs():
    async with rt.ActorSystem(strict=True) as system:
        model = await system.spawn(llm.Scripted, "hi")
        assert (await model.ask(HELLO)).text == "hi"


@pytest.mark.parametrize("wrong", [{"base_url": "nonsense"}, {"model": ""}, {"api_key": "two words"}])
async def test_what_cannot_work_is_told_to_the_spawner(wrong):
    async with rt.ActorSystem() as system:
        with pytest.raises(llm.BadEndpoint):
            await system.spawn(llm.OpenAICompatible, **{"model": "m", "base_url": "http://127.0.0.1:9/v1"} | wrong)
        assert system.actors() == []


@pytest.mark.parametrize("concurrency", [0, -1, True, 1.5, "2", 1025])
async def test_a_concurrency_that_is_none_is_told_to_the_spawner(concurrency):
    async with rt.ActorSystem() as system:
        with pytest.raises(ValueError, match="concurrency"):
            await system.spawn(llm.OpenAICompatible, model="m", base_url="http://127.0.0.1:9/v1", concurrency=concurrency)


async def test_a_stopped_deployment_has_closed_its_connections():
    with loopback(completion("hi")) as server:
        async with rt.ActorSystem() as system:
            model = await deployment(system, server)
            await model.ask(HELLO)
            endpoint = model._cell.actor._endpoint
        with pytest.raises(llm.ModelUnreachable, match="closed"):
            await endpoint.complete(HELLO)


async def test_a_system_that_stops_while_a_model_is_working_resolves_the_ask():
    gate = Gate()
    outcomes = []
    with loopback(gate) as server:
        async with trio.open_nursery() as nursery:
            async with rt.ActorSystem(grace=0.1) as system:
                model = await deployment(system, server)

                async def ask():
                    try:
                        await model.ask(HELLO)
                    except rt.RetinueError as error:
                        outcomes.append(error)

                nursery.start_soon(ask)
                await gate.arrived.acquire()
        gate.open.set()
    assert len(outcomes) == 1


async def test_a_scripted_model_says_its_lines_and_then_that_they_are_over():
    async with rt.ActorSystem() as system:
        model = await system.spawn(llm.Scripted, ["one", llm.RateLimited("later"), "three"])
        assert (await model.ask(HELLO)).text == "one"
        with pytest.raises(llm.RateLimited):
            await model.ask(HELLO)
        assert (await model.ask(HELLO)).text == "three"
        with pytest.raises(llm.ScriptEnded):
            await model.ask(HELLO)
        assert system.actors()[0].restarts == 0


async def test_a_function_of_the_script_that_fails_is_a_models_error_and_the_script_goes_on():
    async with rt.ActorSystem() as system:
        model = await system.spawn(llm.Scripted, [lambda _request: 1 // 0, lambda _request: None, "three"])
        with pytest.raises(llm.ModelError, match="ZeroDivisionError") as caught:
            await model.ask(HELLO)
        assert isinstance(caught.value.__cause__, ZeroDivisionError)
        with pytest.raises(llm.ModelError, match="NoneType"):
            await model.ask(HELLO)
        assert (await model.ask(HELLO)).text == "three"
        assert system.actors()[0].failures == 0


async def test_a_scripted_model_takes_its_time(autojump_clock):
    async with rt.ActorSystem(block_warning=float("inf")) as system:
        model = await system.spawn(llm.Scripted, "x", seconds=7)
        began = trio.current_time()
        await model.ask(HELLO)
        assert trio.current_time() - began == 7


@pytest.mark.parametrize("arguments", [(None,), ([5],)])
async def test_what_is_no_script_is_told_to_the_spawner(arguments):
    async with rt.ActorSystem() as system:
        with pytest.raises(TypeError, match="script"):
            await system.spawn(llm.Scripted, *arguments)
        with pytest.raises(ValueError, match="seconds"):
            await system.spawn(llm.Scripted, "x", seconds=-1)


async def test_the_embedded_model_without_weights_names_the_command(tmp_path, monkeypatch):
    monkeypatch.setattr("retinue.actors.llm.weights._installed", lambda _weights: [])
    async with rt.ActorSystem() as system:
        with pytest.raises(llm.ModelNotInstalled, match="retinue models pull smollm2"):
            await system.spawn(llm.Local, data_dir=tmp_path)


@pytest.mark.parametrize("kind", ["endpoint", "scripted"])
async def test_a_choice_becomes_an_actor(kind):
    with loopback(completion("from the endpoint")) as server:
        environ = {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": KEY, "RETINUE_MODEL": "m"}
        choice = llm.from_env(live=True, environ=environ) if kind == "endpoint" else llm.Choice(kind="scripted", model="scripted")
        async with rt.ActorSystem() as system:
            model = await choice.spawn(system)
            assert model.path == "/user/model"
            assert (await model.ask(HELLO)).model == {"endpoint": "served", "scripted": "scripted"}[kind]


@pytest.mark.slow
async def test_the_embedded_model_answers_as_an_actor_twice_in_one_process():
    choice = llm.from_env(live=False, environ={})
    if choice.kind != "local" or choice.weights is None:
        pytest.skip("the embedded model is not on this machine")
    for _ in range(2):
        async with rt.ActorSystem() as system:
            model = await choice.spawn(system)
            answers = []

            async def ask(model=model, answers=answers):
                answers.append(await model.ask(llm.Complete.of("Say hello.", max_tokens=8)))

            async with trio.open_nursery() as nursery:
                for _ in range(3):
                    nursery.start_soon(ask)
        assert [answer.model for answer in answers] == ["smollm2"] * 3
