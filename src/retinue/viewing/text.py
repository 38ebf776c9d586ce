"""A run as text: a tree whose lines have bars of time, so that what went on at once is seen at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from retinue.security.visible import columns, is_seen
from retinue.viewing.spans import Span, texts_of
from retinue.viewing.summary import HANDOFF, PARKED, REQUESTS, RESUMED, Line, Summary
from retinue.viewing.trees import Node
from retinue.viewing.words import cost, counted, length, moment, status_words, title, tokens

__all__ = ["NARROWEST", "details_of", "harmless", "shown"]

NARROWEST: Final = 60
"""Columns at least that the text is made for."""

_MOST_LABEL: Final = 60
_TIME: Final = 9  # columns of a length of time
_MOST_ITEMS: Final = 20  # hand-overs, models, tools and agents that the head lists


_FORK: Final = "├─ "
_LAST: Final = "└─ "
_BESIDE: Final = "│  "
_NOTHING: Final = "   "
_DEEPEST: Final = 60
"""Characters of the lines before a name that are drawn; what is deeper stands no further to the right."""


def shown(
    summary: Summary, width: int, *, most: int = 0, states: Mapping[str, str] | None = None, others: Sequence[str] = ()
) -> Iterator[str]:
    """The lines.

    Args:
        summary: The run.
        width: Columns of the terminal.
        most: Spans that are shown at most; 0 for all.
        states: What has become of requests for consent, by their ids.
        others: Other traces that the same run of an agent is in.
    """
    width = max(width, NARROWEST)
    yield from _head(summary, states or {})
    if others:
        yield f"  goes on, or began, in {', '.join(map(harmless, others))}"
    yield ""
    labels = list(_labels(summary.roots))
    chosen = labels[:most] if most else labels
    room = min(max((columns(label) for label, _, _ in chosen), default=0), max(24, min(_MOST_LABEL, width * 2 // 5)))
    bar = max(10, min(40, width - room - _TIME - 26))
    for label, indent, node in chosen:
        span = node.span
        yield f"{_fitted(label, room)} {length(span.duration_ns):>{_TIME}}  {_bar(span, summary, bar)}  {details_of(node)}".rstrip()
        for note in _notes(node):
            yield f"{indent}{note}"
    if len(chosen) < len(labels):
        yield f"… {counted(len(labels) - len(chosen), 'more span')}"
    if summary.trace.left_out:
        yield f"… {counted(summary.trace.left_out, 'more span')} that {'was' if summary.trace.left_out == 1 else 'were'} not read"


def _head(summary: Summary, states: Mapping[str, str]) -> Iterator[str]:
    yield f"run {harmless(summary.trace.trace_id)}"
    yield f"{harmless(title(summary))}: {status_words(summary, states)}, {moment(summary.started_ns)} UTC, {length(summary.duration_ns)}"
    root = summary.root
    whose = [f"{what} {harmless(text)}" for what, text in _whose(root)] if root is not None else []
    if whose:
        yield ", ".join(whose)
    parts = [
        counted(summary.agents.calls, "agent run"),
        counted(summary.models.calls, "model call"),
        counted(summary.tools.calls, "tool call"),
        counted(summary.messages, "message"),
        counted(summary.errors, "error"),
    ]
    yield ", ".join(parts)
    if summary.models.calls:
        yield f"tokens {tokens(summary.models)}, cost {cost(summary.models)}"
    for what, lines in (("model", summary.by_model), ("agent", summary.by_agent), ("tool", summary.by_tool)):
        for line in lines[:_MOST_ITEMS]:
            yield f"  {what} {harmless(line.name)}: {_line(line)}"
        if len(lines) > _MOST_ITEMS:
            yield f"  … {counted(len(lines) - _MOST_ITEMS, f'more {what}')}"
    for handoff in summary.handoffs[:_MOST_ITEMS]:
        why = f": {harmless(handoff.reason)}" if handoff.reason else ""
        yield f"  handed over: {harmless(handoff.source)} → {harmless(handoff.target)}{why}"
    if len(summary.handoffs) > _MOST_ITEMS:
        yield f"  … {counted(len(summary.handoffs) - _MOST_ITEMS, 'more hand-over')}"
    for approval in summary.approvals:
        state = states.get(approval.request) or ("the run went on with it" if approval.resumed else "the run waited for it")
        yield f"  consent {harmless(approval.request)}: {state}"


def _whose(root: Span) -> Iterator[tuple[str, str]]:
    for what, name in (
        ("by", "retinue.subject"),
        ("tenant", "retinue.tenant"),
        ("session", "gen_ai.conversation.id"),
        ("at", "retinue.path"),
    ):
        text = root.text(name)
        if text:
            yield what, text


def _line(line: Line) -> str:
    parts = [counted(line.calls, "call"), length(line.ns)]
    if line.model_calls:
        parts += [f"tokens {tokens(line)}", f"cost {cost(line)}"]
    if line.errors:
        parts.append(counted(line.errors, "error"))
    return ", ".join(parts)


def _labels(roots: Sequence[Node]) -> Iterator[tuple[str, str, Node]]:
    """Each node with its label, and with what stands before a further line of it."""
    waiting: list[tuple[Node, str, str]] = [(node, "", "") for node in reversed(roots)]
    while waiting:
        node, before, beneath = waiting.pop()
        yield before + harmless(node.span.name), beneath + (_BESIDE if node.children else _NOTHING), node
        last = len(node.children) - 1
        for number in range(last, -1, -1):
            fork, further = (_LAST, _NOTHING) if number == last else (_FORK, _BESIDE)
            waiting.append((node.children[number], beneath + fork, (beneath + further)[-_DEEPEST:]))


def _fitted(text: str, room: int) -> str:
    """The text in exactly so many columns. A deep indent is cut, rather than the name at its end."""
    size = columns(text)
    if size <= room:
        return text + " " * (room - size)
    name = text.lstrip("│├└─|`- ")
    indent = text[: len(text) - len(name)]
    indent = indent if len(indent) <= room // 2 else "…" + indent[len(indent) - room // 2 + 1 :]
    left = room - len(indent) - 1
    kept = ""
    for character in name:
        left -= columns(character)
        if left < 0:
            break
        kept += character
    cut = kept == name
    fitted = indent + kept + ("" if cut else "…")
    return fitted + " " * max(0, room - columns(fitted))


def _bar(span: Span, summary: Summary, cells: int) -> str:
    """Where in the run's time the span lies."""
    whole = max(1, summary.duration_ns or 1)
    begin = min(max(0, span.started_ns - summary.started_ns), whole)
    end = whole if span.ended_ns is None else min(max(begin, span.ended_ns - summary.started_ns), whole)
    first = min(cells - 1, begin * cells // whole)
    count = round((end - begin) * cells / whole)
    drawn = "█" * min(count, cells - first) if count else "▏"
    return (" " * first + drawn).ljust(cells)


RESULT: Final = "gen_ai.tool.call.result"

LONGEST_SESSION: Final = 100
"""Characters that are shown of a session's name."""

LONGEST: Final = 300
"""Characters that are shown of a tool's error."""


def details_of(node: Node) -> str:
    """What a span's line says of it beside its name and time: what a model used up; in which session an agent ran, where that is another than that of the run around it."""
    span = node.span
    if span.kind != "model":
        return f"session {harmless(node.session[:LONGEST_SESSION])}" if node.session else ""
    line = Line("")
    line.add(span)
    return f"{tokens(line)} tokens, {cost(line)}"


def _notes(node: Node) -> Iterator[str]:
    span = node.span
    if span.failed:
        said = "" if span.status_text else span.text(RESULT)  # what a tool has said stands in its result alone, where contents are recorded
        yield f"✗ {harmless(span.error)}{f': {harmless(said[:LONGEST])}' if said else ''}"
    if span.ended_ns is None:
        yield "(no end)"
    for event in span.events:
        of = event.attributes
        if event.name == HANDOFF:
            yield f"· hands over: {harmless(str(of.get(f'{HANDOFF}.source', '')))} → {harmless(str(of.get(f'{HANDOFF}.target', '')))}"
        elif event.name in (PARKED, RESUMED):
            told = "waits for consent" if event.name == PARKED else "goes on with consent"
            yield f"· {told}: {', '.join(map(harmless, texts_of(of.get(REQUESTS))))}"
    for note in node.notes:
        yield f"({note})"


def harmless(text: str) -> str:
    """A text of the file in one line, in which nothing writes on the terminal: what is not seen is an escape."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(one if is_seen(one) else one.encode("unicode_escape").decode("ascii") for one in text)
