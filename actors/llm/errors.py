"""The errors of the model actors.

    ModelError
    ├── ModelUnreachable
    ├── ModelTimeout (TimeoutError)
    ├── ModelRefused
    │   ├── KeyRefused
    │   ├── RateLimited
    │   ├── QuotaExceeded
    │   ├── ContextOverflow
    │   └── ContentFiltered
    ├── ModelFailed
    ├── ModelInterrupted
    ├── AllMembersFailed
    ├── BadReply (ValueError)
    │   ├── WrongEndpoint
    │   ├── EmptyReply
    │   ├── StreamTruncated
    │   └── BadStreamEvent
    ├── BadEndpoint (ValueError)
    ├── ScriptEnded
    ├── ScriptUnused
    └── ModelNotInstalled
        └── WeightsError

No text of these holds a key: what an endpoint sends back is searched for it before it is quoted. Each class has a stable `code`, which the
troubleshooting page explains.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from retinue.security.errors import RetinueError

if TYPE_CHECKING:
    from retinue.actors.llm.messages import Completion

__all__ = [
    "AllMembersFailed",
    "BadEndpoint",
    "BadReply",
    "BadStreamEvent",
    "ContentFiltered",
    "ContextOverflow",
    "EmptyReply",
    "KeyRefused",
    "ModelError",
    "ModelFailed",
    "ModelInterrupted",
    "ModelNotInstalled",
    "ModelRefused",
    "ModelTimeout",
    "ModelUnreachable",
    "QuotaExceeded",
    "RateLimited",
    "ScriptEnded",
    "ScriptUnused",
    "StreamTruncated",
    "WeightsError",
    "WrongEndpoint",
]


class ModelError(RetinueError):
    """The root of what goes wrong with a model.

    Attributes:
        code: The class's stable name for people and programs, such as "model.timeout".
        status: The HTTP status that the endpoint answered with (of an error inside a successful answer: the one it names), or None where
            there was none.
    """

    code: ClassVar[str] = "model.error"

    def __init__(self, text: str, *, status: int | None = None) -> None:
        super().__init__(text)
        self.status = status


class ModelUnreachable(ModelError):
    """The endpoint could not be connected to, or the connection broke: the completion may or may not have been made (and charged)."""

    code = "model.unreachable"


class ModelTimeout(ModelError, TimeoutError):
    """The endpoint took longer than one of the deployment's time-outs; the text says which. The outcome is unknown."""

    code = "model.timeout"


class ModelRefused(ModelError):
    """The endpoint refused the request (status 4xx): the same request will be refused again."""

    code = "model.refused"


class KeyRefused(ModelRefused):
    """The endpoint refused the key (status 401 or 403)."""

    code = "model.key_refused"


class RateLimited(ModelRefused):
    """The endpoint is asked too often (status 429): the request was not carried out.

    Attributes:
        retry_after: Seconds to wait, as the endpoint says, or None where it does not say.
    """

    code = "model.rate_limited"

    def __init__(self, text: str, *, status: int | None = None, retry_after: float | None = None) -> None:
        super().__init__(text, status=status)
        self.retry_after = retry_after


class QuotaExceeded(ModelRefused):
    """The account's quota or money is used up (402, or "insufficient_quota"): waiting does not help, so this is never tried again."""

    code = "model.quota_exceeded"


class ContextOverflow(ModelRefused):
    """The conversation and its answer do not fit into the model's context: the same request fails at every endpoint of this model.

    Attributes:
        limit: The tokens that fit, where the endpoint says it; else None.
        used: The tokens that were asked for, where the endpoint says it; else None.
    """

    code = "model.context_overflow"

    def __init__(self, text: str, *, status: int | None = None, limit: int | None = None, used: int | None = None) -> None:
        super().__init__(text, status=status)
        self.limit = limit
        self.used = used


class ContentFiltered(ModelRefused):
    """The endpoint's content filter refused the prompt, or cut the answer off."""

    code = "model.content_filtered"


class ModelFailed(ModelError):
    """The endpoint failed (status 5xx): the request may succeed later.

    Attributes:
        retry_after: Seconds to wait, as the endpoint says, or None where it does not say.
    """

    code = "model.failed"

    def __init__(self, text: str, *, status: int | None = None, retry_after: float | None = None) -> None:
        super().__init__(text, status=status)
        self.retry_after = retry_after


class ModelInterrupted(ModelError):
    """An answer broke off after a part of it had been passed on; `__cause__` is what happened. It is neither tried again nor taken to another endpoint.

    Attributes:
        partial: What had been said until then, or None where it is not known.
    """

    code = "model.interrupted"

    def __init__(self, text: str, *, status: int | None = None, partial: Completion | None = None) -> None:
        super().__init__(text, status=status)
        self.partial = partial


class AllMembersFailed(ModelError):
    """No member of a `Failover` or a `Pool` answered; the text says what each of those that were asked has said. `__cause__` is the last one's error.

    Attributes:
        errors: Those of the members, in the order in which they were asked; empty where the error came from another process.
        retry_after: Seconds until the cooldown of the first of them is over; None where none of them cools down.
    """

    code = "model.all_members_failed"

    def __init__(
        self, text: str, *, status: int | None = None, errors: tuple[Exception, ...] = (), retry_after: float | None = None
    ) -> None:
        super().__init__(text, status=status)
        self.errors = errors
        self.retry_after = retry_after


class BadReply(ModelError, ValueError):
    """The endpoint's answer is no completion: broken JSON, another shape, or one of the more exact errors below this."""

    code = "model.bad_reply"


class WrongEndpoint(BadReply):
    """The answer is a web page or a redirection: the address is not the one of an OpenAI-compatible endpoint."""

    code = "model.wrong_endpoint"


class EmptyReply(BadReply):
    """The model ended without a text, a tool call or a refusal."""

    code = "model.empty_reply"


class StreamTruncated(BadReply):
    """The answer's stream ended before the model was finished: no finish reason came, or the connection was closed.

    Attributes:
        partial: What had been said until then, or None where it is not known.
    """

    code = "model.stream_truncated"

    def __init__(self, text: str, *, status: int | None = None, partial: Completion | None = None) -> None:
        super().__init__(text, status=status)
        self.partial = partial


class BadStreamEvent(BadReply):
    """An event of the answer's stream is no JSON object of a completion; the text quotes its first 200 bytes."""

    code = "model.bad_event"


class BadEndpoint(ModelError, ValueError):
    """The address, the key or the model's name cannot be used; nothing was sent."""

    code = "model.bad_endpoint"


class ScriptEnded(ModelError):
    """A scripted model was asked more often than its script has lines."""

    code = "model.script_ended"


class ScriptUnused(ModelError):
    """A scripted model's script has lines that were never said.

    Attributes:
        unused: How many.
    """

    code = "model.script_unused"

    def __init__(self, text: str, *, status: int | None = None, unused: int | None = None) -> None:
        super().__init__(text, status=status)
        self.unused = unused


class ModelNotInstalled(ModelError):
    """The embedded model cannot run: its server or its weights are not there, or do not load; the text says how to get them."""

    code = "model.not_installed"


class WeightsError(ModelNotInstalled):
    """The weights could not be fetched, or are not the ones that were asked for; nothing was put in their place."""

    code = "model.weights"
