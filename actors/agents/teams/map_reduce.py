"""Work in pieces: one member does each, another puts the results together."""

from __future__ import annotations

import inspect
import itertools
import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import attrs

from retinue.actors.agents.errors import BadInput
from retinue.actors.agents.message import AgentMessage
from retinue.actors.agents.teams.arguments import check_call
from retinue.actors.agents.teams.members import checked_single
from retinue.actors.agents.teams.outcomes import Failures, answered, checked_failures, checked_number, failed, spoken
from retinue.actors.agents.teams.parallel import AT_ONCE
from retinue.actors.agents.teams.team import Team
from retinue.actors.agents.telling import note, of_function
from retinue.security.errors import DefinitionError

if TYPE_CHECKING:
    from retinue.actors.agents.teams.team_run import TeamRun

__all__ = ["MapReduce", "Split"]

Split: TypeAlias = Callable[[AgentMessage], "Iterable[AgentMessage | str] | Awaitable[Iterable[AgentMessage | str]]"]
"""Cuts a message into pieces, each what the mapper is told. Plain or `async def`."""

Reduce: TypeAlias = Callable[[Sequence[AgentMessage]], "AgentMessage | str | Awaitable[AgentMessage | str]"]
"""Puts the results together: given them in the pieces' order, it gives the team's answer. Plain or `async def`."""

MAX_PIECES: Final = 1_000
"""Pieces of one message, unless it is told otherwise."""

KEPT: Final = 90
"""Characters of the run's session that the sessions of its pieces begin with."""

MAPPER: Final = "mapper"
REDUCER: Final = "reducer"


