"""When answers are due: the asker's patience, the deadlines above it, and the end of the authority that a message is handled under.

A request is cut at the first of them, wherever it is by then: one that still waits is withdrawn, a handler that is suspended is cancelled (unless it is shielded), and
a thread is not waited for. A message that nobody waits for has one end only, that of its authority.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import trio

from retinue.actors.runtime.tracing import passed_on
from retinue.mailbox.envelope import Postmark
from retinue.mailbox.messages import message_info
from retinue.security.errors import AuthorityError, Expired
from retinue.security.limits import NEVER, NO_LIMITS

if TYPE_CHECKING:
    from retinue.actors.runtime.current import Delivery
    from retinue.actors.runtime.deadlines import Entry

__all__ = ["bound", "deadline_of", "expired_error", "expiry_of", "handed_on", "timeout_of"]


def timeout_of(delivery: Delivery) -> float:
    """The seconds that the asker gave, else those of the message's own class (its handler may take a base of it), else the system's."""
    timeout = delivery.timeout
    if timeout is None and delivery.handler is not None:
        timeout = message_info(delivery.message.__class__).timeout
    return delivery.cell.kernel.ask_timeout if timeout is None else timeout


def deadline_of(delivery: Delivery) -> float:
    """When the answer must be there: the given or default time-out from now on, never later than the asker's own deadline, or the end of the authority.

    Found at the first suspension: what never suspends never reads the clock.
    """
    postmark = delivery.postmark
    if postmark is None:
        postmark = delivery.postmark = Postmark()
    deadline = postmark.deadline
    if deadline is None:
        asker = delivery.asker
        deadline = trio.current_time() + timeout_of(delivery)
        if asker is not None and asker.asked:  # a message that was told has no deadline, so it hands none on
            sooner = deadline_of(asker)
            if sooner <= deadline:
                deadline = sooner
                postmark.bounded = asker.postmark is not None and asker.postmark.bounded  # what it sends carries the authority that ends
        if delivery.security.permissions.limits is not NO_LIMITS or delivery.cell.grant.permissions.limits is not NO_LIMITS:
            expiry = expiry_of(delivery)
            if expiry <= deadline and expiry != math.inf:
                deadline, postmark.bounded = expiry, True
        postmark.deadline = deadline
    return deadline


def expiry_of(delivery: Delivery) -> float:
    """When the authority of a message ends, its own or the receiver's, in seconds of trio's clock; infinity where it does not."""
    deadline_ms = min(delivery.security.permissions.limits.deadline_ms, delivery.cell.grant.permissions.limits.deadline_ms)
    if deadline_ms == NEVER:
        return math.inf
    now = trio.current_time()
    try:
        return now + (deadline_ms - delivery.cell.kernel.authority.now_ms()) / 1000
    except AuthorityError:  # its clock fails: what cannot be told has ended
        return now


def handed_on(delivery: Delivery, postmark: Postmark) -> Postmark:
    """The postmark of a request that was handed on, as `delivery`, with what its first message had: the deadline stays, unless the authority ends before."""
    copy = Postmark(postmark.approvals, passed_on(postmark))
    copy.deadline, copy.bounded, copy.hints = postmark.deadline, postmark.bounded, postmark.hints
    expiry = expiry_of(delivery)
    if copy.deadline is not None and expiry < copy.deadline:
        copy.deadline, copy.bounded = expiry, True
    return copy


def expired_error(delivery: Delivery, what: str) -> Expired:
    """The refusal of a message whose authority has ended."""
    return Expired(
        f"{type(delivery.message).__qualname__} to {delivery.cell.path}: the authority that it was sent under expired {what}; send it again under a new context",
        operation=delivery.handler.requires if delivery.handler is not None else None,
        path=delivery.cell.path,
        subject=delivery.security.subject,
    )


def bound(delivery: Delivery) -> Entry | None:
    """Arms the end of the authority for a handler that has suspended, where no asker's deadline does it; returns what disarms it."""
    slot = delivery.slot
    if (slot is not None and not slot.detached) or delivery.handler is None or delivery.handler.shield:
        return None
    expiry = expiry_of(delivery)
    if expiry == math.inf:
        return None
    kernel = delivery.cell.kernel

    def cut() -> None:
        suspension = delivery.suspension
        if suspension is not None and delivery.cell.turn is delivery:
            if delivery.postmark is None:
                delivery.postmark = Postmark()
            suspension.expired = delivery.postmark.bounded = True
            kernel.cancel_turn(delivery)

    return kernel.deadlines.add(expiry, cut)
