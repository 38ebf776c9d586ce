"""Tool calls that a model writes into its text, for models that have no other way: what the agent's parser finds becomes ordinary calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from retinue.actors.agents.calling import result_step
from retinue.actors.llm.messages import ToolCall
from retinue.capabilities.tool_results import ToolResult

if TYPE_CHECKING:
    from retinue.actors.agents.message import Step
    from retinue.actors.agents.parsers import Parsed
    from retinue.actors.agents.run import Turn

__all__ = ["calls_of"]


def calls_of(turn: Turn, parsed: Parsed) -> tuple[tuple[ToolCall, ...], dict[str, Step]]:
    """The calls of a reply in their order, and the results of those that cannot be run: the model is told why."""
    calls: list[ToolCall] = []
    found: dict[str, Step] = {}
    for number, each in enumerate(parsed.calls, 1):
        call = ToolCall(
            f"call_{turn.number}_{len(turn.items)}_{number}", each.name or each.tool_type or "tool", each.arguments or each.text
        )
        calls.append(call)
        if not each.ok or each.name is None or each.arguments is None:
            why = each.error or "it names no tool"
            found[call.id] = result_step(turn, call, ToolResult.failed("parsing", why))
            turn.bad = turn.spent.bad_call() or turn.bad
    return tuple(calls), found
