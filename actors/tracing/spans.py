"""The spans of turns, over OpenTelemetry's."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from opentelemetry import trace
from opentelemetry.trace import NonRecordingSpan, SpanKind, Status, StatusCode

from retinue.actors.runtime.tracing import TurnSpan
from retinue.actors.tracing import names
from retinue.actors.tracing.contexts import FromOutside, parsed, state_text, written
from retinue.security.errors import ApprovalRequired
from retinue.security.redaction import redact
from retinue.security.secret_shapes import REDACTED, hide_secrets, is_secret_name
from retinue.security.whole_texts import whole

if TYPE_CHECKING:
    from retinue.actors.tracing.tracer import OpenTelemetryTracer

__all__ = ["LiveSpan", "QuietSpan"]

_WORD: Final = re.compile(r"[\w.:/@+-]{1,128}", re.ASCII)
_KINDS: Final = {"internal": SpanKind.INTERNAL, "client": SpanKind.CLIENT}

MOST_TEXT: Final = 2_000
"""Characters of one attribute."""

MOST_AMOUNT: Final = 2**63 - 1
"""The largest number that an endpoint takes."""

MOST_CONTENT: Final = 2**19
"""Characters of what was said in one message; of more only the length is exported."""

MOST_ENTRIES: Final = 64
"""Messages of one conversation that are exported: its first, and the newest."""

MOST_OF_ENTRIES: Final = 2**17
"""Characters of them together, about."""


class LiveSpan(TurnSpan):
    """The span of one turn, from its beginning to its end.

    Attributes:
        around: The span that it is a child of, where that is one of this system's and has not ended.
        ended: Whether the turn is over.
        sums: Whether it adds up what the spans within it say: an agent's does.
        otel: OpenTelemetry's own span.
    """

    __slots__ = (
        "_aside", "_counted", "_failed", "_given", "_incoming", "_tracer", "around", "ended", "otel", "recording", "sums", "traceparent",
        "tracestate",
    )  # fmt: skip

    recording: bool
    traceparent: str | None
    tracestate: str | None

    def __init__(
        self, tracer: OpenTelemetryTracer, name: str, kind: str, incoming: str | None, around: LiveSpan | None, attributes: dict[str, Any]
    ) -> None:
        self._tracer = tracer
        self._incoming = incoming
        self._aside = self._given = self.ended = self.sums = False
        self._failed: str | None = None
        self._counted: dict[str, int] = {}
        self.around = around
        parent = parsed(incoming)
        if parent is not None and type(incoming) is FromOutside:
            attributes[names.PARENT] = "remote"
        context = trace.set_span_in_context(NonRecordingSpan(parent), tracer.nothing) if parent is not None else tracer.nothing
        self.otel = tracer.otel.start_span(name, context, _KINDS[kind], attributes)
        self.recording = self.otel.is_recording()
        self.traceparent = found = written(self.otel.get_span_context())
        self.tracestate = state_text(found)

    # -- what handlers say ---------------------------------------------------------------------------------------------------------------------------

    def rename(self, name: str) -> None:
        """Another name."""
        if self.recording and isinstance(name, str):
            self.otel.update_name(whole(hide_secrets(name[:200])))

    def set(self, key: str, value: Any) -> None:
        """An attribute."""
        if self.recording and (plain := _attribute(key, value)) is not None:
            self.otel.set_attribute(_key(key), plain)

    def event(self, name: str, attributes: Mapping[str, Any] | None = None, contents: Mapping[str, Any] | None = None) -> None:
        """An event."""
        if self.recording:
            found = {_key(key): plain for key, value in (attributes or {}).items() if (plain := _attribute(key, value)) is not None}
            if contents and self._tracer.contents:
                found.update({_key(key): _said(key, value) for key, value in contents.items()})
            self.otel.add_event(_key(name), found)

    def content(self, key: str, value: Any) -> None:
        """What somebody said."""
        if not self.recording or not self._tracer.contents:
            return
        self.otel.set_attribute(_key(key), _said(key, value))

    def link(self, traceparent: str | None) -> None:
        """A link."""
        found = parsed(traceparent)
        if self.recording and found is not None:
            self.otel.add_link(found)

    # -- what the stock actors say -------------------------------------------------------------------------------------------------------------------

    def mark(self, attributes: Mapping[str, Any]) -> None:
        """Attributes as they are. What comes from a model or an endpoint and is no plain word is left out, for it may be anything."""
        if not self.recording:
            return
        if attributes.get(names.OPERATION) == "invoke_agent":
            self.sums = True
        for key, value in attributes.items():
            if value is None or (key in _WORDS and not _all_words(value)):
                continue
            self.otel.set_attribute(key, whole(value) if isinstance(value, str) else value)

    def count(self, attributes: Mapping[str, int | None]) -> None:
        """Amounts."""
        self._add(attributes)
        span = self.around
        while span is not None:
            if span.sums and not span.ended:
                span._add(attributes)
            span = span.around

    def _add(self, attributes: Mapping[str, int | None]) -> None:
        if not self.recording:
            return
        for key, amount in attributes.items():
            if amount is not None:
                self._counted[key] = total = min(self._counted.get(key, 0) + amount, MOST_AMOUNT)
                self.otel.set_attribute(key, total)

    def fail(self, error_type: str) -> None:
        """An error that was returned."""
        self._failed = error_type

    def remember(self, run: str) -> None:
        """A run that goes on elsewhere."""
        self._tracer.remember(run, self.traceparent)

    def resumes(self, run: str) -> None:
        """A run that goes on here."""
        self.link(self._tracer.recall(run))

    # -- where it stands -----------------------------------------------------------------------------------------------------------------------------

    def step_aside(self) -> None:
        """Unless something was sent in it already, for then it has children."""
        if not self._given:
            self._aside = True

    def handed(self) -> str | None:
        """What children are children of."""
        if self._aside:
            return self._incoming
        self._given = True
        return self.traceparent

    def end(self, error: BaseException | None) -> bool:
        """The turn has ended. What has stepped aside, and did not fail, never was. Whether there is one more span now."""
        if self.ended:
            return False
        self.ended = True
        if self._aside and error is None:
            return False
        if self.recording:
            failed = self._failed
            if error is not None and failed is None:
                failed = self._tell_error(error)
            if failed is not None:
                self.otel.set_attribute(names.ERROR_TYPE, failed)
                text = _text_of(error) if error is not None and self._tracer.contents else None
                self.otel.set_status(Status(StatusCode.ERROR, text))
        self.otel.end(time.time_ns())
        return self.recording

    def _tell_error(self, error: BaseException) -> str | None:
        """The type of an error, or None for one that is none: a person is asked, and the run goes on later."""
        if not issubclass(type(error), ApprovalRequired):  # by its type alone: what an error says of itself may be anything
            return whole(str.__str__(type(error).__qualname__)[:200])
        run = error.run  # type: ignore[attr-defined]
        ids = [request.id for request in error.requests]  # type: ignore[attr-defined]
        said = {names.APPROVAL_REQUESTS: ids, **({names.RUN: run} if run is not None else {})}
        self.otel.add_event(names.PARKED, said)
        self.mark(said)
        if run is not None:
            self.remember(run)
        return None


class QuietSpan(TurnSpan):
    """That of a turn in a trace that is not kept: nothing is made of it. The span that it would be a child of stands in its place.

    Attributes:
        ended: Whether the turn is over.
    """

    __slots__ = ("ended", "traceparent", "tracestate")

    traceparent: str | None
    tracestate: str | None

    def __init__(self, incoming: str) -> None:
        self.ended = False
        self.traceparent = incoming
        self.tracestate = state_text(incoming)

    def handed(self) -> str | None:
        """What children are children of."""
        return self.traceparent


_WORDS: Final = frozenset({names.CALL_ID, names.RESPONSE_MODEL, names.FINISH_REASONS})
"""Attributes whose values come from outside."""


def _text_of(error: BaseException) -> str:
    try:
        return whole(hide_secrets(str(error)[: MOST_TEXT * 2])[:MOST_TEXT])  # a tool may raise with all of its output
    except Exception:
        return "(its text cannot be had)"


def _all_words(value: Any) -> bool:
    return all(
        isinstance(each, str) and _WORD.fullmatch(each) is not None and hide_secrets(each) == each
        for each in (value if isinstance(value, list | tuple) else (value,))
    )


def _attribute(key: object, value: Any) -> Any:
    """The value as an attribute may be, None for none; secrets are left out, by name and by shape."""
    if value is None:
        return None
    if is_secret_name(str(key)):
        return REDACTED
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value) if -(2**63) <= value < 2**63 else f"[int of {value.bit_length()} bits]"  # more, no endpoint takes
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(float(value))  # JSON knows no others
    if isinstance(value, str):
        return whole(hide_secrets(str(value)[: MOST_TEXT * 2])[:MOST_TEXT])
    if isinstance(value, list | tuple) and value and all(type(each) is type(value[0]) for each in value):
        plain = [_attribute("", each) for each in value[:100]]
        return plain if len({type(each) for each in plain}) == 1 else [str(each) for each in plain]
    return f"[{type(value).__name__}]"


def _key(key: object) -> str:
    return whole(hide_secrets(str(key)[:200]))


def _said(key: str, value: Any) -> str:
    """What somebody said, as it may be exported: redacted, and not without end."""
    if key == names.INPUT_MESSAGES and type(value) is list:
        return _conversation(value)
    shown = REDACTED if is_secret_name(key) else redact(value)
    text = shown if isinstance(shown, str) else json.dumps(shown, ensure_ascii=False, default=str)
    return whole(text) if len(text) <= MOST_CONTENT else f"[{len(text)} characters]"  # no half of a JSON text


def _conversation(entries: list[Any]) -> str:
    """The first entry, which is the instructions as a rule, and the newest: what was asked just now is what a reader looks for."""
    first, rest = entries[:1], entries[1:]
    found = [_entry(each) for each in first]
    size = sum(map(len, found))
    newest: list[str] = []
    for each in rest[:-MOST_ENTRIES:-1]:
        text = _entry(each)
        size += len(text)
        if newest and size > MOST_OF_ENTRIES:
            break
        newest.append(text)
    left_out = len(rest) - len(newest)
    if left_out:
        found.append(_entry({"role": "omitted", "parts": [{"type": "text", "content": f"… {left_out} messages between are left out"}]}))
    return whole(f"[{', '.join([*found, *reversed(newest)])}]")


def _entry(value: Any) -> str:
    text = json.dumps(redact(value), ensure_ascii=False, default=str)
    return text if len(text) <= MOST_CONTENT else json.dumps(f"[{len(text)} characters]")
