"""One run of a team: what its `forward` is given. It asks members, and keeps a journal of what they answered."""

from __future__ import annotations

import inspect
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import attrs
import trio

from retinue.actors.agents.errors import BadInput, RunParked, TeamError
from retinue.actors.agents.events import HandedOff
from retinue.actors.agents.inputs import checked_session, own_items, own_message
from retinue.actors.agents.keys import session_key
from retinue.actors.agents.message import TIMEOUT, AgentMessage, ClearMemory, FromMember, Resume, Run, RunEnd
from retinue.actors.agents.parking import give_up
from retinue.actors.agents.passing import emit
from retinue.actors.agents.spans import note_handoff
from retinue.actors.agents.specs import takes
from retinue.actors.agents.teams.arguments import called, close_all, functions_of, several
from retinue.actors.agents.teams.branches import Failure, at_once_in_order
from retinue.actors.agents.teams.consents import sent_with_consent
from retinue.actors.agents.teams.handing import refuses_handoffs
from retinue.actors.agents.teams.journal import (
    Answered,
    Branch,
    Failed,
    ParkedAsk,
    Parking,
    Waits,
    branch_in_force,
    precedes,
    ref_of,
)
from retinue.actors.agents.teams.key_paths import plain_data, receiver_within
from retinue.actors.agents.telling import note
from retinue.actors.llm.usage import used_too
from retinue.actors.runtime.asking import time_left
from retinue.actors.runtime.current import current
from retinue.actors.runtime.ref import Ref
from retinue.actors.runtime.tracing import unseen
from retinue.mailbox.errors import Unhandled
from retinue.security.errors import ApprovalRequired

if TYPE_CHECKING:
    from retinue.actors.agents.handoffs import Handoff
    from retinue.actors.agents.message import AgentEvent, RunLimits
    from retinue.actors.agents.teams.journal import Journal
    from retinue.actors.agents.teams.members import Member
    from retinue.actors.agents.teams.roster import Place, Roster
    from retinue.actors.agents.teams.team_session import TeamSession
    from retinue.actors.agents.teams.team_state import TeamState
    from retinue.actors.agents.teams.tree_limits import Tree, TreeLimits
    from retinue.actors.llm.messages import Complete, Completion
    from retinue.actors.llm.usage import Usage

__all__ = ["TeamRun"]

AT_ONCE = 8
"""Members that `gather` asks at the same time, unless it is told otherwise."""

MOST_LATE = 1_000
"""Events of tasks of the author's own that wait for the run's next event."""