class MapReduce(Team):
    """Work in pieces: the mapper does each of them, the reducer puts the results together.

        team = await system.spawn(rt.MapReduce, mapper=reader, reducer=editor, split=chapters)

    Each piece has a session of its own with the mapper, so that it sees nothing of the others; what it remembered there is forgotten when the run is over. The
    reducer is told the results in the pieces' order, in the run's session.

    Args:
        mapper: The member that does the pieces: a ref or a spec.
        reducer: The member that is told the results and gives the team's answer; or a function of them, see `Reduce`.
        split: Cuts a message into pieces, see `Split`. Default: a message whose content is a list is cut into its things.
        at_once: How many pieces are worked on at the same time, 1 to 1,000; default 8.
        failures: "raise" (the default): the error of a piece ends the run. "skip": the others count; the reducer is told which are missing, and the answer's `extra`
            why, `{"pieces": 40, "failed": {"7": "…"}}`, by the pieces' numbers, the first is "1". Where all fail, the first error is raised; a budget that is used up, and an authority that has run
            out, always are.
        max_pieces: Pieces of one message, 1 to 100,000; default 1,000. More are `BadInput`.
        options: Those of `Team`.

    Raises:
        DefinitionError: To the spawner.
    """

    __fills_in__ = ("members",)

    def __init__(
        self,
        *,
        mapper: Any,
        reducer: Any,
        split: Split | None = None,
        at_once: int = AT_ONCE,
        failures: Literal["raise", "skip"] = "raise",
        max_pieces: int = MAX_PIECES,
        **options: Any,
    ) -> None:
        by_function = callable(reducer) and not isinstance(reducer, type)
        given: dict[str, Any] = {MAPPER: mapper} if by_function else {MAPPER: mapper, REDUCER: reducer}
        for name, one in given.items():
            checked_single(one, "MapReduce", name)
        super().__init__(given, **options)
        if split is not None and not callable(split):
            raise DefinitionError(f"MapReduce(split=…) is a {type(split).__name__}: give a function of the message that gives its pieces")
        if split is not None:
            check_call(split, ("the message",), "MapReduce(split=…)", "let it take one argument, an rt.AgentMessage")
        if by_function:
            check_call(reducer, ("the results in order",), "MapReduce(reducer=…)", "let it take one argument, a sequence of answers")
        function: Any = reducer
        self.reduce: Reduce | None = function if by_function else None
        self.split = split
        self.at_once = checked_number(at_once, "at_once", "MapReduce", most=1_000)
        self.failures: Failures = checked_failures(failures, "MapReduce")
        self.max_pieces = checked_number(max_pieces, "max_pieces", "MapReduce")

    async def forward(self, run: TeamRun) -> AgentMessage:
        """The pieces, then what comes of them."""
        plan: dict[str, Any] = await run.decide(lambda: self._plan(run))
        pieces, sessions = plan["pieces"], plan["sessions"]
        run.passing(MAPPER, sessions)
        failures: list[Exception] = []

        async def work(number: int, piece: Any, session: str) -> AgentMessage:
            run.label(str(number))
            if failures and self.failures == "raise":
                raise failures[0]  # nothing that comes of it would count
            try:
                return await run.ask(MAPPER, AgentMessage(piece, run.name), session=session)
            except Exception as error:
                note(error, f"in piece {number} of {len(pieces)}")
                failures.append(error)
                raise

        works = [partial(work, number, *each) for number, each in enumerate(zip(pieces, sessions, strict=True), 1)]
        found = await run.together(works, at_once=self.at_once, errors="raise" if self.failures == "raise" else "return")
        results = {str(number): each for number, each in enumerate(found, 1) if isinstance(each, AgentMessage)}
        told = failed(
            {str(number): each for number, each in enumerate(found, 1) if isinstance(each, Exception)}, run.path, every=not results
        )
        # Not before this: where the run has failed, and stays parked, its pieces go on in their sessions.
        forget = [partial(run.forget, MAPPER, session) for session in sessions]
        lost = await run.together(forget, at_once=self.at_once, errors="return")  # the work is done, whatever becomes of that
        run.passing(MAPPER, [session for session, error in zip(sessions, lost, strict=True) if error is not None])
        answer = await self._reduced(run, results, told)
        extra = {**(answer.extra or {}), "pieces": len(pieces), **({"failed": told} if told else {})}
        return attrs.evolve(answer, sender=run.name, extra=extra)  # type: ignore[misc]

    async def _plan(self, run: TeamRun) -> dict[str, Any]:
        pieces = await self._pieces(run)
        once = secrets.token_hex(4)  # the sessions of a run that was given up, and of another that goes on, are others
        sessions = [f"{run.session[:KEPT]}:piece-{once}-{number}" for number in range(1, len(pieces) + 1)]
        return {"pieces": pieces, "sessions": sessions}

    async def _pieces(self, run: TeamRun) -> list[Any]:
        message = run.message
        if self.split is None:
            given: Any = message.content
            if not isinstance(given, list | tuple):
                raise BadInput(
                    f"{run.path}: the message's content is a {type(given).__name__}: give a list of pieces, rt.AgentMessage([…]), or the team a function, "
                    "MapReduce(split=…)"
                )
        else:
            with of_function(f"MapReduce(split=…) of {run.path}"):
                given = self.split(message)
                if inspect.isawaitable(given):
                    given = await given
            if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
                raise DefinitionError(
                    f"{run.path}: MapReduce(split=…) gave a {type(given).__name__}: return a list of what the mapper is told"
                )
        pieces = [each.content if isinstance(each, AgentMessage) else each for each in itertools.islice(given, self.max_pieces + 1)]
        if not pieces:
            raise BadInput(f"{run.path}: the message has no pieces: there is nothing to do")
        if len(pieces) > self.max_pieces:
            raise BadInput(
                f"{run.path}: the message has more than max_pieces={self.max_pieces:,} pieces: make them larger, or give more with max_pieces="
            )
        return pieces

    async def _reduced(self, run: TeamRun, results: Mapping[str, AgentMessage], told: Mapping[str, str]) -> AgentMessage:
        if self.reduce is None:
            lost = f"\nNo result came of {', '.join(told)}." if told else ""
            return await run.ask(REDUCER, f"The results of the pieces, in their order:\n{spoken(results)}{lost}")
        return await answered(partial(self.reduce, tuple(results.values())), run.path, "MapReduce(reducer=…)")
