"""Functions with a `tool_info` attribute, as LightAgent has them.

    def get_weather(city): ...
    get_weather.tool_info = {
        "tool_name": "get_weather",
        "tool_description": "Forecast for a city",
        "tool_params": [{"name": "city", "type": "string", "description": "Name of the city", "required": True}],
    }

What it says is the schema: the function's own annotations are not looked at, and it gets plain JSON values. Keys of a parameter beside the four (enum, items, properties,
minimum…) are part of its schema.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeGuard

import attrs

from retinue.capabilities.schema_json import shape_of_schema
from retinue.capabilities.schema_records import object_schema
from retinue.capabilities.schema_shapes import Unsupported
from retinue.capabilities.tool_class import Tool
from retinue.capabilities.tool_making import Recipe, check_name, finished
from retinue.capabilities.tool_messages import MessageField, field_names
from retinue.capabilities.tool_options import ToolOptions
from retinue.capabilities.tool_signature import place_of
from retinue.security.errors import DefinitionError

__all__ = ["TYPE_NAMES", "has_tool_info", "info_schema", "tool_of_info"]

TYPE_NAMES: Final[Mapping[str, str]] = {
    "string": "string", "str": "string", "integer": "integer", "int": "integer", "number": "number", "float": "number",
    "boolean": "boolean", "bool": "boolean", "array": "array", "list": "array", "object": "object", "dict": "object", "null": "null",
}  # fmt: skip
"""What types may be called, and what JSON Schema calls them."""

_OF_INFO: Final = frozenset({"name", "required"})


def has_tool_info(given: object) -> TypeGuard[Callable[..., Any]]:
    """Whether it carries LightAgent's description of itself."""
    return callable(given) and isinstance(getattr(given, "tool_info", None), Mapping)


def tool_of_info(
    function: Callable[..., Any], options: ToolOptions, *, name: str | None = None, description: str | None = None
) -> Tool[Any, Any]:
    """The tool that a function with `tool_info` is.

    Args:
        function: The function.
        options: Its options.
        name: Its name. Default: `tool_name`, else the function's.
        description: What it does. Default: `tool_description`.

    Raises:
        DefinitionError: What it says of itself cannot be, or is not what the function takes; the text names tool and parameter.
    """
    info: Mapping[str, Any] = function.tool_info  # type: ignore[attr-defined]
    source = place_of(function)
    label = check_name(name or info.get("tool_name") or getattr(function, "__name__", None), source)
    where = f"the tool {label!r} ({source})"
    said = info.get("tool_description", "") if description is None else description
    if not isinstance(said, str):
        raise DefinitionError(f"{where}: its tool_description is a text, not an object of type {type(said).__name__}")
    listed = info.get("tool_params") or []
    if not isinstance(listed, list | tuple):
        raise DefinitionError(f"{where}: its tool_params are a list of objects, not an object of type {type(listed).__name__}")
    takes, open_ended = _taken(function)
    rows = [_row(one, index, where, takes) for index, one in enumerate(listed)]
    _check_against(rows, takes, open_ended, where)
    recipe = Recipe(
        name=label,
        description=said,
        function=function,
        options=options,
        fields=_fields(rows, takes, where, is_lenient=False),
        lenient=lambda: _fields(rows, takes, where, is_lenient=True),
        schema=object_schema(rows),
    )
    return finished(recipe)


def _taken(function: Any) -> tuple[dict[str, Any], bool]:
    """The function's parameters with their defaults, and whether it takes any others."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return {}, True
    named = {one.name: one.default for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)}
    return named, any(one.kind is one.VAR_KEYWORD for one in parameters)


def _row(given: Any, index: int, where: str, takes: Mapping[str, Any]) -> tuple[str, dict[str, Any], bool]:
    if not isinstance(given, Mapping) or not isinstance(given.get("name"), str) or not given["name"]:
        raise DefinitionError(
            f"{where}: its tool_params[{index}] is an object with a name, a type, a description and whether it is required"
        )
    name: str = given["name"]
    required = given.get("required", False)
    if type(required) is not bool:
        raise DefinitionError(f"{where}: 'required' of its parameter {name!r} is True or False, not {required!r}")
    try:
        schema = info_schema({key: value for key, value in given.items() if key not in _OF_INFO})
    except Unsupported as error:
        raise DefinitionError(f"{where}: its parameter {name!r} is of type {error}") from None
    # A parameter without a default is required, whatever is said: a call without it cannot be made.
    return name, schema, required or takes.get(name, None) is inspect.Parameter.empty


def info_schema(given: Mapping[str, Any]) -> dict[str, Any]:
    """A parameter's description as JSON Schema, the names of types as JSON Schema has them, also within.

    Raises:
        Unsupported: A type has a name that nobody knows.
    """
    made: dict[str, Any] = {}
    for key, value in given.items():
        if key == "type":
            made[key] = [_type(one) for one in value] if isinstance(value, list | tuple) else _type(value)
        elif key in ("items", "additionalProperties") and isinstance(value, Mapping):
            made[key] = info_schema(value)
        elif key in ("properties", "$defs") and isinstance(value, Mapping):
            made[key] = {name: info_schema(one) if isinstance(one, Mapping) else one for name, one in value.items()}
        elif key in ("anyOf", "oneOf", "allOf") and isinstance(value, list | tuple):
            made[key] = [info_schema(one) if isinstance(one, Mapping) else one for one in value]
        else:
            made[key] = value
    return made


def _type(name: Any) -> str:
    found = TYPE_NAMES.get(name.strip().lower()) if isinstance(name, str) else None
    if found is None:
        near = difflib.get_close_matches(str(name).lower(), TYPE_NAMES, 1)
        meant = f" (did you mean {near[0]!r}?)" if near else ""
        raise Unsupported(f"{name!r}, which nobody knows{meant}: string, integer, number, boolean, array or object")
    return found


def _check_against(rows: list[tuple[str, dict[str, Any], bool]], takes: Mapping[str, Any], open_ended: bool, where: str) -> None:
    names = [name for name, _, _ in rows]
    twice = next((name for index, name in enumerate(names) if name in names[:index]), None)
    if twice is not None:
        raise DefinitionError(f"{where}: its tool_params have {twice!r} twice: keep one")
    stray = next((name for name in names if name not in takes), None)
    if stray is not None and not open_ended:
        raise DefinitionError(
            f"{where}: its tool_params have {stray!r}, which the function does not take. It takes {', '.join(takes) or 'nothing'}"
        )
    missing = next((name for name, default in takes.items() if default is inspect.Parameter.empty and name not in names), None)
    if missing is not None:
        raise DefinitionError(f"{where}: the function takes {missing!r}, which has no default and is not in its tool_params: add it there")


def _fields(
    rows: list[tuple[str, dict[str, Any], bool]], takes: Mapping[str, Any], where: str, *, is_lenient: bool
) -> tuple[MessageField, ...]:
    names = field_names(name for name, _, _ in rows)
    fields: list[MessageField] = []
    for name, schema, required in rows:
        try:
            shape = shape_of_schema(schema, is_lenient=is_lenient)
        except Unsupported as error:
            raise DefinitionError(f"{where}: its parameter {name!r} is {error}") from None
        default = attrs.NOTHING if required else takes.get(name)
        omitted = not required and name not in takes
        fields.append(MessageField(name, names[name], _ANNOTATIONS.get(str(schema.get("type")), Any), shape, default, omitted))
    return tuple(fields)


_ANNOTATIONS: Final[Mapping[str, Any]] = {"string": str, "integer": int, "number": float, "boolean": bool}
