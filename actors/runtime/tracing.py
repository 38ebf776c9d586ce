"""Where the runtime meets tracing: what a tracer is told of, and how spans find their parents. Nothing of OpenTelemetry is known here.

A system that traces has a tracer in its kernel, and none of its messages goes the short ways: each is handled by a worker, which tells the tracer when its turn begins
and ends. The span that a message was sent in travels in its postmark, as a W3C `traceparent`.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

from retinue.security.errors import DefinitionError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from retinue.actors.runtime.current import Delivery
    from retinue.actors.runtime.kernel import Kernel
    from retinue.actors.tracing.tracing import Tracing
    from retinue.mailbox.envelope import Postmark

__all__ = [
    "MOST_STATE",
    "NO_SPAN",
    "UNSEEN",
    "Tracer",
    "TurnSpan",
    "hinted",
    "incoming",
    "incoming_state",
    "passed_on",
    "ready",
    "sent_in",
    "trace_of",
    "unseen",
]

MOST_STATE: Final = 512
"""Characters of a W3C `tracestate` that is passed on."""

incoming: ContextVar[str | None] = ContextVar("retinue_incoming_trace", default=None)
"""The `traceparent` that a request from another process came with, in the task that serves it."""

incoming_state: ContextVar[str | None] = ContextVar("retinue_incoming_state", default=None)
"""The `tracestate` that came with it."""

hinted: ContextVar[Mapping[str, str] | None] = ContextVar("retinue_span_hints", default=None)
"""Attributes for the span of the next message that is sent, which only its sender knows."""


UNSEEN: Final[Mapping[str, str]] = {}
"""The hint for a message that is the housekeeping of whoever sends it: it has no span, and what it sets going are children of its sender's."""


class TurnSpan:
    """The span of the message that is being handled: `self.ctx.span`. In a system that does not trace all of it does nothing.

    Attributes:
        recording: Whether what is said to it is kept: the system traces, and this trace is among those that are sampled.
        traceparent: The span as a W3C `traceparent`, for requests to other services; None where there is no span.
        tracestate: The W3C `tracestate` that goes with it; None where there is none.
    """

    __slots__ = ()

    recording: bool = False
    traceparent: str | None = None
    tracestate: str | None = None

    def rename(self, name: str) -> None:
        """Gives the span another name; default: the message's type. Names are few, and never hold what somebody said."""

    def set(self, key: str, value: Any) -> None:
        """Notes an attribute, such as `set("shop.order", 7)`. It is exported as it is, but for secrets: what a user or a model said goes to `content`.

        Args:
            key: Its name.
            value: A str, bool, int or float, or a list of one of these. None is left out.
        """

    def event(self, name: str, attributes: Mapping[str, Any] | None = None, contents: Mapping[str, Any] | None = None) -> None:
        """Notes that something happened now, with attributes as for `set`, and with others as for `content`."""

    def content(self, key: str, value: Any) -> None:
        """As `set`, for what people and models said: kept with `rt.Tracing(contents=True)` only, redacted, cut after 2,000 characters a text, anything but a text as JSON."""

    def link(self, traceparent: str | None) -> None:
        """Links the span to one that it goes on from, and is no child of."""

    # -- for the runtime and its stock actors ------------------------------------------------------------------------------------------------------

    def mark(self, attributes: Mapping[str, Any]) -> None:
        """Notes attributes that hold nothing to be redacted; one that is None is left out."""

    def count(self, attributes: Mapping[str, int | None]) -> None:
        """Adds amounts to attributes of this span and of the spans of agents around it."""

    def fail(self, error_type: str) -> None:
        """Says that what the handler returned is an error, by its type."""

    def remember(self, run: str) -> None:
        """Notes that this run goes on later in another span."""

    def resumes(self, run: str) -> None:
        """Links the span to the one in which the run was parked."""

    def step_aside(self) -> None:
        """The message is handed on: its new receiver's span takes the place of this one."""

    def handed(self) -> str | None:
        """The span that what the turn sends is a child of."""
        return None


NO_SPAN: Final = TurnSpan()


class Tracer:
    """What a kernel tells of its turns. All of it in the system's thread, but `sent_in`, which is for any."""

    __slots__ = ()

    def clear(self) -> None:
        """Forgets, in the context variables at hand, whatever span is in force."""
        raise NotImplementedError

    def sent_in(self, turn: Delivery | None) -> str | None:
        """The span that a message is sent in: one of the sender's own making, else the turn's, else one that is in force outside."""
        raise NotImplementedError

    def begin(self, delivery: Delivery) -> None:
        """A message's turn begins."""
        raise NotImplementedError

    def item(self, delivery: Delivery, item: Any) -> None:
        """A turn that streams gives an item."""
        raise NotImplementedError

    def end(self, delivery: Delivery, value: Any, error: BaseException | None) -> None:
        """A turn has ended, with what its handler returned or with what its asker gets. Told again, it does nothing."""
        raise NotImplementedError

    async def close(self) -> None:
        """The system has ended: what is left is exported, within a time-out, and nothing is left running."""
        raise NotImplementedError


def trace_of(turn: Delivery) -> str | None:
    """The span that what a turn sends is a child of."""
    postmark = turn.postmark
    return None if postmark is None else passed_on(postmark)


def passed_on(postmark: Postmark) -> str | None:
    """The same, of the turn of a postmark."""
    found: str | None = postmark.trace if postmark.span is None else postmark.span.handed()
    return found


def sent_in(kernel: Kernel, turn: Delivery | None) -> str | None:
    """The span that a message is sent in, from a turn of that kernel or from outside any."""
    if kernel.tracer is not None:
        return kernel.tracer.sent_in(turn)
    return None if turn is None else trace_of(turn)


@contextmanager
def unseen(kernel: Kernel) -> Iterator[None]:
    """The message that is sent within, the next one, has no span."""
    if kernel.tracer is None:
        yield
        return
    hinted.set(UNSEEN)
    try:
        yield
    finally:
        hinted.set(None)  # where it could not be sent, it is not the next one


def ready(tracing: object) -> Tracing:
    """What a system is given as `tracing=`, with OpenTelemetry loaded: that takes a tenth of a second, which no running loop should wait for."""
    from retinue.actors.tracing.tracing import Tracing

    if not isinstance(tracing, Tracing):
        raise DefinitionError(f"ActorSystem(tracing=…) takes rt.Tracing(…), not a {type(tracing).__name__}")
    import retinue.actors.tracing.starting  # noqa: F401

    return tracing
