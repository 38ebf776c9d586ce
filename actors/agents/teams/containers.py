"""Lists and dicts of agents: containers without a memory of their own, for key paths, and for members of which one is asked by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from retinue.actors.agents.errors import NoSuchMember
from retinue.actors.agents.teams.key_paths import first_of
from retinue.actors.agents.teams.members import AddMember, Members, checked_name, near
from retinue.actors.agents.teams.team import Team
from retinue.security.errors import DefinitionError

if TYPE_CHECKING:
    from retinue.actors.agents.message import AgentMessage
    from retinue.actors.agents.teams.team_run import TeamRun

__all__ = ["AgentDict", "AgentList"]


class AgentDict(Team):
    """Agents by name. A message goes to the member whose name is its `receiver`: `await agents.ask(rt.AgentMessage("hi", receiver="writer"))`. Within teams that are
    members, a receiver is a key path: "kids.writer".

    It has no memory of its own; its members' is found under their names: `GetMemory(path="writer")`. Arguments as for `Team`.
    """

    remembers: ClassVar[bool] = False

    async def forward(self, run: TeamRun) -> AgentMessage:
        """To the receiver."""
        name = run.message.receiver
        if name is None:
            raise NoSuchMember(
                f"{run.path} is a container: say which member is meant, rt.AgentMessage(…, receiver=name){near('', run.all_members)}",
                name="",
            )
        return await run.ask(first_of(name)[0], run.message)


class AgentList(AgentDict):
    """Agents by number: "0", "1" and so on, in the order of the list. A number that was removed is not given again, and the others keep theirs.

    As `AgentDict`; `AddMember("", member)` gives the next number.
    """

    def __init__(self, members: Members = (), **options: Any) -> None:
        super().__init__(members, **options)
        for member in self._given:
            if not member.name.isdecimal():
                raise DefinitionError(
                    f"AgentList(members=…): {member.name!r} has a name, and in a list they have numbers: use rt.AgentDict"
                )
        self._next = max((int(member.name) for member in self._given), default=-1) + 1

    async def add_member(self, message: AddMember) -> None:
        """A new member, the next in the list."""
        await super().add_member(message)
        self._next += 1

    def _new_name(self, name: object) -> str:
        if name == "":
            name = str(self._next)
        if checked_name(name) != str(self._next):
            raise DefinitionError(f'{self._path}: the next in the list is {self._next}: AddMember("", member) takes that')
        return str(name)
