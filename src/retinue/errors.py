"""Every error that Retinue raises on purpose, in one tree.

    RetinueError
    ├── DefinitionError (TypeError)
    │   └── NeedsLoop
    ├── AuthorityError
    │   ├── Denied
    │   │   ├── ForgedContext
    │   │   ├── Revoked
    │   │   ├── Expired
    │   │   ├── BudgetExceeded
    │   │   └── AuditUnavailable
    │   ├── ApprovalRequired
    │   ├── ApprovalError
    │   ├── NoContext
    │   ├── PatternError (ValueError)
    │   ├── ConstraintError (ValueError)
    │   ├── CanonicalError (ValueError)
    │   ├── TokenError
    │   ├── KeyFileError
    │   ├── AuditBroken
    │   └── GuardRefused (ValueError)
    ├── MailboxFull
    ├── Unhandled (TypeError)
    ├── WireError (ValueError)
    ├── RemoteError
    ├── GatewayError
    ├── StoreUnavailable
    ├── Unanswered
    │   ├── AskTimeout (TimeoutError)
    │   ├── ActorStopped
    │   └── AskCancelled
    ├── AskCycle
    ├── Reject
    ├── NameTaken (ValueError)
    ├── StartTimeout (TimeoutError)
    ├── StreamClosed
    ├── SystemClosed
    ├── WrongEventLoop (RuntimeError)
    ├── WrongThread (RuntimeError)
    ├── Killed
    └── ModelError
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

In brackets: the built-in error that one also is, so that `except TimeoutError` catches an `AskTimeout`. Each error's own docstring says
what is known when it is raised, above all whether the message was delivered; its text says where it happened and what to do.
"""

from __future__ import annotations

from retinue.actors.llm.errors import (
    BadEndpoint,
    BadReply,
    KeyRefused,
    ModelError,
    ModelFailed,
    ModelNotInstalled,
    ModelRefused,
    ModelTimeout,
    ModelUnreachable,
    RateLimited,
    ScriptEnded,
    WeightsError,
)
from retinue.actors.runtime.errors import (
    ActorStopped,
    AskCancelled,
    AskCycle,
    AskTimeout,
    NameTaken,
    Reject,
    StartTimeout,
    StreamClosed,
    SystemClosed,
    Unanswered,
    WrongEventLoop,
    WrongThread,
)
from retinue.actors.store.errors import StoreUnavailable
from retinue.actors.testing.errors import Killed, NeedsLoop
from retinue.mailbox.errors import GatewayError, MailboxFull, RemoteError, Unhandled, WireError
from retinue.security.errors import (
    ApprovalError,
    ApprovalRequired,
    AuditBroken,
    AuditUnavailable,
    AuthorityError,
    BudgetExceeded,
    CanonicalError,
    ConstraintError,
    DefinitionError,
    Denied,
    Expired,
    ForgedContext,
    GuardRefused,
    KeyFileError,
    NoContext,
    PatternError,
    RetinueError,
    Revoked,
    TokenError,
)

__all__ = [
    "ActorStopped",
    "ApprovalError",
    "ApprovalRequired",
    "AskCancelled",
    "AskCycle",
    "AskTimeout",
    "AuditBroken",
    "AuditUnavailable",
    "AuthorityError",
    "BadEndpoint",
    "BadReply",
    "BudgetExceeded",
    "CanonicalError",
    "ConstraintError",
    "DefinitionError",
    "Denied",
    "Expired",
    "ForgedContext",
    "GatewayError",
    "GuardRefused",
    "KeyFileError",
    "KeyRefused",
    "Killed",
    "MailboxFull",
    "ModelError",
    "ModelFailed",
    "ModelNotInstalled",
    "ModelRefused",
    "ModelTimeout",
    "ModelUnreachable",
    "NameTaken",
    "NeedsLoop",
    "NoContext",
    "PatternError",
    "RateLimited",
    "Reject",
    "RemoteError",
    "RetinueError",
    "Revoked",
    "ScriptEnded",
    "StartTimeout",
    "StoreUnavailable",
    "StreamClosed",
    "SystemClosed",
    "TokenError",
    "Unanswered",
    "Unhandled",
    "WeightsError",
    "WireError",
    "WrongEventLoop",
    "WrongThread",
]
