"""Runs that wait for a person: how one is set aside, and how it goes on exactly where it was.

A parked run holds no task and no message: it is part of its session's state. What it waits for are requests at the desk, made by the gate in front of the
tools; the session never sees a token. When it goes on, the very calls that waited are sent once more, with what came of the decisions.
"""

from __future__ import annotations

import secrets
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import attrs
import trio

from retinue.actors.agents.calling import Outcome, carry_out, execute, finish, guarded, say_started, told_of_edit
from retinue.actors.agents.edits import edited, hooked
from retinue.actors.agents.errors import GuardrailBlocked, HookBlocked
from retinue.actors.agents.events import ApprovalNeeded
from retinue.actors.agents.keys import session_of
from retinue.actors.agents.leaving import Left, leave, owner_of
from retinue.actors.agents.message import Cancel, Step
from retinue.actors.agents.passing import emit
from retinue.actors.agents.state import ParkedCall, ParkedRun
from retinue.actors.runtime.deciding import taken_back
from retinue.capabilities.errors import BadArguments
from retinue.capabilities.tool_results import ToolResult
from retinue.security.errors import ApprovalRequired, AuthorityError, RetinueError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from retinue.actors.agents.definition import Seat
    from retinue.actors.agents.run import Turn
    from retinue.actors.llm.messages import ToolCall
    from retinue.security.approvals import ApprovalRequest

__all__ = ["Decided", "asking", "give_up", "new_run_id", "park", "resume_call", "wait_for"]

LOOK_AGAIN: Final = 60.0
"""Seconds after which a run that waits looks at the desk once more, whatever it has heard."""

NOT_NOW: Final = ("rejected", "cancelled")

GIVING_UP: Final = 10.0
"""Seconds that an agent within has for giving up a run that is parked."""


def new_run_id(session: str) -> str:
    """An id that nobody can guess, and that names its session."""
    return f"{session}/{secrets.token_hex(16)}"


async def give_up(agent: Any, run: str, subject: str | None = None, tenant: str | None = None) -> None:
    """Has an agent within give up its own parked run, with which nobody goes on any more.

    Args:
        agent: The agent's ref.
        run: The run.
        subject, tenant: As in `Cancel`.
    """
    try:
        await agent.ask(Cancel(session_of(run), run, subject, tenant), timeout=GIVING_UP)
    except RetinueError:  # it has ended, or does not let go of it: it can be cancelled there
        return


def asking(names: Iterable[tuple[str, Iterable[ApprovalRequest]]]) -> str:
    """Who or what needs consent, in words: names, and of an agent within what it is that it wants to do."""
    found: dict[str, None] = {}
    for name, requests in names:
        wants = dict.fromkeys(operation.removeprefix("tool.") for one in requests if (operation := one.binding.operation))
        found[f"{name} ({', '.join(wants)})" if wants else name] = None
    return ", ".join(found)


async def park(turn: Turn, results: Mapping[str, Step], waiting: Sequence[ParkedCall]) -> ApprovalRequired:
    """Sets the run aside; the error that its asker gets."""
    requests = tuple(request for call in waiting if not call.consented for request in call.requests)
    if "on_approval_required" in turn.d.phases:
        await turn.run_hooks("on_approval_required", requests)
    await trio.lowlevel.checkpoint_if_cancelled()  # whoever has given up hears of no run, and could not go on with it
    run = turn.run_id()
    turn.home.park(_set_aside(turn, results, waiting))
    turn.settled = True
    if turn.streamed:
        await emit(ApprovalNeeded(requests, run))
    first = requests[0]
    names = asking(
        (call.call.name, call.requests if call.inner is not None else ()) for call in waiting if call.requests and not call.consented
    )
    return ApprovalRequired(
        f"{turn.d.path}: {names} needs a person's approval ({', '.join(request.id for request in requests)}); nothing of that was done. When it is decided, go on "
        f"with ask(rt.Resume({run!r}), approvals=[token])",
        operation=first.binding.operation,
        path=turn.d.path,
        requests=requests,
        run=run,
    )


def _set_aside(turn: Turn, results: Mapping[str, Step], waiting: Sequence[ParkedCall]) -> ParkedRun:
    return ParkedRun(
        id=turn.run_id(),
        items=tuple(turn.items),
        results=dict(results),
        waiting=tuple(waiting),
        spent=turn.spent.counts,
        usage=turn.spent.usage,
        limits=turn.spent.limits,
        tree=None if turn.tree is None else turn.tree.left(),
        tools=turn.extra_tools,
        turn=turn.number,
        has_artifacts=turn.has_artifacts,
        detector=turn.detector,
        past=tuple(turn.past),
        tries=turn.answering.tries if turn.answering is not None else 0,
        handoffs=turn.handing.handoffs if turn.handing is not None else (),
        owner=owner_of(turn.home.ctx.security),
    )


def checkpoint(turn: Turn, results: Mapping[str, Step], calls: Sequence[ToolCall]) -> None:
    """A run that was parked is about to carry out the calls of a further reply: from there it goes on, should it fail. What has a result is not done again."""
    turn.home.park(_set_aside(turn, results, [ParkedCall(call, ()) for call in calls]))


