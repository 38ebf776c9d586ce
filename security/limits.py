"""Limits: how long, how often, how much, how deep and how risky. Integers inside, each with a stated default; the meet is the minimum.

There is no None and no zero that means "unlimited": what is not limited has the largest number that fits, so that the minimum of two
limits is always the stricter one.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final, Literal, final

import attrs

from retinue.security.errors import ConstraintError

__all__ = [
    "DEFAULT_DEPTH",
    "NEVER",
    "NO_LIMITS",
    "RISKS",
    "UNLIMITED",
    "Limits",
    "Risk",
    "check_count",
    "cost_in_micro_usd",
    "risk_level",
    "shown",
]

UNLIMITED: Final = 2**63 - 1
"""Calls, tokens or micro-dollars that nobody counts."""

NEVER: Final = 2**63 - 1
"""The deadline of what does not expire, in milliseconds since 1970."""

DEFAULT_DEPTH: Final = 32
"""Levels of actors that may be spawned from one another."""

Risk = Literal["L0", "L1", "L2", "L3"]
"""How much harm an operation can do, from reading (L0) to what cannot be undone (L3)."""

RISKS: Final[tuple[Risk, ...]] = ("L0", "L1", "L2", "L3")

_DOLLARS: Final = re.compile(r"[0-9]{1,13}(?:\.[0-9]{1,6})?", re.ASCII)
_MOST_DIGITS: Final = 13  # before the point
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def shown(value: object) -> str:
    """A value for an error's text: plain scalars, cut; of anything else the type."""
    if type(value) in (int, float, str, bool, Decimal):
        try:
            text = repr(value)
        except ValueError:  # Python shows no int of more than 4,300 digits
            return "an int of too many digits"
        return text if len(text) <= 60 else f"{text[:60]}…"
    return f"an object of type {type(value).__name__}"


def check_count(value: object, what: str) -> int:
    """A whole number from 0 to 2**63 - 1.

    Raises:
        ConstraintError: It is something else; a `bool` or a `float` too, whatever its value.
    """
    if type(value) is not int or not 0 <= value <= UNLIMITED:
        raise ConstraintError(f"{what} is a whole number (an int) from 0 to 2**63 - 1, not {shown(value)}.")
    return value


def cost_in_micro_usd(value: object) -> int:
    """An amount of US dollars in millionths.

    Raises:
        ConstraintError: It is no exact `Decimal`, `str` or `int`, negative, too large, or has more than six decimals.
    """
    kind = type(value)
    if kind is not Decimal and kind is not str and kind is not int:
        raise ConstraintError(
            f"a cost in US dollars is a str, a Decimal or an int, not {shown(value)}: a float is not exact. Write cost_usd='0.50'."
        )
    if type(value) is not str or _DOLLARS.fullmatch(value):
        # Digit by digit: what a Decimal's operators do depends on the thread's context.
        negative, digits, exponent = Decimal(value).as_tuple()  # type: ignore[arg-type]
        if type(exponent) is int and exponent >= -6 and not negative and len(digits) + exponent <= _MOST_DIGITS:
            micro: int = int("".join(map(str, digits))) * 10 ** (exponent + 6)
            if micro <= UNLIMITED:
                return micro
    raise ConstraintError(
        f"a cost in US dollars is at least 0, below 9.2 * 10**12, and has six decimals at most; {shown(value)} is not such a number."
    )


def risk_level(risk: object) -> int:
    """The number of a risk level: 0 for "L0" to 3 for "L3".

    Raises:
        ConstraintError: It is none of the four.
    """
    if type(risk) is str and risk in RISKS:
        return RISKS.index(risk)
    raise ConstraintError(f"a risk is one of 'L0' (reads), 'L1', 'L2' and 'L3' (cannot be undone), not {shown(risk)}.")


def _checked_count(_: object, attribute: attrs.Attribute[int], value: object) -> None:
    check_count(value, f"the limit {attribute.name}")


def _checked_depth(_: object, _attribute: attrs.Attribute[int], value: object) -> None:
    if check_count(value, "the limit depth") > DEFAULT_DEPTH:
        raise ConstraintError(f"the limit depth is {DEFAULT_DEPTH} at most, not {value}.")


def _checked_risk(_: object, _attribute: attrs.Attribute[int], value: object) -> None:
    if check_count(value, "the limit risk") > 3:
        raise ConstraintError(f"the limit risk is a number from 0 (L0) to 3 (L3), not {value}.")


