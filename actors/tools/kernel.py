"""Python kernels: for an agent that programs, one process a conversation, which keeps its variables between calls and can be killed. Never code inside our own process."""

from __future__ import annotations

import json
import sys
from typing import Any, Final

import trio

from retinue.actors.tools.child import Child, how_it_ended
from retinue.capabilities.tool_results import ToolResult
from retinue.security.whole_texts import whole

__all__ = ["Kernel", "Kernels"]

START_TIMEOUT: Final = 30.0
"""Seconds that a kernel may take to start; IPython takes one or two."""

CLOSE_TIMEOUT: Final = 6.0
"""Seconds that the end of a kernel may take."""

GONE_REMEMBERED: Final = 1_000
"""Conversations of which is remembered that their kernel was ended to make room."""

LOST: Final = "its variables, imports and functions are lost, and the next call starts a new one"


class Kernel:
    """One process with its state. Made by `Kernels`.

    Attributes:
        used: When it was last used, by trio's clock.
        lost: What the next call must be told, where the state of an earlier process is gone.
    """

    __slots__ = ("_child", "_cwd", "_env", "_ipython", "_turn", "lost", "used")

    def __init__(self, *, ipython: bool | None, cwd: str | None, env: dict[str, str]) -> None:
        self._ipython = ipython
        self._cwd = cwd
        self._env = env
        self._child: Child | None = None
        self._turn = trio.Lock()
        self.lost = ""
        self.used = trio.current_time()

    @property
    def busy(self) -> bool:
        """Whether a call is in progress."""
        return self._turn.locked()

    @property
    def pid(self) -> int | None:
        """The process, where there is one."""
        return None if self._child is None else self._child.pid

    async def run(self, code: str, timeout: float) -> ToolResult:
        """Runs a piece of code, after those that came before it. When this is cancelled, or the code takes longer than `timeout` seconds, the kernel is killed."""
        async with self._turn:
            self.used = trio.current_time()
            whole = False
            result = ToolResult.failed("cancelled", "the call was cancelled")
            try:
                failed = await self._start() if self._child is None else None
                if failed is not None:
                    return failed
                with trio.move_on_after(timeout) as scope:
                    result = await self._run(code)
                    whole = True
                if scope.cancelled_caught:
                    await self._kill()
                    return ToolResult.failed("timeout", f"the code did not end within {timeout:g} s. The kernel was killed: {LOST}")
                return self._told(result)
            finally:
                self.used = trio.current_time()
                if not whole and self._child is not None:
                    await self._kill()
                    self.lost = "an earlier call was cancelled, and the kernel with it"

    async def _run(self, code: str) -> ToolResult:
        child = self._child
        assert child is not None
        child.renew()
        reply = _content(await child.exchange(json.dumps({"code": code}).encode()))
        printed = whole(child.printed.text())
        if reply is None:
            ended = how_it_ended(await self._kill())
            return ToolResult.failed("exit", _joined(printed, f"The kernel {ended}: {LOST}"))
        if not reply["ok"]:
            return ToolResult.failed("raised", _joined(printed, reply["text"]))
        text = _joined(printed, reply["text"])
        return ToolResult(True, text or "done, no output")

    async def _start(self) -> ToolResult | None:
        try:
            child = self._child = await Child.start("kernel_runner.py", env=self._env, cwd=self._cwd)
        except OSError as error:
            return ToolResult.failed("raised", f"the kernel could not be started: {type(error).__name__}: {error.strerror}")
        with trio.move_on_after(START_TIMEOUT):
            reply = await child.exchange(json.dumps({"path": sys.path, "ipython": self._ipython}).encode())
            if reply is not None:
                return None
        said = whole(child.printed.text())[-1_000:]
        ended = how_it_ended(await self._kill())
        return ToolResult.failed("exit", f"the kernel {ended} before it was ready, within {START_TIMEOUT:g} s. {said}".strip())

    def _told(self, result: ToolResult) -> ToolResult:
        lost, self.lost = self.lost, ""
        if not lost:
            return result
        return ToolResult(
            result.ok,
            f"[{lost}: {LOST.replace(', and the next call starts a new one', ', this is a new kernel')}]\n{result.text}",
            result.error,
        )

    async def _kill(self) -> int | None:
        child, self._child = self._child, None
        return None if child is None else await child.end()

    async def aclose(self) -> None:
        """Ends the process, whatever it is doing: a call in progress finds that it is gone, and says so."""
        if self._child is not None:
            self._child.kill()
        with trio.move_on_after(CLOSE_TIMEOUT, shield=True):
            async with self._turn:
                await self._kill()


class Kernels:
    """The kernels of one executor, by conversation; no more than `most`: for one more, the one that was not used for longest is ended.

    Attributes:
        most: How many.
    """

    __slots__ = ("_cwd", "_env", "_gone", "_ipython", "_kernels", "most")

    def __init__(self, most: int, *, ipython: bool | None, cwd: str | None, env: dict[str, str]) -> None:
        self.most = most
        self._ipython = ipython
        self._cwd = cwd
        self._env = env
        self._kernels: dict[object, Kernel] = {}
        self._gone: dict[object, None] = {}

    def __len__(self) -> int:
        return len(self._kernels)

    async def of(self, key: object) -> tuple[Kernel, bool]:
        """The conversation's kernel, and whether it is new."""
        kernel = self._kernels.get(key)
        if kernel is not None:
            return kernel, False
        kernel = self._kernels[key] = Kernel(ipython=self._ipython, cwd=self._cwd, env=self._env)
        if key in self._gone:
            del self._gone[key]
            kernel.lost = "the kernel was ended to make room for others"
        if len(self._kernels) > self.most:
            idle = [(other.used, name) for name, other in self._kernels.items() if other is not kernel and not other.busy]
            if idle:
                oldest = min(idle, key=lambda one: one[0])[1]
                self._gone[oldest] = None
                if len(self._gone) > GONE_REMEMBERED:
                    del self._gone[next(iter(self._gone))]
                await self._end(oldest)
        return kernel, True

    async def close(self, key: object) -> None:
        """Ends one conversation's kernel, if it has any."""
        self._gone.pop(key, None)
        await self._end(key)

    async def _end(self, key: object) -> None:
        kernel = self._kernels.pop(key, None)
        if kernel is not None:
            await kernel.aclose()

    async def aclose(self) -> None:
        """Ends them all."""
        kernels, self._kernels = self._kernels, {}
        async with trio.open_nursery() as nursery:
            for kernel in kernels.values():
                nursery.start_soon(kernel.aclose)


def _joined(*parts: str) -> str:
    return "\n".join(part.rstrip("\n") for part in parts if part.strip())


def _content(reply: bytes | None) -> dict[str, Any] | None:
    """The reply, where it is one: code in the kernel may have written anything."""
    if reply is None:
        return None
    try:
        content = json.loads(reply)
        if type(content["ok"]) is bool and type(content["text"]) is str:
            return {"ok": content["ok"], "text": whole(content["text"])}
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    return None
