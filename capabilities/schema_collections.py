"""Collections and unions as tools take them: arrays for lists, sets and tuples, objects for dicts, the first member that fits for a union."""

from __future__ import annotations

import enum
import types
from collections import abc
from collections.abc import Callable
from typing import Any, Final, Literal, Union, get_args, get_origin

from retinue.capabilities.schema_scalars import ANY
from retinue.capabilities.schema_shapes import (
    ARRAY,
    MOST_PROBLEMS,
    OBJECT,
    Misfit,
    Shape,
    ShapeOf,
    Unsupported,
    either,
    joined,
    kind_of,
    misfit,
    remembering,
)
from retinue.capabilities.tool_problems import Problem

__all__ = ["collection_shape", "optional", "union_shape"]

_LISTS: Final[frozenset[Any]] = frozenset({list, abc.Sequence, abc.MutableSequence, abc.Collection, abc.Iterable})
_SETS: Final[frozenset[Any]] = frozenset({set, frozenset, abc.Set, abc.MutableSet})
_MAPPINGS: Final[frozenset[Any]] = frozenset({dict, abc.Mapping, abc.MutableMapping})


def collection_shape(shape_of: ShapeOf, kind: Any) -> Shape | None:
    """The shape of a collection's type; None for any other. Raises Unsupported."""
    origin = get_origin(kind) or kind
    arguments = get_args(kind)
    if origin is tuple and arguments and arguments[-1] is not Ellipsis:
        return _fixed_tuple([shape_of(one) for one in arguments if one != ()])
    if origin in _LISTS or origin is tuple:
        item = shape_of(arguments[0]) if arguments else ANY
        make: Callable[[list[Any]], Any] = tuple if origin is tuple else list
        return Shape({"type": "array", "items": item.schema}, _array(item, make), f"an array, each item {item.words}", ARRAY)
    if origin in _SETS:
        item = shape_of(arguments[0]) if arguments else ANY
        make = frozenset if origin in (frozenset, abc.Set) else set
        return Shape(
            {"type": "array", "items": item.schema, "uniqueItems": True}, _array(item, make), f"an array, each item {item.words}", ARRAY
        )
    if origin in _MAPPINGS:
        return _mapping(shape_of, arguments)
    return None


def _items(value: Any) -> Any:
    """The items of an array. What is no list comes from a program, which may give a set or a tuple."""
    if type(value) is list:
        return value
    if isinstance(value, tuple | set | frozenset):
        return list(value)
    raise misfit("an array", value)


def _array(item: Shape, make: Callable[[list[Any]], Any]) -> Callable[..., Any]:
    def load(value: Any, _: Any = None) -> Any:
        read = item.load  # looked up late: a recursive type is known by now
        made: list[Any] = []
        wrong: list[Misfit] = []
        for index, one in enumerate(_items(value)):
            try:
                made.append(read(one))
            except Misfit as error:
                wrong.append(error.at(index))
                if len(wrong) >= MOST_PROBLEMS:
                    break
        if wrong:
            raise joined(wrong)
        if make is list:
            return made
        try:
            return make(made)
        except TypeError:  # a set of what cannot be hashed
            raise misfit("an array of single values", value) from None

    return load


def _fixed_tuple(items: list[Shape]) -> Shape:
    count = len(items)
    words = f"an array of {count}: {', '.join(item.words for item in items)}" if items else "an empty array"

    def load(value: Any, _: Any = None) -> tuple[Any, ...]:
        given = _items(value)
        if len(given) != count:
            raise Misfit([Problem("", words, f"an array of {len(given)}")])
        made: list[Any] = []
        wrong: list[Misfit] = []
        for index, (item, one) in enumerate(zip(items, given, strict=True)):
            try:
                made.append(item.load(one))
            except Misfit as error:
                wrong.append(error.at(index))
                if len(wrong) >= MOST_PROBLEMS:
                    break
        if wrong:
            raise joined(wrong)
        return tuple(made)

    schema = {"type": "array", "prefixItems": [item.schema for item in items], "items": False, "minItems": count, "maxItems": count}
    return Shape(schema, load, words, ARRAY)


