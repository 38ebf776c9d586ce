"""Approval tokens in the hands of a handler that must not see them: `self.ctx.approvals`, and what `self.ctx.decision` finds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, final

from retinue.actors.runtime.current import Delivery, current
from retinue.security.errors import DefinitionError

if TYPE_CHECKING:
    from retinue.actors.runtime.cell import Cell

__all__ = ["Approvals", "CarriedApprovals", "carried", "carry"]


@final
class CarriedApprovals:
    """Approval tokens that an actor may pass on, and not look at: `await ref.ask(message, approvals=self.ctx.approvals)`.

    Good in the handlers of the actor that got them, and nowhere else. Two of them can be added. It has a length and no more to show, cannot be copied, pickled or sent.
    A token is good for one call, with the very arguments that were consented to; where it fits nothing it does nothing.
    """

    __slots__ = ("__cell", "__tokens")
    __cell: Cell
    __tokens: tuple[str, ...]

    def __init__(self, *_: object) -> None:
        raise DefinitionError(
            "approvals that are passed on come from self.ctx.approvals or self.ctx.decision(…), and are never made by hand"
        )

    def __len__(self) -> int:
        return len(self.__tokens)

    def __add__(self, other: CarriedApprovals) -> CarriedApprovals:
        if not isinstance(other, CarriedApprovals):
            return NotImplemented
        if other.__cell is not self.__cell:
            raise DefinitionError("these approvals are of two actors")
        return carry(self.__cell, tuple(dict.fromkeys((*self.__tokens, *other.__tokens))))

    def __repr__(self) -> str:
        return f"<{len(self.__tokens)} approval{'' if len(self.__tokens) == 1 else 's'} to pass on>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("approvals that an actor passes on cannot be copied or pickled")

    def __copy__(self) -> NoReturn:
        self.__reduce__()

    def __deepcopy__(self, _: object) -> NoReturn:
        self.__reduce__()


def carry(cell: Cell, tokens: tuple[str, ...]) -> CarriedApprovals:
    """The tokens, for an actor to pass on."""
    made: Any = CarriedApprovals.__new__(CarriedApprovals)
    made._CarriedApprovals__cell = cell
    made._CarriedApprovals__tokens = tokens
    return made  # type: ignore[no-any-return]


def carried(approvals: Any, most: int) -> tuple[str, ...]:
    """The tokens that are passed on, at most so many. Raises DefinitionError where the actor did not get them itself."""
    turn = current()
    if turn.__class__ is not Delivery or turn.cell is not approvals._CarriedApprovals__cell:
        raise DefinitionError(
            f"{approvals!r} are for the handlers of the actor that got them: approvals=self.ctx.approvals, in one of those"
        )
    tokens: tuple[str, ...] = approvals._CarriedApprovals__tokens
    if len(tokens) > most:
        raise DefinitionError(f"{approvals!r} are more than the {most} that go with a message")
    return tokens


Approvals: TypeAlias = Sequence[str] | CarriedApprovals
"""What `approvals=` takes."""
