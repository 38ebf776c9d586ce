"""The audit of a running system: where its records go, and `system.audit`."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from threading import get_ident
from typing import TYPE_CHECKING, Any

import trio

from retinue.actors.runtime.errors import SystemClosed
from retinue.security.audit import AuditLog, verify_chain
from retinue.security.audit_file import AuditFile, read_audit_file
from retinue.security.errors import AuditBroken, AuditUnavailable, AuthorityError, DefinitionError, Denied
from retinue.security.keys import KeyFile

if TYPE_CHECKING:
    from retinue.actors.runtime.kernel import Kernel
    from retinue.security.audit import AuditEntry, AuditHead, AuditStatistics
    from retinue.security.audit_chain import Kind
    from retinue.security.context import SecurityContext
    from retinue.security.errors import NoContext

__all__ = ["AuditBook", "SystemAudit"]

_log = logging.getLogger("retinue.audit")

FILE = "audit.jsonl"
KEY_FILE = "audit.key"

MOST_FILES = 64
"""Systems that may record in one folder at the same time: `audit.jsonl`, `audit.2.jsonl` to `audit.64.jsonl`."""


class AuditBook:
    """What a system records in: a log of its own, in a file where the system has a folder, or one that it was given.

    Args:
        audit: A log, which stays open when the system ends; None: one of the system's own; False: none, so that nothing is recorded.
        folder: Where the system's own log lies, in `audit.jsonl` with the key in `audit.key`; made where it is not there. While another system has that file it is
            `audit.2.jsonl`, and so on: each is a chain of its own, with the one key. None: in memory.
        now_ms: The clock of a log of the system's own.

    Attributes:
        log: The log, or None.

    Raises:
        DefinitionError: `audit` is something else.
        KeyFileError, AuditUnavailable, AuditBroken: The files cannot be used.
    """

    __slots__ = ("_file", "_key", "_over", "_own", "log")

    def __init__(self, audit: object, folder: Path | None, now_ms: Callable[[], int]) -> None:
        self._file: Path | None = None
        self._key: bytes | None = None
        self._own = audit is None
        self._over = False
        self.log: AuditLog | None = None
        if isinstance(audit, AuditLog):
            self.log = audit
        elif audit is None and folder is None:
            self.log = AuditLog(now_ms=now_ms)
        elif audit is None and folder is not None:
            try:
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            except OSError as error:
                raise AuditUnavailable(f"data_dir={str(folder)[:200]!r} cannot be made or is no folder: {error.strerror}.") from error
            self._key = KeyFile(folder / KEY_FILE).open().current.secret
            sink = _free_file(folder / FILE)
            self._file = sink.path
            try:
                self.log = AuditLog(self._key, sink=sink, now_ms=now_ms)
            except BaseException:
                sink.close()
                raise
        elif audit is not False:
            raise DefinitionError(f"ActorSystem(audit={audit!r}): give an AuditLog, False to record nothing, or leave it out")

    def told(self, event: str, context: SecurityContext) -> None:
        """Records what the authority tells of: "mint", "adopt" (a sealed token's context) or "revoke". Raises AuditUnavailable: then nothing is given out."""
        if self.log is None:
            return
        if self._over and event != "revoke":
            raise SystemClosed("the system has ended, and its audit file is closed: nothing can be minted or unsealed in it any more")
        if event == "revoke":
            self.log.record("revoke", allowed=True, security=context)
        else:
            self.log.record(
                "mint", allowed=True, reason="token" if event == "adopt" else "", security=context, detail=context.permissions.text
            )

    def amplified(self, own: SecurityContext, operation: str, path: str, asker: SecurityContext) -> None:
        """Records that an actor takes its own authority while it works for another. Raises AuditUnavailable: then it must not."""
        if self.log is not None:
            labels = f", with the labels {', '.join(sorted(own.labels))}" if own.labels else ""
            detail = f"for {asker.subject!r} (context {asker.id}){labels}"
            self.log.record("amplification", allowed=True, operation=operation, security=own, path=path, detail=detail)

    def refused(self, error: Denied | NoContext) -> AuthorityError:
        """Records a refusal that was made before the gate could be asked. Returns it, or the AuditUnavailable that it is now where that cannot be."""
        if self.log is None:
            return error
        reason, subject, operation, path = "no_context", None, None, None
        if isinstance(error, Denied):
            reason, subject, operation, path = error.reason, error.subject, error.operation, error.path
        try:
            self.log.record("decision", allowed=False, operation=operation, reason=reason, subject=subject, path=path, detail=str(error))
        except AuditUnavailable as unavailable:
            unavailable.__cause__ = error
            return unavailable
        return error

    def started(self, name: str, root: SecurityContext) -> None:
        """Records that the system runs from now on."""
        if self.log is not None:
            self.log.record("start", allowed=True, security=root, detail=f"the system {name}")

    @property
    def file(self) -> Path | None:
        """The file that the log is in; None where it is in memory, or in something else."""
        found = self._file if self._file is not None or self.log is None else getattr(self.log._sink, "path", None)
        return found if isinstance(found, Path) else None

    def verify(self) -> int:
        """Checks every record that there is, in any thread, and returns how many. Raises AuditBroken."""
        if self.log is None:
            return 0
        kept, head = self.log.verify(), self.log.head()
        if self._file is None or self._key is None:
            return kept
        try:
            return verify_chain(read_audit_file(self._file), self._key, head=head).number
        except OSError as error:
            raise AuditBroken(
                f"the audit file {self._file} cannot be read ({error.strerror}), so its records are not there to be checked."
            ) from error

    def close(self) -> None:
        """Lets go of a file of the system's own."""
        if self._own and self._file is not None and self.log is not None:
            self._over = True
            self.log.close()


def _free_file(first: Path) -> AuditFile:
    """The first file that no other system has. Raises AuditUnavailable, AuditBroken."""
    number = 1
    while True:
        path = first if number == 1 else first.with_suffix(f".{number}{first.suffix}")
        try:
            found = AuditFile(path)
        except AuditUnavailable as error:
            # Only that somebody has it leads to the next one: a file that is broken, or open to others, has to be seen to.
            if number == MOST_FILES or not isinstance(error.__cause__, BlockingIOError):
                raise
            number += 1
        else:
            if number > 1:
                _log.info("%s is in use by another system: this one records in %s", first, path)
            return found


class SystemAudit:
    """What the gate and the authority of a system decided: `system.audit`.

    Recorded are each refusal and each question to a person, each allow of risk L2 or more, and what was minted, revoked or amplified. Other allows are counted, and
    recorded in batches (kind "allowed_batch"): how many messages of an operation one actor has handled under one context.
    """

    __slots__ = ("_book", "_kernel")

    def __init__(self, kernel: Kernel, book: AuditBook) -> None:
        self._kernel = kernel
        self._book = book

    @property
    def log(self) -> AuditLog | None:
        """The log itself; None where the system was made with `audit=False`."""
        return self._book.log

    async def entries(
        self, *, kind: Kind | None = None, operation: str | None = None, allowed: bool | None = None, limit: int | None = None
    ) -> tuple[AuditEntry, ...]:
        """The latest records, oldest first: those that are kept in memory, 10,000 by default.

        Args:
            kind: Only those of this kind: "decision", "allowed_batch", "approval", "mint", "revoke", "amplification", "outcome" or "start".
            operation: Only those of operations that this pattern names.
            allowed: Only those that allowed, or that refused.
            limit: Only the last so many of them.

        Raises:
            PatternError: `operation` is malformed.
            DefinitionError: There is no such `kind`, or `limit` is no whole number.
        """
        return self._entries(kind=kind, operation=operation, allowed=allowed, limit=limit)

    async def head(self) -> AuditHead | None:
        """The number and MAC of the last record. Kept in another place, it shows a later cut. None where nothing is recorded."""
        return self._head()

    async def verify(self) -> int:
        """Checks the chain of all records, in the file where there is one, and returns how many it holds.

        Raises:
            AuditBroken: A record was altered, removed, added or reordered, the end was cut off, or the file cannot be read.
        """
        return await trio.to_thread.run_sync(self._book.verify, abandon_on_cancel=True)

    async def statistics(self) -> AuditStatistics | None:
        """The log's counts; None where nothing is recorded."""
        return self._statistics()

    # What both twins call, in the system's thread while there is one.

    def _entries(self, **which: Any) -> tuple[AuditEntry, ...]:
        log = self._counted()
        return log.entries(**which) if log is not None else ()

    def _head(self) -> AuditHead | None:
        log = self._counted()
        return log.head() if log is not None else None

    def _statistics(self) -> AuditStatistics | None:
        log = self._counted()
        return log.statistics() if log is not None else None

    def _counted(self) -> AuditLog | None:
        """The log, with all that is only counted so far."""
        if get_ident() == self._kernel.thread:
            self._kernel.door.flush()
        return self._book.log
