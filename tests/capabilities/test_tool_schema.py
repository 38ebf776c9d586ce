"""What a model is told of a function's types, and what is refused when a tool is defined."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import functools
import json
import pathlib
import uuid
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, NewType, NotRequired, Optional, TypedDict, Union

import annotated_types
import attrs
import pydantic
import pytest
from typing_extensions import TypeAliasType

import retinue as rt
from retinue.capabilities.tools import tool_of

if TYPE_CHECKING:
    from fractions import Fraction


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.Enum):
    LOW = (1, 2)
    HIGH = (3, 4)


class Rights(enum.Flag):
    READ = 1
    WRITE = 2


UserId = NewType("UserId", int)
Json = Union[dict[str, "Json"], list["Json"], str, int, None]  # noqa: UP007 - the old way to write it
Nested = TypeAliasType("Nested", "list[Nested] | int")


@attrs.frozen
class Stop:
    """A stop on the way.

    Attributes:
        name: What it is called.
    """

    name: str
    minutes: int = 5
    _hidden: int = attrs.field(default=0, init=False)


@dataclasses.dataclass
class Node:
    value: int
    children: list[Node] = dataclasses.field(default_factory=list)


class Options(TypedDict, total=False):
    deep: bool


class Entry(TypedDict):
    key: str
    note: NotRequired[str]


class Spot(NamedTuple):
    row: int
    column: str = "a"


class Form(pydantic.BaseModel):
    size: int
    inner: Optional[Form] = None  # noqa: UP045 - as older code has it


def schema_of(annotation: Any) -> Any:
    def example(value: str) -> None: ...

    example.__annotations__["value"] = annotation
    (tool,) = tool_of(example)
    return json.loads(tool.parameters)["properties"]["value"]


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (str, {"type": "string"}),
        (int, {"type": "integer"}),
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (None, {"type": "null"}),
        (Any, {}),
        (object, {}),
        (Optional[int], {"anyOf": [{"type": "integer"}, {"type": "null"}]}),  # noqa: UP045
        (int | str, {"anyOf": [{"type": "integer"}, {"type": "string"}]}),
        (Union[int, str, None], {"anyOf": [{"type": "integer"}, {"type": "string"}, {"type": "null"}]}),  # noqa: UP007
        (Literal["km", "miles"], {"type": "string", "enum": ["km", "miles"]}),
        (Literal["km", 3, None], {"enum": ["km", 3, None]}),  # noqa: PYI061
        (Colour, {"type": "string", "enum": ["red", "blue"]}),
        (Level, {"type": "string", "enum": ["LOW", "HIGH"]}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (list, {"type": "array", "items": {}}),
        (Sequence[str], {"type": "array", "items": {"type": "string"}}),
        (set[int], {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}),
        (frozenset[int], {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}),
        (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}),
        (
            tuple[int, str],
            {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "items": False, "minItems": 2, "maxItems": 2},
        ),
        (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (Mapping[str, Any], {"type": "object", "additionalProperties": True}),
        (
            dict[Colour, int],
            {"type": "object", "additionalProperties": {"type": "integer"}, "propertyNames": {"type": "string", "enum": ["red", "blue"]}},
        ),
        (UserId, {"type": "integer"}),
        (dt.date, {"type": "string", "format": "date"}),
        (dt.datetime, {"type": "string", "format": "date-time"}),
        (dt.time, {"type": "string", "format": "time"}),
        (dt.timedelta, {"type": "number", "description": "seconds"}),
        (uuid.UUID, {"type": "string", "format": "uuid"}),
        (pathlib.Path, {"type": "string", "format": "path"}),
        (Decimal, {"type": "string", "format": "decimal"}),
        (bytes, {"type": "string", "contentEncoding": "base64"}),
        (Annotated[int, "how many"], {"type": "integer", "description": "how many"}),
        (Annotated[int, annotated_types.Interval(ge=1, lt=7)], {"type": "integer", "minimum": 1, "exclusiveMaximum": 7}),
        (Annotated[str, annotated_types.Len(2, 5)], {"type": "string", "minLength": 2, "maxLength": 5}),
        (Annotated[list[int], annotated_types.MaxLen(3)], {"type": "array", "items": {"type": "integer"}, "maxItems": 3}),
        (Annotated[int, pydantic.Field(gt=0, description="a size")], {"type": "integer", "exclusiveMinimum": 0, "description": "a size"}),
        (
            Stop,
            {
                "type": "object",
                "properties": {
                    "name": {"type": "string", "description": "What it is called."},
                    "minutes": {"type": "integer", "default": 5},
                },
                "required": ["name"],
                "additionalProperties": False,
                "description": "A stop on the way.",
            },
        ),
        (Options, {"type": "object", "properties": {"deep": {"type": "boolean"}}, "required": [], "additionalProperties": False}),
        (
            Entry,
            {
                "type": "object",
                "properties": {"key": {"type": "string"}, "note": {"type": "string"}},
                "required": ["key"],
                "additionalProperties": False,
            },
        ),
        (
            Spot,
            {
                "type": "object",
                "properties": {"row": {"type": "integer"}, "column": {"type": "string", "default": "a"}},
                "required": ["row"],
                "additionalProperties": False,
            },
        ),
    ],
    ids=str,
)
def test_each_type_has_its_schema(annotation: Any, schema: dict[str, Any]) -> None:
    assert schema_of(annotation) == schema


@pytest.mark.parametrize(("annotation", "name"), [(Node, "Node"), (Nested, "Nested"), (Form, "Form")])
def test_a_type_that_contains_itself_is_told_once_and_referred_to(annotation: Any, name: str) -> None:
    def example(value: int) -> None: ...

    example.__annotations__["value"] = annotation
    (tool,) = tool_of(example)
    schema = json.loads(tool.parameters)
    assert schema["properties"]["value"] == {"$ref": f"#/$defs/{name}"}
    assert list(schema["$defs"]) == [name]


def test_an_alias_that_names_itself_is_understood() -> None:
    def example(value: Json) -> Json:
        return value

    (tool,) = tool_of(example)
    assert len(json.loads(tool.parameters)["$defs"]) == 1
    value = {"a": ["b", {"c": None}], "d": 3}
    assert tool.invoke(tool.decode({"value": value})) == value
    with pytest.raises(rt.BadArguments, match=r"value\.a\[0\]"):
        tool.decode({"value": {"a": [1.5]}})


def test_annotations_that_are_text_are_understood_also_of_classes_in_the_same_function() -> None:
    @attrs.frozen
    class Local:
        width: int

    @rt.tool
    def draw(box: Local, also: list[Local] | None = None) -> str:
        return str(box.width)

    assert draw.invoke(draw.decode('{"box": {"width": 3}}')) == "3"


@pytest.mark.parametrize(
    "annotation", [complex, Callable[[int], str], type, dict[int, str], list[complex], int | memoryview, Rights, functools.partial]
)
def test_a_type_without_a_form_in_json_is_refused_with_tool_parameter_and_fix(annotation: Any) -> None:
    def example(value: int) -> None: ...

    example.__annotations__["value"] = annotation
    with pytest.raises(rt.DefinitionError, match=r"the tool 'example' .*parameter 'value' is of type .*use "):
        tool_of(example)


def test_the_field_of_a_class_that_has_no_form_is_named() -> None:
    @attrs.frozen
    class Holder:
        handle: memoryview

    def example(value: int) -> None: ...

    example.__annotations__["value"] = Holder
    with pytest.raises(rt.DefinitionError, match=r"parameter 'value' is of type .*Holder, whose field 'handle' is memoryview"):
        tool_of(example)


def test_a_parameter_without_a_type_is_refused_by_name() -> None:
    def search(query, limit: int = 3) -> str:  # type: ignore[no-untyped-def]
        return str(query)

    with pytest.raises(rt.DefinitionError, match=r"the tool 'search' \(.*search\): its parameter 'query' has no type.*`query: str`"):
        tool_of(search)


def test_any_number_of_arguments_is_refused_with_what_would_do() -> None:
    def many(*names: str) -> None: ...
    def named(**names: str) -> None: ...

    with pytest.raises(rt.DefinitionError, match=r"'names' is \*names.*list"):
        tool_of(many)
    with pytest.raises(rt.DefinitionError, match=r"'names' is \*\*names.*dict"):
        tool_of(named)


def test_a_name_that_only_a_type_checker_knows_is_refused_with_the_fix() -> None:
    def half(value: Fraction) -> str:
        return str(value)

    with pytest.raises(rt.DefinitionError, match=r"'value' is annotated 'Fraction'.*not under TYPE_CHECKING"):
        tool_of(half)


@pytest.mark.parametrize(
    ("annotation", "strict"),
    [
        (int, True),
        (Stop, False),
        (dict[str, int], False),
        (Any, False),
        (list[Literal["a"]] | None, True),
        (tuple[int, str], False),
        (dt.date, False),
    ],
    ids=str,
)
def test_strict_mode_is_asked_for_only_where_the_schema_allows_it(annotation: Any, strict: bool) -> None:
    def example(value: int) -> None: ...

    example.__annotations__["value"] = annotation
    (tool,) = tool_of(example)
    assert tool.strict is strict


def test_a_parameter_with_a_default_takes_the_tool_out_of_strict_mode() -> None:
    def example(value: int = 3) -> None: ...

    (tool,) = tool_of(example)
    assert not tool.strict
    assert json.loads(tool.parameters)["properties"]["value"] == {"type": "integer", "default": 3}
    assert json.loads(tool.parameters)["required"] == []


def test_a_default_of_none_lets_null_be_given_whatever_the_annotation_says() -> None:
    def example(value: int = None) -> int | None:  # type: ignore[assignment]  # noqa: RUF013
        return value

    (tool,) = tool_of(example)
    assert tool.invoke(tool.decode('{"value": null}')) is None
    assert tool.invoke(tool.decode("{}")) is None


def test_characters_stand_for_themselves_in_the_schema() -> None:
    def example(größe: Annotated[int, "die Größe, 大きさ"]) -> None: ...  # noqa: PLC2401

    (tool,) = tool_of(example)
    assert "大きさ" in tool.parameters
    assert "größe" in tool.parameters
