"""What becomes of a message whose handler has ended: an answer, a failure, a cancellation. Every message ends here in exactly one place."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import trio

from retinue.actors.runtime import lifecycle
from retinue.actors.runtime.asks import ABANDONED, TakenSlot
from retinue.actors.runtime.cell import DEAD
from retinue.actors.runtime.cycles import drop_wait
from retinue.actors.runtime.derivation import answered
from retinue.actors.runtime.due import expired_error
from retinue.actors.runtime.errors import ActorStopped, AskCancelled, AskTimeout, Reject
from retinue.actors.runtime.handlers import GENERATOR
from retinue.actors.runtime.stepping import call, drive, enter, odd_exit
from retinue.actors.runtime.streams import pump
from retinue.actors.runtime.supervision import is_a, leaves
from retinue.security.errors import AuthorityError, Expired

if TYPE_CHECKING:
    from retinue.actors.runtime.cell import Cell
    from retinue.actors.runtime.current import Delivery
    from retinue.actors.runtime.kernel import Kernel

__all__ = ["conclude", "conclude_error", "late_value", "noted", "run_special", "scope_left_open", "settle_late", "without_cancelled"]

_log = logging.getLogger("retinue.runtime")


def noted(kernel: Kernel, delivery: Delivery, value: Any) -> None:
    """A message that nobody waits for was handled: notes that, where anything does."""
    kernel.event(delivery.cell, "handled", type(delivery.message).__qualname__)
    if kernel.tracer is not None:
        kernel.tracer.end(delivery, value, None)


def conclude(kernel: Kernel, cell: Cell, delivery: Delivery, value: Any) -> None:
    """A handler returned and somebody waits for its value."""
    if kernel.tracer is not None:
        kernel.tracer.end(delivery, value, None)
    _count(kernel, cell)
    kernel.event(cell, "handled", type(delivery.message).__qualname__)
    slot = delivery.slot
    if slot is None:
        return
    if kernel.labelled:
        answered(delivery)
    if (
        kernel.loopback is not None
        and slot.__class__ is not TakenSlot  # somebody else answers
        and not delivery.handler.streams  # its items were, one by one
        and not kernel.household.owns(cell)
    ):
        try:
            value = kernel.loopback.reply(delivery, value)
        except Exception as error:
            slot.fail(error)
            return
    slot.answer(value)
    if slot.delivery is delivery:
        delivery.message = delivery.source = None


def conclude_error(kernel: Kernel, cell: Cell, delivery: Delivery, error: BaseException) -> BaseException:
    """A handler raised. Settles the message, tells the asker and the supervision; returns what the asker gets."""
    try:
        return _conclude_error(kernel, cell, delivery, error)
    except GeneratorExit as closed:
        if kernel.tracer is not None:
            kernel.tracer.end(delivery, None, closed)
        raise
    except Exception as odd:  # an exception's own methods are anybody's code; the message must end all the same
        _log.exception("%s: the error of its handler could not be dealt with", cell.path)
        slot = delivery.slot
        if slot is not None and slot.stage < ABANDONED:
            slot.fail(odd)
        if cell.state != DEAD and not cell.closed:
            lifecycle.fail(cell, odd)
        return odd


def _conclude_error(kernel: Kernel, cell: Cell, delivery: Delivery, error: BaseException) -> BaseException:
    if is_a(error, GeneratorExit):
        if delivery.suspension is not None:
            raise error  # its coroutine is being closed
        error = odd_exit(error)
    failure = without_cancelled(error)
    if failure is None and kernel.faults is not None:
        failure = kernel.faults.killed(delivery)
    if kernel.tracer is not None:
        kernel.tracer.end(delivery, None, _cancellation(cell, delivery) if failure is None or delivery.expired else failure)
    if failure is None:
        if (
            cell.closed and not delivery.expired and cell.hand_back(delivery)
        ):  # the worker is being stopped, and the message goes to another
            kernel.door.tally.unhandled(cell)
            return error
        answer: BaseException = _cancellation(cell, delivery)
        _settle(kernel, cell, delivery, answer, "expired" if delivery.expired else "cancelled")
        _let_go(delivery)
        return answer
    _undo_stash(kernel, cell, delivery)
    answer = failure
    if delivery.expired:
        answer = _cancellation(cell, delivery)
    fatal = next((leaf for leaf in leaves(failure) if is_a(leaf, (SystemExit, KeyboardInterrupt))), None)
    own = fatal is not None and kernel.household.owns(cell)
    if fatal is not None:
        ends = "which ends it" if own else "which ends the whole system"
        answer = ActorStopped(f"{cell.path} raised {type(fatal).__name__}, {ends}", path=cell.path, begun=True)
        answer.__cause__ = fatal
    denied = is_a(failure, AuthorityError) and delivery.handler is not None
    if fatal is None and not delivery.expired and not _is_answer(delivery, failure) and cell.hand_back(delivery):
        kernel.door.tally.unhandled(cell)
        label = type(delivery.message).__qualname__
        _log.warning("%s failed on %s (%s), which another worker gets now", cell.path, label, type(failure).__qualname__)
        lifecycle.fail(cell, failure)
        _let_go(delivery)
        return answer
    _settle(kernel, cell, delivery, answer, "poison" if not denied else "expired" if is_a(failure, Expired) else "denied")
    if denied and cell.extra is not None and cell.extra.timers is not None:
        cell.extra.timers.refused(delivery, failure)
    if fatal is not None and not own:
        kernel.crash(fatal)
        lifecycle.request_stop(cell, lifecycle.FAILED, fatal)
    elif not _is_answer(delivery, failure):
        lifecycle.fail(cell, failure)
    if not delivery.asked and not denied:
        _log.error("%s failed on %s", cell.path, type(delivery.message).__qualname__, exc_info=failure)
    _let_go(delivery)
    return answer


def settle_late(kernel: Kernel) -> None:
    """Settles what askers could not, for their stacks were full: their own errors are raised already."""
    while kernel.unsettled is not None:
        delivery, error, kernel.unsettled = kernel.unsettled
        cell = delivery.cell
        if delivery.asker is not None:
            drop_wait(delivery.asker, delivery)
        try:
            conclude_error(kernel, cell, delivery, error)
        except BaseException:  # the error's own methods are anybody's code, and this is the scheduler's task
            _log.exception("%s: what had failed in its asker's task could not be settled", cell.path)
        cell.settle()


def _let_go(delivery: Delivery) -> None:
    """The cell's context holds the turn until the next one: not its payload, too. (An answer that was taken away needs it for its texts.)"""
    if not isinstance(delivery.slot, TakenSlot):
        delivery.message = None


