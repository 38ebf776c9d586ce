"""Explanations: why a context does not permit an operation, and who on the way saw to that."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from retinue.security.accounts import Account, all_accounts
from retinue.security.errors import BudgetExceeded
from retinue.security.layers import Layer
from retinue.security.operations import check_operation

if TYPE_CHECKING:
    from retinue.security.context import SecurityContext, Step

__all__ = ["account_origin", "added_by", "explanation", "layer_origin", "of_context"]

_SHOWN: Final = 3

_ADDED_BY: Final[dict[Step, str]] = {
    "root": "the permissions of the system",
    "mint": "mint()",
    "token": "a sealed token",
    "narrow": "narrow()",
    "grant": "the grant of an actor that the message went through",
}


def explanation(context: SecurityContext, operation: str, arguments: Mapping[str, object] | None, obstacles: list[str]) -> str:
    """One sentence: whether the operation is permitted, and if not, why.

    Args:
        context: The context.
        operation: The operation's name.
        arguments: Its arguments by name, or None.
        obstacles: What stands in the way beside the layers: that it was revoked, has expired, or a limit.

    Raises:
        PatternError: `operation` is malformed, or is a pattern.
    """
    refusals = context.permissions.refusals(operation, arguments)
    names = context._registry.names
    note = "" if names is None else names.note(operation, context.permissions.layers)
    if not refusals and not obstacles:
        return context.permissions.explain(operation, arguments) + note
    reasons = obstacles + [f"{reason} (added by {layer_origin(layer, context)})" for layer, reason in refusals[:_SHOWN]]
    if len(refusals) > _SHOWN:
        reasons.append(f"and {len(refusals) - _SHOWN} more layers refuse it")
    return f"'{check_operation(operation)}' is not permitted: {'; '.join(reasons)}.{note}"


def layer_origin(layer: Layer, context: SecurityContext) -> str:
    """Where on the way to `context` the layer was added."""
    return added_by(context, lambda one: layer in one.permissions.layers)


def account_origin(account: Account, context: SecurityContext) -> str:
    """Where on the way to `context` the limits were added that the account stands for."""
    return added_by(context, lambda one: account in all_accounts(one._accounts))


def of_context(error: BudgetExceeded, context: SecurityContext) -> BudgetExceeded:
    """The same refusal of a ledger, which knows accounts alone, with whose context it is and where its limit was added."""
    account = next((one for one in all_accounts(context._accounts) if one.id == error.account), None)
    origin = "" if account is None else f" That limit was added by {account_origin(account, context)}."
    return BudgetExceeded(
        f"{error}{origin}",
        resource=error.resource,
        account=error.account,
        operation=error.operation,
        path=error.path,
        subject=context.subject,
    )


def added_by(context: SecurityContext, has: Callable[[SecurityContext], bool]) -> str:
    """Where on the way to `context` something was added that is never taken away again.

    Args:
        context: The context that has it.
        has: Whether a context has it.
    """
    for one in context._ancestry():
        if has(one):
            text = f"{_ADDED_BY[one._step]}, context {one.id} of {one.subject!r}"
            other = next((other for other in one._others if has(other)), None)
            if other is None:
                return text
            # It came with another context, a grant mostly: say where that one has it from.
            origin = next(first for first in other._ancestry() if has(first))
            return f"{text}; there by {_ADDED_BY[origin._step]}, context {origin.id} of {origin.subject!r}"
    return "an unknown hand"
