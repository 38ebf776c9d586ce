"""Language models as actors.

    model = await system.spawn(llm.Scripted, ["Hello!"], name="model")
    answer = await model.ask(llm.Complete.of("Say hello.", system="Be kind.", max_tokens=20))
    print(answer.text)

`OpenAICompatible` talks to an endpoint, `Local` is a small real model inside this process (the extra `local`), `Scripted` says what it was
told to say. `from_env` chooses between them. What goes wrong with a model is a `ModelError`.
"""

from __future__ import annotations

from retinue.actors.llm.choose import Choice, from_env
from retinue.actors.llm.deployment import Deployment, Local, OpenAICompatible, Scripted
from retinue.actors.llm.endpoint import Endpoint, Timeouts
from retinue.actors.llm.errors import (
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
from retinue.actors.llm.messages import ChatMessage, Complete, CompleteStream, Completion, OutputSpec, Role, ToolCall, ToolSpec
from retinue.actors.llm.usage import Usage

__all__ = [
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
    "KeyRefused",
    "Local",
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
    "QuotaExceeded",
    "RateLimited",
    "ReasoningDelta",
    "Retrying",
    "Role",
    "ScriptEnded",
    "ScriptUnused",
    "Scripted",
    "StreamTruncated",
    "TextDelta",
    "Timeouts",
    "ToolCall",
    "ToolCallDelta",
    "ToolSpec",
    "Usage",
    "WeightsError",
    "WrongEndpoint",
    "fold",
    "from_env",
]
