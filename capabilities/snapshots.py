"""The gate's own copy of a message: what is checked is what is handled, whatever the sender does to its lists meanwhile.

A message is frozen, but a list in it is not, and an annotation does not hold anybody to anything. So what decides here are the values themselves: what nobody can
change in Python is taken as it is; containers, records and everything else that is an object with parts are rebuilt from their parts; what can be neither is refused.
The message itself is one of those records: what is only called frozen can be written to by `object.__setattr__`, and a path or a UUID is such an object too. Of a
record its fields are copied and nothing else: what lies beside them is neither looked at nor approved, so it is left behind where it is a cache, and else refused.
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
import zoneinfo
from collections.abc import Callable
from functools import cached_property, lru_cache
from operator import attrgetter
from typing import Any, Final, TypeAlias

import attrs

from retinue.security.errors import DefinitionError

__all__ = ["CannotCopy", "arguments_of", "own_copy", "own_copy_and_arguments"]

MAX_DEPTH: Final = 64
"""Containers within containers; a message that nests deeper is refused where anything looks at its arguments."""

# By identity: a class whose metaclass claims that it equals `str` is none. (These classes live as long as the process, so no other has their ids.)
# Nothing that is made of Python objects is among them: whoever holds a path, a fraction or a UUID can write to its parts.
_ATOMS: Final = frozenset(
    id(kind)
    for kind in (
        str, int, float, bool, complex, bytes, type(None), range, type(Ellipsis), type(NotImplemented), type,
        decimal.Decimal, dt.date, dt.timedelta, dt.timezone, types.FunctionType, types.BuiltinFunctionType,
    )
)  # fmt: skip

_BEING_MADE: Final = object()


class CannotCopy(TypeError):
    """A value in a message is neither immutable nor can it be copied. Internal: the gate refuses with it as the cause."""


def arguments_of(message: object) -> dict[str, Any]:
    """The arguments of an operation: the message's fields by name; by the names in its class's `__argument_names__` where a field cannot bear its argument's.

    Raises:
        DefinitionError: It is no message.
    """
    fields = getattr(type(message), "__attrs_attrs__", None)
    if fields is None:
        raise DefinitionError(f"an object of type {type(message).__name__} is no message and has no arguments to look at")
    shown = type(message).__dict__.get("__argument_names__") or {}
    return {shown.get(field.name, field.name): getattr(message, field.name) for field in fields}


def own_copy(message: Any) -> Any:
    """A message of the same class that nobody else holds, with the same values where they are immutable, and copies of those that are not.

    Raises:
        CannotCopy: A value can be changed by whoever holds it and cannot be copied (a lock, an open file, a cycle of lists), or there is something beside the
            fields.
        DefinitionError: It is no message.
    """
    if getattr(type(message), "__attrs_attrs__", None) is None:
        raise DefinitionError(f"an object of type {type(message).__name__} is no message and cannot be copied as one")
    return _record(message, {}, 0)


def own_copy_and_arguments(message: Any) -> tuple[Any, dict[str, Any]]:
    """Both of the above, the arguments those of the copy; raises as they do. The usual message, of plain values and with nothing beside them, is read once."""
    kind: Any = type(message)
    if getattr(kind, "__attrs_attrs__", None) is not None:
        plan = _plan_of(kind)
        if plan.kind is kind and plan.plain:
            values: tuple[Any, ...] | None = plan.read(message)
            assert values is not None
            for value in values:
                if id(type(value)) not in _ATOMS:
                    values = _objects_rebuilt(values)
                    break
            if values is not None:
                fresh = _new(kind)
                for write, value in zip(plan.writers, values):  # noqa: B905 - as many, and strict= takes its time
                    write(fresh, value)
                return fresh, dict(zip(plan.shown, values))  # noqa: B905
    own = own_copy(message)
    return own, arguments_of(own)


def _objects_rebuilt(values: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """The values, with new ones for paths and the like; None where there are others that are no atoms."""
    rebuilt = list(values)
    for at, value in enumerate(values):
        kind = id(type(value))
        if kind not in _ATOMS:
            rebuild = _REBUILDERS.get(kind)
            if rebuild is None:
                return None
            rebuilt[at] = rebuild(value, {}, 0)
    return tuple(rebuilt)


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
    rebuild = _REBUILDERS.get(id(kind))
    if rebuild is not None:
        return rebuild(value, made, depth)
    if issubclass(kind, enum.Enum):
        return _member(value, kind)
    if issubclass(kind, type) or getattr(kind, "__immutable__", False):
        return value
    if attrs.has(kind) or dataclasses.is_dataclass(kind):
        return _record(value, made, depth)
    if issubclass(kind, tuple) and kind.__new__ is not tuple.__new__ and not getattr(value, "__dict__", None) and hasattr(kind, "_fields"):
        return tuple.__new__(kind, [_copied(item, made, depth) for item in tuple.__iter__(value)])  # a named tuple
    return _foreign(value, kind)


def _path(value: pathlib.PurePath, made: _Made, depth: int) -> pathlib.PurePath:  # noqa: ARG001 - as the others
    """A path from its text, which is what is shown and hashed; whatever else the given one has in store is left behind."""
    text = str(value)
    if type(text) is not str:
        raise CannotCopy(f"a {type(value).__name__} whose text is none")
    return type(value)(text)


def _uuid(value: uuid.UUID, made: _Made, depth: int) -> uuid.UUID:
    number = value.int
    if type(number) is not int:
        raise CannotCopy("a UUID whose number is none")
    return uuid.UUID(int=number, is_safe=_copied(value.is_safe, made, depth))


def _fraction(value: fractions.Fraction, made: _Made, depth: int) -> fractions.Fraction:  # noqa: ARG001
    above, below = value.numerator, value.denominator
    if type(above) is not int or type(below) is not int or not below:
        raise CannotCopy("a Fraction of something else than two ints")
    return fractions.Fraction(above, below)


def _moment(value: Any, made: _Made, depth: int) -> Any:
    """A datetime or a time of day: its zone is an object of anybody's making, and decides what it means."""
    zone = value.tzinfo
    if zone is None or type(zone) is dt.timezone:
        return value
    if type(zone) is zoneinfo.ZoneInfo:
        known = zoneinfo.ZoneInfo(zone.key) if type(zone.key) is str else None
    else:
        known = _copied(zone, made, depth)
    if known is zone:
        return value
    fresh = value if known is None else value.replace(tzinfo=known)
    if known is None or fresh.utcoffset() != value.utcoffset():
        raise CannotCopy("a time whose zone is not the one of its name")
    return fresh


