"""The tool calls of one reply: carried out at the same time, answered in the order in which the model wrote them, each with a result.

What goes wrong with a call is a result that says so to the model, never the end of the run: an unknown tool, bad arguments, a refusal of the gate, a time-out,
an exception. A call that needs a person is set aside (`parking`); the others go on.
"""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs
import trio

from retinue.actors.agents.contents import plain_field
from retinue.actors.agents.errors import GuardrailBlocked, HookBlocked
from retinue.actors.agents.events import ToolFinished, ToolStarted
from retinue.actors.agents.message import Step
from retinue.actors.agents.passing import emit
from retinue.actors.agents.state import ParkedCall
from retinue.actors.llm.messages import ToolCall
from retinue.actors.runtime.current import current
from retinue.actors.runtime.cycles import turn_one_away
from retinue.actors.runtime.errors import AskTimeout
from retinue.actors.runtime.listening import FromChildren
from retinue.actors.runtime.tracing import hinted
from retinue.actors.tracing.names import CALL_ID
from retinue.capabilities.errors import BadArguments
from retinue.capabilities.tool_results import ToolResult
from retinue.security.errors import ApprovalRequired, AuthorityError

if TYPE_CHECKING:
    from retinue.actors.agents.definition import Seat
    from retinue.actors.agents.run import Turn

__all__ = ["Outcome", "all_at_once", "carry_out", "execute", "finish", "plain_argument", "result_step", "say_started", "told_of_edit"]

Outcome: TypeAlias = "Step | ParkedCall"

ANEW: Final = 8
"""How often a call that waits for a person is asked for anew, where its request lapses; then the run is parked."""

BAD: Final = frozenset({"unknown", "arguments", "parsing"})
"""Results of calls that could not be carried out as they were written."""


async def all_at_once(
    turn: Turn, calls: Sequence[Any], carry: Callable[[Turn, Any], Awaitable[Outcome]], id_of: Callable[[Any], str]
) -> None:
    """Carries calls out at the same time, into the run's outcomes. Raises the first error of the run itself (a limit, say), when all have ended."""
    outcomes = turn.outcomes
    if not turn.streamed and len(calls) == 1:
        outcomes[id_of(calls[0])] = await carry(turn, calls[0])
        return
    errors: list[Exception] = []
    told = FromChildren()

    async def one(call: Any) -> None:
        try:
            outcomes[id_of(call)] = await carry(turn, call)
        except Exception as error:
            errors.append(error)
        finally:
            told.put(None)

    turn.outbox = told
    try:
        with told:
            async with trio.open_nursery() as nursery:
                for call in calls:
                    nursery.start_soon(one, call)
                left = len(calls)
                while left:
                    event = await told.get()
                    if event is None:
                        left -= 1
                        if left:
                            turn_one_away(current())
                    elif event.__class__ is trio.Event:  # of an agent that waits until what it has told is taken
                        event.set()
                    elif turn.streamed:
                        await emit(event)
    finally:
        turn.outbox = None
    if errors:
        raise errors[0]


async def carry_out(turn: Turn, call: ToolCall) -> Outcome:
    """Carries one call out as the model wrote it."""
    if turn.streamed:
        await say_started(turn, call)
    if call.truncated:
        return await finish(
            turn,
            call,
            ToolResult.failed("arguments", "the call was cut off by the limit of your answer's length, so it was not run: make it shorter"),
        )
    if "before_tool_call" in turn.d.phases:
        try:
            call = await turn.run_hooks("before_tool_call", call)
        except HookBlocked as blocked:
            return await finish(
                turn, call, ToolResult.failed("denied", f"not permitted: {blocked.reason or 'a hook has blocked this call'}")
            )
    seat = turn.box.seats.get(call.name)
    if seat is None:
        if turn.handing is not None and call.name in turn.handing:
            return await turn.handing.take(turn, call)
        return await finish(turn, call, _read_on(turn, call))
    try:
        message = seat.tool.decode(call.arguments)
        if "tool" in turn.d.stages:
            message = await guarded(turn, seat, message)
    except BadArguments as error:
        return await finish(turn, call, ToolResult.failed("arguments", str(error)))
    except GuardrailBlocked as blocked:
        return await finish(
            turn, call, ToolResult.failed("denied", f"not permitted: {blocked.reason or 'a guardrail has blocked this call'}")
        )
    told = turn.repeated(call)
    if told:
        return await finish(turn, call, ToolResult.failed("denied", told))
    outcome = await execute(turn, call, seat, message)
    if isinstance(outcome, ToolResult):
        turn.past.append((call.name, call.arguments, outcome.text))
    if turn.edits:
        outcome = told_of_edit(outcome, turn.edits.pop(call.id, None))
    if isinstance(outcome, ParkedCall):
        return outcome
    if not outcome.ok or outcome.artifact is not None or turn.streamed or turn.parked is not None or "after_tool_result" in turn.d.phases:
        return await finish(turn, call, outcome)
    return result_step(turn, call, outcome)  # all that `finish` would do


async def guarded(turn: Turn, seat: Seat, message: Any) -> Any:
    """The message of a call after the guardrails have seen its arguments. What they put there is checked as if the model had written it.

    Raises:
        GuardrailBlocked: They block it.
        BadArguments: They have put something there that does not fit.
    """
    tool = seat.tool
    before = tool.call(message)
    if tool.context_parameter is not None:
        before.pop(tool.context_parameter, None)
    after = await turn.d.guards.tool(tool.name, dict(before), turn.notice)
    return message if after == before else tool.decode(json.dumps(after, ensure_ascii=False, default=plain_argument))


