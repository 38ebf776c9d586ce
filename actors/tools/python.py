"""The tool `python.run`: code that a model writes, run in a kernel of its conversation's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from retinue.actors.tools.kernel import START_TIMEOUT, Kernels
from retinue.capabilities.cases import ApprovalRule
from retinue.capabilities.tool_context import ToolContext
from retinue.capabilities.tool_results import ToolResult
from retinue.capabilities.tools import Tool, tool
from retinue.security.errors import DefinitionError

__all__ = ["PythonKernel"]

QUEUE_TIMEOUT: Final = 30.0
"""Seconds that a call may wait for the one before it in the same conversation, besides its own time."""

MOST_KERNELS: Final = 1_024


class PythonKernel:
    """A toolkit with one tool, "python.run", which runs code in a Python process: one for each conversation, with its variables kept between calls.

        agent = await system.spawn(rt.Agent, model=model, tools=[rt.PythonKernel()])

    The process can be killed with all that it has started, and is: at the time-out, when a call is cancelled, when the conversation ends and when the agent stops; its
    variables are lost then, which the model is told. It gets no inherited secrets: of the environment only the few names that `child.PASSED_ON` lists. It is no sandbox: it may do
    what its user may do on this machine, hence a person is asked before each call, unless you say otherwise.

    Args:
        approval: Whether a person must consent to each piece of code; as for `tool`. Default True.
        requires: The operation. Default "tool.python", of risk "L3".
        timeout: Seconds that one piece of code may take. Default 60.
        kernels: Processes at the same time; for one more, the one that was not used for longest is ended. Default 8.
        ipython: Whether the code runs in IPython. None: where it is installed.
        cwd: The folder that it runs in. Default: this process's.
        env: Variables of its environment besides those that are passed on.
        output_limit: Characters of output that the model gets. Default 30,000.

    Raises:
        DefinitionError: An option is of the wrong kind.
    """

    def __init__(
        self,
        *,
        approval: ApprovalRule = True,
        requires: str = "tool.python",
        timeout: float = 60.0,
        kernels: int = 8,
        ipython: bool | None = None,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        output_limit: int = 30_000,
    ) -> None:
        if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout > 0:
            raise DefinitionError(f"PythonKernel(timeout={timeout!r}): give a number of seconds above zero")
        if type(kernels) is not int or not 1 <= kernels <= MOST_KERNELS:
            raise DefinitionError(f"PythonKernel(kernels={kernels!r}): give a whole number from 1 to {MOST_KERNELS:,}")
        self._timeout = float(timeout)
        self._kernels = kernels
        self._options: dict[str, Any] = {"ipython": ipython, "cwd": cwd, "env": dict(env or {})}
        self._tool: Tool[..., Any] = tool(
            name="python.run",
            requires=requires,
            risk="L3",
            approval=approval,
            timeout=self._timeout + START_TIMEOUT + QUEUE_TIMEOUT,
            concurrency=kernels,  # so there is always an idle kernel that can make room
            output_limit=output_limit,
        )(self._run)

    def __tools__(self) -> tuple[Tool[..., Any], ...]:
        """Its one tool."""
        return (self._tool,)

    async def _run(self, code: str, context: ToolContext) -> ToolResult:
        """Runs Python code and gives what it prints and the value of its last expression. Variables, imports and functions are kept for later calls.

        Args:
            code: The code.
        """
        kernels = await context.keep("kernels", self._make)
        key = (context.tenant, context.subject, context.caller)
        kernel, new = await kernels.of(key)
        if new and context.caller is not None:
            await context.keep("conversation", lambda: _Conversation(kernels, key), per_caller=True)
        return await kernel.run(code, self._timeout)

    def _make(self) -> Kernels:
        return Kernels(self._kernels, **self._options)


class _Conversation:
    """One conversation's hold on its kernel: closed with the actor that asks."""

    __slots__ = ("_kernels", "_key")

    def __init__(self, kernels: Kernels, key: object) -> None:
        self._kernels = kernels
        self._key = key

    async def aclose(self) -> None:
        """The conversation is over."""
        await self._kernels.close(self._key)
