"""What people type for `retinue approvals`: new values of arguments, and constraints on them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from retinue.security.constraints import Constraint

__all__ = ["changed", "constraints_of", "length_of"]

_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,4000}", re.ASCII)
_BOOLS: Final = {"true": True, "false": False}
_TYPED: Final = frozenset({list, tuple, dict, set, frozenset, bytes})


def changed(changes: Sequence[str], old: Mapping[str, Any]) -> dict[str, Any]:
    """New values by name, of NAME=VALUE, which is read as what the argument is now, and NAME:=JSON. Raises click.UsageError."""
    found: dict[str, Any] = {}
    for change in changes:
        name, sign, value = change.partition("=")
        if not sign or not name.removesuffix(":"):
            raise click.UsageError(f"{change!r} is no NAME=VALUE")
        name, as_json = name.removesuffix(":"), name.endswith(":")
        if name in found:
            raise click.UsageError(f"{name} is given twice")
        found[name] = _parsed(value, change) if as_json else _like(old.get(name), value, name)
    return found


def _like(old: Any, text: str, name: str) -> Any:
    """What was typed, as a value of the old one's type where a text alone says it. (The desk reads dates, decimals and the like from texts itself.)"""
    from retinue.security.records import Record

    kind = type(old)
    if kind is bool:
        if text not in _BOOLS:
            raise click.UsageError(f"{name} is true or false, not {text[:60]!r}")
        return _BOOLS[text]
    if kind is int:
        if not _WHOLE.fullmatch(text):
            raise click.UsageError(f"{name} is a whole number, not {text[:60]!r}")
        return int(text)
    if kind is float:
        try:
            return float(text)
        except ValueError:
            raise click.UsageError(f"{name} is a number, not {text[:60]!r}") from None
    if kind in _TYPED or kind is Record:
        what = "message" if kind is Record else kind.__name__
        raise click.UsageError(f"{name} is a {what}, which is written as JSON: {name}:=…")
    return text


def _parsed(text: str, whole: str) -> Any:
    from retinue.security.strict_json import read_json

    try:
        return read_json(text, max_bytes=2**20, max_depth=64)
    except ValueError as error:
        raise click.UsageError(f"{whole!r}: what follows := is no JSON: {error}") from None


def length_of(most: float, words: str) -> Any:
    """A callback for an option that takes a length of time, 3600, 90s, 30m, 8h or 7d, with at most so many seconds."""
    from retinue.cli.restricting import seconds_of

    def read(context: click.Context, parameter: click.Parameter, text: str | None) -> float | None:
        seconds = seconds_of(context, parameter, text)
        if seconds is not None and seconds > most:
            raise click.BadParameter(f"{text} is too long: {words} at most", context, parameter)
        return seconds

    return read


def constraints_of(wheres: Sequence[str], pattern: str) -> Mapping[str, Constraint]:
    """Constraints by argument, as `retinue token mint --where` takes them; the pattern of operations may be left out. Raises click.UsageError.

    Args:
        wheres: What was typed.
        pattern: The pattern that they are for.
    """
    from retinue.cli.restricting import constraint_of
    from retinue.security.errors import ConstraintError

    found: dict[str, Constraint] = {}
    for where in wheres:
        try:
            given, name, constraint = constraint_of(where)
            if given not in (None, pattern):
                raise click.UsageError(f"--where {where[:100]!r} is for {given!r}, and the consent for {pattern!r}: leave the pattern out")
            if name in found:
                constraint = _both(name, found[name], constraint)
            found[name] = constraint
        except ConstraintError as error:
            raise click.UsageError(str(error)) from None
    return found


def _both(name: str, one: Constraint, other: Constraint) -> Constraint:
    """A lower and an upper limit of one argument, as one constraint."""
    from retinue.security.constraints_numbers import Range

    ranges = [given for given in (one, other) if type(given) is Range]
    lows = [given.low for given in ranges if given.low is not None]
    highs = [given.high for given in ranges if given.high is not None]
    if len(ranges) != 2 or len(lows) != 1 or len(highs) != 1:
        raise click.UsageError(f'--where: {name} has two constraints. For one of several values write {name}:=["A","B"]')
    return Range(lows[0], highs[0])
