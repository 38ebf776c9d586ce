"""Policies: code of the system's holder that looks at each call of an operation before it is handled.

A policy answers with one of four verdicts, made by `Verdict`. Nothing else is an answer: None, True, an exception or a time-out refuses.

    @policy(operations=["payments.**"])
    def office_hours(call: PolicyCall) -> Verdict:
        return Verdict.allow() if 8 <= clock().hour < 18 else Verdict.refuse("payments are made between 8 and 18 o'clock")

A policy can only take away: what it allows must still be permitted by the layers of the message's context.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, Literal, NoReturn, Protocol, Self, final, overload, runtime_checkable

import attrs

from retinue.capabilities.registry import Capability
from retinue.security.context import SecurityContext
from retinue.security.errors import DefinitionError, PatternError
from retinue.security.operations import Pattern

__all__ = ["CheckedPolicy", "Policy", "PolicyCall", "Verdict", "checked", "policy"]

MAX_REASON: Final = 500
"""Characters of a verdict's reason; longer ones are cut."""

MAX_NAME: Final = 255
"""Characters in the name of a policy."""


@final
class Verdict:
    """What a policy answers: made by `allow`, `refuse`, `ask` and `rewrite`, and by nothing else.

    Attributes:
        kind: "allow", "refuse", "ask" or "rewrite".
        reason: Why, where it is "refuse" or "ask"; shown to whoever asked and kept in the audit, so it names no secret.
        message: The message to handle instead, where it is "rewrite".
        fix: What to do about it, where it is "refuse"; "" where the reason says it all.
        four_eyes: Whether the consent that it asks for, where it is "ask", has to come from another person than the context's subject.
    """

    __slots__ = ("fix", "four_eyes", "kind", "message", "reason")

    kind: Literal["allow", "refuse", "ask", "rewrite"]
    reason: str
    message: Any
    fix: str
    four_eyes: bool

    def __new__(cls, *_args: object, **_kwargs: object) -> Self:
        """Refused: see the class."""
        raise TypeError("a Verdict is made by Verdict.allow(), .refuse('why'), .ask('why') or .rewrite(message).")

    def __init_subclass__(cls) -> None:
        raise TypeError("Verdict is final: only its own four makers say what a policy can answer.")

    @staticmethod
    def allow() -> Verdict:
        """No objection. The layers of the context, and the other policies, must permit the call too."""
        return _ALLOW

    @staticmethod
    def refuse(reason: str, *, fix: str | None = None) -> Verdict:
        """The call is refused (`Denied`, reason "policy"), whatever any other policy answers.

        Args:
            reason: Why, for people; at most 500 characters are kept. Do not put secret values into it.
            fix: What to do about it, for people, likewise. None: do what the policy asks for.

        Raises:
            DefinitionError: `reason` or `fix` is no `str`, or empty.
        """
        return _verdict("refuse", _checked_reason(reason, "refuse"), None, "" if fix is None else _checked_reason(fix, "refuse"))

    @staticmethod
    def ask(reason: str, *, four_eyes: bool = False) -> Verdict:
        """The call needs a person's consent (`ApprovalRequired`), unless anything refuses it.

        Args:
            reason: Why, for people; at most 500 characters are kept. Do not put secret values into it.
            four_eyes: Whether the person has to be another than the context's subject. Default False.

        Raises:
            DefinitionError: `reason` is no `str`, or empty; `four_eyes` is no `bool`.
        """
        if type(four_eyes) is not bool:
            raise DefinitionError(f"Verdict.ask(four_eyes=…) is True or False, not an object of type {type(four_eyes).__name__}.")
        return _verdict("ask", _checked_reason(reason, "ask"), None, four_eyes=four_eyes)

    @staticmethod
    def rewrite(message: object) -> Verdict:
        """The call goes on with another message of the same class; later policies and all layers see that one, and the handler gets it.

        Args:
            message: The message. One of another class than the call's is refused by the gate.
        """
        return _verdict("rewrite", "", message)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a Verdict is immutable: {name!r} cannot be set.")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a Verdict is immutable: {name!r} cannot be deleted.")

    def __repr__(self) -> str:
        kind = getattr(self, "kind", None)
        if kind in ("refuse", "ask"):
            return f"Verdict.{kind}({self.reason!r}{', four_eyes=True' if self.four_eyes else ''})"
        return "Verdict.rewrite(…)" if kind == "rewrite" else "Verdict.allow()" if self is _ALLOW else "<Verdict that nothing made>"


