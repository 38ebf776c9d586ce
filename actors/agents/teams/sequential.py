"""Stages one after the other: each is told what the one before it answered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from retinue.actors.agents.errors import BadInput
from retinue.actors.agents.teams.members import Members, near
from retinue.actors.agents.teams.team import Team
from retinue.security.errors import DefinitionError

if TYPE_CHECKING:
    from retinue.actors.agents.message import AgentMessage
    from retinue.actors.agents.teams.team_run import TeamRun

__all__ = ["Sequential"]

MAX_STAGES: Final = 1_000
"""Stages of one run."""


class Sequential(Team):
    """Asks its members one after the other: the first is told what the team was told, each further one the answer of the one before; the last one's answer is the team's.

        blog = await system.spawn(rt.Sequential, {"writer": writer, "critic": critic}, name="blog")

    Args:
        members: The stages, at least one; as for `Team`.
        exit_at: The last stage, by name or by number from 0; a number from the count of the stages on begins with the first stage again: 3 of two stages is each of them
            twice. Default: the last of the members. `rt.Run(message, exit_at=…)` says so for one run.
        options: As for `Team`.

    A member that is paused is an error of the run (`MemberPaused`): no stage is left out silently.
    """

    takes_exit_at: ClassVar[bool] = True

    def __init__(self, members: Members, *, exit_at: int | str | None = None, **options: Any) -> None:
        super().__init__(members, **options)
        names = [member.name for member in self._given]
        if not names:
            raise DefinitionError(f"{type(self).__name__}(members=…) are none: give at least one stage")
        try:
            _last(exit_at, names)
        except BadInput as error:
            raise DefinitionError(f"{type(self).__name__}: {error}") from None
        self._exit_at = exit_at

    async def forward(self, run: TeamRun) -> AgentMessage:
        """From stage to stage."""
        names = await run.decide(lambda: list(run.all_members))
        if not names:
            raise BadInput(f"{run.path}: it has no stages any more: add one")
        last = _last(self._exit_at if run.exit_at is None else run.exit_at, names)
        said = run.message
        for number in range(last + 1):
            said = await run.ask(names[number % len(names)], said)
        return said


def _last(exit_at: object, names: list[str]) -> int:
    """The number of the last stage. Raises BadInput."""
    if exit_at is None:
        return len(names) - 1
    if isinstance(exit_at, str):
        if exit_at not in names:
            raise BadInput(f"exit_at={exit_at[:100]!r}: there is no such stage{near(exit_at, names)}")
        return names.index(exit_at)
    if isinstance(exit_at, bool) or not isinstance(exit_at, int) or not 0 <= exit_at < MAX_STAGES:
        raise BadInput(f"exit_at={exit_at!r:.100}: give a stage's name, or a number from 0 to {MAX_STAGES - 1}")
    return exit_at
