"""A run's spans as a tree, whatever is missing of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import attrs

from retinue.viewing.spans import Span

__all__ = ["SKEW_NS", "Node", "grown", "walked"]

SKEW_NS: Final = 1_000_000
"""Nanoseconds that a span may start before the one that caused it without a word: clocks are read one after the other."""


@attrs.frozen(eq=False)
class Node:
    """A span in its place.

    Attributes:
        span: The span.
        depth: How many are above it.
        children: Those that it caused, by the time of their start.
        notes: What is odd about it, or its place.
        session: Of an agent's run, its session, where that is another than that of the run around it; else "".
    """

    span: Span
    depth: int
    children: list[Node]
    notes: tuple[str, ...]
    session: str = ""


def grown(spans: Sequence[Span]) -> list[Node]:
    """The tree's roots, by the time of their start; in a whole tree there is one.

    A span whose parent is not there (it has not ended yet, or was lost) stands as a root. So does the first of a ring of spans that claim to have caused one another.
    """
    by_id: dict[str, Span] = {}
    for span in spans:
        by_id.setdefault(span.span_id, span)
    caused: dict[str, list[Span]] = {}
    tops: list[Span] = []
    for span in by_id.values():
        if span.parent_id and span.parent_id in by_id and span.parent_id != span.span_id:
            caused.setdefault(span.parent_id, []).append(span)
        else:
            tops.append(span)
    seen: set[str] = set()
    roots = [_plant(span, caused, by_id, seen) for span in sorted(tops, key=_order)]
    if len(seen) < len(by_id):  # rings: nothing above them is a top
        rings = sorted((span for span in by_id.values() if span.span_id not in seen), key=_order)
        roots += [_plant(span, caused, by_id, seen) for span in rings if span.span_id not in seen]
        roots.sort(key=lambda node: _order(node.span))
    return roots


def _plant(top: Span, caused: dict[str, list[Span]], by_id: dict[str, Span], seen: set[str]) -> Node:
    root = Node(top, 0, [], _notes(top, by_id, top=True))
    seen.add(top.span_id)
    waiting = [(root, _session(top))]
    while waiting:  # not recursive: a chain may be as long as the run
        node, around = waiting.pop()
        for span in sorted(caused.get(node.span.span_id, ()), key=_order):
            if span.span_id not in seen:
                seen.add(span.span_id)
                session = _session(span)
                other = session if around and session != around else ""
                child = Node(span, node.depth + 1, [], _notes(span, by_id, top=False), other)
                node.children.append(child)
                waiting.append((child, session or around))
    return root


def _session(span: Span) -> str:
    return span.text("gen_ai.conversation.id") if span.kind == "agent" else ""


def _order(span: Span) -> tuple[int, str]:
    return span.started_ns, span.span_id


def _notes(span: Span, by_id: dict[str, Span], *, top: bool) -> tuple[str, ...]:
    notes = list(span.notes)
    parent = by_id.get(span.parent_id) if span.parent_id else None
    if top and span.parent_id:
        notes.append(
            "the span above it is not in the file: it has not ended yet, or was lost"
            if parent is None
            else "it is its own cause: the file is odd"
        )
    elif parent is not None and parent.started_ns - span.started_ns > SKEW_NS:
        early = (parent.started_ns - span.started_ns) / 1e6
        notes.append(f"starts {early:,.0f} ms before the span above it: their clocks differ")
    return tuple(notes)


def walked(roots: Sequence[Node]) -> Iterator[Node]:
    """Every node, each before its children."""
    waiting = list(reversed(roots))
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(reversed(node.children))
