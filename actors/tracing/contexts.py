"""The contexts of spans as they travel: a W3C `traceparent` in a postmark, with the `tracestate` that belongs to it."""

from __future__ import annotations

import re
from typing import Final, Self

from opentelemetry.trace import SpanContext, TraceFlags, TraceState

from retinue.actors.runtime.tracing import MOST_STATE

__all__ = ["FromOutside", "Stated", "is_sampled", "parsed", "state_of", "state_text", "written"]

MOST_MEMBERS: Final = 32
"""Members of a `tracestate`, by its definition."""

_TRACEPARENT: Final = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})", re.ASCII)
_MEMBER: Final = re.compile(
    r"([a-z][a-z0-9_*/-]{0,255}|[a-z0-9][a-z0-9_*/-]{0,240}@[a-z][a-z0-9_*/-]{0,13})=([\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e])"
)


class Stated(str):
    """A `traceparent` with its `tracestate`.

    Attributes:
        state: The `tracestate`; None for none.
    """

    __slots__ = ("state",)

    state: TraceState | None

    def __new__(cls, traceparent: str, state: TraceState | None = None) -> Self:
        """The two together, as a text that is the first."""
        made = super().__new__(cls, traceparent)
        made.state = state
        return made


class FromOutside(Stated):
    """That of a span that is none of a turn's: a caller's in another process, or one that somebody here has made himself.

    Attributes:
        within: The span of the turn that somebody here has made it in; None for none.
    """

    __slots__ = ("within",)

    within: str | None

    def __new__(cls, traceparent: str, state: TraceState | None = None, within: str | None = None) -> Self:
        """As its base, and where it was made."""
        made = super().__new__(cls, traceparent, state)
        made.within = within
        return made


def parsed(traceparent: str | None) -> SpanContext | None:
    """The context of a W3C `traceparent`, with the state that belongs to it; None for what is none."""
    match = _TRACEPARENT.fullmatch(traceparent) if traceparent is not None else None
    if match is None:
        return None
    state = traceparent.state if isinstance(traceparent, Stated) else None
    context = SpanContext(
        int(match[1], 16), int(match[2], 16), is_remote=True, trace_flags=TraceFlags(int(match[3], 16)), trace_state=state
    )
    return context if context.is_valid else None


def written(context: SpanContext) -> str:
    """The context as a W3C `traceparent`, with its state where it has one that is not too long."""
    text = f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"
    state = context.trace_state
    return Stated(text, state) if state and len(state.to_header()) <= MOST_STATE else text


def state_text(traceparent: str) -> str | None:
    """The `tracestate` that belongs to it; None for none."""
    state = traceparent.state if isinstance(traceparent, Stated) else None
    return None if state is None else state.to_header()


def is_sampled(traceparent: str) -> bool:
    """Whether a trace is kept, by what `written` has written."""
    return bool(int(traceparent[-2:], 16) & TraceFlags.SAMPLED)


def state_of(tracestate: str | None) -> TraceState | None:
    """What a W3C `tracestate` says; None for none, for one that is malformed, has a key twice, or is longer than 512 characters: half of a list may mean something else."""
    if not tracestate or len(tracestate) > MOST_STATE:
        return None
    found: dict[str, str] = {}
    for part in tracestate.split(","):
        member = part.strip(" \t")
        if not member:
            continue  # that may be
        match = _MEMBER.fullmatch(member)
        if match is None or match[1] in found:
            return None
        found[match[1]] = match[2]
    return TraceState(list(found.items())) if 0 < len(found) <= MOST_MEMBERS else None
