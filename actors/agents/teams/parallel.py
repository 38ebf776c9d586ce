"""Members that are asked the same at the same time, and their answers put together."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import attrs

from retinue.actors.agents.contents import content_text
from retinue.actors.agents.errors import RoutingFailed
from retinue.actors.agents.message import AgentMessage
from retinue.actors.agents.teams.arguments import check_call
from retinue.actors.agents.teams.members import near
from retinue.actors.agents.teams.outcomes import Failures, answered, checked_failures, checked_number, failed, spoken
from retinue.actors.agents.teams.team import Team
from retinue.security.errors import DefinitionError

if TYPE_CHECKING:
    from retinue.actors.agents.teams.members import Members
    from retinue.actors.agents.teams.team_run import TeamRun

__all__ = ["Combine", "Parallel"]

Combine: TypeAlias = Callable[[Mapping[str, AgentMessage]], "AgentMessage | str | Awaitable[AgentMessage | str]"]
"""Puts answers together: given them by their members' names, in the members' order, it gives the team's answer. Plain or `async def`."""

AT_ONCE: Final = 8
"""Members, or pieces of work, that are at work at the same time."""


class Parallel(Team):
    """Members that are asked the same at the same time.

        team = await system.spawn(rt.Parallel, {"law": lawyer, "tax": accountant, "editor": editor}, combine="editor")

    Args:
        members: See `Team`.
        combine: The name of the member that is told all the others' answers and gives the team's; or a function of them, see `Combine`. Default: all of
            them, each after its member's name.
        at_once: How many members are at work at the same time, 1 to 1,000; default 8.
        failures: "raise" (the default): the error of a member ends the run, and the others with it. "skip": the others' answers count, and the answer's
            `extra` tells of who failed, `{"failed": {"tax": "ask.timeout: …"}}`; where all fail, the first error is raised. A budget that is used up, and an
            authority that has run out, are always raised.
        options: The others of `Team`.

    Raises:
        DefinitionError: To the spawner.
    """

    def __init__(
        self,
        members: Members = (),
        *,
        combine: Combine | str | None = None,
        at_once: int = AT_ONCE,
        failures: Literal["raise", "skip"] = "raise",
        **options: Any,
    ) -> None:
        super().__init__(members, **options)
        if combine is not None and not isinstance(combine, str) and not callable(combine):
            raise DefinitionError(
                f"Parallel(combine=…) is a {type(combine).__name__}: give a member's name, or a function of the answers by name"
            )
        if callable(combine):
            check_call(combine, ("the answers by name",), "Parallel(combine=…)", "let it take one argument, a mapping of names to answers")
        check_members("Parallel", "combine", [member.name for member in self._given], [combine] if isinstance(combine, str) else [])
        self.combine = combine
        self.at_once = checked_number(at_once, "at_once", "Parallel", most=1_000)
        self.failures: Failures = checked_failures(failures, "Parallel")

    async def forward(self, run: TeamRun) -> AgentMessage:
        """Asks all, and puts their answers together."""
        names = [name for name in run.members if name != self.combine]
        if not names:
            raise RoutingFailed(f"{run.path}: no member of the team can be asked: all are paused, or there are none")
        found = await run.gather(
            [(name, run.message) for name in names], at_once=self.at_once, errors="raise" if self.failures == "raise" else "return"
        )
        answers = {name: each for name, each in zip(names, found, strict=True) if isinstance(each, AgentMessage)}
        told = failed(
            {name: each for name, each in zip(names, found, strict=True) if isinstance(each, Exception)}, run.path, every=not answers
        )
        answer = await self._combined(run, answers, told)
        extra = {**(answer.extra or {}), **({"failed": told} if told else {})}
        return attrs.evolve(answer, sender=run.name, extra=extra or None)  # type: ignore[misc]

    async def _combined(self, run: TeamRun, answers: Mapping[str, AgentMessage], told: Mapping[str, str]) -> AgentMessage:
        combine = self.combine
        if combine is None:
            return AgentMessage(spoken(answers))
        if isinstance(combine, str):
            lost = f"\n\nNo answer came of {', '.join(told)}." if told else ""
            return await run.ask(combine, f"{content_text(run.message.content)}\n\nThe answers:\n{spoken(answers)}{lost}")
        return await answered(partial(combine, dict(answers)), run.path, "Parallel(combine=…)")


def check_members(where: str, field: str, members: Iterable[str], named: Iterable[object]) -> None:
    """Raises DefinitionError where a name is no member's."""
    known = list(members)
    for name in named:
        if name not in known:
            raise DefinitionError(f"{where}({field}={str(name)[:100]!r}): no member has that name{near(name, known)}")