def _undo_stash(kernel: Kernel, cell: Cell, delivery: Delivery) -> None:
    """A handler that stashed its message and then failed has consumed it: else the message would come back after each restart, to fail again."""
    taken = delivery.slot
    again = taken.again if isinstance(taken, TakenSlot) else None
    if again is None or again not in (extra := cell.extras()).stash:
        return
    extra.stash.remove(again)
    if again.slot is not None and again.slot.withdrawn:
        extra.withdrawn -= 1  # its asker gave up in the meantime, so it is a dead letter already
    else:
        kernel.sent -= 1
    if not taken.real:
        delivery.slot = None  # it was told


def _count(kernel: Kernel, cell: Cell) -> None:
    if cell.state == DEAD:  # it was abandoned while this message was in progress, and its own counts are taken already
        if kernel.household.owns(cell):
            kernel.household.handled += 1
        else:
            kernel.retired_handled += 1
    else:
        cell.handled += 1


def _settle(kernel: Kernel, cell: Cell, delivery: Delivery, answer: BaseException, reason: str) -> None:
    if not delivery.asked:
        kernel.record(reason, delivery, answer)
        kernel.door.tally.unhandled(cell)
        return
    if kernel.labelled:
        answered(delivery)
    _count(kernel, cell)
    kernel.event(cell, "handled", f"{type(delivery.message).__qualname__}: {type(answer).__name__}")
    slot = delivery.slot
    if slot is not None and slot.stage != ABANDONED:
        slot.fail(answer)


