"""What a session is at rest: one immutable value, which a run replaces at its end and never changes."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import attrs

from retinue.actors.agents.handoffs import Handoff
from retinue.actors.agents.leaving import NOBODY, Left, Owner, left_of
from retinue.actors.agents.message import AgentMessage, RunLimits, Step
from retinue.actors.agents.teams.tree_limits import TreeLimits
from retinue.actors.llm.messages import ToolCall
from retinue.actors.llm.usage import Usage
from retinue.capabilities.looping import LoopDetector
from retinue.capabilities.tool_results import ToolResult
from retinue.mailbox.constructors import quicken
from retinue.security.approvals import ApprovalRequest

if TYPE_CHECKING:
    from retinue.actors.runtime.ref import Ref

__all__ = ["EMPTY", "NONE", "ParkedCall", "ParkedRun", "SessionState"]


@attrs.frozen
class ParkedCall:
    """A tool call that waits for a person.

    Attributes:
        call: The call as the model wrote it.
        requests: What was asked for it (without tokens).
        begun: Whether it was begun after a consent; one that was begun and has no result may or may not have been done.
        result: What came of it, where hooks have not let it pass yet.
        inner: The run that is parked in the agent that the tool stands for.
        agent: That agent.
        consented: Whether people have consented, and it waits for the run of another call in the same agent only.
    """

    __immutable__ = True

    call: ToolCall
    requests: tuple[ApprovalRequest, ...]
    begun: bool = False
    result: ToolResult | None = None
    inner: str | None = None
    agent: Ref[Any] | None = None
    consented: bool = False


@attrs.frozen(kw_only=True)
class ParkedRun:
    """A run between a tool call that needs a person and the decision: everything that is needed to go on.

    Attributes:
        id: The run's id: the session's name, "/", and a random word.
        items: The run's own items until now: its message first, the reply with the calls last.
        results: The results of those calls that have one, by call id.
        waiting: The calls that wait, in call order.
        spent: What the run has used of its limits: model calls, tool calls, bad calls.
        usage: What the run's model calls used.
        limits: Its limits.
        tools: The tools given for this run only.
        turn: The number of the run in its session.
        has_artifacts: As in `SessionState`.
        detector, past: What watches for calls that are made again and again, and the calls that it has not looked at yet.
        tries: How many answers did not fit the output's type.
        handoffs: To whom it may hand over.
        tree: What is left of the limits for it and all that it sets going; None where it has none.
        owner: For whom it goes.
    """

    id: str
    items: tuple[AgentMessage | Step, ...]
    results: Mapping[str, Step]
    waiting: tuple[ParkedCall, ...]
    spent: tuple[int, int, int]
    usage: Usage | None
    limits: RunLimits
    tools: tuple[Any, ...] = ()
    turn: int = 0
    has_artifacts: bool = False
    detector: LoopDetector | None = None
    past: tuple[tuple[str, str, str], ...] = ()
    tries: int = 0
    handoffs: tuple[Handoff, ...] = ()
    tree: TreeLimits | None = None
    owner: Owner = NOBODY

    @property
    def requests(self) -> tuple[ApprovalRequest, ...]:
        """What people are asked."""
        return tuple(request for waiting in self.waiting if not waiting.consented for request in waiting.requests)

    @property
    def asked(self) -> tuple[str, ...]:
        """The ids of what people are asked for its own calls, and not for those of agents within."""
        return tuple(request.id for waiting in self.waiting if waiting.inner is None for request in waiting.requests)

    def left(self, subject: str | None = None, tenant: str | None = None) -> Left:
        """What is left of it where nobody goes on with it. The arguments are those of `Cancel`."""
        return attrs.evolve(left_of(self.waiting, self.owner, subject, tenant), runs=(self.id,))


NONE: Mapping[str, ParkedRun] = MappingProxyType({})
"""No parked runs."""


@attrs.frozen
class SessionState:
    """What a session remembers.

    Attributes:
        items: Messages and steps, oldest first.
        parked: The runs that wait for a decision, by id; at most one.
        turn: How many runs there were.
        has_artifacts: Whether a tool's output was too long for the model, so that it may want to read on.
    """

    __immutable__ = True

    items: tuple[AgentMessage | Step, ...] = ()
    parked: Mapping[str, ParkedRun] = NONE
    turn: int = 0
    has_artifacts: bool = False


quicken(SessionState)

EMPTY = SessionState()
