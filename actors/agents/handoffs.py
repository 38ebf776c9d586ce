"""Handoffs as data: whom a run may hand the conversation over to, and one that is about to happen."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import Any, ClassVar, Final

import attrs

from retinue.security.spelling import names_the_nearest

__all__ = ["HANDOFF", "MOST", "PREFIX", "HandOver", "Handoff", "handoffs_of", "tool_name_of"]

HANDOFF: Final = "handoff"
"""The type of an answer that hands the conversation over (`AgentMessage.type`)."""

PREFIX: Final = "transfer_to_"

LONGEST_TARGET: Final = 128
"""Characters of a target's name."""

LONGEST_NAME: Final = 64
"""Characters of a tool's name that providers take."""

MOST: Final = 128
"""Handoffs of one run: as many tools as endpoints take."""

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}", re.ASCII)
_ODD: Final = re.compile(r"[^A-Za-z0-9_ -]", re.ASCII)


@names_the_nearest
@attrs.frozen
class Handoff:
    """Somebody to whom a run may hand the conversation over: its model sees a tool for it, and the call of it ends the run.

        answer = await agent.ask(rt.Run("I want my money back", handoffs=[rt.Handoff("billing", "Invoices and refunds")]))
        if answer.type == "handoff":
            answer.receiver  # "billing"

    Attributes:
        target: Its exact name, of 128 characters at most.
        description: What it is there for, told to the model.
        tool_name: What the model calls; default "transfer_to_" and the target, with "_" for blanks, and for whatever else is not of A-Z a-z 0-9 _ - (then with a
            digest of the name, so that no two share one).

    Raises TypeError or ValueError for what is none of these.
    """

    __immutable__: ClassVar[bool] = True

    target: str
    description: str = ""
    tool_name: str = ""

    def __attrs_post_init__(self) -> None:
        for field in ("target", "description", "tool_name"):
            value = getattr(self, field)
            if not isinstance(value, str):
                raise TypeError(f"Handoff.{field} is a {type(value).__name__}: give a str")
        if not 1 <= len(self.target) <= LONGEST_TARGET or self.target.isspace():
            raise ValueError(f"Handoff(target={self.target!r:.150}): give a name of 1 to {LONGEST_TARGET} characters")
        if not self.tool_name:
            object.__setattr__(self, "tool_name", tool_name_of(self.target))
        elif not _NAME.fullmatch(self.tool_name):
            raise ValueError(
                f"Handoff(tool_name={self.tool_name!r:.150}): give a name of A-Z a-z 0-9 _ -, a letter or _ first, {LONGEST_NAME} characters at most"
            )


@attrs.frozen
class HandOver:
    """A handoff that is about to happen: the payload of the phase "on_handoff".

    Attributes:
        source: Who hands over.
        target: To whom.
        reason: Why, in the model's words.
        message: What the next one is told.
    """

    __immutable__: ClassVar[bool] = True

    source: str
    target: str
    reason: str = ""
    message: str = ""


def tool_name_of(target: str) -> str:
    """What a model calls to hand over to a target."""
    plain = _ODD.sub("_", target)
    name = PREFIX + plain.replace(" ", "_")
    if len(name) > LONGEST_NAME or plain != target:
        digest = hashlib.sha256(target.encode("utf-8", "surrogatepass")).hexdigest()[:8]
        name = f"{name[: LONGEST_NAME - 9]}_{digest}"
    return name


def handoffs_of(given: Iterable[Any]) -> tuple[Handoff, ...]:
    """The handoffs of a run; a str is the name of a target.

    Raises:
        TypeError, ValueError: They are none, too many, or two of them are called by one name.
    """
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise TypeError(f'handoffs= is a {type(given).__name__}: give a sequence, handoffs=[rt.Handoff("billing")]')
    found: list[Handoff] = []
    names: dict[str, str] = {}
    for one in given:
        handoff = Handoff(one) if isinstance(one, str) else one
        if not isinstance(handoff, Handoff):
            raise TypeError(f'handoffs= holds a {type(one).__name__}: give rt.Handoff("billing"), or the name of a target')
        other = names.get(handoff.tool_name)
        if other is not None:
            raise ValueError(
                f"handoffs to {other!r} and {handoff.target!r} are both called by {handoff.tool_name!r}, and a model could not tell them apart: give one "
                f"another name, rt.Handoff({handoff.target!r}, tool_name=…)"
            )
        names[handoff.tool_name] = handoff.target
        found.append(handoff)
    if len(found) > MOST:
        raise ValueError(f"handoffs= holds {len(found)} of them: no model chooses among more than {MOST}")
    return tuple(found)