class TeamRun:
    """A run of a team in one of its sessions, given to `Team.forward`.

    What `forward` does follows from the message, `state`, and what it was answered, and from nothing else: where a member needs a person's consent the run is parked,
    and later `forward` is run again from its beginning, with the answers that there were; nobody is asked twice. What comes from elsewhere (chance, time, a file)
    goes through `decide`.

    Attributes:
        message: What the team was told.
        session: The session's name. Members are asked in the session of this name.
        state: Plain JSON-like data that the session keeps from run to run; what `forward` changes in it is kept when the run has its answer.
        exit_at: Of `rt.Run(…, exit_at=…)`; None where nothing was said.
    """

    __slots__ = (
        "_flying", "_history", "_home", "_landed", "_late", "_old", "_resuming", "_roster", "_streamed", "_task", "_together", "_visited", "_wait", "exit_at",
        "journal", "message", "name", "path", "session", "state", "told", "trees", "usage",
    )  # fmt: skip

    def __init__(
        self,
        home: TeamSession,
        roster: Roster,
        name: str,
        message: AgentMessage,
        before: TeamState,
        journal: Journal,
        *,
        streamed: bool = False,
        wait: bool | None = None,
        exit_at: int | str | None = None,
    ) -> None:
        self.message = own_message(message, roster.path)
        self.told = message  # nobody but the session has it
        self.session: str = message.session
        self.state: dict[str, Any] = plain_data(dict(before.data), "run.state")
        self.exit_at = exit_at
        self.name = name
        self.path = roster.path
        self.journal = journal
        self.usage: Usage | None = None
        self.trees: Sequence[Tree] = ()
        self._home = home
        self._roster = roster
        self._history = before.items
        self._streamed = streamed
        self._wait = wait
        self._old = frozenset(journal.entries)
        self._resuming = {entry.run: trio.Event() for entry in journal.waiting if entry.run is not None}
        self._flying: Counter[Any] = Counter()  # asks that go on, by where
        self._landed = trio.Event()
        self._together: list[list[Exception]] = []  # errors of branches that ended in the first of them
        self._visited: set[tuple[int, ...]] = set()
        self._late: list[AgentEvent] = []
        self._task: Any = None
        for entry in journal.entries.values():
            if isinstance(entry, Answered):
                self._used(getattr(entry.answer, "usage", None))

    # -- who is there, what was said -----------------------------------------------------------------------------------------------------------------

    @property
    def members(self) -> tuple[str, ...]:
        """The names of the members that are not paused, in order, as of now; in a run that is run again, as of then."""
        number, seen = self._next_step(), self.journal.seen
        if number not in seen:
            seen[number] = self._roster.active
        return seen[number]

    @property
    def all_members(self) -> tuple[str, ...]:
        """The names of all members, the paused ones too, as of now; in a run that is run again, as of then."""
        number, everyone = self._next_step(), self.journal.everyone
        if number not in everyone:
            everyone[number] = self._roster.names
        return everyone[number]

    def member(self, name: str) -> Member:
        """A member; in a run that is run again, also one that was removed since. Raises NoSuchMember."""
        known = self.journal.known
        if name in self._roster or name not in known:
            known[name] = self._roster.place(name).member
        found: Member = known[name]
        return found

    def describe(self, name: str) -> str:
        """What a member is good for; "" where nobody said. Raises NoSuchMember."""
        return self.member(name).description

    @property
    def history(self) -> tuple[AgentMessage, ...]:
        """What the team was told and has answered in this session before."""
        return tuple(item for item in own_items(self._history) if isinstance(item, AgentMessage))

    @property
    def subject(self) -> str:
        """Under whose authority it goes."""
        return self._home.ctx.security.subject

    @property
    def tenant(self) -> str | None:
        """Of which tenant that is."""
        return self._home.ctx.security.tenant

    @property
    def streamed(self) -> bool:
        """Whether somebody reads the run's events."""
        return self._streamed

    # -- asking ----------------------------------------------------------------------------------------------------------------------------------------

    async def ask(
        self,
        member: str,
        message: AgentMessage | str,
        *,
        timeout: float | None = None,
        limits: RunLimits | TreeLimits | None = None,
        handoffs: Iterable[Handoff | str] = (),
        tools: Iterable[Any] = (),
        session: str | None = None,
    ) -> AgentMessage:
        """Asks a member, under the run's authority. What it says on its way is told to the reader of the team's stream.

        Args:
            member: Its name.
            message: What it is told; a str is the team's own words.
            timeout: Seconds that it may take; default: as long as the run has; 600 where nobody waits for that.
            limits, handoffs, tools: As in `rt.Run`, for this ask.
            session: The member's session; default: that of the run.

        Returns:
            The answer, with the member's name as its sender.

        Raises:
            NoSuchMember, MemberPaused: It was not asked.
            TeamDiverged: The run was parked, and takes another way than before.
            Exception: What an ask of an agent raises.
        """
        said = self._said(member, message, session)
        options = (limits, several(handoffs, "handoffs", self.path), several(tools, "tools", self.path))
        first, again = partial(self._ask, member, said, options, timeout), partial(self._go_on, said, options, timeout)
        answer: AgentMessage = await self._step((member, said), first, again)
        return answer

    async def gather(
        self,
        asks: Sequence[tuple[str, AgentMessage | str]],
        *,
        at_once: int = AT_ONCE,
        errors: Literal["raise", "return"] = "raise",
        timeout: float | None = None,
    ) -> list[Any]:
        """Asks several members at the same time.

        Args:
            asks: Whom, and what.
            at_once: How many of them at the same time; default 8.
            errors: "raise": when all have ended, the first error in their order is raised. "return": an error stands in the place of its answer, limits too.
            timeout: Seconds that each may take.

        Returns:
            The answers in the order of the asks.
        """
        try:
            functions = [partial(self.ask, member, message, timeout=timeout) for member, message in asks]
        except (TypeError, ValueError):
            close_all(asks)
            raise BadInput(
                f'{self.path}: run.gather takes pairs of a member and a message, [("writer", "Begin"), …], and asks itself'
            ) from None
        return await self.together(functions, at_once=at_once, errors=errors)

    async def together(
        self, functions: Sequence[Callable[[], Awaitable[Any]]], *, at_once: int = AT_ONCE, errors: Literal["raise", "return"] = "raise"
    ) -> list[Any]:
        """Calls async functions at the same time, each of which may ask members, one after the other. Use this and not a nursery: so each of them goes on where it was
        after a decision, and the others go on while one waits for a person. Arguments and result as for `gather`.
        """
        if errors not in ("raise", "return"):
            raise BadInput(f'{self.path}: errors={errors!r}: give "raise" or "return"')
        if isinstance(at_once, bool) or not isinstance(at_once, int) or at_once < 1:
            raise BadInput(f"{self.path}: at_once={at_once!r}: give how many are asked at the same time, 1 or more")
        outcomes = await at_once_in_order(self, self._branch(), functions_of(functions, self.path), at_once, self._say)
        if any(isinstance(outcome, Parking) for outcome in outcomes):
            raise Parking
        lost = [outcome.error for outcome in outcomes if isinstance(outcome, Failure)]
        if errors == "raise" and lost:
            self._together.append(lost)
            raise lost[0]
        return [outcome.error if isinstance(outcome, Failure) else outcome for outcome in outcomes]

    async def complete(self, model: Ref[Any], request: Complete, *, timeout: float | None = None) -> Completion:
        """Asks a model: for choosing, planning, summing up. Under the same authority and journal as the asks of members."""
        if not isinstance(model, Ref):
            raise BadInput(f"{self.path}: run.complete was given a {type(model).__name__}: give the ref of a model, and a request")

        async def ask(asked: Complete, approvals: Any = ()) -> Completion:
            try:
                with self._home.asking(model.path):
                    completion: Completion = await model.ask(asked, timeout=timeout, approvals=approvals)
            except ApprovalRequired as required:
                raise Waits(model, required) from None
            self._used(completion.usage)
            return completion

        async def go_on(entry: ParkedAsk) -> Completion:
            return await self._consented(entry, request, ask)  # type: ignore[no-any-return]

        return await self._step(("a model", model.path, request), partial(ask, request), go_on)  # type: ignore[no-any-return]

    async def decide(self, function: Callable[[], Any]) -> Any:
        """What a function gives that does not follow from the answers alone: it is called once, and its value is kept where the run is run again.

        Args:
            function: Plain or `async def`, without arguments; gives JSON-like data. It asks nobody.
        """
        if not callable(function):
            raise BadInput(f"{self.path}: run.decide was given a {type(function).__name__}: give a function without arguments")

        async def call() -> Any:
            value = called(function, f"{self.path}: run.decide")
            return plain_data(await value if inspect.isawaitable(value) else value, "run.decide(…)")

        return await self._step(("a decision",), call, None)

    async def forget(self, member: str, session: str) -> None:
        """Clears the memory of a member in one of its sessions, such as one that was for this run alone."""

        async def clear() -> None:
            ref = self._roster.place(member).member.ref
            with unseen(self._home._cell.kernel), suppress(Unhandled):  # then it remembers nothing
                await ref.ask(ClearMemory(session, recursive=True))

        await self._step(("forget", member, session), clear, None)

    def passing(self, member: str, sessions: Iterable[str]) -> None:
        """A member's sessions that are for this run alone: they are forgotten when it is over, also where it is parked, and given up later. Internal."""
        place = self._roster.places.get(member)
        self.journal.passing = () if place is None else tuple((place, session) for session in sessions)

    # -- telling -------------------------------------------------------------------------------------------------------------------------------------

    async def emit(self, event: AgentEvent) -> None:
        """Tells the reader of the team's stream something. Nothing is said where nobody reads, nor once more where the run is run again."""
        if self._is_news() and self._streamed:
            await self._say(event)

    async def handed_off(self, source: str, target: str, reason: str = "") -> None:
        """Tells that a member has handed the conversation to another."""
        if self._is_news():
            note_handoff(self._home.ctx.span, source, target, reason)
        await self.emit(HandedOff(source, target, reason))

    def label(self, text: str) -> None:
        """What the present branch of `together` is called for the reader of the stream. Internal."""
        self._branch().label = text

    # -- inside --------------------------------------------------------------------------------------------------------------------------------------

    def _is_news(self) -> bool:
        """Whether the run has come further than it had when it was parked."""
        return self._next_step() not in self._old

    def _next_step(self) -> tuple[int, ...]:
        branch = self._branch()
        return (*branch.path, branch.steps)

    def _branch(self) -> Branch:
        branch = branch_in_force.get()
        if branch is None or branch.run is not self:
            raise TeamError(f"{self.path}: a run of a team is used in its own `forward`, and in what that starts, as long as it goes on")
        return branch

    def _used(self, usage: Usage | None) -> None:
        self.usage = used_too(self.usage, usage)

    def _said(self, member: str, message: object, session: str | None) -> AgentMessage:
        name = self.session if session is None else checked_session(session, self.path)
        if isinstance(message, str):
            return AgentMessage(message, self.name, None, name)
        if not isinstance(message, AgentMessage):
            raise BadInput(f"{self.path}: run.ask was given a {type(message).__name__}: give a str, or rt.AgentMessage(…)")
        message = own_message(message, self.path)  # what the author does with it later changes no journal
        receiver = message.receiver and receiver_within(message.receiver, member)
        return message if message.session == name and receiver == message.receiver else _evolved(message, session=name, receiver=receiver)

    async def _step(self, what: Any, do: Callable[[], Awaitable[Any]], go_on: Callable[[ParkedAsk], Awaitable[Any]] | None) -> Any:
        """One step of the run: its answer as it was, or as it is now."""
        number = self._branch().next()
        self._visited.add(number)
        journal, entries = self.journal, self.journal.entries
        entry = journal.find(number, what, self.path)
        if isinstance(entry, Answered):
            return _own(entry.answer)
        if isinstance(entry, Failed):
            raise entry.error
        try:
            while True:
                try:
                    answer = await (do() if entry is None or go_on is None else go_on(entry))
                    break
                except Waits as waits:
                    if not await self._may_ask_again(number, waits):
                        raise
        except Waits as waits:
            found = entries[number] = self._parked(number, what, waits, entry)
            if isinstance(found, Failed):
                if not isinstance(waits.whom, Ref):
                    note(found.error, f"of the member {waits.whom.member.name!r} of {self.path}")
                raise found.error from None
            raise Parking from None
        except Exception as error:
            entries[number] = Failed(what, error, entry, any(tree.ends(error) for tree in self.trees))
            raise
        entries[number] = Answered(what, answer)
        return _own(answer)

    async def _may_ask_again(self, number: tuple[int, ...], waits: Waits) -> bool:
        """Whether somebody who could not be asked, for a run is parked there, can be now."""
        run = waits.error.run
        if not isinstance(waits.error, RunParked) or run is None:
            return False
        while not self._is_mine(run) and self._flying[waits.lane]:
            await self._landed.wait()  # it may be that run which was just parked; each ask has an end
        held = self.journal.holder(run)
        if held is None or not precedes(held[0], number):
            return False
        self.journal.let_go(held[0])  # `forward` has gone on without it
        await give_up(ref_of(waits.whom), run)
        return True

    def _is_mine(self, run: str) -> bool:
        return self.journal.holder(run) is not None or any(one.run == run for one in self.journal.waiting)

    def _parked(self, number: tuple[int, ...], what: Any, waits: Waits, was: ParkedAsk | None) -> ParkedAsk | Failed:
        error = waits.error
        if not isinstance(error, RunParked):
            return ParkedAsk(what, waits.whom, error.run, error.requests) if error.requests else Failed(what, error, was)
        run = error.run
        held = None if run is None else self.journal.holder(run)
        if held is not None and held[0] != number:
            return Failed(what, held[1].error, was)  # it comes after that one, which has failed
        if run is not None and any(one.run == run for one in self.journal.waiting):
            return ParkedAsk(what, waits.whom, None, (), run)
        if run is not None and not isinstance(waits.whom, Ref):
            self.journal.strays[run] = waits.whom
        return Failed(what, error, was)

    def put_back(self, error: BaseException | None) -> None:
        """The steps that have ended a run in an error are asked once more when it goes on. Internal."""
        found = self.journal.behind(error)
        self.journal.put_back([*found, *(each for lost in self._together if any(lost[0] is one for one in found) for each in lost)])

    async def _ask(self, member: str, said: AgentMessage, options: Any, timeout: float | None) -> AgentMessage:
        place = self._roster.at_work(member)
        return await self._exchange(place, said.session, self._request(place, said, options), timeout, ())

    async def _go_on(self, said: AgentMessage, options: Any, timeout: float | None, entry: ParkedAsk) -> AgentMessage:
        place = entry.whom
        assert not isinstance(place, Ref)  # it is a member that was asked
        if entry.run is not None:
            try:
                return await self._exchange(place, said.session, Resume(entry.run, self._wait), timeout, self._home.ctx.approvals)
            finally:
                event = self._resuming.get(entry.run)
                if event is not None:
                    event.set()
        request = self._request(place, said, options)
        if entry.behind is None:
            answer: AgentMessage = await self._consented(
                entry, request, lambda asked, approvals: self._exchange(place, said.session, asked, timeout, approvals)
            )
            return answer
        event = self._resuming.get(entry.behind)
        if event is not None:
            await event.wait()  # as long as the run may take: that ask goes on beside this one
        return await self._exchange(place, said.session, request, timeout, ())

    async def _consented(self, entry: ParkedAsk, request: Any, send: Callable[[Any, Any], Awaitable[Any]]) -> Any:
        ctx = self._home.ctx
        return await sent_with_consent(entry, request, send, ctx.decision, ctx.approvals, self.path)

    def _request(self, place: Place, said: AgentMessage, options: Any) -> AgentMessage | Run:
        limits, handoffs, tools = options
        if limits is None and not handoffs and not tools and (self._wait is None or not takes(place.member.ref, Run)):
            return said
        return Run(said, tools=tools, limits=limits, wait_for_approvals=self._wait, handoffs=handoffs)

    async def _exchange(self, place: Place, session: str, request: Any, timeout: float | None, approvals: Any) -> AgentMessage:
        member = place.member.name
        key = session_key(session, self.subject, self.tenant)  # the member's session, in which two sessions of the team may ask it
        ref, work = place.worker(key)
        if timeout is None and time_left(current()) > TIMEOUT and getattr(current(), "asked", False):
            timeout = math.inf  # as long as the run has, also where that is longer than asks are by themselves
        answer: Any = None
        lane = ref.path if place.keeper is None else place.keeper, session
        self._flying[lane] += 1
        work.begin(key)
        try:
            with self._home.asking(ref.path):
                if self._streamed:
                    answer = await self._read(member, ref, request, timeout, approvals)
                if answer is None:
                    answer = await ref.ask(request, timeout=timeout, approvals=approvals)
        except (ApprovalRequired, RunParked) as error:
            raise Waits(place, error, lane) from None
        except Exception as error:
            if refuses_handoffs(error, ref, request):
                self.journal.hands_nothing.add(member)
            note(error, f"of the member {member!r} of {self.path}")
            raise
        finally:
            work.end(key)
            self._flying[lane] -= 1
            landed, self._landed = self._landed, trio.Event()
            landed.set()
        if isinstance(answer, str):
            answer = AgentMessage(answer, member, None, self.session)
        if not isinstance(answer, AgentMessage):
            raise TeamError(
                f"{self.path}: its member {member!r} has answered with a {type(answer).__name__}: a member answers with an rt.AgentMessage, or a str"
            )
        self._used(answer.usage)
        return answer if answer.sender == member else _evolved(answer, sender=member)

    async def _read(self, member: str, ref: Ref[Any], request: Any, timeout: float | None, approvals: Any) -> AgentMessage | None:
        """The answer of a member whose events are told to the reader; None where it answers in one piece only."""
        answer: AgentMessage | None = None
        begun = False
        label = self._branch().label
        try:
            async with ref.stream(request, timeout=timeout, approvals=approvals) as events:
                async for event in events:
                    begun = True
                    await self._say(FromMember(member, FromMember(label, event) if label else event))
                    if isinstance(event, RunEnd):
                        answer = event.message
        except Unhandled:
            if begun:
                raise
            return None
        if answer is None:
            raise TeamError(f"{self.path}: its member {member!r} has ended its stream without an answer: the last event is an rt.RunEnd")
        return answer

    async def _say(self, event: Any) -> None:
        """Gives the reader an event, from whichever branch."""
        if not self._streamed:
            return
        branch = branch_in_force.get()
        if branch is not None and branch.run is self and branch.tell is not None:
            await branch.tell(event)
        elif trio.lowlevel.current_task() is self._task:
            while self._late:
                await emit(self._late.pop(0))
            await emit(event)
        elif len(self._late) < MOST_LATE:  # a task of the author's own: told with the next event of the run itself
            self._late.append(event)

    # -- from beginning to end ------------------------------------------------------------------------------------------------------------------------

    async def carry_out(self, forward: Callable[[TeamRun], Awaitable[Any]]) -> AgentMessage | None:
        """Runs a team's `forward`; None where the run waits for a person. Internal."""
        self._task = trio.lowlevel.current_task()
        branch_in_force.set(Branch(self))  # not reset: a stream that is left may be ended in another context
        try:
            said: Any = forward(self)
            if not inspect.isawaitable(said):
                raise TeamError(
                    f"{self.path}: its forward is no `async def`, and returned a {type(said).__name__}: write `async def forward(self, run)`"
                )
            said = await said
        except Parking:
            return None
        except BaseExceptionGroup as group:  # of a nursery of the author's own
            _, rest = group.split(Parking)
            if rest is None:
                return None
            raise _single(rest) from None
        if not self.journal.is_over(self._visited, self.path):
            return None
        answer = self._answer(said)
        while self._streamed and self._late:
            await emit(self._late.pop(0))
        return answer

    def _answer(self, said: object) -> AgentMessage:
        if isinstance(said, str):
            return AgentMessage(said, self.name, None, self.session, usage=self.usage, partial=self.journal.limited)
        if not isinstance(said, AgentMessage):
            raise TeamError(f"{self.path}: its forward {_returned(said)}")
        answer: AgentMessage = _evolved(said, session=self.session, usage=self.usage, partial=said.partial or self.journal.limited)
        return answer

    def data(self) -> Mapping[str, Any]:
        """What is to be kept of `state`. Raises BadState where it is no plain data. Internal."""
        if not isinstance(self.state, dict):
            raise TeamError(f"{self.path}: run.state is a {type(self.state).__name__} now: change what is in the dict, and leave the dict")
        data: dict[str, Any] = plain_data(self.state, "run.state")
        return data


def _returned(said: object) -> str:
    """What is wrong with that, and what would be right."""
    if said is None:
        return "returned nothing, for it ends without `return`: return an rt.AgentMessage, or a str"
    if inspect.isawaitable(said):
        close_all([said])
        return "returned what nobody has awaited: write `return await run.ask(…)`"
    return f"returned a {type(said).__name__}: return an rt.AgentMessage, or a str"


_evolved: Any = attrs.evolve  # a message class is one of attrs, which type checkers do not see


def _own(answer: Any) -> Any:
    """An answer for the author, who may change what is in it: the journal keeps its own."""
    if isinstance(answer, AgentMessage):
        return own_message(answer)
    return plain_data(answer, "run.decide(…)") if isinstance(answer, dict | list) else answer


def _single(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
