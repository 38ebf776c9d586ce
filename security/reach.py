"""Reach: whether a permission set permits anything at all. Narrowing says no by a `deny("**")`, or by two lists that have nothing in common."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final, TypeAlias

from retinue.security.decisions import DENY, decide

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from retinue.security.layers import Layer
    from retinue.security.operations import Pattern

__all__ = ["permits_something"]

MOST_LOOKS: Final = 50_000
"""Rules that are looked at for one answer (some 20 ms). A set that is too tangled for that is taken to permit nothing."""

MOST_SEGMENTS: Final = 100
_FREE: Final = "z0"
"""Stands for a segment that a wildcard leaves free, and that no pattern names."""

_Shape: TypeAlias = tuple[tuple[str, ...], bool]  # the segments of a pattern, and whether any number of further ones follow
_EVERYTHING: Final[_Shape] = ((), True)


def permits_something(layers: frozenset[Layer], labels: frozenset[str]) -> bool:
    """Whether there is an operation that all layers permit with some arguments, or with a person's consent, in a set with these labels.

    Constraints on arguments are not compared with each other: two that no value satisfies are not found out.
    """
    if not layers:
        return True
    rules = [rule for layer in layers for rule in layer.rules]
    longest = max((len(rule.pattern._head) for rule in rules), default=0) + 1
    allowing = sorted((layer for layer in layers if layer.kind == "allow"), key=lambda layer: len(layer.rules))
    looks = MOST_LOOKS
    cost = len(rules) + 1
    # What one list names is mostly what all of them let pass; only then are they laid over each other.
    for shapes in ((shape for layer in allowing[:1] for shape in _shapes(layer)), _common(allowing)):
        for shape in shapes:
            for operation in _examples(shape, longest):
                looks -= cost
                if looks < 0:
                    return False
                if decide(layers, labels, operation).verdict is not DENY:
                    return True
    return False


def _shapes(layer: Layer) -> Iterator[_Shape]:
    for rule in layer.rules:
        yield _shape(rule.pattern)


def _shape(pattern: Pattern) -> _Shape:
    return pattern._head, pattern._open


def _common(layers: Iterable[Layer]) -> Iterator[_Shape]:
    """What all the layers name."""
    found: dict[_Shape, None] = {_EVERYTHING: None}
    looks = MOST_LOOKS
    for layer in layers:
        met: dict[_Shape, None] = {}
        for one, other in itertools.product(found, _shapes(layer)):
            looks -= 1
            if looks < 0:
                return
            both = _met(one, other)
            if both is not None:
                met[both] = None
        found = met
    yield from found


def _met(one: _Shape, other: _Shape) -> _Shape | None:
    """The pattern of what both name, or None."""
    (short, short_open), (long, long_open) = sorted((one, other), key=lambda shape: (len(shape[0]), not shape[1]))
    if len(short) < len(long):
        if not short_open:
            return None
    elif short_open != long_open:  # as long as the other, which ends where this one wants one segment more
        return None
    head = []
    for mine, theirs in itertools.zip_longest(short, long, fillvalue="*"):
        if mine != theirs and "*" not in (mine, theirs):
            return None
        head.append(theirs if mine == "*" else mine)
    return tuple(head), long_open and short_open if len(short) == len(long) else long_open


def _examples(shape: _Shape, longest: int) -> Iterator[tuple[str, ...]]:
    """Operations of a pattern: where it is open, a short one, and one that is longer than any pattern of a fixed length."""
    head = tuple(_FREE if segment == "*" else segment for segment in shape[0])
    if not shape[1]:
        yield head
        return
    yield (*head, _FREE)
    if len(head) + 1 < longest <= MOST_SEGMENTS:
        yield (*head, *[_FREE] * (longest - len(head)))
