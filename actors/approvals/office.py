"""The office: what the gate knows as the desk. It checks what comes with a message, spends it in the store, and makes requests of what is missing.

It keeps nothing that matters: everything is in the file, which other processes read and write too. Redemptions go straight to the store, many at a time, and share its
commits; only decisions go through the desk's mailbox.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, final

import attrs
import trio

from retinue.actors.approvals.desk import Desk
from retinue.actors.approvals.keys import DeskKeys
from retinue.actors.approvals.memory import MemoryStore
from retinue.actors.approvals.messages import Approve, EditRequest, KeepAlways, Poke, Reject
from retinue.actors.approvals.owners import OwnerLock, new_owner
from retinue.actors.approvals.places import secure
from retinue.actors.approvals.review import HookThreads, Review, Reviewer, ask_reviewer, name_of
from retinue.actors.approvals.standing_rows import StandingReader
from retinue.actors.approvals.tables import FILE, SCHEMA, question_digest, request_of, row_of
from retinue.actors.approvals.witness import Renew
from retinue.actors.approvals.works_asking import Ask, Get
from retinue.actors.approvals.works_spending import ListStanding, NoteOutcome, Spend, Unresolved, Unspent
from retinue.actors.runtime.approving import APPROVAL_LIFETIME, beside, clock_jumps
from retinue.actors.runtime.errors import Unanswered
from retinue.actors.store.errors import StoreUnavailable
from retinue.actors.store.store import Store
from retinue.actors.store.work import Work
from retinue.capabilities.consent import Consent, Question
from retinue.security.approval_tokens import ApprovalToken, read_token
from retinue.security.approvals import ApprovalRequest, new_id
from retinue.security.errors import ApprovalError, ApprovalRequired, Denied

if TYPE_CHECKING:
    from retinue.actors.runtime.kernel import Kernel
    from retinue.actors.runtime.ref import Ref
    from retinue.security.approval_keys import SigningKey

__all__ = ["Office"]

_log = logging.getLogger("retinue.approvals")

R = TypeVar("R")

MAX_REVIEWERS: Final = 32
"""Plain reviewer hooks that may run at the same time, each in a thread; further ones wait, within their time."""

MAX_ASKING: Final = 512
"""Works that the gate may have at the store at once; further ones wait here. The store takes twice as many, so that the desk's own always find room."""

READ_AT_ONCE: Final = 32
"""Standing consents that are read in one go."""

MAX_REMEMBERED: Final = 10_000
"""Uses after which those that have ended are forgotten."""

MAX_EDITS: Final = 3
"""How often in a row a reviewer hook may edit one call."""

_STOPS: Final = frozenset({"clock", "key", "store"})
"""Reasons for which nothing is decided at all, whatever else came with the message."""


