"""Digests of what a handler is, so that a consent is for the handler that the reviewer knew and not for whatever bears its name later.

What counts: the message's wire name, its fields with their types and defaults, the types in them, the handler's options, its text, its code with its
constants, and the functions that it is wrapped in. What does not: where it stands in which file, what its module is called (which hangs on how the program was
started), comments, and what other functions do that it calls by name.
A digest is the same in every process of one version of Python and of the library; another version may ask again.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import functools
import hashlib
import inspect
import re
import types
import typing
import uuid
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Any, Final

import attrs

from retinue.security.canonical import canonical
from retinue.security.errors import CanonicalError

__all__ = ["code_digest", "digest_of", "handler_digest", "type_parts"]

MAX_TYPES: Final = 256
"""Classes that are looked into for one message."""

_DEPTH: Final = 16
_FIXED: Final = (
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    Decimal,
    dt.datetime,
    dt.date,
    dt.time,
    dt.timedelta,
    uuid.UUID,
    enum.Enum,
    frozenset,
)
_ADDRESS: Final = re.compile(r" at 0x[0-9A-Fa-f]+")


def digest_of(**parts: Any) -> str:
    """One digest, 64 hex digits, of named parts of plain data.

    Raises:
        CanonicalError: A part is no plain data.
    """
    return hashlib.sha256(b"retinue/definition/1\0" + canonical(parts)).hexdigest()


def handler_digest(message_type: type, function: Callable[..., Any], *, wire_name: str | None, options: Mapping[str, Any]) -> str:
    """The digest of a handler.

    Args:
        message_type: The class of the messages that it takes.
        function: The handler.
        wire_name: The message's name on the wire, or None.
        options: What the decorator was given, by name: plain data, classes, functions, and lists of such.
    """
    return digest_of(
        wire_name=wire_name,
        message=type_parts(message_type, wire_name),
        options={name: _option(value) for name, value in options.items()},
        doc=inspect.getdoc(function) or "",
        code=code_digest(function),
    )


def code_digest(function: Any) -> str:
    """The digest of what a function does, as far as it can be read off it: its code, constants, defaults, and what it has closed over or wraps.

    What can change while it is looked at, a list that it has closed over, counts by its type alone.

    Args:
        function: A function, a method, a partial, or an object that can be called. What has no code is taken by its name.
    """
    return _Reader().function(function)


def _hashed(parts: list[Any]) -> str:
    return hashlib.sha256(b"retinue/code/1\0" + canonical(parts)).hexdigest()


def _option(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return ["items", [_option(item) for item in value]]
    if isinstance(value, set | frozenset):
        return ["set", sorted(canonical(_option(item)) for item in value)]
    return _Reader().content(value)


class _Reader:
    """Reads functions; one that is met again, itself for example, is told by its number."""

    __slots__ = ("_met",)

    def __init__(self) -> None:
        self._met: dict[int, tuple[int, Any]] = {}  # with the object, since an id names it only while it lives

    def function(self, function: Any) -> str:
        """The digest of a function. Of each on its own, so that many within each other are not too deep for canonical bytes."""
        return _hashed(self._function(function))

    def _function(self, function: Any) -> list[Any]:
        if id(function) in self._met:
            return ["again", self._met[id(function)][0]]
        self._met[id(function)] = (len(self._met), function)
        if isinstance(function, types.MethodType | classmethod | staticmethod):
            return ["method", self.function(function.__func__)]
        if isinstance(function, functools.partial):
            keywords = {name: self.stable(value) for name, value in function.keywords.items()}
            return ["partial", self.function(function.func), [self.stable(value) for value in function.args], keywords]
        if isinstance(function, types.FunctionType):
            wrapped = getattr(function, "__wrapped__", None)
            return [
                "function",
                self.code(function.__code__),
                [self.stable(value) for value in function.__defaults__ or ()],
                {name: self.stable(value) for name, value in (function.__kwdefaults__ or {}).items()},
                [self._cell(cell) for cell in function.__closure__ or ()],
                None if wrapped is None else self.function(wrapped),
            ]
        if isinstance(function, type) or not callable(function) or isinstance(function, types.BuiltinFunctionType):
            return ["named", _name(function)]
        call = getattr(type(function), "__call__", None)  # noqa: B004 - the object's own code is wanted
        return ["object", _name(type(function)), *([self.function(call)] if isinstance(call, types.FunctionType) else [])]

    def _cell(self, cell: types.CellType) -> Any:
        try:
            return self.stable(cell.cell_contents)
        except ValueError:  # nothing was put into it yet
            return ["empty"]

    def code(self, code: types.CodeType) -> str:
        # Neither file nor lines: to move a function is not to change it.
        return _hashed(
            [
                code.co_code,
                [self._constant(constant) for constant in code.co_consts],
                list(code.co_names),
                list(code.co_varnames),
                list(code.co_freevars),
                list(code.co_cellvars),
                [code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags],
                code.co_exceptiontable,
            ]
        )

    def _constant(self, constant: Any) -> Any:
        if isinstance(constant, types.CodeType):
            return ["code", self.code(constant)]
        if isinstance(constant, tuple):
            return ["tuple", [self._constant(item) for item in constant]]
        if isinstance(constant, frozenset):  # its order hangs on the hashes of texts, which differ from process to process
            return ["frozenset", sorted(canonical(self._constant(item)) for item in constant)]
        if type(constant) is str:
            return ["str", constant.encode("utf-8", "surrogatepass")]  # the one kind that may hold half of a surrogate pair
        return [type(constant).__name__, constant if type(constant) is bytes else repr(constant)]

    def stable(self, value: Any) -> Any:
        """A value that somebody wrote into code: by its content where that cannot change, else by its type."""
        if value is None or isinstance(value, _FIXED):
            return self.content(value)
        if isinstance(value, tuple):
            return ["tuple", [self.stable(item) for item in value]]
        if callable(value):
            return ["class", _name(value)] if isinstance(value, type) else self.function(value)
        return ["object", _name(type(value))]

    def content(self, value: Any, depth: int = 0) -> Any:
        """A value by its content, where it has any that is the same in every process, however it was started."""
        inner = self._inner(value, depth) if depth < _DEPTH else None
        if inner is not None:
            return inner
        try:
            return ["value", canonical(value)]
        except CanonicalError:
            pass
        if isinstance(value, float | complex):
            return ["odd", repr(value)]
        return ["object", _name(type(value))] if isinstance(value, _FIXED) else self.stable(value)

    def _inner(self, value: Any, depth: int) -> Any:
        """What is made of other values, or of a class: canonical bytes would have the class's module in them. None for any other."""
        kind = type(value)
        if isinstance(value, enum.Enum):
            return ["member", _name(kind), str(value.name), self.content(value._value_, depth + 1)]
        if kind in (list, tuple):
            return [kind.__name__, [self.content(item, depth + 1) for item in value]]
        if kind in (set, frozenset):
            return [kind.__name__, sorted(canonical(self.content(item, depth + 1)) for item in value)]
        if kind is dict and all(type(key) is str for key in value):
            return ["dict", {key: self.content(item, depth + 1) for key, item in value.items()}]
        if attrs.has(kind) or dataclasses.is_dataclass(kind):
            names = [field.name for field in attrs.fields(kind)] if attrs.has(kind) else [field.name for field in dataclasses.fields(value)]
            return ["fields", _name(kind), [[name, self.content(getattr(value, name, None), depth + 1)] for name in names]]
        return None


