"""What a session is at rest: one immutable value, which a run replaces at its end and never changes."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import attrs

from retinue.actors.agents.message import AgentMessage, RunLimits, Step
from retinue.actors.llm.messages import ToolCall
from retinue.actors.llm.usage import Usage
from retinue.security.approvals import ApprovalRequest

__all__ = ["EMPTY", "ParkedCall", "ParkedRun", "SessionState"]


@attrs.frozen
class ParkedCall:
    """A tool call that waits for a person.

    Attributes:
        call: The call as the model wrote it.
        request: What was asked for it (without the token).
    """

    __immutable__ = True

    call: ToolCall
    request: ApprovalRequest


@attrs.frozen(kw_only=True)
class ParkedRun:
    """A run between a tool call that needs a person and the decision: everything that is needed to go on.

    Attributes:
        id: The run's id: the session's name, "/", and a random word.
        items: The run's own items: its message first, then its steps, the results of the other calls of the last reply among them.
        calls: All calls of the last reply, in order; those without a result are in `waiting`.
        waiting: The calls that wait, by call id.
        usage: What the run has used.
        counts: What it has used of its limits, by the limit's name.
        limits: Its limits.
        tools: The tools given for this run only.
        turn: The number of the run in its session.
    """

    id: str
    items: tuple[AgentMessage | Step, ...]
    calls: tuple[ToolCall, ...]
    waiting: tuple[ParkedCall, ...]
    usage: Usage
    counts: tuple[int, int, int]
    limits: RunLimits
    tools: tuple[Any, ...] = ()
    turn: int = 0


_NONE: Mapping[str, ParkedRun] = MappingProxyType({})


@attrs.frozen
class SessionState:
    """What a session remembers.

    Attributes:
        items: Messages and steps, oldest first.
        parked: The runs that wait for a decision, by id.
        turn: How many runs there were.
    """

    __immutable__ = True

    items: tuple[AgentMessage | Step, ...] = ()
    parked: Mapping[str, ParkedRun] = _NONE
    turn: int = 0


EMPTY = SessionState()
