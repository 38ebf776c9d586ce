"""What an actor does, as a `BehaviorTest` records it. Two effects are equal when they say the same; the contexts that they carry are left out of that."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from retinue.actors.runtime.ref import Ref
    from retinue.actors.runtime.virtual import Virtual
    from retinue.security.context import SecurityContext

__all__ = [
    "Asked",
    "Deferred",
    "Effect",
    "Failed",
    "Forwarded",
    "Passivated",
    "Published",
    "Registered",
    "Replied",
    "Spawned",
    "Started",
    "Stashed",
    "Stopped",
    "Subscribed",
    "TimerCancelled",
    "TimerSet",
    "Told",
    "Unregistered",
    "Unstashed",
    "Unsubscribed",
    "Watched",
]


class Effect:
    """Something that an actor did."""

    __slots__ = ()


_context: Any = attrs.field(default=None, eq=False, repr=False)


@attrs.frozen
class Told(Effect):
    """It told somebody something, or sent it with `send`.

    Attributes:
        ref: Whom.
        message: What.
        context: What it was sent under.
    """

    ref: Ref[Any]
    message: Any
    context: SecurityContext = _context


@attrs.frozen
class Asked(Effect):
    """It asked somebody something, or for a stream; it got what `BehaviorTest.answer` was told for that.

    Attributes:
        ref: Whom.
        message: What.
        context: What it was sent under.
        timeout: The seconds that it gave, None for the default; not compared.
    """

    ref: Ref[Any]
    message: Any
    context: SecurityContext = _context
    timeout: float | None = attrs.field(default=None, eq=False, repr=False)


@attrs.frozen
class Forwarded(Effect):
    """It handed the request over that it was asked.

    Attributes:
        ref: To whom.
        message: As what.
        context: What it was sent under.
    """

    ref: Ref[Any]
    message: Any
    context: SecurityContext = _context


@attrs.frozen
class Replied(Effect):
    """It answered a request: the current one, or one that it had deferred or stashed.

    Attributes:
        message: The request.
        value: The answer.
        error: The error that was the answer, or None. Errors are equal where they are one object.
    """

    message: Any
    value: Any = None
    error: BaseException | None = None


@attrs.frozen
class Failed(Effect):
    """Its handler raised, and that is a failure of the actor: in a system its supervision would see to it.

    Attributes:
        message: What it was handling; None in a hook or a task.
        error: What was raised.
        directive: What the supervision does then: "restart", "resume", "stop" or "escalate".
    """

    message: Any
    error: BaseException
    directive: str


@attrs.frozen
class Deferred(Effect):
    """It took the reply slot of a request away, to answer later.

    Attributes:
        message: The request.
    """

    message: Any


@attrs.frozen
class Stashed(Effect):
    """It set its message aside.

    Attributes:
        message: The message.
    """

    message: Any


@attrs.frozen
class Unstashed(Effect):
    """It took back what it had set aside, and handled it next.

    Attributes:
        message: The message.
    """

    message: Any


@attrs.frozen
class Spawned(Effect):
    """It spawned a child, a pool of them, or a region of virtual actors. The child is a stand-in: it does nothing.

    Attributes:
        cls: The child's class.
        arguments: The arguments of its constructor, by place.
        keywords: Those by name.
        ref: The child's ref; of a region that of the region's own actor. Not compared.
        region: The region, where it was one: `spawned.region["alice"]`. Not compared.
        name: The name that was given, or None.
        pool: The `rt.Pool`, where it was one.
        grant: What the child may ever take part in.
    """

    cls: type[Any]
    arguments: tuple[Any, ...] = ()
    keywords: Mapping[str, Any] = attrs.field(factory=dict)
    ref: Ref[Any] | None = attrs.field(default=None, eq=False)
    name: str | None = attrs.field(default=None, eq=False)
    pool: Any = attrs.field(default=None, eq=False)
    region: Virtual[Any] | None = attrs.field(default=None, eq=False, kw_only=True)
    grant: SecurityContext = _context


@attrs.frozen
class Stopped(Effect):
    """It stopped somebody, or itself.

    Attributes:
        ref: Whom.
    """

    ref: Ref[Any]


@attrs.frozen
class Passivated(Effect):
    """It passivated a virtual actor, by `region.passivate(key)`.

    Attributes:
        ref: Which.
    """

    ref: Ref[Any]


@attrs.frozen
class Watched(Effect):
    """It watches somebody; `BehaviorTest.terminate` ends it.

    Attributes:
        ref: Whom.
    """

    ref: Ref[Any]


@attrs.frozen
class Started(Effect):
    """It started a task of its own (`start_soon`, `pipe_to_self`, the loop of a resident actor). `BehaviorTest.run` runs it.

    Attributes:
        name: The task's name.
        function: What was to be run; of a pipe, something of the runtime's. Not compared.
        arguments: Its arguments.
    """

    name: str
    function: Callable[..., Any] = attrs.field(eq=False, repr=False)
    arguments: tuple[Any, ...] = ()
    job: Any = attrs.field(default=None, eq=False, repr=False, alias="job")


@attrs.frozen
class TimerSet(Effect):
    """It set a timer; `BehaviorTest.tick` lets it tick.

    Attributes:
        key: Its key.
        message: What it will get.
        after: Seconds until the first tick.
        every: Seconds between two ticks, None for one that ticks once.
        context: What the tick is sent under.
    """

    key: Hashable
    message: Any
    after: float
    every: float | None = None
    context: SecurityContext = _context


@attrs.frozen
class TimerCancelled(Effect):
    """It cancelled a timer that it had.

    Attributes:
        key: Its key.
    """

    key: Hashable


@attrs.frozen
class Published(Effect):
    """It published something. (What `self.ctx.topics.publish` returned says that nobody is subscribed.)

    Attributes:
        topic: The topic.
        message: The message.
        context: What it was published under.
    """

    topic: Any
    message: Any
    context: SecurityContext = _context


@attrs.frozen
class Subscribed(Effect):
    """It subscribed to a topic.

    Attributes:
        topic: The topic.
        capacity: How many messages may wait.
    """

    topic: Any
    capacity: int = attrs.field(default=256, eq=False)


@attrs.frozen
class Unsubscribed(Effect):
    """It ended its subscription to a topic.

    Attributes:
        topic: The topic.
    """

    topic: Any


@attrs.frozen
class Registered(Effect):
    """It registered itself, or a child of its, with the receptionist.

    Attributes:
        key: The service's key.
        ref: Whom.
    """

    key: Any
    ref: Ref[Any]


@attrs.frozen
class Unregistered(Effect):
    """It gave that up.

    Attributes:
        key: The service's key.
        ref: Whom.
    """

    key: Any
    ref: Ref[Any]
