"""Derivation: the one place where the authority of a message, a child or a task comes from somebody else's. Nobody else in the runtime makes, meets or narrows one.

The rules. None of them widens; where two authorities meet, what comes out permits what both permit.

1. *Effective* (`effective`). A message is handled under its context met with the receiver's grant. It is computed before the handler sees the message.
2. *Sending* (`sending`). What a turn sends, and what it starts, goes out under the turn's authority, or under a context that descends from it. Another context, however
   wide and whoever's, is refused inside a turn. A retry, a forward, a background task, a pipe: all are sent by a turn, so all carry its authority.
3. *Nobody's turn*. The task that entered the system, its children and the twins act under the root context, or any of the system's. Whoever else sends (a foreign
   thread, another system's actor, a system task of trio) has no authority, and must pass a context.
4. *Birth* (`child_grant`). A child's grant is its spawner's authority at that moment, narrowed by what was asked. A restart uses the stored grant.
5. *Nothing is made* (`guard`). Inside a turn, hooks and owned tasks included, nothing is minted, revoked, sealed or unsealed.
"""

from __future__ import annotations

import sys
from threading import get_ident
from typing import TYPE_CHECKING, Any

from retinue.actors.runtime.cell import DEAD
from retinue.actors.runtime.current import Delivery, Roots, current
from retinue.actors.runtime.errors import SystemClosed
from retinue.actors.runtime.stepping import turn_frame
from retinue.security.errors import Denied, NoContext

if TYPE_CHECKING:
    from retinue.actors.runtime.cell import Cell
    from retinue.actors.runtime.kernel import Kernel
    from retinue.security.context import SecurityContext

__all__ = ["acting", "child_grant", "effective", "from_outside", "guard", "sending"]


def effective(context: SecurityContext, grant: SecurityContext) -> SecurityContext:
    """Rule 1: what a message that was sent under `context` is handled under by an actor with this grant."""
    return context._meet(grant)


def sending(kernel: Kernel, turn: Any, context: SecurityContext | None, target: Cell | None) -> SecurityContext:
    """Rules 2 and 3: the context that a message is sent under.

    Args:
        kernel: The system that it is sent in.
        turn: What is in force where it is sent (`current()`).
        context: The sender's explicit choice, None without one.
        target: The receiver, for the text; None where something is spawned or started.

    Raises:
        Denied: `context` does not descend from the turn's authority.
        ForgedContext: This system's authority did not make `context`.
        NoContext: Nobody's authority is in force, and no context was given.
        SystemClosed: The system has ended.
    """
    if context is not None:
        kernel.authority.check(context)
    if turn.__class__ is Delivery and _in_force(kernel, turn):
        return _within(turn, context, target)
    if context is not None:
        return context
    if turn.__class__ is Roots and turn.of(kernel) and get_ident() == kernel.thread:
        return kernel.root
    if kernel.user.state == DEAD and get_ident() == kernel.thread:
        raise SystemClosed(f"the system {kernel.name!r} has ended; nothing can be sent or spawned in it any more")
    raise NoContext(
        f"nobody's authority is in force here (system {kernel.name!r}): send from a handler or from the task that entered the system, "
        "or pass context= (system.authority.mint(…) makes one)"
    )


def _in_force(kernel: Kernel, turn: Delivery) -> bool:
    """Whether the turn is one of this system that runs in this thread. (A context variable that was copied into a foreign thread is nobody's turn there.)"""
    return turn.cell.kernel is kernel and (turn.thread or kernel.thread) == get_ident()


def _within(turn: Delivery, context: SecurityContext | None, target: Cell | None) -> SecurityContext:
    security = turn.security
    if context is None or context is security or context.descends_from(security):
        return security if context is None else context
    raise Denied(
        f"inside a handler of {turn.cell.path} a message may be sent under the current context or one narrowed from it "
        f"(self.ctx.security.narrow(…)), not under another one (subject {context.subject!r})",
        path=target.path if target is not None else None,
        subject=security.subject,
        reason="lineage",
    )


def from_outside(kernel: Kernel, turn: Any, context: SecurityContext | None, target: Cell) -> SecurityContext:
    """Rule 3 for the twins: whoever holds one holds the system, from any thread that is no handler's."""
    if turn.__class__ is Delivery:  # another system's handler, or a thread that was started in a handler: no authority of its own
        return sending(kernel, turn, context, target)
    if context is None:
        return kernel.root
    kernel.authority.check(context)
    return context


def acting(kernel: Kernel) -> Delivery | None:
    """The turn that calls, None for the system's holder; NoContext for anybody else."""
    turn = current()
    sending(kernel, turn, None, None)
    return turn if turn.__class__ is Delivery else None


def child_grant(kernel: Kernel, turn: Any, asked: Any) -> SecurityContext:
    """Rule 4: the grant of an actor that is being spawned.

    Args:
        kernel: The system.
        turn: What is in force where it is spawned.
        asked: What `spawn(grant=)` was given: permissions, or None for all that the spawner may.
    """
    security = kernel.root if turn is kernel.roots and get_ident() == kernel.thread else sending(kernel, turn, None, None)
    return security if asked is None else security._grant(asked)


def guard(kernel: Kernel) -> None:
    """Rule 5: raises Denied inside a turn. The authority calls it before it makes or takes anything."""
    turn: Any = current()
    if turn.__class__ is not Delivery and get_ident() == kernel.thread:
        # In a context of its own, perhaps (`contextvars.Context().run`), but on the stack of a handler all the same.
        frame = turn_frame(sys._getframe())
        turn = frame.f_locals.get("delivery") if frame is not None else None
    if turn.__class__ is Delivery:
        raise Denied(
            f"inside a handler (of {turn.cell.path}) nothing can mint, approve or revoke; narrow what you have: self.ctx.security.narrow(…)",
            path=turn.cell.path,
            subject=turn.security.subject,
            reason="lineage",
        )
