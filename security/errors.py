"""The root of every error of the project, and the errors of the security floor.

Each error's text says what happened, where (an actor's path, a message's type) and what to do about it. The whole tree, floors above
included, is drawn in `retinue.errors`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterable

    from retinue.security.approvals import ApprovalRequest

__all__ = [
    "ApprovalError",
    "ApprovalRequired",
    "AuditBroken",
    "AuditUnavailable",
    "AuthorityError",
    "BudgetExceeded",
    "CanonicalError",
    "ConstraintError",
    "DefinitionError",
    "Denied",
    "Expired",
    "ForgedContext",
    "GuardRefused",
    "KeyFileError",
    "NoContext",
    "PatternError",
    "RetinueError",
    "Revoked",
    "TokenError",
]


_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


class RetinueError(Exception):
    """The root of all errors that this project raises on purpose.

    Attributes:
        code: A stable word for programs and for looking things up, the same for all errors of a class: dotted, in lower case (docs/troubleshooting.md). A class
            that names none has one made of its name: `AskTimeout` has "ask.timeout".
    """

    code: ClassVar[str] = "retinue"

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "code" not in cls.__dict__:
            words = [word.lower() for word in _WORD.findall(cls.__name__)]
            cls.code = ".".join(words[:-1] if words[-1] == "error" and len(words) > 1 else words)


class DefinitionError(RetinueError, TypeError):
    """A class, a handler or a message is written in a way that cannot work; raised where it is defined, as early as possible."""


class AuthorityError(RetinueError):
    """The root of what authority refuses."""


class Denied(AuthorityError):
    """The effective context does not permit the operation; nothing was done.

    Attributes:
        operation: The refused operation's dotted name, or None where the refusal is not about one (a forged context, say).
        path: The path of the actor that was addressed, where there is one.
        subject: The subject of the context that was refused.
        reason: What refused, as a stable word for programs: "permission", "arguments", "risk", "unknown_operation", "policy", "expired", "revoked", "budget",
            "depth", "forged", "lineage" (a context that does not descend from the one in force), "audit", "undecided" (deciding failed); of approvals: "spent" (it was
            used before), "withdrawn" (its request, or the standing consent), "rejected" (by a reviewer in code), "approval" (the desk refuses), "store" (its file
            cannot be used).
    """

    def __init__(
        self, text: str, *, operation: str | None = None, path: str | None = None, subject: str | None = None, reason: str = "permission"
    ) -> None:
        super().__init__(text)
        self.operation = operation
        self.path = path
        self.subject = subject
        self.reason = reason


class ForgedContext(Denied):
    """The given context was not made by this system's authority."""

    def __init__(self, text: str, *, operation: str | None = None, path: str | None = None, subject: str | None = None) -> None:
        super().__init__(text, operation=operation, path=path, subject=subject, reason="forged")


class Revoked(Denied):
    """The context, or one that it descends from, was revoked."""

    def __init__(self, text: str, *, operation: str | None = None, path: str | None = None, subject: str | None = None) -> None:
        super().__init__(text, operation=operation, path=path, subject=subject, reason="revoked")


class Expired(Denied):
    """The deadline of the context has passed."""

    def __init__(self, text: str, *, operation: str | None = None, path: str | None = None, subject: str | None = None) -> None:
        super().__init__(text, operation=operation, path=path, subject=subject, reason="expired")


class BudgetExceeded(Denied):
    """An account on the way to the root has not enough left; nothing was reserved on any of them.

    Attributes:
        resource: "calls", "tokens" or "cost".
        account: The id of the account, as `context.accounts` has it; None where that is not known.
    """

    def __init__(
        self,
        text: str,
        *,
        resource: str,
        account: str | None = None,
        operation: str | None = None,
        path: str | None = None,
        subject: str | None = None,
    ) -> None:
        super().__init__(text, operation=operation, path=path, subject=subject, reason="budget")
        self.resource = resource
        self.account = account


