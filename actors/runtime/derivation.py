"""Derivation: the one place where the authority of a message, a child or a task comes from somebody else's. Nobody else in the runtime makes, meets or narrows one.

The rules. None of them widens; where two authorities meet, what comes out permits what both permit, ends when the first of them ends, is charged to the accounts of
both, and has the labels of both.

1. *Effective* (`effective`). A message is handled under its context met with the receiver's grant. It is computed before the handler sees the message.
2. *Sending* (`sending`). What a turn sends, and what it starts, goes out under the turn's authority, or under a context that descends from it. Another context, however
   wide and whoever's, is refused inside a turn. A retry, a forward, a background task, a pipe: all are sent by a turn, so all carry its authority. So do a timer's
   ticks (of the turn that set it), a topic's messages (of the turn that published, whoever reads them), and what a pool or a group hands on or tries once more (of
   the turn that sent; a group's is within the group's grant besides). What has ended until then is refused then.
3. *Nobody's turn*. The task that entered the system, its children and the twins act under the root context, or any of the system's. Whoever else sends (a foreign
   thread, another system's actor, a system task of trio) has no authority, and must pass a context.
4. *Birth* (`child_grant`). A child's grant is its spawner's authority at that moment, narrowed by what was asked, and one less deep. A restart uses the stored grant.
   So do the workers of a pool, whoever takes the place of one, the instances of virtual actors, and a child that its parent puts in the place of another one of its own
   (`inherited`): whose message wakes or changes one says nothing about its grant, but that the labels of who changes one are added. Who finds an actor by the receptionist has an address, and no authority.
5. *Answers* (`answered`). An answer carries data and labels, never authority: the turn that asked has the labels of the turn that answered from then on. Errors are
   answers too. Labels are only ever added (`taint`), so whatever the turn sends later carries them.
6. *Several parents* (`fan_in`). What several contexts have caused goes out under all of them.
7. *An actor's own authority* (`own_authority`) is its grant, narrowed to one operation of its manifest, with the labels of the turn; for that turn and the messages that
   come of it, never for what outlasts them (`lasting`): no timer, task, subscription or child. It is recorded.
8. *Nothing is made* (`guard`). Inside a turn, hooks and owned tasks included, nothing is minted, revoked, sealed or unsealed.
"""

from __future__ import annotations

import functools
import sys
from threading import get_ident
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypeVar

from retinue.actors.runtime.cell import DEAD
from retinue.actors.runtime.current import Delivery, Roots, current
from retinue.actors.runtime.errors import SystemClosed
from retinue.actors.runtime.stepping import turn_frame
from retinue.security.errors import AuditUnavailable, Denied, Expired, ForgedContext, NoContext
from retinue.security.limits import DEFAULT_DEPTH, NO_LIMITS
from retinue.security.restrictions import allow, label, limit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from retinue.actors.runtime.cell import Cell
    from retinue.actors.runtime.kernel import Kernel
    from retinue.security.context import SecurityContext
    from retinue.security.restrictions import Restriction

__all__ = [
    "acting",
    "answered",
    "check_alive",
    "child_grant",
    "effective",
    "fan_in",
    "from_outside",
    "guard",
    "holding",
    "inherited",
    "lasting",
    "lasts",
    "own_authority",
    "received",
    "restrict",
    "sending",
    "taint",
]

MAX_LEVELS: Final = 32
"""Levels of actors below `/user`, whatever the limits of whoever spawns."""


P = ParamSpec("P")
T = TypeVar("T")


def _on_record(rule: Callable[Concatenate[Kernel, P], T]) -> Callable[Concatenate[Kernel, P], T]:
    """A rule whose refusals are audited before they are answered: the gate never hears of what is refused here."""

    @functools.wraps(rule)
    def recorded(kernel: Kernel, /, *arguments: P.args, **keywords: P.kwargs) -> T:
        try:
            return rule(kernel, *arguments, **keywords)
        except AuditUnavailable:
            raise
        except (Denied, NoContext) as error:
            refusal = kernel.book.refused(error)
            if refusal is error:
                raise
        raise refusal

    return recorded


