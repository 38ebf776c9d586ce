"""Reply slots in the hands of users: what `ctx.defer()` returns."""

from __future__ import annotations

from collections.abc import Callable
from threading import get_ident
from typing import TYPE_CHECKING, Any

from retinue.actors.runtime.asks import DONE
from retinue.actors.runtime.current import Delivery, current
from retinue.actors.runtime.depths import STEP_DEPTH, check_stack
from retinue.actors.runtime.derivation import answered
from retinue.actors.runtime.errors import AskCancelled, SystemClosed
from retinue.actors.runtime.outcomes import without_cancelled
from retinue.security.errors import DefinitionError

if TYPE_CHECKING:
    from retinue.actors.runtime.asks import AskSlot

__all__ = ["Deferred"]

_NO_LABELS: frozenset[str] = frozenset()


class Deferred:
    """A reply slot that a handler took away to answer later. Single use, and bound to this incarnation of the actor.

    The asker's deadline goes on; an answer that comes late, or after the actor restarted, is a dead letter. Any thread may answer.
    """

    __slots__ = ("_slot",)

    def __init__(self, slot: AskSlot) -> None:
        self._slot = slot

    @property
    def wanted(self) -> bool:
        """Whether an answer is still of use: somebody waits for it, or the request is detached and goes on whoever waits."""
        return self._slot.detached or self._slot.stage < DONE

    def reply(self, value: object) -> bool:
        """Answers; False where nobody waits any more."""
        return self._in_loop(self._slot.answer, value)

    def fail(self, error: BaseException) -> bool:
        """Answers with an error; False where nobody waits any more. A cancellation does not cross: the asker gets AskCancelled for it."""
        if not isinstance(error, BaseException):
            raise DefinitionError(f"fail() takes an exception instance, not {error!r}")
        answer = without_cancelled(error)
        if answer is None:
            delivery = self._slot.delivery
            path = delivery.cell.path
            text = f"what worked on {type(delivery.message).__qualname__} for {path} was cancelled; the outcome is unknown"
            answer = AskCancelled(text, path=path, begun=True)
        return self._in_loop(self._slot.fail, answer)

    def _in_loop(self, settle: Callable[[Any], bool], outcome: object) -> bool:
        kernel = self._slot.kernel
        check_stack(STEP_DEPTH)
        turn = current()
        labels = turn.security.labels if kernel.labelled and turn.__class__ is Delivery else _NO_LABELS
        if get_ident() == kernel.thread:
            return self._settle(settle, outcome, labels)
        try:
            return kernel.portal.call(self._settle, settle, outcome, labels)  # type: ignore[no-any-return]
        except SystemClosed:
            return False  # the asker was told so

    def _settle(self, settle: Callable[[Any], bool], outcome: object, labels: frozenset[str]) -> bool:
        if self._slot.kernel.labelled:
            answered(self._slot.delivery, labels)  # of whoever answers, and of the turn that deferred
        return settle(outcome)