def _name(thing: Any) -> str:
    """The name without the module, which hangs on how the program was started: `__main__`, `pay` and `shop.pay` may be one file. What is built in has one module."""
    name: str = getattr(thing, "__qualname__", type(thing).__qualname__)
    return f"{thing.__module__}.{name}" if isinstance(thing, types.BuiltinFunctionType) else name


# -- what a message is


def type_parts(message_type: type, name: str | None = None) -> dict[str, Any]:
    """What a class is made of, and each class in its fields: their names, their fields with types and defaults, the members of enums.

    Args:
        message_type: An attrs class; others have their name alone.
        name: What it is called. Default: its qualified name.
    """
    found: list[Any] = []
    met: set[type] = set()
    waiting = [message_type]
    while waiting and len(found) < MAX_TYPES:
        kind = waiting.pop()
        if kind in met:
            continue
        met.add(kind)
        parts, inner = _class_parts(kind)
        found.append([name if kind is message_type and name is not None else _name(kind), parts])
        waiting += reversed(inner)
    return {"types": found}


def _class_parts(kind: Any) -> tuple[list[Any], list[type]]:
    if issubclass(kind, enum.Enum):
        return ["enum", {name: _Reader().content(member.value) for name, member in kind.__members__.items()}], []
    if attrs.has(kind):
        fields = [(field.name, field.type, _default(field.default)) for field in attrs.fields(kind)]
    elif dataclasses.is_dataclass(kind):
        fields = [(field.name, field.type, _default(_dataclass_default(field))) for field in dataclasses.fields(kind)]
    else:
        return ["class"], []
    hints = _hints(kind)
    inner = [one for name, annotation, _ in fields for one in _classes(hints.get(name, annotation), 0)]
    return ["fields", [[name, _annotation(annotation, 0), default] for name, annotation, default in fields]], inner


