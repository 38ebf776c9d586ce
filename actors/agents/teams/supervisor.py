"""A lead that gives work to workers, and sums up what they did."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import attrs

from retinue.actors.agents.agent_tools import agent_tool
from retinue.actors.agents.message import AgentMessage
from retinue.actors.agents.teams.fallback import RETRIES, SECONDS, Fallback
from retinue.actors.agents.teams.members import Member, checked_single, read_members
from retinue.actors.agents.teams.outcomes import checked_number, checked_seconds
from retinue.actors.agents.teams.team import Team
from retinue.security.errors import DefinitionError

if TYPE_CHECKING:
    from retinue.actors.agents.specs import AgentSpec
    from retinue.actors.agents.teams.team_run import TeamRun
    from retinue.actors.runtime.ref import Ref

__all__ = ["Supervisor"]

LEAD: Final = "lead"

AFTER: Final = 10.0
"""Seconds after the last try of a worker, in which its failure reaches the lead as what it is."""

PREFIX: Final = "ask_"
"""What the lead's tools are called, before the workers' names."""


class Supervisor(Team):
    """A lead that gives work to workers, and sums up what they did.

        team = await system.spawn(
            rt.Supervisor,
            lead=rt.Agent.spec(model=model, instructions="Give each worker what is its work, then write the report."),
            workers={"research": rt.Agent.spec(model=model, description="Finds facts"), "figures": rt.Agent.spec(model=model, description="Computes")},
        )

    The lead's model sees a tool for each worker (`ask_research(message)`); workers that it calls in one reply work at the same time, each in the run's session. A worker
    that does not answer in time, or has died, is asked again, as `Fallback` does; what fails all the same is told to the lead as the result of its call, and the lead goes on.

    Args:
        lead: The member that is asked: a ref or a spec of an agent.
        workers: Members by name, refs or specs; or a list of several that stand in for each other: `{"research": [one, other]}`. "lead" is no name of a worker.
        retries: Tries after one that failed, 0 to 100; default 2.
        worker_seconds: Seconds that one try may take; default 300.
        options: Those of `Team`.

    Raises:
        DefinitionError: To the spawner.
    """

    __fills_in__ = ("members",)

    def __init__(
        self,
        *,
        lead: Ref[Any] | AgentSpec,
        workers: Mapping[str, Any] | Iterable[Any],
        retries: int = RETRIES,
        worker_seconds: float = SECONDS,
        **options: Any,
    ) -> None:
        checked_number(retries, "retries", "Supervisor", least=0, most=100)
        checked_seconds(worker_seconds, "worker_seconds", "Supervisor")
        checked_single(lead, "Supervisor", LEAD)
        given: dict[str, Any] = {LEAD: lead}
        for name, (members, description) in _workers(workers).items():
            if name == LEAD:
                raise DefinitionError("Supervisor(workers=…): one is named 'lead', and so is the lead: give it another name")
            given[name] = Fallback.spec(members, retries=retries, seconds=worker_seconds, description=description)
        if len(given) == 1:
            raise DefinitionError("Supervisor(workers=…): there are none: give them by name, {'research': rt.Agent.spec(model=…)}")
        super().__init__(given, **options)
        self._seconds = worker_seconds * (retries + 1) + AFTER

    async def forward(self, run: TeamRun) -> AgentMessage:
        """Asks the lead, with a tool for each worker that is not paused."""
        tools = [
            agent_tool(
                member.ref,
                name=PREFIX + name,
                description=member.description or f"Gives {name} a task, and gives what comes of it.",
                timeout=self._seconds,
            )
            for name in run.members
            if name != LEAD
            for member in [run.member(name)]
        ]
        answer = await run.ask(LEAD, run.message, tools=tools)
        return attrs.evolve(answer, sender=run.name)  # type: ignore[misc]


def _workers(given: Any) -> dict[str, tuple[Any, str]]:
    """The members of each worker's team, and what it is good for."""
    found: dict[str, tuple[Any, str]] = {}
    if isinstance(given, Mapping):
        single = {name: each for name, each in given.items() if not isinstance(each, list | tuple)}
        several = {name: each for name, each in given.items() if isinstance(each, list | tuple)}
    else:
        single, several = given, {}
    known = {member.name: member for member in read_members(single, "Supervisor")}
    names = list(given) if isinstance(given, Mapping) else list(known)
    for name in names:
        if name in several:
            members = read_members(several[name], "Supervisor")
            if not members:
                raise DefinitionError(f"Supervisor(workers=…): {name!r} is an empty list: give one worker at least")
            found[name] = (members, next((each.description for each in members if each.description), ""))
        else:
            member = known[name]
            found[name] = ([Member(name, member.ref, member.description)], member.description)
    return found
