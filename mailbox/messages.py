"""Typed messages: `Message`, `Request[R]`, `Stream[E]` and the decorator that makes a class one of them.

    @message
    class Deposit(Request[int]):
        amount: int

A message is a frozen, slotted attrs class. `Request[R]` is what one asks with: `await ref.ask(Deposit(5))` is statically an `int`.
`Stream[E]` is answered by many `E` and a terminal event. A class may be both, where who sends it chooses: `ref.ask` is one answer then, `ref.stream` many.
What the runtime knows of a message class stands in its `MessageInfo`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Generic, Literal, TypeVar, cast, dataclass_transform, get_origin, overload

import attr
import attrs

from retinue.mailbox.annotations import Unresolved, field_types, is_immutable, local_names, own_annotations, type_argument
from retinue.mailbox.constructors import quicken
from retinue.security.errors import DefinitionError

__all__ = ["Kind", "Message", "MessageInfo", "Request", "Stream", "message", "message_info", "names_of"]

Kind = Literal["message", "request", "stream"]

M = TypeVar("M", bound="Message")
R_co = TypeVar("R_co", covariant=True)
E_co = TypeVar("E_co", covariant=True)

_WIRE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*/[A-Za-z_][A-Za-z0-9_.-]*@[1-9][0-9]{0,8}")
_LONGEST_NAME = 200


class Message:
    """The root of all messages; a subclass of its own is told, not asked. Decorate every subclass with `@message`."""

    __slots__ = ()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # Decorated classes have an __init__ of their own; this one turns "takes no arguments" into advice.
        if "__message_info__" not in type(self).__dict__:
            raise DefinitionError(_undecorated(type(self)))
        if args or kwargs:
            raise TypeError(f"{type(self).__qualname__}() takes no arguments")


class Request(Message, Generic[R_co]):
    """A message that is answered by one `R`: `await ref.ask(request)` has that type."""

    __slots__ = ()


class Stream(Message, Generic[E_co]):
    """A message that is answered by a stream of `E`, always closed by a terminal event."""

    __slots__ = ()


_ROOTS: tuple[type, ...] = (Message, Request, Stream)


class MessageInfo:
    """What is known of one message class. Made by `@message`, read with `message_info(cls)`; never changed.

    Attributes:
        cls: The message class.
        name: The explicit wire name (`"shop/Pay@1"`), or None.
        timeout: The default deadline of an ask in seconds (`math.inf`: none), or None for the system's.
        kind: "message", "request" or "stream". A class that is both a Request and a Stream is a "request"; see `items`.
        label: The class's qualified name, for texts.
    """

    __slots__ = ("_items", "_locals", "_mutable", "_reply", "_types", "cls", "kind", "label", "name", "timeout")

    cls: type[Message]
    name: str | None
    timeout: float | None
    kind: Kind
    label: str
    _locals: dict[str, Any]
    _items: Any
    _reply: Any
    _types: dict[str, Any] | None
    _mutable: frozenset[str] | None

    def __init__(self, cls: type[Message], *, name: str | None, timeout: float | None, kind: Kind, names: dict[str, Any]) -> None:
        self.cls = cls
        self.name = name
        self.timeout = timeout
        self.kind = kind
        self.label = cls.__qualname__
        self._locals = names
        self._reply = self._items = Unresolved
        self._types = None
        self._mutable = None

    def __repr__(self) -> str:
        return f"<MessageInfo {self.label}: {self.kind}>"

    @property
    def reply(self) -> Any:
        """The R of a `Request[R]` or the E of a `Stream[E]`; `Any` where it was not given, None for a plain message.

        Resolved at the first look, so that it may name what is defined later. Raises DefinitionError where a name in it cannot be found.
        """
        if self._reply is Unresolved:
            self._reply = None if self.kind == "message" else self._argument(Request if self.kind == "request" else Stream)
        return self._reply

    @property
    def items(self) -> Any:
        """The E of a `Stream[E]`, also of a class that is a `Request` too; None for what is no stream. Resolved, and raises, as `reply`."""
        if self._items is Unresolved:
            self._items = self._argument(Stream) if issubclass(self.cls, Stream) else None
        return self._items

    def _argument(self, root: type) -> Any:
        found = type_argument(self.cls, root, names_of)
        if found is Unresolved:
            raise DefinitionError(
                f"the reply type of {self.label} names something that cannot be found: define it at the top of "
                f"{self.cls.__module__}, or give the type itself instead of a string"
            )
        return found

    @property
    def field_types(self) -> Mapping[str, Any]:
        """The fields' names and resolved types, in order. Raises DefinitionError where a name in an annotation cannot be found."""
        types = self._resolve()
        for field, kind in types.items():
            if kind is Unresolved:
                raise DefinitionError(
                    f"the annotation of {self.label}.{field} names something that cannot be found: define or import it at the top of "
                    f"{self.cls.__module__} (not under TYPE_CHECKING)"
                )
        return types

    @property
    def mutable_fields(self) -> frozenset[str]:
        """The names of the fields whose annotation does not promise an immutable value (list, dict, set, Any, an unknown class…).

        A class may promise for itself with a true class attribute `__immutable__`.
        """
        if self._mutable is None:
            types = self._resolve()
            self._mutable = frozenset(field for field, kind in types.items() if not is_immutable(kind))
        return self._mutable

    def _resolve(self) -> dict[str, Any]:
        types = self._types
        if types is None:
            types = field_types(self.cls, names_of)
            if Unresolved not in types.values():  # else look again next time: the name may be defined by then
                self._types = types
        return types