# -- messages --------------------------------------------------------------------------------------------------------------------------------------


def effective(context: SecurityContext, grant: SecurityContext) -> SecurityContext:
    """Rule 1: what a message that was sent under `context` is handled under by an actor with this grant. (Where one of them is forged: `context`, which the gate
    refuses then, on record.)
    """
    try:
        return context._meet(grant)
    except ForgedContext:
        return context


def sending(kernel: Kernel, turn: Any, context: SecurityContext | None, target: Cell | None) -> SecurityContext:
    """Rules 2 and 3: the context that a message is sent under.

    Args:
        kernel: The system that it is sent in.
        turn: What is in force where it is sent (`current()`).
        context: The sender's explicit choice, None without one.
        target: The receiver, for the text; None where something is spawned or started.

    Raises:
        Denied: `context` does not descend from the turn's authority, or is an actor's own, outside the turn that took it.
        ForgedContext: This system's authority did not make `context`.
        Revoked: `context` was revoked.
        NoContext: Nobody's authority is in force, and no context was given.
        SystemClosed: The system has ended.
    """
    if context is None:  # as nearly always: nothing of this can be refused
        if turn.__class__ is Delivery and _in_force(kernel, turn):
            return turn.security
        if turn is kernel.roots and get_ident() == kernel.thread:
            return kernel.root
    return _sending_on_record(kernel, turn, context, target)


def _sending(kernel: Kernel, turn: Any, context: SecurityContext | None, target: Cell | None) -> SecurityContext:
    if context is not None:
        kernel.authority.check(context)
    if turn.__class__ is Delivery and turn.cell.kernel is kernel and (context is not None or _in_force(kernel, turn)):
        # Also in a thread that a handler has started: it has no authority there, and no way out of the turn's either.
        return _within(kernel, turn, context, target)
    if context is not None:
        return _given(kernel, context, target)
    if turn.__class__ is Roots and turn.of(kernel) and get_ident() == kernel.thread:
        return kernel.root
    if kernel.user.state == DEAD and get_ident() == kernel.thread:
        raise SystemClosed(f"the system {kernel.name!r} has ended; nothing can be sent or spawned in it any more")
    raise NoContext(
        f"nobody's authority is in force here (system {kernel.name!r}): send from a handler or from the task that entered the system, "
        "or pass context= (system.authority.mint(…) makes one)"
    )


_sending_on_record = _on_record(_sending)


@_on_record
def lasting(kernel: Kernel, turn: Delivery, context: SecurityContext | None, target: Cell) -> SecurityContext:
    """Rule 2 for what outlasts the turn, such as a timer's ticks: as `sending`, but an actor's own authority (rule 7) is not for that, nor what has come of it."""
    if kernel.owned:
        if context is not None:
            kernel.authority.check(context)
            _given(kernel, context, target)
        _check_lasts(kernel, turn.security, target)
    return _sending(kernel, turn, context, target)


def lasts(kernel: Kernel, turn: Delivery) -> SecurityContext:
    """The turn's authority, for a task or a subscription that outlasts it. Raises Denied where it is an actor's own (rule 7), or has come of one."""
    if kernel.owned:
        _lasts_on_record(kernel, turn)
    return turn.security


def _check_lasts(kernel: Kernel, security: SecurityContext, target: Cell) -> None:
    if _own(kernel, security) is not None:
        raise Denied(
            f"{target.path} handles this message under an actor's own authority (self.ctx.own_authority(…)), which ends with the messages that carry it: nothing that "
            "outlasts them is begun under it, no timer, task, subscription or child. Do it before, in on_start for one, or answer within the handler",
            path=target.path,
            subject=security.subject,
            reason="lineage",
        )


