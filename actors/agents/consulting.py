"""A call of a tool that stands for an agent: the session asks the agent itself, so that what that one says and waits for is the run's own affair."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs
import trio

from retinue.actors.agents.contents import content_text
from retinue.actors.agents.errors import NoSuchRun, RunParked
from retinue.actors.agents.message import AgentMessage, FromMember, Resume, Run, RunEnd
from retinue.actors.agents.parking import give_up
from retinue.actors.agents.specs import takes
from retinue.actors.agents.state import ParkedCall
from retinue.actors.agents.telling import log_failure
from retinue.actors.runtime.errors import AskTimeout
from retinue.capabilities.artifacts import head_and_tail
from retinue.capabilities.tool_results import ToolResult
from retinue.mailbox.errors import Unhandled
from retinue.security.errors import ApprovalRequired, AuthorityError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from retinue.actors.agents.definition import Seat
    from retinue.actors.agents.run import Turn
    from retinue.actors.llm.messages import ToolCall

__all__ = ["consult", "consult_again", "one_by_one"]

TOLD_AT_ONCE: Final = 32
"""Events of the agent that are told before the reader has taken them."""


async def consult(turn: Turn, call: ToolCall, seat: Seat, message: Any) -> ToolResult | ParkedCall:
    """Asks the agent that a tool stands for, in the session of the run's name."""
    said = AgentMessage(seat.tool.call(message)["message"], turn.d.name, None, turn.session)
    request = Run(said, wait_for_approvals=True) if turn.wait and takes(seat.agent, Run) else said
    waited: set[str] = set()
    while True:
        outcome = await _asked(turn, call, seat, request)
        if not isinstance(outcome, RunParked):
            return outcome
        await trio.lowlevel.checkpoint()  # whoever was refused before may have to note yet that it is parked
        # The agent's session waits for a person already, because of another call of this run: this one comes after that.
        run = outcome.run or ""
        if _is_parked(turn, run):
            return _later(turn, call)
        known = None if turn.inner is None or run in waited else turn.inner.get(run)
        if known is None:
            return ToolResult.failed("raised", f"{seat.tool.name} cannot be asked now: {str(outcome)[:500]}")
        waited.add(run)
        await known[1].wait()  # as long as the run may take: that call goes on beside this one
        if _is_parked(turn, run):
            return _later(turn, call)


async def consult_again(turn: Turn, waiting: ParkedCall, seat: Seat) -> ToolResult | ParkedCall:
    """Goes on with the agent's own run, which waited for a person. One that fails is given up, for its call has that for a result, and nobody goes on with it."""
    run = waiting.inner or ""
    outcome = await _asked(turn, waiting.call, seat, Resume(run, True if turn.wait else None))
    if isinstance(outcome, RunParked):
        return ToolResult.failed("raised", f"{seat.tool.name} cannot go on: {str(outcome)[:500]}")
    if isinstance(outcome, ParkedCall):
        turn.outcomes[waiting.call.id] = outcome  # before those who wait for it look
    elif not outcome.ok:
        await give_up(seat.agent, run)
    return outcome


async def one_by_one(
    turn: Turn, waiting: ParkedCall, seat: Seat, carry: Callable[[], Awaitable[ToolResult | ParkedCall]]
) -> ToolResult | ParkedCall:
    """Carries out a call that people have consented to when no other call of the reply has anything going on in the same agent, whose session takes one at a time.

    Where one of them waits for a person there, this one waits with its consent: taken up, that would be gone, for the agent cannot be asked yet.
    """
    path = "" if seat.agent is None else seat.agent.path
    for agent, event in tuple((turn.inner or {}).values()):
        if agent is not None and agent.path == path:
            await event.wait()  # as long as the run may take: that call goes on beside this one
    if turn.lanes is None:
        turn.lanes = {}
    async with turn.lanes.setdefault(path, trio.Lock()):
        for one in turn.outcomes.values():
            if isinstance(one, ParkedCall) and one.inner is not None and one.agent is not None and one.agent.path == path:
                return attrs.evolve(waiting, consented=True)
        outcome = await carry()
        if isinstance(outcome, ParkedCall):
            turn.outcomes[waiting.call.id] = outcome  # before the next one looks
        return outcome


