"""One conversation of an agent with one subject: it takes one message at a time, in order, and remembers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping
from contextlib import aclosing
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import attrs
import trio

from retinue.actors.agents.agent_tools import seat_of
from retinue.actors.agents.definition import Definition, Seat, tools_of
from retinue.actors.agents.errors import AgentError, BadInput, NoSuchRun, RunLimitReached, RunParked, UnknownStateKey
from retinue.actors.agents.handing_over import handing_over
from retinue.actors.agents.inputs import checked_input, own_items
from retinue.actors.agents.isolation import ends_all
from retinue.actors.agents.keys import session_key, session_of
from retinue.actors.agents.leaving import leave, left_of, owner_of, say_what_was_left
from retinue.actors.agents.limits import Spent
from retinue.actors.agents.message import (
    AgentEvent,
    AgentMessage,
    Cancel,
    ClearMemory,
    GetMemory,
    GetState,
    LoadState,
    Memory,
    Resume,
    Run,
    RunLimits,
    Step,
    StreamRun,
)
from retinue.actors.agents.passing import events_of
from retinue.actors.agents.run import Turn, narrower
from retinue.actors.agents.spans import run_begins, run_ends
from retinue.actors.agents.state import NONE, ParkedCall, ParkedRun, SessionState
from retinue.actors.agents.teams.tree_limits import Tree, TreeLimits
from retinue.actors.agents.telling import advise
from retinue.actors.agents.views import load_state_dict, state_dict
from retinue.actors.runtime.actor import Actor, handler
from retinue.actors.runtime.current import current
from retinue.actors.runtime.interrupting import Interrupter
from retinue.security.errors import ApprovalRequired, Denied

if TYPE_CHECKING:
    from retinue.actors.agents.aggregators import Made
    from retinue.actors.agents.keeping import Keeper
    from retinue.actors.agents.keys import Vouchers
    from retinue.actors.runtime.current import Delivery
    from retinue.capabilities.tool_results import ToolResult

__all__ = ["Session", "lies_at", "memory_of", "no_agents_within", "session_named"]


class Session(Actor):
    """A session; a virtual actor of its agent, which hands it its messages.

    Args:
        definition: The agent.
        keeper: Where the sessions' states are.
        running: How the run in progress of each session is interrupted, by key; the agent looks there.
        vouchers: What the agent hands on for root to sessions of others.
    """

    _span_begins = run_begins
    _span_ends = run_ends

    def __init__(self, definition: Definition, keeper: Keeper, running: dict[str, Interrupter], vouchers: Vouchers) -> None:
        self.keeper = keeper
        self._d = definition
        self._running = running
        self._vouchers = vouchers
        self._own_key: str | None = None
        self._owner: tuple[Any, object] = (None, "")  # the last authority that was found to be its own, and by which name it asked
        self.made: Made | None = None  # what the model was sent last, to go on from …
        self.made_for: object = None  # … where memory is this very tuple still
        self._turn: Turn | None = None  # the run in progress

    # -- runs ----------------------------------------------------------------------------------------------------------------------------------------

    # What goes wrong in a run is its answer, whatever it is (a tool, a hook or an aggregator may raise anything): nothing that is said restarts a session.
    @handler(raises=Exception, open_to_all=True)
    async def answer(self, message: AgentMessage) -> AgentMessage:
        """A message, and the agent's answer."""
        # `_run`, spelled out for what is said most often.
        turn: Delivery = current()
        key, d, own, session = self._own_key or self._find_key(), self._d, self._owner, message.session
        if turn.security is not own[0] or session.__class__ is not str or session != own[1]:
            self._check_own(session)
        self._running[key] = Interrupter(turn)
        try:
            if self.keeper.left:
                await say_what_was_left(self.ctx, self.keeper)
            state = self.keeper.get(key)
            said = checked_input(message, d.path) if not state.parked else self._taken(message, state)
            run = Turn(self, d, state, Spent(d.limits, d), d.box, said.session, streamed=False, wait=d.wait)
            return await self._settled(run, run.go(said))
        finally:
            self._running.pop(key, None)

    @handler(raises=Exception, open_to_all=True)
    async def run_with(self, message: Run) -> AgentMessage:
        """The same, with options."""
        return await self._run(message, streamed=False)

    @handler(raises=Exception, open_to_all=True)
    async def resume(self, message: Resume) -> AgentMessage:
        """A parked run goes on."""
        return await self._run(message, streamed=False)

    @handler(raises=Exception, open_to_all=True)
    async def stream(self, message: StreamRun) -> AsyncIterator[AgentEvent]:
        """Any of these, with a reader."""
        async with aclosing(events_of(self._run(message.request, streamed=True))) as events:
            async for event in events:
                yield event

    async def _run(self, request: Any, *, streamed: bool) -> AgentMessage:
        key = self._own_key
        if key is None:
            key = self._find_key()
        self._check_own(session_named(request))
        self._running[key] = self.ctx.interrupter()
        try:
            if self.keeper.left:
                await say_what_was_left(self.ctx, self.keeper)
            if request.__class__ is AgentMessage:
                d, state = self._d, self.keeper.get(key)
                message = self._taken(request, state)
                turn = Turn(self, d, state, Spent(d.limits, d), d.box, message.session, streamed=streamed, wait=d.wait)
                return await self._settled(turn, turn.go(message))
            if isinstance(request, Resume):
                return await self._resume(request, streamed)
            return await self._run_with(request if isinstance(request, Run) else Run(request), streamed)
        finally:
            self._running.pop(key, None)

    def _taken(self, message: AgentMessage, state: SessionState) -> AgentMessage:
        if state.parked:
            run = next(iter(state.parked))
            raise RunParked(
                f"{self._d.path}: the session's last run waits for a person, so that it takes no new message: go on with ask(rt.Resume({run!r})), or give it up "
                f"with ask(rt.Cancel({message.session!r}))",
                run=run,
            )
        return checked_input(message, self._d.path)

    async def _run_with(self, options: Run, streamed: bool) -> AgentMessage:
        said = options.message
        d, state = self._d, self._state
        if options.exit_at is not None:
            raise BadInput(f"{d.path}: Run(exit_at=…) is for rt.Sequential, whose stages have an order; this is a single agent")
        message = self._taken(AgentMessage(said) if isinstance(said, str) else said, state)
        wait = d.wait if options.wait_for_approvals is None else options.wait_for_approvals
        limits = options.limits
        if limits is not None and not isinstance(limits, RunLimits | TreeLimits):
            raise BadInput(f"{d.path}: Run.limits is a {type(limits).__name__}: give RunLimits(…) or TreeLimits(…)")
        spent = Spent(narrower(d.limits, limits if isinstance(limits, RunLimits) else None), d)
        handing = handing_over(options.handoffs, d) if options.handoffs else None
        turn = Turn(self, d, state, spent, d.box, message.session, streamed=streamed, wait=wait, extra_tools=options.tools, handing=handing)
        if isinstance(limits, TreeLimits):
            turn.tree = Tree(self.ctx, limits, d.path)
        return await self._with_tools(turn, lambda: turn.go(message))

    async def _resume(self, request: Resume, streamed: bool) -> AgentMessage:
        d, state = self._d, self._state
        parked = state.parked.get(request.run)
        if parked is None:
            raise NoSuchRun(
                f"{d.path} has no run {request.run[:200]!r} that waits: it has been resumed or given up, it never was, or it is another subject's",
                run=request.run,
            )
        wait = d.wait if request.wait_for_approvals is None else request.wait_for_approvals
        first = parked.items[0]
        session = first.session if isinstance(first, AgentMessage) else "0"
        handing = handing_over(parked.handoffs, d) if parked.handoffs else None
        turn = Turn(
            self, d, state, Spent(parked.limits, d), d.box, session, streamed=streamed, wait=wait, extra_tools=parked.tools, handing=handing
        )
        if parked.tree is not None:
            turn.tree = Tree(self.ctx, parked.tree, d.path)
        return await self._with_tools(turn, lambda: turn.go_on(parked, request))

    async def _with_tools(self, turn: Turn, start: Any) -> AgentMessage:
        """A run whose own tools' executors are this session's children as long as it lasts."""
        if not turn.extra_tools:
            return await self._settled(turn, start())
        seats: list[Seat] = []
        taken = [*turn.box.seats, *self._d.reserved, *(turn.handing.names if turn.handing is not None else ())]
        try:
            for tool in self._d.guards.confirmed(tools_of(turn.extra_tools, taken)):
                # One by one: what has started is stopped, also where a later one fails.
                seats.append(await seat_of(self.ctx, tool, self._d.artifacts, spawns=False))  # noqa: PERF401
            turn.box = turn.box.with_more(seats)
            return await self._settled(turn, start())
        finally:
            with trio.CancelScope(shield=True):  # bounded: without grace there is nothing to wait for but the end of what was cancelled
                for seat in seats:
                    await seat.executor.stop(grace=0)

    def _asks_for(self, _turn: Delivery, path: str) -> str | None:
        """For the gate: whose question it is where a person has to consent to what is sent from here to an actor. The run's, where it can be parked at that: calls of tools.
        What else is asked on the way (the model, by a function or a hook) ends the run, and is the question of whoever sends the message once more.
        """
        turn = self._turn
        return None if turn is None or not lies_at(path, (seat.executor.path for seat in turn.box.seats.values())) else turn.run_that_asks()

    async def _settled(self, turn: Turn, run: Coroutine[Any, Any, AgentMessage]) -> AgentMessage:
        self._turn = turn
        try:
            return await run
        except Exception as raised:
            advise(raised)
            error = raised if turn.tree is None else turn.tree.named(raised, turn.spent.usage)
            if isinstance(error, RunLimitReached):
                turn.over(error)
            instead: Exception = error
            if "on_error" in self._d.phases and not (isinstance(error, ApprovalRequired) and error.run is not None):
                instead = await turn.run_hooks("on_error", error)
            if instead is raised:
                raise
            raise instead from (raised if instead is error else error)
        except BaseException as error:
            if not ends_all(error):  # of what the agent was made with: an end of the run, and of nothing else
                raise AgentError(
                    f"{self._d.path}: a {type(error).__name__} came out of what the agent was made with, and ended the run"
                ) from error
            # The reader has left, or everything ends. (What `Cancel` has interrupted leaves memory as it was.)
            if turn.streamed and not self._running[self._key].used:
                turn.keep_partial("interrupted: the run was left; whether it was carried out is not known")
            raise
        finally:
            self._turn = None
            if turn.parked is not None and not turn.settled:
                self._note_spent(turn)
            if turn.inner is not None or turn.asked is not None or not turn.settled:
                await self._leave_what_waits(turn)

    async def _leave_what_waits(self, turn: Turn) -> None:
        """Of a run that ends: calls that wait, where the run does not; and what else people were asked for it."""
        parked = self._state.parked
        over = () if turn.asked is None or turn.asked in parked else (turn.asked,)
        ended = turn.inner is not None or not turn.settled
        waiting = [each for each in turn.outcomes.values() if isinstance(each, ParkedCall)] if ended else []
        if not waiting and not over:
            return
        runs = {each.inner for one in parked.values() for each in one.waiting}
        left = left_of((each for each in waiting if each.inner is None or each.inner not in runs), owner_of(self.ctx.security))
        await leave(self.ctx, self.keeper, attrs.evolve(left, runs=over))

    # -- memory --------------------------------------------------------------------------------------------------------------------------------------

    @handler(raises=Exception, open_to_all=True)
    def get_memory(self, message: GetMemory) -> Memory:
        """What the session remembers."""
        self._check_own(message.session, message)
        self._alone(message.path)
        return memory_of(self._state, message.recent)

    @handler(raises=Exception, open_to_all=True)
    async def clear_memory(self, message: ClearMemory) -> None:
        """Forgets everything."""
        self._check_own(message.session, message)
        self._alone(message.path)
        parked = self._state.parked
        self.keeper.drop(self._key)
        await self._let_go(parked, message)
        security = self.ctx.security
        owner, tenant = (message.subject, message.tenant) if message.subject else (security.subject, message.tenant or security.tenant)
        if not self._d.artifacts.empty:
            self._d.artifacts.forget((tenant, owner, self.ctx.path))

    @handler(raises=Exception, open_to_all=True)
    def get_state(self, message: GetState) -> dict[str, Any]:
        """What the session remembers, as plain data."""
        self._check_own(message.session, message)
        self._alone(message.path)
        return state_dict(self._state.items)

    @handler(raises=Exception, open_to_all=True)
    async def load_state(self, message: LoadState) -> None:
        """Puts plain data in the place of what it remembers."""
        self._check_own(message.session, message)
        self._alone(message.path)
        items = load_state_dict(message.state)[""]
        turns = max((item.turn for item in items if isinstance(item, Step)), default=0)
        before = self._state
        self._put(SessionState(tuple(items), turn=max(turns, before.turn), has_artifacts=before.has_artifacts))
        await self._let_go(before.parked, message)

    @handler(raises=Exception, open_to_all=True)
    async def cancel(self, message: Cancel) -> bool:
        """Gives up a parked run; one in progress the agent has interrupted itself."""
        self._check_own(message.session if message.run is None else session_of(message.run), message)
        state = self._state
        if not state.parked or (message.run is not None and message.run not in state.parked):
            return False
        self._put(SessionState(state.items, turn=state.turn, has_artifacts=state.has_artifacts))
        await self._let_go(state.parked, message)
        return True

    async def _let_go(self, given_up: Mapping[str, ParkedRun], message: Cancel | ClearMemory | LoadState) -> None:
        """Nobody goes on with what was parked here, nor with what is parked in agents within because of that."""
        for parked in given_up.values():
            await leave(self.ctx, self.keeper, parked.left(message.subject, message.tenant))

    def _alone(self, path: str) -> None:
        if path:
            raise no_agents_within(self._d.path, path)

    def _check_own(self, session: object, message: object = None) -> None:
        """Whatever comes to the session's own address: only what is sent under its subject's name is for it, and what its agent has vouched for."""
        security, owner = self.ctx.security, self._owner
        if security is owner[0] and session.__class__ is str and session == owner[1]:
            return
        key = self._key
        if session_key(str(session), security.subject, security.tenant) == key:
            self._owner = security, session
            return
        if message is not None and self._vouched(message):
            return
        raise self._not_own()

    def _vouched(self, message: object) -> bool:
        return self._vouchers.take(self._key, message, copied=self._cell.kernel.loopback is not None)

    def _not_own(self) -> Exception:
        security = self.ctx.security
        return self.ctx.refusal(
            Denied(
                f"{self._d.path}: this session is not one of {security.subject!r}: ask the agent itself, which finds one's own session",
                path=self.ctx.path,
                subject=security.subject,
                reason="subject",
            )
        )

    # -- what runs do to it --------------------------------------------------------------------------------------------------------------------------

    @property
    def _key(self) -> str:
        key = self._own_key
        return self._find_key() if key is None else key

    def _find_key(self) -> str:
        key = self._own_key = self.ctx.key or ""
        return key

    @property
    def _state(self) -> SessionState:
        return self.keeper.get(self._key)

    def _put(self, state: SessionState) -> None:
        self.keeper.put(self._key, state)

    def commit(self, turn: Turn) -> None:
        """Takes over what a run did: the one assignment by which memory changes. (Nothing waits in a session for a run to end, so a parked one is this one.)"""
        items = turn.state.items + tuple(turn.items)
        self.keeper.put(self._own_key or "", SessionState(items, NONE, turn.number, turn.has_artifacts))
        self.made, self.made_for = turn.made, items
        turn.settled = True

    def park(self, run: ParkedRun) -> None:
        """Sets a run aside."""
        state = self._state
        self._put(SessionState(state.items, MappingProxyType({run.id: run}), state.turn, state.has_artifacts or run.has_artifacts))

    def note_begun(self, run: str | None, call_id: str) -> None:
        """A call of a parked run is about to be carried out: from now on nobody knows, until its result is noted."""
        self._change(run, call_id, begun=True)

    def note_waiting(self, run: str | None, waiting: ParkedCall) -> None:
        """It was not: it waits for a person."""
        self._change(
            run, waiting.call.id, call=waiting.call, begun=False, requests=waiting.requests, inner=waiting.inner, agent=waiting.agent
        )

    def note_done(self, run: str | None, call_id: str, result: ToolResult) -> None:
        """It was carried out, and hooks look at what came of it."""
        self._change(run, call_id, result=result)

    def note_result(self, run: str | None, step: Step) -> None:
        """It has a result, which is never asked for again."""
        parked = self._state.parked.get(run or "")
        if parked is not None:
            waiting = tuple(each for each in parked.waiting if each.call.id != step.call_id)
            self.park(attrs.evolve(parked, waiting=waiting, results={**parked.results, step.call_id or "": step}))

    def _note_spent(self, turn: Turn) -> None:
        """What a run that is parked still has used: its limits hold however often it is resumed."""
        parked = self._state.parked.get(turn.parked or "")
        if parked is not None:
            tree = None if turn.tree is None else turn.tree.left()
            self.park(attrs.evolve(parked, spent=turn.spent.counts, usage=turn.spent.usage, tree=tree))

    def _change(self, run: str | None, call_id: str, **changes: Any) -> None:
        parked = self._state.parked.get(run or "")
        if parked is not None:
            waiting = tuple(attrs.evolve(each, **changes) if each.call.id == call_id else each for each in parked.waiting)
            self.park(attrs.evolve(parked, waiting=waiting))


def lies_at(path: str, places: Iterable[str]) -> bool:
    """Whether an actor is one of those at these paths, or one of theirs, such as a pool's worker."""
    return any(path == place or path.startswith(f"{place}/") for place in places)


def no_agents_within(where: str, path: object) -> UnknownStateKey:
    """The error for a key path that leads into an agent that has nobody within."""
    shown = repr(path)[:100]
    return UnknownStateKey(f"{where} is a single agent, and there is no agent {shown} in it: leave path= out", key=str(path)[:100])


def memory_of(state: SessionState, recent: int | None) -> Memory:
    """What a session remembers, or the last `recent` messages of it with what came after them."""
    items = state.items
    if recent is not None:
        places = [index for index, item in enumerate(items) if item.__class__ is AgentMessage]
        items = items[places[-recent] :] if 0 < recent <= len(places) else items if recent else ()
    return Memory(own_items(items))


def session_named(request: object) -> object:
    """The name of the session that a message is for."""
    if isinstance(request, Resume):
        return session_of(request.run)
    said = request.message if isinstance(request, Run) else request
    return said.session if isinstance(said, AgentMessage) else "0"