async def resume_call(turn: Turn, waiting: ParkedCall) -> Outcome:
    """Goes on with a call that waited: carries it out, gives the person's words, or says that it waits still."""
    try:
        return await _resumed(turn, waiting)
    finally:
        if waiting.inner is not None and turn.inner is not None:
            turn.inner[waiting.inner][1].set()  # whatever came of it: others wait for its end


async def _resumed(turn: Turn, waiting: ParkedCall) -> Outcome:
    call = waiting.call
    if waiting.result is not None:
        return await finish(turn, call, waiting.result)
    if waiting.begun:
        text = f"{call.name} was begun, and interrupted: whether it was carried out is not known. Do not try again before you have looked"
        return await finish(turn, call, ToolResult.failed("outcome_unknown", text))
    if not waiting.requests:
        return await carry_out(turn, call)
    seat = turn.box.seats.get(call.name)
    if seat is None:
        return await finish(turn, call, ToolResult.failed("unknown", turn.box.unknown(call.name)))
    if waiting.inner is not None and seat.agent is not None:
        from retinue.actors.agents.consulting import consult_again

        if turn.streamed:
            await say_started(turn, call)
        again = await consult_again(turn, waiting, seat)
        return again if isinstance(again, ParkedCall) else await finish(turn, call, again)
    decided = await _decide(turn, call, seat, waiting.requests, 0.0)
    if isinstance(decided, ToolResult):
        return await finish(turn, call, decided)
    if turn.streamed:
        await say_started(turn, call)
    carry = partial(execute, turn, decided.call, seat, decided.message, decided.approvals or turn.home.ctx.approvals)
    if seat.agent is not None and decided.approvals:
        from retinue.actors.agents.consulting import one_by_one

        outcome = await one_by_one(turn, waiting, seat, carry)
    else:
        outcome = await carry()
    if isinstance(outcome, ParkedCall):
        return outcome
    return await finish(turn, call, told_of_edit(outcome, decided.edited))


async def wait_for(turn: Turn, call: ToolCall, seat: Seat, requests: Sequence[ApprovalRequest]) -> Decided | ToolResult:
    """Waits for a person within the run: what to send then, with which approvals, or the result. (No approvals: the request has lapsed, and it is asked anew.)"""
    turn.tell(ApprovalNeeded(tuple(requests), turn.run_id()))
    ids = tuple(request.id for request in requests)
    try:
        with turn.home.keeper.waiting(ids):
            while True:
                timeout = turn.spent.timeout()
                decided = await _decide(turn, call, seat, requests, LOOK_AGAIN if timeout is None else min(timeout, LOOK_AGAIN))
                if isinstance(decided, ToolResult) or decided.approvals or not decided.pending:
                    return decided
    except BaseException:
        if turn.parked is None:  # else it stays parked, and goes on with these
            ctx = turn.home.ctx
            await leave(ctx, turn.home.keeper, Left(owner_of(ctx.security), requests=ids))
        raise


class Decided:
    """What the desk says of a call.

    Attributes:
        call: The call as the model wrote it, or as a person has changed it.
        message: What to send for it.
        approvals: The approvals that are there.
        edited: How the arguments were changed, as JSON text; None where they were not.
        pending: Whether anything is not decided yet.
    """

    __slots__ = ("approvals", "call", "edited", "message", "pending")

    def __init__(self, call: ToolCall, message: Any, approvals: Any, edited: str | None, *, pending: bool) -> None:
        self.call = call
        self.message = message
        self.approvals = approvals
        self.edited = edited
        self.pending = pending


async def _decide(turn: Turn, call: ToolCall, seat: Seat, requests: Sequence[ApprovalRequest], wait: float) -> Decided | ToolResult:
    """What the desk says of a call; a result where a person said no."""
    approvals: Any = ()
    changed: str | None = None
    editing: Any = None
    pending = False
    for request in requests:
        try:
            decision = await turn.home.ctx.decision(request.id, wait=wait)
        except AuthorityError:  # nobody knows of it any more: it is asked anew
            continue
        now = decision.request
        if taken_back(now):  # by another run that waited for the same
            continue
        if now.status in NOT_NOW:
            words = f": {now.note}" if now.note else ""
            return ToolResult.failed("rejected", f"a person has not approved {call.name}{words}. It was not carried out")
        pending = pending or now.status == "pending"
        if decision.approvals:
            approvals = decision.approvals + approvals if approvals else decision.approvals
        if now.edit_of is not None:
            editing = now.arguments
    try:
        if editing is None:
            message = seat.tool.decode(call.arguments)
        else:
            message, sent = edited(seat.tool, call, editing)
            changed = sent
            if not pending and "before_tool_call" in turn.d.phases:
                message, sent = await hooked(turn, seat.tool, call, message, changed)
            call = attrs.evolve(call, arguments=sent)
        if "tool" in turn.d.stages:
            message = await guarded(turn, seat, message)
    except BadArguments as error:
        return ToolResult.failed("arguments", str(error))
    except GuardrailBlocked as blocked:
        return ToolResult.failed("denied", f"not permitted: {blocked.reason or 'a guardrail has blocked this call'}")
    except HookBlocked as blocked:
        return ToolResult.failed("denied", f"not permitted: {blocked.reason or 'a hook has blocked this call'}")
    return Decided(call, message, approvals, changed, pending=pending)
