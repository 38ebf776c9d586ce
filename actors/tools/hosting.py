"""What stands behind a `ToolContext`: one call of a tool, in its executor."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import trio

from retinue.capabilities.tool_context import ToolContext

if TYPE_CHECKING:
    from retinue.actors.runtime.watch import Watch
    from retinue.actors.tools.executor import ToolExecutor

__all__ = ["Host"]


class Host:
    """One call. It asks in the name of the turn that it was made in, until the call is over; used from the loop, a worker thread or an asyncio thread."""

    __slots__ = ("_asking", "_executor", "_on_asyncio", "_over", "_token")

    def __init__(self, executor: ToolExecutor, *, on_asyncio: bool = False) -> None:
        self._executor = executor
        self._on_asyncio = on_asyncio
        self._over = False
        self._token = trio.lowlevel.current_trio_token()
        self._asking: set[trio.CancelScope] = set()

    def context(self) -> ToolContext:
        """What the tool is given."""
        executor = self._executor
        turn = executor.ctx
        sender, consent = turn.sender, turn.approval
        return ToolContext(
            executor.tool.name,
            turn.security,
            caller=None if sender is None else sender.path,
            approval=None if consent is None else consent.jti,
            host=self,
        )

    def close(self) -> None:
        """The call is over: what was asked from another thread is given up, and nothing more is asked."""
        self._over = True
        for scope in self._asking:
            scope.cancel()

    async def ask(self, ref: Any, message: Any, options: dict[str, Any]) -> Any:
        """Asks, from the tool's own loop."""
        if self._on_asyncio:
            import asyncio

            return await asyncio.to_thread(self.ask_from_thread, ref, message, options)
        self._check()
        return await _core(ref).ask(message, **options)

    def ask_from_thread(self, ref: Any, message: Any, options: dict[str, Any]) -> Any:
        """Asks, from the tool's thread."""
        if self._executor.tool.in_thread or self._on_asyncio:
            self._check()
            return trio.from_thread.run(self._ask, ref, message, options, trio_token=self._token)
        raise RuntimeError(f"the tool {self._executor.tool.name!r} runs in the system's loop, which must not wait: `await context.ask(…)`")

    async def _ask(self, ref: Any, message: Any, options: dict[str, Any]) -> Any:
        """In a task of trio's own, which runs in the thread's copy of the turn's context."""
        self._check()
        with trio.CancelScope() as scope:
            self._asking.add(scope)
            try:
                return await _core(ref).ask(message, **options)
            finally:
                self._asking.discard(scope)
        raise self._ended()

    async def keep(self, key: object, make: Callable[[], Any], *, per_caller: bool) -> Any:
        """What is kept in the executor, for all or for the actor that asked."""
        self._check()
        executor = self._executor
        if self._on_asyncio:
            raise RuntimeError(f"the tool {executor.tool.name!r} runs on asyncio, where nothing is kept: keep it in an object of your own")
        household = executor.household
        if not per_caller:
            return await household.keep(key, make)
        turn = executor.ctx
        sender, security = turn.sender, turn.security
        own = (key, security.tenant, security.subject, None if sender is None else sender.path)
        new = not household.has(own)
        kept = await household.keep(own, make)
        if new and sender is not None:
            turn.start_soon(self._drop, turn.watch(sender), own, name=f"waits for the end of {sender.path}")
        return kept

    async def _drop(self, watch: Watch, key: object) -> None:
        try:
            await watch.wait()
            await self._executor.household.drop(key)
        finally:
            watch.close()

    def _check(self) -> None:
        if self._over:
            raise self._ended()

    def _ended(self) -> RuntimeError:
        return RuntimeError(
            f"this call of the tool {self._executor.tool.name!r} is over (it has returned, was cancelled or came to its time-out): nothing can be asked in its name"
        )


def _core(ref: Any) -> Any:
    """The ref that is asked in the loop; a twin's, of a script or of asyncio, stands for it."""
    return getattr(ref, "core", ref)
