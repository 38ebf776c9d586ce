"""The desk: the actor at which people decide. It also looks what other processes have decided, and records it.

It lives under `/system`, where no actor's ref leads, and takes messages from the system's holder alone. One decision at a time; none of them is ever its own idea.
"""

from __future__ import annotations

import logging
import math
import time
from typing import TYPE_CHECKING, Any, Final

import attrs
import trio

from retinue.actors.approvals.deciding import approval_of, refusal_of
from retinue.actors.approvals.editing import edited_request
from retinue.actors.approvals.ledger import INDETERMINATE
from retinue.actors.approvals.messages import (
    ApprovalEvent,
    Approve,
    Changes,
    EditRequest,
    KeepAlways,
    Poke,
    Reject,
    SettleInterrupted,
    TakeBack,
    Withdraw,
)
from retinue.actors.approvals.standing_rows import standing_row
from retinue.actors.approvals.tables import Row, request_of, row_of
from retinue.actors.approvals.works_asking import Decide, Edit, Get, GiveUp, Mark, Search
from retinue.actors.approvals.works_spending import KeepStanding, Resolve, Tidy, WithdrawStanding
from retinue.actors.runtime.actor import Actor, handler
from retinue.actors.runtime.deferred import Deferred
from retinue.actors.runtime.watch import StopReason
from retinue.actors.store.errors import StoreUnavailable
from retinue.security.approvals import ASKER, GIVEN_UP, ApprovalRequest
from retinue.security.errors import ApprovalError, AuthorityError
from retinue.security.standing import StandingConsent, sign_standing

if TYPE_CHECKING:
    from retinue.actors.approvals.office import Office
    from retinue.actors.runtime.ref import Ref
    from retinue.mailbox.messages import Message

__all__ = ["Desk"]

_log = logging.getLogger("retinue.approvals")

POLL: Final = 0.25
"""Seconds from one look into the file to the next, while somebody waits for a change that another process may make."""

IDLE_POLL: Final = 5.0
"""Seconds from one look to the next, while nobody does."""

PAUSE: Final = 0.01
"""Seconds between two looks at least: many that redeem at once make one look."""

TIDY: Final = 60.0
"""Seconds from one tidying to the next."""

PATIENCE: Final = 60.0
"""Seconds after which somebody who waits for a change is told that there was none, and asks again."""

LAST: Final = 3.0
"""Seconds that the desk has at the system's end to write down what is left."""

MAX_WAITING: Final = 10_000
"""Who may wait for changes at the same time."""

_DECISIONS: Final = frozenset(
    {"approved", "rejected", "responded", "edited", "cancelled", "always", "withdrawn", "resolved", "clock reset"}
)
_RAISES: Final = (AuthorityError, StoreUnavailable)


