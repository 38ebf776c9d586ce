"""AgentDojo's tools as messages and actors: one message class and one executor class a tool, made from its parameters.

A tool's operation is `tool.<its name>`, and its arguments are the message's fields: what the gate checks is what the tool is called with.
"""

from __future__ import annotations

import enum
import keyword
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import attrs
from agentdojo.functions_runtime import Function, FunctionsRuntime

import retinue as rt
from benchmarks.agentdojo.errand import operation_of
from benchmarks.agentdojo.manifest import Tool, tool

__all__ = ["Executor", "Kit", "Trusted", "arguments_of", "given_arguments", "kits_of", "trusted_values"]

Trusted = Mapping[str, Any]
"""Kind of thing → the source that its values are added to."""


def _plain(value: Any) -> Any:
    """Enumerations by value, so that a message holds plain data only."""
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value


def _message_class(function: Function) -> type[rt.Request[Any]]:
    """A field an argument; None stands for "not given"."""
    fields = function.parameters.model_fields
    for name in fields:
        if not name.isidentifier() or keyword.iskeyword(name):
            raise ValueError(f"the argument {name!r} of {function.name} cannot be a field")

    def body(namespace: dict[str, Any]) -> None:
        namespace.update(__module__=__name__, __annotations__=dict.fromkeys(fields, Any), **dict.fromkeys(fields))

    return rt.message(types.new_class(_class_name(function.name), (rt.Request,), exec_body=body))


def _class_name(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


def given_arguments(message: Any) -> dict[str, Any]:
    """A tool message's fields."""
    return {field.name: getattr(message, field.name) for field in attrs.fields(type(message))}


def arguments_of(function: Function, given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments as they will run: coerced by the tool's own parameters, None left out. Raises what the coercion raises."""
    coerced = function.parameters.model_validate(dict(given)).model_dump()
    return {name: _plain(value) for name, value in coerced.items() if value is not None}


def trusted_values(manifest: Tool, result: Any) -> Iterator[tuple[str, Any]]:
    """The values in a tool's result that may be arguments later, with their kinds."""
    if hasattr(result, "model_dump"):
        result = result.model_dump()
    if isinstance(result, dict):
        for field, kind in manifest.gives.items():
            value = result.get(field)
            for item in value if isinstance(value, list) else [value]:
                if item is not None:
                    yield kind, item
    elif isinstance(result, list | tuple):
        for item in result:
            if not isinstance(item, str):
                yield from trusted_values(manifest, item)
            elif "*" in manifest.gives:
                yield manifest.gives["*"], item


class Executor(rt.Actor):
    """Runs one tool on the shared environment, and alone may say which of its results are to be trusted.

    Args:
        environment: AgentDojo's, changed in place.
        runtime: Its runtime, which coerces and calls.
        trusted: Where trusted values go.
        ran: Names of the tools that ran, in order: the executors' own count, to hold against the planner's.
    """

    function: Function

    def __init__(self, environment: Any, runtime: FunctionsRuntime, trusted: Trusted, ran: list[str]) -> None:
        self.environment = environment
        self.runtime = runtime
        self.trusted = trusted
        self.ran = ran

    def execute(self, message: Any) -> Any:
        name = self.function.name
        self.ran.append(name)
        fields = self.function.parameters.model_fields
        given = {key: value for key, value in given_arguments(message).items() if value is not None or fields[key].is_required()}
        result, _ = self.runtime.run_function(self.environment, name, given, raise_on_error=True)
        for kind, value in trusted_values(tool(name), result):
            self.trusted[kind].add(value)
        return result


def _executor_class(function: Function, taken: type[rt.Request[Any]]) -> type[Executor]:
    """One handler, for the tool's message, that requires the tool's operation."""

    def use(self: Executor, message: Any) -> Any:
        return self.execute(message)

    use.__annotations__ = {"message": taken, "return": Any}
    handle = rt.handler(requires=operation_of(function.name), raises=Exception)(use)

    def body(namespace: dict[str, Any]) -> None:
        namespace.update(__module__=__name__, function=function, use=handle)

    return types.new_class(f"{_class_name(function.name)}Executor", (Executor,), exec_body=body)


@attrs.frozen
class Kit:
    """What is made of one tool.

    Attributes:
        function: AgentDojo's own.
        message: The class of the messages that ask for it.
        executor: The class of the actor that runs it.
    """

    function: Function
    message: type[rt.Request[Any]]
    executor: type[Executor]

    @property
    def operation(self) -> str:
        return operation_of(self.function.name)

    def call(self, given: Mapping[str, Any]) -> rt.Request[Any]:
        """The message for these arguments. Raises what the tool's own coercion raises."""
        return self.message(**arguments_of(self.function, given))


def kits_of(functions: Iterable[Function]) -> dict[str, Kit]:
    """Name → kit, for the tools of a suite."""
    kits = {}
    for function in functions:
        message = _message_class(function)
        kits[function.name] = Kit(function, message, _executor_class(function, message))
    return kits