_REBUILDERS: Final[dict[int, Callable[[Any, Any, int], Any]]] = {
    **dict.fromkeys((id(kind) for kind in (pathlib.PurePosixPath, pathlib.PureWindowsPath, pathlib.PosixPath, pathlib.WindowsPath)), _path),
    id(uuid.UUID): _uuid,
    id(fractions.Fraction): _fraction,
    id(dt.datetime): _moment,
    id(dt.time): _moment,
}


def _member(value: Any, kind: Any) -> Any:
    """The member of an enum that there is one of; an object that only looks like one is refused. (The members themselves are as much the program as its classes.)"""
    name, content = value._name_, value._value_
    if issubclass(kind, enum.Flag):
        found: Any = kind(content) if type(content) is int else None
        if type(found) is kind and found._value_ == content:
            return found
    elif type(name) is str and kind._member_map_.get(name) is value:
        return value
    raise CannotCopy(f"a {kind.__qualname__} that is no member of it")


def _record(value: Any, made: _Made, depth: int) -> Any:
    """An attrs or dataclass instance, rebuilt from its fields."""
    kind: Any = type(value)
    plan = _plan_of(kind)
    if plan.kind is not kind:  # a class that claims to equal another
        plan = _plan_of.__wrapped__(kind)
    if plan.odd:
        raise CannotCopy(f"a {kind.__qualname__} {plan.odd}, so it could show the check one value and the handler another")
    _check_beside(value, kind, plan)
    values = [_copied(old, made, depth) for old in plan.read(value)]
    try:
        fresh = _new(kind)
        for write, new in zip(plan.writers, values, strict=True):
            write(fresh, new)
        if hasattr(kind, _CACHED_HASH):
            object.__setattr__(fresh, _CACHED_HASH, None)  # as attrs' own __init__ does
    except Exception as error:
        raise CannotCopy(f"a {kind.__qualname__} cannot be rebuilt from its fields ({type(error).__name__})") from error
    return fresh


