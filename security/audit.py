"""The audit log: what was refused, asked, minted, revoked and, from risk L2 on, allowed; each record chained to the one before by HMAC.

A record is written before the answer is given, and `record` raises where it cannot be: no record, no deed. The chain shows each altered,
removed, added or reordered record, to whoever has the key. A cut at the end shows only against a head (number and MAC) that was kept
elsewhere: hence `publish`.

Records name operations, subjects and paths, and have a keyed digest of arguments where there are any, never the arguments. The digest is
keyed because a plain hash of a short secret can be found by trying.
"""

from __future__ import annotations

import hmac
import logging
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn, Protocol, final

import attrs

from retinue.security.audit_chain import (
    KINDS,
    NO_MAC,
    AuditEntry,
    AuditHead,
    Kind,
    check_key,
    check_links,
    derive_key,
    encode,
    is_true,
    mac_of,
    verify_chain,
)
from retinue.security.canonical import canonical
from retinue.security.context import SecurityContext
from retinue.security.errors import AuditBroken, AuditUnavailable, DefinitionError
from retinue.security.operations import Pattern

__all__ = ["AuditEntry", "AuditHead", "AuditLog", "AuditSink", "AuditStatistics", "Kind", "verify_chain"]

MAX_TEXT: Final = 1024
"""Characters of one text in a record; longer ones are cut, and end with "…"."""

MAX_KEPT: Final = 2**31 - 1
"""Records that can be kept in memory."""

_NOBODY: Final[tuple[str | None, ...]] = (None,) * 5

_logger = logging.getLogger("retinue.audit")


def _plain(text: str | None) -> str | None:
    """`text` as an exact `str` that is no longer than it should be, and has a UTF-8 form. A record must never fail for what it tells."""
    if text is None:
        return None
    plain = text if type(text) is str else str.__str__(text)
    if len(plain) > MAX_TEXT:
        plain = plain[: MAX_TEXT - 1] + "…"
    return plain if plain.isascii() else plain.encode("utf-8", "backslashreplace").decode("utf-8")


@attrs.frozen
class AuditStatistics:
    """Counts of one audit log since it was opened.

    Attributes:
        records: Records written.
        kept: Records in memory, which `entries` gives.
        failures: Records that could not be written; what they were about was refused.
        published: Heads that `publish` took.
        publish_failures: Times that it raised.
    """

    records: int
    kept: int
    failures: int
    published: int
    publish_failures: int


class AuditSink(Protocol):
    """Where an audit log writes its records; `AuditFile` is one."""

    @property
    def recovered(self) -> str:
        """What had to be mended when it was opened, as a sentence; "" if nothing."""
        ...

    def last(self) -> AuditEntry | None:
        """The last record there, which the chain goes on from."""
        ...

    def write(self, entry: AuditEntry) -> None:
        """Store the record before returning, or raise and store nothing.

        A record of the same number as the last one replaces it: writing that was interrupted or failed, and nobody counts on it.
        """
        ...

    def close(self) -> None:
        """Write no more."""
        ...