@final
@attrs.frozen(kw_only=True, repr=False)
class Limits:
    """The limits of a permission set.

    Attributes:
        deadline_ms: When it expires, in milliseconds since 1970, UTC; default `NEVER`.
        calls: Gated messages, attempts included; default `UNLIMITED`.
        tokens: Tokens of language models; default `UNLIMITED`.
        cost_micro_usd: Cost in millionths of a US dollar; default `UNLIMITED`.
        depth: Levels of actors that may still be spawned below; default 32, and never more.
        risk: The highest risk level of an operation that is permitted; default 3, which is L3 and thus any.

    Raises:
        ConstraintError: A number is out of range, or is no exact `int`.
    """

    deadline_ms: int = attrs.field(default=NEVER, validator=_checked_count)
    calls: int = attrs.field(default=UNLIMITED, validator=_checked_count)
    tokens: int = attrs.field(default=UNLIMITED, validator=_checked_count)
    cost_micro_usd: int = attrs.field(default=UNLIMITED, validator=_checked_count)
    depth: int = attrs.field(default=DEFAULT_DEPTH, validator=_checked_depth)
    risk: int = attrs.field(default=3, validator=_checked_risk)

    def meet(self, other: Limits) -> Limits:
        """The stricter of the two in each respect; `self` where the other is nowhere stricter, `other` where it is everywhere."""
        if other is self or other is NO_LIMITS:
            return self
        if self is NO_LIMITS:
            return other
        mine = (self.deadline_ms, self.calls, self.tokens, self.cost_micro_usd, self.depth, self.risk)
        theirs = (other.deadline_ms, other.calls, other.tokens, other.cost_micro_usd, other.depth, other.risk)
        met = tuple(map(min, mine, theirs))
        if met == mine:
            return self
        return other if met == theirs else _made(met)

    def until(self, deadline_ms: int) -> Limits:
        """The same with this deadline, an `int` from 0 to 2**63 - 1, where it is earlier than the present one."""
        if deadline_ms >= self.deadline_ms:
            return self
        return _made((deadline_ms, self.calls, self.tokens, self.cost_micro_usd, self.depth, self.risk))

    def spends_less_than(self, other: Limits) -> bool:
        """Whether calls, tokens or cost are limited further than by `other`: then they take an account of their own."""
        return self.calls < other.calls or self.tokens < other.tokens or self.cost_micro_usd < other.cost_micro_usd

    @property
    def texts(self) -> list[str]:
        """The limits that differ from the defaults, each as it would be typed."""
        parts = [f"{name}={getattr(self, name)}" for name in ("calls", "tokens") if getattr(self, name) != UNLIMITED]
        if self.cost_micro_usd != UNLIMITED:
            parts.append(f"cost_usd='{decimal_text(self.cost_micro_usd, 6)}'")
        if self.depth != DEFAULT_DEPTH:
            parts.append(f"depth={self.depth}")
        found = [f"limit({', '.join(parts)})"] if parts else []
        if self.deadline_ms != NEVER:
            found.append(f"expires(at={moment(self.deadline_ms)})")
        if self.risk != 3:
            found.append(f"max_risk('{RISKS[self.risk]}')")
        return found

    def to_data(self) -> dict[str, int]:
        """The limits that differ from the defaults, as plain data."""
        return {name: getattr(self, name) for name in _NAMES if getattr(self, name) != getattr(NO_LIMITS, name)}

    def __repr__(self) -> str:
        return f"Limits({', '.join(self.texts)})"


NO_LIMITS: Final = Limits()
"""The limits that limit nothing; depth 32."""

_NAMES: Final = tuple(field.name for field in attrs.fields(Limits))

_SET: Final[list[Callable[[object, Any], None]]] = [Limits.__dict__[name].__set__ for name in _NAMES]


def _made(values: tuple[int, ...]) -> Limits:
    """Limits from numbers that were checked before, several times as fast: each message under a context that expires may need one."""
    made: Limits = object.__new__(Limits)
    for put, value in zip(_SET, values, strict=True):
        put(made, value)
    return made


def limits_from_data(data: object) -> Limits:
    """The exact inverse of `Limits.to_data`.

    Raises:
        ConstraintError: It is no such mapping: an unknown name, a number out of range, a default that need not stand there.
    """
    if not isinstance(data, Mapping):
        raise ConstraintError(f"limits are a mapping of names to numbers, not {shown(data)}.")
    for name in data:
        if type(name) is not str or name not in _NAMES:
            raise ConstraintError(f"there is no limit {shown(name)}; there are {', '.join(_NAMES)}.")
    limits = Limits(**data)
    if len(limits.to_data()) != len(data):
        raise ConstraintError("a limit that limits nothing is left out of the data.")
    return limits if data else NO_LIMITS


def decimal_text(value: int, places: int) -> str:
    """`value` divided by ten to the power of `places`, exactly, without zeros at the end."""
    whole, rest = divmod(value, 10**places)
    return f"{whole}.{rest:0{places}}".rstrip("0").rstrip(".")


def moment(epoch_ms: int) -> str:
    """A time for people: ISO 8601 in UTC, or the number itself where no calendar reaches."""
    try:
        return (_EPOCH + datetime.timedelta(milliseconds=epoch_ms)).isoformat(timespec="milliseconds")
    except OverflowError:
        return f"{epoch_ms} ms after 1970"


def epoch_ms(at: object) -> int:
    """Milliseconds since 1970 of an aware datetime, rounded down.

    Raises:
        ConstraintError: It is no aware `datetime.datetime`, or before 1970.
    """
    if not isinstance(at, datetime.datetime) or at.utcoffset() is None:
        raise ConstraintError(
            f"expires(at=…) is a datetime with a time zone, not {shown(at)}"
            f"{' without one' if isinstance(at, datetime.datetime) else ''}. Write datetime.now(timezone.utc) + timedelta(minutes=5)."
        )
    return check_count((at - _EPOCH) // datetime.timedelta(milliseconds=1), "the time of expires(at=…), in ms since 1970,")
