"""The runtime's way to the desk of approvals, which is made when it is first needed, and always works as the system.

The gate sees a `ConsentDesk`; the desk itself are actors of the household (`retinue.actors.approvals`). Between them stands this: each step is a consultation, so that
it neither runs under the authority of the message that it decides about nor counts as that message's turn.
"""

from __future__ import annotations

import importlib
import math
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import trio

from retinue.security.errors import DefinitionError

if TYPE_CHECKING:
    from retinue.actors.approvals.book import SystemApprovals
    from retinue.actors.runtime.kernel import Kernel
    from retinue.capabilities.consent import Consent, ConsentDesk, Question

__all__ = ["APPROVAL_LIFETIME", "REVIEWER_TIMEOUT", "DeskWay", "Reviewer", "beside", "clock_jumps"]

R = TypeVar("R")

APPROVAL_LIFETIME = 604_800.0
"""Seconds that a request waits for a person: seven days."""

MOST_LIFETIME = 366 * 86_400
"""The longest that one can wait, in seconds."""

REVIEWER_TIMEOUT = 300.0
"""Seconds that a reviewer has for one request; then the request waits at the desk."""

Reviewer = Callable[[Any], Any]
"""Takes an `rt.ApprovalRequest` and gives an `rt.Review`, or None: then the request waits. It may be `async def`."""


_LOADED = ("retinue.actors.approvals.book", "sqlite_utils", "cryptography.hazmat.primitives.asymmetric.ed25519")


def _load() -> None:
    for module in _LOADED:
        try:
            importlib.import_module(module)
        except ImportError:  # the desk says so, where it needs it
            pass


def clock_jumps() -> bool:
    """Whether this is a test with trio's mock clock, which jumps on while a thread works, as if nothing would ever happen."""
    return type(trio.lowlevel.current_clock()).__module__.startswith("trio.testing")


async def beside(function: Callable[..., R], *arguments: Any) -> R:
    """Calls a function that may take long: in a thread, which cancellation leaves behind; in the loop where the clock would not wait for one."""
    if clock_jumps():
        return function(*arguments)
    return await trio.to_thread.run_sync(function, *arguments, abandon_on_cancel=True)


class DeskWay:
    """A `ConsentDesk` for the gate of one system, and what `system.approvals` is.

    Args:
        kernel: The system.
        folder: Where the desk keeps its file and keys; None: in memory, with a key that ends with the system.
        reviewer: What is asked about each new request, or None.
        reviewer_timeout: Seconds that it has.
        lifetime: Seconds that a request waits for a person, from 1 to 366 days.

    Raises:
        DefinitionError: `reviewer` cannot be called, or a time is no number of seconds.
    """

    __slots__ = ("_book", "_folder", "_kernel", "_lifetime", "_making", "_reviewer", "_timeout")

    def __init__(
        self, kernel: Kernel, folder: Path | None, reviewer: Reviewer | None, reviewer_timeout: float, lifetime: float = APPROVAL_LIFETIME
    ) -> None:
        if reviewer is not None and not callable(reviewer):
            raise DefinitionError(f"ActorSystem(reviewer=…) takes a function of a request, not an object of type {type(reviewer).__name__}")
        if isinstance(reviewer_timeout, bool) or not isinstance(reviewer_timeout, int | float) or not 0 < reviewer_timeout < math.inf:
            raise DefinitionError(f"ActorSystem(reviewer_timeout={reviewer_timeout!r}): give seconds, more than 0")
        if isinstance(lifetime, bool) or not isinstance(lifetime, int | float) or not 1 <= lifetime <= MOST_LIFETIME:
            raise DefinitionError(f"ActorSystem(approval_lifetime={lifetime!r}): give seconds, from 1 to {MOST_LIFETIME:,} (366 days)")
        self._kernel = kernel
        self._lifetime = float(lifetime)
        self._folder = folder
        self._reviewer = reviewer
        self._timeout = float(reviewer_timeout)
        self._book: SystemApprovals | None = None
        # The twins' users look from threads of their own, while the gate does from the loop: there is one book, whoever is first.
        self._making = threading.Lock()

    async def _desk(self) -> ConsentDesk:
        """The desk itself. The first time its modules are loaded, and the libraries beneath them: not in the loop."""
        if self._book is None and any(name not in sys.modules for name in _LOADED):
            await beside(_load)
        return self.book.desk

    @property
    def book(self) -> SystemApprovals:
        """What `system.approvals` is; made at the first look."""
        if self._book is None:
            from retinue.actors.approvals.book import SystemApprovals

            with self._making:
                if self._book is None:
                    self._book = SystemApprovals(self._kernel, self._folder, self._reviewer, self._timeout, self._lifetime)
        return self._book

    async def consider(self, question: Question, approvals: Sequence[str]) -> Consent:
        """See `ConsentDesk`."""

        async def consider() -> Consent:
            return await (await self._desk()).consider(question, approvals)

        return await self._kernel.consult(consider)

    async def spend(self, question: Question, consent: Consent) -> None:
        """See `ConsentDesk`."""

        async def spend() -> None:
            await (await self._desk()).spend(question, consent)

        await self._kernel.consult(spend)

    async def note_outcome(self, consent: Consent, outcome: str) -> None:
        """See `ConsentDesk`. A turn calls it too, for what was spent and not run: the desk's actors would refuse the turn's own authority."""

        async def note() -> None:
            await (await self._desk()).note_outcome(consent, outcome)

        await self._kernel.consult(note)
