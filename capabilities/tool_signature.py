"""The parameters of a function, with their types resolved and their descriptions: what a tool is made of."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, get_args, get_origin

import attrs

from retinue.capabilities.docstrings import documentation_of
from retinue.capabilities.evaluating import evaluate_in, namespace_of, unwrapped
from retinue.capabilities.tool_context import ToolContext
from retinue.mailbox.annotations import Unresolved
from retinue.security.errors import DefinitionError

__all__ = ["Parameter", "Signature", "kind_of_function", "place_of", "signature_of"]

_POSITIONAL: Final = inspect.Parameter.POSITIONAL_ONLY


@attrs.frozen
class Parameter:
    """One parameter that the model gives.

    Attributes:
        name: Its name.
        annotation: Its type, resolved.
        default: The default, or NOTHING where it is required.
        description: What it is for; "" if nobody says.
        positional: Whether the function takes it by position only.
    """

    name: str
    annotation: Any
    default: Any = attrs.field(factory=lambda: attrs.NOTHING)  # as a plain default it would mean that there is none
    description: str = ""
    positional: bool = False


@attrs.frozen
class Signature:
    """What a function takes.

    Attributes:
        parameters: What the model gives, in order.
        context: The parameter that is given a `ToolContext`, or None.
        context_by_position: Whether the function takes that one by position only.
        description: What the function does.
    """

    parameters: tuple[Parameter, ...]
    context: str | None
    context_by_position: bool
    description: str


def place_of(function: Any) -> str:
    """Where a function is defined, for texts: `weather.get_weather`."""
    inner = unwrapped(function) if callable(function) else function
    name, module = getattr(inner, "__qualname__", None), getattr(inner, "__module__", None)
    if not isinstance(name, str) or not isinstance(module, str):  # an object that is called
        name, module = type(inner).__qualname__, type(inner).__module__
    return f"{module}.{name}"


def kind_of_function(function: Any) -> str:
    """How a function is written: "def", "async", "generator" or "asyncgen"; an object that is called counts by its `__call__`."""
    inner = function
    while isinstance(inner, functools.partial):
        inner = inner.func
    for one in (inner, getattr(type(inner), "__call__", None)):  # noqa: B004 - the object's own code is wanted
        if inspect.isasyncgenfunction(one):
            return "asyncgen"
        if inspect.iscoroutinefunction(one):
            return "async"
        if inspect.isgeneratorfunction(one):
            return "generator"
    return "def"


def signature_of(function: Callable[..., Any], label: str, names: Mapping[str, Any] | None = None) -> Signature:
    """What a function takes.

    Args:
        function: The function.
        label: The tool's name, for errors.
        names: What annotations may name beside what the function's module has.

    Raises:
        DefinitionError: A parameter has no type, or takes any number of arguments; or there is nothing that tells what the function takes.
    """
    try:
        found = inspect.signature(function)
    except (TypeError, ValueError):
        raise DefinitionError(
            f"the tool {label!r}: {place_of(function)} does not tell what it takes. Wrap it in a `def` with typed parameters."
        ) from None
    said = documentation_of(function, found.parameters)
    space, own = namespace_of(function)
    around = {**(names or {}), **own}
    parameters: list[Parameter] = []
    context: inspect.Parameter | None = None
    for name, given in found.parameters.items():
        where = f"the tool {label!r} ({place_of(function)}): its parameter {name!r}"
        _check(given, where)
        annotation = evaluate_in(given.annotation, space, around)
        if annotation is Unresolved:
            raise DefinitionError(
                f"{where} is annotated {given.annotation!r}, which names something that cannot be found: define or import it at the top of the module (not under "
                "TYPE_CHECKING), or decorate the function with @rt.tool where the name is known"
            )
        if _is_context(annotation):
            if context is not None:
                raise DefinitionError(f"{where} is a second ToolContext, after {context.name!r}: one is enough, remove the other")
            context = given
            continue
        default = attrs.NOTHING if given.default is inspect.Parameter.empty else given.default
        parameters.append(Parameter(name, annotation, default, said.parameters.get(name, ""), given.kind is _POSITIONAL))
    return Signature(
        tuple(parameters), context.name if context else None, context is not None and context.kind is _POSITIONAL, said.description
    )


def _check(given: inspect.Parameter, where: str) -> None:
    if given.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
        stars = "*" if given.kind is inspect.Parameter.VAR_POSITIONAL else "**"
        raise DefinitionError(
            f"{where} is {stars}{given.name}, so nothing says what a model may give: name each parameter, or take one of type list[…] or dict[str, …]"
        )
    if given.annotation is inspect.Parameter.empty and given.name == "self":
        raise DefinitionError(
            f"{where} is the object that a method belongs to: give the method of an object, tools=[thing.method] and not tools=[Thing.method]"
        )
    if given.annotation is inspect.Parameter.empty:
        raise DefinitionError(
            f"{where} has no type, so a model cannot be told what to give. Write `{given.name}: str`, or whatever it is; `{given.name}: Any` for any JSON value"
        )


def _is_context(annotation: Any) -> bool:
    if annotation is ToolContext:
        return True
    if get_origin(annotation) is Annotated:
        return _is_context(get_args(annotation)[0])
    return any(one is ToolContext for one in get_args(annotation))
