"""`system.approvals`: what whoever holds the system asks the desk, and tells it. Refused in handlers: an approval never comes by an agent's message."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, final

import trio

from retinue.actors.approvals.deciding import (
    DEFAULT_SECONDS,
    OUTCOMES,
    VOID,
    YEAR_SECONDS,
    check_meant,
    check_note,
    check_reviewer,
    check_seconds,
)
from retinue.actors.approvals.messages import (
    ApprovalEvent,
    ApprovalStatistics,
    Approve,
    Changes,
    EditRequest,
    Interrupted,
    KeepAlways,
    Reject,
    SettleInterrupted,
    Withdraw,
)
from retinue.actors.approvals.office import Office
from retinue.actors.approvals.tables import Row, request_of
from retinue.actors.approvals.works_asking import AddFeedback, Find, Get
from retinue.actors.approvals.works_spending import Count, Indeterminate, ListStanding
from retinue.actors.runtime.approving import APPROVAL_LIFETIME
from retinue.actors.runtime.errors import AskTimeout
from retinue.actors.store.errors import StoreUnavailable
from retinue.actors.store.work import Work
from retinue.mailbox.messages import Request
from retinue.security.approvals import STATUSES, ApprovalRequest, new_id
from retinue.security.errors import ApprovalError, AuthorityError, DefinitionError
from retinue.security.standing import StandingConsent

if TYPE_CHECKING:
    from retinue.actors.approvals.review import Reviewer
    from retinue.actors.runtime.kernel import Kernel
    from retinue.capabilities.consent import ConsentDesk

__all__ = ["ApprovalWatch", "SystemApprovals"]

R = TypeVar("R")

RETRY: Final = 0.25
"""Seconds from one try to the next, while the file cannot be used."""

MAX_MANY: Final = 1_000


@final
class SystemApprovals:
    """The approvals of a system, `system.approvals`. Other processes that use the same folder of data see the same, and decide the same requests.

    Everything here raises, besides what it says: `Denied` inside a handler; `NoContext` where nothing shows that it is the holder who calls; `StoreUnavailable` where the file cannot be used; `SystemClosed` after the end; and what
    decides something, `ApprovalError` with the reason "clock" where this machine's clock is behind the file's. Times are milliseconds since 1970.

    A reviewer's name is what the caller says, and is recorded as asserted, unless `asserted=False` says that it was proved: the gateway does, where it is the
    subject of a sealed token.
    """

    def __init__(
        self,
        kernel: Kernel,
        folder: Path | None,
        reviewer: Reviewer | None = None,
        reviewer_timeout: float = 300.0,
        lifetime: float = APPROVAL_LIFETIME,
    ) -> None:
        self._kernel = kernel
        self._office = Office(kernel, folder, reviewer, reviewer_timeout, lifetime)

    @property
    def desk(self) -> ConsentDesk:
        """What the gate asks."""
        return self._office

    # -- looking -------------------------------------------------------------------------------------------------------------------------------------

    async def pending(self) -> tuple[ApprovalRequest, ...]:
        """The requests that wait for a person, oldest first."""
        return await self.find(status="pending")

    async def get(self, request_id: str) -> ApprovalRequest:
        """A request as it is now; with its token, where it is approved.

        Raises:
            ApprovalError: There is none of this id ("unknown").
        """
        row = await self._work(Get, _text(request_id, "id"), self._office.now_ms)
        return request_of(row, token=True)

    async def find(
        self,
        *,
        status: str | None = None,
        subject: str | None = None,
        operation: str | None = None,
        batch: str | None = None,
        limit: int = 10_000,
        tenant: str | None = None,
        after: str | None = None,
    ) -> tuple[ApprovalRequest, ...]:
        """Requests, oldest first, without their tokens.

        Args:
            status: Only those of it: "pending", "approved", "rejected", "expired" or "cancelled".
            subject: Only those of it.
            operation: Only those of exactly this operation.
            batch: Only those that were decided together under this id.
            limit: The latest so many; with `after`, the first. Default: 10,000.
            tenant: Only those of this tenant.
            after: Only those that were made after the request of this id, "" for all: so they are read page by page.
        """
        if status is not None and status not in STATUSES:
            raise DefinitionError(f"status={status!r}: one of {', '.join(STATUSES)}")
        if type(limit) is not int or not 0 <= limit <= 2**31:
            raise DefinitionError(f"limit={limit!r}: how many requests, from 0 on")
        rows: tuple[Row, ...] = await self._work(Find, self._office.now_ms, status, subject, operation, batch, limit, tenant, after)
        found = []
        for row in rows:
            try:
                found.append(request_of(row))
            except ApprovalError:
                continue  # somebody wrote into the file; `get` says what is wrong with it
        return tuple(found)

    async def token(self, request_id: str) -> str:
        """The token of an approved request that was not spent yet.

        Raises:
            ApprovalError: There is no such request ("unknown"), it is not approved ("decided"), or its token was spent ("spent"), has expired ("expired")
                or is void ("store").
        """
        row = await self._work(Get, _text(request_id, "id"), self._office.now_ms)
        request = request_of(row, token=True)
        if request.status != "approved" or request.token is None:
            raise ApprovalError(f"the request {request.id} is {request.status}, so it has no token.", reason="decided")
        if row["spent_ms"] is not None:
            raise ApprovalError(f"the approval of {request.id} was spent before, and each is good for one call. Ask again.", reason="spent")
        if row["token_expires_ms"] <= row["read_ms"]:
            raise ApprovalError(f"the approval of {request.id} has expired. Ask again.", reason="expired")
        if row["void"]:
            raise ApprovalError(f"the approval of {request.id} is void since {VOID}. Ask again.", reason="store")
        return request.token

    async def statistics(self) -> ApprovalStatistics:
        """How many there are of what."""
        return ApprovalStatistics(**await self._work(Count, self._office.now_ms))

    # -- deciding ------------------------------------------------------------------------------------------------------------------------------------

    async def approve(
        self, request_id: str, *, reviewer: str, note: str = "", expires_seconds: float = DEFAULT_SECONDS, asserted: bool = True
    ) -> str:
        """Approve a request: returns the token, to be sent along as `approvals=[token]`. It is good for that one call, once.

        Args:
            request_id: The request.
            reviewer: Who consents.
            note: What they say, at most 4,000 characters.
            expires_seconds: How long the token is good for. Default, and at most: 3,600 s.
            asserted: See the class.

        Raises:
            ApprovalError: "unknown", "decided", "expired", or "four_eyes" where the policy asks for another person than the subject.
            AuditUnavailable: It could not be recorded, so it was not done.
            KeyFileError: The private key cannot be used.
        """
        check_seconds(expires_seconds, DEFAULT_SECONDS)
        return await self._tell(
            Approve(_text(request_id, "id"), check_reviewer(reviewer), bool(asserted), check_note(note), expires_seconds)
        )

    async def approve_many(
        self,
        request_ids: Iterable[str],
        *,
        reviewer: str,
        note: str = "",
        expires_seconds: float = DEFAULT_SECONDS,
        asserted: bool = True,
    ) -> dict[str, str | AuthorityError]:
        """Approve several requests, each on its own: the one that cannot be approved keeps none of the others from it.

        Args:
            request_ids: The requests, at most 1,000.
            reviewer, note, expires_seconds, asserted: As `approve`.

        Returns:
            By request: its token, or the error. All that were approved have the same `batch`.
        """
        check_seconds(expires_seconds, DEFAULT_SECONDS)
        batch = new_id("apb")
        who, said = check_reviewer(reviewer), check_note(note)

        async def approve(request_id: str) -> str:
            return await self._tell(Approve(request_id, who, bool(asserted), said, expires_seconds, batch))

        return await self._each(request_ids, approve)

    async def reject_many(
        self, request_ids: Iterable[str], *, reviewer: str, note: str = "", asserted: bool = True
    ) -> dict[str, ApprovalRequest | AuthorityError]:
        """Reject several requests, each on its own; as `approve_many`."""
        batch = new_id("apb")
        who, said = check_reviewer(reviewer), check_note(note)

        async def reject(request_id: str) -> ApprovalRequest:
            return await self._tell(Reject(request_id, who, bool(asserted), said, "rejected", batch))

        return await self._each(request_ids, reject)

    async def reject(self, request_id: str, *, reviewer: str, note: str = "", asserted: bool = True) -> ApprovalRequest:
        """Reject a request, for good. Who asks the same again makes a new one, which says so. Raises ApprovalError as `approve`."""
        return await self._refuse(request_id, reviewer, note, "rejected", asserted)

    async def respond(self, request_id: str, text: str, *, reviewer: str, asserted: bool = True) -> ApprovalRequest:
        """Reject a request with an answer for whoever asked, in its `note`. Raises ApprovalError as `approve`."""
        return await self._refuse(request_id, reviewer, check_note(text, "text"), "responded", asserted)

    async def cancel(
        self, request_id: str, *, reviewer: str = "the system's holder", note: str = "", asserted: bool = True
    ) -> ApprovalRequest:
        """Take a request back: nobody needs it any more. Raises ApprovalError as `approve`."""
        return await self._refuse(request_id, reviewer, note, "cancelled", asserted)

    async def edit(
        self, request_id: str, arguments: Mapping[str, Any], *, reviewer: str, note: str = "", asserted: bool = True
    ) -> ApprovalRequest:
        """Put a request with other arguments in a request's place. Returns the new one, which waits; the old one is cancelled, and its `edited_to` leads there.

        Approving the new one gives a token for a message with those arguments, which goes through everything that any message does.

        Args:
            request_id: The old request.
            arguments: The new values by name; the others stay. They are checked against the message's class where the actor lives, else against the old values.
            reviewer, note, asserted: As `approve`.

        Raises:
            ApprovalError: As `approve`; or a name or value does not fit, or nothing would change ("arguments").
        """
        if not isinstance(arguments, Mapping):
            raise DefinitionError("edit() takes the new arguments by name")
        return await self._tell(
            EditRequest(_text(request_id, "id"), dict(arguments), check_reviewer(reviewer), bool(asserted), check_note(note))
        )

    async def feedback(self, request_id: str, text: str, *, reviewer: str, asserted: bool = True) -> None:
        """Add what a person has to say about a request, whatever became of it. Raises ApprovalError ("unknown", "full")."""
        await self._work(
            AddFeedback, _text(request_id, "id"), check_note(text, "text"), check_reviewer(reviewer), bool(asserted), self._office.now_ms
        )

    # -- waiting -------------------------------------------------------------------------------------------------------------------------------------

    async def wait(self, request_id: str, *, timeout: float) -> ApprovalRequest:
        """Wait until a request is decided, in whatever process. An edited one is: look at `edited_to`.

        Args:
            request_id: The request.
            timeout: Seconds; `math.inf` for ever.

        Raises:
            ApprovalError: There is none of this id ("unknown").
            AskTimeout: It waits still.
        """
        with trio.move_on_after(_timeout(timeout)):
            after, _ = await self._changes(-1)
            request = await self.get(request_id)
            while True:
                try:
                    if request.status != "pending":
                        return request
                    after = await self._wait_for_news(request, after)
                    request = await self.get(request_id)
                except StoreUnavailable:  # it has been there: a file that cannot be used for a while ends no wait of days
                    await trio.sleep(RETRY)
        raise AskTimeout(
            f"the request {request_id[:80]} was not decided within {timeout} s; it waits still.", path="/system/approvals", begun=True
        )

    async def _wait_for_news(self, request: ApprovalRequest, after: int) -> int:
        """Waits until something happened about the request after the event, or its own time has passed. Returns the number of the last event."""
        left = request.expires_ms - self._office.now_ms
        with trio.move_on_after(max(left, 0) / 1_000 + 0.01):
            while True:
                last, news = await self._changes(after)
                if last < after or any(event.request_id == request.id for event in news):
                    return last
                after = last
        return after

    def watch(self, *, after: int | None = None) -> ApprovalWatch:
        """What happens from the first look on, in whatever process, as it happens: `async for event in system.approvals.watch()`.

        Where the file cannot be used, StoreUnavailable is raised; going on after that is fine.

        Args:
            after: The number of the event to begin after; 0 for all that there are. Default: the last one that there is.
        """
        if after is not None and (type(after) is not int or after < 0):
            raise DefinitionError(f"watch(after={after!r}): the number of an event, or 0")
        return ApprovalWatch(self, after)

    async def _changes(self, after: int) -> tuple[int, tuple[ApprovalEvent, ...]]:
        return await self._tell(Changes(after))

    # -- always allow --------------------------------------------------------------------------------------------------------------------------------

    async def always_allow(
        self,
        pattern: str,
        *,
        reviewer: str,
        subject: str | None,
        expires_seconds: float,
        tenant: str | None = None,
        audience: str | None = None,
        definition: str | None = None,
        constraints: Mapping[str, Any] | None = None,
        open: bool = False,  # noqa: A002 - the word of `allow(…, open=True)`
        asserted: bool = True,
    ) -> StandingConsent:
        """Consent beforehand to calls of a kind, for a time. It answers the question for consent only, and permits nothing that the caller's authority does not.

        Args:
            pattern: Of the operations, "payments.*".
            reviewer: Who consents; signed.
            subject: Whose calls; None: anybody's.
            expires_seconds: For how long, at most 366 days.
            tenant, audience, definition: Only calls of this tenant, to the actor of this path, by the handler of this definition; None: of any.
            constraints: What holds of each argument, by name, as in `rt.allow`: `{"cents": rt.at_most(500)}`. Arguments that are not named must be None.
            open: Whether arguments that are not named may be anything. Needed where there are no constraints, also for calls that have no arguments.
            asserted: See the class.

        Raises:
            ApprovalError: Too many are in force ("full").
            AuthorityError, DefinitionError: Something is malformed; or there are neither constraints nor `open=True`.
        """
        check_meant(constraints, open)
        return await self._tell(
            KeepAlways(
                pattern,
                check_reviewer(reviewer),
                bool(asserted),
                subject,
                tenant,
                audience,
                definition,
                dict(constraints or {}),
                open,
                check_seconds(expires_seconds, YEAR_SECONDS),
            )
        )

    async def standing(self) -> tuple[StandingConsent, ...]:
        """The standing consents in force, oldest first; what is in the file and has no good signature is none."""
        rows = await self._work(ListStanding, self._office.now_ms)
        return tuple(self._office.standing.read_all(rows, self._office.keys))

    async def withdraw(self, standing_id: str, *, reviewer: str = "the system's holder") -> None:
        """Withdraw a standing consent: from now on it covers nothing. Raises ApprovalError ("unknown", "decided")."""
        await self._tell(Withdraw(_text(standing_id, "id"), check_reviewer(reviewer)))

    # -- what was interrupted ------------------------------------------------------------------------------------------------------------------------

    async def indeterminate(self) -> tuple[Interrupted, ...]:
        """What was spent, and whose process ended before it noted how it went, oldest first. It is never done again by itself."""
        rows: tuple[Row, ...] = await self._work(Indeterminate)
        return tuple(
            Interrupted(
                row["jti"],
                row["request_id"],
                row["standing_id"],
                row["operation"],
                row["subject"],
                row["audience"],
                row["approver"],
                row["spent_ms"],
            )
            for row in rows
        )

    async def resolve(self, jti: str, outcome: str, *, reviewer: str, note: str = "", asserted: bool = True) -> None:
        """Note how something ended that was interrupted.

        Args:
            jti: Of `indeterminate()`.
            outcome: "succeeded", "failed" or "not run".
            reviewer: Who has found out.
            note: How they know.
            asserted: See the class.

        Raises:
            ApprovalError: Nothing of this id was spent ("unknown"); it is in progress, or its outcome is known ("decided").
        """
        if outcome not in OUTCOMES:
            raise DefinitionError(f"outcome={outcome!r}: one of {', '.join(OUTCOMES)}")
        await self._tell(SettleInterrupted(_text(jti, "jti"), outcome, check_reviewer(reviewer), bool(asserted), check_note(note)))

    # -- the way to the desk -------------------------------------------------------------------------------------------------------------------------

    async def _tell(self, message: Request[R]) -> R:
        self._kernel.holding()

        found: R = await self._kernel.consult(self._office.decide, message)
        return found

    async def _work(self, work: Callable[..., Work[R]], *arguments: Any) -> R:
        self._kernel.holding()

        async def ask() -> R:
            store = await self._office.store()
            return await store.ask(work(*arguments))

        found: R = await self._kernel.consult(ask)
        return found

    async def _refuse(self, request_id: str, reviewer: str, note: str, kind: str, asserted: bool) -> ApprovalRequest:
        return await self._tell(Reject(_text(request_id, "id"), check_reviewer(reviewer), bool(asserted), check_note(note), kind))

    async def _each(self, request_ids: Iterable[str], decide: Callable[[str], Awaitable[R]]) -> dict[str, R | AuthorityError]:
        wanted = [request_ids] if isinstance(request_ids, str) else list(dict.fromkeys(request_ids))
        if len(wanted) > MAX_MANY:
            raise DefinitionError(f"{len(wanted):,} requests at once, and {MAX_MANY:,} are the most")
        found: dict[str, R | AuthorityError] = {}
        for request_id in wanted:
            self._kernel.holding()
            try:
                found[request_id] = await decide(_text(request_id, "id"))
            except AuthorityError as error:
                found[request_id] = error
        return found


@final
class ApprovalWatch:
    """What `system.approvals.watch()` gives: events, without an end. Nothing has to be closed."""

    __slots__ = ("_after", "_approvals", "_events")

    def __init__(self, approvals: SystemApprovals, after: int | None) -> None:
        self._approvals = approvals
        self._after = after
        self._events: deque[ApprovalEvent] = deque()

    def __aiter__(self) -> ApprovalWatch:
        return self

    async def __anext__(self) -> ApprovalEvent:
        if self._after is None:
            self._after, _ = await self._approvals._changes(-1)
        while not self._events:
            self._after, events = await self._approvals._changes(self._after)
            self._events.extend(events)
        return self._events.popleft()


def _text(value: object, what: str) -> str:
    if not isinstance(value, str) or not value or len(value) > 255:
        raise DefinitionError(f"the {what} is a str of 1 to 255 characters, not an object of type {type(value).__name__}")
    return str.__str__(value)


def _timeout(seconds: object) -> float:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds >= 0:
        raise DefinitionError(f"timeout={seconds!r}: give seconds from 0 on, or math.inf")
    return float(seconds)