def _mapping(shape_of: ShapeOf, arguments: tuple[Any, ...]) -> Shape:
    key_type, value_type = arguments or (str, Any)
    key, value_shape = shape_of(key_type), shape_of(value_type)
    if not (key_type is str or key_type is Any or _is_choice(key_type)):
        raise Unsupported("a dict whose keys are no strings, which JSON objects cannot have: use dict[str, …] or a list of pairs")
    read_key = _plain_key if key_type is Any else key.load
    schema: dict[str, Any] = {"type": "object", "additionalProperties": value_shape.schema or True}
    if _is_choice(key_type):
        schema["propertyNames"] = key.schema
    words = f"an object, each value {value_shape.words}"

    def load(value: Any, _: Any = None) -> dict[Any, Any]:
        if not isinstance(value, abc.Mapping):
            raise misfit(words, value)
        read = value_shape.load
        made: dict[Any, Any] = {}
        wrong: list[Misfit] = []
        for name, one in value.items():
            try:
                made[read_key(name)] = read(one)
            except Misfit as error:
                wrong.append(error.at(str(name)[:80]))
                if len(wrong) >= MOST_PROBLEMS:
                    break
        if wrong:
            raise joined(wrong)
        return made

    return Shape(schema, load, words, OBJECT)


def _plain_key(value: Any) -> str:
    if type(value) is not str:
        raise misfit("a string as key", value)
    return value


def _is_choice(kind: Any) -> bool:
    return get_origin(kind) is Literal or (isinstance(kind, type) and issubclass(kind, enum.Enum))


def union_shape(shape_of: ShapeOf, kind: Any) -> Shape:
    """The shape of a union. Raises Unsupported where a member has none."""
    members = get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
    return _union([shape_of(member) for member in members])


def optional(shape: Shape, nothing: Shape) -> Shape:
    """The same or null: what a parameter takes whose default is None, whatever its annotation says."""
    return shape if "null" in shape.kinds else _union([shape, nothing])


def _union(shapes: list[Shape]) -> Shape:
    # An int fits a float, too: who can take it as what it is comes first.
    order = sorted(shapes, key=lambda shape: shape.kinds >= {"integer", "real"})
    kinds = frozenset().union(*(shape.kinds for shape in shapes))
    words = either(shape.words for shape in shapes)

    def load(value: Any, _: Any = None) -> Any:
        kind = kind_of(value)
        tried: list[Misfit] = []
        for shape in order:
            if kind and kind not in shape.kinds:
                continue
            try:
                return shape.load(value)
            except Misfit as error:
                tried.append(error)
        if len(tried) == 1:  # the only one that could have been meant: what is wrong within it says more
            raise tried[0]
        if tried and kind in ("array", "object"):
            raise Misfit(later=lambda: [Problem("", words, shown_parts(min(tried, key=lambda error: len(error.problems))))])
        raise misfit(words, value)

    return remembering(Shape(_any_of(shapes), load, words, kinds, text=any(shape.text for shape in shapes)))


_NONE: Final = "one that fits none"


def shown_parts(error: Misfit) -> str:
    """What is wrong with a value that none of several shapes fits, as the closest of them says it."""
    first = error.problems[0]
    if first.got.startswith(_NONE):  # within each other: the innermost says it
        return first.got
    where = f"at {first.where}: " if first.where else ""
    return f"{_NONE} ({where}expected {first.expected}, got {first.got})"


def _any_of(shapes: list[Shape]) -> dict[str, Any]:
    schemas: list[dict[str, Any]] = []
    for shape in shapes:
        inner = shape.schema["anyOf"] if shape.schema.keys() == {"anyOf"} else [shape.schema]
        schemas += [schema for schema in inner if schema not in schemas]
    if {} in schemas:
        return {}
    return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
