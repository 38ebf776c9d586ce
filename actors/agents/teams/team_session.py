"""One conversation of a team with one subject: it takes one message at a time, in order, and remembers what the team was told and answered."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import attrs
import trio

from retinue.actors.agents.errors import AgentError, BadInput, NoSuchRun, TeamError
from retinue.actors.agents.events import ApprovalNeeded
from retinue.actors.agents.inputs import own_message
from retinue.actors.agents.isolation import ends_all
from retinue.actors.agents.keys import session_key, session_of
from retinue.actors.agents.leaving import Left, leave, owner_of, say_what_was_left
from retinue.actors.agents.message import (
    AgentMessage,
    Cancel,
    ClearMemory,
    GetMemory,
    GetState,
    LoadState,
    Memory,
    Resume,
    Run,
    RunEnd,
)
from retinue.actors.agents.parking import asking, give_up, new_run_id
from retinue.actors.agents.passing import emit
from retinue.actors.agents.session import Session, lies_at, memory_of, session_named
from retinue.actors.agents.teams.journal import Journal, ref_of
from retinue.actors.agents.teams.key_paths import checked_state, own_state, prefixed
from retinue.actors.agents.teams.team_run import TeamRun
from retinue.actors.agents.teams.team_state import NEW, ParkedTeam, TeamState
from retinue.actors.agents.teams.tree_limits import Tree, TreeLimits
from retinue.actors.agents.telling import advise
from retinue.actors.agents.views import state_dict
from retinue.mailbox.errors import Unhandled
from retinue.security.errors import ApprovalRequired, RetinueError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from retinue.actors.agents.keeping import Keeper
    from retinue.actors.agents.keys import Vouchers
    from retinue.actors.agents.teams.roster import Place, Roster
    from retinue.actors.runtime.interrupting import Interrupter

__all__ = ["TeamDefinition", "TeamSession"]

GIVING_UP: Final = 10.0
"""Seconds that a member has for taking back what was loaded into it."""


class TeamDefinition:
    """What a team's sessions share.

    Attributes:
        name: What the team signs its own words with.
        path: Its address.
        roster: Its members.
        forward: What a run does.
        limits: How much a run may use with all that it sets going; or None.
        remembers: Whether the team has a memory of its own.
        takes_exit_at: Whether its runs end where `rt.Run(…, exit_at=…)` says.
    """

    __slots__ = ("forward", "limits", "name", "path", "remembers", "roster", "takes_exit_at")

    def __init__(
        self,
        name: str,
        roster: Roster,
        forward: Callable[[TeamRun], Awaitable[Any]],
        limits: TreeLimits | None,
        *,
        remembers: bool,
        takes_exit_at: bool,
    ) -> None:
        self.name = name
        self.path = roster.path
        self.roster = roster
        self.forward = forward
        self.limits = limits
        self.remembers = remembers
        self.takes_exit_at = takes_exit_at


class TeamSession(Session):
    """A session of a team. Its arguments are those of `Session`, with a team's definition."""

    def __init__(self, definition: TeamDefinition, keeper: Keeper, running: dict[str, Interrupter], vouchers: Vouchers) -> None:
        shared: Any = definition
        super().__init__(shared, keeper, running, vouchers)
        self._team = definition
        self._strays: dict[str, Place] = {}  # parked runs of members that stood in the way of the last run, and are no part of it
        self._run_id: str | None = None  # of the run in progress; "": it has none yet
        self._run_in = ""  # the session that it is in
        self.asked: Counter[str] = Counter()  # the paths of those whom the run asks now, and can be parked at

    # -- runs ----------------------------------------------------------------------------------------------------------------------------------------

    async def answer(self, message: AgentMessage) -> AgentMessage:
        """A message, and the team's answer."""
        return await self._run(message, streamed=False)

    async def _run(self, request: Any, *, streamed: bool) -> AgentMessage:
        key = self._key
        self._check_own(session_named(request))
        self._running[key] = self.ctx.interrupter()
        try:
            if self.keeper.left:
                await say_what_was_left(self.ctx, self.keeper)
            if isinstance(request, Resume):
                return await self._again(request, streamed)
            return await self._anew(request if isinstance(request, Run) else Run(request), streamed)
        finally:
            self._running.pop(key, None)

    async def _anew(self, options: Run, streamed: bool) -> AgentMessage:
        team, said = self._team, options.message
        given: Any = options.limits
        if given is not None and not isinstance(given, TreeLimits):
            raise BadInput(
                f"{team.path}: a team's run is limited by rt.TreeLimits, not by a {type(given).__name__}: Run(…, limits=rt.TreeLimits(tokens=…))"
            )
        for name, why in (("tools", "its members have tools"), ("handoffs", "its members hand over")):
            if getattr(options, name):
                raise BadInput(f"{team.path}: Run({name}=…) is for a single agent; this is a team, and {why}", option=name, path=team.path)
        if options.exit_at is not None and not team.takes_exit_at:
            raise BadInput(f"{team.path}: Run(exit_at=…) is for rt.Sequential, whose stages have an order")
        state = self._kept
        message = self._taken(AgentMessage(said) if isinstance(said, str) else said, state)  # type: ignore[arg-type]  # it has what is looked at
        run = TeamRun(
            self,
            team.roster,
            team.name,
            message,
            state,
            Journal(),
            streamed=streamed,
            wait=options.wait_for_approvals,
            exit_at=options.exit_at,
        )
        limits = tuple(one for one in (team.limits, given) if one is not None)
        return await self._carried_out(run, limits, None, options.wait_for_approvals)

    async def _again(self, request: Resume, streamed: bool) -> AgentMessage:
        team, state = self._team, self._kept
        parked = state.parked.get(request.run)
        if parked is None:
            for team_run in state.parked.values():
                for one in team_run.journal.waiting:
                    if one.run == request.run:
                        raise NoSuchRun(
                            f"{team.path}: {request.run[:200]!r} is the run of {one.what[0]!r}, which is a part of the team's own: go on with that one, "
                            f"rt.Resume({team_run.id!r})",
                            run=request.run,
                        )
            raise NoSuchRun(
                f"{team.path} has no run {request.run[:200]!r} that waits: it has been resumed or given up, it never was, or it is another subject's",
                run=request.run,
            )
        wait = parked.wait if request.wait_for_approvals is None else request.wait_for_approvals
        run = TeamRun(
            self, team.roster, team.name, parked.message, state, parked.journal.copy(), streamed=streamed, wait=wait, exit_at=parked.exit_at
        )
        return await self._carried_out(run, parked.limits, parked, wait)

    async def _carried_out(
        self, run: TeamRun, limits: tuple[TreeLimits, ...], parked: ParkedTeam | None, wait: bool | None
    ) -> AgentMessage:
        """Runs it to its answer, or to where people have to decide; what becomes of the session's state then."""
        trees: list[Tree] = []
        self._run_id, self._run_in = "" if parked is None else parked.id, run.session
        ended: BaseException | None = None
        settled = False
        try:
            trees.extend(Tree(self.ctx, one, self._team.path) for one in limits)
            run.trees = trees
            answer = await run.carry_out(self._team.forward)
            if answer is None and not any(one.requests for one in run.journal.waiting):  # it waited for what has ended beside it
                team = self._team
                run = TeamRun(
                    self,
                    team.roster,
                    team.name,
                    run.told,
                    self._kept,
                    run.journal.copy(),
                    streamed=run.streamed,
                    wait=wait,
                    exit_at=run.exit_at,
                )
                run.trees = trees
                answer = await run.carry_out(team.forward)
            if answer is None:
                await trio.lowlevel.checkpoint_if_cancelled()  # as for an agent: whoever has given up hears of no run
                settled = True
                raise await self._set_aside(run, trees, parked, wait)
            await trio.lowlevel.checkpoint_if_cancelled()  # who was told that nothing is remembered was told the truth
            await self._keep(run, answer)
            settled = True
        except Exception as error:
            ended = error
            advise(error, of_team=True)
            named: Exception = error
            for tree in trees:
                named = tree.named(named, run.usage)
            if named is not error:
                raise named from error
            raise
        except BaseException as error:
            ended = error
            if not ends_all(error):
                raise AgentError(
                    f"{self._team.path}: a {type(error).__name__} came out of the team's forward, and ended the run"
                ) from error
            raise
        finally:
            asked, self._run_id = self._run_id, None
            self._strays = run.journal.strays
            if not settled:
                await self._ended_early(run, trees, parked, ended)
            if asked and asked not in self._kept.parked:  # also what it was cancelled over before it heard of it
                await leave(self.ctx, self.keeper, Left(owner_of(self.ctx.security), runs=(asked,)))
        if run.streamed:
            await emit(RunEnd(answer))
        return answer

    def _asks_for(self, _turn: object, path: str) -> str | None:
        """As for an agent: the run is parked where a member or a model is asked by it (`run.ask`, `run.complete`), and not where `forward` asks somebody by itself."""
        return self._run_now() if lies_at(path, self.asked) else None

    def _run_now(self) -> str | None:
        if self._run_id == "":
            self._run_id = new_run_id(self._run_in)
        return self._run_id

    @contextmanager
    def asking(self, path: str) -> Iterator[None]:
        """The run asks somebody, and can be parked at that."""
        self.asked[path] += 1
        try:
            yield
        finally:
            self.asked[path] -= 1
            if not self.asked[path]:
                del self.asked[path]

    async def _keep(self, run: TeamRun, answer: AgentMessage) -> None:
        state = self._kept
        data = run.data()
        items = (*state.items, run.told, own_message(answer, self._team.path)) if self._team.remembers else ()
        self._put(TeamState(items, data=data))  # type: ignore[arg-type]
        await self._give_up_soon(run)

    async def _set_aside(self, run: TeamRun, trees: list[Tree], parked: ParkedTeam | None, wait: bool | None) -> Exception:
        """Parks a run; the error that its asker gets."""
        team = self._team
        waiting = run.journal.waiting
        requests = tuple(dict.fromkeys(request for one in waiting for request in one.requests))
        if not requests:  # what waits does so for a run that is no part of this one any more
            if parked is None:
                await self._give_up_soon(run)
            return TeamError(
                f"{team.path}: a member waits for a run that was parked in its session, and is no part of this one: resume it, or cancel it"
            )
        name = self._run_now() or ""
        left = tuple(tree.left() for tree in trees)
        owner = owner_of(self.ctx.security)
        self._park(ParkedTeam(id=name, message=run.told, journal=run.journal, limits=left, wait=wait, exit_at=run.exit_at, owner=owner))
        if run.streamed:
            await emit(ApprovalNeeded(requests, name))
        who = asking((str(one.what[0]), one.requests) for one in waiting if one.requests)
        return ApprovalRequired(
            f"{team.path}: {who} needs a person's approval ({', '.join(request.id for request in requests)}); nothing of that was done. When it is decided, go on with "
            f"ask(rt.Resume({name!r}), approvals=[token])",
            operation=requests[0].binding.operation,
            path=team.path,
            requests=requests,
            run=name,
        )

    async def _ended_early(self, run: TeamRun, trees: list[Tree], parked: ParkedTeam | None, error: BaseException | None) -> None:
        """A run that has failed, or was cancelled: one that was parked stays so, with what it was answered since; of another nothing is left, nor with its members."""
        if parked is None:
            await self._give_up_soon(run)
            return
        if parked.id not in self._kept.parked:
            return
        run.put_back(error)
        left = tuple(tree.left() for tree in trees) if len(trees) == len(parked.limits) else parked.limits
        self._park(attrs.evolve(parked, journal=run.journal, limits=left))

    async def _give_up_soon(self, run: TeamRun) -> None:
        """Tells the members whose runs are parked that nobody will go on with them, and those who were asked in sessions of their own to forget these."""
        await leave(self.ctx, self.keeper, run.journal.left(owner_of(self.ctx.security)))

    # -- memory --------------------------------------------------------------------------------------------------------------------------------------

    def get_memory(self, message: GetMemory) -> Memory:
        """What the session remembers."""
        self._check_own(message.session, message)
        return memory_of(self._kept, message.recent)  # type: ignore[arg-type]

    async def clear_memory(self, message: ClearMemory) -> None:
        """Forgets everything; with `recursive`, the members do, too."""
        self._check_own(message.session, message)
        await self._give_up(self._kept, message)
        self.keeper.drop(self._key)
        if message.recursive:
            inner = ClearMemory(message.session, message.subject, message.tenant, recursive=True)
            failed: Exception | None = None
            for member in self._team.roster:
                try:
                    await member.ref.ask(inner)
                except Unhandled:  # it remembers nothing
                    continue
                except Exception as error:  # the others forget all the same: asked again, they would not come to it either
                    failed = failed or error
            if failed is not None:
                raise failed

    async def get_state(self, message: GetState) -> dict[str, Any]:  # type: ignore[override]
        """What the session and the members remember, as plain data."""
        security = self.ctx.security
        key = self._key
        if message.subject in (None, security.subject) and message.tenant in (None, security.tenant):
            self._check_own(message.session)
        elif self._vouched(message):  # the system's root authority, in its own session of this name; the team has looked
            owner = message.subject or security.subject
            key = session_key(message.session, owner, message.tenant or (security.tenant if message.subject is None else None))
        else:
            raise self._not_own()
        state = self._kept_of(key)
        remembers = self._team.remembers
        found = own_state(state_dict(state.items), state.data, remembers=remembers)
        for name, one in (await self._states(message)).items():
            found.update(prefixed(name, one))
        return found

    async def load_state(self, message: LoadState) -> None:
        """Puts plain data in the place of what the session and the members remember: all of it, or nothing."""
        self._check_own(message.session, message)
        before = await self._states(message)
        items, data, inner = checked_state(message.state, before, remembers=self._team.remembers)
        await self._give_up(self._kept, message)  # the members' go with what they remember, however that ends
        done: list[str] = []
        try:
            for name in inner:
                done.append(name)
                await self._load(name, inner[name], message)
        except BaseException:
            with trio.CancelScope(shield=True):  # bounded: each has GIVING_UP seconds
                for name in done:
                    await self._load(name, before[name], message, forced=True)
            raise
        self._put(TeamState(items, data=data))  # type: ignore[arg-type]

    async def _load(self, name: str, state: dict[str, Any], message: LoadState, *, forced: bool = False) -> None:
        ref = self._team.roster.place(name).member.ref
        load = LoadState(state, message.session, message.subject, message.tenant)
        if not forced:
            await ref.ask(load)
            return
        try:
            await ref.ask(load, timeout=GIVING_UP)
        except RetinueError:  # it is gone, and what it remembered with it
            return

    async def _states(self, message: GetState | LoadState) -> dict[str, dict[str, Any]]:
        """The states of the members that remember anything, by name."""
        found: dict[str, dict[str, Any]] = {}
        for member in self._team.roster:
            try:
                found[member.name] = await member.ref.ask(GetState(message.session, message.subject, message.tenant))
            except Unhandled:
                continue
        return found

    async def cancel(self, message: Cancel) -> bool:
        """Gives up a parked run, and those of the members that it waits for."""
        self._check_own(message.session if message.run is None else session_of(message.run), message)
        state, strays = self._kept, self._strays
        if message.run is None or message.run in state.parked:
            if not state.parked and not strays:
                return False
            await self._give_up(state, message)
            return True
        place = strays.pop(message.run, None)
        if place is None:
            return False
        await give_up(place.member.ref, message.run, message.subject, message.tenant)
        return True

    async def _give_up(self, state: TeamState, message: Cancel | ClearMemory | LoadState) -> None:
        """Gives up what is parked, and with it what the members have set aside; and what they have for others, where that stood in the way."""
        held = [(ref_of(each.whom), each.run or "") for parked in state.parked.values() for each in parked.journal.held]
        strays = dict(self._strays)
        for parked in state.parked.values():
            strays.update(parked.journal.strays)
        held += [(place.member.ref, run) for run, place in strays.items()]
        self._strays = {}
        if state.parked:
            self._put(attrs.evolve(self._kept, parked=NEW.parked))  # type: ignore[arg-type]
        async with trio.open_nursery() as nursery:
            for ref, run in held:
                nursery.start_soon(give_up, ref, run, message.subject, message.tenant)
        for parked in state.parked.values():
            left = parked.left(message.subject, message.tenant)  # but for the runs that were given up just now
            await leave(
                self.ctx, self.keeper, attrs.evolve(left, messages=[each for each in left.messages if isinstance(each[1], ClearMemory)])
            )

    # -- its state -----------------------------------------------------------------------------------------------------------------------------------

    @property
    def _kept(self) -> TeamState:
        return self._kept_of(self._key)

    def _kept_of(self, key: str) -> TeamState:
        state: Any = self.keeper.get(key)
        return state if isinstance(state, TeamState) else NEW

    def _park(self, parked: ParkedTeam) -> None:
        state: Any = attrs.evolve(self._kept, parked=MappingProxyType({parked.id: parked}))
        self._put(state)
