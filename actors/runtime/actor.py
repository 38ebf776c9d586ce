"""The `Actor` class that people derive from: its state is private, its handlers run one at a time."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from retinue.actors.runtime.handlers import HandlerInfo, collect_handlers, handler, handler_options
from retinue.security.errors import DefinitionError, RetinueError
from retinue.security.operations import check_operation
from retinue.security.spelling import misspelt

if TYPE_CHECKING:
    from retinue.actors.runtime.cell import Cell
    from retinue.actors.runtime.context import ActorContext
    from retinue.actors.runtime.tracing import TurnSpan
    from retinue.actors.runtime.watch import StopReason
    from retinue.mailbox.messages import Message

__all__ = [
    "SPAWN_TAKES",
    "Actor",
    "HandlerInfo",
    "check_arguments",
    "check_keywords",
    "handler",
    "handlers_of",
    "is_resident",
    "ready_class",
    "unfit_call",
]

SPAWN_KEYWORDS = ("name", "grant", "mailbox", "supervision")
SPAWN_TAKES = f"spawn itself takes {', '.join(f'{keyword}=' for keyword in SPAWN_KEYWORDS)}"


class Actor:
    """An isolated piece of state with a mailbox. Derive from it and mark methods with `@handler`.

    `class Store(Actor, blocking=True)` gives the actor a thread of its own in which its constructor, hooks and (plain `def`) handlers run, so they may block.

    Hooks, all optional: `on_start` before the first message, `on_stop(reason)` after the last one and before a restart; both may be `async def`.
    `async def run(self)` makes the actor resident: it owns a loop or a connection that runs beside its handlers for as long as the actor lives.

    A restart makes a new instance with the same arguments; the ref and the mailbox stay.
    """

    __slots__ = ("__weakref__", "_cell")
    _cell: Cell

    blocking: ClassVar[bool] = False
    """Whether the actor runs in a thread of its own."""

    internal_operations: ClassVar[tuple[str, ...]] = ()
    """Operations that the actor may do under its own authority, `self.ctx.own_authority(operation)`; others may not be in it. Default: none."""

    _instead_of_blocking: ClassVar[str] = "Await instead, or make it a blocking actor (class …(Actor, blocking=True))"
    """What the watchdog advises where a handler blocks the loop."""

    _span_begins: ClassVar[Callable[[Any, TurnSpan, Any], None] | None] = None
    """How a stock actor says more of the spans of its messages: called in a system that traces, with the actor, the span and the message. It is quick, and suspends nowhere."""

    _span_kind: ClassVar[str] = "internal"
    """What OpenTelemetry is told of these spans: "client" where the actor asks somebody outside."""

    _span_ends: ClassVar[Callable[[Any, TurnSpan, Any, Any], None] | None] = None
    """The same with what its handler returned; of a stream, with each item."""

    __handlers__: ClassVar[dict[type[Message], HandlerInfo] | None] = {}
    __names__: ClassVar[dict[str, Any] | None] = None

    def __init_subclass__(cls, *, blocking: bool | None = None, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if blocking is not None:
            if not isinstance(blocking, bool):
                raise DefinitionError(f"class {cls.__qualname__}(…, blocking={blocking!r}): write True or False")
            cls.blocking = blocking
        if cls.__dict__.get("__handlers__"):
            return  # made again by a decorator (attrs with slots) from the class that was checked already
        _check_constructor(cls)
        _check_hooks(cls)
        _check_manifest(cls)
        # Names of the defining function, so that text annotations (deferred evaluation) find messages that are local to it. A class body's own frame
        # is left out: what an actor takes is no secret of its body.
        frame = sys._getframe(1)
        names = dict(frame.f_locals) if frame.f_code.co_flags & inspect.CO_NEWLOCALS and frame.f_locals is not frame.f_globals else {}
        cls.__handlers__ = collect_handlers(cls, names, blocking=cls.blocking)
        cls.__names__ = names if cls.__handlers__ is None else None

    @property
    def ctx(self) -> ActorContext:
        """What the actor may do: its ref, children, the current message's sender and security context, spawn, watch, stop…"""
        try:
            cell = self._cell
        except AttributeError:
            raise RetinueError(
                f"{type(self).__qualname__} was made by hand and is no running actor: spawn it with `await system.spawn({type(self).__name__}, …)`"
            ) from None
        context = cell.facade
        if context is None:
            from retinue.actors.runtime.context import ActorContext

            context = cell.facade = ActorContext(cell)
        return context

    @classmethod
    def coerce(cls, message: object, *, streamed: bool) -> Message | None:  # noqa: ARG003 - for those that override it
        """Makes a message of what the actor was sent and has no handler for: `agent.ask("text")`. Override it as a classmethod.

        It is asked where no handler of the right kind is found, and nowhere else: by `ask`, `tell`, `send`, `stream` and `ctx.forward`. It runs where the message is
        sent, in whatever thread, under nobody's authority: let it look at its argument alone, and be quick.

        Args:
            message: What was sent.
            streamed: Whether a stream is wanted for an answer. A message that is a `Request` and a `Stream` comes here when it is streamed.

        Returns:
            A message that the actor has a handler for, one that streams where `streamed`; or None: it is refused, which is the default. What it raises is raised to
            the sender.
        """
        return None

    def on_start(self) -> Any:
        """Runs before the first message, also after a restart; what it raises is raised to the spawner. May be `async def`."""

    def on_stop(self, reason: StopReason) -> Any:
        """Runs after the last message and before a restart (`reason` tells which). May be `async def`; bounded by the stop's grace."""