@_on_record
def from_outside(kernel: Kernel, turn: Any, context: SecurityContext | None, target: Cell | None) -> SecurityContext:
    """Rule 3 for the twins: whoever holds one holds the system, from any thread that is no handler's."""
    if turn.__class__ is Delivery:  # another system's handler, or a thread that was started in a handler: no authority of its own
        return _sending(kernel, turn, context, target)
    if context is None:
        return kernel.root
    kernel.authority.check(context)
    return _given(kernel, context, target)


def acting(kernel: Kernel) -> Delivery | None:
    """The turn that calls, None for the system's holder; NoContext for anybody else."""
    turn = current()
    sending(kernel, turn, None, None)
    return turn if turn.__class__ is Delivery else None


def _in_force(kernel: Kernel, turn: Delivery) -> bool:
    """Whether the turn is one of this system that runs in this thread. (A context variable that was copied into a foreign thread is nobody's turn there.)"""
    return turn.cell.kernel is kernel and (turn.thread or kernel.thread) == get_ident()


def _within(kernel: Kernel, turn: Delivery, context: SecurityContext | None, target: Cell | None) -> SecurityContext:
    security = turn.security
    if context is None or context is security:
        return security
    own = _own(kernel, context) if kernel.owned else None
    if own is not None and kernel.owned[own] is turn and not _is_over(turn):
        missing = security.labels - context.labels
        return context.narrow(label(*missing)) if missing else context
    if own is not None and not security.descends_from(own):
        raise _foreign(turn, context, target)
    if context.descends_from(security):
        return context
    if security.labels and context.descends_from(_unlabelled(security)):
        return context.narrow(security)  # narrowed before the labels came; it may not do without them
    raise _foreign(turn, context, target)


def _is_over(turn: Delivery) -> bool:
    """Whether the message was handled to its end: what goes on under its authority is a task that its handler has left behind."""
    return turn.handler is not None and turn.cell.turn is not turn


def _given(kernel: Kernel, context: SecurityContext, target: Cell | None) -> SecurityContext:
    """A context from outside any turn; an actor's own is nobody else's."""
    if kernel.owned and _own(kernel, context) is not None:
        raise Denied(
            "this context is an actor's own authority (self.ctx.own_authority(…)), which nobody can use outside the turn that took it",
            path=target.path if target is not None else None,
            subject=context.subject,
            reason="lineage",
        )
    return context


def _own(kernel: Kernel, context: SecurityContext) -> SecurityContext | None:
    """The context itself or the nearest that it descends from which a turn took as its actor's own authority, if there is one."""
    step: SecurityContext | None = context
    while step is not None and step not in kernel.owned:
        step = step.parent
    return step


def _unlabelled(security: SecurityContext) -> SecurityContext:
    """The farthest ancestor that differs by nothing but labels."""
    permissions, accounts = security.permissions, security.accounts
    above = security.parent
    while (
        above is not None
        and above.accounts is accounts
        and above.permissions.layers == permissions.layers
        and above.permissions.limits == permissions.limits
    ):
        security = above
        above = security.parent
    return security


def _foreign(turn: Delivery, context: SecurityContext, target: Cell | None) -> Denied:
    return Denied(
        f"inside a handler of {turn.cell.path} a message may be sent under the current context or one narrowed from it "
        f"(self.ctx.security.narrow(…)), not under another one (subject {context.subject!r})",
        path=target.path if target is not None else None,
        subject=turn.security.subject,
        reason="lineage",
    )


def fan_in(context: SecurityContext, others: Iterable[SecurityContext]) -> SecurityContext:
    """Rule 6: for what several contexts have caused together."""
    return context.narrow(*others)


# -- labels ----------------------------------------------------------------------------------------------------------------------------------------


def taint(kernel: Kernel, turn: Delivery, labels: Iterable[str]) -> None:
    """Rule 5: adds labels to the turn. Raises ConstraintError for what is no label."""
    turn.security = turn.security.narrow(label(*labels))
    kernel.labelled = True


def restrict(turn: Delivery, restrictions: Iterable[Restriction]) -> None:
    """Rule 2, for a turn that will do with less from here on."""
    turn.security = turn.security.narrow(*restrictions)


