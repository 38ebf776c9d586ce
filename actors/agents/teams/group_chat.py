"""Members that talk in turns until a condition is met: what round robin, selection and talks of your own have in common."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Final

import attrs
import trio

from retinue.actors.agents.contents import content_text
from retinue.actors.agents.errors import RoutingFailed, RunLimitReached
from retinue.actors.agents.handoffs import Handoff
from retinue.actors.agents.message import AgentMessage
from retinue.actors.agents.teams.arguments import check_method
from retinue.actors.agents.teams.handing import Handing
from retinue.actors.agents.teams.members import near
from retinue.actors.agents.teams.outcomes import checked_number, line
from retinue.actors.agents.teams.team import Team
from retinue.actors.agents.teams.termination import Talk, Termination, checked_until, name_if_met, names_in, targets_of
from retinue.actors.agents.teams.transcript import Transcript
from retinue.actors.llm.usage import NO_USAGE, sound
from retinue.security.errors import DefinitionError

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from retinue.actors.agents.teams.members import Members
    from retinue.actors.agents.teams.team_run import TeamRun

__all__ = ["MAX_TURNS", "Chat", "GroupChat"]

MAX_TURNS: Final = 50
"""Messages of members in one run, unless it is told otherwise: a condition that is never met does not go on for ever."""

NEXT: Final = (
    "define `async def next_speaker(self, chat: rt.Chat) -> str | None`, which returns a member's name, or None where the talk is over"
)


class Chat:
    """One run of a talk.

    Attributes:
        run: The team's run.
        said: What members have said in it, in order; each message's `sender` is its member's name.
        transcript: Who has heard what, from run to run.
        notes: What `next_speaker` keeps from turn to turn of this run.
    """

    __slots__ = ("_began", "_handing", "_handoffs", "_spent", "notes", "run", "said", "transcript")

    def __init__(self, run: TeamRun, handoffs: tuple[Handoff, ...] = ()) -> None:
        self.run = run
        self.said: list[AgentMessage] = []
        self.notes: dict[str, Any] = {}
        self.transcript = Transcript(run.state, run.message, run.all_members)
        self._handoffs = handoffs
        self._handing = Handing(run)
        self._spent = NO_USAGE
        self._began = trio.current_time()

    @property
    def talk(self) -> Talk:
        """What conditions look at."""
        return Talk(self.run.message, tuple(self.said), self._spent, trio.current_time() - self._began)

    def lines(self, count: int) -> str:
        """The last of what was said, each line with its speaker."""
        return "\n".join(line(each.sender, content_text(each.content)) for each in self.said[-count:])

    def used(self, usage: Any) -> None:
        """Counts what was used. None: nothing, no model was asked."""
        self._spent = self._spent + (sound(usage) or NO_USAGE)

    async def ask(self, member: str) -> AgentMessage:
        """The next message of a member, who is told all that it has not heard yet, each line with its speaker."""
        told = self.transcript.told(member, self.run.name)
        if not content_text(told.content):  # it was the last who spoke
            told = AgentMessage("Go on.", self.run.name)
        answer = await self._handing.ask(member, told, self._handoffs)
        answer = attrs.evolve(answer, sender=member)  # type: ignore[misc]  # mypy does not know that a message is an attrs class
        self.said.append(answer)
        self.transcript.say(member, content_text(answer.content))
        self.used(answer.usage)
        return answer

    def end(self, ended_by: str) -> AgentMessage:
        """The team's answer: the last message that was said, with what ended the talk, and all that was said, in `extra`."""
        last = self.said[-1]
        self.transcript.keep(self.run.state, self.run.all_members)
        said = [[each.sender, content_text(each.content)] for each in self.said]
        extra = {**(last.extra or {}), "ended_by": ended_by, "turns": len(said), "speaker": last.sender, "said": said}
        return attrs.evolve(last, sender=self.run.name, extra=extra)  # type: ignore[misc]