def handlers_of(cls: type[Actor]) -> dict[type[Message], HandlerInfo]:
    """The handlers of an actor class by message type. Raises DefinitionError where an annotation still cannot be resolved."""
    table = cls.__dict__.get("__handlers__")
    if table is None:
        names = cls.__dict__.get("__names__") or {}
        table = collect_handlers(cls, names, blocking=cls.blocking)
        if table is None:
            raise DefinitionError(
                f"a handler of {cls.__qualname__} names a message class that cannot be found: define or import it at the top of {cls.__module__} "
                "(not under TYPE_CHECKING), before the actor is spawned"
            )
        cls.__handlers__ = table
        cls.__names__ = None
    return table


def ready_class(cls: object) -> type[Actor]:
    """`cls` where it is an actor class that can be spawned, else a DefinitionError that says why."""
    if isinstance(cls, Actor):
        raise DefinitionError(f"spawn takes the class and its arguments, not an instance: spawn({type(cls).__name__}, …)")
    if not isinstance(cls, type):
        fix = getattr(type(cls), "__how_to_spawn__", None)
        advice = "" if fix is None else f": {fix(cls)}"
        raise DefinitionError(f"spawn takes a class derived from rt.Actor, not an object of type {type(cls).__name__}{advice}")
    if not issubclass(cls, Actor):
        raise DefinitionError(f"spawn takes a class derived from rt.Actor, not {cls!r}")
    if cls is Actor:
        raise DefinitionError("spawn takes a class derived from rt.Actor, not rt.Actor itself: it has no handlers")
    if inspect.isabstract(cls):
        raise DefinitionError(f"{cls.__qualname__} is abstract: it lacks {', '.join(sorted(getattr(cls, '__abstractmethods__', ())))}")
    for base in cls.__mro__:
        if base is not Actor and issubclass(base, Actor):
            _check_constructor(base)  # a decorator may have made it since the class was defined
    return cls


def check_keywords(cls: type[Actor], keywords: Iterable[str]) -> None:
    """Refuses what neither spawn nor the constructor takes; raises DefinitionError. A constructor that somebody has wrapped is left to itself."""
    code = getattr(cls.__init__, "__code__", None)
    if code is None or code.co_flags & inspect.CO_VARKEYWORDS:
        return
    known = code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]
    unknown = [name for name in keywords if name not in known]
    if unknown:
        raise DefinitionError(_unknown(cls, unknown, known))


def _unknown(cls: type[Actor], unknown: Iterable[str], known: Iterable[str]) -> str:
    elsewhere: Mapping[str, str] = getattr(cls, "__said_elsewhere__", {})
    advice = "".join(f". {name}= {elsewhere[name]}" for name in unknown if name in elsewhere)
    return f"{misspelt(f'the constructor of {cls.__qualname__}', unknown, known)}. {SPAWN_TAKES}{advice}"


