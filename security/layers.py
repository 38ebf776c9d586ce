"""Layers: single conditions on operations. A permission set has some, and all of them must permit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Literal, final

import attrs

from retinue.security.constraints import Source
from retinue.security.errors import ConstraintError
from retinue.security.rules import Rule, argument_text

__all__ = ["KINDS", "Kind", "Layer", "cut", "refusal_of"]

Kind = Literal["allow", "where", "deny", "ask", "unlabelled"]

KINDS: Final[tuple[Kind, ...]] = ("allow", "where", "deny", "ask", "unlabelled")

SHOWN_LAYERS: Final = 8
_SHOWN_RULES: Final = 12


def cut(texts: list[str], most: int, between: str = ", ") -> str:
    """`texts` joined, at most `most` of them: error texts and log lines stay short whatever the set."""
    rest = len(texts) - most
    return between.join(texts[:most] + ([f"… and {rest} more"] if rest > 0 else []))


def _is_kind(_: object, __: object, value: object) -> None:
    if type(value) is not str or value not in KINDS:
        raise ConstraintError(f"the kind of a layer is one of {', '.join(KINDS)}.")


@final
@attrs.frozen(cache_hash=True, repr=False)
class Layer:
    """One condition on operations and their arguments.

    Attributes:
        kind: What the rules mean:
            "allow": closed; permits what one of the rules names and whose constraints hold, and nothing else, so with no rule it permits
            nothing. Where a rule constrains arguments, those that it does not name must be missing or None, unless it is open.
            "where": all constraints of all rules that name an operation must hold; other operations and arguments are left alone.
            "deny": refuses what one of the patterns names and leaves everything else alone.
            "ask": what a rule names needs a person's consent, unless the rule has constraints and all of them hold.
            "unlabelled": refuses what one of the patterns names if the set has one of the labels.
        rules: The rules.
        labels: The labels of an "unlabelled" layer; empty for the others.
        four_eyes: Whether the consent that an "ask" layer wants has to come from another person than the context's subject; False for the others.

    Raises:
        ConstraintError: There is no such kind; a deny or unlabelled rule has constraints; a where rule has none; labels or four eyes where
            none belong, or no labels where some do.
    """

    kind: Kind = attrs.field(validator=_is_kind)
    rules: frozenset[Rule]
    labels: frozenset[str] = frozenset()
    four_eyes: bool = False

    def __attrs_post_init__(self) -> None:
        if type(self.four_eyes) is not bool or (self.four_eyes and self.kind != "ask"):
            raise ConstraintError("four eyes, True or False, are for what needs a person's consent: an 'ask' layer.")
        if (self.kind == "unlabelled") is not bool(self.labels):
            raise ConstraintError("an 'unlabelled' layer has labels, and no other has.")
        for rule in self.rules:
            if self.kind in ("deny", "unlabelled") and rule.constraints:
                raise ConstraintError(f"a {self.kind} layer names operations only; where() is what constrains arguments.")
            if self.kind == "where" and not rule.constraints:
                raise ConstraintError("a where layer has constraints in each rule; deny() is what refuses whole operations.")
            if self.kind != "allow" and rule.open:
                raise ConstraintError(f"open is for allow layers; a {self.kind} layer leaves arguments that it does not name alone.")

    @property
    def restricts_nothing(self) -> bool:
        """Whether every operation passes: an allow layer with a bare `**`, any other without a rule."""
        if self.kind == "allow":
            return any(rule.pattern.is_everything and not rule.constraints for rule in self.rules)
        return not self.rules

    def naming(self, segments: tuple[str, ...]) -> tuple[Rule, ...]:
        """The rules that name an operation, which is checked and split already; in a stable order."""
        named = [rule for rule in self.rules if rule.pattern.matches_segments(segments)]
        return tuple(sorted(named, key=repr)) if len(named) > 1 else tuple(named)

    @property
    def text(self) -> str:
        """The layer as it would be typed."""
        # The factories give all rules of a layer the same constraints; only layers read from data may differ, and are shown as alternatives.
        groups: dict[tuple[str, ...], list[str]] = {}
        for rule in sorted(self.rules, key=lambda rule: rule.pattern.text):
            groups.setdefault(tuple(rule.constraint_texts), []).append(repr(rule.pattern.text))
        calls = [self._call(patterns, list(constraints)) for constraints, patterns in sorted(groups.items())]
        return cut(calls, SHOWN_LAYERS, " or " if self.kind == "allow" else " and ") if calls else self._call([], [])

    def _call(self, patterns: list[str], constraints: list[str]) -> str:
        name = "needs_approval" if self.kind == "ask" else self.kind
        if self.kind == "ask" and constraints:
            constraints = [f"unless={{{', '.join(_as_item(text) for text in constraints)}}}"]
        if self.four_eyes:
            constraints = [*constraints, "four_eyes=True"]
        if self.kind == "unlabelled":
            constraints = [f"labels=[{', '.join(map(repr, sorted(self.labels)))}]"]
        return f"{name}({', '.join([cut(patterns, _SHOWN_RULES), *constraints] if patterns else constraints)})"

    def __repr__(self) -> str:
        return self.text


def _as_item(text: str) -> str:
    """A constraint that is shown as a keyword argument, as an item of a mapping."""
    if text.startswith("arguments={"):
        return text[len("arguments={") : -1]
    name, _, constraint = text.partition("=")
    return f"{name!r}: {constraint}"


def refusal_of(
    layer: Layer,
    segments: tuple[str, ...],
    arguments: Mapping[str, object] | None,
    sources: Mapping[str, Source],
    labels: Iterable[str] = (),
) -> str | None:
    """Why a layer refuses or asks, as part of a sentence; None where it does neither.

    Args:
        layer: The layer.
        segments: The operation, checked and split.
        arguments: The arguments, plain; None where they are not known, so that every constraint fails.
        sources: What `known_from` looks into.
        labels: The labels of the set.
    """
    named = layer.naming(segments)
    if layer.kind == "allow":
        if not layer.rules:  # of a list with restrictions only, as often as not
            return f"the empty layer allow() permits nothing (no pattern in the list names an operation: add {'.'.join(segments)!r})"
        return _allow_refusal(layer, named, arguments, sources)
    if not named:
        return None
    if layer.kind == "deny":
        return f"the layer {layer!r} refuses it"
    if layer.kind == "unlabelled":
        met = sorted(layer.labels.intersection(labels))
        return f"the layer {layer!r} refuses it under the label {cut(list(map(argument_text, met)), 4)}" if met else None
    failures = [text for rule in named for text in rule.failures(arguments, sources, closed=False)]
    if layer.kind == "where":
        return f"the layer {layer!r} refuses it: {cut(failures, 4)}" if failures else None
    always = any(not rule.constraints for rule in named)
    if not always and not failures:
        return None
    whose = "another person's consent" if layer.four_eyes else "a person's consent"
    return f"it needs {whose} by the layer {layer!r}" + ("" if always else f": {cut(failures, 4)}")


def _allow_refusal(
    layer: Layer, named: tuple[Rule, ...], arguments: Mapping[str, object] | None, sources: Mapping[str, Source]
) -> str | None:
    if not named:
        return f"the layer {layer!r} does not name it"
    closest: tuple[list[str], Rule] | None = None
    for rule in named:
        failures = rule.failures(arguments, sources, closed=True) if rule.constraints else []
        if not failures:
            return None
        if closest is None or len(failures) < len(closest[0]):
            closest = (failures, rule)
    assert closest is not None
    by = f", whose closest rule is {closest[1].text}," if len(layer.rules) > 1 else ""
    return f"the layer {layer!r}{by} refuses it: {cut(closest[0], 4)}"
