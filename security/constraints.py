"""Constraints: what an argument of an operation must be, as a closed set of kinds.

    allow("fs.read", path=within("reports/"))
    where("payments.send", amount=at_most(100), to=one_of("ACME", "Bolt"))

Each kind is a question about one argument's value that is answered by looking at the value alone, with exact types. There are no regular
expressions and no functions of the user's: what a constraint permits can be read off it, and it can be written down (`to_data`), sealed
and compared. A constraint on an argument that was not given fails, except `absent()`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from retinue.security.constraints_base import MAX_NESTING, MISSING, NO_SOURCES, Constraint, Missing, check_constraint
from retinue.security.constraints_combined import AnyOf, Each
from retinue.security.constraints_numbers import Range
from retinue.security.constraints_places import DEFAULT_PORT_LIST, DEFAULT_SCHEMES, Host, Within
from retinue.security.constraints_scalars import Number, Scalar, type_name
from retinue.security.constraints_values import Absent, KnownFrom, MaxLength, OneOf
from retinue.security.errors import ConstraintError
from retinue.security.sources import Source

__all__ = [
    "KINDS",
    "MISSING",
    "NO_SOURCES",
    "Constraint",
    "Missing",
    "Source",
    "absent",
    "any_of",
    "at_least",
    "at_most",
    "between",
    "check_constraint",
    "constraint_from_data",
    "each",
    "host",
    "known_from",
    "max_length",
    "one_of",
    "within",
]

KINDS: Final[dict[str, type[Constraint]]] = {
    kind.kind: kind for kind in (Absent, AnyOf, Each, Host, KnownFrom, MaxLength, OneOf, Range, Within)
}
"""Every kind of constraint by the word that names it in `to_data`."""


def one_of(*values: Scalar) -> Constraint:
    """The value is one of these, with its type: `1`, `True`, `1.0` and `"1"` are four values. A `*` in a value is a star.

    Raises:
        ConstraintError: No value, more than 4,096, or one that is no None, bool, int, finite float, str or bytes of exactly that type
            and at most 4,096 characters.
    """
    return OneOf(values)


def at_most(high: Number) -> Constraint:
    """A number (int, float or Decimal, no bool) that is not above `high`, compared by exact value.

    Raises:
        ConstraintError: `high` is no finite number.
    """
    return Range(None, _given(high))


def at_least(low: Number) -> Constraint:
    """A number (int, float or Decimal, no bool) that is not below `low`, compared by exact value.

    Raises:
        ConstraintError: `low` is no finite number.
    """
    return Range(_given(low), None)


def between(low: Number, high: Number) -> Constraint:
    """A number (int, float or Decimal, no bool) from `low` to `high`, both included, compared by exact value.

    Raises:
        ConstraintError: A bound is no finite number, or `low` is above `high`.
    """
    return Range(_given(low), _given(high))


def _given(bound: Number) -> Number:
    if bound is None:
        raise ConstraintError("a bound is a number, not None. Write at_most(100), at_least(1) or between(1, 100).")
    return bound


def within(*folders: str) -> Constraint:
    """A path beneath one of the folders, by its text alone: `within("reports/")` permits `reports/q3.txt`, not `reports/../secret.txt`.

    Whole segments count (`reports2/x` is not within `reports`), and the folder itself is not within it. What
    `retinue.security.paths.check_path` refuses is not permitted: `..`, `.`, empty segments, a trailing slash, encoded dots and slashes.
    A relative folder never contains an absolute path, nor the other way round. `within("/")` is every absolute path. Links are not
    followed here: open the file with `open_beneath`. A `pathlib` path counts as its text.

    Raises:
        ConstraintError: No folder, or a malformed one; a closing slash is optional.
    """
    return Within(folders)


def host(*names: str, schemes: Iterable[str] = DEFAULT_SCHEMES, ports: Iterable[int] = DEFAULT_PORT_LIST) -> Constraint:
    """A URL whose host is one of the names, and whose scheme and port are listed: by default https and 443 only.

    `api.example.com` is that host, `*.example.com` exactly one label more, `**.example.com` one or more, `**` every name of two or more
    labels. IP addresses are refused in every spelling; see `retinue.security.hosts.check_url` for all that is refused.

    Args:
        names: Hosts and patterns; non-ASCII names in punycode.
        schemes: Any of "https", "http", "wss", "ws".
        ports: Permitted ports; a URL without one counts with its scheme's own (443 or 80).

    Raises:
        ConstraintError: No name, a malformed one, or an unknown scheme or port.
    """
    if isinstance(schemes, str) or not isinstance(schemes, Iterable) or not isinstance(ports, Iterable):
        raise ConstraintError("schemes and ports of host() are lists. Write schemes=('https',), ports=(443,).")
    return Host(names, tuple(schemes), tuple(ports))


def max_length(most: int) -> Constraint:
    """A str, bytes, list, tuple or dict of at most `most` characters, bytes or items.

    Raises:
        ConstraintError: `most` is no whole number from 0 on.
    """
    return MaxLength(most)


def absent() -> Constraint:
    """The argument was not given, or is None."""
    return Absent()


def each(constraint: Constraint) -> Constraint:
    """A list or tuple of 1 to 10,000 elements, *all* of which satisfy the constraint. (Any other constraint fails on a list.)

    Raises:
        ConstraintError: `constraint` is none, or constraints are nested more than 8 deep.
    """
    return Each(constraint)


def any_of(*constraints: Constraint) -> Constraint:
    """At least one of the constraints holds. `any_of(absent(), at_most(5))` is an optional argument.

    Raises:
        ConstraintError: No constraint, something else than one, or constraints nested more than 8 deep.
    """
    return AnyOf(constraints)


def known_from(source: str) -> Constraint:
    """The value was added to the authority's source of this name (`system.authority.source(name)`), with exactly its type.

    A name that the authority has no source for permits nothing.

    Raises:
        ConstraintError: The name is malformed.
    """
    return KnownFrom(source)


def constraint_from_data(data: object) -> Constraint:
    """The constraint of which `to_data` made this data, or an equal one.

    Args:
        data: What a JSON reader returns; it may come from anywhere.

    Raises:
        ConstraintError: The data is anything else: an unknown kind, a key too many or too few, a wrong type.
    """
    return _parse(data, 0)


def _parse(data: object, depth: int) -> Constraint:
    if depth > MAX_NESTING:
        raise ConstraintError(f"constraints are nested more than {MAX_NESTING} deep.")
    if type(data) is not dict:
        raise ConstraintError(f"a constraint is an object with a 'kind', not this {type_name(data)}. Write it with to_data().")
    word = data.get("kind")
    kind = KINDS.get(word) if type(word) is str else None
    if kind is None:
        raise ConstraintError(f"there is no such kind of constraint; there are {', '.join(sorted(KINDS))}. Write it with to_data().")
    keys = kind.keys | {"kind"}
    if len(data) != len(keys) or any(type(key) is not str or key not in keys for key in data):
        raise ConstraintError(f"the constraint '{word}' has exactly the keys {', '.join(sorted(keys))}. Write it with to_data().")
    return kind._read(data, lambda inner: _parse(inner, depth + 1))