_new: Final = object.__new__
_CACHED_HASH: Final = "_attrs_cached_hash"


class _Plan:
    """How instances of an attrs class or a dataclass are read and rebuilt.

    Attributes:
        kind: The class.
        names: Its fields.
        shown: The names of the arguments that they are.
        read: Gives their values, in this order.
        writers: What writes each of them into a new instance.
        slots: Slots beside the fields, with what reads them.
        caches: Names of what may lie beside the fields and is left behind: it is made of the fields again when it is asked for.
        plain: Whether there can be nothing beside the fields.
        odd: Why reading cannot be relied on; "": it can.
    """

    __slots__ = ("caches", "kind", "names", "odd", "plain", "read", "shown", "slots", "writers")

    def __init__(self, kind: Any) -> None:
        self.kind = kind
        self.names = tuple(field.name for field in (attrs.fields(kind) if attrs.has(kind) else dataclasses.fields(kind)))
        renamed = vars(kind).get("__argument_names__") or {}
        self.shown = tuple(renamed.get(name, name) for name in self.names)
        self.read = _reader(self.names)
        self.odd = "" if kind.__getattribute__ is object.__getattribute__ else "has a __getattribute__ of its own"
        writers: list[Callable[[Any, Any], None]] = []
        for name in self.names:
            found = next((vars(base)[name] for base in kind.__mro__ if name in vars(base)), None)
            if type(found) is types.MemberDescriptorType:
                writers.append(found.__set__)
            else:
                if hasattr(type(found), "__set__"):
                    self.odd = f"computes its field {name!r} when it is read"
                writers.append(_setting(name))
        self.writers = tuple(writers)
        members = {name: one for base in kind.__mro__ for name, one in vars(base).items() if type(one) is types.MemberDescriptorType}
        self.slots = tuple((name, one.__get__) for name, one in members.items() if name not in self.names and name != _CACHED_HASH)
        self.caches = _caches_of(kind)
        self.plain = not (self.odd or self.slots or kind.__dictoffset__ or hasattr(kind, _CACHED_HASH))


def _reader(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    if not names:
        return lambda _: ()
    getter = attrgetter(*names)
    return getter if len(names) > 1 else lambda value: (getter(value),)


def _setting(name: str) -> Callable[[Any, Any], None]:
    return lambda fresh, new: object.__setattr__(fresh, name, new)


def _caches_of(kind: Any) -> frozenset[str]:
    """What functools keeps in the instance's dict, attrs in a slot, and typing in either, is made of the class and the fields alone."""
    found = {"__orig_class__"}
    for base in kind.__mro__:
        found.update(name for name, one in vars(base).items() if type(one) is cached_property)
        of_attrs = getattr(vars(base).get("__getattr__"), "__defaults__", None)
        if of_attrs and type(of_attrs[0]) is dict and attrs.has(base):
            found.update(of_attrs[0])
    return frozenset(found)


def _check_beside(value: Any, kind: Any, plan: _Plan) -> None:
    """Refuses a record that has more to it than its fields: a handler could read there what nobody was shown."""
    beside = getattr(value, "__dict__", None)
    odd = beside is not None and not beside.keys() <= plan.caches.union(plan.names)
    for name, read in plan.slots:
        if name not in plan.caches:
            try:
                read(value)
            except AttributeError:
                continue
            odd = True
    if odd:
        raise CannotCopy(f"a {kind.__qualname__} has attributes beside its fields")


@lru_cache(maxsize=1024)
def _plan_of(kind: Any) -> _Plan:
    """The plan of a class. A memo of a pure function: it saves time and nothing else."""
    return _Plan(kind)


def _foreign(value: Any, kind: type) -> Any:
    """A value of a class that nothing is known of: what its own `__deepcopy__` or reduction gives, if that is another object of the same class."""
    try:
        fresh = copy.deepcopy(value)
    except Exception as error:
        raise CannotCopy(f"a {kind.__qualname__} cannot be copied ({type(error).__name__})") from error
    if fresh is value or type(fresh) is not kind:
        raise CannotCopy(f"a {kind.__qualname__} cannot be copied: give the class a true attribute __immutable__ if it is immutable")
    return fresh
