"""How types cross the wire: attrs classes and dataclasses, and the choice of a codec for each type.

A `StrictConverter` is a cattrs converter (extra keys forbidden) whose hooks come from codecs: each is compiled once for a type, names
the place of what it refuses, and never coerces. cattrs' generated functions build the classes.
"""

from __future__ import annotations

import dataclasses
import enum
import types
from collections.abc import Callable
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

import attrs
import cattrs
from cattrs.errors import ClassValidationError, ForbiddenExtraKeysError
from cattrs.gen import make_dict_structure_fn_from_attrs

from retinue.mailbox.annotations import Unresolved, bare, field_types, substitute
from retinue.mailbox.errors import WireError
from retinue.mailbox.messages import Message, Request, Stream, message_info, names_of
from retinue.mailbox.wire_codec import EVERY, OBJECT, Codec, Refused, at, expected, unfit
from retinue.mailbox.wire_collections import collection_codec
from retinue.mailbox.wire_scalars import ANY, enum_codec, literal_codec, scalar_codec
from retinue.mailbox.wire_unions import union_codec
from retinue.security.errors import DefinitionError

__all__ = ["StrictConverter"]


class StrictConverter(cattrs.Converter):
    """The converter of one registry.

    Args:
        by_name: The codec for fields annotated with a root of messages (`Message`): any registered message, named.
    """

    def __init__(self, by_name: Codec) -> None:
        super().__init__(forbid_extra_keys=True, detailed_validation=True)
        self._by_name = by_name
        self._codecs: dict[Any, Codec] = {}
        self._custom: dict[type, Codec] = {}
        self._unfinished: list[Any] = []

    def add(self, cls: type, to_json: Callable[[Any], Any], from_json: Callable[[Any], Any]) -> None:
        """Let values of `cls` (and of `cls[X]`) cross by these two functions."""
        self._custom[cls] = _custom_codec(cls, to_json, from_json)
        self.forget()

    def forget(self) -> None:
        """Let go of what was compiled; it is compiled again when it is needed."""
        self._codecs.clear()

    def codec(self, kind: Any) -> Codec:
        """The codec of a type. Raises Refused for a type that has no form on the wire."""
        kind = bare(kind)
        try:
            known = self._codecs.get(kind)
        except TypeError:  # not hashable: Literal or Annotated with something odd in it
            return self._compile(kind, Codec())
        if known is not None:
            return known
        # A class may contain itself: what is found while it is compiled is this same object, filled by then.
        codec = self._codecs[kind] = Codec()
        self._unfinished.append(kind)
        outermost = self._unfinished[0] is kind
        try:
            made = self._compile(kind, codec)
        except BaseException:
            if outermost:  # whatever was compiled on the way may refer to what could not be
                for other in self._unfinished:
                    self._codecs.pop(other, None)
            raise
        finally:
            if outermost:
                self._unfinished.clear()
        if made is not codec:
            _fill(codec, made)
        return codec

    def get_structure_hook(self, type: Any, cache_result: bool = True) -> Callable[[Any, Any], Any]:  # noqa: A002, ARG002 -- cattrs' names
        """Overrides cattrs: hooks come from codecs."""
        codec = self.codec(type)
        return lambda value, _: codec.load(value)

    def get_unstructure_hook(self, type: Any, cache_result: bool = True) -> Callable[[Any], Any]:  # noqa: A002, ARG002 -- cattrs' names
        """Overrides cattrs: hooks come from codecs."""
        codec = self.codec(type)
        return codec.dump

    def structure(self, obj: Any, cl: Any) -> Any:
        """Overrides cattrs: the value of that type that a JSON value stands for. Raises Refused."""
        return self.codec(cl).load(obj)

    def unstructure(self, obj: Any, unstructure_as: Any = None) -> Any:
        """Overrides cattrs: the JSON value of a value. Raises Refused."""
        return self.codec(type(obj) if unstructure_as is None else unstructure_as).dump(obj)

    def _compile(self, kind: Any, shell: Codec) -> Codec:
        origin = get_origin(kind) or kind
        custom = self._custom.get(origin) if isinstance(origin, type) else None
        found = custom or (scalar_codec(kind) if isinstance(kind, type) else None)
        if found is not None:
            return found
        if kind is Any or kind is object:
            return ANY
        if kind is Unresolved:
            raise Refused("has an annotation that names something that cannot be found: define or import it at the top of its module")
        if isinstance(kind, TypeVar):
            return self.codec(Union[kind.__constraints__] if kind.__constraints__ else (kind.__bound__ or Any))  # noqa: UP007
        if origin is Literal:
            return literal_codec(get_args(kind))
        if origin is Union or origin is types.UnionType:
            return union_codec(self.codec, kind)
        found = collection_codec(self.codec, kind)
        if found is not None:
            return found
        if isinstance(origin, type):
            return self._class(kind, origin, shell)
        raise _no_form(kind)

    def _class(self, kind: Any, origin: type, shell: Codec) -> Codec:
        if issubclass(origin, enum.Enum):
            return enum_codec(origin)
        if origin in (Message, Request, Stream):
            return self._by_name
        try:
            if issubclass(origin, Message):
                message_info(origin)
        except DefinitionError as error:
            raise Refused(str(error)) from None
        if attrs.has(origin) or dataclasses.is_dataclass(origin):
            parameters = dict(zip(getattr(origin, "__parameters__", ()), get_args(kind), strict=False))
            kinds = field_types(origin, names_of)
            return self._record(origin, {name: substitute(found, parameters) for name, found in kinds.items()}, shell)
        raise _no_form(kind)

    def _record(self, cls: type, kinds: dict[str, Any], shell: Codec) -> Codec:
        """An attrs class or a dataclass, as an object with its fields. The shell is named first: the class may contain itself in a union."""
        shell.tag, shell.kinds, shell.accepts = cls.__qualname__, OBJECT, lambda value: type(value) is cls
        # The annotations are resolved here, not by cattrs: it knows nothing of classes that were defined in functions.
        attributes = [field.evolve(type=bare(kinds[field.name])) for field in _attributes(cls)]
        codecs = {field.name: at(self.codec, field.type, field.name) for field in attributes if field.init}
        parameters = {parameter.__name__: Any for parameter in getattr(cls, "__parameters__", ())}
        build: Callable[[Any, Any], Any] = make_dict_structure_fn_from_attrs(attributes, cls, self, parameters, _cattrs_use_linecache=False)

        def dump(value: Any) -> dict[str, Any]:
            if type(value) is not cls:
                raise unfit(cls.__qualname__, value)
            written = {}
            for name, codec in codecs.items():
                try:
                    written[name] = codec.dump(getattr(value, name))
                except Refused as refused:
                    raise refused.at(name) from None
            return written

        def load(value: Any) -> Any:
            if type(value) is not dict:
                raise expected("an object", value)
            try:
                return build(value, cls)
            except ClassValidationError as group:
                raise _refusal(group) from None

        shell.dump, shell.load = dump, load
        return shell


