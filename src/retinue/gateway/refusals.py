"""Refusals at the border are recorded before they are answered, and a flood of them in few records.

The first of a kind is a record of its own; what follows within a second is counted, and is one record with its count. A kind is the reason and, where a token was
genuine, the subject.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from retinue.errors import ApprovalError, AuditUnavailable, Denied, GatewayError, RetinueError, TokenError, WireError

if TYPE_CHECKING:
    from retinue.gateway.guard import Caller
    from retinue.security.audit import AuditLog

__all__ = ["Refusals"]

PERIOD: Final = 1.0
"""Seconds in which refusals of one kind are one record."""

MOST_KINDS: Final = 256
"""Kinds that are told apart in one period; further ones are counted by their reason alone."""


class _Kind:
    """Refusals of one kind: since when, and how many of them are in no record yet."""

    __slots__ = ("at", "caller", "detail", "path", "uncounted")

    def __init__(self, at: float, caller: Caller | None, path: str | None, detail: str) -> None:
        self.at = at
        self.caller = caller
        self.path = path
        self.detail = detail
        self.uncounted = 0


class Refusals:
    """What a gateway refuses, on its way into the audit.

    Args:
        log: The system's audit log; None where nothing is recorded.
    """

    __slots__ = ("_kinds", "_log", "count")

    def __init__(self, log: AuditLog | None) -> None:
        self._log = log
        self._kinds: dict[tuple[str, str | None], _Kind] = {}
        self.count = 0

    def note(self, error: RetinueError, *, caller: Caller | None = None, path: str | None = None) -> RetinueError:
        """Records a refusal of the gateway's own. Returns the error, or the AuditUnavailable that it is where it cannot be recorded."""
        self.count += 1
        if self._log is None:
            return error
        reason, detail = _reason(error), _detail(error)
        subject = caller.context.subject if caller is not None else None
        now = trio.current_time()
        key = (reason, subject)
        known = self._kinds.get(key)
        if known is None and len(self._kinds) >= MOST_KINDS:
            key, caller, path = (reason, None), None, None
            known = self._kinds.get(key)
        try:
            if known is None:
                self._write(reason, _Kind(now, caller, path, detail), 1)
                self._kinds[key] = _Kind(now, caller, path, detail)
            elif now - known.at >= PERIOD:
                self._write(reason, known, known.uncounted + 1)
                known.at, known.uncounted, known.caller, known.path, known.detail = now, 0, caller, path, detail
            else:
                known.uncounted += 1
        except AuditUnavailable as unavailable:
            unavailable.__cause__ = error
            return unavailable
        return error

    def flush(self, *, everything: bool = False) -> None:
        """Writes down what is only counted so far, of kinds whose period is over (`everything`: of all), and forgets kinds that have come to rest."""
        now = trio.current_time()
        for key, kind in list(self._kinds.items()):
            if now - kind.at < PERIOD and not everything:
                continue
            try:
                if kind.uncounted:
                    self._write(key[0], kind, kind.uncounted)
            except AuditUnavailable:  # what was refused stays refused; the next time counts these too
                continue
            if kind.uncounted:
                kind.at, kind.uncounted = now, 0
            else:
                del self._kinds[key]

    async def run(self) -> None:
        """Flushes once in a period, until it is cancelled."""
        try:
            while True:
                await trio.sleep(PERIOD)
                self.flush()
        finally:
            self.flush(everything=True)

    def _write(self, reason: str, kind: _Kind, count: int) -> None:
        if self._log is not None:
            self._log.record(
                "decision",
                allowed=False,
                reason=reason,
                security=kind.caller.context if kind.caller is not None else None,
                path=kind.path,
                detail=kind.detail,
                count=count,
            )


def _reason(error: RetinueError) -> str:
    if isinstance(error, TokenError):
        return "token"
    if isinstance(error, GatewayError | ApprovalError | Denied):
        return error.reason
    if isinstance(error, WireError):
        return error.problem
    return type(error).__name__


def _detail(error: RetinueError) -> str:
    """A sentence for people that holds nothing of what was sent: texts of the wire name fields, and others' texts may quote."""
    if isinstance(error, TokenError):
        return f"The gateway refused a token ({error.reason})."
    return f"The gateway refused a request ({type(error).__name__}: {_reason(error)})."
