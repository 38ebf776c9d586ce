"""The gate's own copy of a message: what is checked is what is handled, whatever the sender does to its lists meanwhile.

A message is frozen, but a list in it is not, and an annotation does not hold anybody to anything. So what decides here are the values themselves: what is
immutable through and through is taken as it is, plain containers are rebuilt, and what can be neither is refused.
"""

from __future__ import annotations

import copy
import dataclasses
import datetime as dt
import decimal
import enum
import fractions
import pathlib
import types
import uuid
from functools import lru_cache
from typing import Any, Final, TypeAlias

import attrs

from retinue.security.errors import DefinitionError

__all__ = ["CannotCopy", "arguments_of", "own_copy", "own_copy_and_arguments"]

MAX_DEPTH: Final = 64
"""Containers within containers; a message that nests deeper is refused where anything looks at its arguments."""

# By identity: a class whose metaclass claims that it equals `str` is none. (These classes live as long as the process, so no other has their ids.)
_ATOMS: Final = frozenset(
    id(kind)
    for kind in (
        str, int, float, bool, complex, bytes, type(None), range, type(Ellipsis), type(NotImplemented), type,
        decimal.Decimal, fractions.Fraction, uuid.UUID,
        dt.datetime, dt.date, dt.time, dt.timedelta, dt.timezone,
        pathlib.PurePosixPath, pathlib.PureWindowsPath, pathlib.PosixPath, pathlib.WindowsPath,
        types.FunctionType, types.BuiltinFunctionType,
    )
)  # fmt: skip

_BEING_MADE: Final = object()


class CannotCopy(TypeError):
    """A value in a message is neither immutable nor can it be copied. Internal: the gate refuses with it as the cause."""


def arguments_of(message: object) -> dict[str, Any]:
    """The arguments of an operation: the message's fields by name.

    Raises:
        DefinitionError: It is no message.
    """
    fields = getattr(type(message), "__attrs_attrs__", None)
    if fields is None:
        raise DefinitionError(f"an object of type {type(message).__name__} is no message and has no arguments to look at")
    return {field.name: getattr(message, field.name) for field in fields}


def own_copy(message: Any) -> Any:
    """The message itself where all its values are immutable, else one of the same class with copies of those that are not.

    Raises:
        CannotCopy: A value can be changed by whoever holds it and cannot be copied (a lock, an open file, a cycle of lists).
        DefinitionError: It is no message.
    """
    if getattr(type(message), "__attrs_attrs__", None) is None:
        raise DefinitionError(f"an object of type {type(message).__name__} is no message and cannot be copied as one")
    return _record(message, {}, 0)


def own_copy_and_arguments(message: Any) -> tuple[Any, dict[str, Any]]:
    """Both of the above, the arguments those of the copy; raises as they do. The usual message, frozen and of plain values, is read once."""
    kind: Any = type(message)
    if getattr(kind, "__attrs_attrs__", None) is not None:
        known, names, frozen, odd = _plan_of(kind)
        if known is kind and frozen and not odd:
            arguments = {name: getattr(message, name) for name in names}
            if all(id(type(value)) in _ATOMS for value in arguments.values()):
                return message, arguments
    own = own_copy(message)
    return own, arguments_of(own)


_Made: TypeAlias = dict[int, tuple[Any, Any]]
"""What was copied already, by `id`: the value (kept, since an id names an object only as long as it lives) and its copy."""


def _copied(value: Any, made: _Made, depth: int) -> Any:
    kind = type(value)
    if id(kind) in _ATOMS:
        return value
    if depth > MAX_DEPTH:
        raise CannotCopy(f"a value nests more than {MAX_DEPTH} deep")
    known = made.get(id(value))
    if known is not None:
        if known[1] is _BEING_MADE:
            raise CannotCopy(f"a {kind.__name__} contains itself")
        return known[1]
    made[id(value)] = (value, _BEING_MADE)
    result = _rebuilt(value, kind, made, depth + 1)
    made[id(value)] = (value, result)
    return result


