"""Spans as plain data, for the local exporters: what a row of the table and a line of the file hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opentelemetry.trace import StatusCode

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

__all__ = ["COLUMNS", "row_of"]

COLUMNS = (
    "trace_id", "span_id", "parent_id", "name", "kind", "started_ns", "ended_ns", "status", "status_text", "attributes", "events", "system",
)  # fmt: skip

_STATUS = {StatusCode.UNSET: "unset", StatusCode.OK: "ok", StatusCode.ERROR: "error"}


def row_of(span: ReadableSpan, system: str) -> dict[str, Any]:
    """The span by the names of the columns; attributes and events are plain data, links among the events as "link"."""
    context = span.get_span_context()
    assert context is not None
    events: list[dict[str, Any]] = [
        {"name": event.name, "at_ns": event.timestamp, "attributes": dict(event.attributes or {})} for event in span.events
    ]
    events += [
        {
            "name": "link",
            "at_ns": span.start_time,
            "attributes": {
                **(link.attributes or {}),
                "trace_id": f"{link.context.trace_id:032x}",
                "span_id": f"{link.context.span_id:016x}",
            },
        }
        for link in span.links
    ]
    return {
        "trace_id": f"{context.trace_id:032x}",
        "span_id": f"{context.span_id:016x}",
        "parent_id": f"{span.parent.span_id:016x}" if span.parent is not None else None,
        "name": span.name,
        "kind": span.kind.name.lower(),
        "started_ns": span.start_time,
        "ended_ns": span.end_time,
        "status": _STATUS[span.status.status_code],
        "status_text": span.status.description or "",
        "attributes": dict(span.attributes or {}),
        "events": events,
        "system": system,
    }
