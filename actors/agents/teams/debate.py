"""Members that answer the same question, read each other's answers and answer again; then one judges, or they vote (Du et al. 2023)."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import attrs

from retinue.actors.agents.contents import content_text
from retinue.actors.agents.errors import RoutingFailed, VoteUndecided
from retinue.actors.agents.message import AgentMessage
from retinue.actors.agents.teams.arguments import check_call
from retinue.actors.agents.teams.outcomes import checked_number, spoken
from retinue.actors.agents.teams.parallel import AT_ONCE, check_members
from retinue.actors.agents.teams.team import Team
from retinue.actors.agents.telling import of_function
from retinue.security.errors import DefinitionError

if TYPE_CHECKING:
    from retinue.actors.agents.teams.members import Members
    from retinue.actors.agents.teams.team_run import TeamRun

__all__ = ["Debate"]

ROUNDS: Final = 3

SHOWN: Final = 5
"""Answers that the text about an undecided vote shows."""

LONGEST: Final = 200
"""Characters that are told of an answer that somebody voted for."""

AGAIN: Final = "The others answered:\n{answers}\nWhere they convince you, change your answer; where they do not, say why. Give your answer anew, whole."

JUDGE: Final = "{question}\n\nThe debate's last answers:\n{answers}\nJudge them, and give the answer to the question."


class Debate(Team):
    """Members that answer the same question, read each other's answers and answer again; then one judges, or they vote.

        team = await system.spawn(rt.Debate, {"optimist": one, "sceptic": other, "judge": third}, judge="judge", rounds=2)

    In the first round nobody hears the others: each answers for itself. From the second on each is told the others' last answers, and nobody its own; the debaters
    of a round are asked at the same time.

    The answer's `extra` holds `ended_by` ("judge", "vote", or "agreed" where all gave the same answer before the rounds were over), `rounds`, `said` (a list of
    [name, text], the last answers), and of a vote `votes` (a list of [answer, how many], the most first).

    Args:
        members: See `Team`; two debaters at least.
        rounds: Rounds of answers, 1 or more; default 3.
        judge: The member that is told the last answers and gives the team's; it does not debate.
        vote: Instead of a judge: True, and the answer that most of the debaters have come to counts; equal are answers that differ in case, blanks and the full
            stop at their end alone. Or a function of an `AgentMessage` that gives what is compared. No call of a model is made for it. A tie is `VoteUndecided`.
        options: The others of `Team`.

    Raises:
        DefinitionError: To the spawner.
    """

    def __init__(
        self,
        members: Members = (),
        *,
        rounds: int = ROUNDS,
        judge: str | None = None,
        vote: bool | Callable[[AgentMessage], Any] = False,
        **options: Any,
    ) -> None:
        super().__init__(members, **options)
        if judge is not None and not isinstance(judge, str):
            raise DefinitionError(f"Debate(judge=…) is a {type(judge).__name__}: give the name of a member")
        if not isinstance(vote, bool) and not callable(vote):
            raise DefinitionError(
                f"Debate(vote=…) is a {type(vote).__name__}: give True, or a function of an answer that gives what is compared"
            )
        if inspect.iscoroutinefunction(vote):
            raise DefinitionError("Debate(vote=…) is an async function: give a plain one, which gives what is compared of an answer")
        if not isinstance(vote, bool):
            check_call(vote, ("an answer",), "Debate(vote=…)", "let it take one argument, an rt.AgentMessage")
        if (judge is None) == (vote is False):
            raise DefinitionError("Debate: say who decides, judge='a member', or vote=True" + ("" if judge is None else "; not both"))
        check_members("Debate", "judge", [member.name for member in self._given], [] if judge is None else [judge])
        self.rounds = checked_number(rounds, "rounds", "Debate", most=1_000)
        self.judge = judge
        self.vote: Callable[[AgentMessage], Any] | None = None if vote is False else _gist if vote is True else vote

    async def forward(self, run: TeamRun) -> AgentMessage:
        """The rounds, and the decision."""
        debaters = [name for name in run.members if name != self.judge]
        if len(debaters) < 2:
            raise RoutingFailed(
                f"{run.path}: a debate takes two who debate, and of its members {len(debaters)} can be asked: add or unpause one, rt.UnpauseMember(…)"
            )
        answers: dict[str, AgentMessage] = {}
        number, agreed = 0, False
        while number < self.rounds and not agreed:
            number += 1
            asks: list[tuple[str, AgentMessage | str]] = [
                (
                    name,
                    AGAIN.format(answers=spoken({other: each for other, each in answers.items() if other != name}))
                    if answers
                    else run.message,
                )
                for name in debaters
            ]
            found = await run.gather(asks, at_once=AT_ONCE)
            answers = dict(zip(debaters, found, strict=True))
            agreed = self.vote is not None and number < self.rounds and len({_key(self.vote, each, run.path) for each in found}) == 1
        made: dict[str, Any] = {"rounds": number, "said": [[name, content_text(each.content)] for name, each in answers.items()]}
        if self.vote is not None:
            answer, made["votes"] = _winner(self.vote, answers, run.path)
            made["ended_by"] = "agreed" if agreed else "vote"
        else:
            assert self.judge is not None
            question = JUDGE.format(question=content_text(run.message.content), answers=spoken(answers))
            answer = await run.ask(self.judge, question)
            made["ended_by"] = "judge"
        return attrs.evolve(answer, sender=run.name, extra={**(answer.extra or {}), **made})  # type: ignore[misc]


def _gist(message: AgentMessage) -> str:
    return " ".join(content_text(message.content).casefold().split()).rstrip(". ")


def _key(vote: Callable[[AgentMessage], Any], answer: AgentMessage, path: str) -> Any:
    with of_function(f"Debate(vote=…) of {path}"):
        key = vote(answer)
    try:
        hash(key)
    except TypeError:
        raise DefinitionError(
            f"{path}: Debate(vote=…) gave a {type(key).__name__}, which cannot be compared: return a str, a number, or a tuple of them"
        ) from None
    return key


def _winner(vote: Callable[[AgentMessage], Any], answers: Mapping[str, AgentMessage], path: str) -> tuple[AgentMessage, list[list[Any]]]:
    """The answer that most have come to, in the words of the first who has; and how many came to which, in those of the first who has."""
    keys = {name: _key(vote, answer, path) for name, answer in answers.items()}
    counts = Counter(keys.values()).most_common()
    first = {key: answers[next(name for name in keys if keys[name] == key)] for key, _ in counts}
    votes: list[list[Any]] = [[content_text(first[key].content)[:LONGEST], count] for key, count in counts]
    if len(counts) > 1 and counts[0][1] == counts[1][1]:
        shown = "; ".join(f"{text[:80]!r} ({count})" for text, count in votes[:SHOWN])
        raise VoteUndecided(
            f"{path}: the debaters' vote has no winner: {shown}. Give an odd number of debaters, more rounds=, judge=, or vote= a function that finds what their "
            "answers have in common",
            votes=tuple((text, count) for text, count in votes),
        )
    return first[counts[0][0]], votes
