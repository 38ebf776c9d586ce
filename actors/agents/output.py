"""Structured output: an answer of a type. The type's schema goes to the model, by one of three ways; what comes back is read by the code that reads tools' arguments.

The ways (`Mode`): "tool", the model answers by calling a tool whose arguments are the answer, which every model with tool calling can; "native", the endpoint holds
the answer to the schema (`response_format`), which some do only where there are no tools; "prompted", the instructions say so, for models that can do neither.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, Literal, TypeAlias, TypeVar, final

from retinue.actors.llm.messages import OutputSpec, ToolSpec
from retinue.capabilities.arguments import Reader
from retinue.capabilities.errors import BadArguments
from retinue.capabilities.schema import Schemas, is_enforceable, schema_text
from retinue.capabilities.schema_shapes import OBJECT, Shape, Unsupported
from retinue.capabilities.schema_shapes import Misfit as ShapeMisfit
from retinue.security.errors import DefinitionError

__all__ = ["CORRECTIONS", "MODES", "NAMELESS", "Misfit", "Mode", "OutputType", "choose_mode", "output_type"]

Mode: TypeAlias = Literal["tool", "native", "prompted"]

MODES: Final[tuple[Mode, ...]] = ("tool", "native", "prompted")

CORRECTIONS: Final = 2
"""How often a model is told what is wrong with its answer, before the run ends with OutputInvalid."""

TOOL_NAME: Final = "final_result"
"""The tool by whose call a model answers in the mode "tool"."""

NAMELESS: Final = "answer"
"""What a type is called that has no name of its own, such as list[int]."""

_ABOUT_ALL: Final = "the arguments:"  # how a tool's problem begins that is about all of it
_ANSWER: Final = "the answer:"

T = TypeVar("T")


class Misfit(Exception):
    """The text is no answer of the type. Its own text is for the model."""


@final
class OutputType(Generic[T]):
    """A type of answers. Made by `output_type`.

    Attributes:
        kind: The type.
        spec: What an endpoint is told that holds answers to schemas.
        tool_spec: The tool by whose call the model answers.
        instructions: What a model is told that can do neither.
    """

    __slots__ = ("_reader", "instructions", "kind", "spec", "tool_spec")

    def __init__(self, kind: type[T], name: str, schema: dict[str, Any], reader: Reader) -> None:
        text = schema_text(schema)
        strict = True if is_enforceable(schema) else None
        self.kind = kind
        self.spec = OutputSpec(name, text, strict)
        self.tool_spec = ToolSpec(
            TOOL_NAME, "Gives the final answer, and ends the work on it. Call it once, when the answer is known.", text, strict
        )
        self.instructions = f"Answer with JSON alone, without any other words, that fits this JSON Schema:\n{text}"
        self._reader = reader

    def decode(self, text: str, *, truncated: bool = False) -> T:
        """The value that an answer is.

        Args:
            text: JSON, perhaps in a code fence or with words around it.
            truncated: Whether the answer was cut off; then nothing is mended.

        Raises:
            Misfit: It is none; the text tells the model what is wrong.
        """
        if not text.strip():
            raise Misfit(f"Your answer is empty. Answer with JSON: {self._reader.expected}")
        try:
            return self._read(text, truncated)
        except BadArguments as error:
            if error.problems or truncated:
                raise Misfit(self._told(error, truncated)) from None
            first = error
        for candidate in _candidates(text):
            try:
                return self._read(candidate, truncated)
            except BadArguments as error:
                if error.problems:
                    first = error
        raise Misfit(self._told(first, truncated))

    def _read(self, text: str, truncated: bool) -> T:
        value: T = self._reader.read(text, truncated=truncated)
        return value

    def _told(self, error: BadArguments, truncated: bool) -> str:
        if error.problems:
            lines = "\n".join(f"- {str(problem).replace(_ABOUT_ALL, _ANSWER, 1)}" for problem in error.problems[:20])
            return f"Your answer does not fit:\n{lines}\nExpected: {self._reader.expected}"
        cut = " It was cut off at its greatest length: write less." if truncated else ""
        where = "" if error.position is None else f" (the mistake is at character {error.position})"
        return f"Your answer is no JSON that can be read{where}.{cut} Answer with JSON alone: {self._reader.expected}"


_FENCED = re.compile(r"```[A-Za-z0-9_-]{0,20}[ \t]*\r?\n(.*?)\r?\n?[ \t]*```", re.DOTALL)


def _candidates(text: str) -> list[str]:
    """Where in a text with other words the JSON may stand."""
    fenced = _FENCED.findall(text)
    found = list(fenced) if len(fenced) == 1 else []
    for opening, closing in (("{", "}"), ("[", "]")):
        start, end = text.find(opening), text.rfind(closing)
        if 0 <= start < end:
            found.append(text[start : end + 1])
    return found


def output_type(kind: Any, *, name: str | None = None) -> OutputType[Any]:
    """A type of answers.

    Args:
        kind: An attrs class, a dataclass, a TypedDict, a NamedTuple, a pydantic model (where you use pydantic), a union of them, `list[T]`, an Enum, a Literal, a
            number: whatever a tool's parameter may be.
        name: What the model knows it by; default the class's name, or "answer".

    Raises:
        DefinitionError: The type has no form in JSON; the text says which part of it.
    """
    if isinstance(kind, OutputType):
        return kind
    if not isinstance(kind, type) and isinstance(kind, Mapping | list | str | bytes | int | float):
        raise DefinitionError(
            f"output= is a {type(kind).__name__}, {kind!r:.100}: give the type itself, such as a dataclass, a TypedDict or list[str]; its JSON Schema is made from it"
        )
    label = getattr(kind, "__name__", None) if isinstance(kind, type) else None
    schemas = Schemas(module=getattr(kind, "__module__", "builtins"))
    try:
        shape = schemas.shape(kind)
    except Unsupported as error:
        raise DefinitionError(f"output={label or kind!r}: {error}") from None
    called = name or (re.sub(r"[^A-Za-z0-9_-]", "_", label)[:64] if label else NAMELESS)

    def made_lenient() -> Callable[[Any, Any], Any]:
        return _wrapped(Schemas(strict=schemas, module=getattr(kind, "__module__", "builtins")).shape(kind), is_object)

    is_object = _is_object(shape, schemas)
    words = _words_of(shape, schemas) if is_object else {"value": shape.words}
    reader = Reader(called, _wrapped(shape, is_object), made_lenient, kind, words, aliases={}, is_object=is_object, what="answer")
    schema = shape.schema
    if not is_object:
        schema = {"type": "object", "properties": {"value": shape.schema}, "required": ["value"], "additionalProperties": False}
    root = schemas.root(schema)
    if "$ref" in schema:  # providers want an object at the root
        root = {**schemas.definitions[schema["$ref"].rpartition("/")[2]], "$defs": schemas.definitions}
    return OutputType(kind, called, root, reader)


def choose_mode(has_tools: bool, native: bool) -> Mode:
    """How the model is told of the type, where nobody says: by a tool where the agent has tools or the endpoint cannot hold answers to a schema."""
    return "native" if native and not has_tools else "tool"


def check_mode(mode: object) -> Mode | None:
    """The mode. Raises DefinitionError for what is none."""
    if mode is None or mode in MODES:
        return mode
    raise DefinitionError(f"output_mode={mode!r}: use one of {', '.join(MODES)}, or None for the one that fits the agent")


def _is_object(shape: Shape, schemas: Schemas) -> bool:
    """Whether each value is an object with properties of its own, so that it can stand at the root of a schema."""
    return shape.kinds == OBJECT and "properties" in _resolved(shape.schema, schemas)


def _resolved(schema: dict[str, Any], schemas: Schemas) -> dict[str, Any]:
    return schemas.definitions.get(schema["$ref"].rpartition("/")[2], schema) if "$ref" in schema else schema


def _words_of(shape: Shape, schemas: Schemas) -> dict[str, str]:
    properties = _resolved(shape.schema, schemas).get("properties", {})
    return {name: _said(schema) for name, schema in properties.items()}


def _said(schema: dict[str, Any]) -> str:
    """A schema in a word or two."""
    if "enum" in schema:
        return "one of " + ", ".join(schema_text(value) for value in schema["enum"][:10])
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_said(one) for one in schema["anyOf"]))
    if "$ref" in schema:
        return f"an object ({schema['$ref'].rpartition('/')[2]})"
    kind = schema.get("type", "a value")
    return {"integer": "an integer", "array": "an array", "object": "an object", "null": "null"}.get(
        kind, f"a {kind}" if kind != "a value" else kind
    )


def _wrapped(shape: Shape, is_object: bool) -> Callable[[Any, Any], Any]:
    """Reads what stands under "value" where the type's values are no objects; the value alone will do."""
    if is_object:
        return shape.load

    def load(value: Any, target: Any = None) -> Any:
        if type(value) is dict and value.keys() == {"value"}:
            try:
                return shape.load(value["value"], target)
            except ShapeMisfit as misfit:
                raise misfit.at("value") from None
        return shape.load(value, target)

    return load
