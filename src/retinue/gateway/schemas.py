"""JSON Schemas of what the wire takes: for people, and for tools that turn text into messages. They describe; what a message must be is decided by the wire."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import pathlib
import types
import uuid
from collections import abc
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, Union, get_args, get_origin

import attrs

from retinue.mailbox.annotations import bare, field_types, substitute
from retinue.mailbox.messages import Message, Request, Stream, names_of
from retinue.mailbox.wire_codec import OBJECT, Codec, Refused
from retinue.mailbox.wire_scalars import literal_codec
from retinue.mailbox.wire_types import StrictConverter

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Schemas"]

Schema = dict[str, Any]

_SCALARS: Final[dict[Any, Schema]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    type(None): {"type": "null"},
    bytes: {"type": "string", "contentEncoding": "base64"},
    Decimal: {"type": "string", "format": "decimal"},
    dt.datetime: {"type": "string", "format": "date-time"},
    dt.date: {"type": "string", "format": "date"},
    dt.time: {"type": "string", "format": "time"},
    dt.timedelta: {"type": "integer", "description": "microseconds"},
    uuid.UUID: {"type": "string", "format": "uuid"},
}
_SETS: Final = frozenset({set, frozenset, abc.Set, abc.MutableSet})
_LISTS: Final = frozenset({list, abc.Sequence, abc.MutableSequence})
_MAPS: Final = frozenset({dict, abc.Mapping, abc.MutableMapping})
_PLAIN: Final = frozenset({str, int, float, bool, type(None)})


class Schemas:
    """Makes schemas, and collects those of classes by name.

    Attributes:
        components: The schemas of classes, to which others refer as `#/components/schemas/NAME`.
    """

    __slots__ = ("_converter", "_names", "components")

    def __init__(self) -> None:
        self._converter = StrictConverter(Codec("Message", OBJECT, lambda value: isinstance(value, Message)))
        self.components: dict[str, Schema] = {}
        self._names: dict[Any, str] = {}

    def of(self, kind: Any) -> Schema:
        """The schema of a type; `{}`, which is anything, where it has none of its own."""
        kind = bare(kind)
        origin = get_origin(kind) or kind
        arguments = get_args(kind)
        if kind in _SCALARS:
            return dict(_SCALARS[kind])
        if isinstance(kind, TypeVar):
            return self.of(Union[kind.__constraints__] if kind.__constraints__ else (kind.__bound__ or Any))  # noqa: UP007
        if origin is Literal:
            return {"enum": [_spelled(value) for value in arguments]}
        if origin is Union or origin is types.UnionType:
            return self._union(kind)
        if origin in _LISTS:
            return {"type": "array", "items": self.of(arguments[0]) if arguments else {}}
        if origin in _SETS:
            return {"type": "array", "items": self.of(arguments[0]) if arguments else {}, "uniqueItems": True}
        if origin is tuple:
            return self._tuple(kind, arguments)
        if origin in _MAPS:
            return self._map(*(arguments or (Any, Any)))
        if isinstance(origin, type):
            return self._class(kind, origin)
        return {}

    def body(self, cls: type[Message]) -> Schema:
        """The schema of a message's body: an object with exactly its fields."""
        return self._object(cls, cls)

    def _tuple(self, kind: Any, arguments: tuple[Any, ...]) -> Schema:
        if getattr(kind, "__args__", None) is None:
            return {"type": "array"}
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return {"type": "array", "items": self.of(arguments[0])}
        size = len(arguments)
        return {"type": "array", "prefixItems": [self.of(item) for item in arguments], "minItems": size, "maxItems": size}

    def _map(self, key: Any, item: Any) -> Schema:
        keys = {"type": "string"} if bare(key) is Any else self.of(key)
        items = self.of(item)
        if keys.get("type") == "string" or (keys.keys() == {"enum"} and all(isinstance(value, str) for value in keys["enum"])):
            return {"type": "object", "additionalProperties": items}
        return {"type": "array", "items": {"type": "array", "prefixItems": [keys, items], "minItems": 2, "maxItems": 2}}

    def _union(self, kind: Any) -> Schema:
        """As `wire_unions` decides: bare where the JSON alone tells which member it is, else with the name of the member."""
        members = list(_members(kind))
        if Any in members or object in members:
            return {}
        literals = tuple(value for member in members if get_origin(member) is Literal for value in get_args(member))
        try:
            codecs = [(member, self._converter.codec(member)) for member in members if get_origin(member) is not Literal]
            literal = literal_codec(literals) if literals else None
        except Refused:  # the wire refuses such a type
            return {}
        plain = [(member, codec) for member, codec in codecs if codec.plain]
        marked: list[tuple[Any, Codec]] = [(member, codec) for member, codec in codecs if not codec.plain]
        covered = frozenset[str]().union(*(codec.kinds for _, codec in plain))
        exact = frozenset[str]().union(*(codec.kinds for _, codec in plain if codec.tag != "float"))
        if literal is not None and not (literal.plain and literal.kinds <= exact):
            marked.append((Literal[literals], literal))
        schemas = [self.of(member) for member, _ in plain]
        if len(marked) > 1 or any(codec.kinds & covered for _, codec in marked):
            schemas += [_tagged(codec.tag, self.of(member)) for member, codec in marked]
        else:
            schemas += [self.of(member) for member, _ in marked]
        return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}

    def _class(self, kind: Any, origin: type) -> Schema:
        if issubclass(origin, pathlib.PurePath):
            return {"type": "string", "format": "path"}
        if issubclass(origin, enum.Flag):
            return {"type": "integer"}
        if issubclass(origin, enum.Enum):
            return {"enum": [_spelled(member) for member in origin]}
        if origin in (Message, Request, Stream):
            named = {"type": {"type": "string"}, "body": {"type": "object"}}
            return {"type": "object", "properties": named, "required": ["type", "body"], "additionalProperties": False}
        if not attrs.has(origin) and not dataclasses.is_dataclass(origin):
            return {}
        name = self._names.get(kind)
        if name is None:
            name = self._names[kind] = self._free_name(origin)
            self.components[name] = {"type": "object"}  # it may contain itself
            self.components[name] = self._object(origin, kind)
        return {"$ref": f"#/components/schemas/{name}"}

    def _free_name(self, origin: type) -> str:
        base = name = "".join(character if character.isalnum() or character in "._-" else "_" for character in origin.__qualname__)
        number = 2
        while name in self.components:
            name = f"{base}-{number}"
            number += 1
        return name

    def _object(self, origin: Any, kind: Any) -> Schema:
        parameters = dict(zip(getattr(origin, "__parameters__", ()), get_args(kind), strict=False))
        properties: dict[str, Schema] = {}
        required: list[str] = []
        kinds = field_types(origin, names_of)
        for name, default in _fields(origin):
            schema = self.of(substitute(kinds[name], parameters))
            if default is _NEEDED:
                required.append(name)
            elif default is not _MADE and "$ref" not in schema:
                shown = _shown_default(default)
                if shown is not _MADE:
                    schema["default"] = shown
            properties[name] = schema
        made: Schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
        text = (origin.__doc__ or "").strip()
        if text and not text.startswith(f"{origin.__name__}("):  # not what dataclass writes by itself
            made["description"] = text.partition("\n\n")[0]
        return made


