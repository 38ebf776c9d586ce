"""Executors: the actors that run tools. One pool a tool, its workers made as they are needed; the gate before it decides whether a call may be.

A call is asked with the message that `Tool.decode` makes, and always answered by a `ToolResult`: what the function gave, or what went wrong. Nothing that a tool does, raises or
fails to do is a failure of its executor.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Awaitable, Callable
from types import CoroutineType
from typing import TYPE_CHECKING, Any, ClassVar, Final

import trio

from retinue.actors.runtime.actor import Actor, handler, handlers_of
from retinue.actors.runtime.pools import Pool
from retinue.actors.runtime.stepping import run_context
from retinue.actors.tools.bounding import LEFT_OPEN, finish_within, owned, shed
from retinue.actors.tools.hosting import Host
from retinue.actors.tools.household import Household, Job
from retinue.actors.tools.rendering import Joined
from retinue.actors.tools.results import finished, is_not_the_tools, late, raised, timed
from retinue.actors.tools.spans import call_begins, call_ends
from retinue.capabilities.artifacts import ArtifactStore, head_and_tail
from retinue.capabilities.tool_context import ToolContext
from retinue.capabilities.tool_results import ToolResult

if TYPE_CHECKING:
    from retinue.actors.runtime.context import ActorContext
    from retinue.actors.runtime.ref import Ref
    from retinue.actors.runtime.system import ActorSystem
    from retinue.actors.runtime.watch import StopReason
    from retinue.capabilities.tools import Tool
    from retinue.mailbox.messages import Request

__all__ = ["ToolExecutor", "executor_class", "spawn_executor"]

MOST_WORKERS: Final = 1024
"""Calls of one tool at the same time, whatever its `concurrency` says: as many as a pool may have workers."""


class ToolExecutor(Actor):
    """The base of all executors; `executor_class` derives one for each tool.

    Attributes:
        tool: The tool.
    """

    tool: ClassVar[Tool[..., Any]]
    _instead_of_blocking: ClassVar[str] = (
        "A tool that waits without await is written as a plain `def` (without blocking=False): then it runs in a thread"
    )

    _span_begins = call_begins
    _span_ends = call_ends

    def __init__(self, household: Household) -> None:
        self.household = household

    def on_start(self) -> None:
        """One more worker."""
        self.household.enter()

    async def on_stop(self, reason: StopReason) -> None:
        """One worker less; the last one closes what they share. One that only begins anew leaves everything."""
        await self.household.leave(close=reason != "restart")

    def within(self, result: ToolResult) -> ToolResult:
        """The result within the tool's bound: of a longer one head and tail, and the whole of it in the store for artifacts, where there is one."""
        text, limit = result.text, self.tool.output_limit
        if len(text) <= limit:
            return result
        store = self.household.artifacts
        if store is None:
            return ToolResult(result.ok, head_and_tail(text, limit), result.error, None, result.artifact, result.seconds)
        turn = self.ctx
        sender, security = turn.sender, turn.security
        artifact = store.keep(text, (security.tenant, security.subject, None if sender is None else sender.path), preview=limit)
        return ToolResult(result.ok, artifact.preview, result.error, None, artifact, result.seconds)


async def spawn_executor(
    owner: ActorContext | ActorSystem, tool: Tool[..., Any], *, name: str | None = None, artifacts: ArtifactStore | None = None
) -> Ref[Any]:
    """Starts what runs a tool.

        executor = await spawn_executor(system, tool)
        result = await executor.ask(tool.decode('{"city": "Paris"}'))

    Args:
        owner: An actor's `self.ctx`, whose child it becomes, or the system.
        tool: The tool. A call needs `tool.requires`; the tool's approval, risk and four_eyes hold for it.
        name: Its name. Default: "tool-" and the tool's name.
        artifacts: Where outputs that are longer than the tool's `output_limit` are kept, for whoever made the call to read on. Default: nowhere; what is cut is lost.

    Returns:
        The ref to ask. It takes as many calls at the same time as the tool's `concurrency` says, 1,024 at most; more wait. A call that nobody waits for any more is
        cancelled: async code at once, a process is killed, a thread is left to itself.

    Raises:
        DefinitionError: The tool cannot be run as its options say.
    """
    cls = executor_class(tool)
    return await owner.spawn_pool(
        cls, Household(tool, artifacts), pool=Pool.elastic(min(tool.concurrency, MOST_WORKERS)), name=name or f"tool-{tool.wire_name}"
    )


