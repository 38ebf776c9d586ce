"""Looking tools over without making an agent of them: everything that is wrong, or could be better, in one list."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Literal

import attrs

from retinue.capabilities.tool_class import Tool
from retinue.capabilities.tool_signature import place_of
from retinue.capabilities.toolkits import ToolMethod
from retinue.capabilities.tools import tool_of
from retinue.security.errors import DefinitionError, PatternError

__all__ = ["Finding", "validate_tools"]


@attrs.frozen
class Finding:
    """One thing that was found about a tool.

    Attributes:
        tool: The tool's name, or where it is defined if it has none.
        field: What it is about: a parameter's name, "name", "description", or "" for the tool as a whole.
        level: "error": it cannot be used so; "warning": it can, and a model will have less to go by.
        text: What it is, and what to do.
    """

    __immutable__: ClassVar[bool] = True

    tool: str
    field: str
    level: Literal["error", "warning"]
    text: str

    def __str__(self) -> str:
        return f"{self.level}: {self.tool}{f', {self.field}' if self.field else ''}: {self.text}"


def validate_tools(tools: Iterable[object]) -> tuple[Finding, ...]:
    """What is wrong with tools; nothing is changed, registered or called.

    Args:
        tools: What `Agent(tools=…)` takes.

    Returns:
        The findings, in the order of the tools; empty where all is well.
    """
    found: list[Finding] = []
    taken: dict[str, Tool[Any, Any]] = {}
    for given in tools:
        label = _label(given)
        try:
            made = tool_of(given)
        except (DefinitionError, PatternError) as error:
            found.append(Finding(label, _parameter_in(str(error)), "error", str(error)))
            continue
        for one in made:
            other = taken.get(one.wire_name)
            if other is None:
                taken[one.wire_name] = one
                found += _thin(one)
            elif other.function is one.function:
                found.append(Finding(one.name, "name", "error", f"{one.source} is given twice: leave one out"))
            else:
                found.append(
                    Finding(
                        one.name,
                        "name",
                        "error",
                        f"two tools have this name: {other.source} and {one.source}. Give one another: @rt.tool(name='…')",
                    )
                )
    return tuple(found)


def _label(given: object) -> str:
    if isinstance(given, Tool):
        return given.name
    if isinstance(given, ToolMethod):
        return given.function.__qualname__
    info = getattr(given, "tool_info", None)
    name = info.get("tool_name") if isinstance(info, Mapping) else None
    if isinstance(name, str) and name:
        return name
    return str(getattr(given, "__name__", None) or (place_of(given) if callable(given) else type(given).__name__))


def _parameter_in(text: str) -> str:
    """The parameter that an error's text is about."""
    return text.partition("its parameter '")[2].partition("'")[0]


def _thin(one: Tool[Any, Any]) -> list[Finding]:
    """What a model would like to be told, and is not."""
    found: list[Finding] = []
    if not one.description.strip():
        found.append(
            Finding(
                one.name, "description", "warning", "nothing says what it does: give the function a docstring, or the tool a description="
            )
        )
    for name, schema in json.loads(one.parameters)["properties"].items():
        if "description" not in schema:
            found.append(
                Finding(
                    one.name, name, "warning", "nothing says what it is for: describe it in the docstring's Args, or with Annotated[…, '…']"
                )
            )
    return found