@final
class AuditLog:
    """Records what was decided, each record chained to the one before. Safe to use from any thread.

    Args:
        key: At least 16 secret bytes. None draws a random one: the chain can then be checked by this object alone, so there may be no sink.
        sink: Where records are written before `record` returns; the chain goes on from its last record. None keeps them in memory only.
        keep: How many of the latest records stay in memory. Default: 10,000.
        publish: Called with each head that should be kept elsewhere: every `every` records, and at `close`. It must be quick and record
            nothing. Where it raises, the next record tries again.
        every: Records from one head to the next. Default: 1,000.
        now_ms: The clock, in milliseconds since the epoch.

    Raises:
        DefinitionError: The key is none, or short; `keep` or `every` is no such number.
        AuditBroken: The sink's last record was not written with this key, or was altered.
        AuditUnavailable: The sink had to be mended, and the record of that could not be written.
    """

    __slots__ = (
        "_arguments_key",
        "_chain_key",
        "_closed",
        "_entries",
        "_every",
        "_failures",
        "_head",
        "_lock",
        "_now_ms",
        "_publish",
        "_publish_failures",
        "_published",
        "_recording",
        "_records",
        "_sink",
        "_started",
    )

    def __init__(
        self,
        key: bytes | None = None,
        *,
        sink: AuditSink | None = None,
        keep: int = 10_000,
        publish: Callable[[int, str], None] | None = None,
        every: int = 1000,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        if key is None and sink is not None:
            raise DefinitionError("an audit log that writes to a sink needs a key that outlives it: pass key=, from a KeyRing.")
        if type(keep) is not int or type(every) is not int or not 0 <= keep <= MAX_KEPT or every < 1:
            raise DefinitionError(f"AuditLog(keep=…, every=…): keep is a whole number from 0 to {MAX_KEPT:,}, and every one from 1 on.")
        key = secrets.token_bytes(32) if key is None else check_key(key)
        self._chain_key: Final = derive_key(key, b"chain")
        self._arguments_key: Final = derive_key(key, b"arguments")
        self._sink: Final = sink
        self._publish: Final = publish
        self._every: Final = every
        self._now_ms: Final = now_ms
        # Re-entrant only so that a record made while another is made (by a finaliser, a signal handler, the sink) can be refused.
        self._lock = threading.RLock()
        self._recording = False
        self._closed = False
        self._entries: deque[AuditEntry] = deque(maxlen=keep)
        self._records = self._failures = self._published = self._publish_failures = 0
        last = None if sink is None else sink.last()
        if last is None:
            self._head = AuditHead(0, NO_MAC)
        else:
            if not is_true(last, self._chain_key):
                raise AuditBroken(
                    f"the last audit record, number {last.number}, was altered, or written with another key. "
                    "Check the whole file with `retinue audit verify`; move it away to begin a new chain.",
                    number=last.number,
                )
            self._head = AuditHead(last.number, last.mac)
        self._started: Final = self._head
        if sink is not None and sink.recovered:
            self.record("start", allowed=True, reason="recovered", detail=sink.recovered)

    def record(
        self,
        kind: Kind,
        *,
        allowed: bool,
        operation: str | None = None,
        reason: str = "",
        security: SecurityContext | None = None,
        subject: str | None = None,
        path: str | None = None,
        message_type: str | None = None,
        arguments_digest: str | None = None,
        detail: str = "",
        count: int = 1,
    ) -> AuditEntry:
        """Write one record; it is in the sink when this returns.

        Args:
            kind: See `AuditEntry`.
            allowed: Whether it was allowed.
            operation: The operation's dotted name.
            reason: A stable word.
            security: The context that it was decided under; its id, root, subject, tenant and policy version are recorded.
            subject: Whom it is about, where there is no context to tell it.
            path: The path of the actor that was addressed.
            message_type: The name of the message's type.
            arguments_digest: What `digest` gave for the arguments.
            detail: A sentence for people, without secrets; cut at 1,024 characters, as each text is.
            count: How many calls this stands for.

        Raises:
            AuditUnavailable: It could not be written. Nothing was, and what it is about must not be done.
        """
        with self._lock:
            if self._recording or self._closed:
                self._failures += 1
                state = "closed" if self._closed else "in the middle of another record"
                raise AuditUnavailable(
                    f"no audit record was written, so nothing was done: the audit log is {state}.", operation=operation, path=path
                )
            try:
                self._recording = True  # in here: what interrupts from now on finds the way to `finally`
                entry = self._entry(
                    kind, allowed, operation, reason, _who(security, subject), path, message_type, arguments_digest, detail, count
                )
                if self._sink is not None:
                    self._sink.write(entry)
            except Exception as error:
                self._failures += 1
                raise AuditUnavailable(
                    f"no audit record could be written, so nothing was done: {type(error).__name__}: {str(error)[:300]} "
                    "Mend the cause (disk space, permissions of the file, the clock); the next call tries again.",
                    operation=operation,
                    path=path,
                ) from error
            else:
                self._advance(entry)
                return entry
            finally:
                self._recording = False

    def _entry(
        self,
        kind: Kind,
        allowed: bool,
        operation: str | None,
        reason: str,
        who: tuple[str | None, ...],
        path: str | None,
        message_type: str | None,
        arguments_digest: str | None,
        detail: str,
        count: int,
    ) -> AuditEntry:
        """The next record. Whatever a text is, it is made fit; whatever else does not fit raises."""
        context, root, subject, tenant, policy_version = who
        # In the order of the fields: the MAC is over this text.
        fields: dict[str, Any] = {
            "number": self._head.number + 1,
            "at_ms": int(self._now_ms()),
            "kind": kind if kind in KINDS else _unknown_kind(kind),
            "operation": _plain(operation),
            "allowed": allowed is True,
            "reason": _plain(reason) or "",
            "context": context,
            "root": root,
            "subject": subject,
            "tenant": tenant,
            "path": _plain(path),
            "message_type": _plain(message_type),
            "arguments_digest": _plain(arguments_digest),
            "policy_version": policy_version,
            "detail": _plain(detail) or "",
            "count": int(count),
            "previous": self._head.mac,
        }
        return AuditEntry(**fields, mac=mac_of(self._chain_key, encode(fields)))

    def _advance(self, entry: AuditEntry) -> None:
        if self._entries and self._entries[-1].number >= entry.number:  # left by one that was interrupted right here
            self._entries.pop()
        self._entries.append(entry)
        self._head = AuditHead(entry.number, entry.mac)
        self._records += 1
        self._publish_if_due()

    def digest(self, arguments: Mapping[str, Any]) -> str:
        """A keyed digest of arguments, for `record`: equal arguments have equal digests, and without the key it tells nothing.

        Raises:
            CanonicalError: The arguments are no plain data.
        """
        return hmac.digest(self._arguments_key, canonical(dict(arguments)), "sha256").hex()

    def entries(
        self, *, kind: Kind | None = None, operation: str | None = None, allowed: bool | None = None, limit: int | None = None
    ) -> tuple[AuditEntry, ...]:
        """The latest records in memory, oldest first.

        Args:
            kind: Only those of this kind.
            operation: Only those of operations that this pattern names.
            allowed: Only those that allowed, or that refused.
            limit: Only the last so many of them.

        Raises:
            PatternError: `operation` is malformed.
            DefinitionError: There is no such `kind`, or `limit` is no whole number.
        """
        if kind is not None and (not isinstance(kind, str) or kind not in KINDS):
            shown = repr(kind[:60]) if isinstance(kind, str) else f"an object of type {type(kind).__name__}"
            raise DefinitionError(f"entries(kind=…): there are no records of the kind {shown}. Kinds are {', '.join(sorted(KINDS))}.")
        if limit is not None and type(limit) is not int:
            raise DefinitionError(f"entries(limit=…) is a whole number, or None for all, not an object of type {type(limit).__name__}.")
        pattern = None if operation is None else Pattern(operation)
        with self._lock:
            kept = tuple(self._entries)
        found = [
            entry
            for entry in kept
            if (kind is None or entry.kind == kind)
            and (allowed is None or entry.allowed is allowed)
            and (pattern is None or (entry.operation is not None and pattern.matches_segments(tuple(entry.operation.split(".")))))
        ]
        return tuple(found if limit is None else found[max(0, len(found) - limit) :])

    def head(self) -> AuditHead:
        """The number and MAC of the last record."""
        with self._lock:
            return self._head

    def verify(self) -> int:
        """Check the records in memory against each other and against the head, and return how many they are.

        Raises:
            AuditBroken: One does not fit.
        """
        with self._lock:
            kept, head = tuple(self._entries), self._head
        if not kept:
            return 0
        check_links(kept, self._chain_key, AuditHead(kept[0].number - 1, kept[0].previous), head)
        return len(kept)

    def statistics(self) -> AuditStatistics:
        """A consistent snapshot of the counts."""
        with self._lock:
            return AuditStatistics(self._records, len(self._entries), self._failures, self._published, self._publish_failures)

    def close(self) -> None:
        """Publish the head, close the sink and take no more records. Closing twice is fine."""
        with self._lock:
            if self._closed or self._recording:
                return
            try:
                self._recording = True
                if self._head != self._started or self._published:
                    self._publish_head()
            finally:
                self._recording = False
                self._closed = True
                if self._sink is not None:
                    self._sink.close()

    def _publish_if_due(self) -> None:
        # Counted in what was published, so that a head that could not be is tried again with each record until it is.
        if self._publish is not None and self._records // self._every > self._published:
            self._publish_head()

    def _publish_head(self) -> None:
        if self._publish is None:
            return
        try:
            self._publish(*self._head)
        except Exception as error:
            self._publish_failures += 1
            _logger.warning("the head of the audit log could not be published (%s); the next record tries again", type(error).__name__)
        else:
            self._published = max(self._published + 1, self._records // self._every)

    def __repr__(self) -> str:
        return f"<AuditLog: {self._head.number} records{', closed' if self._closed else ''}>"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("an AuditLog is neither copied nor pickled: a chain has one end, and the key stays where it is.")


def _unknown_kind(kind: object) -> NoReturn:
    raise ValueError(f"an object of type {type(kind).__name__} is no kind of record: they are {', '.join(sorted(KINDS))}")


def _who(security: SecurityContext | None, subject: str | None) -> tuple[str | None, ...]:
    """What a record says of a context: its id, root, subject, tenant and policy version. Of a forged one, which may raise, nothing."""
    if type(security) is not SecurityContext:
        return _NOBODY if subject is None else (None, None, _plain(subject), None, None)
    try:
        root = security
        for _ in range(10_000):  # a forged context may be its own ancestor
            if root.parent is None:
                break
            root = root.parent
        return _plain(security.id), _plain(root.id), _plain(security.subject), _plain(security.tenant), _plain(security.policy_version)
    except Exception:
        return _NOBODY
