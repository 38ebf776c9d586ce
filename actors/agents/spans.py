"""What the span of an agent's run says; a team's is as an agent's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from retinue.actors.agents.handoffs import HANDOFF
from retinue.actors.agents.keys import session_of
from retinue.actors.agents.message import AgentMessage, Resume, Run, RunEnd, StreamRun
from retinue.actors.agents.names import own_name
from retinue.actors.tracing import names

if TYPE_CHECKING:
    from retinue.actors.runtime.tracing import TurnSpan

__all__ = ["note_handoff", "run_begins", "run_ends"]


def run_begins(actor: Any, span: TurnSpan, message: Any) -> None:
    """A message for a session: whose run it is, and in which conversation."""
    if isinstance(message, StreamRun):
        message = message.request
    if not isinstance(message, AgentMessage | Run | Resume):
        return
    agent = _name_of(actor)
    span.rename(f"invoke_agent {agent}")
    said: Any = None
    run: str | None = None
    if isinstance(message, Resume):
        run, session = message.run, session_of(message.run)
    else:
        said = message.message if isinstance(message, Run) else message
        session = said.session if isinstance(said, AgentMessage) else "0"
    span.mark({names.OPERATION: "invoke_agent", names.AGENT_NAME: agent, names.CONVERSATION: session, names.RUN: run})
    if run is not None:
        span.event(names.RESUMED, {names.RUN: run, names.APPROVAL_REQUESTS: _requests_of(actor, run)})
        span.resumes(run)
    else:
        text = said.content if isinstance(said, AgentMessage) else said
        span.content(names.INPUT_MESSAGES, [{"role": "user", "parts": [{"type": "text", "content": text}]}])


def run_ends(actor: Any, span: TurnSpan, message: Any, value: object) -> None:
    """The answer, or an event of a stream."""
    del message
    if isinstance(value, RunEnd):
        value = value.message
    if not isinstance(value, AgentMessage):
        return
    if value.type == HANDOFF:
        note_handoff(span, _name_of(actor), value.receiver or "", str((value.extra or {}).get("reason", "")))
    said = {"role": "assistant", "parts": [{"type": "text", "content": value.content}], "finish_reason": "stop"}
    span.content(names.OUTPUT_MESSAGES, [said])


def _name_of(session: Any) -> str:
    """The agent's name, as it signs with it."""
    agent = session.ctx.parent
    return own_name(agent.path) if agent is not None else ""


def _requests_of(session: Any, run: str) -> list[str]:
    """What people were asked for that run."""
    parked = session.keeper.get(session.ctx.key or "").parked.get(run)
    return [] if parked is None else [request.id for request in parked.requests]


def note_handoff(span: TurnSpan, source: str, target: str, reason: str) -> None:
    """A conversation goes over to another agent. The reason is the model's words."""
    about = {names.HANDOFF_SOURCE: source, names.HANDOFF_TARGET: target}
    span.event(names.HANDOFF, about, {names.HANDOFF_REASON: reason} if reason else None)
    span.mark(about)
    if reason:
        span.content(names.HANDOFF_REASON, reason)
