"""A run as plain data, for JSON. What is not known is null."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from retinue.viewing.summary import Line, Summary
from retinue.viewing.trees import Node, walked
from retinue.viewing.words import title

__all__ = ["data_of", "lines_data", "span_data", "summary_data"]


def summary_data(summary: Summary, states: Mapping[str, str] | None = None) -> dict[str, Any]:
    """A run in short. `tokens` and `cost_micro_usd` are null where nothing is known of them, and at least so much where `…_complete` is false.

    Args:
        summary: The run.
        states: What has become of requests for consent, by their ids.
    """
    root = summary.root
    return {
        "trace": summary.trace.trace_id,
        "short": summary.trace.short,
        "what": title(summary),
        "kind": root.kind if root is not None else None,
        "path": root.text("retinue.path") or None if root is not None else None,
        "subject": root.text("retinue.subject") or None if root is not None else None,
        "status": summary.status,
        "error": root.error or None if root is not None else None,
        "started_ns": summary.started_ns,
        "duration_ns": summary.duration_ns,
        "spans": len(summary.trace.spans) + summary.trace.left_out,
        "errors": summary.errors,
        "agent_runs": summary.agents.calls,
        "model_calls": summary.models.calls,
        "tool_calls": summary.tools.calls,
        "messages": summary.messages,
        **_amounts(summary.models),
        "approvals": [
            {"request": one.request, "span": one.span_id, "resumed": one.resumed, "state": (states or {}).get(one.request)}
            for one in summary.approvals
        ],
        "handoffs": [
            {"source": one.source, "target": one.target, "reason": one.reason, "span": one.span_id, "at_ns": one.at_ns}
            for one in summary.handoffs
        ],
    }


def lines_data(summary: Summary) -> dict[str, Any]:
    """What each model, agent and tool adds to."""
    groups = {"by_model": summary.by_model, "by_agent": summary.by_agent, "by_tool": summary.by_tool}
    return {
        name: [{"name": line.name, "calls": line.calls, "errors": line.errors, "ns": line.ns, **_used(name, line)} for line in lines]
        for name, lines in groups.items()
    }


def span_data(node: Node) -> dict[str, Any]:
    """A span in its place."""
    span = node.span
    return {
        "span": span.span_id,
        "parent": span.parent_id or None,
        "depth": node.depth,
        "session": node.session or None,
        "name": span.name,
        "kind": span.kind,
        "started_ns": span.started_ns,
        "ended_ns": span.ended_ns,
        "status": span.status,
        "status_text": span.status_text,
        "system": span.system,
        "attributes": dict(span.attributes),
        "events": [{"name": event.name, "at_ns": event.at_ns, "attributes": dict(event.attributes)} for event in span.events],
        "notes": list(node.notes),
    }


def data_of(summary: Summary, states: Mapping[str, str] | None = None) -> dict[str, Any]:
    """All of a run: in short, and its spans, each before those that it caused."""
    return {**summary_data(summary, states), **lines_data(summary), "tree": [span_data(node) for node in walked(summary.roots)]}


def _used(group: str, line: Line) -> dict[str, Any]:
    if group == "by_tool":
        return {}
    return {"model_calls": line.model_calls, **_amounts(line)} if group == "by_agent" else _amounts(line)


def _amounts(line: Line) -> dict[str, Any]:
    return {
        "input_tokens": line.input_tokens if line.tokens_known else None,
        "output_tokens": line.output_tokens if line.tokens_known else None,
        "tokens_complete": not line.tokens_unknown,
        "cost_micro_usd": line.cost if line.cost_known else None,
        "cost_complete": not line.cost_unknown,
    }
