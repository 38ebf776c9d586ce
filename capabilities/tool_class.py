"""A tool: a function that a model can call, with what it is called by and what a call of it needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, Literal, ParamSpec, TypeAlias, TypeVar, final

import attrs

from retinue.capabilities.arguments import Reader
from retinue.capabilities.cases import ApprovalRule
from retinue.capabilities.tool_context import ToolContext
from retinue.capabilities.tool_options import OPTION_NAMES, Loop, ToolOptions
from retinue.capabilities.tool_results import ToolResult
from retinue.mailbox.messages import Request
from retinue.security.errors import DefinitionError
from retinue.security.limits import Risk

__all__ = ["Tool", "ToolKind"]

ToolKind: TypeAlias = Literal["def", "async", "generator", "asyncgen"]

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)


@final
class Tool(Generic[P, R_co]):
    """A function that a model can call. Made by `tool`, `tool_of` or a toolkit; never changed. Calling it calls the function.

    Attributes:
        name: How it is called: `get_weather`, or `Files.read` of a toolkit.
        wire_name: The name for providers, which take no dots: `Files__read`. An agent understands both.
        description: What it does, for the model.
        parameters: The JSON Schema of its arguments, as JSON text.
        strict: Whether the schema is one that providers can enforce ("strict mode"): every parameter required, no open objects.
        function: The function.
        kind: How it is written: "def", "async", "generator" or "asyncgen".
        options: All options as they were given.
        requires: The operation that a call needs.
        message: The class of its calls: one field a parameter, in their order.
        positional: The parameters that the function takes by position only.
        context_parameter: The parameter that is given a `ToolContext`, or None.
        definition: A digest of what it is and does; a consent is bound to it.
        in_thread: Whether a call runs in a worker thread: a plain `def` (or a generator) that is not said to be quick, outside a process of its own.
        source: Where it is defined, for texts.
        executor: The class of the actors that run it, made at its first use and kept here; None before.
    """

    __slots__ = (
        "__weakref__", "_fill", "_invoke", "_made_with", "_reader", "context_parameter", "definition", "description", "executor", "function",
        "in_thread", "kind", "message", "name", "options", "parameters", "positional", "requires", "source", "strict", "wire_name",
    )  # fmt: skip

    def __init__(
        self,
        *,
        name: str,
        wire_name: str,
        description: str,
        parameters: str,
        strict: bool,
        function: Callable[P, R_co],
        kind: ToolKind,
        options: ToolOptions,
        message: type[Request[ToolResult]],
        positional: tuple[str, ...],
        context_parameter: str | None,
        definition: str,
        source: str,
        reader: Reader,
        fill: Callable[[Any, Any], dict[str, Any]],
        invoke: Callable[[Any, Any], Any],
        made_with: Callable[[ToolOptions], Tool[P, R_co]],
    ) -> None:
        self.name = name
        self.wire_name = wire_name
        self.description = description
        self.parameters = parameters
        self.strict = strict
        self.function = function
        self.kind: ToolKind = kind
        self.options = options
        self.requires: str = options.requires or f"tool.{name}"
        self.message = message
        self.positional = positional
        self.context_parameter = context_parameter
        self.definition = definition
        self.source = source
        self.executor: type | None = None
        self.in_thread = kind in ("def", "generator") and options.blocking is not False and not options.process
        self._reader = reader
        self._fill = fill
        self._invoke = invoke
        self._made_with = made_with

    @property
    def approval(self) -> ApprovalRule:
        """Whether each call needs a person's consent, or a function of the call's message that says so."""
        return self.options.approval

    @property
    def risk(self) -> Risk | None:
        """How much harm a call can do, "L0" to "L3"; None: not said."""
        return self.options.risk

    @property
    def four_eyes(self) -> bool:
        """Whether who consents has to be another than whoever the call is for."""
        return self.options.four_eyes

    @property
    def timeout(self) -> float:
        """Seconds that one call may take."""
        return self.options.timeout

    @property
    def blocking(self) -> bool | None:
        """Whether the function runs in a thread, as it was given; `in_thread` is what came of it."""
        return self.options.blocking

    @property
    def loop(self) -> Loop:
        """What the function needs: "trio", or "asyncio"."""
        return self.options.loop

    @property
    def process(self) -> bool:
        """Whether each call runs in a process of its own."""
        return self.options.process

    @property
    def idempotent(self) -> bool:
        """Whether a call may be made twice without harm."""
        return self.options.idempotent

    @property
    def output_limit(self) -> int:
        """Characters of output that the model gets of one call."""
        return self.options.output_limit

    @property
    def concurrency(self) -> int:
        """Calls that run at the same time."""
        return self.options.concurrency

    @property
    def spec(self) -> tuple[str, str, str]:
        """What a model is told: the name for providers, the description, the schema as JSON text."""
        return self.wire_name, self.description, self.parameters

    def decode(self, arguments: str | Mapping[str, Any], *, truncated: bool = False, notes: list[str] | None = None) -> Request[ToolResult]:
        """The message for a call.

        Args:
            arguments: A JSON text as a model wrote it, or a mapping of JSON values by name. In a text that is no JSON, a slip of syntax is mended where only one
                thing can be meant; a value is never made up.
            truncated: Whether the text was cut off (the model came to its greatest length): then nothing is mended.
            notes: Where it is told what was mended, a sentence each.

        Raises:
            BadArguments: They do not fit. Its text, for the model, names each parameter that is wrong, what was expected and what came.
        """
        made: Request[ToolResult] = self._reader.read(arguments, truncated=truncated, notes=notes)
        return made

    def call(self, message: Request[ToolResult], context: ToolContext | None = None) -> dict[str, Any]:
        """The function's arguments by name, the context among them where it takes one."""
        return self._fill(message, context)

    def invoke(self, message: Request[ToolResult], context: ToolContext | None = None) -> Any:
        """Call the function: its value, or its coroutine, generator or asynchronous generator; and what it raises."""
        return self._invoke(message, context)

    def with_options(self, **changes: Any) -> Tool[P, R_co]:
        """Another tool of the same function, some options changed: `weather.with_options(approval=True)`.

        Args:
            changes: Options as `tool` takes them.

        Raises:
            DefinitionError: There is no such option, or the options do not go together.
        """
        unknown = [name for name in changes if name not in OPTION_NAMES]
        if unknown:
            raise DefinitionError(f"the tool {self.name!r} has no option {unknown[0]!r}: there are {', '.join(OPTION_NAMES)}")
        return self._made_with(attrs.evolve(self.options, **changes))

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Call the function."""
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<Tool {self.name!r}: {self.source}>"
