"""What a hook or a guardrail may decide: to go on, to put something else in its place, or to block. There is nothing else.

A set that is closed on purpose: where any truthy answer allowed, a slip ("retry", `0`, `{}`, "allowed: no") would let through what it was written to stop.
"""

from __future__ import annotations

from typing import Any, Final, Generic, TypeAlias, TypeVar, final

import attrs

__all__ = ["CONTINUE", "Block", "Choice", "Continue", "Replace", "choice_of"]

T = TypeVar("T")


@final
@attrs.frozen
class Continue:
    """Go on with what there is. `None` and `True` mean the same."""


@final
@attrs.frozen
class Replace(Generic[T]):
    """Go on with this in its place.

    Attributes:
        payload: What takes the place of the whole payload; also where it is empty.
    """

    payload: T


@final
@attrs.frozen
class Block:
    """Stop here. `False` means the same, and so does a `str`, which is the reason.

    Attributes:
        reason: Why, for the person or the model that is told; it should not quote what was blocked.
    """

    reason: str = ""


Choice: TypeAlias = Continue | Replace[Any] | Block

CONTINUE: Final = Continue()


def choice_of(answer: object) -> Choice | None:
    """The decision that an answer is, or None where it is none: an unknown one, which whoever asked has to treat as a failure."""
    if answer is None or answer is True:
        return CONTINUE
    if answer is False:
        return Block()
    if isinstance(answer, Continue | Replace | Block):
        return answer
    if isinstance(answer, str):
        return Block(str(answer))
    return None
