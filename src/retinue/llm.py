"""Language models as actors.

    model = await system.spawn(llm.Scripted, ["Hello!"], name="model")
    answer = await model.ask(llm.Complete.of("Say hello.", system="Be kind.", max_tokens=20))
    print(answer.text)

`OpenAICompatible` talks to an endpoint, `Local` is a small real model inside this process (the extra `local`), `Scripted` says what it was
told to say. `from_env` chooses between them. What goes wrong with a model is a `ModelError`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from retinue.actors.llm.choose import Choice, from_env
from retinue.actors.llm.deadlines import Timeouts
from retinue.actors.llm.deployment import Deployment, GetUnused, Local, OpenAICompatible, Scripted, assert_used_up
from retinue.actors.llm.errors import (
    AllMembersFailed,
    BadEndpoint,
    BadReply,
    BadStreamEvent,
    ContentFiltered,
    ContextOverflow,
    EmptyReply,
    KeyRefused,
    ModelError,
    ModelFailed,
    ModelInterrupted,
    ModelNotInstalled,
    ModelRefused,
    ModelTimeout,
    ModelUnreachable,
    QuotaExceeded,
    RateLimited,
    ScriptEnded,
    ScriptUnused,
    StreamTruncated,
    WeightsError,
    WrongEndpoint,
)
from retinue.actors.llm.events import Completed, ModelEvent, ReasoningDelta, Retrying, TextDelta, ToolCallDelta, fold
from retinue.actors.llm.failover import Failover, GetMembers, MemberState, Pool
from retinue.actors.llm.messages import ChatMessage, Complete, CompleteStream, Completion, OutputSpec, Role, ToolCall, ToolSpec
from retinue.actors.llm.naming import model
from retinue.actors.llm.prices import Price, price_of
from retinue.actors.llm.profiles.profile import Profile
from retinue.actors.llm.retrying import Retries
from retinue.actors.llm.scripted import tool_calls
from retinue.actors.llm.tokens import TokenCount, count_tokens
from retinue.actors.llm.usage import Usage

if TYPE_CHECKING:
    from retinue.actors.llm.endpoint import Endpoint

__all__ = [
    "AllMembersFailed",
    "BadEndpoint",
    "BadReply",
    "BadStreamEvent",
    "ChatMessage",
    "Choice",
    "Complete",
    "CompleteStream",
    "Completed",
    "Completion",
    "ContentFiltered",
    "ContextOverflow",
    "Deployment",
    "EmptyReply",
    "Endpoint",
    "Failover",
    "GetMembers",
    "GetUnused",
    "KeyRefused",
    "Local",
    "MemberState",
    "ModelError",
    "ModelEvent",
    "ModelFailed",
    "ModelInterrupted",
    "ModelNotInstalled",
    "ModelRefused",
    "ModelTimeout",
    "ModelUnreachable",
    "OpenAICompatible",
    "OutputSpec",
    "Pool",
    "Price",
    "Profile",
    "QuotaExceeded",
    "RateLimited",
    "ReasoningDelta",
    "Retries",
    "Retrying",
    "Role",
    "ScriptEnded",
    "ScriptUnused",
    "Scripted",
    "StreamTruncated",
    "TextDelta",
    "Timeouts",
    "TokenCount",
    "ToolCall",
    "ToolCallDelta",
    "ToolSpec",
    "Usage",
    "WeightsError",
    "WrongEndpoint",
    "assert_used_up",
    "count_tokens",
    "fold",
    "from_env",
    "model",
    "price_of",
    "tool_calls",
]


def __getattr__(name: str) -> Any:
    """Endpoint brings httpx along: not before somebody uses it."""
    if name == "Endpoint":
        from retinue.actors.llm.endpoint import Endpoint

        return Endpoint
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
