"""A second authority, in the fewest words: what contexts, grants, budgets and labels come to, written down once more without the framework's own sets.

A `Warrant` is everything that was ever demanded on the way to a message or an actor: a list of wants, each a predicate of its own. It permits what each of them
permits. Nothing here is interned, remembered or normalised, and nothing reads a permission set of the framework.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import attrs

import retinue as rt

ABSENT = object()
"""Stands for an argument that is not there."""

RISKS = {"fs.read": None, "fs.write": "L2", "web.get": "L0", "mem.put": "L3"}
"""The operations of the machine, each with its rating."""


def _number(value: object) -> bool:
    return type(value) in (int, float)


WORDS: dict[str, tuple[Any, Callable[[Any], bool]]] = {
    "at most 2": (rt.at_most(2), lambda value: _number(value) and value <= 2),
    "a or b": (rt.one_of("a", "b"), lambda value: type(value) is str and value in {"a", "b"}),
    "1 or True": (rt.one_of(1, True), lambda value: type(value) in (int, bool) and value == 1),
    "a number": (rt.at_least(0), lambda value: _number(value) and value >= 0),
    "left out": (rt.absent(), lambda value: value is ABSENT or value is None),
    "left out or a": (
        rt.any_of(rt.absent(), rt.one_of("a")),
        lambda value: value is ABSENT or value is None or (type(value) is str and value == "a"),
    ),
}
"""Constraints by name, each with its meaning written down a second time."""


def named(pattern: str, operation: str) -> bool:
    """Whether the pattern names the operation."""
    want, have = pattern.split("."), operation.split(".")
    if want[-1] == "**":
        want, have = want[:-1], have[: len(want) - 1] if len(have) >= len(want) else [""]
    return len(want) == len(have) and all(one in ("*", other) for one, other in zip(want, have, strict=True))


@attrs.frozen(eq=False)
class Want:
    """One demand, as somebody typed it.

    Attributes:
        kind: "allow", "where", "deny", "ask", "unlabelled", "label", "calls", "depth", "expires" or "risk".
        patterns: What it names.
        condition: Words of `WORDS` by argument; None without.
        is_open: Of an "allow": unnamed arguments may be there.
        labels: Of "label" and "unlabelled".
        number: Of the limits: calls, levels, seconds, or a risk level.
    """

    kind: str
    patterns: tuple[str, ...] = ()
    condition: tuple[tuple[str, str], ...] | None = None
    is_open: bool = False
    labels: frozenset[str] = frozenset()
    number: int = 0

    def restriction(self) -> Any:
        """The same for the framework."""
        constraints = None if self.condition is None else {name: WORDS[word][0] for name, word in self.condition}
        match self.kind:
            case "allow":
                return rt.allow(*self.patterns, open=self.is_open, arguments=constraints)
            case "where":
                return rt.where(*self.patterns, arguments=constraints)
            case "deny":
                return rt.deny(*self.patterns)
            case "ask":
                return rt.needs_approval(*self.patterns, unless=constraints)
            case "unlabelled":
                return rt.unlabelled(*self.patterns, labels=sorted(self.labels))
            case "label":
                return rt.label(*sorted(self.labels))
            case "calls":
                return rt.limit(calls=self.number)
            case "depth":
                return rt.limit(depth=self.number)
            case "expires":
                return rt.expires(seconds=self.number)
            case "risk":
                return rt.max_risk(("L0", "L1", "L2", "L3")[self.number])
        raise AssertionError(self.kind)

    def verdict(self, operation: str, arguments: Mapping[str, Any], labels: frozenset[str]) -> str:
        """ "allow", "ask" or "deny": what this demand alone says of a call."""
        concerned = any(named(pattern, operation) for pattern in self.patterns)
        holds = self.condition is None or all(WORDS[word][1](arguments.get(name, ABSENT)) for name, word in self.condition)
        match self.kind:
            case "allow":
                listed = {name for name, _ in self.condition or ()}
                closed = self.condition is not None and not self.is_open
                extra = closed and any(value is not None and name not in listed for name, value in arguments.items())
                return "allow" if concerned and holds and not extra else "deny"
            case "where":
                return "allow" if holds or not concerned else "deny"
            case "deny":
                return "deny" if concerned else "allow"
            case "unlabelled":
                return "deny" if concerned and labels & self.labels else "allow"
            case "ask":
                return "ask" if concerned and (self.condition is None or not holds) else "allow"
        return "allow"

    def forbids(self, operation: str) -> bool:
        """Whether this demand alone denies every call of the operation."""
        concerned = any(named(pattern, operation) for pattern in self.patterns)
        return (self.kind == "allow" and not concerned) or (self.kind == "deny" and concerned)


class Purse:
    """Calls that may be made, counted on each of the purses above as well."""

    def __init__(self, most: float, above: frozenset[Purse]) -> None:
        self.most = most
        self.spent = 0
        self.above = above

    def line(self) -> set[Purse]:
        """This purse and all above it."""
        return {self}.union(*(one.line() for one in self.above))


@attrs.frozen(eq=False)
class Warrant:
    """All that was demanded on the way.

    Attributes:
        wants: The demands.
        labels: What was touched.
        real: The framework's contexts on the way, by identity: if one is revoked, this has ended.
        root: Which minted context (or the root) it began with.
        depth, ends, risk, calls: The smallest limits on the way; `ends` in seconds of the machine's clock.
        purses: What calls are charged to.
        own: Whether it began with some actor's own authority.
    """

    wants: tuple[Want, ...] = ()
    labels: frozenset[str] = frozenset()
    real: frozenset[Any] = frozenset()
    root: Any = None
    depth: int = 32
    ends: float = math.inf
    risk: int = 3
    calls: float = math.inf
    purses: frozenset[Purse] = frozenset()
    own: bool = False

    def narrowed(self, wants: Iterable[Want], now: float, real: Any = None) -> Warrant:
        """With these demands as well, all at once. `real` is the framework's context that came of it."""
        wants = tuple(wants)

        def least(kind: str, before: float) -> float:
            return min([before, *(want.number for want in wants if want.kind == kind)])

        calls = least("calls", self.calls)
        return attrs.evolve(
            self,
            wants=(*self.wants, *(want for want in wants if want.patterns or want.kind == "allow")),
            labels=self.labels.union(*(want.labels for want in wants if want.kind == "label")),
            real=self.real if real is None else self.real | {real},
            depth=least("depth", self.depth),
            ends=min([self.ends, *(now + want.number for want in wants if want.kind == "expires")]),
            risk=least("risk", self.risk),
            calls=calls,
            purses=frozenset([Purse(calls, self.purses)]) if calls < self.calls else self.purses,
        )

    def met(self, other: Warrant) -> Warrant:
        """What both permit; it still began where this one did."""
        return attrs.evolve(
            self,
            wants=tuple(dict.fromkeys((*self.wants, *other.wants))),
            labels=self.labels | other.labels,
            real=self.real | other.real,
            depth=min(self.depth, other.depth),
            ends=min(self.ends, other.ends),
            risk=min(self.risk, other.risk),
            calls=min(self.calls, other.calls),
            purses=self.purses | other.purses,
        )

    def labelled(self, labels: Iterable[str]) -> Warrant:
        """With more labels."""
        return attrs.evolve(self, labels=self.labels | frozenset(labels))

    def charged(self) -> set[Purse]:
        """The purses that a call is charged to, each once."""
        found: set[Purse] = set()
        return found.union(*(purse.line() for purse in self.purses))

    def verdict(self, operation: str, arguments: Mapping[str, Any], labels: frozenset[str]) -> str:
        """ "allow", "ask" or "deny" of a call, by the demands and the risk; whether it has ended, and budgets, are not looked at."""
        rated = RISKS[operation]
        if (3 if rated is None else int(rated[1])) > self.risk:
            return "deny"
        found = {want.verdict(operation, arguments, labels) for want in self.wants}
        return "deny" if "deny" in found else "ask" if "ask" in found else "allow"

    def may(self, operation: str) -> bool:
        """Whether a call of the operation could be permitted, whatever its arguments: False where some demand forbids all of them."""
        return not any(want.forbids(operation) for want in self.wants)

    def has_room(self) -> bool:
        """Whether a call can still be charged."""
        return all(purse.spent < purse.most for purse in self.charged())
