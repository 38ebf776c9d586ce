"""The tracer of one system: it makes a span of each message that an actor of its own handles.

While a turn goes on its span is the current one of the actor's own context variables, for whoever instruments what handlers call. It is put there and replaced, never
taken back by a token: a token is good in one context only, and handlers are cancelled, closed and left in others.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

import trio
from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.sdk.trace.sampling import Decision

from retinue.actors.runtime.tracing import UNSEEN, Tracer, incoming, incoming_state, trace_of
from retinue.actors.tracing import names
from retinue.actors.tracing.contexts import FromOutside, is_sampled, parsed, state_of, written
from retinue.actors.tracing.spans import LiveSpan, QuietSpan
from retinue.mailbox.envelope import Postmark
from retinue.security.whole_texts import whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.sdk.trace.sampling import Sampler

    from retinue.actors.runtime.current import Delivery
    from retinue.actors.runtime.kernel import Kernel
    from retinue.actors.runtime.tracing import TurnSpan
    from retinue.actors.tracing.exporting import Watched

__all__ = ["FLUSH_TIMEOUT", "OpenTelemetryTracer"]

_log = logging.getLogger("retinue.tracing")

FLUSH_TIMEOUT: Final = 5.0
"""Seconds that the export of what is left may take at the system's end."""

MOST_RUNS: Final = 10_000
"""Parked runs whose spans are remembered, to be linked to; the oldest are forgotten first."""


class OpenTelemetryTracer(Tracer):
    """A tracer over OpenTelemetry's.

    Args:
        kernel: The system.
        otel: OpenTelemetry's tracer.
        contents: Whether what people and models say is exported.
        ways: What the system's own provider exports by: OpenTelemetry's processors with what they export to. Empty with somebody else's provider.
        sampler: What decides which traces are kept, also of those that a caller from another process has begun; None leaves that to the caller.

    Attributes:
        nothing: OpenTelemetry's context without a span.
    """

    __slots__ = ("_ended", "_kernel", "_open", "_runs", "_sampler", "_told", "_ways", "contents", "nothing", "otel")

    def __init__(
        self,
        kernel: Kernel,
        otel: trace.Tracer,
        *,
        contents: bool,
        ways: Sequence[tuple[BatchSpanProcessor, Watched]],
        sampler: Sampler | None = None,
    ) -> None:
        self._kernel = kernel
        self._ways = tuple(ways)
        self._open: dict[str, LiveSpan] = {}
        self._runs: OrderedDict[str, str] = OrderedDict()
        self._ended = 0
        self._told = False
        self._sampler = sampler
        self.otel = otel
        self.contents = contents
        self.nothing = otel_context.Context()

    # -- where messages are sent -----------------------------------------------------------------------------------------------------------------------

    def clear(self) -> None:
        """Puts the context without a span in force."""
        otel_context.attach(self.nothing)

    def sent_in(self, turn: Delivery | None) -> str | None:
        """One of the sender's own making stands in the context variables, as the turn's own does."""
        context = trace.get_current_span().get_span_context()
        if not context.is_valid:
            return self._received(incoming.get()) if turn is None else trace_of(turn)
        found = written(context)
        within = None
        if turn is not None:
            within = trace_of(turn)
            if _is_of(turn, found):
                return within
            while isinstance(within, FromOutside):  # the turn has none of its own: a chain would grow with each turn of a ring
                within = within.within
        return FromOutside(found, getattr(found, "state", None), within)

    def _received(self, traceparent: str | None) -> FromOutside | None:
        """What came with a request: the caller says what it is a part of, and not whether it is kept."""
        context = parsed(traceparent)
        if context is None:
            return None
        if self._sampler is not None:
            kept = self._sampler.should_sample(None, context.trace_id, "").decision is Decision.RECORD_AND_SAMPLE
            context = trace.SpanContext(
                context.trace_id, context.span_id, is_remote=True, trace_flags=trace.TraceFlags(trace.TraceFlags.SAMPLED if kept else 0)
            )
        return FromOutside(written(context), state_of(incoming_state.get()))

    def _around(self, came: str | None) -> LiveSpan | None:
        """The span of this system that is around one whose parent is `came`, and has not ended: the parent itself, or the turn in whose handler that was made."""
        inner = came.within if isinstance(came, FromOutside) else came
        # Somebody's own span may be of another trace, of which the turn's is no part.
        return None if inner is None or came is None or inner[:35] != came[:35] else self._open.get(inner)

    # -- turns -----------------------------------------------------------------------------------------------------------------------------------------

    def begin(self, delivery: Delivery) -> None:
        """A span, with the actor's say on it."""
        cell, kernel = delivery.cell, self._kernel
        if kernel.household.owns(cell):
            return
        try:
            postmark = delivery.postmark
            if postmark is None:
                postmark = delivery.postmark = Postmark()
            came = postmark.trace
            if came is not None and (postmark.hints is UNSEEN or (self._sampler is not None and not is_sampled(came))):
                self._begin_quietly(delivery, postmark, came)
                return
            message, cls, security = delivery.message, cell.spec.cls, delivery.context
            label = type(message).__name__
            attributes = {names.PATH: whole(cell.path), names.MESSAGE: label, names.SUBJECT: whole(security.subject)}
            if security.tenant:
                attributes[names.TENANT] = whole(security.tenant)
            span = LiveSpan(self, label, cls._span_kind, came, self._around(came), attributes)
            postmark.span = span
            self._open[span.traceparent or ""] = span
            if postmark.hints is not None:
                span.mark(postmark.hints)
            kernel.context_of(cell).run(otel_context.attach, trace.set_span_in_context(span.otel, self.nothing))
            if cls._span_begins is not None and span.recording:
                cls._span_begins(cell.actor, span, message)
        except Exception:
            if not self._told:
                self._told = True
                _log.exception("%s: the span of a message could not be begun. This is logged once", cell.path)

    def _begin_quietly(self, delivery: Delivery, postmark: Postmark, came: str) -> None:
        """A turn of a trace that is not kept: whoever makes spans in it must find that, and nobody has to find more."""
        postmark.span = QuietSpan(came)
        first = self._open.get(came)
        parent = parsed(came) if first is None else None
        otel = first.otel if first is not None else trace.INVALID_SPAN if parent is None else trace.NonRecordingSpan(parent)
        self._kernel.context_of(delivery.cell).run(otel_context.attach, trace.set_span_in_context(otel, self.nothing))

    def item(self, delivery: Delivery, item: Any) -> None:
        """The actor's say on an item of a stream."""
        self._say(delivery, item)

    def end(self, delivery: Delivery, value: Any, error: BaseException | None) -> None:
        """The end of the span."""
        postmark, cell = delivery.postmark, delivery.cell
        span: LiveSpan | QuietSpan | None = postmark.span if postmark is not None else None
        if span is None or span.ended:
            return
        try:
            if cell.context is not None:
                cell.context.run(otel_context.attach, self.nothing)
        except RuntimeError:  # a thread that was left behind is inside it for good
            pass
        if type(span) is QuietSpan:
            span.ended = True
            return
        assert isinstance(span, LiveSpan)
        if error is None and not delivery.handler.streams:
            self._say(delivery, value)
        self._close_span(span, error)

    def _say(self, delivery: Delivery, value: Any) -> None:
        postmark, cls = delivery.postmark, delivery.cell.spec.cls
        span: TurnSpan | None = postmark.span if postmark is not None else None
        if span is None or cls._span_ends is None or not span.recording:
            return
        try:
            cls._span_ends(delivery.cell.actor, span, delivery.message, value)
        except Exception:
            _log.exception("%s: nothing could be noted of what it returned", delivery.cell.path)

    def _close_span(self, span: LiveSpan, error: BaseException | None) -> None:
        self._open.pop(span.traceparent or "", None)
        try:
            self._ended += span.end(error)
        except Exception as odd:  # an error's own methods are anybody's code, and so may be those of what it raises
            _log.error("a span could not be ended (%s)", type(odd).__name__)

    # -- runs that go on later ---------------------------------------------------------------------------------------------------------------------

    def remember(self, run: str, traceparent: str | None) -> None:
        """A run is parked in that span."""
        if traceparent is not None:
            self._runs[run] = traceparent
            self._runs.move_to_end(run)
            while len(self._runs) > MOST_RUNS:
                self._runs.popitem(last=False)

    def recall(self, run: str) -> str | None:
        """The span in which a run was parked."""
        return self._runs.get(run)

    # -- the end ---------------------------------------------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Ends what is open, and exports what is left."""
        for span in list(self._open.values()):
            self._close_span(span, SystemEnded())
        ways, self._ways = self._ways, ()  # whoever stops it again has nothing to wait for
        if not ways:
            return
        threads = [threading.Thread(target=_shut, args=way, name="retinue traces", daemon=True) for way in ways]
        for thread in threads:
            thread.start()

        def wait() -> None:
            for thread in threads:
                thread.join(FLUSH_TIMEOUT + 1.0)

        await _in_thread(wait)
        for _, watched in ways:
            lost = self._ended - watched.exported
            if lost:
                _log.warning("%d spans of the system %r could not be exported to %s", lost, self._kernel.name, watched.place.name)