def _rebuilt(value: Any, kind: type, made: _Made, depth: int) -> Any:
    if kind is list:
        return [_copied(item, made, depth) for item in value.copy()]
    if kind is dict:
        return {_copied(key, made, depth): _copied(item, made, depth) for key, item in value.copy().items()}
    if kind is tuple or kind is frozenset:
        items = [_copied(item, made, depth) for item in value]
        return value if all(new is old for new, old in zip(items, value, strict=True)) else kind(items)
    if kind is set:
        return {_copied(item, made, depth) for item in value.copy()}
    if kind is bytearray:
        return bytearray(value)
    if issubclass(kind, enum.Enum | type) or getattr(kind, "__immutable__", False):
        return value
    if attrs.has(kind) or dataclasses.is_dataclass(kind):
        return _record(value, made, depth)
    return _foreign(value, kind)


def _record(value: Any, made: _Made, depth: int) -> Any:
    """An attrs or dataclass instance, rebuilt if anything in it was, or if its fields can be written to."""
    kind: Any = type(value)
    known, names, frozen, odd = _plan_of(kind)
    if known is not kind:  # a class that claims to equal another
        _, names, frozen, odd = _plan_of.__wrapped__(kind)
    if odd:
        raise CannotCopy(f"a {kind.__qualname__} {odd}, so it could show the check one value and the handler another")
    changed = not frozen
    fields: list[tuple[str, Any]] = []
    for name in names:
        old = getattr(value, name)
        new = _copied(old, made, depth)
        changed = changed or new is not old
        fields.append((name, new))
    if not changed:
        return value
    if hasattr(value, "__dict__") and not vars(value).keys() <= set(names):
        raise CannotCopy(f"a {kind.__qualname__} has attributes beside its fields")
    try:
        fresh = object.__new__(kind)
        for name, new in fields:
            object.__setattr__(fresh, name, new)
        if hasattr(kind, _CACHED_HASH):
            object.__setattr__(fresh, _CACHED_HASH, None)  # as attrs' own __init__ does
    except Exception as error:
        raise CannotCopy(f"a {kind.__qualname__} cannot be rebuilt from its fields ({type(error).__name__})") from error
    return fresh


_CACHED_HASH: Final = "_attrs_cached_hash"
_FROZEN_SETATTR: Final[Any] = attrs.make_class("Frozen", [], frozen=True).__setattr__


def _is_frozen(kind: Any) -> bool:
    if attrs.has(kind):
        return kind.__setattr__ is _FROZEN_SETATTR
    return bool(kind.__dataclass_params__.frozen)


@lru_cache(maxsize=1024)
def _plan_of(kind: Any) -> tuple[Any, tuple[str, ...], bool, str]:
    """How instances of an attrs class or a dataclass are read: the class, its fields, whether they are fixed, and why reading cannot be relied on ("": it can).

    A memo of a pure function: it saves time and nothing else.
    """
    fields = attrs.fields(kind) if attrs.has(kind) else dataclasses.fields(kind)
    names = tuple(field.name for field in fields)
    odd = ""
    if kind.__getattribute__ is not object.__getattribute__:
        odd = "has a __getattribute__ of its own"
    for name in names:
        found = next((vars(base)[name] for base in kind.__mro__ if name in vars(base)), None)
        if type(found) is not types.MemberDescriptorType and hasattr(type(found), "__set__"):
            odd = f"computes its field {name!r} when it is read"
    return kind, names, _is_frozen(kind), odd


def _foreign(value: Any, kind: type) -> Any:
    """A value of a class that nothing is known of: what its own `__deepcopy__` or reduction gives, if that is another object of the same class."""
    try:
        fresh = copy.deepcopy(value)
    except Exception as error:
        raise CannotCopy(f"a {kind.__qualname__} cannot be copied ({type(error).__name__})") from error
    if fresh is value or type(fresh) is not kind:
        raise CannotCopy(f"a {kind.__qualname__} cannot be copied: give the class a true attribute __immutable__ if it is immutable")
    return fresh
