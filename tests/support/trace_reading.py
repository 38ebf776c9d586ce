"""Reading the spans that a system has exported."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import attrs

__all__ = ["Span", "one", "read_spans", "tree_of"]


@attrs.frozen
class Span:
    """A row of the table of spans."""

    trace: str
    id: str
    parent: str | None
    name: str
    kind: str
    started: int
    ended: int
    status: str
    status_text: str
    attributes: dict[str, Any]
    events: list[dict[str, Any]]
    system: str

    def __getitem__(self, key: str) -> Any:
        return self.attributes[key]

    def events_named(self, name: str) -> list[dict[str, Any]]:
        return [event["attributes"] for event in self.events if event["name"] == name]


def read_spans(place: Path) -> list[Span]:
    """All spans of the file, or of `traces.sqlite3` in the folder, in the order in which they began."""
    path = place / "traces.sqlite3" if place.is_dir() else place
    connection = sqlite3.connect(path)
    try:
        rows = connection.execute(
            "SELECT trace_id, span_id, parent_id, name, kind, started_ns, ended_ns, status, status_text, attributes, events, system FROM spans ORDER BY started_ns"
        ).fetchall()
    finally:
        connection.close()
    return [Span(*row[:9], json.loads(row[9]), json.loads(row[10]), row[11]) for row in rows]


def one(spans: list[Span], name: str) -> Span:
    """The one span of that name."""
    found = [span for span in spans if span.name == name]
    assert len(found) == 1, (name, [span.name for span in spans])
    return found[0]


def tree_of(spans: list[Span]) -> Any:
    """The spans' names as nested lists, `[name, child, …]`, children by their names; one list for each root. A span whose parent is missing is a root named "lost NAME"."""
    ids = {span.id for span in spans}
    children: dict[str | None, list[Span]] = {}
    for span in spans:
        children.setdefault(span.parent, []).append(span)

    def drawn(span: Span) -> Any:
        below = sorted((drawn(child) for child in children.get(span.id, ())), key=str)
        return [span.name, *below] if below else span.name

    lost = [span for span in spans if span.parent is not None and span.parent not in ids]
    return sorted([*map(drawn, children.get(None, ())), *(f"lost {span.name}" for span in lost)], key=str)
