"""Plain tools in threads that hang, and asyncio tools: nothing waits for ever, and nobody else suffers."""

from __future__ import annotations

import asyncio
import contextvars
import math
import threading
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import trio

import retinue as rt
from retinue.actors.tools.executor import spawn_executor
from retinue.actors.tools.household import Household, Job


class Gate:
    """Threads wait at it until the test lets them go."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.waiting = threading.Semaphore(0)

    def __call__(self) -> str:
        self.waiting.release()
        self.open.wait(20)
        return "went through"


@pytest.fixture
def gate() -> Iterator[Gate]:
    made = Gate()
    yield made
    made.open.set()


def tools_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("retinue tool")]


async def test_a_hung_thread_is_left_behind_at_the_time_out_and_the_result_says_so(gate: Gate) -> None:
    @rt.tool(timeout=0.05)
    def hang() -> str:
        """Hangs."""
        return gate()

    async with rt.ActorSystem("tools", block_warning=math.inf) as system:
        executor = await spawn_executor(system, hang)
        result = await executor.ask(hang.decode({}))
        assert result.error == "timeout" and "may still be running" in result.text and "0.05 s" in result.text


async def test_a_cancelled_asker_does_not_wait_for_a_hung_thread(gate: Gate) -> None:
    @rt.tool
    def hang() -> str:
        """Hangs."""
        return gate()

    async with rt.ActorSystem("tools", block_warning=math.inf) as system:
        executor = await spawn_executor(system, hang)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(executor.ask, hang.decode({}))
            await trio.to_thread.run_sync(gate.waiting.acquire)
            began = trio.current_time()
            nursery.cancel_scope.cancel()
        assert trio.current_time() - began < 1
        began = trio.current_time()
    assert trio.current_time() - began < 2  # nor does the system's end


async def test_once_all_threads_hang_a_call_is_answered_at_once_and_goes_through_again_when_one_comes_back(gate: Gate) -> None:
    @rt.tool(timeout=0.5, concurrency=2)  # long enough for a thread to begin on a busy machine
    def hang(really: bool) -> str:
        """Hangs."""
        return gate() if really else "did not"

    async with rt.ActorSystem("tools", block_warning=math.inf) as system:
        executor = await spawn_executor(system, hang)
        for _ in range(2):
            assert (await executor.ask(hang.decode({"really": True}))).error == "timeout"
        refused = await executor.ask(hang.decode({"really": False}))
        assert refused.error == "timeout" and "not started" in refused.text and "all 2 threads" in refused.text
        gate.open.set()
        with trio.fail_after(10):
            while not (result := await executor.ask(hang.decode({"really": False}))).ok:
                await trio.sleep(0.01)
        assert result.text == "did not"


async def test_a_call_that_finds_no_free_thread_in_its_time_says_that_it_was_not_started(gate: Gate) -> None:
    @rt.tool(timeout=0.1, concurrency=1)
    def hang() -> str:
        """Hangs."""
        return gate()

    async with rt.ActorSystem("tools", block_warning=math.inf) as system:
        executor = await spawn_executor(system, hang)
        results = []

        async def ask() -> None:
            results.append(await executor.ask(hang.decode({})))

        async with trio.open_nursery() as nursery:
            for _ in range(2):
                nursery.start_soon(ask)
    assert sorted("not started" in result.text for result in results) == [False, True]


def test_a_call_that_was_given_up_before_its_thread_began_is_never_run() -> None:
    tool = rt.tool(lambda_tool)
    household = Household(tool, None)
    early, begun, over = Job(), Job(), Job()
    assert not household.give_up(early) and not household.begin(early)
    assert household.begin(begun) and household.give_up(begun) and household.stuck == 1
    household.end(begun)
    assert household.stuck == 0
    assert household.begin(over)
    household.end(over)
    assert not household.give_up(over) and household.stuck == 0


def lambda_tool() -> str:
    """Nothing."""
    return "x"


async def test_a_generator_that_was_given_up_is_closed_at_its_next_item() -> None:
    closed = threading.Event()

    @rt.tool(timeout=0.05)
    def forever() -> Iterator[str]:
        """Never ends."""
        try:
            while True:
                yield "x"
                time.sleep(0.01)
        finally:
            closed.set()

    async with rt.ActorSystem("tools", block_warning=math.inf) as system:
        executor = await spawn_executor(system, forever)
        assert (await executor.ask(forever.decode({}))).error == "timeout"
        assert await trio.to_thread.run_sync(closed.wait, 10)


async def test_a_thread_whose_call_is_over_cannot_ask_in_its_name(gate: Gate) -> None:
    outcome: list[BaseException] = []
    done = threading.Event()

    @rt.message
    class Ping(rt.Request[str]): ...

    class Echo(rt.Actor):
        @rt.handler
        def ping(self, message: Ping) -> str:
            return "pong"

    async with rt.ActorSystem("tools", block_warning=math.inf) as system:
        echo = await system.spawn(Echo)

        @rt.tool(timeout=0.05)
        def late(context: rt.ToolContext) -> str:
            """Asks late."""
            gate()
            try:
                return context.ask_from_thread(echo, Ping())
            except BaseException as error:
                outcome.append(error)
                raise
            finally:
                done.set()

        executor = await spawn_executor(system, late)
        assert (await executor.ask(late.decode({}))).error == "timeout"
        gate.open.set()
        assert await trio.to_thread.run_sync(done.wait, 10)
    assert isinstance(outcome[0], RuntimeError) and "over" in str(outcome[0])


async def test_a_tool_in_the_loop_cannot_wait_there() -> None:
    @rt.tool(blocking=False)
    def impatient(context: rt.ToolContext) -> str:
        """Waits where nobody may."""
        return context.ask_from_thread(None, None)

    async with rt.ActorSystem("tools") as system:
        executor = await spawn_executor(system, impatient)
        result = await executor.ask(impatient.decode({}))
        assert result.error == "raised" and "await context.ask" in result.text


# -- asyncio


async def test_an_asyncio_tool_runs_on_asyncio_and_its_thread_ends_with_the_executor() -> None:
    variable = contextvars.ContextVar("variable", default="unset")

    @rt.tool(loop="asyncio")
    async def nap(seconds: float) -> str:
        """Sleeps."""
        await asyncio.sleep(seconds)
        return f"slept, {variable.get()}, {asyncio.get_running_loop().is_running()}"

    async with rt.ActorSystem("tools", block_warning=math.inf) as system:
        executor = await spawn_executor(system, nap)
        assert tools_threads() == []  # started when it is needed
        assert (await executor.ask(nap.decode({"seconds": 0.001}))).text == "slept, unset, True"
        assert tools_threads() == ["retinue tool nap"]
    assert tools_threads() == []


async def test_asyncio_calls_run_beside_each_other() -> None:
    meeting = asyncio.Event()
    arrived = []

    @rt.tool(loop="asyncio", timeout=10)
    async def meet(name: str) -> str:
        """Waits for the other."""
        arrived.append(name)
        if len(arrived) == 2:
            meeting.set()
        await meeting.wait()
        return name

    async with rt.ActorSystem("tools", block_warning=math.inf) as system:
        executor = await spawn_executor(system, meet)
        texts = []

        async def ask(name: str) -> None:
            texts.append((await executor.ask(meet.decode({"name": name}))).text)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, "a")
            nursery.start_soon(ask, "b")
    assert sorted(texts) == ["a", "b"]


@pytest.mark.parametrize("how", ["time-out", "cancel"])
async def test_an_asyncio_tool_is_cancelled_on_its_own_loop(how: str) -> None:
    began, cancelled = threading.Event(), threading.Event()

    @rt.tool(loop="asyncio", timeout=0.05 if how == "time-out" else 60)
    async def slow() -> str:
        """Never ends."""
        began.set()
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return "late"

    async with rt.ActorSystem("tools", block_warning=math.inf) as system:
        executor = await spawn_executor(system, slow)
        if how == "time-out":
            result = await executor.ask(slow.decode({}))
            assert result.error == "timeout" and "was cancelled" in result.text
        else:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(executor.ask, slow.decode({}))
                await trio.to_thread.run_sync(began.wait, 10)
                at = trio.current_time()
                nursery.cancel_scope.cancel()
            assert trio.current_time() - at < 1
        assert await trio.to_thread.run_sync(cancelled.wait, 10)


async def test_a_blocked_asyncio_loop_is_left_behind_and_the_next_call_has_another() -> None:
    release = threading.Event()

    @rt.tool(loop="asyncio", timeout=0.05)
    async def blocks(really: bool) -> str:
        """Blocks its loop."""
        if really:
            release.wait(20)
        return "fine"

    try:
        async with rt.ActorSystem("tools", block_warning=math.inf) as system:
            executor = await spawn_executor(system, blocks)
            result = await executor.ask(blocks.decode({"really": True}))
            assert result.error == "timeout" and "blocked" in result.text
            assert (await executor.ask(blocks.decode({"really": False}))).text == "fine"
            for _ in range(3):
                assert (await executor.ask(blocks.decode({"really": True}))).error == "timeout"
            refused = await executor.ask(blocks.decode({"really": False}))
            assert refused.error == "timeout" and "not started" in refused.text
    finally:
        release.set()
    with trio.fail_after(10):
        while tools_threads():
            await trio.sleep(0.01)


async def test_an_asyncio_generators_items_are_joined() -> None:
    @rt.tool(loop="asyncio")
    async def items(n: int) -> AsyncIterator[str]:
        """Items."""
        for number in range(n):
            await asyncio.sleep(0)
            yield str(number)

    async with rt.ActorSystem("tools", block_warning=math.inf) as system:
        executor = await spawn_executor(system, items)
        assert (await executor.ask(items.decode({"n": 3}))).text == "012"


@pytest.mark.parametrize("error", [ValueError("odd"), SystemExit(2), KeyboardInterrupt(), asyncio.CancelledError()])
async def test_what_an_asyncio_tool_raises_is_a_result_and_its_loop_goes_on(error: BaseException) -> None:
    @rt.tool(loop="asyncio")
    async def fails(go: bool) -> str:
        """Fails."""
        if go:
            return "fine"
        raise error

    async with rt.ActorSystem("tools", block_warning=math.inf) as system:
        executor = await spawn_executor(system, fails)
        failed = await executor.ask(fails.decode({"go": False}))
        assert failed.error == "raised" and type(error).__name__ in failed.text
        assert (await executor.ask(fails.decode({"go": True}))).text == "fine"


@pytest.mark.parametrize("how", ["stops", "left a task", "left a callback"])
async def test_an_asyncio_loop_that_a_tool_would_end_goes_on_for_all(how: str) -> None:
    left: list[asyncio.Task[None]] = []

    async def bad() -> None:
        raise SystemExit(3)

    def worse() -> None:
        raise KeyboardInterrupt

    @rt.tool(loop="asyncio", timeout=5)
    async def spoils(really: bool) -> str:
        """Spoils."""
        loop = asyncio.get_running_loop()
        if really and how == "stops":
            loop.stop()
        elif really and how == "left a task":
            left.append(loop.create_task(bad()))
        elif really:
            loop.call_soon(worse)
        await asyncio.sleep(0.01)
        return "fine"

    async with rt.ActorSystem("tools", block_warning=math.inf) as system:
        executor = await spawn_executor(system, spoils)
        for really in (True, False, True, False):
            async with trio.open_nursery() as nursery:
                for _ in range(3):
                    nursery.start_soon(executor.ask, spoils.decode({"really": False}))
                assert (await executor.ask(spoils.decode({"really": really}))).text == "fine"
    assert all(isinstance(task.exception(), SystemExit) for task in left)


async def test_nothing_is_left_of_a_normal_run() -> None:
    @rt.tool
    def plain() -> str:
        """Plain."""
        return "x"

    @rt.tool(loop="asyncio")
    async def on_asyncio() -> str:
        """On asyncio."""
        return "x"

    async def run(tool: Any) -> None:
        async with rt.ActorSystem("tools", block_warning=math.inf) as system:
            executor = await spawn_executor(system, tool)
            assert (await executor.ask(tool.decode({}))).ok

    before = {thread.ident for thread in threading.enumerate()}
    await run(plain)
    await run(on_asyncio)
    left = [thread.name for thread in threading.enumerate() if thread.ident not in before and not thread.name.startswith("Trio thread")]
    assert left == []
