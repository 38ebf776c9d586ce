"""What a team's session is at rest: one immutable value, which a run replaces at its end and never changes."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import attrs

from retinue.actors.agents.leaving import NOBODY, Left, Owner
from retinue.actors.agents.message import AgentMessage, Step
from retinue.actors.agents.teams.journal import Journal
from retinue.actors.agents.teams.tree_limits import TreeLimits
from retinue.security.approvals import ApprovalRequest

__all__ = ["NEW", "ParkedTeam", "TeamState"]

NOTHING: Mapping[str, Any] = MappingProxyType({})


@attrs.frozen(kw_only=True)
class ParkedTeam:
    """A team's run while people decide: what is needed to run it again.

    Attributes:
        id: The run's id.
        message: What the team was told.
        journal: What it was answered.
        limits: What is left of its limits.
        wait, exit_at: As the run was asked for.
        owner: For whom it goes.
    """

    id: str
    message: AgentMessage
    journal: Journal
    limits: tuple[TreeLimits, ...] = ()
    wait: bool | None = None
    exit_at: int | str | None = None
    owner: Owner = NOBODY

    @property
    def requests(self) -> tuple[ApprovalRequest, ...]:
        """What people are asked."""
        return tuple(dict.fromkeys(request for one in self.journal.waiting for request in one.requests))

    @property
    def asked(self) -> tuple[str, ...]:
        """The ids of what people are asked for what the run has said itself."""
        return self.journal.asked

    def left(self, subject: str | None = None, tenant: str | None = None) -> Left:
        """What is left of it where nobody goes on with it. The arguments are those of `Cancel`."""
        return attrs.evolve(self.journal.left(self.owner, subject, tenant), runs=(self.id,))


@attrs.frozen
class TeamState:
    """What a team's session remembers.

    Attributes:
        items: Messages, oldest first.
        parked: The runs that wait for a decision, by id; at most one.
        data: What `run.state` was at the end of the last run.
    """

    __immutable__ = True

    items: tuple[AgentMessage | Step, ...] = ()
    parked: Mapping[str, ParkedTeam] = NOTHING
    data: Mapping[str, Any] = NOTHING


NEW = TeamState()
