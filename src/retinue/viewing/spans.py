"""What a recorded run is made of. The file may be anybody's, and half written: whatever stands in a row becomes a span, and what is odd is noted."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, Final, Literal

import attrs

__all__ = ["COLUMNS", "MOST_ATTRIBUTE_CHARACTERS", "Kind", "Span", "SpanEvent", "span_of_row", "texts_of"]

Kind = Literal["agent", "model", "tool", "message"]

COLUMNS: Final = (
    "trace_id",
    "span_id",
    "parent_id",
    "name",
    "started_ns",
    "ended_ns",
    "status",
    "status_text",
    "attributes",
    "events",
    "system",
)
"""The columns of the table `spans` that are read, in this order."""

MOST_ATTRIBUTE_CHARACTERS: Final = 4_000_000
"""Characters of one span's attributes, and of its events, that are read; longer ones are left out, and that is noted."""

DEEPEST: Final = 100
"""Levels of a span's attributes, or of its events, that are read."""

_KINDS: Final[Mapping[str, Kind]] = {
    "invoke_agent": "agent",
    "create_agent": "agent",
    "invoke_workflow": "agent",
    "chat": "model",
    "text_completion": "model",
    "generate_content": "model",
    "embeddings": "model",
    "execute_tool": "tool",
}
"""The operation's name, after OpenTelemetry's conventions for generative AI, and what it is here."""

_STATUSES: Final = frozenset({"unset", "ok", "error"})


@attrs.frozen
class SpanEvent:
    """Something that happened within a span.

    Attributes:
        name: What.
        at_ns: When, in nanoseconds since 1970.
        attributes: More about it.
    """

    name: str
    at_ns: int
    attributes: Mapping[str, Any]


@attrs.frozen
class Span:
    """One thing that took time: a message in an actor, a run of an agent, a call of a model or of a tool.

    Attributes:
        trace_id: The whole that it belongs to.
        span_id: Its own id.
        parent_id: The span that caused it; "" where nothing did.
        name: What it is, for people.
        kind: "agent", "model", "tool", or "message" for anything else.
        started_ns: Nanoseconds since 1970.
        ended_ns: The same, or None where it is not known to have ended.
        status: "unset", "ok" or "error".
        status_text: What is said of the status.
        attributes: More about it.
        events: What happened within, in order.
        system: The actor system.
        notes: What is odd about the row.
    """

    trace_id: str
    span_id: str
    parent_id: str
    name: str
    kind: Kind
    started_ns: int
    ended_ns: int | None
    status: str
    status_text: str
    attributes: Mapping[str, Any]
    events: tuple[SpanEvent, ...]
    system: str
    notes: tuple[str, ...] = ()

    @property
    def duration_ns(self) -> int | None:
        """Nanoseconds that it took, never below 0; None where it is not known to have ended."""
        return None if self.ended_ns is None else max(0, self.ended_ns - self.started_ns)

    @property
    def failed(self) -> bool:
        """Whether it ended with an error."""
        return self.status == "error"

    @property
    def error(self) -> str:
        """What the error is: its type, and what is said of it; "" where it did not fail."""
        if not self.failed:
            return ""
        return ": ".join(part for part in (self.text("error.type"), self.status_text) if part) or "error"

    def text(self, name: str) -> str:
        """An attribute that is a text, else ""."""
        value = self.attributes.get(name)
        return value if isinstance(value, str) else ""

    def number(self, name: str) -> int | None:
        """An attribute that is a whole number of 0 or more, and none that no endpoint takes, else None."""
        value = self.attributes.get(name)
        return value if type(value) is int and 0 <= value < 2**63 else None

    def texts(self, name: str) -> tuple[str, ...]:
        """An attribute that is a list of texts, or one text; else ()."""
        return texts_of(self.attributes.get(name))


def texts_of(value: Any) -> tuple[str, ...]:
    """A list of texts, or one text, as a tuple; () for anything else."""
    if isinstance(value, str):
        return (value,) if value else ()
    return tuple(one for one in value if isinstance(one, str)) if isinstance(value, list) else ()


def span_of_row(row: tuple[Any, ...]) -> Span:
    """The span of a row with the columns of `COLUMNS`. Never raises: what a column must not hold is left out, and noted."""
    trace_id, span_id, parent_id, name, started, ended, status, status_text, attributes, events, system = row
    notes: list[str] = []
    began = _time(started)
    if began is None:
        notes.append("no time of its start")
    until = _time(ended)
    if until is not None and began is not None and until < began:
        notes.append("ends before it starts: a clock was set back")
    found = _object(attributes, notes)
    operation = found.get("gen_ai.operation.name")
    kind: Kind = _KINDS.get(operation, "message") if isinstance(operation, str) else "message"
    return Span(
        trace_id=_text(trace_id),
        span_id=_text(span_id),
        parent_id=_text(parent_id),
        name=_text(name) or "(no name)",
        kind=kind,
        started_ns=began if began is not None else until or 0,
        ended_ns=until,
        status=status if isinstance(status, str) and status in _STATUSES else "unset",
        status_text=_text(status_text),
        attributes=found,
        events=_events(events, notes),
        system=_text(system),
        notes=tuple(notes),
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)


def _time(value: Any) -> int | None:
    """Nanoseconds, where they are some that a clock shows; 0 is none."""
    if type(value) is float and math.isfinite(value):
        value = int(value)
    return value if type(value) is int and 0 < value < 2**63 else None


def _read(text: Any, what: str, notes: list[str]) -> Any:
    if text is None or text == "":
        return None
    if not isinstance(text, str):
        return text
    try:
        found = json.loads(text, parse_constant=str, parse_float=_finite)
    except (ValueError, RecursionError):
        notes.append(f"its {what} cannot be read")
        return None
    if text.count("[") + text.count("{") > DEEPEST and not _is_flat(found):
        notes.append(f"its {what} are left out: nested deeper than {DEEPEST} levels")
        return None
    return found


def _finite(text: str) -> float | str:
    """A number, or its text where it is beyond any."""
    value = float(text)
    return value if math.isfinite(value) else text


def _is_flat(value: Any) -> bool:
    level = [value]
    for _ in range(DEEPEST):
        level = [each for one in level if isinstance(one, dict | list) for each in (one.values() if isinstance(one, dict) else one)]
        if not level:
            return True
    return False


def _object(text: Any, notes: list[str]) -> Mapping[str, Any]:
    if text == "too large":
        notes.append(f"its attributes are left out: more than {MOST_ATTRIBUTE_CHARACTERS:,} characters")
        return {}
    found = _read(text, "attributes", notes)
    if found is not None and not isinstance(found, dict):
        notes.append("its attributes cannot be read")
        return {}
    return found or {}


def _events(text: Any, notes: list[str]) -> tuple[SpanEvent, ...]:
    if text == "too large":
        notes.append(f"its events are left out: more than {MOST_ATTRIBUTE_CHARACTERS:,} characters")
        return ()
    found = _read(text, "events", notes)
    if found is not None and not isinstance(found, list):
        notes.append("its events cannot be read")
        return ()
    events = [
        SpanEvent(_text(one.get("name")) or "(no name)", _time(one.get("at_ns")) or 0, _dict(one.get("attributes")))
        for one in found or ()
        if isinstance(one, dict)
    ]
    return tuple(sorted(events, key=lambda event: event.at_ns))


def _dict(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