def plain_argument(value: Any) -> Any:
    """An argument that was decoded, as JSON again."""
    return base64.b64encode(value).decode() if isinstance(value, bytes) else plain_field(value)


async def execute(turn: Turn, call: ToolCall, seat: Seat, message: Any, approvals: Any = ()) -> ToolResult | ParkedCall:
    """Has a tool's executor carry out a call that fits. Raises RunLimitReached where the run's time is over."""
    spent, anew = turn.spent, 0
    while True:
        timeout = spent.timeout()
        try:
            if turn.parked is not None:
                turn.home.note_begun(turn.parked, call.id)
            if turn.home._cell.kernel.tracer is not None:
                hinted.set({CALL_ID: call.id})
            result: ToolResult = await seat.executor.ask(message, timeout=timeout, approvals=approvals)
            if seat.agent is not None:
                from retinue.actors.agents.consulting import consult

                return await consult(turn, call, seat, message)
            return result
        except ApprovalRequired as required:
            if turn.parked is not None:
                turn.home.note_waiting(turn.parked, ParkedCall(call, required.requests))
            if not required.requests:
                return ToolResult.failed(
                    "denied", f"not permitted: {seat.tool.name} needs a person's approval, and nobody can be asked here"
                )
            if turn.wait and anew < ANEW:
                from retinue.actors.agents.parking import wait_for

                anew += 1
                decided = await wait_for(turn, call, seat, required.requests)
                if isinstance(decided, ToolResult):
                    return decided
                call, message, approvals = decided.call, decided.message, decided.approvals
                turn.edits[call.id] = decided.edited
                continue
            return ParkedCall(call, required.requests)
        except AuthorityError as refused:
            if approvals and getattr(refused, "reason", None) == "spent":
                approvals = ()  # for another call that is as this one: this one is asked for anew
                continue
            operation = getattr(refused, "operation", None) or seat.tool.requires
            reason = getattr(refused, "reason", None)
            why = f" ({reason})" if reason else ""
            return ToolResult.failed(
                "denied", f"not permitted: {seat.tool.name} needs {operation!r}, which is refused here{why}; do without it"
            )
        except AskTimeout:
            spent.timeout()  # it was the run's own time that is over
            return ToolResult.failed("timeout", f"{seat.tool.name} did not answer in time; whether it was carried out is not known")
        except Exception as error:
            return ToolResult.failed("raised", f"{seat.tool.name} failed: {type(error).__name__}: {str(error)[:500]}")


def _read_on(turn: Turn, call: ToolCall) -> ToolResult:
    """The result of a call of a tool that the agent does not have: it reads on in an output of this session, or there is no such tool."""
    d = turn.d
    if not turn.has_artifacts or call.name != d.reader().name:
        return ToolResult.failed("unknown", turn.box.unknown(call.name, () if turn.handing is None else turn.handing.names))
    try:
        asked = d.reader().call(d.reader().decode(call.arguments))
    except BadArguments as error:
        return ToolResult.failed("arguments", str(error))
    ctx = turn.home.ctx
    owner = (ctx.security.tenant, ctx.security.subject, ctx.path)
    return d.artifacts.read(asked["handle"], asked["start"], asked["length"], owner=owner)


async def finish(turn: Turn, call: ToolCall, result: ToolResult) -> Step:
    """The step that a result makes in memory, after the hooks have seen it."""
    if "after_tool_result" in turn.d.phases:
        if turn.parked is not None:  # should a hook end the run, it is known, and they are asked about it again
            turn.home.note_done(turn.parked, call.id, result)
        result = await turn.run_hooks("after_tool_result", result)
    if result.artifact is not None:
        turn.has_artifacts = True
    step = result_step(turn, call, result)
    if step.error in BAD:
        turn.bad = turn.spent.bad_call() or turn.bad
    if turn.parked is not None:
        turn.home.note_result(turn.parked, step)
    if turn.streamed:
        turn.tell(ToolFinished(call.id, call.name, step.ok, await _shown(turn, step.text)))
    return step


async def say_started(turn: Turn, call: ToolCall) -> None:
    """Tells the reader of a stream that a call begins."""
    arguments = call.arguments
    if "output" in turn.d.stages:
        with contextlib.suppress(ValueError, RecursionError):  # what is written in escapes is looked at as what it says
            arguments = json.dumps(json.loads(arguments), ensure_ascii=False)
        arguments = await _shown(turn, arguments)
    turn.tell(ToolStarted(call.id, call.name, arguments))


async def _shown(turn: Turn, text: str) -> str:
    """What the reader of a stream may see of a call: the agent itself has decided, so that nothing ends by what a guardrail keeps back."""
    try:
        return await turn.guarded(text)  # type: ignore[no-any-return]
    except GuardrailBlocked as blocked:
        return f"[kept back by {blocked.guardrail}]"


def told_of_edit(outcome: Any, edited: str | None) -> Any:
    """A result that says that a person has changed the arguments of its call."""
    if edited is None or outcome.__class__ is not ToolResult:
        return outcome
    return attrs.evolve(outcome, text=f"(A person changed the arguments to {edited}. What follows is the result of that.)\n{outcome.text}")


def result_step(turn: Turn, call: ToolCall, result: ToolResult) -> Step:
    """The result of a call as memory has it."""
    return Step("tool_result", result.text, result.ok, call.id, call.name, (), result.error, turn.number)
