"""What a run adds up to: model calls, tools, tokens, cost, errors, approvals, hand-overs. What is not known is never 0."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal

import attrs

from retinue.viewing.reading import Trace
from retinue.viewing.spans import Span, texts_of
from retinue.viewing.trees import Node, grown, walked

__all__ = ["HANDOFF", "PARKED", "REQUESTS", "RESUMED", "Approval", "Handoff", "Line", "Status", "Summary", "summed"]

Status = Literal["ok", "error", "waits", "unfinished"]

PARKED: Final = "retinue.approval.parked"
RESUMED: Final = "retinue.approval.resumed"
HANDOFF: Final = "retinue.handoff"
REQUESTS: Final = "retinue.approval.requests"

_REMOTE: Final = "retinue.parent"
_MOST_NAMES: Final = 1_000
"""Models, agents and tools that have lines of their own; more are one line."""


@attrs.define
class Line:
    """What one model, agent or tool adds to.

    Attributes:
        name: Its name.
        calls: How often.
        errors: How many of them failed.
        ns: Nanoseconds, added up.
        model_calls: The calls of models that tokens and cost are of: a model's own; an agent's are those that nobody further within has made.
        input_tokens: Those known.
        output_tokens: Those known.
        tokens_unknown: Model calls whose tokens are not known.
        cost: Millionths of a dollar, as far as known.
        cost_unknown: Model calls whose cost is not known.
    """

    name: str
    calls: int = 0
    errors: int = 0
    ns: int = 0
    model_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    tokens_unknown: int = 0
    cost: int = 0
    cost_unknown: int = 0

    def add(self, span: Span) -> None:
        """Counts a span."""
        self.calls += 1
        self.errors += span.failed
        self.ns += span.duration_ns or 0
        if span.kind == "model":
            self.add_use(span)

    def add_use(self, span: Span) -> None:
        """Counts what a model call used up."""
        self.model_calls += 1
        used, said = span.number("gen_ai.usage.input_tokens"), span.number("gen_ai.usage.output_tokens")
        self.input_tokens += used or 0
        self.output_tokens += said or 0
        self.tokens_unknown += used is None and said is None
        cost = span.number("retinue.cost_micro_usd")
        self.cost += cost or 0
        self.cost_unknown += cost is None

    @property
    def tokens_known(self) -> bool:
        """Whether the tokens of any call are known, or there was no call."""
        return self.tokens_unknown < self.model_calls or not self.model_calls

    @property
    def cost_known(self) -> bool:
        """Whether the cost of any call is known, or there was no call."""
        return self.cost_unknown < self.model_calls or not self.model_calls


@attrs.frozen
class Approval:
    """A request for a person's consent that the run waited for.

    Attributes:
        request: Its id.
        span_id: Where.
        resumed: Whether the run went on with it, in this very trace.
    """

    request: str
    span_id: str
    resumed: bool


@attrs.frozen
class Handoff:
    """A hand-over from one agent to another.

    Attributes:
        source: Who gave.
        target: Who was given.
        reason: Why, as the model said; "" where that was not recorded.
        span_id: Where.
        at_ns: When.
    """

    source: str
    target: str
    reason: str
    span_id: str
    at_ns: int


@attrs.frozen
class Summary:
    """A run in short.

    Attributes:
        trace: The run.
        roots: Its tree.
        root: The span that all began with, as far as it is there; None for a run without spans.
        status: "ok", "error", "waits" (for a person's consent) or "unfinished" (it goes on, or was broken off).
        started_ns: Nanoseconds since 1970.
        ended_ns: The end of what ended last; None where nothing has.
        models: All model calls together.
        tools: All calls of tools together.
        messages: Spans that are none of these, nor runs of an agent.
        agents: Runs of agents together.
        errors: Spans that failed.
        by_model: A line for each model.
        by_tool: A line for each tool.
        by_agent: A line for each agent, with what the model calls took that it made itself: each is one agent's.
        approvals: What was waited for, in order.
        handoffs: Hand-overs, in order.
        runs: Ids of runs of agents that were parked or resumed.
    """

    trace: Trace
    roots: tuple[Node, ...]
    root: Span | None
    status: Status
    started_ns: int
    ended_ns: int | None
    models: Line
    tools: Line
    messages: int
    agents: Line
    errors: int
    by_model: tuple[Line, ...]
    by_tool: tuple[Line, ...]
    by_agent: tuple[Line, ...]
    approvals: tuple[Approval, ...]
    handoffs: tuple[Handoff, ...]
    runs: tuple[str, ...]

    @property
    def duration_ns(self) -> int | None:
        """From the first start to the last end; None where nothing has ended."""
        return None if self.ended_ns is None else max(0, self.ended_ns - self.started_ns)

    @property
    def waiting(self) -> tuple[str, ...]:
        """The requests that the run still waited for at its end, as the trace has it."""
        return tuple(one.request for one in self.approvals if not one.resumed)


def summed(trace: Trace) -> Summary:
    """The run in short."""
    roots = grown(trace.spans)
    nodes = list(walked(roots))
    spans = [node.span for node in nodes]
    root = _root(roots)
    lines: dict[str, dict[str, Line]] = {"model": {}, "tool": {}, "agent": {}}
    total = {kind: Line(kind) for kind in lines}
    around: list[Line | None] = []  # by depth, the agent in whose run a span is
    for node in nodes:
        span = node.span
        del around[node.depth :]
        agent = around[-1] if around else None
        if span.kind in lines:
            total[span.kind].add(span)
            line = _line(lines[span.kind], _name(span))
            line.add(span)
            if span.kind == "agent":
                agent = line
            elif span.kind == "model" and agent is not None:
                agent.add_use(span)
        around.append(agent)
    approvals = tuple(_approvals(spans))
    ends = [span.ended_ns for span in spans if span.ended_ns is not None]
    return Summary(
        trace=trace,
        roots=tuple(roots),
        root=root,
        status=_status(roots, root, approvals),
        started_ns=min((span.started_ns for span in spans), default=0),
        ended_ns=max(ends, default=None),
        models=total["model"],
        tools=total["tool"],
        messages=sum(span.kind == "message" for span in spans),
        agents=total["agent"],
        errors=sum(span.failed for span in spans),
        by_model=_sorted(lines["model"]),
        by_tool=_sorted(lines["tool"]),
        by_agent=_sorted(lines["agent"]),
        approvals=approvals,
        handoffs=tuple(_handoffs(spans)),
        runs=_runs(spans),
    )


def _root(roots: Sequence[Node]) -> Span | None:
    whole = [node.span for node in roots if _is_top(node.span)]
    return whole[0] if whole else roots[0].span if roots else None


def _is_top(span: Span) -> bool:
    """Whether nothing of ours is above it."""
    return not span.parent_id or span.text(_REMOTE) == "remote"


def _status(roots: Sequence[Node], root: Span | None, approvals: Iterable[Approval]) -> Status:
    if root is None or root.ended_ns is None or not _is_top(root):
        return "unfinished"
    tops = [node.span for node in roots if _is_top(node.span)]
    failed = [span for span in tops if span.failed]
    if any(not one.resumed for one in approvals) and all(span.text("error.type").endswith("ApprovalRequired") for span in failed):
        return "waits"
    return "error" if failed else "ok"


def _name(span: Span) -> str:
    keys = {"model": ("gen_ai.response.model", "gen_ai.request.model"), "tool": ("gen_ai.tool.name",), "agent": ("gen_ai.agent.name",)}
    return next((text for key in keys[span.kind] if (text := span.text(key))), span.name)


def _line(lines: dict[str, Line], name: str) -> Line:
    if name not in lines and len(lines) >= _MOST_NAMES:
        name = "(others)"
    return lines.setdefault(name, Line(name))


def _sorted(lines: dict[str, Line]) -> tuple[Line, ...]:
    return tuple(sorted(lines.values(), key=lambda line: (-line.ns, line.name)))


def _approvals(spans: Iterable[Span]) -> Iterable[Approval]:
    """Each request once, at the innermost span that tells of it; the same request is told of on its way up."""
    parked: dict[str, Span] = {}
    resumed: set[str] = set()
    for span in spans:
        for event in span.events:
            if event.name == RESUMED:
                resumed.update(texts_of(event.attributes.get(REQUESTS)))
            elif event.name == PARKED:
                parked.update(dict.fromkeys(texts_of(event.attributes.get(REQUESTS)), span))
        parked.update(dict.fromkeys(span.texts(REQUESTS), span))
    for request, span in parked.items():
        yield Approval(request, span.span_id, request in resumed)


def _handoffs(spans: Sequence[Span]) -> list[Handoff]:
    """Each hand-over once, in order: who gives tells of it, and so does the team around."""
    above = {span.span_id: span.parent_id for span in spans}
    found: list[Handoff] = []
    for span in spans:
        for event in span.events:
            if event.name == HANDOFF:
                source, target, reason = (_text(event.attributes.get(f"{HANDOFF}.{part}")) for part in ("source", "target", "reason"))
                found.append(Handoff(source, target, reason, span.span_id, event.at_ns))
    found.sort(key=lambda one: one.at_ns)
    kept: list[Handoff] = []
    for one in found:
        last = kept[-1] if kept else None
        if last is None or (one.source, one.target) != (last.source, last.target) or not _is_within(last.span_id, one.span_id, above):
            kept.append(one)
        elif not last.reason:
            kept[-1] = one
    return kept


def _is_within(span_id: str, around: str, above: Mapping[str, str]) -> bool:
    """Whether a span is somewhere below another one."""
    seen = {span_id}
    while span_id := above.get(span_id, ""):
        if span_id == around:
            return True
        if span_id in seen:  # a ring
            return False
        seen.add(span_id)
    return False


def _runs(spans: Iterable[Span]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for span in spans:
        for text in (span.text("retinue.run"), *(_text(event.attributes.get("retinue.run")) for event in span.events)):
            if text:
                found[text] = None
    return tuple(found)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