def _dataclass_default(field: dataclasses.Field[Any]) -> Any:
    return (
        attrs.NOTHING
        if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        else (field.default if field.default is not dataclasses.MISSING else field.default_factory)
    )


def _default(default: Any) -> Any:
    if default is attrs.NOTHING:
        return ["none"]
    # What attrs calls a Factory has the function in it.
    return _Reader().content(getattr(default, "factory", default))


def _hints(kind: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(kind, include_extras=True)
    except Exception:  # names that resolve nowhere: their texts count then
        return {}


def _annotation(annotation: Any, depth: int) -> Any:
    """An annotation as it is written, its classes by their names; not by `repr`, in which modules and addresses stand."""
    if annotation is None or isinstance(annotation, str):
        return annotation
    if depth > _DEPTH:
        return ["deeper"]
    if isinstance(annotation, typing.ForwardRef):
        return annotation.__forward_arg__
    if isinstance(annotation, list | tuple):  # the parameters of a Callable
        return ["list", [_annotation(one, depth + 1) for one in annotation]]
    arguments = typing.get_args(annotation)
    if not arguments:
        # A class, a TypeVar, a NewType, a special form: Any, Self, an ellipsis.
        return getattr(annotation, "__qualname__", None) or getattr(annotation, "__name__", None) or _plain(annotation)
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        beside = [_plain(one) for one in annotation.__metadata__]
        return ["Annotated", _annotation(annotation.__origin__, depth + 1), beside]
    if origin is typing.Literal:
        return ["Literal", [_plain(one) for one in arguments]]
    return [_annotation(origin, depth + 1), [_annotation(one, depth + 1) for one in arguments]]


def _plain(value: Any) -> Any:
    """What stands in an annotation and is no type: by its content, else by how it shows itself."""
    found = _Reader().content(value)
    if found[0] != "object" or isinstance(value, _FIXED):
        return found
    return ["shown", _ADDRESS.sub("", repr(value)).replace(f"{type(value).__module__}.", "")]


def _classes(annotation: Any, depth: int) -> Iterator[type]:
    if depth > _DEPTH:
        return
    if isinstance(annotation, type) and (
        attrs.has(annotation) or dataclasses.is_dataclass(annotation) or issubclass(annotation, enum.Enum)
    ):
        yield annotation
    for inner in typing.get_args(annotation):
        yield from _classes(inner, depth + 1)
