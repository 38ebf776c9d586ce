"""Members that stand in for each other: who fails is asked again, or the next one is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from retinue.actors.agents.errors import RoutingFailed
from retinue.actors.agents.events import Notice
from retinue.actors.agents.message import AgentMessage
from retinue.actors.agents.teams.outcomes import checked_number, checked_seconds, told_of
from retinue.actors.agents.teams.team import Team
from retinue.actors.agents.telling import log_failure
from retinue.actors.llm.errors import ModelError
from retinue.actors.runtime.errors import ActorStopped, Unanswered
from retinue.mailbox.errors import MailboxFull, RemoteError
from retinue.security.errors import RetinueError

if TYPE_CHECKING:
    from retinue.actors.agents.teams.members import Members
    from retinue.actors.agents.teams.team_run import TeamRun

__all__ = ["RETRIES", "SECONDS", "Fallback", "may_go_better"]

RETRIES: Final = 2
"""Tries after the first that failed."""

SECONDS: Final = 300.0
"""Seconds that one try may take."""


class Fallback(Team):
    """Members that stand in for each other: the first is asked, and where it fails the next one, or the only one once more.

        team = await system.spawn(rt.Fallback, [researcher, other_researcher], retries=2, seconds=60)

    Tried again is what may go better: no answer in time, an actor that has stopped or crashed, a full mailbox, a model that fails. A task whose outcome nobody knows is then
    done twice, perhaps. Not tried again is what would be the same: a refusal, a message that cannot be taken, a limit. The answer's `extra` tells of the failures before it,
    `{"tried": [["0", "ask.timeout: …"]]}`; where every try fails, the last error is raised.

    Args:
        members: See `Team`; the order is that of asking.
        retries: Tries after the first, 0 to 100; default 2.
        seconds: Seconds that one try may take; default 300.
        options: The others of `Team`.

    Raises:
        DefinitionError: To the spawner.
    """

    def __init__(self, members: Members = (), *, retries: int = RETRIES, seconds: float = SECONDS, **options: Any) -> None:
        super().__init__(members, **options)
        self.retries = checked_number(retries, "retries", type(self).__name__, least=0, most=100)
        self.seconds = checked_seconds(seconds, "seconds", type(self).__name__)

    async def forward(self, run: TeamRun) -> AgentMessage:
        """Tries until one answers."""
        tried: list[list[str]] = []
        gone: set[str] = set()
        while True:
            names = [name for name in run.members if name not in gone] or list(run.members)
            if not names:
                raise RoutingFailed(f"{run.path}: no member of the team can be asked: all are paused, or there are none")
            name = min(names, key=lambda each: sum(each == other for other, _ in tried))  # who was tried least, the first of them
            try:
                answer = await run.ask(name, run.message, timeout=self.seconds)
            except Exception as error:
                if len(tried) >= self.retries or not may_go_better(error):
                    raise
                log_failure(run.path, repr(name), error, "somebody is asked again")
                if isinstance(error, ActorStopped):
                    gone.add(name)
                tried.append([name, told_of(error)])
                await run.emit(
                    Notice("retrying", f"{name} failed, and it is tried again ({len(tried)} of {self.retries}): {told_of(error)}")
                )
            else:
                extra = {**(answer.extra or {}), "tried": tried} if tried else answer.extra
                return attrs.evolve(answer, sender=run.name, extra=extra)  # type: ignore[misc]


def may_go_better(error: Exception) -> bool:
    """Whether the same question may be answered when it is asked again."""
    if isinstance(error, Unanswered | MailboxFull | RemoteError | ModelError):
        return True
    return not isinstance(error, RetinueError)  # a crash: the actor is restarted