def _later(turn: Turn, call: ToolCall) -> ParkedCall:
    waits = ParkedCall(call, ())
    if turn.parked is not None:
        turn.home.note_waiting(turn.parked, waits)  # it was noted as begun, and nobody has heard of it
    return waits


def _is_parked(turn: Turn, run: str) -> bool:
    return any(isinstance(one, ParkedCall) and one.inner == run for one in turn.outcomes.values())


async def _asked(turn: Turn, call: ToolCall, seat: Seat, request: Any) -> ToolResult | ParkedCall | RunParked:
    tool, spent = seat.tool, turn.spent
    left = spent.timeout()
    timeout = tool.timeout if left is None else min(left, tool.timeout)
    approvals = turn.home.ctx.approvals if isinstance(request, Resume) else ()
    try:
        answer = await _read(turn, seat, request, timeout, approvals)
    except ApprovalRequired as required:
        if required.run is None or not required.requests:
            return ToolResult.failed("denied", f"not permitted: {tool.name} needs a person's approval, and nobody can be asked here")
        waits = ParkedCall(call, required.requests, inner=required.run, agent=seat.agent)
        if turn.inner is None:
            turn.inner = {}
        if turn.parked is not None:
            turn.home.note_waiting(turn.parked, waits)
        return waits
    except RunParked as parked:
        return parked
    except NoSuchRun:
        text = f"{tool.name} was begun, and interrupted: whether it was carried out is not known. Do not try again before you have looked"
        return ToolResult.failed("outcome_unknown", text)
    except AuthorityError as refused:
        operation = getattr(refused, "operation", None)
        reason = getattr(refused, "reason", None) or getattr(refused, "resource", None)
        why = f" ({reason})" if reason else ""
        needs = f"needs {operation!r}, which is refused here" if operation else "is refused here"
        return ToolResult.failed("denied", f"not permitted: {tool.name} {needs}{why}; do without it")
    except AskTimeout:
        spent.timeout()  # it was the run's own time that is over
        return ToolResult.failed("timeout", f"{tool.name} did not answer in time; whether it was carried out is not known")
    except Exception as error:
        log_failure(turn.d.path, repr(tool.name), error, "the model is told of it as the call's result")
        return ToolResult.failed("raised", f"{tool.name} failed: {type(error).__name__}: {str(error)[:500]}")
    if isinstance(answer, AgentMessage):
        spent.used_within(answer.usage)
        answer = answer.content
    text = content_text(answer)
    limit = tool.output_limit
    if len(text) <= limit:
        return ToolResult(True, text)
    security = turn.home.ctx.security
    artifact = turn.d.artifacts.keep(text, (security.tenant, security.subject, turn.home.ctx.path), preview=limit)
    return ToolResult(True, artifact.preview if artifact is not None else head_and_tail(text, limit), None, None, artifact)


async def _read(turn: Turn, seat: Seat, request: Any, timeout: float, approvals: Any) -> Any:
    """The agent's answer. Its events are told to the reader, if there is one, and no guardrail of the outer agent's would have to look at them first."""
    agent: Any = seat.agent
    if not turn.streamed or turn.outbox is None or "output" in turn.d.stages:
        return await agent.ask(request, timeout=timeout, approvals=approvals)
    answer: Any = None
    told = 0
    try:
        async with agent.stream(request, timeout=timeout, approvals=approvals) as events:
            async for event in events:
                turn.tell(FromMember(seat.tool.name, event))
                told += 1
                if told % TOLD_AT_ONCE == 0:
                    taken = trio.Event()
                    turn.tell(taken)
                    await taken.wait()  # a reader that does not read holds the agent back, and with it its model
                if isinstance(event, RunEnd):
                    answer = event.message
    except Unhandled:
        if told:
            raise
        return await agent.ask(request, timeout=timeout, approvals=approvals)
    if answer is None:
        raise RuntimeError("its stream ended without an answer")
    return answer
