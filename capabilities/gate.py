"""The gate: the one door between a message and a handler that requires an operation.

Only a literal ALLOW opens it. An exception, a truthy something, an object that is no genuine context, a malformed name, a record that cannot be written: all
refuse. The order is fixed, and nothing changes the arguments once the layers have seen them:

    forged or revoked → the gate's own copy → the registry → policies (rewrites) → layers → risk → deadline → calls → consent → audit
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn, final

import attrs

from retinue.capabilities.cases import RISKS, Case, Undecidable, reason_of
from retinue.capabilities.engine import DEFAULT_TIMEOUT, PolicyEngine
from retinue.security.authority import Authority
from retinue.security.context import SecurityContext
from retinue.security.errors import AuditUnavailable, AuthorityError, Denied
from retinue.security.permissions import PermissionSet

if TYPE_CHECKING:
    from retinue.security.audit import AuditLog

__all__ = ["Admission", "Gate", "GateStatistics"]

_CANARY: Final = "retinue.gate.canary"
_AUDITED_RISK: Final = 2


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
class Admission:
    """The answer of a gate that lets a message pass.

    Attributes:
        message: The message to handle: the given one, or the gate's own copy of it, or what a policy rewrote it to.
        static: Whether the next message under the same context to the same handler would be admitted without looking at anything; such a verdict may be kept
            until the gate's `epoch` changes.
        record: The number of the audit record of this admission, or None where there is none.
        timeout: The seconds that the capability gives its handler, or None.
    """

    __slots__ = ("message", "record", "static", "timeout")

    def __init__(self, message: Any, static: bool, record: int | None = None, timeout: float | None = None) -> None:
        self.message = message
        self.static = static
        self.record = record
        self.timeout = timeout


@final
class Gate:
    """Admits or refuses messages by the effective context that they carry.

    Args:
        authority: The authority of the system; contexts that it did not make are refused.
        audit: Where refusals, questions and allows of risk L2 or more are recorded before they are answered; None: nowhere.
        policies: Policies, in order; see `retinue.capabilities.policy`.
        policy_timeout: Seconds that one asynchronous policy may take. Default: 5.

    Attributes:
        allowed: Messages that `admit` let through, and those that `note_static` told of.
        refused: Messages that were refused.
        on_change: Called when verdicts that somebody keeps may be wrong, after `epoch` has changed; None: nobody.

    Raises:
        DefinitionError: A policy is malformed.
    """

    __slots__ = ("_audit", "_authority", "_changes", "_engine", "allowed", "on_change", "refused")

    def __init__(
        self,
        authority: Authority,
        *,
        audit: AuditLog | None = None,
        policies: Iterable[object] = (),
        policy_timeout: float = DEFAULT_TIMEOUT,
    ) -> None:
        self._authority = authority
        self._audit = audit
        self._engine = PolicyEngine(policies, policy_timeout)
        self._changes = 0
        self.on_change: Callable[[], None] | None = None
        self.allowed = 0
        self.refused = 0

    @property
    def epoch(self) -> int:
        """Grows whenever a kept verdict may have become wrong."""
        return self._changes

    def changed(self) -> None:
        """Tell that kept verdicts may be wrong: something was revoked, declared or reloaded. Safe to call from any thread."""
        self._changes += 1
        if self.on_change is not None:
            self.on_change()

    def verdict(self, permissions: PermissionSet, operation: str) -> bool:
        """Whether the set permits the operation, for a cache keyed by both; counts nothing and never raises.

        True only where the answer is the literal True. A caller that gets False goes to `admit`, which refuses with the reasons.
        """
        try:
            return permissions.permits(operation) is True
        except Exception:
            return False

    def awaits(self, operation: str | None) -> bool:
        """Whether an asynchronous policy is asked about the operation, so that `admit_async` is to be used. Never raises."""
        if operation is None or not self._engine.policies:
            return False
        try:
            return self._engine.awaits(operation)
        except Exception:
            return False  # malformed: `admit` refuses it

    def admit(
        self,
        security: SecurityContext,
        grant: SecurityContext | str | None = None,
        requires: str | None = None,
        message: Any = None,
        *,
        path: str,
        message_type: type[object] | str,
        risk: str | None = None,
        approval: bool = False,
        approvals: Sequence[object] = (),
    ) -> Admission:
        """Let a message pass, or raise.

        Args:
            security: The effective context: the message's, met with the receiver's grant.
            grant: The receiver's grant, or None where it has none.
            requires: The operation that the handler requires; None for an open handler, which only a context that is no longer good is kept from.
            message: The message; its fields are the operation's arguments.
            path: The path of the actor that is addressed, for the text.
            message_type: The message's class or its name, for the text.
            risk: The handler's own rating, "L0" to "L3", or None.
            approval: Whether the handler needs a person's consent for each message.
            approvals: Approval tokens that came with the message.

        Raises:
            Denied: It is refused, or could not be decided; `reason` says what refused, and what went wrong is chained.
            ForgedContext: The context was not made by this system's authority, or was altered since (a `Denied` too).
            ApprovalRequired: A person must consent first.
        """
        if isinstance(grant, str):  # the call of before, until the kernel gives both
            grant, requires = None, grant
        case = Case(security, grant, requires, message, path, message_type, risk, approval, tuple(approvals))
        try:
            policies = self._begin(case)
            if policies:
                self._engine.run(case, policies)
            return self._finish(case, policies)
        except Exception as error:
            self._refuse(case, error)

    async def admit_async(
        self,
        security: SecurityContext,
        grant: SecurityContext | None,
        requires: str | None,
        message: Any,
        *,
        path: str,
        message_type: type[object] | str,
        risk: str | None = None,
        approval: bool = False,
        approvals: Sequence[object] = (),
    ) -> Admission:
        """As `admit`, waiting for asynchronous policies. Everything but the policies is decided after the last one, without a checkpoint."""
        case = Case(security, grant, requires, message, path, message_type, risk, approval, tuple(approvals))
        try:
            policies = self._begin(case)
            if policies:
                await self._engine.run_async(case, policies)
                self._authority.check(security)  # that took its time
                if grant is not None:
                    self._authority.check(grant)
            return self._finish(case, policies)
        except Exception as error:
            self._refuse(case, error)

    def self_test(self) -> None:
        """Prove that the gate refuses: a canary operation under the empty set, and a context that no authority made.

        The counts are left as they were, and nothing is audited.

        Raises:
            AuthorityError: Something was let through. The system must not start.
        """
        probe = Gate(self._authority)
        nothing = self._authority.root.narrow([])
        stranger: SecurityContext = object.__new__(SecurityContext)
        for context in (nothing, stranger):
            try:
                probe.admit(context, None, _CANARY, None, path="/system/gate", message_type="the gate's self-test")
            except Denied:
                continue
            raise AuthorityError(
                f"the gate's self-test failed: it let {_CANARY!r} through under {context!r}. Do not run this system; reinstall it."
            )
        if self.verdict(nothing.permissions, _CANARY) is not False:
            raise AuthorityError(
                f"the gate's self-test failed: {_CANARY!r} is permitted by the empty set. Do not run this system; reinstall it."
            )

    def statistics(self) -> GateStatistics:
        """The counts."""
        return GateStatistics(allowed=self.allowed, refused=self.refused)

    # -- the steps, in order ---------------------------------------------------------------------------------------------------------------------------

    def _begin(self, case: Case) -> tuple[Any, ...]:
        """Genuineness and revocation; then which policies are asked."""
        self._authority.check(case.security)
        case.believed = True
        if case.grant is not None:
            self._authority.check(case.grant)
        return self._engine.concerned(case.operation) if case.operation is not None and self._engine.policies else ()

    def _finish(self, case: Case, policies: tuple[Any, ...]) -> Admission:
        """Everything after the policies, in one step that nothing interrupts."""
        operation = case.operation
        static = not policies and not case.approval
        if operation is not None and case.security.permissions.permits(operation) is not True:
            self._refuse_by_layers(case, operation)
        if case.risk not in RISKS:
            raise Undecidable(f"its risk is {case.risk!r}, and not one of L0, L1, L2 and L3")
        if case.approval:
            case.asks.append("@handler(approval=True)")
        if case.asks:
            raise case.approval_required("; ".join(case.asks))
        record = None
        if self._audit is not None and operation is not None and RISKS[case.risk] >= _AUDITED_RISK:
            static = False
            record = self._record(case, allowed=True, reason="", detail="")
        self.allowed += 1
        return Admission(case.message, static, record, case.timeout)

    def _refuse_by_layers(self, case: Case, operation: str) -> NoReturn:
        permissions = case.security.permissions
        try:
            why = (
                case.security.explain(operation)
                if permissions.refusing(operation)
                else f"{operation!r} is not permitted: the answer was not the literal True."
            )
        except Exception as error:
            why = f"{operation!r} is not permitted (why could not be told: {type(error).__name__})."
        raise case.denied(why, f"send it under a context whose layers and whose receiver's grant all permit {operation!r}.", "permission")

    # -- the answer ------------------------------------------------------------------------------------------------------------------------------------

    def _refuse(self, case: Case, error: Exception) -> NoReturn:
        """Counts, records and raises a refusal; the record comes first."""
        self.refused += 1
        mine = isinstance(error, AuthorityError) and getattr(error, "path", None) == case.path and not isinstance(error, AuditUnavailable)
        refusal = error if isinstance(error, AuthorityError) and (mine or isinstance(error, AuditUnavailable)) else case.undecided(error)
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
            arguments = case.own() if case.arguments is None else case.arguments
            digest = self._audit.digest(arguments)
        except Exception:
            detail = f"{detail} (The arguments have no canonical bytes.)".strip()
        entry = self._audit.record(
            "decision",
            allowed=allowed,
            operation=case.name,
            reason=reason,
            security=case.security if case.believed else None,
            path=case.path,
            message_type=case.label,
            arguments_digest=digest,
            detail=detail,
        )
        return entry.number