class SystemEnded(Exception):
    """What the span of a turn ends with that the end of its system has left behind."""


async def _in_thread(function: Any) -> None:
    """Runs it in a thread that is gone afterwards: trio's own would wait for more work."""
    token, task = trio.lowlevel.current_trio_token(), trio.lowlevel.current_task()

    def work() -> None:
        try:
            function()
        finally:
            token.run_sync_soon(trio.lowlevel.reschedule, task)

    thread = threading.Thread(target=work, name="retinue traces", daemon=True)
    thread.start()
    await trio.lowlevel.wait_task_rescheduled(lambda _: trio.lowlevel.Abort.FAILED)  # bounded: each thread that it waits for is
    thread.join(1.0)


def _shut(processor: BatchSpanProcessor, watched: Watched) -> None:
    try:
        watched.place.hurry(FLUSH_TIMEOUT)
    except Exception:
        _log.exception("%s could not be told to hurry", watched.place.name)
    inner = getattr(
        processor, "_batch_processor", None
    )  # it takes a time-out; OpenTelemetry promises only that of the processor, which has its own
    try:
        if inner is None:
            processor.shutdown()  # type: ignore[no-untyped-call]
        else:
            inner.shutdown(int(FLUSH_TIMEOUT * 1000))
    except Exception:
        _log.exception("the export to %s could not be ended", watched.place.name)


def _is_of(turn: Delivery, traceparent: str) -> bool:
    """Whether it is the turn's own span, or the one that the turn of a task was started in."""
    postmark = turn.postmark
    return postmark is not None and traceparent == (postmark.trace if postmark.span is None else postmark.span.traceparent)