def _attributes(cls: Any) -> tuple[Any, ...]:
    """The attrs attributes of a class; those of a dataclass are translated."""
    if attrs.has(cls):
        return tuple(attrs.fields(cls))
    given: dict[str, Any] = {}
    for field in dataclasses.fields(cls):
        default: Any = attrs.NOTHING if field.default is dataclasses.MISSING else field.default
        if field.default_factory is not dataclasses.MISSING:
            default = attrs.Factory(field.default_factory)
        given[field.name] = attrs.field(default=default, init=field.init, alias=field.name, kw_only=True)
    return tuple(attrs.fields(attrs.make_class(cls.__name__, given)))


def _fill(shell: Codec, made: Codec) -> None:
    for slot in Codec.__slots__:
        setattr(shell, slot, getattr(made, slot))


def _no_form(kind: Any) -> Refused:
    label = kind.__qualname__ if isinstance(kind, type) else str(kind)
    return Refused(
        f"is of type {label}, which has no form on the wire: use an attrs class or a dataclass, or teach the registry with add_type",
        problem="not_encodable",
    )


def _refusal(group: ClassValidationError) -> Refused:
    """The first of what cattrs found wrong with a class, as one refusal."""
    noted, others = group.group_exceptions()
    for error, note in noted:
        if isinstance(error, Refused):
            # A fresh one: cattrs leaves its notes on the exception, and those of one level would be read at the next.
            refused = Refused(error.text, problem=error.problem)
            refused.path = [note.name, *error.path]
            return refused
        if isinstance(error, KeyError) and error.args == (note.name,):
            return Refused("is missing").at(note.name)
        return _unexpected(error).at(note.name)
    for error in others:
        if isinstance(error, ForbiddenExtraKeysError):
            names = sorted(map(repr, error.extra_fields))
            return Refused(f"unknown field{'s' if len(names) > 1 else ''} {', '.join(names)[:200]}")
        if isinstance(error, ClassValidationError):
            return _refusal(error)
        return _unexpected(error)
    return Refused("is not valid")


def _unexpected(error: BaseException) -> Refused:
    if isinstance(error, RecursionError):
        return Refused("is nested too deeply", problem="too_deep")
    # Raised by the class's own validators and converters: its words are the class author's.
    return Refused(f"{type(error).__name__}: {str(error)[:200]}")


def _custom_codec(cls: type, to_json: Callable[[Any], Any], from_json: Callable[[Any], Any]) -> Codec:
    def dump(value: Any) -> Any:
        if not isinstance(value, cls):
            raise unfit(cls.__qualname__, value)
        return ANY.dump(_guarded(to_json, value))

    return Codec(cls.__qualname__, EVERY - {"null"}, lambda value: isinstance(value, cls), dump, lambda value: _guarded(from_json, value))


def _guarded(convert: Callable[[Any], Any], value: Any) -> Any:
    try:
        return convert(value)
    except Refused:
        raise
    except WireError as error:
        raise Refused(str(error), problem=error.problem) from None
    except Exception as error:
        raise _unexpected(error) from None
