"""Ending a turn from outside: what an actor leaves with somebody who may have to interrupt the work that it has in hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from retinue.actors.runtime.asks import AskSlot

if TYPE_CHECKING:
    from retinue.actors.runtime.current import Delivery

__all__ = ["Interrupter"]


@final
class Interrupter:
    """Interrupts one turn, from the system's own thread. Made by `self.ctx.interrupter()`.

    Attributes:
        used: Whether it was used.
    """

    __slots__ = ("_turn", "used")

    def __init__(self, turn: Delivery) -> None:
        self._turn = turn
        self.used = False

    def __call__(self, error: Exception) -> bool:
        """Cancels the turn, as if its asker had given up; the asker gets this error. False where the turn has ended, or was interrupted before."""
        turn = self._turn
        if self.used or turn.cell.turn is not turn:
            return False
        self.used = True
        if turn.postmark is not None and turn.postmark.span is not None:
            turn.postmark.span.fail(type(error).__qualname__)
        slot = turn.slot
        if isinstance(slot, AskSlot):
            slot.turn_away(error)
        else:
            turn.cell.kernel.cancel_turn(turn)
        return True
