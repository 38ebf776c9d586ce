"""The options of a tool: what a call of it needs, and how it is run."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar, Final, Literal, TypeAlias

import attrs

from retinue.capabilities.cases import ApprovalRule
from retinue.security.errors import DefinitionError
from retinue.security.limits import RISKS, Risk
from retinue.security.operations import check_operation

__all__ = ["OPTION_NAMES", "Loop", "ToolOptions"]

Loop: TypeAlias = Literal["trio", "asyncio"]
LOOPS: Final[tuple[Loop, ...]] = ("trio", "asyncio")

SMALLEST_OUTPUT: Final = 200
"""Characters: less than that holds no head and tail that say anything."""

MOST_AT_ONCE: Final = 1_024


def _option(name: str, value: object, wanted: str) -> DefinitionError:
    return DefinitionError(f"tool({name}=…) is {wanted}, not {value!r}")


def _flag(_: object, field: attrs.Attribute[Any], value: object) -> None:
    if type(value) is not bool:
        raise _option(field.name, value, "True or False")


def _requires(value: object) -> str | None:
    return None if value is None else check_operation(value)  # type: ignore[arg-type]  # refuses what is none


def _approval(value: object) -> ApprovalRule:
    if isinstance(value, bool) or callable(value):
        return value
    raise _option(
        "approval", value, "True, False, or a function of the call's message of which only a literal False means that nobody is asked"
    )


def _risk(value: object) -> Risk | None:
    if value is None or (type(value) is str and value in RISKS):
        return value
    raise _option("risk", value, f"one of {', '.join(map(repr, RISKS))}, or None")


def _timeout(value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
        return float(value)
    raise _option("timeout", value, "a number of seconds above zero, or math.inf for a tool that may run for ever")


def _blocking(value: object) -> bool | None:
    if value is None or type(value) is bool:
        return value
    raise _option(
        "blocking", value, "True (in a thread), False (in the loop), or None (a plain `def` in a thread, an `async def` in the loop)"
    )


def _loop(value: object) -> Loop:
    for loop in LOOPS:
        if value == loop:
            return loop
    raise _option("loop", value, "'trio' or 'asyncio'")


def _whole(least: int, most: float) -> Callable[[object, attrs.Attribute[Any], object], None]:
    def check(_: object, field: attrs.Attribute[Any], value: object) -> None:
        if type(value) is not int or not least <= value <= most:
            raise _option(field.name, value, f"a whole number from {least:,}{'' if most == math.inf else f' to {most:,}'}")

    return check


@attrs.frozen(kw_only=True)
class ToolOptions:
    """The options that `tool` takes, checked.

    Attributes:
        requires: The operation that a call needs. None: `tool.<name>`.
        approval: Whether each call needs a person's consent, or a function of the call's message that says so. Default False.
        risk: How much harm a call can do, "L0" (reads) to "L3" (cannot be undone); None: not said.
        four_eyes: Whether that person has to be another than whoever the call is for; only with `approval`. Default False.
        timeout: Seconds that one call may take, `math.inf` for no bound. Default 60.
        blocking: Whether the function runs in a thread. None: a plain `def` does, an `async def` does not.
        loop: Of an `async def` that needs asyncio: "asyncio". Default "trio".
        process: Whether each call runs in a process of its own, which dies with all its children at the time-out. Default False.
        idempotent: Whether a call may be made twice without harm, so that one with an unknown outcome may be made again. Default False.
        output_limit: Characters of output that the model gets of one call; what is beyond is kept as an artifact. Default 30,000.
        concurrency: Calls that run at the same time. Default 64.

    Raises:
        DefinitionError: An option is of the wrong kind, or two do not go together.
        PatternError: `requires` is no operation.
    """

    __immutable__: ClassVar[bool] = True

    requires: str | None = attrs.field(default=None, converter=_requires)
    approval: ApprovalRule = attrs.field(default=False, converter=_approval)
    risk: Risk | None = attrs.field(default=None, converter=_risk)
    four_eyes: bool = attrs.field(default=False, validator=_flag)
    timeout: float = attrs.field(default=60.0, converter=_timeout)
    blocking: bool | None = attrs.field(default=None, converter=_blocking)
    loop: Loop = attrs.field(default="trio", converter=_loop)
    process: bool = attrs.field(default=False, validator=_flag)
    idempotent: bool = attrs.field(default=False, validator=_flag)
    output_limit: int = attrs.field(default=30_000, validator=_whole(SMALLEST_OUTPUT, math.inf))
    concurrency: int = attrs.field(default=64, validator=_whole(1, MOST_AT_ONCE))

    def __attrs_post_init__(self) -> None:
        if self.four_eyes and self.approval is False:
            raise DefinitionError("tool(four_eyes=True) says whose consent is needed, and not that it is: write approval=True beside it")


OPTION_NAMES: Final = tuple(field.name for field in attrs.fields(ToolOptions))
