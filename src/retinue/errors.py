"""Every error that Retinue raises on purpose, in one tree.

    RetinueError
    ├── DefinitionError (TypeError)
    ├── AuthorityError
    │   ├── Denied
    │   │   └── ForgedContext
    │   ├── ApprovalRequired
    │   ├── NoContext
    │   └── PatternError (ValueError)
    ├── MailboxFull
    ├── Unhandled (TypeError)
    ├── WireError (ValueError)
    ├── AskTimeout (TimeoutError)
    ├── ActorStopped
    ├── AskCancelled
    ├── AskCycle
    ├── Reject
    ├── NameTaken (ValueError)
    ├── StreamClosed
    ├── SystemClosed
    ├── WrongEventLoop (RuntimeError)
    └── WrongThread (RuntimeError)

In brackets: the built-in error that one also is, so that `except TimeoutError` catches an `AskTimeout`. Each error's own docstring says
what is known when it is raised, above all whether the message was delivered; its text says where it happened and what to do.
"""

from __future__ import annotations

from retinue.actors.runtime.errors import (
    ActorStopped,
    AskCancelled,
    AskCycle,
    AskTimeout,
    NameTaken,
    Reject,
    StreamClosed,
    SystemClosed,
    WrongEventLoop,
    WrongThread,
)
from retinue.mailbox.errors import MailboxFull, Unhandled, WireError
from retinue.security.errors import (
    ApprovalRequired,
    AuthorityError,
    DefinitionError,
    Denied,
    ForgedContext,
    NoContext,
    PatternError,
    RetinueError,
)

__all__ = [
    "ActorStopped",
    "ApprovalRequired",
    "AskCancelled",
    "AskCycle",
    "AskTimeout",
    "AuthorityError",
    "DefinitionError",
    "Denied",
    "ForgedContext",
    "MailboxFull",
    "NameTaken",
    "NoContext",
    "PatternError",
    "Reject",
    "RetinueError",
    "StreamClosed",
    "SystemClosed",
    "Unhandled",
    "WireError",
    "WrongEventLoop",
    "WrongThread",
]
