"""What a sender is told at once about a message that it sent."""

from __future__ import annotations

from typing import Final, final

__all__ = ["ACCEPTED", "CLOSED", "DENIED", "DROPPED_NEWEST", "EXPIRED", "FULL", "HANDED_OVER", "MISPLACED", "STOPPED", "Receipt"]


@final
class Receipt:
    """What became of a tell, as far as that can be known at once. True where the message was accepted.

    Attributes:
        accepted: The message waits in the target's mailbox. (It may still be dropped or refused later: then it is a dead letter.)
        reason: None when accepted, else the dead letter's reason: "stopped", "mailbox_full", "dropped_newest", "denied" or "expired" (by the gate, before a
            virtual actor was activated), "system_closed", "poison" (it waited for room, and the mailbox's key failed on it). A message handed over from another thread is accepted with the reason "handed_over": its place
            in the mailbox is decided a moment later.

    Two receipts that say the same are equal; a copy is the receipt itself.
    """

    __slots__ = ("accepted", "reason")

    accepted: bool
    reason: str | None

    def __init__(self, accepted: bool, reason: str | None) -> None:
        object.__setattr__(self, "accepted", accepted)
        object.__setattr__(self, "reason", reason)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a receipt cannot be changed")

    def __copy__(self) -> Receipt:
        return self

    def __deepcopy__(self, _: object) -> Receipt:
        return self

    def __reduce__(self) -> tuple[type[Receipt], tuple[bool, str | None]]:
        return Receipt, (self.accepted, self.reason)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Receipt):
            return NotImplemented
        return self.accepted == other.accepted and self.reason == other.reason

    def __hash__(self) -> int:
        return hash((self.accepted, self.reason))

    def __bool__(self) -> bool:
        return self.accepted

    def __repr__(self) -> str:
        return f"Receipt(accepted={self.accepted}, reason={self.reason!r})"


ACCEPTED: Final = Receipt(True, None)
HANDED_OVER: Final = Receipt(True, "handed_over")
STOPPED: Final = Receipt(False, "stopped")
FULL: Final = Receipt(False, "mailbox_full")
DROPPED_NEWEST: Final = Receipt(False, "dropped_newest")
DENIED: Final = Receipt(False, "denied")
EXPIRED: Final = Receipt(False, "expired")
CLOSED: Final = Receipt(False, "system_closed")
MISPLACED: Final = Receipt(False, "poison")