def check_arguments(cls: type[Actor], arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:
    """Refuses what the constructor cannot be called with, for who calls it later on; raises DefinitionError. One that somebody has wrapped is left to itself."""
    if cls.__init__ is Actor.__init__:
        if arguments or keywords:
            raise DefinitionError(f"{cls.__qualname__} has no constructor and takes no arguments, but was given some. {SPAWN_TAKES}")
        return
    check_keywords(cls, keywords)
    try:
        signature = inspect.signature(cls.__init__, follow_wrapped=False)
    except (TypeError, ValueError):  # it has none
        return
    try:
        signature.bind(None, *arguments, **keywords)
    except TypeError as error:
        raise DefinitionError(_unfit(cls, error)) from error


def _unfit(cls: type[Actor], error: TypeError) -> str:
    taken = ", ".join(_taken(cls)) or "nothing"
    return f"the constructor of {cls.__qualname__} cannot be called with these arguments: {error}. It takes {taken}. {SPAWN_TAKES}"


def unfit_call(cls: type[Actor], arguments: tuple[Any, ...], keywords: Mapping[str, Any], error: TypeError) -> DefinitionError | None:
    """What to raise where a constructor could not be called with what `spawn` was given; None where the TypeError is one of its own.

    Args:
        cls: Whose constructor it is.
        arguments: What it was given, without the actor itself.
        keywords: The same, by name.
        error: What came of it.
    """
    if isinstance(error, RetinueError):
        return None
    try:
        signature = inspect.signature(cls.__init__, follow_wrapped=False)
    except (TypeError, ValueError):  # it has none
        return None
    try:
        signature.bind(None, *arguments, **keywords)
    except TypeError as why:
        return DefinitionError(_unfit(cls, why))
    found = _UNEXPECTED.search(str(error))
    if found is None or found[2] not in keywords or found[1] not in {base.__qualname__ for base in cls.__mro__}:
        return None
    known = [name.rstrip("=") for name in _taken(cls)]
    if found[2] in known:
        return None
    refused = DefinitionError(_unknown(cls, [found[2]], known))  # it was handed on to a base's, by **options
    refused.__cause__ = error
    return refused


_UNEXPECTED = re.compile(r"([\w.<>]+)\.__init__\(\) got (?:an unexpected keyword|multiple values for(?: keyword)?) argument '(\w+)'")


def _taken(cls: type[Actor]) -> list[str]:
    """What the constructor takes, and what it hands on to those of its bases: names, with a "=" after those that are no positions. A class says in `__fills_in__` what of that it gives itself."""
    found: dict[str, str] = {}
    positions = True
    for base in cls.__mro__:
        constructor = base.__dict__.get("__init__")
        if not inspect.isfunction(constructor):
            continue
        parameters = list(inspect.signature(constructor, follow_wrapped=False).parameters.values())[1:]
        for one in parameters:
            if one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL):
                found.setdefault(one.name, one.name if positions and one.kind is not one.KEYWORD_ONLY else f"{one.name}=")
        positions = False
        if all(one.kind is not one.VAR_KEYWORD for one in parameters):
            break
    return [shown for name, shown in found.items() if name not in getattr(cls, "__fills_in__", ())]


def is_resident(cls: type[Actor]) -> bool:
    """Whether the class has a loop of its own: `async def run(self)`."""
    run = getattr(cls, "run", None)
    return inspect.iscoroutinefunction(run) and len(inspect.signature(run).parameters) == 1


def _check_constructor(cls: type[Actor]) -> None:
    constructor = cls.__dict__.get("__init__")
    if not inspect.isfunction(constructor):
        return
    if inspect.iscoroutinefunction(constructor):
        raise DefinitionError(f"{cls.__qualname__}.__init__ cannot be `async def`; do what awaits in `async def on_start(self)`")
    taken = [name for name in list(inspect.signature(constructor).parameters)[1:] if name in SPAWN_KEYWORDS]
    if taken:
        raise DefinitionError(
            f"{cls.__qualname__}.__init__ takes {', '.join(taken)}, which spawn keeps for itself ({', '.join(SPAWN_KEYWORDS)}); give the parameter another name"
        )


def _check_manifest(cls: type[Actor]) -> None:
    manifest = cls.internal_operations
    if type(manifest) is not tuple:
        raise DefinitionError(
            f"{cls.__qualname__}.internal_operations is a tuple of operations, such as ('memory.write',), not {manifest!r}"
        )
    for operation in manifest:
        check_operation(operation)


def _check_hooks(cls: type[Actor]) -> None:
    if not isinstance(cls.__dict__.get("coerce", Actor.__dict__["coerce"]), classmethod):
        raise DefinitionError(
            f"{cls.__qualname__}.coerce is a hook of the runtime, which makes a message of what the actor is sent: write it as a @classmethod, "
            "`def coerce(cls, message: object, *, streamed: bool) -> rt.Message | None`, or give the method another name"
        )
    for hook in ("on_start", "on_stop", "run"):
        if handler_options(cls.__dict__.get(hook)) is not None:
            raise DefinitionError(
                f"{cls.__qualname__}.{hook} is a hook of the runtime and cannot be a handler too; give the handler another name"
            )
    run = cls.__dict__.get("run")
    if inspect.isfunction(run) and not inspect.iscoroutinefunction(run) and len(inspect.signature(run).parameters) == 1:
        raise DefinitionError(
            f"{cls.__qualname__}.run is the loop of a resident actor: write `async def run(self)`, or give the method another name"
        )
    if cls.blocking and inspect.iscoroutinefunction(getattr(cls, "run", None)):
        raise DefinitionError(
            f"{cls.__qualname__} is blocking and has `async def run`: a blocking actor lives in a thread and cannot be resident"
        )
    for hook in ("on_start", "on_stop"):
        if cls.blocking and inspect.iscoroutinefunction(getattr(cls, hook)):
            raise DefinitionError(f"{cls.__qualname__}.{hook}: the hooks of a blocking actor run in a thread and are plain `def` methods")
