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
    ├── TraceFileError
    ├── TraceFileUnusable
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
    ├── BadArguments (ValueError)
    ├── BadExpression (ValueError)
    ├── AgentError
    │   ├── BadInput (ValueError)
    │   ├── RunLimitReached
    │   ├── RunCancelled
    │   ├── RunParked
    │   ├── NoSuchRun
    │   ├── HookBlocked
    │   ├── GuardrailBlocked
    │   ├── OutputInvalid (ValueError)
    │   ├── OutputRefused
    │   ├── HandoffLimit
    │   ├── RoutingFailed
    │   ├── TeamError
    │   │   ├── NoSuchMember (LookupError)
    │   │   ├── MemberPaused
    │   │   ├── TeamDiverged
    │   │   └── VoteUndecided
    │   └── BadState (ValueError)
    │       └── UnknownStateKey (KeyError)
    └── ModelError
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

In brackets: the built-in error that one also is, so that `except TimeoutError` catches an `AskTimeout`. Each error's own docstring says
what is known when it is raised, above all whether the message was delivered; its text says where it happened and what to do.
"""

from __future__ import annotations

from retinue.actors.agents.errors import (
    AgentError,
    BadInput,
    BadState,
    GuardrailBlocked,
    HandoffLimit,
    HookBlocked,
    MemberPaused,
    NoSuchMember,
    NoSuchRun,
    OutputInvalid,
    OutputRefused,
    RoutingFailed,
    RunCancelled,
    RunLimitReached,
    RunParked,
    TeamDiverged,
    TeamError,
    UnknownStateKey,
    VoteUndecided,
)
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
from retinue.actors.tracing.errors import TraceFileUnusable
from retinue.capabilities.errors import BadArguments, BadExpression
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
from retinue.viewing.errors import TraceFileError

__all__ = [
    "ActorStopped",
    "AgentError",
    "AllMembersFailed",
    "ApprovalError",
    "ApprovalRequired",
    "AskCancelled",
    "AskCycle",
    "AskTimeout",
    "AuditBroken",
    "AuditUnavailable",
    "AuthorityError",
    "BadArguments",
    "BadEndpoint",
    "BadExpression",
    "BadInput",
    "BadReply",
    "BadState",
    "BadStreamEvent",
    "BudgetExceeded",
    "CanonicalError",
    "ConstraintError",
    "ContentFiltered",
    "ContextOverflow",
    "DefinitionError",
    "Denied",
    "EmptyReply",
    "Expired",
    "ForgedContext",
    "GatewayError",
    "GuardRefused",
    "GuardrailBlocked",
    "HandoffLimit",
    "HookBlocked",
    "KeyFileError",
    "KeyRefused",
    "Killed",
    "MailboxFull",
    "MemberPaused",
    "ModelError",
    "ModelFailed",
    "ModelInterrupted",
    "ModelNotInstalled",
    "ModelRefused",
    "ModelTimeout",
    "ModelUnreachable",
    "NameTaken",
    "NeedsLoop",
    "NoContext",
    "NoSuchMember",
    "NoSuchRun",
    "OutputInvalid",
    "OutputRefused",
    "PatternError",
    "QuotaExceeded",
    "RateLimited",
    "Reject",
    "RemoteError",
    "RetinueError",
    "Revoked",
    "RoutingFailed",
    "RunCancelled",
    "RunLimitReached",
    "RunParked",
    "ScriptEnded",
    "ScriptUnused",
    "StartTimeout",
    "StoreUnavailable",
    "StreamClosed",
    "StreamTruncated",
    "SystemClosed",
    "TeamDiverged",
    "TeamError",
    "TokenError",
    "TraceFileError",
    "TraceFileUnusable",
    "Unanswered",
    "Unhandled",
    "UnknownStateKey",
    "VoteUndecided",
    "WeightsError",
    "WireError",
    "WrongEndpoint",
    "WrongEventLoop",
    "WrongThread",
]
