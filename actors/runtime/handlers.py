"""Handlers: which method of an actor answers which type of message, found when the class is defined."""

from __future__ import annotations

import copy
import inspect
import types
import typing
from collections.abc import Callable
from typing import Any, Final, Literal, TypeVar, Union, overload

from retinue.actors.runtime.definition import definition_of
from retinue.actors.runtime.handing_on import handing_on
from retinue.capabilities.cases import ApprovalRule
from retinue.mailbox.messages import Message, MessageInfo, message_info
from retinue.security.errors import DefinitionError
from retinue.security.limits import RISKS, Risk
from retinue.security.operations import check_operation

__all__ = ["ASYNC", "DEF", "GENERATOR", "THREAD", "HandlerInfo", "collect_handlers", "handler", "handler_options"]

F = TypeVar("F", bound=Callable[..., Any])

DEF: Final = 0
ASYNC: Final = 1
GENERATOR: Final = 2
THREAD: Final = 3
Kind = Literal[0, 1, 2, 3]

_OPTIONS = "__retinue_handler__"


class Options:
    """What `@handler` was given. Stays on the function; an override without the decorator inherits it."""

    __slots__ = ("approval", "counted", "forwards", "four_eyes", "open_to_all", "raises", "requires", "risk", "shield")

    def __init__(
        self,
        requires: str | None,
        approval: ApprovalRule,
        raises: tuple[type[BaseException], ...],
        shield: bool,
        risk: Risk | None = None,
        *,
        four_eyes: bool = False,
        forwards: bool = False,
        open_to_all: bool = False,
        counted: bool = True,
    ) -> None:
        self.counted = counted
        self.requires = requires
        self.risk = risk
        self.approval = approval
        self.four_eyes = four_eyes
        self.raises = raises
        self.shield = shield
        self.forwards = forwards
        self.open_to_all = open_to_all


class HandlerInfo:
    """One handler of one actor class, as the runtime uses it.

    Attributes:
        message: The message class it takes.
        info: That class's `MessageInfo`.
        function: The method, unbound.
        kind: DEF, ASYNC, GENERATOR (an async generator, which answers a stream) or THREAD (a plain method of a blocking actor).
        requires: The operation that a sender must be permitted, or None: open to whoever holds the ref.
        risk: How much harm the operation can do, "L0" to "L3", or None where the handler does not say.
        approval: Whether a person must consent, or a predicate on the message that says so.
        four_eyes: Whether who consents must be another person than the subject, whoever asks for the consent.
        origin: The handler as its class has it, where this is a copy that one system uses; else itself.
        definitions: Digests of what it is, by class of message; see `definition`.
        awaits: Whether its turns begin with waiting for the gate: for an asynchronous policy of the system, or for a person's consent.
        records: Whether the outcome of its turns is recorded, as its admissions are.
        raises: Exceptions that are answers, not failures.
        shield: Whether a running turn is protected from the cancellation of its asker.
        forwards: Whether it hands each of its messages over to somebody else, who answers (or streams).
        open_to_all: Whether its class says that it is open on purpose.
        counted: Whether the gate charges a call for each of its messages.
        streams: Whether its message is answered by a stream: its own, or that of whoever gets the message from it.
        inline: Whether an asker may run it in its own task.
        name: The method's name.
    """

    __slots__ = (
        "approval",
        "awaits",
        "counted",
        "definitions",
        "forwards",
        "four_eyes",
        "function",
        "info",
        "inline",
        "kind",
        "message",
        "name",
        "open_to_all",
        "origin",
        "raises",
        "records",
        "requires",
        "risk",
        "shield",
        "stated",
        "streams",
    )

    def __init__(self, message: type[Message], function: Callable[..., Any], kind: Kind, options: Options) -> None:
        self.message = message
        self.info: MessageInfo = message_info(message)
        self.forwards = options.forwards
        self.open_to_all = options.open_to_all
        self.function = handing_on(function, kind) if options.forwards else function
        self.kind: Kind = kind
        self.requires = options.requires
        self.risk = options.risk
        self.approval = options.approval
        self.four_eyes = options.four_eyes
        self.counted = options.counted
        self.origin = self
        self.definitions: dict[type, str] = {}
        self.stated: str | None = None
        self.awaits = self.records = False
        self.raises = options.raises
        self.shield = options.shield
        self.streams = self.info.kind == "stream"
        self.inline = kind in (DEF, ASYNC) and not options.shield and not self.streams
        self.name = function.__name__

    @property
    def guarded(self) -> bool:
        """Whether the gate may have to ask for a person's consent."""
        return self.requires is not None or self.approval is not False

    def definition(self, kind: type) -> str:
        """The digest of what it is, for messages of exactly this class."""
        return definition_of(self, kind)

    def define(self, digest: str) -> None:
        """Says what it is, in place of its code: for a handler that is made of something else, whose own code says nothing. Consents are bound to it, together
        with the message's class and the handler's options.

        Args:
            digest: A digest or any other text that changes with what the handler does.

        Raises:
            DefinitionError: It is no text, or an empty one.
        """
        if not isinstance(digest, str) or not digest:
            raise DefinitionError(f"define() takes a digest, a str, not {digest!r}")
        self.origin.stated = digest
        self.origin.definitions.clear()

    def by_worker(self) -> HandlerInfo:
        """The same handler, never run in an asker's own task."""
        other = self.copy()
        other.inline = False
        return other

    def copy(self) -> HandlerInfo:
        """A copy, to be changed for one system."""
        return copy.copy(self)

    def __repr__(self) -> str:
        return f"<handler {self.function.__qualname__} for {self.info.label}>"


