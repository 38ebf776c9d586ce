"""Restrictions: what people type to narrow a context, and the lists of permissions that `mint` and `grant=` take."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Final, Literal, Never, TypeAlias, final

import attrs

from retinue.security.constraints import Constraint
from retinue.security.errors import ConstraintError, DefinitionError
from retinue.security.layers import SHOWN_LAYERS, Kind, Layer, cut
from retinue.security.limits import (
    DEFAULT_DEPTH,
    NEVER,
    NO_LIMITS,
    UNLIMITED,
    Limits,
    Risk,
    check_count,
    cost_in_micro_usd,
    decimal_text,
    epoch_ms,
    risk_level,
    shown,
)
from retinue.security.operations import Pattern
from retinue.security.rules import Rule, checked_constraints

__all__ = [
    "Permission",
    "Restriction",
    "allow",
    "check_label",
    "deny",
    "expires",
    "label",
    "limit",
    "max_risk",
    "needs_approval",
    "restriction_of",
    "unlabelled",
    "where",
]

MAX_PARSED: Final = 1024
"""Calls of `allow`, `deny` and `label` whose result is remembered, the least recently used forgotten first."""

MAX_PARSED_PATTERNS: Final = 16
"""Patterns or labels in a call that is remembered; longer ones are parsed each time, so that the memo stays small."""

MAX_LABEL_LENGTH: Final = 64
"""Characters in a label."""

MAX_SECONDS: Final = 100 * 366 * 86_400
"""The longest time that `expires(seconds=)` takes: a hundred years."""

_LABEL: Final = re.compile(r"[A-Za-z0-9_.:-]{1,64}", re.ASCII)

RestrictionKind = Literal["allow", "where", "deny", "ask", "unlabelled", "limit", "expires", "risk", "label", "all"]

_UNIT_TEXT: Final = {"allow": "allow('**')", "deny": "deny()", "label": "label()", "ask": "needs_approval()", "unlabelled": "unlabelled()"}


@final
@attrs.frozen(cache_hash=True, repr=False)
class Restriction:
    """What `SecurityContext.narrow` takes; made by `allow`, `where`, `deny`, `limit`, `expires`, `max_risk`, `needs_approval`, `label`, `unlabelled`.

    Attributes:
        kind: The function that made it; "ask" for `needs_approval`, "risk" for `max_risk`; "all" for several in one.
        layers: The layers that it adds. Those that would restrict nothing are left out, so `allow("**")` adds none.
        limits: The limits that it sets.
        labels: The labels that it adds.
        lifetime_ms: `expires(seconds=)` in milliseconds: becomes a deadline when it is applied. None where there is none.
    """

    kind: RestrictionKind
    layers: frozenset[Layer] = frozenset()
    limits: Limits = NO_LIMITS
    labels: frozenset[str] = frozenset()
    lifetime_ms: int | None = None
    only_layers: bool = attrs.field(init=False, eq=False)

    def __attrs_post_init__(self) -> None:
        # Asked on each narrow; attrs' own way to set what is derived on a frozen class.
        plain = self.limits == NO_LIMITS and not self.labels and self.lifetime_ms is None
        object.__setattr__(self, "only_layers", plain)

    def resolved(self, now_ms: int) -> Restriction:
        """The same with `expires(seconds=)` turned into a deadline, counted from `now_ms`; itself where there is nothing to turn."""
        if self.lifetime_ms is None:
            return self
        return attrs.evolve(self, limits=self.limits_from(now_ms), lifetime_ms=None)

    def limits_from(self, now_ms: int) -> Limits:
        """The limits where it is applied at that time."""
        return self.limits if self.lifetime_ms is None else self.limits.until(min(now_ms + self.lifetime_ms, NEVER))

    def __repr__(self) -> str:
        texts = sorted(map(repr, self.layers))
        texts += self.limits.texts
        if self.lifetime_ms is not None:
            texts.append(f"expires(seconds={decimal_text(self.lifetime_ms, 3)})")
        if self.labels:
            texts.append(labels_text(self.labels))
        return cut(texts, SHOWN_LAYERS) or _UNIT_TEXT.get(self.kind, "limit()")


Permission: TypeAlias = str | Restriction
"""What stands in a list of permissions: a pattern, or a restriction."""


def labels_text(labels: Iterable[str]) -> str:
    """Labels as they would be typed."""
    return f"label({cut(sorted(map(repr, labels)), SHOWN_LAYERS)})"


def check_label(value: object) -> str:
    """A label as a plain `str`, checked: 1 to 64 characters of `A-Z a-z 0-9 _ - . :`.

    Raises:
        ConstraintError: It is something else.
    """
    if isinstance(value, str):
        plain = str.__str__(value)
        if _LABEL.fullmatch(plain):
            return plain
    shown = f"{value[:MAX_LABEL_LENGTH]!r}" if isinstance(value, str) else f"an object of type {type(value).__name__}"
    raise ConstraintError(
        f"a label has 1 to {MAX_LABEL_LENGTH} characters of A-Z a-z 0-9 _ - . : such as 'web' or 'file:mail'; this one is {shown}."
    )


def _checked_labels(labels: Iterable[str], what: str) -> frozenset[str]:
    if isinstance(labels, str | bytes) or not isinstance(labels, Iterable):
        raise ConstraintError(f"{what}: labels are a list of str, such as ['web'], not {type(labels).__name__}.")
    return frozenset(map(check_label, labels))


def _plain_patterns(kind: str, patterns: tuple[str, ...]) -> tuple[str, ...]:
    plain = True
    for pattern in patterns:
        if type(pattern) is str:
            continue
        plain = False
        if not isinstance(pattern, str):
            raise DefinitionError(
                f"{kind}() takes patterns as separate str arguments, not an object of type {type(pattern).__name__}. "
                f"Write {kind}('fs.read', 'fs.list'), or {kind}(*names) for a collection."
            )
    # Plain strings, because a subclass could claim to equal another key of the memo.
    return patterns if plain else tuple(map(str.__str__, patterns))


def _demand_patterns(kind: str, patterns: tuple[str, ...], example: str) -> None:
    # Without one it would restrict nothing: whoever forgets the operation means the opposite.
    if not patterns:
        raise ConstraintError(f"{kind}() names no operation, so it would restrict nothing. Write, for example, {example}; '**' names all.")


def _restriction(kind: Literal["allow", "deny"], patterns: tuple[str, ...]) -> Restriction:
    plain = _plain_patterns(kind, patterns)
    return _parse(kind, plain) if len(plain) <= MAX_PARSED_PATTERNS else _parse.__wrapped__(kind, plain)


@lru_cache(maxsize=MAX_PARSED)
def _parse(kind: Literal["allow", "deny"], patterns: tuple[str, ...]) -> Restriction:
    # A pure function of strings to an immutable value: the memo, though the process shares it, can only save time. It makes
    # narrow(allow("fs.read")) in a handler some ten times cheaper.
    return layer_restriction(Layer(kind, frozenset(Rule(Pattern(pattern)) for pattern in patterns)))


def layer_restriction(layer: Layer) -> Restriction:
    """The restriction of one layer; no layer at all where it would restrict nothing."""
    return Restriction(layer.kind, frozenset() if layer.restricts_nothing else frozenset((layer,)))


# As `_parse`, and of patterns alone: constraints hold values, which nothing that the process shares should keep.
_pattern = lru_cache(maxsize=MAX_PARSED)(Pattern)


def _ruled(
    kind: Kind,
    patterns: tuple[str, ...],
    constraints: tuple[tuple[str, Constraint], ...],
    *,
    is_open: bool = False,
    four_eyes: bool = False,
) -> Restriction:
    name = "needs_approval" if kind == "ask" else kind
    rules = frozenset(Rule(_pattern(pattern), constraints, is_open) for pattern in _plain_patterns(name, patterns))
    return layer_restriction(Layer(kind, rules, four_eyes=four_eyes))


def allow(
    *patterns: str,
    open: bool = False,  # noqa: A002  # the word for it
    arguments: Mapping[str, Constraint] | None = None,
    **constraints: Constraint,
) -> Restriction:
    """Permit nothing but the operations that one of the patterns names; `allow()` permits nothing at all.

    It never adds authority: under `narrow` the result is what both sides permit.

    Args:
        patterns: Patterns of operations.
        open: Where there are constraints: whether arguments that they do not name may be given. Default False: those must be missing or
            None, so that an argument which is added to a message later (a `bcc`) does not slip through.
        arguments: Constraints by the names of arguments, for names that cannot be keyword arguments, one at least: `{"from": one_of("me")}`.
        constraints: The same as keyword arguments: `path=within("reports/")`. An argument that is missing or None fails, except under
            `absent()` and where `one_of(None, …)` or `any_of(absent(), …)` says so.

    Raises:
        PatternError: A pattern is malformed.
        ConstraintError: What an argument must be is no constraint, `arguments` is empty, or `open` no `bool`.
        DefinitionError: A pattern is no `str`.
    """
    if open is False and not constraints and arguments is None:
        return _restriction("allow", patterns)
    if type(open) is not bool:
        raise ConstraintError(
            f"allow(open=…) is True or False, not an object of type {type(open).__name__}. "
            "For an argument that is named 'open' write allow(…, arguments={'open': …})."
        )
    checked = checked_constraints(arguments, constraints, "allow()")
    if arguments is not None and not checked:
        # Constraints that a program put together and that came out empty must not leave everything open.
        raise ConstraintError(
            "allow(…, arguments={…}) takes one constraint at least, such as {'path': within('reports/')}; leave it out for none."
        )
    return _ruled("allow", patterns, checked, is_open=open)


def where(*patterns: str, arguments: Mapping[str, Constraint] | None = None, **constraints: Constraint) -> Restriction:
    """Demand that all these constraints hold for the operations that a pattern names; leave other operations and arguments as they are.

    Args:
        patterns: Patterns of operations.
        arguments: Constraints by the names of arguments, for names that are no Python keyword arguments.
        constraints: The same as keyword arguments, one at least: `amount=at_most(100)`. An argument that is missing or None fails, as for `allow`.

    Raises:
        PatternError: A pattern is malformed.
        ConstraintError: There is no pattern or no constraint, or something else in place of one.
        DefinitionError: A pattern is no `str`.
    """
    _demand_patterns("where", patterns, "where('payments.send', amount=at_most(100))")
    checked = checked_constraints(arguments, constraints, "where()")
    if not checked:
        raise ConstraintError("where() takes one constraint at least, such as amount=at_most(100). Use deny() to refuse whole operations.")
    return _ruled("where", patterns, checked)


def deny(*patterns: str, **constraints: object) -> Restriction:
    """Refuse the operations that one of the patterns names and leave all others as they are.

    `deny()` names nothing and so changes nothing, which lets a program deny a collection that may be empty; everything is `deny("**")`.

    Args:
        patterns: Patterns of operations.
        constraints: None: see `where`.

    Raises:
        PatternError: A pattern is malformed.
        ConstraintError: A constraint was given.
        DefinitionError: A pattern is no `str`.
    """
    if constraints:
        raise ConstraintError(
            "deny() refuses whole operations and takes no constraints: what they do not catch would be permitted. "
            "Say what must hold instead: where('payments.send', amount=at_most(100))."
        )
    return _restriction("deny", patterns)


def needs_approval(*patterns: str, unless: Mapping[str, Constraint] | None = None, four_eyes: bool = False) -> Restriction:
    """Demand a person's consent for the operations that a pattern names.

    Args:
        patterns: Patterns of operations.
        unless: Constraints by the names of arguments; no consent is needed where all of them hold. What is missing or odd asks.
        four_eyes: Whether the person has to be another than the context's subject. Default False.

    Raises:
        PatternError: A pattern is malformed.
        ConstraintError: There is no pattern, `unless` is empty or has something else than constraints, or `four_eyes` is no `bool`.
        DefinitionError: A pattern is no `str`.
    """
    _demand_patterns("needs_approval", patterns, "needs_approval('payments.**')")
    checked = checked_constraints(unless, {}, "needs_approval(unless=)")
    if unless is not None and not checked:
        raise ConstraintError(
            "needs_approval(unless=…) takes one constraint at least, such as {'amount': at_most(100)}; leave it out to ask always."
        )
    return _ruled("ask", patterns, checked, four_eyes=four_eyes)


def unlabelled(*patterns: str, labels: Iterable[str]) -> Restriction:
    """Refuse the operations that a pattern names wherever one of the labels is on the context.

    Args:
        patterns: Patterns of operations.
        labels: Labels, one at least: `unlabelled("mail.send", labels=["web"])` keeps what was read in the web from being mailed.

    Raises:
        PatternError: A pattern is malformed.
        ConstraintError: There is no pattern or no label, or a label is malformed.
        DefinitionError: A pattern is no `str`.
    """
    _demand_patterns("unlabelled", patterns, "unlabelled('mail.send', labels=['web'])")
    checked = _checked_labels(labels, "unlabelled()")
    if not checked:
        raise ConstraintError("unlabelled(…, labels=[…]) takes one label at least, such as 'web'.")
    rules = frozenset(Rule(Pattern(pattern)) for pattern in _plain_patterns("unlabelled", patterns))
    return layer_restriction(Layer("unlabelled", rules, checked))


def label(*names: str) -> Restriction:
    """Add labels to a context: what it has touched, such as "web" or "secret:payroll". They are never taken away again.

    Raises:
        ConstraintError: A label is malformed: 1 to 64 characters of `A-Z a-z 0-9 _ - . :`.
    """
    for name in names:
        if type(name) is not str:
            return _labels.__wrapped__(names)
    return _labels(names) if len(names) <= MAX_PARSED_PATTERNS else _labels.__wrapped__(names)


@lru_cache(maxsize=MAX_PARSED)
def _labels(names: tuple[str, ...]) -> Restriction:
    return Restriction("label", labels=frozenset(map(check_label, names)))


def limit(
    *, calls: int | None = None, tokens: int | None = None, cost_usd: Decimal | str | int | None = None, depth: int | None = None
) -> Restriction:
    """Limit how much may be done; what is not named stays as it is. All who share the context share what is left.

    Args:
        calls: Messages to handlers that require an operation, attempts included; 0 permits none.
        tokens: Tokens of language models.
        cost_usd: Cost in US dollars: a `Decimal`, a `str` such as "0.50", or an `int`; never a float, six decimals at most.
        depth: Levels of actors that may be spawned from one another, 0 to 32; 0 permits no spawning.

    Raises:
        ConstraintError: A number is negative, too large, a `bool` or a float.
    """
    return Restriction(
        "limit",
        limits=Limits(
            calls=UNLIMITED if calls is None else check_count(calls, "limit(calls=…)"),
            tokens=UNLIMITED if tokens is None else check_count(tokens, "limit(tokens=…)"),
            cost_micro_usd=UNLIMITED if cost_usd is None else cost_in_micro_usd(cost_usd),
            depth=DEFAULT_DEPTH if depth is None else check_count(depth, "limit(depth=…)"),
        ),
    )


def expires(*bare: Never, seconds: float | Decimal | None = None, at: datetime.datetime | None = None) -> Restriction:
    """Let a context end at a time; exactly one of the two.

    Args:
        bare: Nothing: a bare number would not say whether it is seconds.
        seconds: So long after it is applied (by `narrow`, `mint`, `grant=`, or when a token is attenuated); at least 0, a hundred years at most.
        at: The time, with a time zone. One that has passed permits nothing.

    Raises:
        ConstraintError: Neither or both; seconds that are negative, NaN or no number; a datetime without a time zone.
    """
    if bare:
        raise ConstraintError(f"expires({shown(bare[0])}): write expires(seconds=60), or expires(at=…).")
    if (seconds is None) is (at is None):
        raise ConstraintError("expires() takes exactly one of seconds=60 and at=datetime.now(timezone.utc) + timedelta(minutes=1).")
    if at is not None:
        return Restriction("expires", limits=Limits(deadline_ms=epoch_ms(at)))
    if type(seconds) is Decimal:
        seconds = float(seconds) if seconds.is_finite() else math.nan  # comparing a Decimal NaN would raise
    if (type(seconds) is not int and type(seconds) is not float) or not 0 <= seconds <= MAX_SECONDS:  # NaN compares False
        raise ConstraintError(f"expires(seconds=…) is a number from 0 to {MAX_SECONDS}, a hundred years; not {shown(seconds)}.")
    return Restriction("expires", lifetime_ms=int(seconds * 1000))


def max_risk(risk: Risk) -> Restriction:
    """Permit no operation of a higher risk level; one whose level nobody declared counts as L3.

    Args:
        risk: "L0", "L1", "L2" or "L3"; "L3" changes nothing.

    Raises:
        ConstraintError: It is none of the four.
    """
    return Restriction("risk", limits=Limits(risk=risk_level(risk)))


def restriction_of(permissions: Iterable[Permission], now_ms: int | None = None, what: str = "permissions") -> Restriction:
    """A list of permissions, as `mint` and `grant=` take it, as one restriction.

    The patterns in the list make *one* allow layer, any of which may permit; each restriction adds its own. An empty list permits
    nothing. So does a list without a pattern and without an `allow`, because what no pattern names is not permitted: write
    `["**", deny("fs.delete")]` for "everything but".

    Args:
        permissions: Patterns and restrictions.
        now_ms: When it is applied: `expires(seconds=)` counts from it. None leaves the smallest of them as it is.
        what: The argument that was given them, for errors.

    Raises:
        DefinitionError: `permissions` is a bare `str`, no iterable, or holds something else than patterns and restrictions.
        PatternError: A pattern is malformed.
    """
    if isinstance(permissions, str | bytes | Mapping) or not isinstance(permissions, Iterable):
        raise DefinitionError(
            f"{what}= takes a list of patterns and restrictions, not an object of type {type(permissions).__name__}. "
            f"Write {what}=['fs.read'] for one, ['**'] for everything, [] for nothing."
        )
    names: list[str] = []
    restrictions: list[Restriction] = []
    for permission in permissions:
        if isinstance(permission, str):
            names.append(permission)
        elif type(permission) is Restriction:
            restrictions.append(permission if now_ms is None else permission.resolved(now_ms))
        elif isinstance(permission, Constraint):
            raise DefinitionError(
                f"{what}=: the list holds {permission.text}, a constraint, which does not say of which operation and argument. "
                f"Write where('fs.read', path={permission.text}) beside the patterns."
            )
        else:
            raise DefinitionError(
                "a permission is a pattern such as 'fs.*', or a restriction made by allow(), where(), deny(), limit() and the like, "
                f"not an object of type {type(permission).__name__}."
            )
    # Fail closed: where nothing is named at all, the (empty) layer of names is what refuses.
    if names or not any(restriction.kind == "allow" for restriction in restrictions):
        restrictions.append(allow(*names))
    return joined(restrictions)


def joined(restrictions: Iterable[Restriction]) -> Restriction:
    """Several restrictions as one: all layers, the strictest limits, all labels, the shortest life."""
    layers: set[Layer] = set()
    labels: set[str] = set()
    limits = NO_LIMITS
    lifetimes: list[int] = []
    for restriction in restrictions:
        layers |= restriction.layers
        labels |= restriction.labels
        limits = limits.meet(restriction.limits)
        if restriction.lifetime_ms is not None:
            lifetimes.append(restriction.lifetime_ms)
    return Restriction("all", frozenset(layers), limits, frozenset(labels), min(lifetimes, default=None))