class Desk(Actor):
    """Decides requests, as whoever holds the system says.

    Args:
        office: Whose desk it is.
        store: The store of the file.
    """

    def __init__(self, office: Office, store: Ref[Any]) -> None:
        self._office = office
        self._store = store
        self._poked = trio.Event()
        self._waiting: list[tuple[int, float, Deferred]] = []
        self._seen = -1
        self._tidied = -TIDY
        self._told = ""
        self._behind = False

    # -- decisions -----------------------------------------------------------------------------------------------------------------------------------

    @handler(raises=_RAISES)
    async def approve(self, message: Approve) -> str:
        """Approve; see `Approve`."""
        office = self._office
        request = await self._find(message.id)
        work = approval_of(
            request,
            message.key,
            reviewer=message.reviewer,
            asserted=message.asserted,
            note=message.note,
            seconds=message.expires_seconds,
            now_ms=office.now_ms,
            batch=message.batch,
            via=office.id,
        )
        self._record(request, "approved", message.reviewer, message.asserted, message.note)
        await self._decided(request, work)
        assert work.token is not None
        return work.token

    @handler(raises=_RAISES)
    async def reject(self, message: Reject) -> ApprovalRequest:
        """Reject, respond or cancel; see `Reject`."""
        request = await self._find(message.id)
        kind: Any = message.kind
        work = refusal_of(
            request.id,
            kind=kind,
            reviewer=message.reviewer,
            asserted=message.asserted,
            note=message.note,
            now_ms=self._office.now_ms,
            batch=message.batch,
            via=self._office.id,
        )
        self._record(request, kind, message.reviewer, message.asserted, message.note)
        return request_of(await self._decided(request, work))

    @handler(raises=_RAISES)
    async def take_back(self, message: TakeBack) -> None:
        """Cancel what a run has asked; see `TakeBack`."""
        office = self._office
        rows = await self._store.ask(GiveUp(message.ids, message.owner, office.now_ms, office.id, message.runs))
        self._poked.set()
        for row in rows:
            self._record(request_of(row), "cancelled", ASKER, True, GIVEN_UP)

    @handler(raises=_RAISES)
    async def edit(self, message: EditRequest) -> ApprovalRequest:
        """Edit; see `EditRequest`."""
        request = await self._find(message.id)
        now = self._office.now_ms
        new = edited_request(request, message.arguments, reviewer=message.reviewer, now_ms=now, cls=self._class_of(request))
        work = Edit(request.id, row_of(new), message.reviewer, message.asserted, message.note, now, self._office.id)
        self._record(request, "edited", message.reviewer, message.asserted, f"to {new.id} {message.note}".rstrip())
        return request_of(await self._decided(request, work))

    @handler(raises=_RAISES)
    async def keep(self, message: KeepAlways) -> StandingConsent:
        """Sign and keep a standing consent; see `KeepAlways`."""
        office = self._office
        now = office.now_ms
        consent = StandingConsent.new(
            message.pattern,
            approver=message.approver,
            now_ms=now,
            lifetime_ms=message.lifetime_ms,
            subject=message.subject,
            tenant=message.tenant,
            audience=message.audience,
            constraints=message.constraints,
            open=message.open,
            definition=message.definition,
        )
        signed = sign_standing(message.key, consent)
        row = standing_row(consent, signed)
        self._write("always", True, message.approver, message.asserted, detail=f"{consent.id}: {row['described']}", subject=message.subject)
        await self._store.ask(KeepStanding(row, now, office.id))
        self._poked.set()
        return consent

    @handler(raises=_RAISES)
    async def withdraw(self, message: Withdraw) -> None:
        """Withdraw a standing consent; see `Withdraw`."""
        self._write("withdrawn", False, message.reviewer, asserted=True, detail=message.id)
        self._office.withdrawn.add(message.id)
        await self._store.ask(WithdrawStanding(message.id, message.reviewer, self._office.now_ms, self._office.id))
        self._poked.set()

    @handler(raises=_RAISES)
    async def resolve(self, message: SettleInterrupted) -> None:
        """Note how something ended that was interrupted; see `SettleInterrupted`."""
        self._write("resolved", True, message.reviewer, message.asserted, detail=f"{message.jti}: {message.outcome}: {message.note}")
        await self._store.ask(
            Resolve(message.jti, message.outcome, message.reviewer, message.asserted, message.note, self._office.now_ms, self._office.id)
        )
        self._poked.set()

    async def _find(self, request_id: str) -> ApprovalRequest:
        return request_of(await self._store.ask(Get(request_id, self._office.now_ms)))

    async def _decided(self, request: ApprovalRequest, work: Decide | Edit) -> Row:
        """Writes a decision that was recorded as intended; what came of it instead is recorded too."""
        try:
            return await self._store.ask(work)
        except Exception as error:
            self._record(request, "not taken", work.reviewer, work.asserted, getattr(error, "reason", type(error).__name__), allowed=False)
            raise
        finally:
            self._poked.set()

    def _class_of(self, request: ApprovalRequest) -> type[Message] | None:
        """The class of the message that the request is about, where the actor lives."""
        ref = self._office.kernel.names.address(request.audience)
        for cls, info in ref._cell.handlers.items() if ref is not None else ():
            if info.requires == request.operation and request.message_type in (
                info.info.name,
                info.info.label,
                f"{cls.__module__}.{cls.__qualname__}",
            ):
                return cls
        return None

    # -- the audit -----------------------------------------------------------------------------------------------------------------------------------

    def _record(self, request: ApprovalRequest, what: str, who: str, asserted: bool, note: str, *, allowed: bool | None = None) -> None:
        """Records a decision. Raises AuditUnavailable: then it is not made."""
        self._write(
            what,
            what == "approved" if allowed is None else allowed,
            who,
            asserted,
            detail=f"{request.id}{': ' if note else ''}{note}",
            operation=request.operation,
            subject=request.subject,
            path=request.audience,
            message_type=request.message_type,
        )

    def _write(self, what: str, allowed: bool, who: str, asserted: bool, *, detail: str, **case: Any) -> None:
        log = self._office.kernel.book.log
        if log is not None:
            log.record("approval", allowed=allowed, reason=what, detail=f"by {who}{' (asserted)' if asserted else ''}: {detail}", **case)

    # -- what happens elsewhere ------------------------------------------------------------------------------------------------------------------------

    @handler
    def poke(self, _message: Poke) -> None:
        """Something happened: look now."""
        self._poked.set()

    @handler(raises=_RAISES)
    async def changes(self, message: Changes) -> tuple[int, tuple[ApprovalEvent, ...]]:
        """Answer when there are events; see `Changes`."""
        last = message.after
        for _ in range(3):
            last, rows = await self._store.ask(Search(message.after))
            if message.after < 0 or rows or last < message.after:  # the last: of a file that is not there any more
                return last, _events(rows)
            if self._seen <= last:
                break  # else the desk has seen something since, and would not tell of it again
        if len(self._waiting) < MAX_WAITING:
            self._waiting.append((message.after, time.monotonic() + PATIENCE, self.ctx.defer()))
            self._poked.set()
        return last, ()

    async def run(self) -> None:
        """Look into the file for as long as the desk stands: soon where somebody waits, now and then where nobody does."""
        while True:
            try:
                await self._pay()
                await self._look()
                self._told = ""
            except (StoreUnavailable, AuthorityError) as error:
                if str(error) != self._told:  # once for each cause
                    self._told = str(error)
                    _log.warning("the desk cannot look into its file: %s", error)
                self._let_go()
                if getattr(error, "reason", "") == "gone":
                    self._office.doubt()
                await trio.sleep(POLL)
            if self._office.folder is None:  # nobody else can change anything, so there is nothing to look for
                patience = PATIENCE if self._waiting else POLL if self._office.owed else math.inf
            else:
                await trio.sleep(PAUSE)
                patience = POLL if self._waiting or self._office.owed else IDLE_POLL
            with trio.move_on_after(patience):
                await self._poked.wait()
            self._poked = trio.Event()

    async def _pay(self) -> None:
        """Notes the outcomes that could not be noted when they were known. Raises StoreUnavailable: then they wait for the next look."""
        for jti in list(self._office.owed):
            await self._office.note(jti)

    async def _look(self) -> None:
        now = time.monotonic()
        if now >= self._tidied + TIDY:
            await self._tidy()
            self._tidied = now
        await self._office.look_again()
        if self._seen < 0:
            self._seen = await self._store.ask(Mark("audited"))
        while True:
            last, rows = await self._store.ask(Search(self._seen))
            if self._note(rows):
                await self._store.ask(Mark("audited", last))
            if last < self._seen:  # another file has taken the place
                self._let_go()
                self._office.doubt("what has happened is not in it")
                await self._office.look_again()
            self._seen = last
            self._answer(last, rows)
            if not rows:
                return

    async def _tidy(self) -> None:
        """Ends what is due. Where the clock is behind, that is told once, and put off: looking goes on."""
        try:
            office = self._office
            interrupted = await self._store.ask(Tidy(office.now_ms, "", office.owner, (*office.running, *office.owed), office.id))
        except ApprovalError as error:
            if error.reason != "clock":
                raise
            if not self._behind:
                _log.warning("%s", error)
            self._behind = True
            return
        self._behind = False
        for row in interrupted:
            self._interrupted(row)

    def _note(self, rows: tuple[Row, ...]) -> bool:
        """Records what was decided elsewhere. Whether anything was decided, here or there: what is on record is not recorded again after a restart."""
        decided = [row for row in rows if row["kind"] in _DECISIONS]
        self._office.withdrawn.update(row["standing_id"] for row in decided if row["kind"] == "withdrawn")
        for row in decided:
            if row["via"] == self._office.id:
                continue
            about = row["request_id"] or row["standing_id"] or row["jti"] or ""
            case = {name: row[name] for name in ("operation", "subject", "message_type")}
            self._write(
                row["kind"],
                row["kind"] in ("approved", "always"),
                row["who"] or "?",
                row["reviewer_asserted"] != 0,  # None, where no request tells: whoever wrote it was not asked for a proof
                detail=f"in another process: {about} {row['detail']}".rstrip(),
                path=row["audience"],
                **case,
            )
        return bool(decided)

    def _interrupted(self, row: Row) -> None:
        text = (
            f"{row['operation']} at {row['audience']} for {row['subject']!r} was approved and begun, and its process ended before it said how it went ({row['jti']}). "
            "Look whether it was done; `retinue approvals resolve` notes it. It is not done again by itself."
        )
        _log.error("%s", text)
        self._write(
            INDETERMINATE,
            False,
            row["approver"],
            False,
            detail=f"{row['jti']}: {row['owner']}",
            operation=row["operation"],
            subject=row["subject"],
            path=row["audience"],
        )

    def _answer(self, last: int, rows: tuple[Row, ...]) -> None:
        now = time.monotonic()
        kept = []
        for after, until, deferred in self._waiting:
            news = tuple(row for row in rows if row["number"] > after)
            if news or now >= until:
                deferred.reply((last if news else after, _events(news)))
            else:
                kept.append((after, until, deferred))
        self._waiting = kept

    def _let_go(self) -> None:
        """Nothing can be seen: whoever waits asks again, and hears why."""
        for after, _, deferred in self._waiting:
            deferred.reply((after, ()))
        self._waiting = []

    async def on_stop(self, reason: StopReason) -> None:
        """At the system's end: what is still open was interrupted, for nobody is left to say how it went."""
        self._let_go()
        if reason is StopReason.SYSTEM:
            try:
                with trio.fail_after(LAST):
                    await self._pay()
                    await self._store.ask(Tidy(self._office.now_ms, self._office.owner, via=self._office.id))
            except Exception as error:
                _log.warning("what was spent and not finished could not be noted: %s", error)
                self._office.close()
            else:
                self._office.close(forget=True)


def _events(rows: tuple[Row, ...]) -> tuple[ApprovalEvent, ...]:
    names = [field.name for field in attrs.fields(ApprovalEvent)]
    return tuple(ApprovalEvent(**{name: row[name] for name in names}) for row in rows)
