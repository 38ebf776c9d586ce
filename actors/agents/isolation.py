"""Copies that others may write into: what a hook is shown is never the very list that goes on to the model or the tool."""

from __future__ import annotations

import copy
import enum
import types
from collections.abc import Mapping
from typing import Any, Final

import attrs
import trio

from retinue.actors.agents.passing import Left
from retinue.capabilities.tool_results import ToolResult

__all__ = ["ends_all", "isolated"]

MAX_DEPTH: Final = 64
"""Levels that are copied; deeper is nothing that a message holds."""

_ATOMS: Final = frozenset(
    {str, int, float, bool, bytes, type(None), complex, type, types.FunctionType, types.BuiltinFunctionType, types.MethodType}
)


def isolated(value: Any, depth: int = 0) -> Any:
    """The value, or a copy of it where something in it could be changed in place. What is immutable throughout is given as it is.

    Lists, dicts, sets, attrs classes and dataclasses are copied level by level; of other classes' objects a deep copy is tried, and the object itself is given
    where it has none (an open file, a connection).
    """
    kind = type(value)
    if kind in _ATOMS or depth > MAX_DEPTH or isinstance(value, enum.Enum | BaseException | type | types.ModuleType):
        return value
    if getattr(kind, "__immutable__", False) is True and kind is not ToolResult:  # a result's value may be anything
        return value
    if kind is tuple:
        items = [isolated(item, depth + 1) for item in value]
        return value if all(new is old for new, old in zip(items, value, strict=True)) else tuple(items)
    if kind is list:
        return [isolated(item, depth + 1) for item in value]
    if kind is dict:
        return {isolated(key, depth + 1): isolated(item, depth + 1) for key, item in value.items()}
    if kind in (set, frozenset):
        return value if kind is frozenset else set(value)
    if kind is types.MappingProxyType:
        return types.MappingProxyType({key: isolated(item, depth + 1) for key, item in value.items()})
    names = _field_names(kind)
    if names is not None:
        return _fields_isolated(value, names, depth)
    try:
        return copy.deepcopy(value)
    except Exception:  # whatever it does when it is copied: a lock, a socket, a ref
        return value


def ends_all(error: BaseException) -> bool:
    """Whether what came out of a function that the agent was made with is not the function's own: a cancellation, a reader who has left, Ctrl-C, the end of a coroutine."""
    if isinstance(error, BaseExceptionGroup):
        return any(ends_all(each) for each in error.exceptions)
    return isinstance(error, trio.Cancelled | KeyboardInterrupt | GeneratorExit | Left)


def _field_names(kind: type) -> list[str] | None:
    if attrs.has(kind):
        return [field.name for field in attrs.fields(kind)]
    fields: Mapping[str, Any] | None = getattr(kind, "__dataclass_fields__", None)
    return None if fields is None else list(fields)


def _fields_isolated(value: Any, names: list[str], depth: int) -> Any:
    changed = {}
    setter: Any = type(value).__setattr__
    frozen = setter is not object.__setattr__
    for name in names:
        old = getattr(value, name, None)
        new = isolated(old, depth + 1)
        if new is not old:
            changed[name] = new
    if not changed and frozen:
        return value
    other = copy.copy(value)
    for name, new in changed.items():
        object.__setattr__(other, name, new)
    return other
