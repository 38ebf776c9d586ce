"""The policy engine: asks the policies that an operation concerns, in the order they were given, and takes only a real verdict for one."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterable
from types import MappingProxyType
from typing import Any, Final, final

from retinue.capabilities.cases import Case, is_for_the_process, sentence
from retinue.capabilities.policy import CheckedPolicy, PolicyCall, Verdict, checked
from retinue.capabilities.policy_file import PolicyFile
from retinue.capabilities.snapshots import own_copy_and_arguments
from retinue.security.errors import DefinitionError
from retinue.security.operations import check_operation

__all__ = ["DEFAULT_TIMEOUT", "PolicyEngine", "ask_files_again"]

DEFAULT_TIMEOUT: Final = 5.0
"""Seconds that one asynchronous policy may take for one call."""

MAX_CONCERNED: Final = 4096
"""Operations whose policies are remembered; the memo is emptied when it is full."""

_FIX_FAILED: Final = "mend the policy; see the exception that this one was raised from."
_FIX_POLICY: Final = "mend the policy: only Verdict.allow(), .refuse(), .ask() and .rewrite() are answers, and what is none refuses."


@final
class PolicyEngine:
    """The policies of one gate.

    Deny wins over ask, ask over allow: the first refusal ends it, a question is kept while the rest are heard. A rewrite is what the later policies see.

    Args:
        policies: The policies, in order.
        timeout: Seconds that each asynchronous one may take.

    Attributes:
        policies: The policies as they were read, once.

    Raises:
        DefinitionError: Something is no policy, two have one name, or the time-out is no number of seconds above zero.
    """

    __slots__ = ("_concerned", "_timeout", "policies")

    def __init__(self, policies: Iterable[object] = (), timeout: float = DEFAULT_TIMEOUT) -> None:
        if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout < math.inf:
            raise DefinitionError(
                f"policy_timeout={timeout!r}: give a number of seconds above zero; a policy cannot be waited for without end"
            )
        if isinstance(policies, str | bytes) or not isinstance(policies, Iterable):
            raise DefinitionError(f"policies=[…] takes a list of policies, not an object of type {type(policies).__name__}")
        self.policies: Final = tuple(checked(policy) for policy in policies)
        names = [policy.name for policy in self.policies]
        for name in names:
            if names.count(name) > 1:
                raise DefinitionError(
                    f"two policies are named {name!r}: give each its own name, so that a refusal says which it was (of a file: policy_from_file(path, name=…))"
                )
        self._timeout = float(timeout)
        self._concerned: dict[str, tuple[CheckedPolicy, ...]] = {}

    def concerned(self, operation: str) -> tuple[CheckedPolicy, ...]:
        """The policies that are asked about an operation, in order.

        Raises:
            PatternError: `operation` is malformed.
        """
        found = self._concerned.get(operation)
        if found is None:
            name = check_operation(operation)
            segments = tuple(name.split("."))
            found = tuple(policy for policy in self.policies if policy.concerns(segments))
            if len(self._concerned) >= MAX_CONCERNED:
                self._concerned.clear()
            self._concerned[name] = found
        return found

    def awaits(self, operation: str) -> bool:
        """Whether an asynchronous policy is asked about the operation."""
        return any(policy.is_async for policy in self.concerned(operation))

    def run(self, case: Case, policies: tuple[CheckedPolicy, ...]) -> None:
        """Ask the policies; none of them may be asynchronous.

        Raises:
            Denied: One refuses, or its answer is none.
        """
        for policy in policies:
            call = _call(case)
            if policy.is_async:
                raise case.denied(f"the policy {policy.name!r} is asynchronous and was not waited for.", "use admit_async.", "undecided")
            _take(case, policy, _asked(case, policy, call))

    async def run_async(self, case: Case, policies: tuple[CheckedPolicy, ...]) -> None:
        """Ask the policies, each asynchronous one within its time; a cancellation goes through, and then nothing is admitted.

        Raises:
            Denied: One refuses, its answer is none, or it does not come in time.
        """
        for policy in policies:
            call = _call(case)
            answer = await self._wait_for(case, policy, call) if policy.is_async else _asked(case, policy, call)
            _take(case, policy, answer)

    async def _wait_for(self, case: Case, policy: CheckedPolicy, call: PolicyCall) -> object:
        import trio  # here, so that the gate can be imported where there is no event loop

        answer: object = None
        began = trio.current_time()
        try:
            with trio.move_on_after(self._timeout) as scope:
                answer = await policy.decide(call)
        except BaseException as error:
            if isinstance(error, trio.Cancelled | GeneratorExit) or is_for_the_process(error):
                raise
            await trio.lowlevel.checkpoint_if_cancelled()  # the error may have come beside a cancellation, in a group
            raise _failed(case, policy, error) from error
        # A policy may have swallowed a cancellation, or kept the whole thread busy: late is late, whatever it says.
        await trio.lowlevel.checkpoint_if_cancelled()
        if scope.cancel_called or trio.current_time() - began >= self._timeout:
            raise case.denied(
                f"the policy {policy.name!r} did not answer within {self._timeout:g} s.",
                "make the policy quicker, or policy_timeout= longer.",
                "policy",
            )
        return answer


def ask_files_again(case: Case, policies: tuple[CheckedPolicy, ...]) -> None:
    """Asks those policies once more that are files, which may have been read again since; only a refusal counts. (Others are asked once a call: they may count.)

    Raises:
        Denied: One refuses.
    """
    for policy in policies:
        if type(getattr(policy.decide, "__self__", None)) is PolicyFile:
            answer = _asked(case, policy, _call(case))
            if type(answer) is not Verdict or answer.kind == "refuse":
                _take(case, policy, answer)


def _call(case: Case) -> PolicyCall:
    """What the next policy sees: a copy for it alone, so that it can neither change what the others see nor keep hold of what is handled."""
    case.own()
    assert case.operation is not None
    shown, arguments = own_copy_and_arguments(case.message)
    return PolicyCall(
        operation=case.operation,
        message=shown,
        arguments=MappingProxyType(arguments),
        security=case.security,
        path=case.path,
        message_type=case.label,
        risk=case.risk,
        capability=case.capability,
    )


def _take(case: Case, policy: CheckedPolicy, answer: Any) -> None:
    """Does what a verdict says; what is no verdict refuses."""
    if answer is Verdict.allow():
        return
    kind = getattr(answer, "kind", None) if type(answer) is Verdict else None
    if kind == "refuse":
        fix = sentence(answer.fix) if answer.fix else "do what the policy asks for."
        raise case.denied(f"the policy {policy.name!r} refuses it: {sentence(answer.reason)}", fix, "policy")
    if kind == "ask":
        case.asks.append(f"the policy {policy.name!r}: {answer.reason}")
        case.four_eyes = case.four_eyes or answer.four_eyes
    elif kind == "rewrite":
        if type(answer.message) is not type(case.message):
            raise case.denied(
                f"the policy {policy.name!r} rewrote it to an object of type {type(answer.message).__name__}.",
                f"rewrite to a message of the same class, {case.label}.",
                "policy",
            )
        case.rewrite(answer.message)
    else:
        if inspect.iscoroutine(answer):
            answer.close()  # else Python warns, much later, that nobody awaited it
        raise case.denied(f"the policy {policy.name!r} answered with an object of type {type(answer).__name__}.", _FIX_POLICY, "policy")


def _asked(case: Case, policy: CheckedPolicy, call: PolicyCall) -> Any:
    """The answer of a plain policy. Whatever it raises is none, be it no Exception: else the actor that is addressed would fail of it."""
    try:
        return policy.decide(call)
    except BaseException as error:
        if is_for_the_process(error):
            raise
        raise _failed(case, policy, error) from error


def _failed(case: Case, policy: CheckedPolicy, error: BaseException) -> Exception:
    # The error's own text may hold what it was called with, so only its kind is told; the error itself is chained.
    return case.denied(f"the policy {policy.name!r} failed with {type(error).__name__}.", _FIX_FAILED, "policy")
