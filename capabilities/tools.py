"""Tools: a function with a name, a description and a schema that a model can call it by, and what a call of it needs.

    @tool(approval=True)
    def send_email(to: str, text: str) -> str: ...

A tool is data and code that checks data: it starts nothing and belongs to nobody. What runs it is an executor, an actor; what decides whether it may run is the
gate in front of that actor, which sees the arguments by name because each tool has a message class of its own, one field a parameter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, Literal, ParamSpec, TypeAlias, TypeVar, final, overload

from retinue.capabilities.tool_context import ToolContext
from retinue.capabilities.tool_options import Loop, ToolOptions
from retinue.capabilities.tool_results import ToolResult
from retinue.mailbox.messages import Request

__all__ = ["Tool", "ToolKind", "tool", "tool_of"]

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
    """

    __slots__ = (
        "__weakref__", "_decode", "_fill", "_invoke", "context_parameter", "definition", "description", "function", "kind", "message",
        "name", "options", "parameters", "positional", "requires", "strict", "wire_name",
    )  # fmt: skip

    name: str
    wire_name: str
    description: str
    parameters: str
    strict: bool
    function: Callable[P, R_co]
    kind: ToolKind
    options: ToolOptions
    requires: str
    message: type[Request[ToolResult]]
    positional: tuple[str, ...]
    context_parameter: str | None
    definition: str

    approval = property(lambda self: self.options.approval)
    risk = property(lambda self: self.options.risk)
    four_eyes = property(lambda self: self.options.four_eyes)
    timeout = property(lambda self: self.options.timeout)
    blocking = property(lambda self: self.options.blocking)
    loop = property(lambda self: self.options.loop)
    process = property(lambda self: self.options.process)
    idempotent = property(lambda self: self.options.idempotent)
    output_limit = property(lambda self: self.options.output_limit)
    concurrency = property(lambda self: self.options.concurrency)

    @property
    def in_thread(self) -> bool:
        """Whether a call runs in a worker thread: a plain `def` (or a generator) that is not said to be quick, outside a process of its own."""
        raise NotImplementedError

    @property
    def spec(self) -> tuple[str, str, str]:
        """What a model is told: the name for providers, the description, the schema as JSON text."""
        return self.wire_name, self.description, self.parameters

    def decode(self, arguments: str | Mapping[str, Any], *, truncated: bool = False) -> Request[ToolResult]:
        """The message for a call.

        Args:
            arguments: A JSON text as a model wrote it, or a mapping of JSON values. In a text that is no JSON, a slip of syntax is mended where only one
                thing can be meant; a value is never made up.
            truncated: Whether the text was cut off (the model came to its `length`): then nothing is mended.

        Raises:
            BadArguments: They do not fit. Its text names each parameter that is wrong, what was expected and what came.
        """
        raise NotImplementedError

    def call(self, message: Request[ToolResult], context: ToolContext | None = None) -> dict[str, Any]:
        """The function's arguments by name, the context among them where it takes one."""
        raise NotImplementedError

    def invoke(self, message: Request[ToolResult], context: ToolContext | None = None) -> Any:
        """Call the function: its value, or its coroutine, generator or asynchronous generator."""
        raise NotImplementedError

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        return self.function(*args, **kwargs)


@overload
def tool(function: Callable[P, R_co], /) -> Tool[P, R_co]: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    **options: Any,
) -> Callable[[Callable[P, R_co]], Tool[P, R_co]]: ...
def tool(function: Any = None, /, *, name: str | None = None, description: str | None = None, **options: Any) -> Any:
    """Make a function a tool."""
    raise NotImplementedError


def tool_of(given: object) -> tuple[Tool[Any, Any], ...]:
    """The tools that something stands for: a function, a function with `tool_info`, a `Tool`, an instance of a toolkit."""
    raise NotImplementedError


NO_TOOLS: Final[tuple[Tool[Any, Any], ...]] = ()
