"""Rules: a pattern of operations, with constraints on their arguments."""

from __future__ import annotations

import keyword
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final, final

import attrs

from retinue.security.constraints import MISSING, Constraint, Source, check_constraint
from retinue.security.errors import ConstraintError
from retinue.security.operations import Pattern

__all__ = ["Rule", "argument_text", "checked_constraints"]

MAX_ARGUMENT_LENGTH: Final = 255
"""Characters in the name of an argument."""


_SHOWN_NAMES: Final = 8


def argument_text(name: str) -> str:
    """The name of an argument for a text: escaped and cut, because it may come from outside."""
    return repr(name) if len(name) <= 60 else f"{name[:60]!r}…"


def checked_constraints(given: Mapping[Any, Any] | None, more: Mapping[str, Any], what: str) -> tuple[tuple[str, Constraint], ...]:
    """Constraints by the names of their arguments, checked and in a stable order.

    Args:
        given: The mapping `arguments=`, or None.
        more: The keyword arguments.
        what: The function that was called, for errors.

    Raises:
        ConstraintError: A name is no plain `str` of 1 to 255 characters, stands in both, or its value is no constraint.
    """
    found: dict[str, Constraint] = {}
    if given is not None and not isinstance(given, Mapping):
        raise ConstraintError(f"{what}: the constraints are a mapping of argument names to constraints, not {type(given).__name__}.")
    for name, constraint in [*(given.items() if given is not None else ()), *more.items()]:
        if not isinstance(name, str) or not 0 < len(name) <= MAX_ARGUMENT_LENGTH:
            raise ConstraintError(f"{what}: the name of an argument is a str of 1 to {MAX_ARGUMENT_LENGTH} characters.")
        plain = str.__str__(name)
        if plain in found:
            raise ConstraintError(f"{what}: the argument {argument_text(plain)} is given twice. Combine constraints in two restrictions.")
        found[plain] = check_constraint(constraint, f"{what}: what the argument {argument_text(plain)} must be")
    return tuple(sorted(found.items()))


@final
@attrs.frozen(cache_hash=True, repr=False)
class Rule:
    """What one pattern is restricted to.

    Attributes:
        pattern: The operations that it names.
        constraints: Names of arguments, each with the constraint that must hold, sorted by name.
        open: Whether arguments that are not named here may be given too. Only an allow layer asks, and only where there are constraints;
            a rule without constraints is never open, so that equal rules are equal objects.
    """

    pattern: Pattern
    constraints: tuple[tuple[str, Constraint], ...] = ()
    open: bool = False
    _names: frozenset[str] = attrs.field(init=False, eq=False)

    def __attrs_post_init__(self) -> None:
        # attrs' own way to set what is derived on a frozen class.
        object.__setattr__(self, "open", bool(self.open and self.constraints))
        object.__setattr__(self, "_names", frozenset(name for name, _ in self.constraints))

    def holds(self, arguments: Mapping[str, object], sources: Mapping[str, Source]) -> bool:
        """Whether every constraint holds. Arguments that are not named are not looked at."""
        for name, constraint in self.constraints:  # noqa: SIM110 - a generator costs more than the usual constraint
            if constraint.holds(arguments.get(name, MISSING), sources) is not True:
                return False
        return True

    def holds_closed(self, arguments: Mapping[str, object], sources: Mapping[str, Source]) -> bool:
        """`holds`, and unless the rule is open, nothing else is given: arguments that are not named are missing or None."""
        if not self.open:
            names = self._names
            for name, value in arguments.items():
                if value is not None and name not in names:
                    return False
        return self.holds(arguments, sources)

    def failures(self, arguments: Mapping[str, object] | None, sources: Mapping[str, Source], *, closed: bool) -> list[str]:
        """What does not hold, each as part of a sentence that shows constraints and names, never values.

        Args:
            arguments: The arguments; None where they are not known, which fails each constraint.
            sources: The sources that `known_from` looks into.
            closed: Whether unnamed arguments fail too.
        """
        if arguments is None:
            return [
                f"its argument {argument_text(name)} was not given to look at: {constraint.text}" for name, constraint in self.constraints
            ]
        found = []
        for name, constraint in self.constraints:
            value = arguments.get(name, MISSING)
            if constraint.holds(value, sources) is not True:
                found.append(f"its argument {argument_text(name)} is not {constraint.text}{_hint(constraint, value, arguments)}")
        if closed and not self.open:
            extra = sorted(name for name, value in arguments.items() if value is not None and name not in self._names)
            if extra:
                shown = ", ".join(map(argument_text, extra[:4])) + (f" and {len(extra) - 4} more" if len(extra) > 4 else "")
                found.append(f"its argument {shown} is not named by the rule (open=True would leave it alone)")
        return found

    @property
    def text(self) -> str:
        """The rule as it would be typed."""
        return ", ".join([repr(self.pattern.text), *self.constraint_texts])

    @property
    def constraint_texts(self) -> list[str]:
        """The constraints as they would be typed, `open=True` first."""
        typed = [f"{name}={constraint.text}" for name, constraint in self.constraints if _is_keyword_argument(name)]
        rest = [f"{name!r}: {constraint.text}" for name, constraint in self.constraints if not _is_keyword_argument(name)]
        return [*(["open=True"] if self.open else []), *([f"arguments={{{', '.join(rest)}}}"] if rest else []), *typed]

    def __repr__(self) -> str:
        return f"Rule({self.text})"


def _hint(constraint: Constraint, value: object, arguments: Mapping[str, object]) -> str:
    """What is wrong beside the value, in parentheses: it is missing, or of a type that the constraint never permits."""
    if value is MISSING:
        there = sorted(name for name in arguments if arguments[name] is not MISSING)
        more = f" and {len(there) - _SHOWN_NAMES} more" if len(there) > _SHOWN_NAMES else ""
        return f" (it is missing; given: {', '.join(map(argument_text, there[:_SHOWN_NAMES]))}{more})" if there else " (it is missing)"
    if value is None:
        return " (it is missing)"
    kind = constraint.kind
    if kind in ("any_of", "absent"):  # its text says what is permitted, a type that is not would have to be told for each
        return ""
    if type(value) is list or type(value) is tuple:
        return "" if kind in ("each", "max_length") else " (it is a list: use each(…))"
    if kind == "each":
        return " (it is no list)"
    if kind == "range":
        return "" if type(value) in (int, float, Decimal) else " (it is no number)"
    return " (it is no str)" if kind in ("within", "host") and type(value) is not str else ""


def _is_keyword_argument(name: str) -> bool:
    return name.isidentifier() and not keyword.iskeyword(name) and name not in ("arguments", "open")
