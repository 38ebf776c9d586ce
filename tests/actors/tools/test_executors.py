"""Executors: a call of a tool is answered by a result, whatever the tool does."""

from __future__ import annotations

import math
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import attrs
import pytest
import trio

import retinue as rt
from retinue.actors.runtime import stepping
from retinue.actors.tools.executor import executor_class, spawn_executor
from retinue.capabilities.artifacts import ArtifactStore
from retinue.testing import VirtualClock


@pytest.fixture(params=["stepped", "scoped"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With the private attributes of trio that spare a scope, and without them."""
    if request.param == "scoped":
        monkeypatch.setattr(stepping, "supported", lambda: False)
    return request.param


async def result_of(tool: rt.Tool, arguments: dict[str, Any] | None = None, **options: Any) -> rt.ToolResult:
    async with rt.ActorSystem("tools", block_warning=math.inf) as system:
        executor = await spawn_executor(system, tool)
        return await executor.ask(tool.decode(arguments or {}), **options)


async def test_an_async_tool_that_never_waits_is_answered(way: str) -> None:
    @rt.tool
    async def add(a: int, b: int = 1) -> int:
        """Adds."""
        return a + b

    result = await result_of(add, {"a": 2})
    assert (result.ok, result.text, result.value, result.error) == (True, "3", 3, None)


async def test_an_async_tool_that_waits_is_answered(way: str) -> None:
    @rt.tool
    async def nap(seconds: float) -> str:
        """Sleeps."""
        with trio.CancelScope():
            await trio.sleep(seconds)
        return "slept"

    assert (await result_of(nap, {"seconds": 0.001})).text == "slept"


async def test_a_plain_tool_runs_in_a_thread_of_its_own() -> None:
    @rt.tool
    def where() -> str:
        """Where it runs."""
        return threading.current_thread().name

    @rt.tool(blocking=False)
    def here() -> str:
        """Where it runs."""
        return threading.current_thread().name

    assert (await result_of(where)).text != threading.current_thread().name
    assert (await result_of(here)).text == threading.current_thread().name


@pytest.mark.parametrize("blocking", [True, False])
async def test_a_generators_items_are_joined(blocking: bool) -> None:
    @rt.tool(blocking=blocking)
    def words(n: int) -> Iterator[str]:
        """Words."""
        yield from (f"w{number} " for number in range(n))

    assert (await result_of(words, {"n": 3})).text == "w0 w1 w2 "
    assert (await result_of(words, {"n": 0})).text == "done, no output"


async def test_an_asynchronous_generators_items_are_joined_others_than_texts_on_lines_of_their_own() -> None:
    @rt.tool
    async def rows(n: int) -> AsyncIterator[object]:
        """Rows."""
        yield "rows:"
        for number in range(n):
            await trio.lowlevel.checkpoint()
            yield {"row": number}

    assert (await result_of(rows, {"n": 2})).text == 'rows:\n{"row": 0}\n{"row": 1}'


async def test_an_asynchronous_generator_is_closed_at_its_time_out(autojump_clock: trio.testing.MockClock) -> None:
    closed = []

    @rt.tool(timeout=5)
    async def forever() -> AsyncIterator[str]:
        """Never ends."""
        try:
            while True:
                yield "x"
                await trio.sleep(1)
        finally:
            closed.append(trio.current_time())

    result = await result_of(forever)
    assert (result.error, len(closed)) == ("timeout", 1)


async def test_a_tool_that_takes_too_long_is_cancelled_and_the_text_says_how_long_it_had(way: str) -> None:
    ended = []

    @rt.tool(timeout=5)
    async def slow() -> str:
        """Never ends."""
        try:
            await trio.sleep(600)
        finally:
            ended.append(True)
        return "late"

    clock = VirtualClock()

    async def main() -> rt.ToolResult:
        return await result_of(slow)

    result = await trio.to_thread.run_sync(lambda: trio.run(main, clock=clock))
    assert (result.ok, result.error, ended) == (False, "timeout", [True])
    assert "'slow' did not end within 5 s" in result.text


async def test_a_tool_that_swallows_its_cancellation_and_returns_has_a_result(way: str, autojump_clock: trio.testing.MockClock) -> None:
    @rt.tool(timeout=5)
    async def saves() -> str:
        """Gives what it has."""
        with trio.move_on_after(1):
            await trio.sleep(600)
        return "what there was"

    assert (await result_of(saves)).text == "what there was"


@pytest.mark.parametrize(
    "error",
    [
        ValueError("no such place"),
        SystemExit(3),
        KeyboardInterrupt(),
        StopIteration(1),
        RecursionError("deep"),
        BaseException("odd"),
        GeneratorExit("odd"),
    ],
)
@pytest.mark.parametrize("kind", ["async", "thread", "inline", "late"])
async def test_whatever_a_tool_raises_is_a_result_and_the_executor_goes_on(kind: str, error: BaseException) -> None:
    if kind in ("async", "late"):

        async def fails(go: bool) -> str:
            """Fails."""
            if kind == "late":
                await trio.lowlevel.checkpoint()
            if go:
                return "fine"
            raise error
    else:

        def fails(go: bool) -> str:  # type: ignore[misc]
            """Fails."""
            if go:
                return "fine"
            raise error

    tool = rt.tool(blocking=False if kind == "inline" else None)(fails)
    async with rt.ActorSystem("tools", block_warning=math.inf) as system:
        executor = await spawn_executor(system, tool)
        failed = await executor.ask(tool.decode({"go": False}))
        assert (failed.ok, failed.error) == (False, "raised")
        if not isinstance(error, StopIteration) or kind in ("thread", "inline"):
            assert type(error).__name__ in failed.text and str(error) in failed.text
        assert "Traceback" not in failed.text and __file__ not in failed.text
        assert (await executor.ask(tool.decode({"go": True}))).text == "fine"


@pytest.mark.parametrize("way_to_run", ["async", "late", "inline", "items", "thread", "asyncio"])
@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3), GeneratorExit()])
async def test_whatever_happens_when_a_result_is_looked_at_the_system_goes_on(way_to_run: str, error: BaseException) -> None:
    class Trap(Exception):
        def __repr__(self) -> str:
            raise error

        __str__ = __repr__

    async def gives(raises: bool) -> Any:
        """Gives what must not be looked at."""
        if way_to_run == "late":
            await trio.lowlevel.checkpoint()
        if raises:
            raise Trap
        return [Trap()]

    def gives_at_once(raises: bool) -> Any:
        """The same."""
        if raises:
            raise Trap
        return [Trap()]

    async def items(raises: bool) -> AsyncIterator[Any]:
        """One of these."""
        yield gives_at_once(raises)

    function: Any = {"inline": gives_at_once, "thread": gives_at_once, "items": items}.get(way_to_run, gives)
    tool: Any = rt.tool(blocking=False if way_to_run == "inline" else None, loop="asyncio" if way_to_run == "asyncio" else "trio")(function)
    async with rt.ActorSystem("tools", block_warning=math.inf) as system:
        executor = await spawn_executor(system, tool)
        for raises in (False, True):
            result = await executor.ask(tool.decode({"raises": raises}))
            assert result.ok is not raises
            assert ("Trap" if raises else "cannot be shown") in result.text


@pytest.mark.parametrize(
    "result",
    [
        rt.ToolResult(True, None),  # type: ignore[arg-type]
        rt.ToolResult(True, 5),  # type: ignore[arg-type]
        rt.ToolResult("yes", "x"),  # type: ignore[arg-type]
        rt.ToolResult(False, "x", 7),  # type: ignore[arg-type]
        rt.ToolResult(False, "x", "odd"),  # type: ignore[arg-type]
        rt.ToolResult(True, "x", "raised"),
        rt.ToolResult(True, "x", None, None, "artifact"),  # type: ignore[arg-type]
        rt.ToolResult(True, "x", None, None, None, "soon"),  # type: ignore[arg-type]
    ],
)
async def test_a_tool_result_that_a_tool_makes_itself_is_checked(result: rt.ToolResult) -> None:
    @rt.tool
    async def gives() -> Any:
        """Gives a result."""
        return result

    found = await result_of(gives)
    assert (found.ok, found.error) == (False, "raised") and "returned a ToolResult" in found.text


async def test_a_group_of_exceptions_is_one_result() -> None:
    @rt.tool
    async def several() -> None:
        """Fails twice."""
        raise ExceptionGroup("two", [ValueError("first"), KeyError("second")])

    text = (await result_of(several)).text
    assert "ValueError: first" in text and "KeyError: 'second'" in text


@pytest.mark.parametrize("then", ["returns", "waits", "raises"])
async def test_a_tool_that_opens_a_scope_and_never_leaves_it_is_told_so_and_nobody_else_suffers(way: str, then: str) -> None:
    @rt.tool
    async def sloppy() -> str:
        """Leaves a scope open."""
        trio.CancelScope().__enter__()
        if then == "waits":
            await trio.lowlevel.checkpoint()
        if then == "raises":
            raise ValueError("no scope")
        return "left open"

    @rt.tool
    async def fine() -> str:
        """Fine."""
        with trio.move_on_after(5):
            await trio.lowlevel.checkpoint()
        return "fine"

    async with rt.ActorSystem("tools", block_warning=math.inf) as system:
        executor, other = await spawn_executor(system, sloppy), await spawn_executor(system, fine)
        result = await executor.ask(sloppy.decode({}))
        assert result.error == "raised" and "scope" in result.text
        with trio.move_on_after(5) as scope:
            assert (await other.ask(fine.decode({}))).text == "fine"
        assert not scope.cancelled_caught


async def test_a_plain_function_that_returns_a_coroutine_is_told_to_be_written_otherwise() -> None:
    async def inner() -> str:
        return "x"

    @rt.tool
    def outer() -> object:
        """Forgets something."""
        return inner()

    result = await result_of(outer)
    assert result.error == "raised" and "async def" in result.text


async def test_a_tool_may_give_a_result_of_its_own_and_none_is_said_in_words() -> None:
    @rt.tool
    async def own(ok: bool) -> rt.ToolResult:
        """Says itself how it went."""
        return rt.ToolResult(ok, "as I say \ud83d", None if ok else "outcome_unknown")

    @rt.tool
    async def nothing() -> None:
        """Nothing."""

    assert await result_of(own, {"ok": False}) == rt.ToolResult(False, "as I say \ufffd", "outcome_unknown")
    assert (await result_of(nothing)).text == "done, no output"


async def test_a_hundred_megabytes_of_output_are_cut_to_head_and_tail() -> None:
    @rt.tool(output_limit=1_000)
    def huge() -> str:
        """A lot."""
        return "a" + "x" * 100_000_000 + "z"

    result = await result_of(huge)
    assert result.ok and len(result.text) < 1_200
    assert result.text.startswith("axx") and result.text.endswith("xxz") and "100,000,002" in result.text


@pytest.mark.parametrize("kind", ["async", "thread", "inline", "raises"])
async def test_a_long_output_is_kept_as_an_artifact_of_whose_it_is(kind: str) -> None:
    text = "a" + "x" * 5_000 + "z"

    async def in_the_loop() -> str:
        """Long."""
        return text

    def plain() -> str:
        """Long."""
        return text

    async def raises() -> rt.ToolResult:
        """Long, and no success."""
        return rt.ToolResult(False, text, "raised")

    function: Any = {"async": in_the_loop, "raises": raises}.get(kind, plain)
    tool = rt.tool(output_limit=1_000, blocking=False if kind == "inline" else None)(function)
    store = ArtifactStore()
    async with rt.ActorSystem("tools", block_warning=math.inf) as system:
        executor = await spawn_executor(system, tool, artifacts=store)
        ada = system.authority.mint(subject="ada", tenant="acme", permissions=["tool.**"])
        result = await executor.ask(tool.decode({}), context=ada)
    assert result.ok == (kind != "raises") and len(result.text) <= 1_000 and result.artifact is not None
    assert result.artifact.handle in result.text and result.artifact.characters == len(text)
    owner = ("acme", "ada", None)
    assert store.read(result.artifact.handle, 0, 10, owner=owner).text.endswith("axxxxxxxxx")
    assert not store.read(result.artifact.handle, 0, 10).ok  # nobody else's


async def test_an_operation_that_is_not_granted_is_refused_before_the_tool_runs() -> None:
    ran = []

    @rt.tool
    async def secret(x: int) -> str:
        """Never for her."""
        ran.append(x)
        return "s"

    async with rt.ActorSystem("tools") as system:
        executor = await spawn_executor(system, secret)
        eve = system.authority.mint(subject="eve", permissions=["tool.other"])
        with pytest.raises(rt.Denied, match=r"tool\.secret"):
            await executor.ask(secret.decode({"x": 1}), context=eve)
        narrow = system.authority.mint(subject="ada", permissions=[rt.allow("tool.secret", x=rt.one_of(1))])
        assert (await executor.ask(secret.decode({"x": 1}), context=narrow)).ok
        with pytest.raises(rt.Denied):
            await executor.ask(secret.decode({"x": 2}), context=narrow)
    assert ran == [1]


async def test_a_consent_is_for_the_tools_code_and_any_worker_redeems_it() -> None:
    ran = []

    @rt.tool(approval=True)
    async def pay(amount: int) -> str:
        """Pays."""
        ran.append(amount)
        return "paid"

    async with rt.ActorSystem("tools") as system:
        executor = await spawn_executor(system, pay)
        with pytest.raises(rt.ApprovalRequired) as required:
            await executor.ask(pay.decode({"amount": 5}))
        assert required.value.requests[0].arguments == {"amount": 5}
        token = await system.approvals.approve(required.value.requests[0].id, reviewer="carol")
        assert (await executor.ask(pay.decode({"amount": 5}), approvals=[token])).text == "paid"
        with pytest.raises(rt.ApprovalRequired):
            await executor.ask(pay.decode({"amount": 6}), approvals=[token])
    assert ran == [5]


async def test_a_refusal_of_what_a_tool_asks_for_is_a_result() -> None:
    @rt.message
    class Read(rt.Request[str]):
        name: str

    class Files(rt.Actor):
        @rt.handler(requires="files.read")
        def read(self, message: Read) -> str:
            return f"content of {message.name}"

    async with rt.ActorSystem("tools", block_warning=math.inf) as system:
        files = await system.spawn(Files)

        @rt.tool
        async def read_async(name: str, context: rt.ToolContext) -> str:
            """Reads."""
            return await context.ask(files, Read(name))

        @rt.tool
        def read_plain(name: str, context: rt.ToolContext) -> str:
            """Reads."""
            return context.ask_from_thread(files, Read(name))

        @rt.tool(loop="asyncio")
        async def read_asyncio(name: str, context: rt.ToolContext) -> str:
            """Reads."""
            return await context.ask(files, Read(name))

        eve = system.authority.mint(subject="eve", permissions=["tool.*"])
        for tool in (read_async, read_plain, read_asyncio):
            executor = await spawn_executor(system, tool)
            assert (await executor.ask(tool.decode({"name": "a"}))).text == "content of a"
            refused = await executor.ask(tool.decode({"name": "a"}), context=eve)
            assert (refused.ok, refused.error) == (False, "denied") and "files.read" in refused.text


async def test_a_tool_is_told_for_whom_it_works_and_who_asked() -> None:
    seen: list[rt.ToolContext] = []

    @rt.tool
    async def look(context: rt.ToolContext) -> str:
        """Looks."""
        seen.append(context)
        return f"{context.tool} {context.subject} {context.tenant} {context.caller} {context.approval}"

    @rt.message
    class Go(rt.Request[str]): ...

    class Asker(rt.Actor):
        def __init__(self, executor: rt.Ref[Any]) -> None:
            self.executor = executor

        @rt.handler
        async def go(self, message: Go) -> str:
            return (await self.executor.ask(look.decode({}))).text

    async with rt.ActorSystem("tools") as system:
        executor = await spawn_executor(system, look)
        asker = await system.spawn(Asker, executor, name="asker")
        ada = system.authority.mint(subject="ada", tenant="acme", permissions=["tool.look"])
        assert await asker.ask(Go(), context=ada) == "look ada acme /user/asker None"
        with pytest.raises(RuntimeError, match="over"):  # a context that a tool has kept
            await seen[0].ask(asker, Go())


async def test_what_a_tool_keeps_is_made_once_and_closed_with_the_executor() -> None:
    made, closed = [], []

    class Connection:
        def __init__(self) -> None:
            made.append(self)

        async def aclose(self) -> None:
            closed.append(self)

    @rt.tool
    async def use(context: rt.ToolContext) -> str:
        """Uses."""
        await context.keep("connection", Connection)
        return "used"

    async with rt.ActorSystem("tools") as system:
        executor = await spawn_executor(system, use)
        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(executor.ask, use.decode({}))
        assert (len(made), closed) == (1, [])
    assert closed == made


async def test_what_is_kept_for_a_caller_is_closed_when_the_caller_ends(autojump_clock: trio.testing.MockClock) -> None:
    closed: list[str] = []

    @attrs.frozen
    class Thing:
        name: str

        def close(self) -> None:
            closed.append(self.name)

    @rt.tool
    async def use(context: rt.ToolContext) -> str:
        """Uses."""
        thing = await context.keep("thing", lambda: Thing(str(context.caller)), per_caller=True)
        return thing.name

    @rt.message
    class Go(rt.Request[str]): ...

    class Asker(rt.Actor):
        def __init__(self, executor: rt.Ref[Any]) -> None:
            self.executor = executor

        @rt.handler
        async def go(self, message: Go) -> str:
            return (await self.executor.ask(use.decode({}))).text

    async with rt.ActorSystem("tools") as system:
        executor = await spawn_executor(system, use)
        first, second = await system.spawn(Asker, executor, name="first"), await system.spawn(Asker, executor, name="second")
        assert [await first.ask(Go()), await second.ask(Go()), await first.ask(Go())] == ["/user/first", "/user/second", "/user/first"]
        await first.stop()
        await trio.sleep(1)
        assert closed == ["/user/first"]
    assert closed == ["/user/first", "/user/second"]


async def test_an_asker_who_gives_up_cancels_the_tool(autojump_clock: trio.testing.MockClock) -> None:
    ended: list[float] = []

    @rt.tool
    async def slow() -> None:
        """Never ends."""
        try:
            await trio.sleep_forever()
        finally:
            ended.append(trio.current_time())

    async with rt.ActorSystem("tools") as system:
        executor = await spawn_executor(system, slow)
        began = trio.current_time()
        with trio.move_on_after(3):
            await executor.ask(slow.decode({}))
        assert trio.current_time() - began < 3.1
    assert len(ended) == 1


async def test_as_many_calls_run_at_once_as_the_tool_says(autojump_clock: trio.testing.MockClock) -> None:
    now = most = 0

    @rt.tool(concurrency=3)
    async def busy() -> str:
        """Works."""
        nonlocal now, most
        now += 1
        most = max(most, now)
        await trio.sleep(1)
        now -= 1
        return "x"

    async with rt.ActorSystem("tools") as system:
        executor = await spawn_executor(system, busy)
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            for _ in range(9):
                nursery.start_soon(executor.ask, busy.decode({}))
        assert (most, round(trio.current_time() - began)) == (3, 3)


async def test_the_class_of_a_tools_executors_is_made_once_and_kept_with_the_tool() -> None:
    @rt.tool
    async def f() -> str:
        """F."""
        return "x"

    assert executor_class(f) is executor_class(f) is f.executor


async def test_what_is_kept_outlives_a_worker_that_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    class Thing:
        def __init__(self) -> None:
            made.append(self)

        def close(self) -> None:
            raise SystemExit(3)

    @rt.tool
    async def uses(context: rt.ToolContext) -> str:
        """Uses what is kept."""
        await context.keep("thing", Thing)
        return "used"

    async with rt.ActorSystem("tools", block_warning=math.inf) as system:
        executor = await spawn_executor(system, uses)
        assert (await executor.ask(uses.decode({}))).text == "used"
        with monkeypatch.context() as patch:
            patch.setattr("retinue.actors.tools.executor.finished", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                await executor.ask(uses.decode({}))
        assert (await executor.ask(uses.decode({}))).text == "used"
        assert len(made) == 1
