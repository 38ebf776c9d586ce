"""The gate: the one door between a message and a handler that requires an operation.

Only a literal ALLOW opens it. An exception, a truthy something, an object that is no genuine context, a malformed name, a clock that fails, a record that
cannot be written: all refuse. The order is fixed, and nothing changes the arguments once the layers have seen them:

    forged or revoked → the gate's own copy → the registry → policies (rewrites) → layers → risk → deadline → calls → consent → audit

Where a person must consent, the gate has nobody to ask by itself: with a desk (`retinue.capabilities.consent`) it stops there, and `settle` goes on.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn, final

import attrs

from retinue.capabilities.budgets import Ledger, Reservation
from retinue.capabilities.cases import (
    Addressed,
    Admission,
    ApprovalRule,
    Case,
    Definition,
    NeedsConsent,
    Undecidable,
    asking,
    explained,
    reason_of,
)
from retinue.capabilities.engine import DEFAULT_TIMEOUT, PolicyEngine, ask_files_again
from retinue.capabilities.guarding import Guard
from retinue.capabilities.policy import CheckedPolicy
from retinue.capabilities.policy_file import PolicyFile
from retinue.capabilities.registry import CapabilityRegistry
from retinue.capabilities.settling import settle
from retinue.security.authority import Authority
from retinue.security.canonical import canonical
from retinue.security.context import SecurityContext
from retinue.security.decisions import ALLOW, ALLOWED, ASK, DEPENDS
from retinue.security.errors import AuditUnavailable, DefinitionError, Expired
from retinue.security.explaining import added_by
from retinue.security.limits import NEVER, NO_LIMITS, RISKS, UNLIMITED, Limits, moment
from retinue.security.permissions import PermissionSet

if TYPE_CHECKING:
    from retinue.capabilities.consent import ConsentDesk
    from retinue.security.audit import AuditLog

__all__ = ["Admission", "Gate", "GateStatistics"]

_LEVELS: Final[dict[str | None, int]] = {None: 1, **{risk: level for level, risk in enumerate(RISKS)}}
"""The level that counts for the audit: what nobody rated is L1."""

_UNRATED: Final = len(RISKS) - 1
"""The level that counts for `max_risk`: what nobody rated is L3."""

_AUDITED: Final = 2
"""From L2 on, each allow is a full record."""


@attrs.frozen
class GateStatistics:
    """What a gate decided so far.

    Attributes:
        allowed: Messages that were let through.
        refused: Messages that were refused, those that need a person's consent included.
    """

    allowed: int
    refused: int


@final
class Gate:
    """Admits or refuses messages by the effective context that they carry. To be used in one thread; `changed` may be called from any.

    Args:
        authority: The authority of the system; contexts that it did not make are refused.
        audit: Where refusals, questions and allows of risk L2 or more are recorded before they are answered; None: nowhere.
        ledger: What calls are charged to. Default: one of its own.
        policies: Policies, in order; see `retinue.capabilities.policy`.
        policy_timeout: Seconds that one asynchronous policy may take. Default: 5.
        capabilities: The registry; where there is one, operations that it does not know are refused. Default: none.

    Attributes:
        allowed: Messages that were let through, those that `note_static` told of included.
        refused: Messages that were refused.
        ledger: The ledger.
        desk: Where consent is asked for, or None: then what needs it is refused. Set once, before the first message.
        on_change: Called when verdicts that somebody keeps may be wrong, after `epoch` has changed; None: nobody.

    Raises:
        DefinitionError: A policy is malformed, or something given is of the wrong kind.
    """

    __slots__ = (
        "__weakref__",
        "_audit",
        "_authority",
        "_capabilities",
        "_changes",
        "_engine",
        "_lock",
        "_owed",
        "_plain",
        "allowed",
        "desk",
        "ledger",
        "on_change",
        "refused",
    )

    def __init__(
        self,
        authority: Authority,
        *,
        audit: AuditLog | None = None,
        ledger: Ledger | None = None,
        policies: Iterable[object] = (),
        policy_timeout: float = DEFAULT_TIMEOUT,
        capabilities: CapabilityRegistry | None = None,
    ) -> None:
        if capabilities is not None and type(capabilities) is not CapabilityRegistry:
            raise DefinitionError(f"capabilities= takes an rt.CapabilityRegistry, not an object of type {type(capabilities).__name__}")
        self._authority = authority
        self._audit = audit
        self._capabilities = capabilities
        given = tuple(policies) if isinstance(policies, Iterable) and not isinstance(policies, str | bytes) else policies
        self._engine = PolicyEngine(given, policy_timeout)
        self._plain = capabilities is None and not self._engine.policies
        self._changes = 0
        self._lock = threading.Lock()
        self._owed: list[dict[str, Any]] = []
        self.ledger: Final = Ledger(authority.now_ms) if ledger is None else ledger
        self.desk: ConsentDesk | None = None
        self.on_change: Callable[[], None] | None = None
        self.allowed = 0
        self.refused = 0
        for policy in given:
            if type(policy) is PolicyFile:
                policy.guard = Guard(authority, policy.guard)
        if capabilities is not None:
            capabilities.guard = Guard(authority, capabilities.guard)
            capabilities.listen(self.changed)
            authority.risk_of = capabilities.risk_of

    @property
    def epoch(self) -> int:
        """Grows whenever a kept verdict may have become wrong."""
        registry = self._capabilities
        return self._changes + self._authority.revocations + (0 if registry is None else registry.version)

    def changed(self) -> None:
        """Tell that kept verdicts may be wrong: something was revoked, declared or reloaded. Safe to call from any thread."""
        with self._lock:
            self._changes += 1
        if self.on_change is not None:
            self.on_change()

    def awaits(self, operation: str | None) -> bool:
        """Whether an asynchronous policy is asked about the operation, so that `admit_async` is to be used. Never raises."""
        if operation is None or not self._engine.policies:
            return False
        try:
            return self._engine.awaits(operation)
        except Exception:
            return False  # malformed: `admit` refuses it

    def is_static(self, permissions: PermissionSet, operation: str | None, risk: str | None = None, approval: ApprovalRule = False) -> bool:
        """Whether messages for the operation are admitted by the set and the operation alone, so that such an answer may be kept. Never raises."""
        try:
            return self._is_static(permissions, operation, risk, approval)
        except Exception:
            return False

    def admit(
        self,
        security: SecurityContext,
        grant: SecurityContext | None,
        requires: str | None,
        message: Any,
        *,
        path: str | Addressed,
        message_type: type[object] | str,
        risk: str | None = None,
        approval: ApprovalRule = False,
        approvals: Sequence[str] = (),
        four_eyes: bool = False,
        definition: Definition = "",
        counted: bool = True,
    ) -> Admission:
        """Let a message pass, or raise.

        Args:
            security: The effective context: the message's, met with the receiver's grant.
            grant: The receiver's grant, or None where it has none.
            requires: The operation that the handler requires. None: an open handler, which only a context that was forged or revoked, or has expired, is
                kept from.
            message: The message; its fields are the operation's arguments.
            path: The path of the actor that is addressed, for texts and records; or what has that path, so that it is made only where it is needed.
            message_type: The message's class or its name, for the same.
            risk: The handler's own rating, "L0" to "L3", or None.
            approval: Whether the handler needs a person's consent for each message; or a predicate on the message, of which only a literal False means no.
            approvals: Approval tokens that came with the message, for the desk.
            four_eyes: Whether who consents must be another person than the subject.
            definition: A digest of what the handler is, or what finds it for a class of messages: consent is bound to it. "": no consent can be had.
            counted: Whether it costs a call, where calls are limited. False for a handler that only hands on to one that is counted.

        Raises:
            Denied: It is refused, or could not be decided; `reason` says what refused, and what went wrong is chained.
            ForgedContext: The context was not made by this system's authority, or was altered since (a `Denied`, as those below).
            Revoked: It, or one that it descends from, was revoked.
            Expired: Its deadline has passed.
            BudgetExceeded: No call is left.
            AuditUnavailable: The record that must come first cannot be written.
            ApprovalRequired: A person must consent first, and there is no desk.
            NeedsConsent: The same, and there is one: await `settle` with its case.
        """
        genuine = False
        try:
            self._authority.check(security)
            if grant is not None and grant is not security:
                self._authority.check(grant)
            genuine = True
            if self._is_static(security.permissions, requires, risk, approval):
                self.allowed += 1
                return Admission(message, True)
        except Exception:
            pass  # it is decided, refused and recorded below, step by step
        case = Case(
            security, grant, requires, message, path, message_type, risk, approval, approvals,
            definition, four_eyes=four_eyes, counted=counted,
        )  # fmt: skip
        try:
            if genuine:
                case.subject = security.subject
            else:
                self._check(case)
            policies = self._begin(case)
            self._engine.run(case, policies)
            self._look_again(case, policies)
            return self._finish(case, policies)
        except NeedsConsent:
            raise
        except Exception as error:
            self._refuse(case, error)

    async def admit_async(
        self,
        security: SecurityContext,
        grant: SecurityContext | None,
        requires: str | None,
        message: Any,
        *,
        path: str | Addressed,
        message_type: type[object] | str,
        risk: str | None = None,
        approval: ApprovalRule = False,
        approvals: Sequence[str] = (),
        four_eyes: bool = False,
        definition: Definition = "",
        counted: bool = True,
        wanted: Callable[[], bool] = lambda: True,
        run: Callable[[], str | None] = lambda: None,
    ) -> Admission:
        """As `admit`, waiting for asynchronous policies, and for the desk where there is one. All else is decided after the last policy's answer, in one step
        without a checkpoint.

        A cancellation goes through: then nothing is admitted, charged or recorded. (`settle` says what becomes of a consent.)
        """
        case = Case(
            security, grant, requires, message, path, message_type, risk, approval, approvals,
            definition, four_eyes=four_eyes, counted=counted,
        )  # fmt: skip
        try:
            self._check(case)
            policies = self._begin(case)
            await self._engine.run_async(case, policies)
            self._look_again(case, policies)
            return self._finish(case, policies)
        except NeedsConsent:
            pass  # outside of this block: nothing is an error yet
        except Exception as error:
            self._refuse(case, error)
        return await self.settle(case, wanted=wanted, run=run)

    async def settle(
        self, case: Case, *, wanted: Callable[[], bool] = lambda: True, run: Callable[[], str | None] = lambda: None
    ) -> Admission:
        """Ask the desk for the consent that a call needs, and go on from there; see `retinue.capabilities.settling`, which says what becomes of the consent.

        Args:
            case: That of a `NeedsConsent`, once.
            wanted: Whether anybody still wants the effect; asked before the consent is spent, and after.
            run: The run of an agent that asks, or None: what the consent is bound to beside the call.

        Raises:
            ApprovalRequired: There is no valid consent; what a person is asked is in its `requests`.
            Denied: As `admit`, and: a token was spent before (reason "spent"), the desk refuses ("approval"), or its store cannot be used ("store").
        """
        try:
            case.run = run()
            return await settle(self, case, wanted)
        except Exception as error:
            self._refuse(case, error)

    def note_static(self, security: SecurityContext, operation: str | None, path: str, count: int) -> None:
        """Tell of messages that were let through by a kept verdict: they are counted, and audited as one record of `count`.

        Where the record cannot be written it is owed, and until it is paid the gate refuses everything.
        """
        if count <= 0:
            return
        self.allowed += count
        if operation is not None:
            self.note_allowed(security, operation, path, count)

    def note_allowed(self, security: SecurityContext | None, operation: str, path: str | None, count: int, *, detail: str = "") -> None:
        """Have messages audited, as one record of `count`, that `admit` let through without a record of their own, and counted.

        Args:
            security: The context that they were admitted under; None where they are of several.
            operation: The operation.
            path: The path of the actor that handled them; None where several did.
            count: How many.
            detail: What else there is to say, for people.
        """
        if self._audit is not None:
            self._note("allowed_batch", allowed=True, operation=operation, security=security, path=path, count=count, detail=detail)

    def note_outcome(
        self, admission: Admission, security: SecurityContext, operation: str | None, path: str, outcome: str, *, succeeded: bool
    ) -> None:
        """Tell how the handling of an admission ended that has a record of its own; does nothing for one that has none.

        Args:
            admission: What `admit` gave.
            security: The context that it was admitted under.
            operation: The operation.
            path: The path of the actor that handled it.
            outcome: One or few words without values: "answered", or the name of an error's class.
            succeeded: Whether it succeeded.
        """
        if self._audit is not None and admission.record is not None:
            detail = f"of record {admission.record}: {outcome}"
            reason = "succeeded" if succeeded else "failed"
            self._note("outcome", allowed=True, operation=operation, security=security, path=path, reason=reason, detail=detail)

    def self_test(self) -> None:
        """Prove that the gate refuses: see `retinue.capabilities.self_test`. The counts are left as they were, and nothing is audited.

        Raises:
            AuthorityError: Something was let through. The system must not start.
        """
        from retinue.capabilities.self_test import prove_that_it_refuses

        prove_that_it_refuses(self._authority)

    def statistics(self) -> GateStatistics:
        """The counts."""
        return GateStatistics(allowed=self.allowed, refused=self.refused)

    # -- the steps, in order -------------------------------------------------------------------------------------------------------------------------------

    def _is_static(self, permissions: PermissionSet, operation: str | None, risk: str | None, approval: ApprovalRule) -> bool:
        """`is_static`; raises where the question itself is wrong."""
        level = _LEVELS[risk]
        if approval is not False or self._owed:
            return False
        if operation is not None:
            if permissions.decision(operation) is not ALLOWED:
                return False
            if not self._plain:
                if self._engine.policies and self._engine.concerned(operation):
                    return False
                registry = self._capabilities
                if registry is not None:
                    capability = registry.resolve(operation)
                    if capability is None or capability.approval or registry.is_scoped(operation):
                        return False
                    risk = capability.risk
                    level = _LEVELS[risk]
        if level >= _AUDITED and self._audit is not None:
            return False
        limits = permissions.limits
        return limits is NO_LIMITS or (limits.deadline_ms == NEVER and limits.calls == UNLIMITED and _risk_fits(limits, operation, risk))

    def _check(self, case: Case) -> None:
        if self._authority.is_genuine(case.security):
            case.subject = case.security.subject  # also of one that was revoked
        self._authority.check(case.security)
        if case.grant is not None:
            self._authority.check(case.grant)

    def _begin(self, case: Case) -> tuple[CheckedPolicy, ...]:
        """What is owed, and the registry; then which policies are asked. Genuineness and revocation come before."""
        while self._owed:
            assert self._audit is not None
            self._audit.record(**self._owed[0])
            del self._owed[0]
        operation = case.operation
        if case.risk not in _LEVELS:
            raise Undecidable("its risk is none of L0, L1, L2 and L3")
        if operation is None:
            return ()
        if self._capabilities is not None:
            case.capability = self._capabilities.resolve(operation, session=case.security.session, agent=case.security.subject)
            if case.capability is None:
                raise case.denied(
                    f"{operation!r} is not declared in the system's registry of capabilities.",
                    f"declare it: registry.declare(rt.Capability({operation!r}, risk=…)).",
                    "unknown_operation",
                )
            case.risk = case.capability.risk
        return self._engine.concerned(operation)

    def _look_again(self, case: Case, policies: tuple[CheckedPolicy, ...]) -> None:
        """Policies take their time, in which something may have been revoked, declared or withdrawn: by another thread, if not by a task."""
        if policies:
            self._check(case)
            self._begin(case)

    def _look_once_more(self, case: Case) -> None:
        """For `settle`, after the desk was waited for: all that may have changed since. What the policies asked for stays; what others ask for is heard anew."""
        del case.asks[case.heard :]
        self._check(case)
        ask_files_again(case, self._begin(case))
        permissions = case.security.permissions
        self._pass_layers(case, permissions)
        self._pass_limits(case, permissions.limits)
        self._hear_asks(case)

    def _finish(self, case: Case, policies: tuple[CheckedPolicy, ...]) -> Admission:
        """Everything after the policies, in one step that nothing interrupts."""
        permissions = case.security.permissions
        case.heard = len(case.asks)
        self._pass_layers(case, permissions)
        self._pass_limits(case, permissions.limits)
        self._hear_asks(case)
        if case.asks and self.desk is not None and case.definition:
            self._could_be_done(case)
            raise NeedsConsent(case)
        record = self._charge_and_record(case)
        self.allowed += 1
        # What looked at arguments has to look at the next ones too.
        static = not policies and case.arguments is None and self._is_static(permissions, case.operation, case.risk, case.approval)
        return Admission(case.message, static, record)

    def _hear_asks(self, case: Case) -> None:
        """What the handler and the registry say about consent; policies and layers were heard."""
        if case.needs_consent():
            case.asks.append("its handler says approval=True" if case.approval is True else "its handler's approval= asks for it")
        if case.capability is not None and case.capability.approval:
            case.asks.append("its capability says approval=True")
            case.four_eyes = case.four_eyes or case.capability.four_eyes

    def _could_be_done(self, case: Case) -> None:
        """Refuses what no consent would help: nobody is bothered for a call that could not be charged, or that no consent can be bound to."""
        reservation = self._reserve(case)
        if reservation is not None:
            self.ledger.release(reservation)
        self._check_plain(case)

    def _pass_layers(self, case: Case, permissions: PermissionSet) -> None:
        operation = case.operation
        if operation is None:
            return
        decision = permissions.decision(operation)
        if decision is ALLOWED:
            return
        arguments = case.own() if decision.checks else None
        verdict = decision.evaluate(arguments, self._authority.sources)
        if verdict is ASK:
            case.asks += asking(case, operation)
            case.four_eyes = case.four_eyes or decision.wants_four_eyes(
                case.own() if decision.four_checks else None, self._authority.sources
            )
        elif verdict is not ALLOW:
            raise case.denied(
                explained(case, operation),
                f"send it under a context whose layers and whose receiver's grant all permit {operation!r}"
                f"{' with such arguments' if decision.verdict is DEPENDS else ''}.",
                "arguments" if decision.verdict is DEPENDS else "permission",
            )

    def _pass_limits(self, case: Case, limits: Limits) -> None:
        if limits is NO_LIMITS:
            return
        if not _risk_fits(limits, case.operation, case.risk):
            origin = added_by(case.security, lambda one: one.permissions.limits.risk <= limits.risk)
            rated = "not rated, so it counts as L3" if case.risk is None else f"rated {case.risk}"
            raise case.denied(
                f"{'it' if case.operation is None else repr(case.operation)} is {rated}, and max_risk({RISKS[limits.risk]!r}) permits less (added by {origin}).",
                "rate it lower if it is less harmful, or send it under a context that permits the risk.",
                "risk",
            )
        if limits.deadline_ms != NEVER and self._authority.now_ms() >= limits.deadline_ms:
            origin = added_by(case.security, lambda one: one.permissions.limits.deadline_ms <= limits.deadline_ms)
            raise Expired(f"the context expired at {moment(limits.deadline_ms)} (added by {origin}). Ask for a new context.")

    def _reserve(self, case: Case) -> Reservation | None:
        """One call of the accounts, where calls are limited."""
        return self.ledger.reserve(case.security.accounts, calls=1) if self._is_counted(case) else None

    def _is_counted(self, case: Case) -> bool:
        if case.operation is None or not case.counted or case.security.permissions.limits.calls == UNLIMITED:
            return False
        if not case.security.accounts:
            raise Undecidable("its calls are limited, and there is no account to charge them to")
        return True

    def _charge_and_record(self, case: Case) -> int | None:
        """One call is taken, then consent is looked for, then the record is written; where the later ones fail, the call is given back."""
        audited = self._audit is not None and _LEVELS[case.risk] >= _AUDITED
        if not (audited or case.asks):
            if self._is_counted(case):
                self.ledger.charge(case.security.accounts, calls=1)
            return None
        reservation = self._reserve(case)
        record = None
        try:
            if case.asks:
                self._check_plain(case)
                raise case.approval_required()
            record = self._record(case, allowed=True, reason="", detail="")
        except BaseException:
            if reservation is not None:
                self.ledger.release(reservation)
            raise
        if reservation is not None:
            self.ledger.settle(reservation, calls=1)
        return record

    def _check_plain(self, case: Case) -> None:
        try:
            canonical(case.own())
        except Exception as error:
            raise Undecidable(
                f"it needs a person's consent ({'; '.join(case.asks)}), and its arguments are no plain data, so no consent could be bound to them"
            ) from error

    # -- the answer ----------------------------------------------------------------------------------------------------------------------------------------

    def _refuse(self, case: Case, error: Exception) -> NoReturn:
        """Counts, records and raises a refusal; the record comes first."""
        self.refused += 1
        refusal = case.refusal(error)
        try:
            if self._audit is not None and not isinstance(refusal, AuditUnavailable):
                try:
                    self._record(case, allowed=False, reason=reason_of(refusal), detail=str(refusal))
                except AuditUnavailable as unavailable:
                    raise unavailable from refusal
            if refusal is error:
                raise refusal
            raise refusal from error
        finally:
            del refusal, error  # else this frame and the error would keep each other alive, with the message and the context

    def _record(self, case: Case, *, allowed: bool, reason: str, detail: str) -> int:
        assert self._audit is not None
        digest = None
        try:
            digest = self._audit.digest(case.own())
        except Exception:
            detail = f"{detail} (No digest: the arguments have no canonical bytes.)".strip()
        entry = self._audit.record(
            "decision",
            allowed=allowed,
            operation=case.name,
            reason=reason,
            security=None if case.subject is None else case.security,
            path=case.path,
            message_type=case.label,
            arguments_digest=digest,
            detail=detail,
        )
        return entry.number

    def _note(self, kind: str, **fields: Any) -> None:
        """Records what was done already; if that fails it is owed, and kept verdicts are forgotten so that nothing passes meanwhile."""
        assert self._audit is not None
        try:
            if self._owed:
                raise AuditUnavailable("an earlier record is owed")
            self._audit.record(kind, **fields)  # type: ignore[arg-type]
        except AuditUnavailable:
            self._owed.append({"kind": kind, **fields})
            self.changed()


def _risk_fits(limits: Limits, operation: str | None, risk: str | None) -> bool:
    """Whether `max_risk` permits it. An open handler that nobody rated is no operation, and so none of a risk."""
    if limits.risk == _UNRATED or (operation is None and risk is None):
        return True
    return (_UNRATED if risk is None else _LEVELS[risk]) <= limits.risk
