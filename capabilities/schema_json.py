"""Shapes from JSON Schemas that somebody else wrote: of `tool_info`, of a server of tools. The values stay plain JSON.

What a schema says of types, choices, objects, arrays, bounds and alternatives is checked; keywords that are not known are told to the model and not checked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from retinue.capabilities.schema_lenient import lenient
from retinue.capabilities.schema_records import Field, loader_of_fields, unknown
from retinue.capabilities.schema_scalars import ANY, NOTHING, literal_choice, scalar_shape
from retinue.capabilities.schema_shapes import (
    ARRAY,
    EVERY,
    MOST_PROBLEMS,
    OBJECT,
    Misfit,
    Shape,
    Unsupported,
    either,
    joined,
    kind_of,
    misfit,
    remembering,
    shown,
)

__all__ = ["shape_of_schema"]

_TYPES: Final[dict[str, Any]] = {"string": str, "integer": int, "number": float, "boolean": bool}
_DEEPEST: Final = 64

Check = tuple[str, Callable[[Any], bool]]


class _Reader:
    """Compiles one schema. References go to its own definitions."""

    def __init__(self, root: Mapping[str, Any], *, is_lenient: bool) -> None:
        self._root = root
        self._lenient = is_lenient
        self._known: dict[str, Shape] = {}

    def shape(self, schema: Any, depth: int = 0) -> Shape:
        made = self._made(schema, depth)
        if not self._lenient or made is ANY:
            return made
        return lenient(made, _Reader(self._root, is_lenient=False).shape(schema, depth))

    def _made(self, schema: Any, depth: int) -> Shape:
        if depth > _DEEPEST:
            raise Unsupported(f"a schema of more than {_DEEPEST} levels")
        if schema is True or schema == {}:
            return ANY
        if not isinstance(schema, Mapping):
            raise Unsupported(f"{shown(schema)}, which is no JSON Schema: write an object such as {{'type': 'string'}}")
        if "$ref" in schema:
            return self._reference(schema["$ref"], depth)
        shape = self._by_type(schema, depth)
        if "enum" in schema:
            shape = self._both(shape, literal_choice(schema["enum"]))
        if "const" in schema:
            shape = self._both(shape, literal_choice([schema["const"]]))
        for keyword in ("anyOf", "oneOf"):
            if keyword in schema:
                shape = self._both(shape, _any_of([self.shape(one, depth + 1) for one in _list(schema, keyword)]))
        for one in _list(schema, "allOf"):
            shape = self._both(shape, self.shape(one, depth + 1))
        return Shape(dict(schema), shape.load, shape.words, shape.kinds, text=shape.text)

    def _reference(self, reference: Any, depth: int) -> Shape:
        known = self._known.get(str(reference))
        if known is not None:
            return known
        target: Any = self._root
        for part in str(reference).removeprefix("#/").split("/"):
            target = target.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(target, Mapping) else None
        if target is None or not str(reference).startswith("#/"):
            raise Unsupported(f"{shown(reference)}, a reference to what is not in the schema")
        shell = self._known[str(reference)] = Shape({"$ref": reference}, lambda value, _=None: shell.load(value), "a value", EVERY)
        made = self.shape(target, depth + 1)
        shell.fill(made)
        shell.schema = {"$ref": reference}
        return shell

    def _both(self, first: Shape, second: Shape) -> Shape:
        if first is ANY:
            return second

        def load(value: Any, _: Any = None) -> Any:
            second.load(value)
            return first.load(value)

        return Shape(first.schema, load, second.words, first.kinds & second.kinds or first.kinds, text=first.text)

    def _by_type(self, schema: Mapping[str, Any], depth: int) -> Shape:
        types = schema.get("type")
        if types is None:
            if "properties" in schema:
                return self._object(schema, depth)
            return self._array(schema, depth) if "items" in schema else ANY
        names = types if isinstance(types, list) else [types]
        shapes = [self._of_type(name, schema, depth) for name in names]
        if not shapes:
            raise Unsupported("of no type at all: name one")
        return shapes[0] if len(shapes) == 1 else _any_of(shapes)

    def _of_type(self, name: Any, schema: Mapping[str, Any], depth: int) -> Shape:
        if name == "object":
            return self._object(schema, depth)
        if name == "array":
            return self._array(schema, depth)
        if name == "null":
            return NOTHING
        python = _TYPES.get(name) if isinstance(name, str) else None
        shape = scalar_shape(python)
        if shape is None:
            raise Unsupported(f"{name!r}, which is no type of JSON Schema: string, integer, number, boolean, array, object, null")
        return _bounded(shape, schema)

    def _object(self, schema: Mapping[str, Any], depth: int) -> Shape:
        properties = schema.get("properties") or {}
        if not isinstance(properties, Mapping):
            raise Unsupported("an object whose properties are no object")
        shapes = {str(name): self.shape(one, depth + 1) for name, one in properties.items()}
        required = {str(name) for name in _list(schema, "required")}
        more = schema.get("additionalProperties", True)
        fields = [Field(name, Any, name in required) for name in {**shapes, **dict.fromkeys(required)}]
        shapes = {**dict.fromkeys(required, ANY), **shapes}
        rest = None if more is False else ANY if more is True else self.shape(more, depth + 1)
        closed = loader_of_fields(fields, shapes, dict)

        def load(value: Any, _: Any = None) -> dict[str, Any]:
            if not isinstance(value, Mapping):
                raise misfit("an object", value)
            if rest is None:
                return closed(value)  # type: ignore[no-any-return]
            known = {name: one for name, one in value.items() if name in shapes}
            made: dict[str, Any] = closed(known)
            wrong: list[Misfit] = []
            for name, one in value.items():
                if name in shapes:
                    continue
                if type(name) is not str:
                    wrong.append(Misfit([unknown(name, shapes)]))
                    continue
                if len(wrong) >= MOST_PROBLEMS:
                    break
                try:
                    made[name] = rest.load(one)
                except Misfit as error:
                    wrong.append(error.at(name))
            if wrong:
                raise joined(wrong)
            return made

        return Shape(dict(schema), load, "an object", OBJECT)

    def _array(self, schema: Mapping[str, Any], depth: int) -> Shape:
        item = self.shape(schema["items"], depth + 1) if isinstance(schema.get("items"), Mapping) else ANY

        def load(value: Any, _: Any = None) -> list[Any]:
            if type(value) is not list:
                raise misfit("an array", value)
            made: list[Any] = []
            wrong: list[Misfit] = []
            for index, one in enumerate(value):
                try:
                    made.append(item.load(one))
                except Misfit as error:
                    wrong.append(error.at(index))
                    if len(wrong) >= MOST_PROBLEMS:
                        break
            if wrong:
                raise joined(wrong)
            return made

        words = "an array" if item is ANY else f"an array, each item {item.words}"
        return _bounded(Shape(dict(schema), load, words, ARRAY), schema)


def _list(schema: Mapping[str, Any], keyword: str) -> list[Any]:
    found = schema.get(keyword) or []
    if not isinstance(found, list | tuple):
        raise Unsupported(f"a schema whose {keyword!r} is no list")
    return list(found)


def _any_of(shapes: list[Shape]) -> Shape:
    words = either(shape.words for shape in shapes)

    def load(value: Any, _: Any = None) -> Any:
        errors: list[Misfit] = []
        for shape in shapes:
            if kind_of(value) in shape.kinds:
                try:
                    return shape.load(value)
                except Misfit as error:
                    errors.append(error)
        if len(errors) == 1:
            raise errors[0]
        raise misfit(words, value)

    kinds = frozenset[str]().union(*(shape.kinds for shape in shapes))
    return remembering(Shape({}, load, words, kinds, text=any(shape.text for shape in shapes)))


def _bounded(shape: Shape, schema: Mapping[str, Any]) -> Shape:
    """With the bounds on numbers and lengths that the schema has."""
    checks: list[Check] = []
    for keyword, said, holds in _BOUNDS:
        bound = schema.get(keyword)
        if isinstance(bound, int | float) and not isinstance(bound, bool) and _concerns(keyword, shape.kinds):
            checks.append((said.format(bound), _check(holds, bound)))
    if not checks:
        return shape
    words = ", ".join([shape.words, *(said for said, _ in checks)])

    def load(value: Any, _: Any = None) -> Any:
        made = shape.load(value)
        if not all(holds(made) for _, holds in checks):
            raise misfit(words, value)
        return made

    return Shape(shape.schema, load, words, shape.kinds, text=shape.text)


def _check(holds: Callable[[Any, Any], bool], bound: Any) -> Callable[[Any], bool]:
    return lambda value: holds(value, bound)


def _concerns(keyword: str, kinds: frozenset[str]) -> bool:
    if keyword.endswith("Length"):
        return "string" in kinds
    if keyword.endswith("Items"):
        return "array" in kinds
    return bool(kinds & {"integer", "real"})


_BOUNDS: Final[tuple[tuple[str, str, Callable[[Any, Any], bool]], ...]] = (
    ("minimum", "at least {}", lambda value, bound: value >= bound),
    ("exclusiveMinimum", "above {}", lambda value, bound: value > bound),
    ("maximum", "at most {}", lambda value, bound: value <= bound),
    ("exclusiveMaximum", "below {}", lambda value, bound: value < bound),
    ("multipleOf", "a multiple of {}", lambda value, bound: bound == 0 or value % bound == 0),
    ("minLength", "at least {} long", lambda value, bound: len(value) >= bound),
    ("maxLength", "at most {} long", lambda value, bound: len(value) <= bound),
    ("minItems", "at least {} items", lambda value, bound: len(value) >= bound),
    ("maxItems", "at most {} items", lambda value, bound: len(value) <= bound),
)


def shape_of_schema(schema: Mapping[str, Any], root: Mapping[str, Any] | None = None, *, is_lenient: bool = False) -> Shape:
    """The shape of a JSON Schema.

    Args:
        schema: The schema.
        root: The document that its references look into. Default: itself.
        is_lenient: Whether it is read leniently; see `schema_lenient`.

    Raises:
        Unsupported: It is none.
    """
    return _Reader(schema if root is None else root, is_lenient=is_lenient).shape(schema)
