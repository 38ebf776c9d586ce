"""Files of recorded runs, written by hand after the schema that the recorder keeps to."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

FILE = "traces.sqlite3"
BEGIN = 1_800_000_000_000_000_000  # 2027-01-15 08:00:00 UTC
MS = 1_000_000

TABLE = """CREATE TABLE spans(trace_id TEXT, span_id TEXT, parent_id TEXT, name TEXT, kind TEXT, started_ns INTEGER, ended_ns INTEGER, status TEXT,
status_text TEXT, attributes TEXT, events TEXT, system TEXT, PRIMARY KEY(trace_id, span_id))"""

OPERATIONS = {"agent": "invoke_agent", "model": "chat", "tool": "execute_tool"}


class Spans:
    """A file, written span by span; times are milliseconds after BEGIN."""

    def __init__(self, folder: Path, *, version: int = 1) -> None:
        folder.mkdir(exist_ok=True, parents=True)
        self.path = folder / FILE
        self.connection = sqlite3.connect(self.path)
        self.connection.execute("PRAGMA journal_mode = WAL")
        self.connection.execute(f"PRAGMA user_version = {version}")
        self.connection.execute(TABLE)
        self.count = 0

    def add(
        self,
        name: str,
        begin: float,
        end: float | None,
        *,
        trace: str = "a" * 32,
        span: str | None = None,
        parent: str | None = None,
        kind: str = "message",
        status: str = "ok",
        text: str = "",
        attributes: Mapping[str, Any] | None = None,
        events: Sequence[tuple[str, float, Mapping[str, Any]]] = (),
        raw: Mapping[str, Any] | None = None,
    ) -> str:
        """Adds a span and returns its id. `raw` overrides columns as they are stored."""
        self.count += 1
        span = span or f"{self.count:016x}"
        given = dict(attributes or {})
        if kind in OPERATIONS:
            given["gen_ai.operation.name"] = OPERATIONS[kind]
        row = {
            "trace_id": trace,
            "span_id": span,
            "parent_id": parent,
            "name": name,
            "kind": "internal",
            "started_ns": BEGIN + int(begin * MS),
            "ended_ns": None if end is None else BEGIN + int(end * MS),
            "status": status,
            "status_text": text,
            "attributes": json.dumps(given),
            "events": json.dumps([{"name": what, "at_ns": BEGIN + int(at * MS), "attributes": more} for what, at, more in events]),
            "system": "main",
            **(raw or {}),
        }
        self.connection.execute(f"INSERT INTO spans VALUES ({', '.join('?' * len(row))})", tuple(row.values()))
        return span

    def close(self) -> None:
        self.connection.commit()
        self.connection.close()


def model(
    spans: Spans, begin: float, end: float, parent: str, *, tokens: tuple[int, int] | None = (100, 20), cost: int | None = 250, **more: Any
) -> str:
    """A call of a model."""
    attributes: dict[str, Any] = {"gen_ai.request.model": "gpt-4.1", "gen_ai.provider.name": "openai", **more.pop("attributes", {})}
    if tokens is not None:
        attributes |= {"gen_ai.usage.input_tokens": tokens[0], "gen_ai.usage.output_tokens": tokens[1]}
    if cost is not None:
        attributes["retinue.cost_micro_usd"] = cost
    return spans.add("chat gpt-4.1", begin, end, parent=parent, kind="model", attributes=attributes, **more)


def team(spans: Spans, trace: str = "a" * 32, at: float = 0) -> str:
    """A team: a writer and a critic at once, a tool that fails, a hand-over. Returns the id of the span that it begins with."""
    top = spans.add(
        "invoke_agent team", at, at + 4000, trace=trace, kind="agent",
        attributes={"gen_ai.agent.name": "team", "retinue.subject": "ada", "retinue.path": "/user/team", "gen_ai.conversation.id": "0"},
        events=[("retinue.handoff", at + 2100, {"retinue.handoff.source": "writer", "retinue.handoff.target": "critic", "retinue.handoff.reason": "done"})],
    )  # fmt: skip
    writer = spans.add(
        "invoke_agent writer", at + 10, at + 2100, trace=trace, parent=top, kind="agent", attributes={"gen_ai.agent.name": "writer"}
    )
    model(spans, at + 20, at + 1200, writer, trace=trace, tokens=(812, 120), cost=3000)
    spans.add(
        "execute_tool search", at + 1210, at + 2000, trace=trace, parent=writer, kind="tool", status="error", text="no answer in time",
        attributes={"gen_ai.tool.name": "search", "error.type": "timeout"},
    )  # fmt: skip
    critic = spans.add(
        "invoke_agent critic", at + 500, at + 3900, trace=trace, parent=top, kind="agent", attributes={"gen_ai.agent.name": "critic"}
    )
    model(spans, at + 600, at + 3800, critic, trace=trace, tokens=(400, 80), cost=1200)
    return top


ODD_ROWS: dict[str, dict[str, Any]] = {
    "no-json": {"attributes": "{nope", "events": "[1"},
    "other-json": {"attributes": "[1]", "events": '{"a": 1}'},
    "deep-json": {"attributes": "[" * 100_000, "events": "[" * 100_000},
    "odd-events": {"events": '[1, {"name": 5, "at_ns": "x", "attributes": 7}, {}]'},
    "nulls": dict.fromkeys(
        ("parent_id", "name", "kind", "started_ns", "ended_ns", "status", "status_text", "attributes", "events", "system")
    ),
    "numbers": dict.fromkeys(("parent_id", "name", "kind", "status", "status_text", "attributes", "events", "system"), 7),
    "blobs": dict.fromkeys(
        ("parent_id", "name", "kind", "started_ns", "ended_ns", "status", "status_text", "attributes", "events"), b"\xff\x00"
    ),
    "not-utf-8": {"name": sqlite3.Binary(b"\xff\xfe")},
    "times": {"started_ns": -5, "ended_ns": 2**62},
    "infinite-times": {"started_ns": float("inf"), "ended_ns": "soon"},
    "backwards": {"started_ns": BEGIN + 10, "ended_ns": BEGIN},
    "not-a-number": {"attributes": '{"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": NaN, "retinue.cost_micro_usd": -1e999}'},
    "odd-operation": {"attributes": '{"gen_ai.operation.name": {"a": [1]}}'},
    "half-characters": {"attributes": '{"gen_ai.agent.name": "\\ud83d", "a": "\\ude00"}', "name": "a"},
}
"""Columns as no recorder writes them, by what is odd."""


def odd_row(folder: Path, name: str) -> None:
    """A file with a run of eight spans, one of which is odd."""
    spans = Spans(folder)
    top = team(spans)
    spans.add("odd", 5, 6, parent=top, raw=ODD_ROWS[name])
    model(spans, 7, 8, top)
    spans.close()
