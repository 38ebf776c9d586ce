"""Constraints made of constraints: for each element of a list, or any of several."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final, Self, final

import attrs

from retinue.security.constraints_base import MAX_ITEMS, MAX_NESTING, Constraint, Parse, check_constraint
from retinue.security.constraints_scalars import list_text, type_name
from retinue.security.errors import ConstraintError
from retinue.security.sources import Source

__all__ = ["AnyOf", "Each"]


MAX_ELEMENTS: Final = 10_000
"""Elements of a list that `each` judges; a longer one is not permitted, for judging it would hold everything else up."""


def _check_nesting(constraint: Constraint) -> None:
    if constraint.nesting > MAX_NESTING:
        raise ConstraintError(
            f"constraints are nested more than {MAX_NESTING} deep. Constrain the argument's parts in fields of their own."
        )


def _element(value: object) -> Constraint:
    return check_constraint(value, "the constraint of each()")


@final
@attrs.frozen(repr=False, cache_hash=True)
class Each(Constraint):
    """`each`: a list or tuple that is not empty and not too long, all of whose elements the inner constraint permits."""

    kind: ClassVar[str] = "each"
    keys: ClassVar[frozenset[str]] = frozenset({"element"})

    element: Constraint = attrs.field(converter=_element)

    def __attrs_post_init__(self) -> None:
        _check_nesting(self)

    def _holds(self, value: object, sources: Mapping[str, Source], /) -> bool:
        if (type(value) is not list and type(value) is not tuple) or len(value) > MAX_ELEMENTS:
            return False
        elements: tuple[object, ...] = tuple(value)  # a list may grow while it is judged
        return bool(elements) and all(self.element.holds(element, sources) for element in elements)

    def _text(self) -> str:
        return f"each({self.element.text})"

    def _inner(self) -> tuple[Constraint, ...]:
        return (self.element,)

    def _fields(self) -> dict[str, object]:
        return {"element": self.element.to_data()}

    @classmethod
    def _read(cls, data: Mapping[str, object], parse: Parse, /) -> Self:
        return cls(parse(data["element"]))


def _alternatives(values: object) -> frozenset[Constraint]:
    if type(values) is not tuple or not values:
        raise ConstraintError(
            "any_of() needs the constraints of which one must hold. Write, for example, any_of(at_most(10), one_of(100))."
        )
    flat: set[Constraint] = set()
    for value in values:
        constraint = check_constraint(value, "an alternative of any_of()")
        flat |= constraint.constraints if type(constraint) is AnyOf else {constraint}
    if len(flat) > MAX_ITEMS:
        raise ConstraintError(f"any_of() has {len(flat)} alternatives, more than {MAX_ITEMS}. Use one_of(), a source, or fewer.")
    return frozenset(flat)


@final
@attrs.frozen(repr=False, cache_hash=True)
class AnyOf(Constraint):
    """`any_of`: at least one of the constraints holds. One within another is the same as its alternatives."""

    kind: ClassVar[str] = "any_of"
    keys: ClassVar[frozenset[str]] = frozenset({"constraints"})

    constraints: frozenset[Constraint] = attrs.field(converter=_alternatives)

    def __attrs_post_init__(self) -> None:
        _check_nesting(self)

    def _holds(self, value: object, sources: Mapping[str, Source], /) -> bool:
        return any(constraint.holds(value, sources) for constraint in self.constraints)

    def _text(self) -> str:
        return f"any_of({list_text(sorted(constraint.text for constraint in self.constraints))})"

    def _inner(self) -> tuple[Constraint, ...]:
        return tuple(self.constraints)

    def _fields(self) -> dict[str, object]:
        # In one order, so that equal constraints are written alike; by their data, because texts are cut.
        return {"constraints": sorted((constraint.to_data() for constraint in self.constraints), key=repr)}

    @classmethod
    def _read(cls, data: Mapping[str, object], parse: Parse, /) -> Self:
        constraints = data["constraints"]
        if type(constraints) is not list:
            raise ConstraintError(f"the constraints of any_of are a list, not this {type_name(constraints)}.")
        return cls(tuple(map(parse, constraints)))