def executor_class(tool: Tool[..., Any]) -> type[ToolExecutor]:
    """The class of a tool's executors, made once and kept with the tool."""
    made = getattr(tool, "executor", None)
    if made is None:
        made = _make(tool)
        tool.executor = made
    return made


def _make(tool: Tool[..., Any]) -> type[ToolExecutor]:
    call = _handler_of(tool)
    call.__name__ = "call"
    call.__qualname__ = f"{tool.name}.call"
    call.__annotations__ = {"message": tool.message, "return": ToolResult}
    marked = handler(requires=tool.requires, risk=tool.risk, approval=tool.approval, four_eyes=tool.four_eyes)(call)
    name = f"Executor of {tool.name}"
    made = type(name, (ToolExecutor,), {"call": marked, "tool": tool, "__module__": __name__, "__doc__": f"Runs {tool.name!r}."})
    handlers_of(made)[tool.message].define(tool.definition)  # a consent is for the tool's code, not for this module's
    return made


def _handler_of(tool: Tool[..., Any]) -> Callable[..., Awaitable[ToolResult]]:
    if tool.process:
        return _in_process(tool)
    if tool.in_thread:
        return _in_thread(tool)
    if tool.loop == "asyncio":
        return _on_asyncio(tool)
    return _in_loop(tool)


# -- how a call is run, one function a way. Each makes its handler once, at definition ------------------------------------------------------------


def _in_loop(tool: Tool[..., Any]) -> Callable[..., Awaitable[ToolResult]]:
    if tool.kind == "async":
        return _awaited(tool)
    invoke, takes_context, items = tool.invoke, tool.context_parameter is not None, tool.kind != "def"
    current_time, limit = trio.current_time, tool.output_limit

    async def call(self: ToolExecutor, message: Request[ToolResult]) -> ToolResult:
        host = Host(self) if takes_context else None
        began = current_time()
        suspended = False
        try:
            value = invoke(message, None if host is None else host.context())
            if items:
                suspended = True
                with trio.CancelScope(deadline=began + tool.timeout) as scope:
                    value = await owned(_collected(value))
                if scope.cancelled_caught:
                    return late(tool, "it was cancelled")
        except BaseException as error:
            if is_not_the_tools(error, suspended):
                raise
            return self.within(raised(tool, error, current_time() - began))
        finally:
            if host is not None:
                host.close()
        result = finished(tool, value, current_time() - began)
        return result if len(result.text) <= limit else self.within(result)

    return call


def _awaited(tool: Tool[..., Any]) -> Callable[..., Awaitable[ToolResult]]:
    invoke, takes_context, timeout, limit = tool.invoke, tool.context_parameter is not None, tool.timeout, tool.output_limit

    async def call(self: ToolExecutor, message: Request[ToolResult]) -> ToolResult:
        host = Host(self) if takes_context else None
        current_time = trio.lowlevel.current_clock().current_time  # the clock's own, for it is asked twice
        began = current_time()
        base = run_context.task._cancel_status if self._cell.kernel.inline_async else None
        scope: trio.CancelScope | None = None
        value: Any = None
        suspended = False
        try:
            coroutine = invoke(message, None if host is None else host.context())
            if base is None or type(coroutine) is not CoroutineType:
                suspended = True
                with trio.CancelScope(deadline=began + timeout) as scope:
                    value = await (owned(coroutine) if type(coroutine) is CoroutineType else coroutine)
            else:
                try:
                    trap = coroutine.send(None)
                except StopIteration as stop:
                    value = stop.value
                    if run_context.task._cancel_status is not base:
                        raise RuntimeError(LEFT_OPEN) from None
                else:
                    suspended = True
                    scope = trio.CancelScope(deadline=began + timeout)
                    value = await finish_within(coroutine, trap, base, scope)
        except BaseException as error:
            if scope is None and base is not None and run_context.task._cancel_status is not base:
                shed(base)
            if is_not_the_tools(error, suspended):
                raise
            return self.within(raised(tool, error, current_time() - began))
        finally:
            if host is not None:
                host.close()
        if scope is not None and scope.cancelled_caught:
            return late(tool, "it was cancelled")
        result = finished(tool, value, current_time() - began)
        return result if len(result.text) <= limit else self.within(result)

    return call


