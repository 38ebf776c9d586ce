"""Teams: agents made of agents. A team is addressed as an agent is, and its `forward` says who of its members is asked what."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, ClassVar, Final

import attrs
import trio

from retinue.actors.agents.errors import BadInput, UnknownStateKey
from retinue.actors.agents.front import IDLE, SESSIONS, Front
from retinue.actors.agents.keeping import Keeper
from retinue.actors.agents.message import TIMEOUT, ClearMemory, Describe, GetMemory, GetState, LoadState
from retinue.actors.agents.names import own_name
from retinue.actors.agents.specs import AgentSpec
from retinue.actors.agents.teams.arguments import check_method
from retinue.actors.agents.teams.key_paths import first_of
from retinue.actors.agents.teams.members import (
    MAX_MEMBERS,
    AddMember,
    EditMember,
    GetMembers,
    Member,
    Members,
    PauseMember,
    RemoveMember,
    UnpauseMember,
    checked_name,
    member_of,
    near,
    read_members,
)
from retinue.actors.agents.teams.roster import Place, Roster, Work
from retinue.actors.agents.teams.team_session import TeamDefinition, TeamSession
from retinue.actors.agents.teams.tree_limits import TreeLimits
from retinue.actors.runtime.actor import handler
from retinue.mailbox.errors import Unhandled
from retinue.security.errors import DefinitionError, RetinueError

if TYPE_CHECKING:
    from retinue.actors.agents.message import AgentMessage
    from retinue.actors.agents.teams.team_run import TeamRun
    from retinue.actors.runtime.deferred import Deferred
    from retinue.actors.runtime.ref import Ref

__all__ = ["Team"]

MANAGE: Final = "agents.manage"
"""The operation that changes of the members need."""

LOOK_AGAIN: Final = 1.0
"""Seconds after which a member that was removed looks whether anything is parked in it still."""

OWN: Final = ("model", "router", "sessions")
"""Names of children that teams have besides their members."""

MOST_LEVELS: Final = 32
"""Levels of teams within each other: as many as actors live below each other."""

SHOWN: Final = 200
"""Characters of what a team is good for that `Describe` shows."""

LOOKING: Final = 10.0
"""Seconds that a member has for saying what it is made of."""


class Team(Front):
    """A team of agents. Derive from it and override `forward`; or use `Sequential`, `Swarm` and the like.

        class Reviewed(rt.Team):
            async def forward(self, run):
                draft = await run.ask("writer", run.message)
                return await run.ask("critic", draft)

        team = await system.spawn(Reviewed, {"writer": rt.Agent.spec(model=model), "critic": critic}, name="team")
        reply = await team.ask("A blog post about trees")

    It takes what an agent takes, and remembers what it was told and what it answered. A run goes under the authority of whoever asks; each member works within its own grant
    besides. What `self` holds is the same for all sessions and does not change: what one session keeps from run to run stands in `run.state`.

    Args:
        members: Refs, and specs that the team spawns as its children, by name; or a list of them. See `Members`.
        limits: How much one run may use with all that it sets going; default: as much as the asker's authority permits.
        description: What it is good for; `Describe` shows it. (What a team that is a member is good for, its spec says, or its `Member`.)
        sessions: How many sessions are remembered; default 100,000.
        session_idle: Seconds after which an unused session's actor rests; default 900.

    Raises DefinitionError (to the spawner) for what cannot be a team: it says which member, and what would be right.
    """

    remembers: ClassVar[bool] = True
    """Whether it has a memory of its own."""

    takes_exit_at: ClassVar[bool] = False
    """Whether `rt.Run(…, exit_at=…)` is for it."""

    def __init__(
        self,
        members: Members = (),
        *,
        limits: TreeLimits | None = None,
        description: str = "",
        sessions: int | Keeper = SESSIONS,
        session_idle: float = IDLE,
    ) -> None:
        super().__init__(sessions, session_idle)
        kind = type(self).__name__
        if limits is not None and not isinstance(limits, TreeLimits):
            raise DefinitionError(f"{kind}(limits=…) is a {type(limits).__name__}: give rt.TreeLimits(tokens=100_000)")
        if not isinstance(description, str):
            raise DefinitionError(f"{kind}(description=…) is a {type(description).__name__}: give a text")
        self.description = description
        self._given = read_members(members, kind)
        self._limits = limits
        self._roster = Roster()
        self._made = 0

    async def on_start(self) -> None:
        """Spawns the members that are specs, in their order, and makes the place where the sessions live."""
        kind = type(self).__name__
        if not hasattr(self, "_given"):
            raise DefinitionError(f"{kind}.__init__ does not call that of its base: begin it with super().__init__(members)")
        if type(self).forward is Team.forward:
            raise DefinitionError(f"{kind} has no forward: override `async def forward(self, run: rt.TeamRun)`")
        check_method(self.forward, ("the run",), "write `async def forward(self, run: rt.TeamRun)`")
        path = self.ctx.path
        roster = self._roster = Roster(path)
        for member in self._given:
            roster.put(await self._placed(member))
        definition = TeamDefinition(
            own_name(path), roster, self.forward, self._limits, remembers=self.remembers, takes_exit_at=self.takes_exit_at
        )
        await self._open(TeamSession, definition)

    async def forward(self, run: TeamRun) -> AgentMessage | str:
        """What a run does: from the message to the answer. Override it."""
        raise NotImplementedError(f"{type(self).__name__} has no forward: override `async def forward(self, run)`")

    # -- members -------------------------------------------------------------------------------------------------------------------------------------

    async def _placed(self, member: Member, keeper: Keeper | None = None, former: Ref[Any] | None = None) -> Place:
        """The place of a new member, spawned where it is a spec."""
        spec = member.ref
        if not isinstance(spec, AgentSpec):
            return Place(member)
        if keeper is None:
            keeper = _keeper_of(spec)
        name = member.name
        if self._made or name in OWN:  # those that were here before may be ending still
            name = f"{name}~~{self._made}"
        ref = await spec.spawn(self.ctx, name, keeper, former)
        return Place(attrs.evolve(member, ref=ref), spec, keeper)

    @handler(requires=MANAGE, raises=Exception)
    async def add_member(self, message: AddMember) -> None:
        """A new member. (The team waits until it has started: its sessions go on meanwhile.)"""
        name = self._new_name(message.name)
        if name in self._roster:
            raise DefinitionError(f"{self._path} has a member {name!r} already: remove that first, or give the new one another name")
        if len(self._roster) >= MAX_MEMBERS:
            raise DefinitionError(f"{self._path} has {MAX_MEMBERS:,} members, and no team has more: remove one first")
        given = message.member
        member = member_of(name, given, type(self).__name__, message.description)
        self._made += 1
        self._roster.put(await self._placed(member))

    def _new_name(self, name: object) -> str:
        return checked_name(name)

    @handler(requires=MANAGE, raises=Exception)
    async def edit_member(self, message: EditMember) -> None:
        """A member becomes another, with the same memory."""
        place = self._roster.place(message.name)
        member = place.member
        if message.description is None and message.options is None:
            raise BadInput(f"{self._path}: EditMember({message.name!r:.100}) changes nothing: give description=, or options= of its spec")
        if message.description is not None:
            member = attrs.evolve(member, description=message.description)
        if message.options is None:
            place.member = member
            return
        spec = place.spec
        if spec is None or place.keeper is None or issubclass(spec.cls, Team):
            why = "was not spawned by the team" if spec is None else "is a team itself: change its own members"
            raise DefinitionError(f"{self._path}: the options of its member {message.name!r} cannot be changed, for it {why}")
        if not isinstance(message.options, dict) or not all(isinstance(key, str) for key in message.options):
            raise DefinitionError(
                f'{self._path}: EditMember(options=…) is a dict of what {spec.cls.__name__} takes, {{"instructions": "…"}}'
            )
        if "sessions" in message.options:
            raise DefinitionError(f"{self._path}: sessions= of a member stays as it was made, for its memory does")
        self._made += 1
        changed = attrs.evolve(member, ref=spec.with_options(message.options))
        new = await self._placed(changed, place.keeper, place.member.ref)  # whoever edits it gives it no authority, and takes none
        self.ctx.start_soon(_retire, place, *place.replace(new))

    @handler(requires=MANAGE, raises=Exception)
    def pause_member(self, message: PauseMember) -> None:
        """No new work for it."""
        self._roster.change(message.name, paused=True)

    @handler(requires=MANAGE, raises=Exception)
    def unpause_member(self, message: UnpauseMember) -> None:
        """Work again."""
        self._roster.change(message.name, paused=False)

    @handler(requires=MANAGE, raises=Exception)
    def remove_member(self, message: RemoveMember) -> None:
        """A member no more."""
        place = self._roster.remove(message.name)
        self._made += 1
        if place.spec is not None:
            self.ctx.start_soon(_retire, place, place.member.ref, place.work)

    @handler(raises=Exception, open_to_all=True)
    def get_members(self, message: GetMembers) -> tuple[Member, ...]:  # noqa: ARG002
        """Who is here."""
        return tuple(self._roster)

    @handler(raises=Exception, open_to_all=True)
    def describe(self, message: Describe) -> Any:
        """The tree. Who is within is asked beside the messages."""
        levels: object = message.levels
        if type(levels) is not int or not 0 <= levels <= MOST_LEVELS:
            raise BadInput(f"{self._path}: Describe(levels={levels!r:.100}): give a number from 0 to {MOST_LEVELS}")
        within: object = message.within
        if type(within) is not tuple or len(within) > MOST_LEVELS:
            raise BadInput(f"{self._path}: Describe(within={within!r:.100}): leave it out, teams say it to their members")
        if not levels or self._path in within:
            return f"{type(self).__name__}(…)"
        self.ctx.start_soon(self._describe, self.ctx.defer(), Describe(levels - 1, (*within, self._path)))
        return None

    async def _describe(self, deferred: Deferred, question: Describe) -> None:
        about = " ".join(self.description.split())[:SHOWN]
        lines = [f"{type(self).__name__}(" + (f"  # {about}" if about else "")]
        known: dict[str, str] = {}  # one that is a member several times is asked once
        for member in self._roster:
            if not deferred.wanted:  # whoever asked has given up
                return
            made_of = known.get(member.ref.path) or await self._made_of(member.ref, question)
            known[member.ref.path] = made_of
            paused = " (paused)" if member.paused else ""
            lines.append("  " + f"({member.name}): {made_of}{paused}".replace("\n", "\n  "))
        deferred.reply("\n".join([*lines, ")"]) if len(lines) > 1 else f"{type(self).__name__}()")

    async def _made_of(self, ref: Ref[Any], question: Describe) -> str:
        try:
            answer: str = await ref.ask(question, timeout=LOOKING)
        except Unhandled:
            return "actor"
        except RetinueError as error:
            return f"[{type(error).__name__}]"
        return answer

    # -- key paths -----------------------------------------------------------------------------------------------------------------------------------

    def get_memory(self, message: GetMemory) -> Any:
        """What does a session remember?"""
        return self._into(message) if message.path else super().get_memory(message)

    def clear_memory(self, message: ClearMemory) -> Any:
        """Forget a session."""
        if message.path and message.recursive:
            raise UnknownStateKey(
                f"{self._path}: ClearMemory(path={message.path!r:.100}, recursive=True): give one of them; ask that agent itself for both",
                key=str(message.path),
            )
        return self._into(message) if message.path else super().clear_memory(message)

    def get_state(self, message: GetState) -> Any:
        """A session as plain data."""
        if message.path:
            return self._into(message)
        key, own = self._keys(message)
        if key != own:
            self._vouchers.leave(own, message)
        self.ctx.forward(self._sessions[own], message)
        return None

    def load_state(self, message: LoadState) -> Any:
        """A session from plain data."""
        return self._into(message) if message.path else super().load_state(message)

    def _into(self, message: Any) -> None:
        """Hands on what is meant for an agent within. Raises UnknownStateKey."""
        name, rest = first_of(message.path)
        if name not in self._roster:
            raise UnknownStateKey(
                f"{self._path} has no agent {name[:100]!r} within{near(name, self._roster.names)}", key=str(message.path)[:100]
            )
        self.ctx.forward(self._roster.place(name).member.ref, attrs.evolve(message, path=rest))


def _keeper_of(spec: AgentSpec) -> Keeper | None:
    """Where an agent of a spec will remember, kept apart from it so that another can go on with it; None for what has no `sessions=`."""
    if not issubclass(spec.cls, Front):
        return None
    taken = inspect.signature(spec.cls.__init__).parameters
    if "sessions" not in taken and not any(one.kind is one.VAR_KEYWORD for one in taken.values()):
        return None
    sessions = spec.options.get("sessions", SESSIONS)
    return Keeper(sessions) if type(sessions) is int and 1 <= sessions <= 1_000_000 else None


async def _retire(place: Place, ref: Ref[Any], work: Work) -> None:
    """Ends an actor that is a member no more, after what it is doing; and not before nobody can go on any more with a run that is parked in it."""
    await work.wait_idle()
    if ref is place.member.ref:  # else another goes on with its memory, and with what is parked there
        while place.keeper is not None and place.keeper.parks:  # noqa: ASYNC110 - nobody tells
            await trio.sleep(LOOK_AGAIN)  # without an end: people decide when they do
    place.former = [one for one in place.former if one[0] is not ref]
    await ref.stop(grace=TIMEOUT)
