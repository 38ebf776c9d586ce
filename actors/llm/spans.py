"""What a model's span says: which model was asked, what it used up, and what was said where that is exported."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from retinue.actors.llm.completion import Completion
from retinue.actors.llm.events import Completed
from retinue.actors.llm.messages import Complete, CompleteStream
from retinue.actors.tracing import names

if TYPE_CHECKING:
    from retinue.actors.llm.messages import ChatMessage
    from retinue.actors.runtime.tracing import TurnSpan

__all__ = ["chat_begins", "chat_ends", "input_messages", "output_messages"]

_PROVIDERS: Final = {"mistral": "mistral_ai", "llamacpp": "llamacpp", "generic": "openai_compatible"}
"""Names of the conventions, where ours for an endpoint's ways is another."""


def chat_begins(actor: Any, span: TurnSpan, message: object) -> None:
    """The request. `actor` is a deployment that answers by itself, or a worker of one."""
    if not isinstance(message, Complete | CompleteStream):
        return
    deployment = getattr(actor, "_deployment", actor)
    endpoint = getattr(deployment, "_endpoint", None)
    kind = type(deployment).__name__.lower()
    model = endpoint.model if endpoint is not None else kind
    provider = endpoint.profile.name if endpoint is not None else kind
    span.rename(f"chat {model}")
    span.mark({names.OPERATION: "chat", names.PROVIDER: _PROVIDERS.get(provider, provider), names.REQUEST_MODEL: model})
    span.content(names.INPUT_MESSAGES, input_messages(message.messages))


def chat_ends(actor: Any, span: TurnSpan, message: object, value: object) -> None:
    """The answer, or the last event of a stream."""
    if isinstance(value, Completed):
        value = value.completion
    if not isinstance(value, Completion):
        return
    del actor, message
    usage = value.usage
    span.mark(
        {
            names.RESPONSE_MODEL: value.model or None,
            names.FINISH_REASONS: [value.finish_reason] if value.finish_reason else None,
        }
    )
    span.count({names.INPUT_TOKENS: usage.prompt_tokens, names.OUTPUT_TOKENS: usage.completion_tokens, names.COST: usage.cost_micro_usd})
    span.content(names.OUTPUT_MESSAGES, output_messages(value))


def input_messages(messages: tuple[ChatMessage, ...]) -> list[dict[str, Any]]:
    """A conversation, in the form of the conventions."""
    found = []
    for each in messages:
        parts: list[dict[str, Any]] = []
        if each.role == "tool":
            parts.append({"type": "tool_call_response", "id": each.tool_call_id, "response": each.content})
        elif each.content:
            parts.append({"type": "text", "content": each.content})
        parts.extend(_calls(each.tool_calls))
        found.append({"role": each.role, "parts": parts})
    return found


def output_messages(completion: Completion) -> list[dict[str, Any]]:
    """An answer, in the form of the conventions."""
    parts: list[dict[str, Any]] = []
    if completion.reasoning:
        parts.append({"type": "reasoning", "content": completion.reasoning})
    if completion.text:
        parts.append({"type": "text", "content": completion.text})
    parts.extend(_calls(completion.tool_calls))
    return [{"role": "assistant", "parts": parts, "finish_reason": completion.finish_reason or "stop"}]


def _calls(calls: Any) -> list[dict[str, Any]]:
    return [{"type": "tool_call", "id": call.id, "name": call.name, "arguments": call.arguments} for call in calls]