def answered(delivery: Delivery, labels: frozenset[str] = frozenset()) -> None:
    """Rule 5: the turn that waits for the answer to `delivery` gets the labels of the turn that gives it, and `labels`.

    Called with each answer, once `kernel.labelled` says that there are labels in the system at all.
    """
    asker = delivery.asker
    if asker is not None:
        received(asker, delivery, labels)


def received(turn: Delivery, delivery: Delivery, labels: frozenset[str] = frozenset()) -> None:
    """The same for a turn that is known: a stream's item, say, which whoever reads it gets."""
    missing = (delivery.security.labels | labels) - turn.security.labels
    if missing:
        turn.security = turn.security.narrow(label(*missing))


# -- actors ----------------------------------------------------------------------------------------------------------------------------------------


def child_grant(kernel: Kernel, turn: Any, parent: Cell, asked: Any, levels: int = 1) -> SecurityContext:
    """Rule 4: the grant of an actor that is being spawned.

    Args:
        kernel: The system.
        turn: What is in force where it is spawned.
        parent: Under whom.
        asked: What `spawn(grant=)` was given: permissions, or None for all that the spawner may.
        levels: How many levels of actors there will be with this grant: two for a region and its virtual actors.

    Raises:
        Denied: The depth of the spawner's authority is used up, there would be more than 32 levels of actors, or it is an actor's own authority (rule 7).
        Revoked, Expired: The spawner's authority has ended.
        DefinitionError, PatternError: `asked` is malformed.
    """
    if asked is None and turn is kernel.roots and get_ident() == kernel.thread and kernel.root.permissions.limits is NO_LIMITS:
        return kernel.root  # as nearly always
    return _child_grant(kernel, turn, parent, asked, levels)


@_on_record
def inherited(kernel: Kernel, turn: Any, former: Cell, parent: Cell) -> SecurityContext:
    """Rule 4: the grant of an actor that takes the place of another child of the same parent, with the labels of the turn in which it does: what it is made with comes
    from there. Raises Denied for what is none, and Revoked, Expired.
    """
    grant = former.grant
    if former.parent is not parent:
        raise Denied(
            f"{parent.path} may not put an actor in the place of {former.path}, which is no child of its own",
            path=parent.path,
            subject=grant.subject,
            reason="lineage",
        )
    check_alive(kernel, grant, parent)
    missing = turn.security.labels - grant.labels if turn.__class__ is Delivery else None
    return grant.narrow(label(*missing)) if missing else grant


@_on_record
def _child_grant(kernel: Kernel, turn: Any, parent: Cell, asked: Any, levels: int) -> SecurityContext:
    if turn is kernel.roots and get_ident() == kernel.thread:
        grant = kernel.root
        if grant.permissions.limits is not NO_LIMITS:
            check_alive(kernel, grant, parent)
    else:
        grant = _sending(kernel, turn, None, None)
        if kernel.owned:
            _check_lasts(kernel, grant, parent)
        check_alive(kernel, grant, parent)
        _check_level(parent, grant, levels)
    if asked is not None:
        grant = grant._grant(asked)
    depth = grant.permissions.limits.depth
    if depth < DEFAULT_DEPTH:
        if depth == 0:
            raise Denied(
                f"{parent.path} may not spawn under this authority: its limit(depth=…) is used up. Let an actor spawn that is nearer to where it was given.",
                path=parent.path,
                subject=grant.subject,
                reason="depth",
            )
        grant = grant._grant(("**", limit(depth=depth - 1)))
    return grant


def check_alive(kernel: Kernel, security: SecurityContext, cell: Cell) -> None:
    """Raises Revoked or Expired where an authority has ended, for what no gate stands in front of."""
    kernel.authority.check(security)
    if kernel.authority.expired(security):
        raise Expired(f"the authority that {cell.path} acts under has expired; nothing was done", path=cell.path, subject=security.subject)