@overload
def handler(function: F, /) -> F: ...


@overload
def handler(
    *,
    requires: str | None = None,
    risk: Risk | None = None,
    approval: bool | Callable[[Any], object] = False,
    four_eyes: bool = False,
    raises: type[BaseException] | tuple[type[BaseException], ...] = (),
    shield: bool = False,
    forwards: bool = False,
    open_to_all: bool = False,
    counted: bool = True,
) -> Callable[[F], F]: ...


def handler(
    function: Callable[..., Any] | None = None,
    /,
    *,
    requires: str | None = None,
    risk: Risk | None = None,
    approval: bool | Callable[[Any], object] = False,
    four_eyes: bool = False,
    raises: type[BaseException] | tuple[type[BaseException], ...] = (),
    shield: bool = False,
    forwards: bool = False,
    open_to_all: bool = False,
    counted: bool = True,
) -> Any:
    """Makes a method the handler of the message type that its parameter is annotated with (`A | B` for two types).

    A plain `def` runs without ever touching the scheduler; an `async def` may await; an async generator answers a `Stream`. So does one with `forwards=True`, which
    lets somebody else answer it.

    Args:
        requires: The operation that the message's effective context must permit (`"payments.send"`). None: whoever holds the ref may send it.
        risk: How much harm the operation can do: "L0" reads, "L1" can be undone, "L2" is hard to undo, "L3" cannot be undone. From L2 on each message is recorded
            in the audit before it is handled. None: not said; then it is audited like L1, and `max_risk` takes it for L3.
        approval: A person must consent to each message: without an approval token that fits, it is refused (`ApprovalRequired`), and waits for a decision in
            `system.approvals`. Or a plain function of the message: only a literal False of it means that none is needed; an exception or anything else, that
            one is.
        four_eyes: Whoever consents must be another person than the subject of the message's context, whatever it is that asks for consent.
        raises: Exception types that are answers: they reach the asker, and the actor keeps its state.
        shield: Once begun, the handler is not cancelled when its asker gives up; it is still cancelled when the actor is stopped and its grace is over.
        forwards: The handler, no generator, hands each message over by `self.ctx.forward(ref, message)`, also a `Stream`: whoever asked reads from there. Where it
            returns without that, it has failed, and whoever asked gets a DefinitionError.
        open_to_all: It has no `requires` on purpose, since what it does asks for its own operations: a strict system takes it.
        counted: Whether each message costs one of the calls of `rt.limit(calls=…)`, where the handler requires an operation; default True. False for a handler that
            only hands on to another one, which is counted: what is done once is one call then.

    Raises:
        DefinitionError: At once, for options of the wrong kind; at the class's definition, for a method that cannot be a handler.
    """
    if requires is not None:
        check_operation(requires)
    if risk is not None and (not isinstance(risk, str) or risk not in RISKS):
        raise DefinitionError(f"@handler(risk={risk!r}): give 'L0', 'L1', 'L2' or 'L3'")
    if risk is not None and requires is None:
        raise DefinitionError(f"@handler(risk={risk!r}) rates an operation: name it, @handler(requires='…', risk={risk!r})")
    kinds = raises if isinstance(raises, tuple) else (raises,)
    for kind in kinds:
        if not (isinstance(kind, type) and issubclass(kind, BaseException)):
            raise DefinitionError(f"@handler(raises=…) takes an exception class or a tuple of them, not {kind!r}")
    if open_to_all and requires is not None:
        raise DefinitionError(f"@handler(requires={requires!r}, open_to_all=True): it is one or the other")
    for name, value in (
        ("four_eyes", four_eyes),
        ("shield", shield),
        ("forwards", forwards),
        ("open_to_all", open_to_all),
        ("counted", counted),
    ):
        if not isinstance(value, bool):
            raise DefinitionError(f"@handler({name}={value!r}): write True or False")
    if not isinstance(approval, bool) and (not callable(approval) or inspect.iscoroutinefunction(approval)):
        raise DefinitionError(
            f"@handler(approval={approval!r}): write True or False, or give a plain function of the message that says which"
        )
    options = Options(
        requires, approval, kinds, shield, risk, four_eyes=four_eyes, forwards=forwards, open_to_all=open_to_all, counted=counted
    )

    def mark(target: Callable[..., Any]) -> Callable[..., Any]:
        if not inspect.isfunction(target):
            raise DefinitionError(f"@handler marks a method, not {target!r}; write it directly above `def` or `async def`")
        setattr(target, _OPTIONS, options)
        return target

    return mark if function is None else mark(function)


