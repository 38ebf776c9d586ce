"""Toolkits: objects with methods that are tools. What is not marked is no tool, whatever it is called and whoever asks for it by name.

class Files(Toolkit):
    @tool_api
    def read(self, path: str) -> str: ...

Agent(tools=[Files("/srv/reports")])   # the tool Files.read
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeVar, final, overload

from retinue.capabilities.tool_class import Tool
from retinue.capabilities.tool_making import tool_of_function
from retinue.capabilities.tool_options import ToolOptions
from retinue.security.errors import DefinitionError

__all__ = ["ToolMethod", "Toolkit", "is_method", "is_toolkit", "tool_api", "tools_of_toolkit"]


F = TypeVar("F", bound=Callable[..., Any])


class Toolkit:
    """A class whose marked methods are tools. Deriving from it is not needed; it says what is meant, and refuses a class without any.

    Attributes:
        toolkit_name: What its tools are called after, `<toolkit_name>.<method>`; None: the class's name. A method that is called `run` and is the only tool is
            called by the toolkit's name alone.
    """

    toolkit_name: ClassVar[str | None] = None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if not _marked(cls) and not inspect.isabstract(cls):
            raise DefinitionError(f"the toolkit {cls.__qualname__} has no tools: mark its methods with @rt.tool_api")


@final
class ToolMethod:
    """A method that is marked as a tool. On an instance it is the method; the tool is made when the instance is given to an agent."""

    __slots__ = ("description", "function", "name", "names", "options", "owner")

    def __init__(
        self, function: Callable[..., Any], options: ToolOptions, *, name: str | None, description: str | None, names: Mapping[str, Any]
    ) -> None:
        self.function = function
        self.options = options
        self.name = name
        self.description = description
        self.names = names
        self.owner = function.__qualname__.rpartition(".")[0]

    def __set_name__(self, owner: type, attribute: str) -> None:
        if self.name is None and attribute.startswith("_"):
            raise DefinitionError(
                f"{owner.__qualname__}.{attribute} is private by its name and marked as a tool: call it otherwise, or give @rt.tool(name='…')"
            )

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self.function, instance)

    def __repr__(self) -> str:
        return f"<tool method {self.function.__qualname__}>"


def is_method(function: Any) -> bool:
    """Whether a function is being defined as a method: in a class, with a first parameter `self` without a type."""
    if not isinstance(function, types.FunctionType):
        return False
    around = function.__qualname__.rpartition(".")[0]
    if not around or around.endswith("<locals>"):
        return False
    first = next(iter(inspect.signature(function).parameters.values()), None)
    return first is not None and first.name == "self" and first.annotation is inspect.Parameter.empty


@overload
def tool_api(function: F, /) -> F: ...
@overload
def tool_api(**options: Any) -> Callable[[F], F]: ...
def tool_api(function: Any = None, /, **options: Any) -> Any:
    """Mark a method of a toolkit as a tool; Lagent's name for it. The same as `tool`, whose options it takes, but a type checker sees the method as it is written.

    Args:
        function: The method, where the decorator stands bare.
        options: As `tool` takes them.

    Raises:
        DefinitionError: It is no method.
    """
    from retinue.capabilities.tools import tool  # which knows toolkits

    def mark(given: Any) -> Any:
        if not is_method(given):
            raise DefinitionError(f"@rt.tool_api marks a method of a toolkit, and {given!r} is none: make it a tool by @rt.tool")
        return tool(**options)(given)

    return mark if function is None else mark(function)


def _marked(cls: type) -> dict[str, ToolMethod]:
    """The marked methods by attribute, in the order of definition, those of base classes first. What a derived class puts in a marked one's place counts as it is."""
    names: dict[str, None] = {}
    for base in reversed(cls.__mro__):
        names.update(dict.fromkeys(vars(base)))
    found = {name: inspect.getattr_static(cls, name) for name in names}
    return {name: one for name, one in found.items() if isinstance(one, ToolMethod)}


def is_toolkit(cls: type) -> bool:
    """Whether instances of a class have tools."""
    return bool(_marked(cls))


def tools_of_toolkit(toolkit: object) -> tuple[Tool[Any, Any], ...]:
    """The tools of an instance: one for each marked method, bound to it.

    Raises:
        DefinitionError: A method cannot be a tool; or `run`, which stands for the toolkit itself, is one of several.
    """
    cls = type(toolkit)
    marked = _marked(cls)
    own = getattr(cls, "toolkit_name", None) or cls.__name__
    if "run" in marked and len(marked) > 1:
        raise DefinitionError(
            f"the toolkit {cls.__qualname__} has a tool `run`, which is called by the toolkit's name alone, and others beside it: call that method otherwise"
        )
    made: list[Tool[Any, Any]] = []
    for attribute, one in marked.items():
        name = own if attribute == "run" and one.name is None else f"{own}.{one.name or attribute}"
        bound = types.MethodType(one.function, toolkit)
        made.append(tool_of_function(bound, one.options, name=name, description=one.description, names=one.names))
    return tuple(made)
