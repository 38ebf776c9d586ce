"""The store: an actor that owns one SQLite file, through a child that has a thread for it.

Works that come while a commit is in progress wait, and go into the next one together: under load one commit carries hundreds, and a single work waits for nobody.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from pathlib import Path
from typing import Any, Final

import attrs
import trio

from retinue.actors.runtime.actor import Actor, handler
from retinue.actors.runtime.deferred import Deferred
from retinue.actors.runtime.errors import Unanswered
from retinue.actors.runtime.ref import Ref
from retinue.actors.runtime.supervision import Supervision
from retinue.actors.runtime.watch import StopReason
from retinue.actors.store.database import BUSY_TIMEOUT
from retinue.actors.store.errors import StoreReason, StoreUnavailable
from retinue.actors.store.recovery import Recovery
from retinue.actors.store.schema import Schema
from retinue.actors.store.session import Outcome, Session, SessionCounts
from retinue.actors.store.work import Work
from retinue.mailbox.messages import Request, message
from retinue.security.errors import AuthorityError, DefinitionError

__all__ = ["BATCH", "WAITING", "Statistics", "Store", "StoreStatistics", "Writer"]

_log = logging.getLogger("retinue.store")

BATCH: Final = 256
"""The most works in one commit."""

WAITING: Final = 1_024
"""The most works that wait for one; beyond that they are refused."""

_SUPERVISION: Final = Supervision(backoff=(0.05, 1.0), intensity=(100, 60.0))
"""Of the writer: it comes back, for what it fails at is a fault of ours, and its file is not lost by it."""


@attrs.frozen
class StoreStatistics:
    """What a store has done, and what waits.

    Attributes:
        waiting: Works that wait for a commit at this moment.
        works: Works that were answered, with a value or an error.
        failed: Those of them that were answered with an error.
        commits: Transactions that were committed.
        full_commits: Those of them that were forced to the disk.
        largest: The most works that one transaction had.
        opened: How often the file was opened; more than once after a failure.
        recoveries: What was done about damaged files since the store was started.
    """

    waiting: int
    works: int
    failed: int
    commits: int
    full_commits: int
    largest: int
    opened: int
    recoveries: tuple[Recovery, ...]


@message(name="retinue/StoreStatistics@1")
class Statistics(Request[StoreStatistics]):
    """Asks a store what it has done. The numbers are read while its thread may be at work."""


@message(name="retinue/StoreFlush@1")
class Flush(Request[None]):
    """The store to its writer: there is something in the tray."""


class _Job:
    """One work, whoever waits for it, and what came of it."""

    __slots__ = ("outcome", "slot", "work")

    def __init__(self, work: Work[Any], slot: Deferred | None) -> None:
        self.work = work
        self.slot = slot
        self.outcome: Outcome | None = None


class _Tray:
    """What goes between a store and its writer, which are one thing in two places. The store fills it and tells the writer, and touches it no more until that answers:
    so works and answers are never looked into on the way, whatever they hold.
    """

    __slots__ = ("busy_timeout", "counts", "jobs", "left", "path", "schema")

    def __init__(self, path: Path | None, schema: Schema, busy_timeout: float) -> None:
        self.path = path
        self.schema = schema
        self.busy_timeout = busy_timeout
        self.counts = SessionCounts()
        self.jobs: list[_Job] = []
        self.left = False  # the store waits for the writer no longer


class Writer(Actor, blocking=True):
    """Owns the connection, in a thread of its own. Only its store talks to it."""

    def __init__(self, tray: _Tray) -> None:
        self._tray = tray
        self._session = Session(tray.path, tray.schema, busy_timeout=tray.busy_timeout)
        self._session.counts = tray.counts
        try:
            self._session.open()
        except StoreUnavailable as error:
            _log.warning("%s cannot be used yet: %s", self.ctx.path, error)  # each work tries again, and tells its asker

    @handler
    def flush(self, _message: Flush) -> None:
        """Does what is in the tray."""
        jobs, self._tray.jobs = self._tray.jobs, []
        for job, outcome in zip(jobs, self._session.run([job.work for job in jobs]), strict=True):
            job.outcome = outcome
        if self._tray.left:
            self._session.close()  # this thread was given up, and comes too late for its `on_stop`

    def on_stop(self, reason: StopReason) -> None:  # noqa: ARG002 - whyever
        """Closes the file."""
        self._session.close()


class Store(Actor):
    """Owns one SQLite file. Ask it any `Work`; the answer comes after the commit.

    Where the file cannot be used, each work gets a StoreUnavailable that says why, and the next one tries again. That is no failure of the store, and neither is
    a file that cannot be opened when it is spawned.

    Args:
        path: The file; its folder exists. None: in memory, gone when the store or its writer is restarted.
        schema: What the file holds.
        busy_timeout: Seconds to wait for another process's lock; default 5.
    """

    def __init__(self, path: Path | str | None, schema: Schema, *, busy_timeout: float = BUSY_TIMEOUT) -> None:
        if not isinstance(schema, Schema):
            raise DefinitionError(f"Store(path, schema): the schema is a Schema, not {schema!r}")
        self._tray = _Tray(None if path is None else Path(path).absolute(), schema, busy_timeout)
        self._waiting: deque[_Job] = deque()
        self._wake = trio.Event()
        self._writer: Ref[Writer]

    async def on_start(self) -> None:
        """Spawns the writer."""
        self._writer = await self.ctx.spawn(Writer, self._tray, name="writer", supervision=_SUPERVISION)

    @handler(raises=StoreUnavailable)
    def take(self, work: Work[Any]) -> None:
        """Takes a work in; its answer comes after the commit."""
        if len(self._waiting) >= WAITING:
            raise StoreUnavailable(
                f"{self.ctx.path} has {WAITING:,} works waiting, so {type(work).__qualname__} was not taken in. Ask again later.",
                reason="busy",
            )
        try:
            slot: Deferred | None = self.ctx.defer()
        except DefinitionError:
            slot = None  # it was told: nobody waits
        self._waiting.append(_Job(work, slot))
        self._wake.set()

    @handler
    def statistics(self, _message: Statistics) -> StoreStatistics:
        """What the store has done."""
        counts = self._tray.counts
        return StoreStatistics(
            len(self._waiting),
            counts.works,
            counts.failed,
            counts.commits,
            counts.full_commits,
            counts.largest,
            counts.opened,
            tuple(counts.recoveries),
        )

    async def run(self) -> None:
        """Sends what waits to the writer, batch by batch, under the store's own authority: no sender's expiry or cancellation reaches another's work."""
        try:
            while True:
                if not self._waiting:
                    self._wake = trio.Event()
                    await self._wake.wait()
                await self._flush()
        finally:
            self._refuse(list(self._waiting), "closed", "the store was stopped before it was done")
            self._waiting.clear()

    async def _flush(self) -> None:
        jobs: list[_Job] = []
        while self._waiting and len(jobs) < BATCH:
            job = self._waiting.popleft()
            if job.slot is None or job.slot.wanted:  # else its asker has given up, and it was not begun
                jobs.append(job)
        if not jobs:
            return
        self._tray.jobs, self._tray.left = jobs, False
        reason: StoreReason = "unknown"
        cause: BaseException | None = None
        try:
            # Without a deadline here: a thread in the middle of a commit cannot be cut off. Each asker has one of its own, and what may wait is bounded.
            await self._writer.ask(Flush(), timeout=math.inf)
        except Unanswered as error:
            reason, cause = "closed" if error.begun is False else "unknown", error
        except AuthorityError as error:
            reason, cause = "closed", error
        except Exception as error:
            cause = error
        finally:
            self._tray.left = any(job.outcome is None for job in jobs)
            self._answer(jobs)
            text = (
                "the store ended before it was done"
                if reason == "closed"
                else "the store failed while it was done, and nobody knows how far it came"
            )
            self._refuse([job for job in jobs if job.outcome is None], reason, text, cause)

    def _answer(self, jobs: list[_Job]) -> None:
        for job in jobs:
            outcome = job.outcome
            if outcome is None:
                continue
            if job.slot is None:
                if outcome.error is not None:
                    _log.error("%s: %s, which nobody waits for, failed", self.ctx.path, type(job.work).__qualname__, exc_info=outcome.error)
            elif outcome.error is not None:
                job.slot.fail(outcome.error)
            else:
                job.slot.reply(outcome.value)

    def _refuse(self, jobs: list[_Job], reason: StoreReason, text: str, cause: BaseException | None = None) -> None:
        for job in jobs:
            error = StoreUnavailable(f"{self.ctx.path}: {type(job.work).__qualname__}: {text}.", reason=reason)
            error.__cause__ = cause
            if job.slot is None:
                _log.error("%s", error)
            else:
                job.slot.fail(error)