def handler_options(function: object) -> Options | None:
    """What `@handler` was given for this function, or None for one that is no handler."""
    return getattr(function, _OPTIONS, None)


def collect_handlers(cls: type, names: dict[str, Any], *, blocking: bool) -> dict[type[Message], HandlerInfo] | None:
    """The handlers of an actor class, base classes included.

    Args:
        cls: The class.
        names: The local names at its definition, for annotations that are text.
        blocking: Whether its handlers run in a thread.

    Returns:
        The table, or None where an annotation names something that is not defined yet (look again at the first spawn).

    Raises:
        DefinitionError: Two handlers for one type, a missing annotation, a handler of the wrong form.
    """
    table: dict[type[Message], HandlerInfo] = {}
    for name in _attribute_names(cls):
        function = inspect.getattr_static(cls, name, None)
        options = _inherited_options(cls, name)
        if options is None:
            continue
        where = f"{cls.__qualname__}.{name}"
        if not inspect.isfunction(function):
            raise DefinitionError(f"{where} overrides a handler with {function!r}; a handler is a method")
        found = _message_types(function, where, names)
        if found is None:
            return None
        kind = _kind(function, where, blocking)
        for message in found:
            info = HandlerInfo(message, function, kind, options)
            _check_form(info, where)
            _check_answer(info, names, where)
            other = table.get(message)
            if other is not None:
                raise DefinitionError(
                    f"{cls.__qualname__} has two handlers for {info.info.label}: {other.name} and {name}; keep one (an override has the same name)"
                )
            table[message] = info
    return table


def _attribute_names(cls: type) -> list[str]:
    """All names of the class and its bases, in the order of definition, base first."""
    seen: dict[str, None] = {}
    for base in reversed(cls.__mro__):
        for name in vars(base):
            seen.setdefault(name)
    return list(seen)


def _inherited_options(cls: type, name: str) -> Options | None:
    for base in cls.__mro__:
        if name in vars(base):
            options = handler_options(vars(base)[name])
            if options is not None:
                return options
    return None


def _kind(function: Callable[..., Any], where: str, blocking: bool) -> Kind:
    if inspect.isasyncgenfunction(function):
        kind: Kind = GENERATOR
    elif inspect.iscoroutinefunction(function):
        kind = ASYNC
    elif inspect.isgeneratorfunction(function):
        raise DefinitionError(f"{where} is a generator; write `async def` with `yield` to answer a stream")
    else:
        kind = DEF
    if blocking:
        if kind != DEF:
            raise DefinitionError(f"{where}: the handlers of a blocking actor run in a thread and are plain `def` methods")
        kind = THREAD
    return kind


