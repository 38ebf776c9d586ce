"""The desk's file without a system: what the command line reads and decides, while the system runs and while it does not."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar, final

from retinue.actors.approvals.deciding import (
    DEFAULT_SECONDS,
    YEAR_SECONDS,
    approval_of,
    check_meant,
    check_note,
    check_reviewer,
    check_seconds,
    refusal_of,
)
from retinue.actors.approvals.editing import edited_request
from retinue.actors.approvals.keys import DeskKeys
from retinue.actors.approvals.places import secure
from retinue.actors.approvals.standing_rows import StandingReader, standing_row
from retinue.actors.approvals.tables import FILE, SCHEMA, Row, request_of, row_of
from retinue.actors.approvals.witness import Renew
from retinue.actors.approvals.works_asking import AddFeedback, Complete, Edit, Find, Get, ListFeedback, Search
from retinue.actors.approvals.works_clock import Behind, ClockReset, ResetClock
from retinue.actors.approvals.works_listing import Choose
from retinue.actors.approvals.works_spending import Indeterminate, KeepStanding, ListStanding, Resolve, WithdrawStanding
from retinue.actors.store.errors import StoreUnavailable
from retinue.actors.store.session import Session
from retinue.security.approvals import ApprovalRequest
from retinue.security.clock import Clock
from retinue.security.errors import ApprovalError
from retinue.security.standing import StandingConsent, sign_standing

if TYPE_CHECKING:
    from retinue.actors.store.work import Work

__all__ = ["ApprovalsFile"]

_log = logging.getLogger("retinue.approvals")

R = TypeVar("R")

VIA: Final = "command line"


@final
class ApprovalsFile:
    """The approvals in a folder of data. Reviewers are whoever the caller says, and recorded as asserted.

    Everything raises StoreUnavailable where the file cannot be used, and ApprovalError as `system.approvals` does.

    Args:
        folder: The folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._session = Session(folder / FILE, SCHEMA)
        self._keys = DeskKeys(folder)
        self._clock = Clock()
        self._looked = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._session.close()

    @property
    def now_ms(self) -> int:
        """The time."""
        return self._clock.now_ms()

    def do(self, work: Work[R]) -> R:
        """Does a work of the desk. Before the first one it is looked whether the file is the one that was used last."""
        if not self._looked:
            secure(self.folder)
            self._looked = True
            try:
                found = self._session.do(Renew(self.now_ms, VIA))
            except StoreUnavailable as error:
                _log.debug("the approvals' file cannot be written: %s", error)  # looking goes on; whoever spends looks for himself
            else:
                if found is not None:
                    _log.error("the approvals' file is not the one that was used last, so what was approved before is void: %s", found)
        return self._session.do(work)

    def find(self, status: str | None, limit: int = 10_000) -> list[ApprovalRequest]:
        """Requests, oldest first, without their tokens; those that cannot be read are left out."""
        found = []
        for row in self.do(Find(self.now_ms, status=status, limit=limit)):
            try:
                found.append(request_of(row))
            except ApprovalError:
                continue
        return found

    def choose(self, status: str | None, limit: int) -> tuple[list[ApprovalRequest], tuple[tuple[str, int], ...]]:
        """The oldest requests of each subject in turn, oldest first, and how many more there are of whom."""
        chosen = self.do(Choose(self.now_ms, status, limit))
        found = []
        for row in chosen.rows:
            try:
                found.append(request_of(row))
            except ApprovalError:
                continue
        return found, chosen.more

    def get(self, beginning: str) -> tuple[ApprovalRequest, Row]:
        """The request whose id begins so, with its token, and its row. Raises ApprovalError ("unknown")."""
        row = self.do(Get(beginning, self.now_ms, prefix=True))
        return request_of(row, token=True), row

    def feedback_of(self, request_id: str) -> tuple[Row, ...]:
        """What people have said about a request, oldest first."""
        return self.do(ListFeedback(request_id))

    def approve(self, beginning: str, *, reviewer: str, note: str = "", seconds: float = DEFAULT_SECONDS) -> tuple[ApprovalRequest, str]:
        """Approves a request; returns it, and the token."""
        request, _ = self.get(beginning)
        who, said = check_reviewer(reviewer), check_note(note)
        work = approval_of(
            request, self._keys.signing(), reviewer=who, asserted=True, note=said, seconds=seconds, now_ms=self.now_ms, via=VIA
        )
        self.do(work)
        assert work.token is not None
        return request, work.token

    def refuse(self, beginning: str, *, kind: Any, reviewer: str, note: str) -> ApprovalRequest:
        """Rejects, answers or cancels a request."""
        request, _ = self.get(beginning)
        who, said = check_reviewer(reviewer), check_note(note)
        return request_of(self.do(refusal_of(request.id, kind=kind, reviewer=who, asserted=True, note=said, now_ms=self.now_ms, via=VIA)))

    def edit(self, beginning: str, changes: Mapping[str, Any], *, reviewer: str, note: str = "") -> ApprovalRequest:
        """Puts a request with other arguments in a request's place; returns the new one."""
        request, _ = self.get(beginning)
        who, said = check_reviewer(reviewer), check_note(note)
        new = edited_request(request, changes, reviewer=who, now_ms=self.now_ms)
        return request_of(self.do(Edit(request.id, row_of(new), who, True, said, self.now_ms, VIA)))

    def add_feedback(self, beginning: str, text: str, *, reviewer: str) -> ApprovalRequest:
        """Adds what a person has to say about a request."""
        request, _ = self.get(beginning)
        self.do(AddFeedback(request.id, check_note(text, "text"), check_reviewer(reviewer), True, self.now_ms))
        return request

    def always(
        self,
        pattern: str,
        *,
        reviewer: str,
        seconds: float,
        subject: str | None,
        tenant: str | None = None,
        audience: str | None = None,
        constraints: Mapping[str, Any] | None = None,
        open_arguments: bool = False,
    ) -> StandingConsent:
        """Signs and keeps a standing consent; see `system.approvals.always_allow`."""
        check_meant(constraints, open_arguments)
        consent = StandingConsent.new(
            pattern,
            approver=check_reviewer(reviewer),
            now_ms=self.now_ms,
            lifetime_ms=check_seconds(seconds, YEAR_SECONDS),
            subject=subject,
            tenant=tenant,
            audience=audience,
            constraints=constraints,
            open=open_arguments,
        )
        self.do(KeepStanding(standing_row(consent, sign_standing(self._keys.signing(), consent)), self.now_ms, VIA))
        return consent

    def standing(self) -> list[StandingConsent]:
        """The standing consents in force, oldest first."""
        return StandingReader().read_all(self.do(ListStanding(self.now_ms)), self._keys)

    def withdraw(self, beginning: str, *, reviewer: str) -> str:
        """Withdraws the standing consent whose id begins so; returns its id."""
        standing_id = self.do(Complete("standing", beginning))
        self.do(WithdrawStanding(standing_id, check_reviewer(reviewer), self.now_ms, VIA))
        return standing_id

    def indeterminate(self) -> tuple[Row, ...]:
        """What was spent and interrupted, oldest first."""
        return self.do(Indeterminate())

    def resolve(self, beginning: str, outcome: str, *, reviewer: str, note: str = "") -> str:
        """Notes how something ended that was interrupted, of the approval whose id begins so; returns its id."""
        jti = self.do(Complete("spent", beginning))
        self.do(Resolve(jti, outcome, check_reviewer(reviewer), True, check_note(note), self.now_ms, VIA))
        return jti

    def behind(self) -> int | None:
        """Milliseconds that this machine's clock is behind the file's, where that keeps everything from being decided; else 0. None: the file has lost its clock."""
        return self.do(Behind(self.now_ms))

    def reset_clock(self, *, reviewer: str) -> ClockReset:
        """Sets the file's clock back to this machine's; all that was approved before is void."""
        return self.do(ResetClock(check_reviewer(reviewer), self.now_ms, VIA))

    def events(self, after: int) -> tuple[int, tuple[Row, ...]]:
        """The number of the last event, and the events after one; -1 for none of them."""
        return self.do(Search(after))
