"""The approvals of a system, for both twins. What each method does, takes and raises is said where it is done: `retinue.actors.approvals.book.SystemApprovals`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from retinue._twin import Twin
    from retinue.actors.approvals.messages import ApprovalEvent, ApprovalStatistics, Interrupted
    from retinue.security.approvals import ApprovalRequest
    from retinue.security.errors import AuthorityError
    from retinue.security.standing import StandingConsent

__all__ = ["AioApprovals", "SyncApprovals"]


def _core_of(twin: Twin) -> Any:
    twin.check_place("system.approvals", "nothing can be approved: an approval never comes from an agent")
    return twin.core.approvals


class SyncApprovals:
    """What waits for a person's consent, and what was decided, for a plain script: everything here blocks."""

    def __init__(self, twin: Twin, run: Callable[[Callable[[], Awaitable[Any]]], Any]) -> None:
        self._core = _core_of(twin)
        self._run = run

    def pending(self) -> tuple[ApprovalRequest, ...]:
        """The requests that wait for a person, oldest first."""
        found: tuple[ApprovalRequest, ...] = self._run(self._core.pending)
        return found

    def get(self, request_id: str) -> ApprovalRequest:
        """A request as it is now; with its token, where it is approved."""
        found: ApprovalRequest = self._run(partial(self._core.get, request_id))
        return found

    def find(
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
        """Requests, oldest first, without their tokens."""
        found: tuple[ApprovalRequest, ...] = self._run(
            partial(
                self._core.find, status=status, subject=subject, operation=operation, batch=batch, limit=limit, tenant=tenant, after=after
            )
        )
        return found

    def token(self, request_id: str) -> str:
        """The token of an approved request that was not spent yet."""
        found: str = self._run(partial(self._core.token, request_id))
        return found

    def statistics(self) -> ApprovalStatistics:
        """How many there are of what."""
        found: ApprovalStatistics = self._run(self._core.statistics)
        return found

    def approve(self, request_id: str, *, reviewer: str, note: str = "", expires_seconds: float = 3_600.0, asserted: bool = True) -> str:
        """Approve a request: returns the token, to be sent along as `approvals=[token]`."""
        found: str = self._run(
            partial(self._core.approve, request_id, reviewer=reviewer, note=note, expires_seconds=expires_seconds, asserted=asserted)
        )
        return found

    def approve_many(
        self, request_ids: Iterable[str], *, reviewer: str, note: str = "", expires_seconds: float = 3_600.0, asserted: bool = True
    ) -> dict[str, str | AuthorityError]:
        """Approve several requests, each on its own: its token, or the error."""
        found: dict[str, str | AuthorityError] = self._run(
            partial(self._core.approve_many, request_ids, reviewer=reviewer, note=note, expires_seconds=expires_seconds, asserted=asserted)
        )
        return found

    def reject(self, request_id: str, *, reviewer: str, note: str = "", asserted: bool = True) -> ApprovalRequest:
        """Reject a request, for good."""
        found: ApprovalRequest = self._run(partial(self._core.reject, request_id, reviewer=reviewer, note=note, asserted=asserted))
        return found

    def reject_many(
        self, request_ids: Iterable[str], *, reviewer: str, note: str = "", asserted: bool = True
    ) -> dict[str, ApprovalRequest | AuthorityError]:
        """Reject several requests, each on its own."""
        found: dict[str, ApprovalRequest | AuthorityError] = self._run(
            partial(self._core.reject_many, request_ids, reviewer=reviewer, note=note, asserted=asserted)
        )
        return found

    def respond(self, request_id: str, text: str, *, reviewer: str, asserted: bool = True) -> ApprovalRequest:
        """Reject a request with an answer for whoever asked."""
        found: ApprovalRequest = self._run(partial(self._core.respond, request_id, text, reviewer=reviewer, asserted=asserted))
        return found

    def cancel(self, request_id: str, *, reviewer: str = "the system's holder", note: str = "", asserted: bool = True) -> ApprovalRequest:
        """Take a request back: nobody needs it any more."""
        found: ApprovalRequest = self._run(partial(self._core.cancel, request_id, reviewer=reviewer, note=note, asserted=asserted))
        return found

    def edit(
        self, request_id: str, arguments: Mapping[str, Any], *, reviewer: str, note: str = "", asserted: bool = True
    ) -> ApprovalRequest:
        """Put a request with other arguments in a request's place; returns the new one, which waits."""
        found: ApprovalRequest = self._run(partial(self._core.edit, request_id, arguments, reviewer=reviewer, note=note, asserted=asserted))
        return found

    def feedback(self, request_id: str, text: str, *, reviewer: str, asserted: bool = True) -> None:
        """Add what a person has to say about a request."""
        self._run(partial(self._core.feedback, request_id, text, reviewer=reviewer, asserted=asserted))

    def wait(self, request_id: str, *, timeout: float) -> ApprovalRequest:
        """Wait until a request is decided, in whatever process. Raises AskTimeout after `timeout` seconds."""
        found: ApprovalRequest = self._run(partial(self._core.wait, request_id, timeout=timeout))
        return found

    def always_allow(
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
        """Consent beforehand to calls of a kind, for a time."""
        found: StandingConsent = self._run(
            partial(
                self._core.always_allow,
                pattern,
                reviewer=reviewer,
                subject=subject,
                expires_seconds=expires_seconds,
                tenant=tenant,
                audience=audience,
                definition=definition,
                constraints=constraints,
                open=open,
                asserted=asserted,
            )
        )
        return found

    def standing(self) -> tuple[StandingConsent, ...]:
        """The standing consents in force, oldest first."""
        found: tuple[StandingConsent, ...] = self._run(self._core.standing)
        return found

    def withdraw(self, standing_id: str, *, reviewer: str = "the system's holder") -> None:
        """Withdraw a standing consent: from now on it covers nothing."""
        self._run(partial(self._core.withdraw, standing_id, reviewer=reviewer))

    def indeterminate(self) -> tuple[Interrupted, ...]:
        """What was spent, and whose process ended before it noted how it went."""
        found: tuple[Interrupted, ...] = self._run(self._core.indeterminate)
        return found

    def resolve(self, jti: str, outcome: str, *, reviewer: str, note: str = "", asserted: bool = True) -> None:
        """Note how something ended that was interrupted."""
        self._run(partial(self._core.resolve, jti, outcome, reviewer=reviewer, note=note, asserted=asserted))

    def watch(self, *, after: int | None = None) -> Iterator[ApprovalEvent]:
        """What happens from the first look on, in whatever process, as it happens; without an end."""
        events = self._core.watch(after=after)
        while True:
            event: ApprovalEvent = self._run(events.__anext__)
            yield event


class AioApprovals:
    """What waits for a person's consent, and what was decided, under asyncio."""

    def __init__(self, twin: Twin, run: Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]]) -> None:
        self._core = _core_of(twin)
        self._run = run

    async def pending(self) -> tuple[ApprovalRequest, ...]:
        """The requests that wait for a person, oldest first."""
        found: tuple[ApprovalRequest, ...] = await self._run(self._core.pending)
        return found

    async def get(self, request_id: str) -> ApprovalRequest:
        """A request as it is now; with its token, where it is approved."""
        found: ApprovalRequest = await self._run(partial(self._core.get, request_id))
        return found

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
        """Requests, oldest first, without their tokens."""
        found: tuple[ApprovalRequest, ...] = await self._run(
            partial(
                self._core.find, status=status, subject=subject, operation=operation, batch=batch, limit=limit, tenant=tenant, after=after
            )
        )
        return found

    async def token(self, request_id: str) -> str:
        """The token of an approved request that was not spent yet."""
        found: str = await self._run(partial(self._core.token, request_id))
        return found

    async def statistics(self) -> ApprovalStatistics:
        """How many there are of what."""
        found: ApprovalStatistics = await self._run(self._core.statistics)
        return found

    async def approve(
        self, request_id: str, *, reviewer: str, note: str = "", expires_seconds: float = 3_600.0, asserted: bool = True
    ) -> str:
        """Approve a request: returns the token, to be sent along as `approvals=[token]`."""
        found: str = await self._run(
            partial(self._core.approve, request_id, reviewer=reviewer, note=note, expires_seconds=expires_seconds, asserted=asserted)
        )
        return found

    async def approve_many(
        self, request_ids: Iterable[str], *, reviewer: str, note: str = "", expires_seconds: float = 3_600.0, asserted: bool = True
    ) -> dict[str, str | AuthorityError]:
        """Approve several requests, each on its own: its token, or the error."""
        found: dict[str, str | AuthorityError] = await self._run(
            partial(self._core.approve_many, request_ids, reviewer=reviewer, note=note, expires_seconds=expires_seconds, asserted=asserted)
        )
        return found

    async def reject(self, request_id: str, *, reviewer: str, note: str = "", asserted: bool = True) -> ApprovalRequest:
        """Reject a request, for good."""
        found: ApprovalRequest = await self._run(partial(self._core.reject, request_id, reviewer=reviewer, note=note, asserted=asserted))
        return found

    async def reject_many(
        self, request_ids: Iterable[str], *, reviewer: str, note: str = "", asserted: bool = True
    ) -> dict[str, ApprovalRequest | AuthorityError]:
        """Reject several requests, each on its own."""
        found: dict[str, ApprovalRequest | AuthorityError] = await self._run(
            partial(self._core.reject_many, request_ids, reviewer=reviewer, note=note, asserted=asserted)
        )
        return found

    async def respond(self, request_id: str, text: str, *, reviewer: str, asserted: bool = True) -> ApprovalRequest:
        """Reject a request with an answer for whoever asked."""
        found: ApprovalRequest = await self._run(partial(self._core.respond, request_id, text, reviewer=reviewer, asserted=asserted))
        return found

    async def cancel(
        self, request_id: str, *, reviewer: str = "the system's holder", note: str = "", asserted: bool = True
    ) -> ApprovalRequest:
        """Take a request back: nobody needs it any more."""
        found: ApprovalRequest = await self._run(partial(self._core.cancel, request_id, reviewer=reviewer, note=note, asserted=asserted))
        return found

    async def edit(
        self, request_id: str, arguments: Mapping[str, Any], *, reviewer: str, note: str = "", asserted: bool = True
    ) -> ApprovalRequest:
        """Put a request with other arguments in a request's place; returns the new one, which waits."""
        found: ApprovalRequest = await self._run(
            partial(self._core.edit, request_id, arguments, reviewer=reviewer, note=note, asserted=asserted)
        )
        return found

    async def feedback(self, request_id: str, text: str, *, reviewer: str, asserted: bool = True) -> None:
        """Add what a person has to say about a request."""
        await self._run(partial(self._core.feedback, request_id, text, reviewer=reviewer, asserted=asserted))

    async def wait(self, request_id: str, *, timeout: float) -> ApprovalRequest:
        """Wait until a request is decided, in whatever process. Raises AskTimeout after `timeout` seconds."""
        found: ApprovalRequest = await self._run(partial(self._core.wait, request_id, timeout=timeout))
        return found

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
        """Consent beforehand to calls of a kind, for a time."""
        found: StandingConsent = await self._run(
            partial(
                self._core.always_allow,
                pattern,
                reviewer=reviewer,
                subject=subject,
                expires_seconds=expires_seconds,
                tenant=tenant,
                audience=audience,
                definition=definition,
                constraints=constraints,
                open=open,
                asserted=asserted,
            )
        )
        return found

    async def standing(self) -> tuple[StandingConsent, ...]:
        """The standing consents in force, oldest first."""
        found: tuple[StandingConsent, ...] = await self._run(self._core.standing)
        return found

    async def withdraw(self, standing_id: str, *, reviewer: str = "the system's holder") -> None:
        """Withdraw a standing consent: from now on it covers nothing."""
        await self._run(partial(self._core.withdraw, standing_id, reviewer=reviewer))

    async def indeterminate(self) -> tuple[Interrupted, ...]:
        """What was spent, and whose process ended before it noted how it went."""
        found: tuple[Interrupted, ...] = await self._run(self._core.indeterminate)
        return found

    async def resolve(self, jti: str, outcome: str, *, reviewer: str, note: str = "", asserted: bool = True) -> None:
        """Note how something ended that was interrupted."""
        await self._run(partial(self._core.resolve, jti, outcome, reviewer=reviewer, note=note, asserted=asserted))

    async def watch(self, *, after: int | None = None) -> AsyncIterator[ApprovalEvent]:
        """What happens from the first look on, in whatever process, as it happens; without an end."""
        events = self._core.watch(after=after)
        while True:
            event: ApprovalEvent = await self._run(events.__anext__)
            yield event