def _check_level(parent: Cell, grant: SecurityContext, levels: int) -> None:
    level = levels
    above = parent.parent
    while above is not None:
        level += 1
        above = above.parent
    if level > MAX_LEVELS:
        raise Denied(
            f"{parent.path} is {MAX_LEVELS} levels below /user, and no actor lives deeper: actors that spawn each other without end stop here",
            path=parent.path,
            subject=grant.subject,
            reason="depth",
        )


@_on_record
def own_authority(kernel: Kernel, turn: Delivery, operation: str) -> SecurityContext:
    """Rule 7: the actor's own authority for one operation of its manifest, in this turn.

    Raises:
        Denied: The operation is not in the manifest, or the grant does not permit it.
        Revoked, Expired: The turn's authority, or the grant, has ended.
        AuditUnavailable: It could not be recorded.
    """
    cell = turn.cell
    manifest = cell.spec.cls.internal_operations
    if operation not in manifest:
        raise Denied(
            f"{cell.path} may not take its own authority for {operation!r}: its class names {', '.join(manifest) or 'no operations'} in internal_operations",
            operation=operation if isinstance(operation, str) else None,
            path=cell.path,
            subject=turn.security.subject,
        )
    check_alive(kernel, turn.security, cell)
    check_alive(kernel, cell.grant, cell)
    labels = turn.security.labels
    own = cell.grant.narrow(allow(operation), *((label(*labels),) if labels else ()))
    if not own.permissions.may_permit(operation):
        raise Denied(
            f"{cell.path} may not take its own authority for {operation!r}: {cell.grant.explain(operation)} That is its grant.",
            operation=operation,
            path=cell.path,
            subject=turn.security.subject,
        )
    if own is cell.grant:  # all that the grant permits; yet the grant itself is not this turn's alone
        own = own._registry.derive(own, own.permissions, "narrow", own.accounts)
    kernel.book.amplified(own, operation, cell.path, turn.security)
    kernel.owned[own] = turn
    return own


@_on_record
def holding(kernel: Kernel) -> None:
    """Rule 8 for what only the system's holder does, and only in the system's own thread: besides `guard`, there must be evidence that it is the holder who calls.

    The task that entered the system, its children, and what they give the twins and the gateway to run, have the root mark. Whoever has left a handler's context
    behind (a system task of trio, a thread of his own that comes back) has none.

    Raises:
        Denied: It is a turn's code.
        NoContext: Nobody's authority is in force.
        SystemClosed: The system has ended.
    """
    _guard(kernel)
    turn = current()
    if kernel.thread and (turn.__class__ is not Roots or not turn.of(kernel)):
        if kernel.user.state == DEAD:
            raise SystemClosed(f"the system {kernel.name!r} has ended; nothing can be decided in it any more")
        raise NoContext(
            f"nothing shows that it is the holder of the system {kernel.name!r} who decides here: approve, reject and look at requests in the task that entered "
            "the system or in one that it started, through a twin, or at the gateway"
        )


def guard(kernel: Kernel) -> None:
    """Rule 8: raises Denied inside a turn. The authority calls it before it makes or takes anything."""
    _guard_on_record(kernel)


def _guard(kernel: Kernel) -> None:
    turn: Any = current()
    if turn.__class__ is not Delivery and get_ident() == kernel.thread:
        # In a context of its own, perhaps (`contextvars.Context().run`), but on the stack of a handler all the same.
        frame = turn_frame(sys._getframe())
        turn = frame.f_locals.get("delivery") if frame is not None else None
    if turn.__class__ is Delivery:
        raise Denied(
            f"inside a handler (of {turn.cell.path}) nothing can mint, approve, revoke, seal, unseal or declare; "
            "narrow what you have: self.ctx.security.narrow(…)",
            path=turn.cell.path,
            subject=turn.security.subject,
            reason="lineage",
        )


_guard_on_record = _on_record(_guard)
_lasts_on_record = _on_record(lambda kernel, turn: _check_lasts(kernel, turn.security, turn.cell))