class GroupChat(Team):
    """Members that talk in turns. Derive from it and override `next_speaker`, plain or `async def`; `RoundRobin` and `Selector` do.

        class Backwards(rt.GroupChat):
            async def next_speaker(self, chat: rt.Chat) -> str | None:
                names = chat.run.members
                return names[-1 - len(chat.said) % len(names)]

    Each member is told what it has not heard yet, of this run and those before it in the session, each line with its speaker. The answer is what was said last;
    its `extra` holds `ended_by` (the condition that was met), `turns`, `speaker`, and `said`, a list of [name, text].

    Args:
        members: See `Team`.
        until: When the talk is over; it is looked at after each message.
        max_turns: Messages of members in one run, 1 or more; default 50. A talk that comes to it before `until` is met ends with `RunLimitReached` (limit
            "max_turns"), never as if it had succeeded.
        options: The others of `Team`.

    Raises:
        DefinitionError: To the spawner.
    """

    def __init__(self, members: Members = (), *, until: Termination | None = None, max_turns: int = MAX_TURNS, **options: Any) -> None:
        super().__init__(members, **options)
        kind = type(self).__name__
        self.until = checked_until(until, kind)
        self.max_turns = checked_number(max_turns, "max_turns", kind)
        known = [member.name for member in self._given]
        for name in names_in(self.until) if known else ():
            if name not in known:
                raise DefinitionError(f"{kind}(until={self.until!r}): no member is named {name[:100]!r}{near(name, known)}")
        for name in targets_of(self.until):
            if name in known:
                raise DefinitionError(
                    f"{kind}(until=rt.HandedTo({name!r})): that is a member; a talk is handed to somebody outside, and rt.Swarm hands one to members"
                )
        self._handoffs = tuple(Handoff(name) for name in targets_of(self.until))

    async def on_start(self) -> None:
        """Starts the members."""
        kind = type(self).__name__
        if type(self).next_speaker is GroupChat.next_speaker:
            raise DefinitionError(f"{kind} has no next_speaker: {NEXT}")
        check_method(self.next_speaker, ("the chat",), NEXT)
        await super().on_start()

    def next_speaker(self, chat: Chat) -> Awaitable[str | None] | str | None:
        """The name of the member who speaks next; None where the talk is over. The same for the same talk: a run that was parked goes through it again.
        Plain or `async def`.
        """
        raise NotImplementedError(f"{type(self).__name__} has no next_speaker: {NEXT}")

    def ended(self, chat: Chat) -> str:  # noqa: ARG002 -- for those who derive
        """What `ended_by` says of a talk in which nobody speaks next."""
        return "next_speaker"

    async def forward(self, run: TeamRun) -> AgentMessage:
        """Asks one member after the other."""
        chat = Chat(run, self._handoffs)
        while True:
            speaker: object = self.next_speaker(chat)
            if inspect.isawaitable(speaker):
                speaker = await speaker
            if speaker is None:
                if not chat.said:
                    raise RoutingFailed(f"{run.path}: nobody of the team speaks: {_who(run)}")
                return chat.end(self.ended(chat))
            if not isinstance(speaker, str):
                raise DefinitionError(
                    f"{run.path}: {type(self).__name__}.next_speaker gave a {type(speaker).__name__}: return a member's name, or None"
                )
            if len(chat.said) >= self.max_turns:
                self._over(chat)
            await chat.ask(speaker)
            met = None if self.until is None else name_if_met(self.until, chat.talk)
            if met is not None:
                return chat.end(met)

    def _over(self, chat: Chat) -> None:
        waited = "nobody ended it" if self.until is None else f"{self.until!r} was not met"
        raise RunLimitReached(
            f"{chat.run.path}: the talk has reached its limit max_turns={self.max_turns}, and {waited}; it stopped, and the team remembers nothing of it. "
            f"Give more with max_turns=, or a condition that is met sooner",
            limit="max_turns",
            usage=chat.talk.usage,
            partial=content_text(chat.said[-1].content),
        )


def _who(run: TeamRun) -> str:
    return "it has no member that is not paused" if not run.members else f"nobody was chosen of {', '.join(run.members)}"
