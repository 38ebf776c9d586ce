"""Permissions and restrictions as they are typed on the command line: --allow, --deny, --where, limits and times."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, Final, TypeVar

import attrs
import click

if TYPE_CHECKING:
    from retinue.security.constraints import Constraint
    from retinue.security.restrictions import Permission, Restriction

__all__ = ["Restrictions", "constraint_of", "restriction_options", "seconds_of"]

F = TypeVar("F", bound=Callable[..., Any])

_DURATION: Final = re.compile(r"(?P<number>[0-9]{1,9}(?:\.[0-9]{1,3})?)(?P<unit>[smhd]?)")
_UNITS: Final = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}

_WHERE: Final = re.compile(
    r"""(?:(?P<pattern>[^:\s]+):(?!=))?(?P<argument>[A-Za-z_][A-Za-z0-9_]*)\s*
    (?P<sign>\s(?:within|host|max_length|absent)\b|:=|<=|>=|=)\s*(?P<value>.*)""",
    re.VERBOSE | re.DOTALL,
)


@attrs.frozen
class Restrictions:
    """What was typed.

    Attributes:
        patterns: Patterns of operations that are permitted; None where nothing was said about that.
        others: Everything else: each restriction must permit, too.
    """

    patterns: tuple[str, ...] | None
    others: tuple[Restriction, ...]

    @property
    def permissions(self) -> list[Permission]:
        """As `mint` takes them."""
        return [*(self.patterns or ()), *self.others]


def restriction_options(command: F) -> F:
    """Adds the options, as the one parameter `restrictions`."""

    def gathered(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(allow: tuple[str, ...], deny: tuple[str, ...], where: tuple[str, ...], ask: tuple[str, ...], **rest: Any) -> Any:
            limits = {name: rest.pop(name) for name in ("calls", "tokens", "cost_usd")}
            return function(restrictions=_restrictions(allow, deny, where, ask, limits), **rest)

        call.__doc__ = function.__doc__
        call.__name__ = function.__name__
        call.__click_params__ = getattr(function, "__click_params__", [])  # type: ignore[attr-defined]  # where click keeps the options so far
        return call

    made: Any = gathered(command)
    for option in (
        click.option("--cost-usd", metavar="DOLLARS", help="Cost of language models that may be spent, such as 0.50."),
        click.option("--tokens", type=click.IntRange(0), help="Tokens of language models that may be used."),
        click.option("--calls", type=click.IntRange(0), help="Messages that require an operation that may be sent."),
        click.option(
            "--needs-approval", "ask", multiple=True, metavar="PATTERN", help="Operations that a person has to consent to. May be repeated."
        ),
        click.option(
            "--where",
            "where",
            multiple=True,
            metavar="PATTERN:ARG…",
            help="What an argument must be: 'pay.*:amount<=100', 'pay.*:to=ACME', 'pay.*:to:=[\"ACME\",\"EVE\"]' (one of, JSON), 'fs.read:path within reports/', "
            "'web.get:url host api.example.com', 'mail.send:text max_length 500', 'mail.send:bcc absent'. May be repeated; all must hold.",
        ),
        click.option("--deny", multiple=True, metavar="PATTERN", help="Operations that are refused. May be repeated."),
        click.option("--allow", multiple=True, metavar="PATTERN", help="Operations that are permitted, such as 'shop.*'. May be repeated."),
    ):
        made = option(made)
    return made  # type: ignore[no-any-return]


def seconds_of(_context: click.Context, _parameter: click.Parameter, text: str | None) -> float | None:
    """A duration: `90`, `90s`, `15m`, `1h`, `7d`."""
    if text is None:
        return None
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise click.BadParameter(f"{text!r} is no duration: write 90s, 15m, 1h or 7d")
    seconds = float(match["number"]) * _UNITS[match["unit"]]
    if not seconds > 0:
        raise click.BadParameter("it would be over at once: write 90s, 15m, 1h or 7d")
    return seconds


def _restrictions(
    allow: tuple[str, ...], deny: tuple[str, ...], where: tuple[str, ...], ask: tuple[str, ...], limits: dict[str, Any]
) -> Restrictions:
    from retinue.security import restrictions as made
    from retinue.security.errors import AuthorityError
    from retinue.security.operations import Pattern

    others: list[Restriction] = []
    try:
        for pattern in allow:
            Pattern(pattern)
        if deny:
            others.append(made.deny(*deny))
        for text in where:
            where_pattern, argument, constraint = constraint_of(text)
            if where_pattern is None:
                raise click.UsageError(f"--where {text[:100]!r}: write PATTERN:ARGUMENT and what it must be, such as 'pay.*:amount<=100'")
            others.append(made.where(where_pattern, arguments={argument: constraint}))
        if ask:
            others.append(made.needs_approval(*ask))
        given = {name: value for name, value in limits.items() if value is not None}
        if given:
            others.append(made.limit(**given))
    except AuthorityError as error:
        raise click.UsageError(str(error)) from None
    return Restrictions(allow or None, tuple(others))


def constraint_of(text: str) -> tuple[str | None, str, Constraint]:
    """A constraint as it is typed: `pay.*:amount<=100`, or without the pattern of operations; the pattern, the argument's name, the constraint.

    Raises:
        click.UsageError: It is none.
        ConstraintError: Its values are none for it.
    """
    from retinue.security import constraints as made

    match = _WHERE.fullmatch(text.strip())
    if match is None:
        raise click.UsageError(f"--where {text[:100]!r}: write PATTERN:ARGUMENT and what it must be, such as 'pay.*:amount<=100'")
    sign, value = match["sign"].strip(), match["value"].strip()
    constraint: Constraint
    if sign == "<=":
        constraint = made.at_most(_number(text, value))
    elif sign == ">=":
        constraint = made.at_least(_number(text, value))
    elif sign == "=":
        constraint = made.one_of(value)
    elif sign == ":=":
        found = _json(text, value)
        constraint = made.one_of(*(found if isinstance(found, list) else [found]))
    elif sign == "within":
        constraint = made.within(*value.split())
    elif sign == "host":
        constraint = made.host(*value.split())
    elif sign == "max_length":
        most = _number(text, value)
        if not isinstance(most, int):
            raise click.UsageError(f"--where {text[:100]!r}: max_length takes a whole number")
        constraint = made.max_length(most)
    else:
        if value:
            raise click.UsageError(f"--where {text[:100]!r}: nothing follows 'absent'")
        constraint = made.absent()
    return match["pattern"], match["argument"], constraint


def _number(text: str, value: str) -> int | Decimal:
    try:
        return int(value) if re.fullmatch(r"[+-]?[0-9]{1,1000}", value) else Decimal(value)
    except InvalidOperation:
        raise click.UsageError(f"--where {text[:100]!r}: {value[:40]!r} is no number") from None


def _json(text: str, value: str) -> Any:
    from retinue.mailbox.errors import WireError
    from retinue.mailbox.wire_json import Limits, parse

    try:
        return parse(value.encode("utf-8", "surrogatepass"), Limits())
    except WireError as error:
        raise click.UsageError(f"--where {text[:100]!r}: {error}; a text is written with quotes, or after '='") from None