def _checked_reason(reason: object, what: str) -> str:
    if not isinstance(reason, str) or not reason.strip():
        raise DefinitionError(f"Verdict.{what}() takes the reason as a str that says why, for people: Verdict.{what}('over the limit')")
    plain = str.__str__(reason)
    return plain if len(plain) <= MAX_REASON else plain[: MAX_REASON - 1] + "…"


def _verdict(
    kind: Literal["allow", "refuse", "ask", "rewrite"], reason: str, message: object, fix: str = "", *, four_eyes: bool = False
) -> Verdict:
    made: Verdict = object.__new__(Verdict)
    object.__setattr__(made, "fix", fix)
    object.__setattr__(made, "four_eyes", four_eyes)
    object.__setattr__(made, "kind", kind)
    object.__setattr__(made, "reason", reason)
    object.__setattr__(made, "message", message)
    return made


_ALLOW: Final = _verdict("allow", "", None)


@final
@attrs.frozen
class PolicyCall:
    """What a policy sees of a call. It is the gate's own copy: changing a list in it changes nothing.

    Attributes:
        operation: The operation that the handler requires.
        message: The message, as earlier policies left it.
        arguments: Its fields by name, read-only.
        security: The effective context: the sender's, met with the receiver's grant.
        path: The path of the actor that is addressed.
        message_type: The name of the message's class.
        risk: "L0" to "L3", or None where nobody rated the operation.
        capability: What the system's registry says of the operation; None where it has no registry.
    """

    operation: str
    message: Any = attrs.field(repr=False)  # a policy that fails with the call in its error is not to tell the values
    arguments: Mapping[str, Any] = attrs.field(repr=False)
    security: SecurityContext
    path: str
    message_type: str
    risk: str | None
    capability: Capability | None = None


@runtime_checkable
class Policy(Protocol):
    """What the gate takes as a policy: an object with these three, or a function marked by `@policy`.

    Attributes:
        name: A name that no other policy of the system has, 1 to 255 characters; it stands in refusals and in the audit.
        operations: Patterns of the operations that it is asked about. Read once, when the system is made.
    """

    name: str
    operations: Iterable[str]

    def decide(self, call: PolicyCall, /) -> Verdict | Awaitable[Verdict]:
        """The verdict; the method may be `async def`. A plain one must not block: it runs in the system's own thread."""
        ...


Decide = Callable[[PolicyCall], Any]

_MARK: Final = "__retinue_policy__"


@overload
def policy(function: Decide, /) -> Decide: ...


@overload
def policy(*, operations: Iterable[str] = ("**",), name: str | None = None) -> Callable[[Decide], Decide]: ...


def policy(function: Decide | None = None, /, *, operations: Iterable[str] = ("**",), name: str | None = None) -> Any:
    """Makes a function a policy, to be given to `ActorSystem(policies=[…])`. The function itself is returned; it may be `async def`.

    Args:
        operations: Patterns of the operations that it is asked about; default all.
        name: Its name in refusals and in the audit; default the function's.

    Raises:
        DefinitionError: What is decorated is no function of one argument, or `operations` or `name` is malformed.
    """

    def mark(target: Decide) -> Decide:
        if isinstance(target, str):
            raise DefinitionError(f"@policy({target!r}) names no operations yet: write @rt.policy(operations=[{target!r}])")
        if not inspect.isfunction(target):
            raise DefinitionError(f"@policy marks a function, not an object of type {type(target).__name__}; write it directly above `def`")
        _check_takes_call(target, f"the policy {target.__qualname__}", "def decide(call: rt.PolicyCall) -> rt.Verdict")
        chosen = target.__qualname__.rpartition(".")[2] if name is None else name
        setattr(target, _MARK, CheckedPolicy(_checked_name(chosen), _checked_operations(operations, chosen), target, _is_async(target)))
        return target

    return mark if function is None else mark(function)


