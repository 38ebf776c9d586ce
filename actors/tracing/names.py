"""The names of attributes and events: those of OpenTelemetry's conventions for generative AI, at one version, and Retinue's own."""

from __future__ import annotations

from typing import Final

__all__ = [
    "AGENT_DESCRIPTION", "AGENT_NAME", "APPROVAL_REQUESTS", "CALL_ARGUMENTS", "CALL_ID", "CALL_RESULT", "CONVENTIONS", "CONVERSATION", "COST", "ERROR_TYPE", "FINISH_REASONS",
    "HANDOFF", "HANDOFF_REASON", "HANDOFF_SOURCE", "HANDOFF_TARGET", "INPUT_MESSAGES", "INPUT_TOKENS", "MESSAGE", "OPERATION", "OUTPUT_MESSAGES", "OUTPUT_TOKENS", "PARENT", "PARKED",
    "PATH", "PROVIDER", "REQUEST_MODEL", "RESPONSE_MODEL", "RESUMED", "RUN", "SCHEMA_URL", "SUBJECT", "TENANT", "TOOL_NAME",
]  # fmt: skip

CONVENTIONS: Final = "1.44.0"
"""The version of the semantic conventions whose names these are."""

SCHEMA_URL: Final = f"https://opentelemetry.io/schemas/{CONVENTIONS}"

OPERATION: Final = "gen_ai.operation.name"
AGENT_NAME: Final = "gen_ai.agent.name"
AGENT_DESCRIPTION: Final = "gen_ai.agent.description"
CONVERSATION: Final = "gen_ai.conversation.id"
PROVIDER: Final = "gen_ai.provider.name"
REQUEST_MODEL: Final = "gen_ai.request.model"
RESPONSE_MODEL: Final = "gen_ai.response.model"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
TOOL_NAME: Final = "gen_ai.tool.name"
CALL_ID: Final = "gen_ai.tool.call.id"
ERROR_TYPE: Final = "error.type"

# What people, models and tools said: exported with `contents=True` only.
INPUT_MESSAGES: Final = "gen_ai.input.messages"
OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
CALL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
CALL_RESULT: Final = "gen_ai.tool.call.result"

PATH: Final = "retinue.path"
MESSAGE: Final = "retinue.message"
SUBJECT: Final = "retinue.subject"
TENANT: Final = "retinue.tenant"
COST: Final = "retinue.cost_micro_usd"
RUN: Final = "retinue.run"
PARENT: Final = "retinue.parent"
APPROVAL_REQUESTS: Final = "retinue.approval.requests"
HANDOFF_SOURCE: Final = "retinue.handoff.source"
HANDOFF_TARGET: Final = "retinue.handoff.target"
HANDOFF_REASON: Final = "retinue.handoff.reason"

# Events.
PARKED: Final = "retinue.approval.parked"
RESUMED: Final = "retinue.approval.resumed"
HANDOFF: Final = "retinue.handoff"
