"""Members that are offered to whom they may hand over: agents are, and a team, or what is no agent, takes messages alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from retinue.actors.agents.errors import BadInput
from retinue.actors.agents.message import Run
from retinue.actors.agents.specs import takes
from retinue.mailbox.errors import Unhandled

if TYPE_CHECKING:
    from retinue.actors.agents.handoffs import Handoff
    from retinue.actors.agents.message import AgentMessage
    from retinue.actors.agents.teams.team_run import TeamRun
    from retinue.actors.runtime.ref import Ref

__all__ = ["Handing", "refuses_handoffs"]


class Handing:
    """Asks of one run that offer handoffs.

    Args:
        run: The run.
    """

    __slots__ = ("_nothing", "_run")

    def __init__(self, run: TeamRun) -> None:
        self._run = run
        self._nothing: set[str] = set()

    async def ask(self, member: str, said: AgentMessage, handoffs: Iterable[Handoff], timeout: float | None = None) -> AgentMessage:
        """Asks a member. One that takes no handoffs is asked without them, and hands over by what it answers. Raises what `run.ask` does."""
        run = self._run
        if handoffs and member not in self._nothing:
            try:
                return await run.ask(member, said, timeout=timeout, handoffs=handoffs)
            except (Unhandled, BadInput):
                if member not in run.journal.hands_nothing:  # it has begun with something, and that is not done twice
                    raise
                self._nothing.add(member)
        return await run.ask(member, said, timeout=timeout)


def refuses_handoffs(error: Exception, ref: Ref[Any], request: object) -> bool:
    """Whether an error is the refusal of handoffs, by the one that was asked itself, which has done nothing then."""
    if not isinstance(request, Run) or not request.handoffs:
        return False
    if isinstance(error, Unhandled):
        return not takes(ref, Run)
    return isinstance(error, BadInput) and error.option == "handoffs" and error.path == ref.path
