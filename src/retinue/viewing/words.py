"""Times, lengths and amounts as words. What is not known is a question mark, and what is known in part says so."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from retinue.viewing.summary import Line, Summary

__all__ = ["STATUSES", "UNKNOWN", "cost", "counted", "dollars", "length", "moment", "pending", "status_words", "title", "tokens"]

UNKNOWN: Final = "?"


def moment(ns: int) -> str:
    """A time in UTC, to the second; "?" for one that no calendar reaches."""
    try:
        return datetime.fromtimestamp(ns // 10**9, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, ValueError, OSError):
        return UNKNOWN


def length(ns: int | None) -> str:
    """A length of time: "870 µs", "4.2 ms", "1.25 s", "3 m 07 s", "2 h 05 m"; "?" where it is not known."""
    if ns is None:
        return UNKNOWN
    if ns < 999_500:
        return f"{ns / 1e3:.0f} µs"
    if ns < 999_500_000:
        return f"{ns / 1e6:.3g} ms"
    if ns < 59_995_000_000:
        return f"{ns / 1e9:.3g} s"
    seconds = round(ns / 1e9)
    if seconds < 3600:
        return f"{seconds // 60} m {seconds % 60:02} s"
    minutes = seconds // 60
    return f"{minutes // 60:,} h {minutes % 60:02} m"


def dollars(micro: int) -> str:
    """An amount in millionths of a dollar: "$0", "$0.0042", "$1.25"."""
    if micro == 0:
        return "$0"
    amount = micro / 1e6
    return f"${amount:,.2f}" if amount >= 1 else f"${amount:.6f}".rstrip("0")


def cost(line: Line) -> str:
    """What model calls cost: "?" where nothing is known of it, "≥ $…" where a part is."""
    if not line.cost_known:
        return UNKNOWN
    return f"≥ {dollars(line.cost)}" if line.cost_unknown else dollars(line.cost)


def tokens(line: Line) -> str:
    """What went into models and what came out: "812 → 120"; "?" where nothing is known of it."""
    if not line.tokens_known:
        return UNKNOWN
    return f"{'≥ ' if line.tokens_unknown else ''}{line.input_tokens:,} → {line.output_tokens:,}"


def counted(number: int, what: str) -> str:
    """A number with its noun."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


STATUSES: Final = {
    "ok": "ok",
    "error": "failed",
    "waits": "waits for consent",
    "unfinished": "not ended: it goes on, or was broken off",
}
"""What a run's status is for people."""


def status_words(summary: Summary, states: Mapping[str, str]) -> str:
    """What has become of a run, for people.

    Args:
        summary: The run.
        states: What has become of requests for consent, by their ids.
    """
    if summary.status == "waits" and not pending(summary, states):
        return "waited for consent, and was given up" if given_up(summary, states) else "waited for consent, which was decided"
    return STATUSES[summary.status]


def pending(summary: Summary, states: Mapping[str, str]) -> tuple[str, ...]:
    """The requests that a run waits for still, as far as is known."""
    return tuple(one for one in summary.waiting if states.get(one, "pending") == "pending")


def given_up(summary: Summary, states: Mapping[str, str]) -> bool:
    """Whether a run waited for consent that nobody gave or refused: it was given up, or its process has ended, and all that it had asked was taken back or lapsed."""
    return bool(summary.waiting) and all(states.get(one) in ("cancelled", "expired") for one in summary.waiting)


def title(summary: Summary) -> str:
    """What a run is: the name of the span that it began with."""
    return summary.root.name if summary.root is not None else "(nothing)"