class AuditUnavailable(Denied):
    """The audit record that must come first could not be written, so nothing was done."""

    def __init__(self, text: str, *, operation: str | None = None, path: str | None = None, subject: str | None = None) -> None:
        super().__init__(text, operation=operation, path=path, subject=subject, reason="audit")


class ApprovalRequired(AuthorityError):
    """The operation needs a person's consent, and no valid approval came with the message; nothing was done.

    Attributes:
        operation: The operation's dotted name.
        path: The path of the actor that was addressed.
        requests: What a person is asked, one for each consent that is missing; they wait at the desk (`system.approvals`). Empty where there is no desk.
        run: Where an agent has parked its run for this: the run, to go on with by `rt.Resume(run)` once it is decided. Else None.
    """

    def __init__(
        self,
        text: str,
        *,
        operation: str | None = None,
        path: str | None = None,
        requests: Iterable[ApprovalRequest] = (),
        run: str | None = None,
    ) -> None:
        super().__init__(text)
        self.operation = operation
        self.path = path
        self.requests = tuple(requests)
        self.run = run

    @property
    def request(self) -> ApprovalRequest:
        """The one request, for the common case of a single one.

        Raises:
            ValueError: There is none, or there are several.
        """
        if len(self.requests) != 1:
            raise ValueError(f"this ApprovalRequired has {len(self.requests)} requests, not one: look at .requests")
        return self.requests[0]


class ApprovalError(AuthorityError):
    """An approval, or what a person decided about one, is refused; nothing was decided, and nothing was spent.

    Attributes:
        reason: What is wrong, as a stable word for programs. Of a token: "malformed", "signature", "unknown_key", "operation", "arguments", "subject", "tenant",
            "session", "audience", "definition", "policy", "run", "expired", "not_yet_valid", "four_eyes", "spent". Of a request: "unknown", "decided", "expired",
            "four_eyes", "full", "arguments". Of a standing consent: "indeterminate" (the same was interrupted before). Of the desk: "clock", "store", "key".
    """

    def __init__(self, text: str, *, reason: str) -> None:
        super().__init__(text)
        self.reason = reason


class NoContext(AuthorityError):
    """A message was sent from a place that has no authority of its own (a foreign thread, say), and no `context=` was given."""


class PatternError(AuthorityError, ValueError):
    """An operation's name or a pattern of operations is malformed."""


class ConstraintError(AuthorityError, ValueError):
    """A constraint on an argument, a limit or a label is malformed, or of a kind that does not exist."""


class CanonicalError(AuthorityError, ValueError):
    """A value is no plain data, so it has no canonical bytes (and nothing that is bound to them can be shown, hashed or approved)."""


class TokenError(AuthorityError):
    """A sealed token is refused: malformed, altered, of an unknown key, expired, revoked or for somebody else.

    Attributes:
        reason: "malformed", "too_large", "unknown_key", "mac", "revoked", "expired", "not_yet_valid", "audience" or "content"; of a genuine token
            "too_many" or "full": too many tokens with limits are in use, of the same root or in all.
    """

    def __init__(self, text: str, *, reason: str) -> None:
        super().__init__(text)
        self.reason = reason


class KeyFileError(AuthorityError):
    """A key file is missing, unreadable, malformed, or readable by others than its owner."""


class AuditBroken(AuthorityError):
    """The audit chain does not hold: a record was altered, removed, added or reordered.

    Attributes:
        number: The number of the first record that does not fit, counted from 1, or None where the end is missing.
    """

    def __init__(self, text: str, *, number: int | None = None) -> None:
        super().__init__(text)
        self.number = number


class GuardRefused(AuthorityError, ValueError):
    """A path, host, URL or argument list is refused before anything was opened, connected or started; or an answer is cut off.

    Attributes:
        what: "path", "host", "argv", or "body" (an answer that is too large, or in an encoding that cannot be bounded).
    """

    def __init__(self, text: str, *, what: str) -> None:
        super().__init__(text)
        self.what = what