def _cancellation(cell: Cell, delivery: Delivery) -> BaseException:
    label = type(delivery.message).__qualname__
    if delivery.expired:
        bounded = delivery.postmark is not None and delivery.postmark.bounded
        before = "before its authority expired" if bounded else "before the deadline"
        text = f"{cell.path} did not answer {label} {before}; the handler was cancelled, the outcome is unknown"
        error = AskTimeout(text, path=cell.path, begun=True)
        if bounded:
            error.__cause__ = expired_error(delivery, "while it was handled")
        return error
    if cell.closed or cell.kernel.closing:
        return ActorStopped(f"{cell.path} was stopped while it handled {label}; the outcome is unknown", path=cell.path, begun=True)
    return AskCancelled(f"{cell.path} was cancelled while it handled {label}; the outcome is unknown", path=cell.path, begun=True)


def _is_answer(delivery: Delivery, failure: BaseException) -> bool:
    """Whether the error is an answer and no failure of this actor: declared, a refusal, or itself received as an answer."""
    handler = delivery.handler
    declared: tuple[type[BaseException], ...] = (Reject, AuthorityError, *(handler.raises if handler is not None else ()))
    received = delivery.received or ()
    if any(failure is one for one in received):
        return True
    return all(is_a(leaf, declared) or any(leaf is one for one in received) for leaf in leaves(failure))


def late_value(delivery: Delivery, value: Any) -> BaseException:
    """The handler outlived its cancellation and returned after the deadline: its answer is late, which is no failure, and the asker gets this error."""
    cell = delivery.cell
    cell.handled += 1
    if cell.kernel.labelled:
        answered(delivery)
    if delivery.slot is None:
        cell.kernel.late_reply(delivery, value, None)
    return AskTimeout(
        f"{cell.path} did not answer {type(delivery.message).__qualname__} before the deadline; the handler went on although it was cancelled, "
        "and its answer came too late"
    )


def scope_left_open(delivery: Delivery) -> RuntimeError:
    """The failure of a handler that ended without leaving all the cancel scopes that it had entered."""
    return RuntimeError(
        f"the handler of {delivery.cell.path} for {type(delivery.message).__qualname__} entered a cancel scope and never left it; write `with trio.CancelScope(): …`"
    )


def without_cancelled(error: BaseException) -> BaseException | None:
    """The error without the parts that are trio's cancellation; None where nothing else is in it.

    A Cancelled that crossed a reply slot would silently cancel the asker's nursery.
    """
    parts = list(leaves(error))
    kept = [leaf for leaf in parts if not is_a(leaf, trio.Cancelled)]
    if len(kept) == len(parts):
        return error
    if not kept:
        return None
    try:
        rest: BaseException | None = error.split(trio.Cancelled)[1]  # type: ignore[attr-defined]  # a group: it has several leaves, or one inside it
    except Exception:  # a group's own `split` or `derive` is anybody's code
        rest = None
    return rest if rest is not None else BaseExceptionGroup("a handler failed while it was being cancelled", kept)


async def _admit_in_turn(kernel: Kernel, run: Callable[..., Any], delivery: Delivery) -> None:
    """Waits for the gate before an actor's own thread gets the message."""
    coroutine = run(call, delivery, kernel.door.admit_waiting, (delivery,), {})
    try:
        trap = run(coroutine.send, None)
    except StopIteration:
        return
    await drive(run, coroutine, trap, kernel, delivery)


async def run_special(kernel: Kernel, cell: Cell, delivery: Delivery) -> Any:
    """Runs a turn of a handler that is neither a plain nor a simple async one: a stream, or one that runs in the actor's thread."""
    handler = delivery.handler
    assert handler is not None and cell.context is not None and cell.actor is not None
    if handler.kind == GENERATOR:
        return await pump(kernel, cell, delivery)
    assert cell.extra is not None
    host = cell.extra.host
    run: Callable[..., Any] = cell.context.run
    if handler.awaits:
        await _admit_in_turn(kernel, run, delivery)
    kernel.lookers -= 1  # as in stepping.drive: while this worker waits for the thread, another one looks after the ready queue
    if kernel.ready and not kernel.lookers:
        kernel.wake()
    try:
        value = await host.run(delivery, run, enter, delivery, handler.function, cell.actor, delivery.message)
    except BaseException as error:
        kernel.door.ended(delivery, error)
        raise
    else:
        kernel.door.ended(delivery, None)
        return value
    finally:
        kernel.lookers += 1
