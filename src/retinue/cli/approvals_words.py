"""What people type for `retinue approvals`: new values of arguments, constraints, and lengths of time."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from retinue.security.constraints import Constraint

__all__ = ["changed", "constraints_of", "seconds_of"]

_LENGTH: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)([smhd])", re.ASCII)
_UNITS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_WHERE: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\s*(<=|>=|:=|=|\sin\s)\s*(.*)", re.ASCII | re.DOTALL)


def changed(changes: Sequence[str]) -> dict[str, Any]:
    """New values by name, of NAME=TEXT and NAME:=JSON. Raises click.UsageError."""
    found: dict[str, Any] = {}
    for change in changes:
        name, sign, value = change.partition("=")
        if not sign or not name.removesuffix(":"):
            raise click.UsageError(f"{change!r} is no NAME=VALUE")
        name, as_json = name.removesuffix(":"), name.endswith(":")
        if name in found:
            raise click.UsageError(f"{name} is given twice")
        found[name] = _parsed(value, change) if as_json else value
    return found


def _parsed(text: str, whole: str) -> Any:
    from retinue.security.strict_json import read_json

    try:
        return read_json(text, max_bytes=2**20, max_depth=64)
    except ValueError as error:
        raise click.UsageError(f"{whole!r}: what follows := is no JSON: {error}") from None


def seconds_of(length: str) -> float:
    """A length of time in seconds: 90s, 30m, 8h, 7d. Raises click.UsageError."""
    found = _LENGTH.fullmatch(length)
    if found is None:
        raise click.UsageError(f"{length!r} is no length of time: write 90s, 30m, 8h or 7d")
    return float(found[1]) * _UNITS[found[2]]


def constraints_of(wheres: Sequence[str]) -> Mapping[str, Constraint]:
    """Constraints by argument. Raises click.UsageError."""
    from retinue.security.constraints import at_least, at_most, between, one_of, within
    from retinue.security.errors import ConstraintError

    values: dict[str, list[Any]] = {}
    limits: dict[str, dict[str, Any]] = {}
    found: dict[str, Constraint] = {}
    for where in wheres:
        parts = _WHERE.fullmatch(where)
        if parts is None:
            raise click.UsageError(
                f"{where!r} is no constraint: write 'to=ACME', 'count:=3', 'cents<=500', 'cents>=1' or 'path in reports/'"
            )
        name, sign, value = parts[1], parts[2].strip(), parts[3]
        if sign == "=":
            values.setdefault(name, []).append(value)
        elif sign == ":=":
            values.setdefault(name, []).append(_parsed(value, where))
        elif sign == "in":
            if name in found:
                raise click.UsageError(f"{name} has two places to be in")
            found[name] = within(value)
        elif sign in limits.setdefault(name, {}):
            raise click.UsageError(f"{name} has two limits {sign}")
        else:
            limits[name][sign] = _number(value, where)
    twice = [name for name in {*values, *limits, *found} if (name in values) + (name in limits) + (name in found) > 1]
    if twice:
        raise click.UsageError(f"{min(twice)} has constraints of two kinds: one is enough")
    try:
        for name, some in values.items():
            found[name] = one_of(*some)
        for name, ends in limits.items():
            if len(ends) == 2:
                found[name] = between(ends[">="], ends["<="])
            else:
                ((sign, bound),) = ends.items()
                found[name] = at_most(bound) if sign == "<=" else at_least(bound)
    except ConstraintError as error:
        raise click.UsageError(str(error)) from None
    return found


def _number(text: str, whole: str) -> Any:
    from decimal import Decimal, InvalidOperation

    try:
        return int(text) if re.fullmatch(r"-?[0-9]+", text, re.ASCII) else Decimal(text)
    except InvalidOperation:
        raise click.UsageError(f"{whole!r}: {text!r} is no number") from None
