"""The errors of the model actors.

    ModelError
    ├── ModelUnreachable
    ├── ModelTimeout (TimeoutError)
    ├── ModelRefused
    │   ├── KeyRefused
    │   └── RateLimited
    ├── ModelFailed
    ├── BadReply (ValueError)
    ├── BadEndpoint (ValueError)
    ├── ScriptEnded
    └── ModelNotInstalled
        └── WeightsError

No text of these holds a key: what an endpoint sends back is searched for it before it is quoted.
"""

from __future__ import annotations

from retinue.security.errors import RetinueError

__all__ = [
    "BadEndpoint",
    "BadReply",
    "KeyRefused",
    "ModelError",
    "ModelFailed",
    "ModelNotInstalled",
    "ModelRefused",
    "ModelTimeout",
    "ModelUnreachable",
    "RateLimited",
    "ScriptEnded",
    "WeightsError",
]


class ModelError(RetinueError):
    """The root of what goes wrong with a model.

    Attributes:
        status: The HTTP status that the endpoint answered with, or None where there was no answer.
    """

    def __init__(self, text: str, *, status: int | None = None) -> None:
        super().__init__(text)
        self.status = status


class ModelUnreachable(ModelError):
    """The endpoint could not be connected to, or the connection broke: the completion may or may not have been made (and charged)."""


class ModelTimeout(ModelError, TimeoutError):
    """The endpoint took longer than one of the deployment's time-outs; the text says which. The outcome is unknown."""


class ModelRefused(ModelError):
    """The endpoint refused the request (status 4xx): the same request will be refused again."""


class KeyRefused(ModelRefused):
    """The endpoint refused the key (status 401 or 403)."""


class RateLimited(ModelRefused):
    """The endpoint is asked too often (status 429): the request was not carried out.

    Attributes:
        retry_after: Seconds to wait, as the endpoint says, or None where it does not say.
    """

    def __init__(self, text: str, *, status: int | None = None, retry_after: float | None = None) -> None:
        super().__init__(text, status=status)
        self.retry_after = retry_after


class ModelFailed(ModelError):
    """The endpoint failed (status 5xx): the request may succeed later."""


class BadReply(ModelError, ValueError):
    """The endpoint's answer is no completion: a web page, broken JSON, another shape, or a completion without text."""


class BadEndpoint(ModelError, ValueError):
    """The address, the key or the model's name cannot be used; nothing was sent."""


class ScriptEnded(ModelError):
    """A scripted model was asked more often than its script has lines."""


class ModelNotInstalled(ModelError):
    """The embedded model cannot run: its server or its weights are not there, or do not load; the text says how to get them."""


class WeightsError(ModelNotInstalled):
    """The weights could not be fetched, or are not the ones that were asked for; nothing was put in their place."""
