"""A run as one web page that needs nothing else: no network, no font, no other file.

Whatever a run recorded may be anybody's words, and none of it is ever HTML: texts that Python writes are escaped, everything else lies as JSON in a block that no
browser executes, and the script puts it into the page as text alone. Beyond that, the page's own policy lets nothing run or load but this one script and this one
style, each named by its hash.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Any, Final

from retinue.security.visible import is_seen
from retinue.viewing.summary import Line, Summary
from retinue.viewing.text import details_of
from retinue.viewing.trees import Node, walked
from retinue.viewing.words import UNKNOWN, cost, length, moment, pending, status_words, title, tokens

__all__ = ["MOST_CHARACTERS", "MOST_TEXT", "page_of"]

MOST_TEXT: Final = 20_000
"""Characters of one text of a span that the page has; `retinue show RUN --json` has all of them."""

MOST_CHARACTERS: Final = 32_000_000
"""Characters of all such texts together; beyond them a text has `FEW` at most."""

FEW: Final = 200

MOST_TITLE: Final = 300
"""Characters of the run's name in the page's head."""

_KINDS: Final = ("agent", "model", "tool", "message")
_WORDS: Final = ("Agents", "Models", "Tools", "Messages")
_LETTERS: Final = ("A", "M", "T", "·")
_MOST_LINES: Final = 200  # lines of a table


def page_of(summary: Summary, states: Mapping[str, str] | None = None, others: Sequence[str] = ()) -> str:
    """The page's HTML.

    Args:
        summary: The run.
        states: What has become of requests for consent, by their ids.
        others: Other traces that the same run of an agent is in.
    """
    style, script = (files("retinue.viewing").joinpath(name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    policy = f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; base-uri 'none'; form-action 'none'"
    return "".join(
        [
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n',
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n<meta name="referrer" content="no-referrer">\n',
            f"<title>{_text(title(summary)[:MOST_TITLE])} · run {_text(summary.trace.short)}</title>\n<style>{style}</style>\n</head>\n<body>\n",
            *_head(summary, states or {}, others),
            *_sums(summary, states or {}),
            _tools(summary),
            _BODY,
            f'<script type="application/json" id="data">{_json(_data(summary))}</script>\n<script>{script}</script>\n</body>\n</html>\n',
        ]
    )


_BODY: Final = """<div id="map"><div id="mapbox"><canvas id="graph" role="img" aria-label="How much went on at once"></canvas></div><div id="hint"></div><div id="axis"></div></div>
<main id="list"><noscript><p class="empty">The tree needs JavaScript, which is switched off here. `retinue show RUN` prints it in a terminal.</p></noscript>
<div id="rows" role="tree" tabindex="0" aria-label="What happened"></div><p class="empty" id="none" hidden></p></main>
<aside id="side" hidden aria-label="About the one that is chosen"></aside>
<footer>Keys: ↑ ↓ choose, ← → fold, Enter shows all of it, / searches, Esc closes. Nothing of this page comes from or goes to a network.</footer>
"""


def _hash(content: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}"


def _text(value: str) -> str:
    """A text of the file as HTML, in which what is not seen is an escape."""
    seen = "".join(one if is_seen(one) else one.encode("unicode_escape").decode("ascii") for one in value)
    return html.escape(seen)


def _json(value: Any) -> str:
    """JSON that ends no element and begins none. Half characters, which no encoding has, become the sign for an unknown one."""
    written = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    written = written.encode("utf-8", "replace").decode("utf-8")
    return (
        written.replace("<", "\\u003c")
        .replace(">", "\\u003e")
        .replace("&", "\\u0026")
        .replace("\u2028", "\\u2028")
        .replace("\u2029", "\\u2029")
    )


# -- what is written as HTML


def _head(summary: Summary, states: Mapping[str, str], others: Sequence[str]) -> Iterator[str]:
    root = summary.root
    about = [f"{moment(summary.started_ns)} UTC", f"run <code>{_text(summary.trace.trace_id)}</code>"]
    for what, name in (
        ("by", "retinue.subject"),
        ("tenant", "retinue.tenant"),
        ("session", "gen_ai.conversation.id"),
        ("at", "retinue.path"),
    ):
        text = root.text(name) if root is not None else ""
        if text:
            about.append(f"{what} <code>{_text(text)}</code>")
    if others:
        about.append(f"goes on, or began, in {', '.join(f'<code>{_text(other)}</code>' for other in others)}")
    yield f'<header>\n<div class="top"><div><h1>{_text(title(summary)[:MOST_TITLE])}</h1>\n'
    yield f'<p class="about"><span class="badge {summary.status}">{status_words(summary, states)}</span>{" · ".join(about)}</p></div>\n'
    yield '<button id="theme" aria-label="light or dark" title="light or dark">◐</button></div>\n'
    if root is not None and root.error:
        yield f'<p class="trouble">✗ {_text(root.error[:2_000])}</p>\n'
    if summary.trace.left_out:
        yield f'<p class="trouble">The run has {summary.trace.left_out:,} more spans, which were not read.</p>\n'
    models = summary.models
    cards = [
        (length(summary.duration_ns), "took", ""),
        (f"{models.calls:,}", "model calls", ""),
        (tokens(models) if models.calls else "0", "tokens, in → out", ""),
        (cost(models) if models.calls else "$0", "cost" if models.cost_known else "cost, not known", ""),
        (f"{summary.tools.calls:,}", "tool calls", ""),
        (f"{len(summary.trace.spans):,}", "spans", ""),
        (f"{summary.errors:,}", "errors", "bad" if summary.errors else ""),
    ]
    yield '<ul class="cards">'
    yield from (f'<li class="{mood}"><b>{value}</b><span>{what}</span></li>' for value, what, mood in cards)
    yield "</ul>\n</header>\n"


def _sums(summary: Summary, states: Mapping[str, str]) -> Iterator[str]:
    """Tables: models, agents, tools, hand-overs, requests for consent."""
    tables = [
        _table(
            ("model", "calls", "tokens", "cost", "time", "errors"),
            (_used(line) for line in summary.by_model),
        ),
        _table(("agent", "runs", "tokens", "cost", "time", "errors"), (_used(line) for line in summary.by_agent)),
        _table(("tool", "calls", "time", "errors"), map(_line, summary.by_tool)),
    ]
    handoffs = [[*_linked(one.span_id, f"{one.source} → {one.target}"), _text(one.reason)] for one in summary.handoffs]
    consents = [
        [*_linked(one.span_id, one.request), _text(states.get(one.request) or ("went on with it" if one.resumed else "waited for it"))]
        for one in summary.approvals
    ]
    tables += [_plain(("handed over", "why"), handoffs), _plain(("consent", ""), consents)]
    found = [table for table in tables if table]
    if found:
        # Open where something of it is asked of the reader.
        state = " open" if summary.status == "waits" and pending(summary, states) else ""
        yield f'<details class="sums" id="toggle-sums"{state}><summary>Models, agents, tools, hand-overs</summary><div class="tables">{"".join(found)}</div></details>\n'
    else:
        yield '<details class="sums" id="toggle-sums" hidden></details>\n'


def _line(line: Line) -> tuple[str, ...]:
    return line.name, f"{line.calls:,}", length(line.ns), f"{line.errors:,}"


def _used(line: Line) -> tuple[str, ...]:
    """The same with what its own model calls took."""
    name, calls, *others = _line(line)
    return name, calls, *((tokens(line), cost(line)) if line.model_calls else ("", "")), *others


def _table(head: Sequence[str], lines: Iterable[tuple[str, ...]]) -> str:
    rows = [[_text(cell) for cell in line] for line in lines]
    return _plain(head, rows, numbers=True)


def _plain(head: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: bool = False) -> str:
    """A table of cells that are HTML already."""
    if not rows:
        return ""
    kinds = ["", *(' class="n"' if numbers else "" for _ in head[1:])]
    top = "".join(f"<th{kind}>{name}</th>" for name, kind in zip(head, kinds, strict=True))
    body = "".join(
        "<tr>" + "".join(f"<td{kind}>{cell}</td>" for cell, kind in zip(row, kinds, strict=True)) + "</tr>" for row in rows[:_MOST_LINES]
    )
    more = f'<p class="about">and {len(rows) - _MOST_LINES:,} more</p>' if len(rows) > _MOST_LINES else ""
    return f'<div class="scroll"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>{more}</div>'


def _linked(span_id: str, words: str) -> list[str]:
    return [f'<button class="link" data-span="{_text(span_id)}">{_text(words)}</button>']


def _tools(summary: Summary) -> str:
    counts = (summary.agents.calls, summary.models.calls, summary.tools.calls, summary.messages)
    chips = "".join(
        f'<button class="chip" data-kind="{kind}" aria-pressed="true" title="{word}" aria-label="{word}, {count:,}"><span class="dot k{kind}">{letter}</span>'
        f'<span class="word">{word}</span> {count:,}</button>'
        for kind, (word, letter, count) in enumerate(zip(_WORDS, _LETTERS, counts, strict=True))
        if count
    )
    errors = f'<button id="only" aria-pressed="false"{"" if summary.errors else " hidden"}>✗ Errors</button>'
    return (
        '<div class="bar" id="bar"><input id="find" type="search" placeholder="Search" aria-label="Search" autocomplete="off" spellcheck="false" maxlength="200">'
        f'{chips}{errors}<button id="unfold" title="unfold all" aria-label="unfold all">▾<span class="word"> Unfold</span></button><button id="fold" title="fold all" aria-label="fold all">▸<span class="word"> Fold</span></button><span id="found" role="status"></span></div>\n'
    )


# -- what the script shows


def _data(summary: Summary) -> dict[str, Any]:
    room = _Room()
    return {
        "began": summary.started_ns / 1e6,
        "duration": (summary.duration_ns or 0) / 1e6,
        "spans": [_span(node, summary.started_ns, room) for node in walked(summary.roots)],
    }


def _span(node: Node, began_ns: int, room: _Room) -> dict[str, Any]:
    span = node.span
    details = details_of(node)
    return {
        "i": room.text(span.span_id),
        "d": node.depth,
        "n": room.text(span.name),
        "k": _KINDS.index(span.kind),
        "s": (span.started_ns - began_ns) / 1e6,
        "e": None if span.ended_ns is None else (span.ended_ns - began_ns) / 1e6,
        "u": span.status,
        "x": room.text(span.error),
        "t": "" if details == f"{UNKNOWN} tokens, {UNKNOWN}" else details,
        "a": room.of(dict(span.attributes)),
        "v": [
            {"n": room.text(event.name), "t": (event.at_ns - began_ns) / 1e6, "a": room.of(dict(event.attributes))} for event in span.events
        ],
        "o": list(node.notes),
        "y": room.text(span.system),
    }


class _Room:
    """What is left of the page's size."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = MOST_CHARACTERS

    def text(self, value: str) -> str:
        most = MOST_TEXT if self.left > 0 else FEW
        self.left -= min(len(value), most)
        if len(value) <= most:
            return value
        return f"{value[:most]}… ({len(value) - most:,} more characters: retinue show RUN --json)"

    def of(self, value: Any) -> Any:
        """Plain data with its texts cut, and with what is nested deeper than a few levels as one text."""
        return self._of(value, 0)

    def _of(self, value: Any, depth: int) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, float) and (value != value or abs(value) == float("inf")):  # noqa: PLR0124 - what JSON has no sign for
            return str(value)
        if isinstance(value, dict | list):
            if depth >= 6:
                return self.text(json.dumps(value, ensure_ascii=False))
            if isinstance(value, list):
                return [self._of(one, depth + 1) for one in value]
            return {self.text(str(name)): self._of(one, depth + 1) for name, one in value.items()}
        self.left -= 8
        return value if value is None or type(value) in (bool, float) or (type(value) is int and abs(value) < 2**53) else str(value)