def message_info(cls: Any) -> MessageInfo:
    """The `MessageInfo` of a message class (`Get[int]` stands for `Get`). Raises DefinitionError for a class without `@message`."""
    try:
        info: MessageInfo = cls.__dict__["__message_info__"]
        return info
    except (AttributeError, KeyError):
        origin = get_origin(cls)
        if isinstance(origin, type) and origin is not cls and issubclass(origin, Message):
            return message_info(origin)
    raise DefinitionError(_undecorated(cls))


@overload
def message(cls: type[M], /) -> type[M]: ...
@overload
def message(*, name: str | None = None, timeout: float | None = None) -> Callable[[type[M]], type[M]]: ...
@dataclass_transform(frozen_default=True, field_specifiers=(attrs.field, attr.ib))
def message(cls: Any = None, /, *, name: str | None = None, timeout: float | None = None) -> Any:
    """Make a subclass of `Message`, `Request[R]` or `Stream[E]` a message: a frozen, slotted attrs class.

    Args:
        cls: The class, where the decorator stands bare.
        name: The name on the wire, `namespace/Name@version`; needed only across processes. Default: made from module and class.
        timeout: The default deadline of an ask with this message, in seconds; `math.inf` means none. Default: that of the nearest
            message it derives from, else the system's.

    Fields may hold lists and dicts. Raises DefinitionError for what cannot be a message, with the fix in its text.
    """
    if name is not None:
        _check_name(name)
    seconds = None if timeout is None else _check_timeout(timeout)

    def make(given: type[M]) -> type[M]:
        return _make(given, name, seconds)

    return make if cls is None else make(cls)


def _make(cls: type[M], name: str | None, timeout: float | None) -> type[M]:
    _check_class(cls)
    kind: Kind = "request" if issubclass(cls, Request) else "stream" if issubclass(cls, Stream) else "message"
    names = local_names(cls)
    try:
        made: Any = attrs.define(cls, frozen=True, slots=True, auto_attribs=True, weakref_slot=False)
    except (TypeError, ValueError, attrs.exceptions.UnannotatedAttributeError) as error:
        raise DefinitionError(f"{cls.__qualname__} cannot be made a message: {error}") from error
    if "__init__" not in cls.__dict__:
        quicken(made)
    for field in attrs.fields(made):
        if isinstance(field.default, dataclasses.Field):
            raise DefinitionError(
                f"{cls.__qualname__}.{field.name} has a dataclasses.field() as its default, which would be the value itself: write attrs.field(…); "
                "with factory= for default_factory="
            )
        if isinstance(field.default, list | dict | set | bytearray):
            kind_of_default = type(field.default).__name__
            raise DefinitionError(
                f"{cls.__qualname__}.{field.name} has a {kind_of_default} as its default, which all instances would share: "
                f"write attrs.field(factory={kind_of_default})"
            )
    if timeout is None:
        inherited = (base.__dict__["__message_info__"].timeout for base in made.__mro__ if "__message_info__" in base.__dict__)
        timeout = next(inherited, None)
    info = MessageInfo(made, name=name, timeout=timeout, kind=kind, names=names)
    made.__message_info__ = info
    return cast("type[M]", made)


def _check_class(cls: Any) -> None:
    if not isinstance(cls, type):
        raise DefinitionError(f"@message decorates a class, not {cls!r}: write @message or @message(name=…, timeout=…) above a class")
    label = cls.__qualname__
    if not issubclass(cls, Message):
        raise DefinitionError(f"{label} is not a message: derive it from Message, Request[R] or Stream[E]")
    if cls in _ROOTS:
        raise DefinitionError(f"{label} is the root of messages: derive a class from it and decorate that")
    if "__message_info__" in cls.__dict__:
        raise DefinitionError(f"{label} is decorated with @message twice: keep one")
    if "__attrs_attrs__" in cls.__dict__ or "__dataclass_fields__" in cls.__dict__:
        raise DefinitionError(
            f"{label} is already an attrs class or a dataclass: @message makes the class itself, remove the other decorator"
        )
    for base in cls.__mro__[1:]:
        if base in _ROOTS or not issubclass(base, Message) or "__message_info__" in base.__dict__:
            continue
        if own_annotations(base):
            raise DefinitionError(
                f"{label} derives from {base.__qualname__}, whose fields would be lost as it is not decorated: decorate it with @message too"
            )


def _check_name(name: Any) -> None:
    if not isinstance(name, str) or len(name) > _LONGEST_NAME or not _WIRE_NAME.fullmatch(name):
        raise DefinitionError(
            f"{name!r} is not a wire name: write namespace/Name@version, as in shop/Pay@1 "
            f"(ASCII letters, digits, '_', '.', '-'; the version counts from 1; at most {_LONGEST_NAME} characters)"
        )


def _check_timeout(timeout: Any) -> float:
    seconds = math.nan
    if isinstance(timeout, int | float) and not isinstance(timeout, bool):
        with contextlib.suppress(OverflowError):
            seconds = float(timeout)
    if not seconds > 0:  # NaN is not
        raise DefinitionError(
            f"timeout={timeout!r} is no time-out: give a number of seconds above zero, or math.inf for an ask that may wait for ever"
        )
    return seconds


def names_of(cls: type) -> dict[str, Any]:
    """What a message class that was defined in a function needs from there to resolve its annotations; else nothing."""
    info = cls.__dict__.get("__message_info__")
    return info._locals if isinstance(info, MessageInfo) else {}


def _undecorated(cls: Any) -> str:
    if isinstance(cls, type) and issubclass(cls, Message) and cls not in _ROOTS:
        return f"{cls.__qualname__} derives from Message but is not decorated: decorate it with @rt.message"
    label = getattr(cls, "__qualname__", None) or repr(cls)
    return f"{label} is no message class: derive it from rt.Message, rt.Request[R] or rt.Stream[E] and decorate it with @rt.message"