def _check_form(info: HandlerInfo, where: str) -> None:
    if info.forwards and info.kind not in (DEF, ASYNC):
        why = "answers its stream itself" if info.kind == GENERATOR else "is of a blocking actor, which cannot forward"
        raise DefinitionError(
            f"{where} has forwards=True, and {why}; forwards=True is for a `def` that calls self.ctx.forward(ref, message)"
        )
    if info.streams and info.kind != GENERATOR and not info.forwards:
        raise DefinitionError(
            f"{where} answers {info.info.label}, a Stream: write it as `async def` with `yield`; or with @handler(forwards=True), where it hands the message "
            "over by self.ctx.forward(ref, message)"
        )
    if info.kind == GENERATOR and not info.streams and info.info.items is not None:
        raise DefinitionError(
            f"{where} yields, and {info.info.label} is a Request as well as a Stream: its handler answers with one value. Let the actor's `coerce` make a message of "
            "a plain Stream class of it for who streams it, and have a handler for that"
        )
    if info.kind == GENERATOR and not info.streams:
        raise DefinitionError(f"{where} yields, but {info.info.label} is no Stream; derive the message from Stream[…] or return one value")


_WIDENS = {(int, float), (int, complex), (float, complex)}  # what type checkers take for the other


def _check_answer(info: HandlerInfo, names: dict[str, Any], where: str) -> None:
    """Refuses a return annotation that contradicts the request's `R`, where both are plain classes. None is allowed: the answer may be deferred."""
    annotation = info.function.__annotations__.get("return")
    if info.info.kind != "request" or annotation is None:
        return
    try:
        given, wanted = _resolve(info.function, annotation, names), info.info.reply
    except Exception:  # a name for type checkers only, perhaps
        return
    for kind in (given, wanted):
        if (
            kind in (Any, object)
            or not isinstance(kind, type)
            or typing.get_origin(kind) is not None
            or getattr(kind, "_is_protocol", False)
        ):
            return
    if given is type(None) or issubclass(given, wanted) or (given, wanted) in _WIDENS:
        return
    raise DefinitionError(
        f"{where} answers with {given.__qualname__}, but {info.info.label} is a Request[{wanted.__qualname__}]; make the two agree"
    )


def _message_types(function: Callable[..., Any], where: str, names: dict[str, Any]) -> list[type[Message]] | None:
    parameters = list(inspect.signature(function).parameters.values())
    takes = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    required = [p for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    if len(takes) < 2 or len(required) > 2 or any(p.kind is p.KEYWORD_ONLY for p in required):
        raise DefinitionError(f"{where} must take exactly one message: `def {function.__name__}(self, message: SomeMessage)`")
    annotation = takes[1].annotation
    if annotation is inspect.Parameter.empty:
        raise DefinitionError(f"{where}: annotate its parameter with the message class: `{takes[1].name}: SomeMessage`")
    try:
        resolved = _resolve(function, annotation, names)
    except NameError:
        return None
    return _flatten(resolved, where)


def _resolve(function: Callable[..., Any], annotation: Any, names: dict[str, Any]) -> Any:
    if not isinstance(annotation, str):
        return annotation
    scope = dict(names)
    if function.__closure__:  # a message of an enclosing function that the method uses elsewhere
        for free, cell in zip(function.__code__.co_freevars, function.__closure__, strict=True):
            try:
                scope.setdefault(free, cell.cell_contents)
            except ValueError:
                pass

    return eval(annotation, function.__globals__, scope)  # noqa: S307 - the actor's own source text; what typing.get_type_hints does, for one annotation


def _flatten(annotation: Any, where: str) -> list[type[Message]]:
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        return _flatten(typing.get_args(annotation)[0], where)
    if origin in (Union, types.UnionType):
        return [message for part in typing.get_args(annotation) for message in _flatten(part, where)]
    if isinstance(origin, type) and issubclass(origin, Message):
        annotation = origin  # a generic message: Box[int] is a Box at run time
    if not (isinstance(annotation, type) and issubclass(annotation, Message)):
        raise DefinitionError(
            f"{where}: {annotation!r} is no message class; derive it from rt.Message, rt.Request[…] or rt.Stream[…] and decorate it with @rt.message"
        )
    message_info(annotation)
    return [annotation]
