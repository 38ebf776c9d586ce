"""The store of a desk without a folder: the same works on the same tables, in memory, where nothing has to be waited for. Also of a test with a clock that jumps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from retinue.actors.approvals.tables import SCHEMA
from retinue.actors.runtime.actor import Actor, handler
from retinue.actors.runtime.watch import StopReason
from retinue.actors.store.errors import StoreUnavailable
from retinue.actors.store.session import Session
from retinue.actors.store.work import Work
from retinue.security.errors import AuthorityError

__all__ = ["MemoryStore"]


class MemoryStore(Actor):
    """Does works in the loop itself. What it holds in memory is gone when it ends, or is restarted: then nothing that was approved is good any more.

    Args:
        path: The file; None: in memory.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._session = Session(path, SCHEMA)

    @handler(raises=(AuthorityError, StoreUnavailable))
    def take(self, work: Work[Any]) -> Any:
        """Does a work; see `retinue.actors.store`."""
        (outcome,) = self._session.run([work])
        if outcome.error is None:
            return outcome.value
        if isinstance(outcome.error, AuthorityError | StoreUnavailable):
            raise outcome.error
        # As of a store with a thread: a work's fault is its asker's to hear of, and ends nothing here.
        raise StoreUnavailable(f"{type(work).__qualname__} failed with {type(outcome.error).__name__}") from outcome.error

    def on_stop(self, reason: StopReason) -> None:  # noqa: ARG002 - whyever
        """Forgets everything."""
        self._session.close()
