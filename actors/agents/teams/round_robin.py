"""Members that speak in turn, in their order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from retinue.actors.agents.teams.group_chat import MAX_TURNS, Chat, GroupChat
from retinue.actors.agents.teams.outcomes import checked_number

if TYPE_CHECKING:
    from retinue.actors.agents.teams.members import Members
    from retinue.actors.agents.teams.termination import Termination

__all__ = ["RoundRobin"]


class RoundRobin(GroupChat):
    """Members that speak in turn, in their order, each hearing what the others have said.

        team = await system.spawn(rt.RoundRobin, {"writer": writer, "critic": critic}, until=rt.TextMention("APPROVE", sender="critic"))

    A run begins with the first member. One that is paused or removed is passed over, one that is added speaks from the next round on.

    Args:
        members: See `Team`.
        until: When the talk is over.
        rounds: How often each speaks at most; that is an end like any other (`ended_by` "rounds=2"). Default: once, where there is no `until` either; else as often
            as `max_turns` lets them.
        max_turns: See `GroupChat`; default 50, or as many as the rounds take.
        options: The others of `Team`.

    Raises:
        DefinitionError: To the spawner.
    """

    def __init__(
        self,
        members: Members = (),
        *,
        until: Termination | None = None,
        rounds: int | None = None,
        max_turns: int | None = None,
        **options: Any,
    ) -> None:
        if rounds is None and until is None and max_turns is None:
            rounds = 1
        bounded = rounds is not None and max_turns is None  # the rounds are the bound that was asked for
        super().__init__(members, until=until, max_turns=100_000 if bounded else MAX_TURNS if max_turns is None else max_turns, **options)
        self.rounds = None if rounds is None else checked_number(rounds, "rounds", "RoundRobin")

    async def next_speaker(self, chat: Chat) -> str | None:
        """The next member of the round, or the first of the next round."""
        members = chat.run.members
        number: int = chat.notes.get("round", 0)
        left = [str(name) for name in chat.notes.get("left", ()) if name in members]
        if not left:
            if number == self.rounds or not members:
                return None
            number, left = number + 1, list(members)
        chat.notes = {"round": number, "left": left[1:]}
        return left[0]

    def ended(self, chat: Chat) -> str:
        """The rounds are over, or nobody is left who speaks."""
        return f"rounds={self.rounds}" if chat.notes.get("round") == self.rounds else "no member left"
