"""What a reviewer hook answers, and how one is asked: only a `Review` that says so approves.

A hook is code of whoever holds the system, `ActorSystem(reviewer=…)`; what it decides is recorded as asserted by it. Whatever else it does (it returns None, True
or a text, it raises, it takes too long) leaves the request waiting for a person.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, final

import attrs
import trio

from retinue.actors.approvals.deciding import MAX_NOTE
from retinue.security.approvals import ApprovalRequest
from retinue.security.errors import DefinitionError

__all__ = ["HookThreads", "Review", "Reviewer", "ask_reviewer", "name_of"]

_log = logging.getLogger("retinue.approvals")


@final
@attrs.frozen(init=False)
class Review:
    """A decision of a reviewer hook. Made by `approve`, `reject`, `respond` and `edit`; there is no other way.

    Attributes:
        kind: "approve", "reject", "respond" or "edit".
        note: What the reviewer says about it.
        arguments: With "edit": the new values by name; the others stay.
    """

    kind: Literal["approve", "reject", "respond", "edit"]
    note: str
    arguments: Mapping[str, Any]

    def __init__(self) -> None:
        raise DefinitionError("a Review is made by Review.approve(), .reject(), .respond(text) or .edit(arguments)")

    @classmethod
    def _made(cls, kind: str, note: object, arguments: Mapping[str, Any]) -> Review:
        if not isinstance(note, str) or len(note) > MAX_NOTE:
            raise DefinitionError(f"Review.{kind}(): the note is a str of at most {MAX_NOTE:,} characters")
        made = cls.__new__(cls)
        for name, value in (("kind", kind), ("note", note), ("arguments", arguments)):
            object.__setattr__(made, name, value)
        return made

    @classmethod
    def approve(cls, note: str = "") -> Review:
        """Consent to the call as it was asked. Args: note: at most 4,000 characters."""
        return cls._made("approve", note, {})

    @classmethod
    def reject(cls, note: str = "") -> Review:
        """Refuse. Args: note: at most 4,000 characters, which the asker is told."""
        return cls._made("reject", note, {})

    @classmethod
    def respond(cls, text: str) -> Review:
        """Refuse with an answer for the asker. Args: text: at most 4,000 characters."""
        return cls._made("respond", text, {})

    @classmethod
    def edit(cls, arguments: Mapping[str, Any], note: str = "") -> Review:
        """Put a request with other arguments in its place; the hook is asked about that one next.

        Args:
            arguments: The new values by name; the others stay.
            note: At most 4,000 characters.
        """
        if not isinstance(arguments, Mapping) or not arguments:
            raise DefinitionError("Review.edit() takes the arguments to change, by name")
        return cls._made("edit", note, dict(arguments))


Reviewer = Callable[[ApprovalRequest], "Review | Awaitable[Review | None] | None"]
"""A reviewer hook: a function of the request, plain (it runs in a thread of its own, so it may block) or `async def`."""


def name_of(reviewer: Reviewer) -> str:
    """What is recorded as the reviewer where a hook decides."""
    name = getattr(reviewer, "__qualname__", None) or type(reviewer).__qualname__
    return f"reviewer {name}"[:255]


class HookThreads:
    """Threads for plain hooks: so many at once, and no more. One that never comes back keeps its thread, and must not take everybody's.

    Args:
        most: How many.
    """

    __slots__ = ("_late", "_most", "limiter")

    def __init__(self, most: int) -> None:
        self.limiter = trio.CapacityLimiter(most)
        self._most = most
        self._late: set[object] = set()

    @property
    def lost(self) -> bool:
        """Whether each of them is with a hook that has used its time up: then nobody waits for one."""
        return len(self._late) >= self._most

    async def run(self, hook: Callable[[ApprovalRequest], object], request: ApprovalRequest) -> object:
        """What the hook answers. Cancellation leaves it behind in its thread."""
        mark = object()
        begun = ended = False

        def call() -> object:
            nonlocal begun, ended
            begun = True
            try:
                return hook(request)
            finally:
                ended = True
                self._late.discard(mark)

        try:
            return await trio.to_thread.run_sync(call, abandon_on_cancel=True, limiter=self.limiter)
        except trio.Cancelled:
            if begun:
                self._late.add(mark)
                if ended:  # in this very moment
                    self._late.discard(mark)
            raise


async def ask_reviewer(reviewer: Reviewer, request: ApprovalRequest, timeout: float, threads: HookThreads) -> Review | None:
    """Asks a hook; None where it decides nothing. Only cancellation gets out of here.

    Args:
        reviewer: The hook.
        request: What it is asked about.
        timeout: Seconds that it may take.
        threads: For plain hooks.
    """
    if threads.lost and not _is_async(reviewer):
        _log.warning(
            "no reviewer hook that began has come back in its time, so it is not asked about %s, which waits for a person", request.id
        )
        return None
    answer: object = None
    with trio.move_on_after(timeout) as scope:
        try:
            if _is_async(reviewer):
                answer = await _awaited(reviewer(request))
            else:
                answer = await threads.run(reviewer, request)
                if inspect.isawaitable(answer):
                    answer = await _awaited(answer)
        except Exception:
            _log.exception("the reviewer hook failed about %s, which waits for a person now", request.id)
            return None
    if scope.cancelled_caught:
        _log.warning("the reviewer hook took longer than %s s about %s, which waits for a person now", timeout, request.id)
        return None
    if type(answer) is Review:
        return answer
    if answer is not None:
        _log.warning(
            "the reviewer hook answered with an object of type %s about %s, which decides nothing: return a Review",
            type(answer).__name__,
            request.id,
        )
    return None


def _is_async(reviewer: Reviewer) -> bool:
    return inspect.iscoroutinefunction(reviewer) or inspect.iscoroutinefunction(getattr(reviewer, "__call__", None))  # noqa: B004 - its kind is what matters


async def _awaited(answer: Any) -> object:
    return await answer
