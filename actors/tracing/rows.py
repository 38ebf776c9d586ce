"""Spans as plain data, for the local exporters: what a row of the table and a line of the file hold."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from opentelemetry.trace import StatusCode

from retinue.security.whole_texts import whole

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

__all__ = ["COLUMNS", "json_text", "made", "row_of"]

_T = TypeVar("_T")

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
        "name": _text(span.name),
        "kind": span.kind.name.lower(),
        "started_ns": _moment(span.start_time),
        "ended_ns": _moment(span.end_time),
        "status": _STATUS[span.status.status_code],
        "status_text": _text(span.status.description),
        "attributes": dict(span.attributes or {}),
        "events": events,
        "system": system,
    }


def made(spans: Sequence[ReadableSpan], make: Callable[[ReadableSpan], _T]) -> list[_T]:
    """What is made of each. One that nothing can be made of is left out, for OpenTelemetry lets anything through, and the others are other people's."""
    found = []
    for span in spans:
        try:
            found.append(make(span))
        except Exception:  # noqa: S112 - the caller counts
            continue
    return found


_encoded: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode  # json.dumps would make an encoder for each


def json_text(value: Any) -> str:
    """The value as JSON text, without half characters. What JSON does not know, such as bytes or an infinite number, only says what it is."""
    try:
        return whole(_encoded(value))
    except (TypeError, ValueError, RecursionError):
        return whole(_encoded(_mended(value, 8)))


def _mended(value: Any, levels: int) -> Any:
    if value is None or type(value) in (bool, int, str):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(float(value))
    if isinstance(value, Mapping) and levels:
        return {_text(key): _mended(each, levels - 1) for key, each in value.items()}
    if isinstance(value, list | tuple) and levels:
        return [_mended(each, levels - 1) for each in value]
    return str.__str__(value) if isinstance(value, str) else f"[{type(value).__name__}]"


def _text(value: object) -> str:
    return whole(str.__str__(value)) if isinstance(value, str) else "" if value is None else f"[{type(value).__name__}]"


def _moment(value: object) -> int:
    return value if type(value) is int and 0 <= value < 2**63 else 0