@final
@attrs.frozen
class CheckedPolicy:
    """A policy as the gate uses it: read once, so that what somebody writes into the object later changes nothing.

    Attributes:
        name: Its name.
        patterns: The operations that it is asked about.
        decide: The function or bound method to call.
        is_async: Whether its answer is awaited.
    """

    name: str
    patterns: tuple[Pattern, ...]
    decide: Decide
    is_async: bool

    def concerns(self, segments: tuple[str, ...]) -> bool:
        """Whether it is asked about an operation, given in segments."""
        return any(pattern.matches_segments(segments) for pattern in self.patterns)


def checked(given: object) -> CheckedPolicy:
    """What the gate uses of a policy.

    Raises:
        DefinitionError: It is no policy, or its name or operations are malformed.
    """
    marked = getattr(given, _MARK, None)
    if type(marked) is CheckedPolicy:
        return marked
    if inspect.isfunction(given):
        raise DefinitionError(
            f"the function {given.__qualname__} is no policy yet: write @rt.policy, or @rt.policy(operations=[…]), above it"
        )
    if isinstance(given, type):
        raise DefinitionError(f"policies=[…] takes policies, not the class {given.__qualname__} itself: write {given.__name__}(…)")
    try:
        name, decide = given.name, given.decide  # type: ignore[attr-defined]
        operations = getattr(given, "operations", ("**",))
    except Exception as error:
        raise DefinitionError(
            f"an object of type {type(given).__name__} is no policy: it needs a `name` and a method `decide(call)`; or mark a function with @rt.policy"
        ) from error
    checked_name = _checked_name(name)
    if not callable(decide):
        raise DefinitionError(f"the policy {checked_name!r} has a `decide` that cannot be called: write `def decide(self, call)`")
    _check_takes_call(decide, f"the decide() of the policy {checked_name!r}", "def decide(self, call)")
    return CheckedPolicy(checked_name, _checked_operations(operations, checked_name), decide, _is_async(decide))


def _check_takes_call(decide: Callable[..., object], what: str, example: str) -> None:
    """Refuses what cannot be called with the call alone, where its signature is known: every call would be refused of it."""
    try:
        signature = inspect.signature(decide, follow_wrapped=False)  # a decorator may give it more than it is given itself
    except (TypeError, ValueError):
        return
    try:
        signature.bind(None)
    except TypeError as error:
        raise DefinitionError(f"{what} is called with the call and nothing else, and cannot be ({error}): write `{example}`") from None


def _checked_name(name: object) -> str:
    if not isinstance(name, str) or not 1 <= len(name) <= MAX_NAME:
        raise DefinitionError(f"the name of a policy is a str of 1 to {MAX_NAME} characters")
    return str.__str__(name)


def _checked_operations(operations: object, name: object) -> tuple[Pattern, ...]:
    if isinstance(operations, str | bytes) or not isinstance(operations, Iterable):
        raise DefinitionError(
            f"the policy {name!r} has operations={type(operations).__name__}: give a list of patterns, such as ['payments.**']"
        )
    try:
        patterns = tuple(Pattern(pattern) for pattern in operations)
    except PatternError as error:
        raise DefinitionError(f"the operations of the policy {name!r} are malformed: {error}") from error
    if not patterns:
        raise DefinitionError(f"the policy {name!r} has no operations, so it would never be asked: leave operations= out for all of them")
    return patterns


def _is_async(decide: Callable[..., object]) -> bool:
    call = getattr(decide, "func", decide)  # a functools.partial
    return inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(getattr(call, "__call__", None))  # noqa: B004 - an object with an async __call__