def _in_thread(tool: Tool[..., Any]) -> Callable[..., Awaitable[ToolResult]]:
    takes_context, timeout = tool.context_parameter is not None, tool.timeout

    async def call(self: ToolExecutor, message: Request[ToolResult]) -> ToolResult:
        household = self.household
        if household.stuck >= tool.concurrency:
            return ToolResult.failed(
                "timeout",
                f"the tool {tool.name!r} was not started: all {tool.concurrency} threads that it may use are still busy with earlier calls that did not end in time",
            )
        host = Host(self) if takes_context else None
        began = trio.current_time()
        job = Job()
        result: ToolResult | None = None
        try:
            with trio.CancelScope(deadline=began + timeout) as scope:
                result = await trio.to_thread.run_sync(
                    _work,
                    tool,
                    household,
                    job,
                    message,
                    host.context() if host else None,
                    abandon_on_cancel=True,
                    limiter=household.limiter,
                )
        finally:
            if host is not None:
                host.close()
            left = household.give_up(job)
        if scope.cancelled_caught:
            if not job.begun:
                return late(tool, f"it was not even started, since the {tool.concurrency} threads that it may use were all busy")
            return late(
                tool, "its thread could not be stopped and may still be running: whether it has done its work is unknown" if left else ""
            )
        assert result is not None
        return timed(self.within(result), trio.current_time() - began)

    return call


def _work(tool: Tool[..., Any], household: Household, job: Job, message: Request[ToolResult], context: ToolContext | None) -> ToolResult:
    """A call, in its thread. Nothing is raised: a StopIteration, for one, would come out of the loop's own coroutines as something else."""
    if not household.begin(job):
        return late(tool, "it was not even started")
    try:
        value = tool.invoke(message, context)
        if tool.kind == "generator":
            joined = Joined()
            for item in value:
                if job.given_up:
                    value.close()
                    break
                joined.add(item)
            value = joined
        return finished(tool, value, None)
    except BaseException as error:
        return raised(tool, error, None)
    finally:
        household.end(job)


def _on_asyncio(tool: Tool[..., Any]) -> Callable[..., Awaitable[ToolResult]]:
    takes_context, timeout = tool.context_parameter is not None, tool.timeout

    async def call(self: ToolExecutor, message: Request[ToolResult]) -> ToolResult:
        loop = self.household.loop()
        if loop is None:
            return ToolResult.failed(
                "timeout", f"the tool {tool.name!r} was not started: earlier calls have blocked its asyncio loops, and still do"
            )
        host = Host(self, on_asyncio=True) if takes_context else None
        context = host.context() if host else None

        async def work() -> Any:
            given = tool.invoke(message, context)
            return await _collected(given) if tool.kind == "asyncgen" else await given

        began = trio.current_time()
        ok = False
        value: Any = None
        try:
            with trio.CancelScope(deadline=began + timeout) as scope:
                ok, value = await loop.run(work, contextvars.copy_context())
        finally:
            if host is not None:
                host.close()
        if scope.cancelled_caught:
            return late(tool, "its loop is blocked by it and was left behind" if loop.hangs else "it was cancelled")
        seconds = trio.current_time() - began
        return self.within(finished(tool, value, seconds) if ok else raised(tool, value, seconds))

    return call


def _in_process(tool: Tool[..., Any]) -> Callable[..., Awaitable[ToolResult]]:
    from retinue.actors.tools.processes import call_in_process, place_of

    place = place_of(tool)
    timeout = tool.timeout

    async def call(self: ToolExecutor, message: Request[ToolResult]) -> ToolResult:
        began = trio.current_time()
        result: ToolResult | None = None
        try:
            with trio.CancelScope(deadline=began + timeout) as scope:
                result = await call_in_process(tool, place, message)
        except Exception as error:  # the arguments, which may not be fit for another process
            return self.within(raised(tool, error, trio.current_time() - began))
        if scope.cancelled_caught:
            return late(tool, "its process was killed, with all that it had started")
        assert result is not None
        return timed(self.within(result), trio.current_time() - began)

    return call


async def _collected(items: Any) -> Joined:
    joined = Joined()
    if hasattr(items, "__aiter__"):
        async with contextlib.aclosing(items):
            async for item in items:
                joined.add(item)
    else:
        for item in items:
            joined.add(item)
    return joined