_NEEDED: Final = object()
_MADE: Final = object()


def _fields(origin: Any) -> Iterable[tuple[str, Any]]:
    """The fields that a constructor takes, each with its default."""
    if attrs.has(origin):
        for field in attrs.fields(origin):
            if field.init:
                default: Any = field.default
                yield field.name, _NEEDED if default is attrs.NOTHING else _MADE if isinstance(default, attrs.Factory) else default  # type: ignore[arg-type]
        return
    for given in dataclasses.fields(origin):
        if given.init:
            made = given.default_factory is not dataclasses.MISSING
            yield given.name, _MADE if made else _NEEDED if given.default is dataclasses.MISSING else given.default


def _shown_default(value: Any) -> Any:
    if isinstance(value, enum.Enum):
        return _spelled(value)
    return value if type(value) in _PLAIN and value == value else _MADE  # noqa: PLR0124 - a NaN is no JSON


def _members(kind: Any) -> Iterable[Any]:
    for member in get_args(kind):
        inner = bare(member)
        if get_origin(inner) in (Union, types.UnionType):
            yield from _members(inner)
        else:
            yield inner


def _tagged(tag: str, schema: Schema) -> Schema:
    named = {"type": {"const": tag}, "body": schema}
    return {"type": "object", "properties": named, "required": ["type", "body"], "additionalProperties": False}


def _spelled(value: Any) -> Any:
    """A member of an enumeration or a Literal as the wire spells it."""
    if isinstance(value, enum.Enum):
        members = list(type(value))
        by_value = all(type(member.value) is str for member in members) or all(type(member.value) is int for member in members)
        return value.value if by_value else value.name
    if isinstance(value, bytes):
        import base64

        return base64.b64encode(value).decode("ascii")
    return value
