"""Tools: a function with a name, a description and a schema that a model can call it by, and what a call of it needs.

    @tool(approval=True)
    def send_email(to: str, text: str) -> str: ...

A tool is data and code that checks data: it starts nothing and belongs to nobody. What runs it is an executor, an actor; what decides whether it may run is the
gate in front of that actor, which sees the arguments by name because each tool has a message class of its own, one field a parameter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, ParamSpec, TypeVar, overload

import attrs

from retinue.capabilities.cases import ApprovalRule
from retinue.capabilities.evaluating import names_around
from retinue.capabilities.tool_class import Tool, ToolKind
from retinue.capabilities.tool_info import has_tool_info, tool_of_info
from retinue.capabilities.tool_making import tool_of_function
from retinue.capabilities.tool_options import Loop, ToolOptions
from retinue.capabilities.toolkits import ToolMethod, is_method, is_toolkit, tools_of_toolkit
from retinue.security.errors import DefinitionError
from retinue.security.limits import Risk
from retinue.security.spelling import misspelt

__all__ = ["Tool", "ToolKind", "tool", "tool_of", "tools_of"]

P = ParamSpec("P")
R = TypeVar("R")

_DEFAULTS = ToolOptions()

OPTIONS: Final = tuple(attrs.fields_dict(ToolOptions))
"""The names of the options that a tool has beside its name and description."""


@overload
def tool(function: Callable[P, R], /) -> Tool[P, R]: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    requires: str | None = None,
    approval: ApprovalRule = False,
    risk: Risk | None = None,
    four_eyes: bool = False,
    timeout: float = 60.0,
    blocking: bool | None = None,
    loop: Loop = "trio",
    process: bool = False,
    idempotent: bool = False,
    output_limit: int = 30_000,
    concurrency: int = 64,
) -> Callable[[Callable[P, R]], Tool[P, R]]: ...
def tool(
    function: Any = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    requires: str | None = None,
    approval: ApprovalRule = False,
    risk: Risk | None = None,
    four_eyes: bool = False,
    timeout: float = 60.0,
    blocking: bool | None = None,
    loop: Loop = "trio",
    process: bool = False,
    idempotent: bool = False,
    output_limit: int = 30_000,
    concurrency: int = 64,
    **unknown: Any,
) -> Any:
    """Make a function a tool, or mark a method of a toolkit as one.

    Args:
        function: The function, where the decorator stands bare. Each of its parameters has a type; what they are for stands in the docstring or in `Annotated`.
        name: How the model calls it. Default: the function's name.
        description: What it does, for the model. Default: what the docstring says.
        requires: The operation that a call needs. Default: `tool.<name>`.
        approval: Whether each call needs a person's consent, or a function of the call's message that says so. Default False.
        risk: How much harm a call can do, "L0" (reads) to "L3" (cannot be undone). Default: not said.
        four_eyes: Whether that person has to be another than whoever the call is for. Default False.
        timeout: Seconds that one call may take; `math.inf` for no bound. Default 60.
        blocking: Whether the function runs in a thread. Default: a plain `def` does, an `async def` does not.
        loop: "asyncio" for an `async def` that needs it. Default "trio".
        process: Whether each call runs in a process of its own, which dies with all its children at the time-out. Default False.
        idempotent: Whether a call may be made twice without harm. Default False.
        output_limit: Characters of output that the model gets of one call. Default 30,000.
        concurrency: Calls that run at the same time. Default 64.

    Raises:
        DefinitionError: It cannot be a tool; the text names the tool, the parameter and the fix.
    """
    if unknown:
        raise misspelt("tool", unknown, ("name", "description", *OPTIONS))
    options = ToolOptions(
        requires=requires,
        approval=approval,
        risk=risk,
        four_eyes=four_eyes,
        timeout=timeout,
        blocking=blocking,
        loop=loop,
        process=process,
        idempotent=idempotent,
        output_limit=output_limit,
        concurrency=concurrency,
    )

    if description is not None and not isinstance(description, str):
        raise DefinitionError(f"tool(description=…) is a text, not an object of type {type(description).__name__}")

    def make(given: Any) -> Any:
        if isinstance(given, Tool):
            given = given.function
        if isinstance(given, staticmethod | classmethod):
            raise DefinitionError(
                f"@rt.tool stands above a {type(given).__name__}: mark a method of the toolkit's instances, or make a function a tool by itself"
            )
        if not callable(given) or isinstance(given, type):
            raise DefinitionError(f"@rt.tool makes a function a tool, not {given!r}: write @rt.tool or @rt.tool(…) above a `def`")
        if is_method(given):
            return ToolMethod(given, options, name=name, description=description, names=names_around(given))
        if has_tool_info(given):
            return tool_of_info(given, options, name=name, description=description)
        return tool_of_function(given, options, name=name, description=description, names=names_around(given))

    return make if function is None else make(function)


def tool_of(given: object) -> tuple[Tool[Any, Any], ...]:
    """The tools that something stands for.

    Args:
        given: A tool, a typed function, a function with `tool_info`, an instance of a toolkit, or an object with a method `__tools__()` that gives its tools.

    Raises:
        DefinitionError: It stands for none.
    """
    if isinstance(given, Tool):
        return (given,)
    if isinstance(given, ToolMethod):
        raise DefinitionError(
            f"{given!r} is a method of a toolkit's class: give an instance of the toolkit, {given.owner}(), and all its tools come with it"
        )
    if isinstance(given, type):
        kind = "toolkit" if is_toolkit(given) else "class"
        raise DefinitionError(f"{given.__qualname__} is a {kind}, and tools belong to instances: give {given.__name__}(…)")
    listed: Any = getattr(type(given), "__tools__", None)
    if callable(listed):
        one: Any = given
        return tools_of(one.__tools__())
    if has_tool_info(given):
        return (tool_of_info(given, _DEFAULTS),)
    if is_toolkit(type(given)):
        return tools_of_toolkit(given)
    if isinstance(given, str):
        raise DefinitionError(
            f"{given!r:.100} is a text and no tool. Is it what a tool gave? Then leave out the brackets, tools=[get_weather] and not tools=[get_weather()]. Names of tools are "
            "looked up in a registry or a folder first: give the tool itself"
        )
    why = getattr(type(given), "__no_tool__", None)
    if why is not None:
        raise DefinitionError(f"an object of type {type(given).__name__} is no tool: {why}")
    if not callable(given):
        if callable(getattr(type(given), "ask", None)):
            raise DefinitionError(
                f"an object of type {type(given).__name__} is an actor's address, and no tool: rt.agent_tool(ref) makes one of an agent or a team; of another actor, write a tool that asks it, `async def ask_other(question: str, "
                "context: rt.ToolContext) -> str` with `return (await context.ask(ref, question)).content`, and a docstring that says what it is good for"
            )
        raise DefinitionError(
            f"an object of type {type(given).__name__} is no tool: give a typed function, a function with tool_info, what @rt.tool made, or an instance of a toolkit "
            "(a class with methods that are marked with @rt.tool)"
        )
    return (tool_of_function(given, _DEFAULTS, names=names_around(given)),)


def tools_of(given: Iterable[object]) -> tuple[Tool[Any, Any], ...]:
    """All tools of a list, in its order.

    Args:
        given: What `tool_of` takes, each.

    Raises:
        DefinitionError: One is none; or two have the same name, also as providers are told it: the text names where both are defined.
    """
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise DefinitionError(f"tools are given as a list, tools=[…], not as an object of type {type(given).__name__}")
    found: dict[str, Tool[Any, Any]] = {}
    for one in given:
        for made in tool_of(one):
            other = found.get(made.wire_name)
            if other is not None:
                raise DefinitionError(
                    f"two tools are called {made.name!r}: {other.source} and {made.source}. Leave one out, or give one another name: @rt.tool(name='…')"
                )
            found[made.wire_name] = made
    return tuple(found.values())