@final
class Office:
    """Where the consents of one system are kept. Nothing is opened until it is first used.

    Args:
        kernel: The system.
        folder: Its folder of data; None: everything is in memory, and gone with the system.
        reviewer: The reviewer hook, or None.
        reviewer_timeout: Seconds that the hook may take.
        lifetime: Seconds that a request waits for a person.

    Attributes:
        owner: Who spends here: this one run of the system.
        id: Who decides here: the same after a restart that goes on with the same audit file, whose decisions are on record in it already.
        withdrawn: Standing consents that were seen withdrawn: whatever the file says later, they are.
        lock: Held for as long as the system works on the folder.
        running: What was spent here, and is not told to have ended.
        owed: Outcomes that are not noted yet, by what was spent.
    """

    def __init__(
        self, kernel: Kernel, folder: Path | None, reviewer: Reviewer | None, reviewer_timeout: float, lifetime: float = APPROVAL_LIFETIME
    ) -> None:
        self.kernel = kernel
        self.folder = folder
        self.owner = new_owner()
        self.id = _id_of_desk(kernel, self.owner)
        self.lock: OwnerLock | None = None
        self.running: set[str] = set()
        self.owed: dict[str, str] = {}
        self.keys = DeskKeys(folder)
        self._reviewer = reviewer
        self._reviewer_timeout = reviewer_timeout
        self._lifetime_ms = round(lifetime * 1_000)
        self._opening = trio.Lock()
        self._doubt: str | None = ""
        self._used: dict[str, int] = {}
        self.withdrawn: set[str] = set()
        self._store: Ref[Any] | None = None
        self._desk: Ref[Desk] | None = None
        self.standing = StandingReader()
        self._reviewers = HookThreads(MAX_REVIEWERS)
        self._room = trio.CapacityLimiter(MAX_ASKING)
        self._reviewing: dict[str, trio.Event] = {}

    # -- the actors --------------------------------------------------------------------------------------------------------------------------------

    @property
    def now_ms(self) -> int:
        """The time, as the authority tells it."""
        return self.kernel.authority.now_ms()

    async def store(self) -> Ref[Any]:
        """The store of the file. Raises StoreUnavailable."""
        if self._store is None:
            await self._open()
        assert self._store is not None
        return self._store

    async def _ask_store(self, work: Work[R]) -> R:
        """For the gate: asks the store, where that has room."""
        try:
            self._room.acquire_nowait()
        except trio.WouldBlock:
            await self._room.acquire()
        try:
            store = await self.store()
            if self._doubt is not None:
                await self.look_again()
            found: R = await store.ask(work)
            return found
        except StoreUnavailable as error:
            if error.reason == "gone":
                self.doubt()
            raise
        finally:
            self._room.release()

    def doubt(self, why: str = "") -> None:
        """The file may not be the one that was used last: it is looked at before the next work. `why`: it is certain, since what happened here is not in it."""
        self._doubt = why or self._doubt or ""

    async def look_again(self) -> None:
        """Looks whether the file is the one that was used last. Where it is not, everything approved before is void from then on."""
        why, self._doubt = self._doubt, None
        if why is None:
            return
        try:
            found = await (await self.store()).ask(Renew(self.now_ms, self.id, why))
        except BaseException as error:
            self.doubt(why)
            if isinstance(error, StoreUnavailable):
                return  # whoever spends looks for himself
            raise
        if found is not None:
            _log.error("the approvals' file is not the one that was used last, so what was approved before is void: %s", found)
            log = self.kernel.book.log
            if log is not None:
                log.record("approval", allowed=False, reason="older file", detail=f"what was approved before is void: {found}")

    async def desk(self) -> Ref[Desk]:
        """The actor that decides. Raises StoreUnavailable."""
        if self._desk is None:
            await self._open()
        assert self._desk is not None
        return self._desk

    async def _open(self) -> None:
        async with self._opening:
            if self._desk is not None:
                return
            # Whoever is cancelled meanwhile must not leave an actor behind whose ref nobody has: its name would be taken for good. The starts have time-outs of their own.
            with trio.CancelScope(shield=True):
                if self._store is None:
                    self._store = await self._open_store()
                self._desk = await self.kernel.system_actor(Desk, self, self._store, name="approvals")

    async def _open_store(self) -> Ref[Any]:
        if self.folder is None:
            return await self.kernel.system_actor(MemoryStore, name="approvals-store")
        await beside(_warm_up)
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise StoreUnavailable(f"data_dir={str(self.folder)[:200]!r} cannot be made or is no folder: {error.strerror}.") from error
        await beside(secure, self.folder)
        self.lock = await beside(OwnerLock, self.folder, self.owner)
        if clock_jumps():
            return await self.kernel.system_actor(MemoryStore, self.folder / FILE, name="approvals-store")
        return await self.kernel.system_actor(Store, self.folder / FILE, SCHEMA, name="approvals-store")

    def close(self, *, forget: bool = False) -> None:
        """Tells others that nothing goes on here any more. `forget`: and that nothing is open."""
        if self.lock is not None:
            self.lock.close(forget=forget)

    async def signing_key(self) -> SigningKey:
        """The private key. Raises KeyFileError."""
        if self.folder is None:
            return self.keys.signing()
        # In a thread: the key's folder may be locked by another process, while it mends a file.
        return await beside(self.keys.signing)

    async def decide(self, message: Any) -> Any:
        """Tells the desk. The key for what is signed is fetched before, so that nobody waits for it who needs none."""
        desk = await self.desk()
        if isinstance(message, Approve | KeepAlways):
            fields: Any = message
            message = attrs.evolve(fields, key=await self.signing_key())
        return await desk.ask(message)

    # -- what the gate asks: see `retinue.capabilities.consent` ---------------------------------------------------------------------------------------

    async def consider(self, question: Question, approvals: Sequence[str]) -> Consent:
        """Finds a consent among the tokens, or a standing one; else makes a request, and asks the reviewer hook where there is one."""
        refused: list[ApprovalError] = []
        for text in approvals:
            try:
                token = self._read(text, question)
                await self._ask_store(Unspent(token.jti, token.request_id, self.now_ms))
            except ApprovalError as error:
                if error.reason in _STOPS:
                    raise
                refused.append(error)
            else:
                return Consent(token.jti, token.approver, "token", token.request_id, None, token.expires_ms, _kid_of(text))
        standing = await self._find_standing(question)
        before = None if standing is None else await self._unresolved(question)
        if standing is not None and before is None:
            return standing
        spent = next((one for one in refused if one.reason == "spent"), None)
        if spent is not None:
            raise Denied(str(spent), operation=question.binding.operation, subject=question.binding.subject, reason="spent") from spent
        return await self._ask(
            question, refused, "" if standing is None else f"the standing consent {standing.standing_id} does not cover that again"
        )

    async def spend(self, question: Question, consent: Consent) -> None:
        """Uses a consent up: the commit point."""
        binding = question.binding
        self._check_known(consent)
        if consent.jti in self._used:
            self.doubt("what was spent here is not in it")
            text = f"the approval {consent.jti} was spent before, and each is good for one call. Ask again."
            raise Denied(text, operation=binding.operation, subject=binding.subject, reason="spent")
        work = Spend(
            jti=consent.jti,
            kind=consent.kind,
            request_id=consent.request_id,
            standing_id=consent.standing_id,
            operation=binding.operation,
            subject=binding.subject,
            audience=binding.audience,
            arguments_digest=binding.arguments_digest,
            question=question_digest(binding, four_eyes=question.four_eyes),
            approver=consent.approver,
            expires_ms=consent.expires_ms,
            owner=self.owner,
            now_ms=self.now_ms,
        )
        self.running.add(consent.jti)
        try:
            await self._ask_store(work)
        except ApprovalError as error:
            self.running.discard(consent.jti)
            if error.reason == "store":
                self.doubt()
            if error.reason in ("spent", "decided", "unknown"):
                reason = "spent" if error.reason == "spent" else "withdrawn"
                raise Denied(str(error), operation=binding.operation, subject=binding.subject, reason=reason) from error
            raise
        self._remember(consent)

    async def note_outcome(self, consent: Consent, outcome: str) -> None:
        """Notes how a spent consent's effect ended. Where the file cannot be used, the desk tries again until the system's end."""
        self.owed[consent.jti] = outcome
        self.running.discard(consent.jti)
        try:
            await self.note(consent.jti)
        except (StoreUnavailable, Unanswered) as error:
            _log.warning("the outcome of %s could not be noted yet, and is tried again: %s", consent.jti, error)
        await self._poke()

    def _remember(self, consent: Consent) -> None:
        """What was spent here stays spent here until it ends, whatever file is put in the place of this one."""
        if len(self._used) >= MAX_REMEMBERED:
            now = self.now_ms
            self._used = {jti: ends for jti, ends in self._used.items() if ends > now}
        if consent.kind == "token":
            self._used[consent.jti] = consent.expires_ms

    async def note(self, jti: str) -> None:
        """Notes an outcome that is owed. Raises StoreUnavailable, or Unanswered: then it is owed still."""
        outcome = self.owed.get(jti)
        if outcome is not None:
            try:
                store = await self.store()
                await store.ask(NoteOutcome(jti, outcome, self.now_ms))
            except (StoreUnavailable, Unanswered):
                raise
            except Exception:  # a fault that trying again does not mend: it is found as interrupted
                self.owed.pop(jti, None)
                raise
            self.owed.pop(jti, None)

    def _check_known(self, consent: Consent) -> None:
        """What was found valid may not be any more: its key was taken out of trust since. Raises ApprovalError."""
        if consent.kid and self.keys.verifying().find(consent.kid) is None:
            raise ApprovalError(
                f"the key {consent.kid} that the approval {consent.jti} is signed with is not trusted any more. Ask again.",
                reason="unknown_key",
            )

    def _read(self, text: str, question: Question) -> ApprovalToken:
        """The token, where it is genuine and fits the question. Nothing is read from the file of what was spent yet."""
        token = read_token(text, self.keys.verifying())
        token.check(question.binding, self.now_ms, four_eyes=question.four_eyes)
        return token

    async def _find_standing(self, question: Question) -> Consent | None:
        now = self.now_ms
        binding = question.binding
        rows = await self._ask_store(ListStanding(now, True, (binding.subject, binding.tenant, binding.audience)))
        for start in range(0, len(rows), READ_AT_ONCE):
            for consent in self.standing.read_all(rows[start : start + READ_AT_ONCE], self.keys):
                if consent.id in self.withdrawn:
                    self.doubt("what was withdrawn is in force in it")
                elif consent.covers(binding, question.arguments, self.kernel.authority.sources, now, four_eyes=question.four_eyes):
                    kid = self.standing.kid_of(consent)
                    return Consent(new_id("apt"), consent.approver, "standing", None, consent.id, consent.expires_ms, kid)
            await trio.lowlevel.checkpoint()  # checking signatures takes its time, the first time
        return None

    async def _unresolved(self, question: Question) -> str | None:
        """What was begun of the same deed, and interrupted: consent beforehand is none to doing it twice."""
        binding = question.binding
        store = await self.store()
        found: str | None = await store.ask(Unresolved(binding.operation, binding.subject, binding.audience, binding.arguments_digest))
        return found

    # -- requests ------------------------------------------------------------------------------------------------------------------------------------

    async def _ask(self, question: Question, refused: list[ApprovalError], why: str = "") -> Consent:
        """Raises ApprovalRequired with the request, unless the reviewer hook consents at once. `why`: one more reason."""
        request = await self._request(question, why)
        if self._reviewer is not None:
            if request.status == "pending":
                request = await self._reviewed(request)
            elif request.reviewer == name_of(self._reviewer):  # what the hook approved, and whose asker gave up then
                request = await self._look_up(request.id)
            if request.status == "approved" and request.token is not None and request.binding == question.binding:
                token = self._read(request.token, question)
                return Consent(token.jti, token.approver, "token", token.request_id, None, token.expires_ms, _kid_of(request.token))
        raise _required(question, request) from (refused[-1] if refused else None)

    async def _request(self, question: Question, why: str) -> ApprovalRequest:
        """The durable request: the one that asks the same and waits, or a new one."""
        now = self.now_ms
        new = ApprovalRequest.new(
            question.binding,
            question.arguments,
            message_type=question.message_type,
            reasons=(*question.reasons, *([why] if why else ())),
            context_id=question.context_id or "-",
            now_ms=now,
            risk=question.risk,
            four_eyes=question.four_eyes,
            lifetime_ms=self._lifetime_ms,
        )
        row, made = await self._ask_store(Ask(row_of(new), now, self.owner, None if self._reviewer is None else name_of(self._reviewer)))
        if made:
            await self._poke()
        return request_of(row)

    async def _poke(self) -> None:
        (await self.desk()).tell(Poke())

    # -- the reviewer hook -----------------------------------------------------------------------------------------------------------------------------

    async def _reviewed(self, request: ApprovalRequest) -> ApprovalRequest:
        """The request after the hook was asked. One request is reviewed once at a time, whoever asks it."""
        for _ in range(MAX_EDITS):
            while (other := self._reviewing.get(request.id)) is not None:
                await other.wait()
            now = await self._look_up(request.id)
            if now.status != "pending":
                return now
            done = self._reviewing[request.id] = trio.Event()
            try:
                found = await self.kernel.consult(self._review, request, holder=True)
                now = await (self._look_up(request.id) if found is None else self._carry_out(request, found))
            finally:
                del self._reviewing[request.id]
                done.set()
            if now.id == request.id:
                return now
            request = now  # an edit: the hook is asked about the new one
        return request

    async def _review(self, request: ApprovalRequest) -> Review | None:
        assert self._reviewer is not None
        return await ask_reviewer(self._reviewer, request, self._reviewer_timeout, self._reviewers)

    async def _carry_out(self, request: ApprovalRequest, review: Review) -> ApprovalRequest:
        """Decides as the hook says. Where another was quicker, their decision holds."""
        assert self._reviewer is not None
        who = name_of(self._reviewer)
        try:
            if review.kind == "approve":
                await self.decide(Approve(request.id, who, True, review.note, 3_600))
            elif review.kind == "edit":
                edited: ApprovalRequest = await self.decide(EditRequest(request.id, review.arguments, who, True, review.note))
                return edited
            else:
                kind = "rejected" if review.kind == "reject" else "responded"
                await self.decide(Reject(request.id, who, True, review.note, kind))
        except ApprovalError as error:
            _log.warning("the reviewer hook's decision about %s was not taken: %s", request.id, error)
        return await self._look_up(request.id)

    async def _look_up(self, request_id: str) -> ApprovalRequest:
        return request_of(await self._ask_store(Get(request_id, self.now_ms)), token=True)


def _id_of_desk(kernel: Kernel, owner: str) -> str:
    file = kernel.book.file
    return owner if file is None else f"desk {hashlib.sha256(str(file).encode('utf-8', 'surrogateescape')).hexdigest()[:16]}"


def _kid_of(text: str) -> str:
    """The name of the key that a text is signed with, which was found genuine."""
    return text.split(".", 2)[1]


def _warm_up() -> None:
    """Imports what signatures need, which takes long enough to hold the loop up."""
    from retinue.security import approval_keys

    approval_keys.SigningKey.ephemeral().sign(b"")


def _required(question: Question, request: ApprovalRequest) -> ApprovalRequired | Denied:
    operation = question.binding.operation
    if request.status == "rejected":
        said = f": {request.note}" if request.note else "."
        text = f"{request.reviewer} has rejected it{said}"
        return Denied(text, operation=operation, subject=question.binding.subject, reason="rejected")
    return ApprovalRequired(
        f"{operation or question.message_type} at {question.binding.audience} needs a person's consent: {'; '.join(question.reasons)}.",
        operation=operation,
        path=question.binding.audience,
        requests=(request.without_token(),),
    )
