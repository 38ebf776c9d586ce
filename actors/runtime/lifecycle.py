"""Birth, restart and end of an actor. What waits here runs in a worker, as an entry of the cell's control lane."""

from __future__ import annotations

import logging
import math
from collections.abc import Coroutine
from typing import Any

import trio

from retinue.actors.runtime.actor import SPAWN_TAKES, check_keywords, unfit_call
from retinue.actors.runtime.asks import DONE, AskSlot, stopped_error
from retinue.actors.runtime.asks import RUNNING as ASK_RUNNING
from retinue.actors.runtime.cell import DEAD, IDLE, RUNNING, WAITING, Cell
from retinue.actors.runtime.current import Delivery, Suspension, make_delivery
from retinue.actors.runtime.cycles import below, restarting_error
from retinue.actors.runtime.derivation import answered, received
from retinue.actors.runtime.errors import ActorStopped, StartTimeout
from retinue.actors.runtime.haste import hurry, hurry_suspended, on_the_stack, unlimit
from retinue.actors.runtime.receipts import STOPPED
from retinue.actors.runtime.stepping import call, odd_exit, resume
from retinue.actors.runtime.supervision import leaves, next_delay
from retinue.actors.runtime.timers import clear_timers
from retinue.actors.runtime.watch import StopReason, terminated_of
from retinue.security.errors import DefinitionError

__all__ = [
    "FAILED",
    "build",
    "fail",
    "fail_task",
    "failure_of",
    "finish",
    "hurry",
    "hurry_suspended",
    "request_stop",
    "restart",
    "start",
    "stop_itself",
]

_log = logging.getLogger("retinue.runtime")

FAILED = StopReason.FAILED
_new = Delivery.__new__
_NO_KEYWORDS: dict[str, Any] = {}
START_GRACE = 30.0
"""Seconds that stopping children, own tasks and `on_stop` may take at a restart, each."""

ROUNDS = 16
"""How often an end looks for children and tasks that were started while others were ended."""


# -- birth -----------------------------------------------------------------------------------------------------------------------------------------


def build(cell: Cell, turn: Delivery | None = None) -> None:
    """Makes the actor's instance, its constructor under the grant's authority (as `turn`, in an actor's own thread). Raises what the constructor raises.

    The constructor's context variables are a copy of their own that is thrown away: an idle actor should not hold one.
    """
    cls = cell.spec.cls
    actor = cls.__new__(cls)
    actor._cell = cell
    birth = cell.birth
    if cell.spec.has_init:
        if turn is None:
            turn = _new(Delivery)  # make_delivery, spelled out: one for each spawn
            turn.context = turn.security = cell.grant
            turn.cell = cell
            turn.depth = 0
            turn.message = turn.handler = turn.source = turn.timeout = None
            turn.slot = turn.postmark = turn.waits = turn.suspension = turn.received = None
        try:
            if birth is None:
                cell.kernel.template.copy().run(call, turn, cls.__init__, (actor,), _NO_KEYWORDS)
            else:
                if birth[1]:
                    check_keywords(cls, birth[1])
                cell.kernel.template.copy().run(call, turn, cls.__init__, (actor, *birth[0]), birth[1])
        except GeneratorExit as exit_:
            raise odd_exit(exit_) from exit_
        except TypeError as error:
            refused = unfit_call(cls, *(birth or ((), {})), error)
            if refused is None:
                raise
            raise refused from refused.__cause__
    elif birth is not None:
        named = f" ({', '.join(birth[1])})" if birth[1] else ""
        raise DefinitionError(
            f"{cls.__qualname__} has no constructor and takes no arguments, but spawn was given some{named}. {SPAWN_TAKES}"
        )
    cell.actor = actor


def _call_hook(turn: Delivery, function: Any, arguments: tuple[Any, ...]) -> Any:
    try:
        return call(turn, function, arguments, _NO_KEYWORDS)
    except GeneratorExit as exit_:  # as itself it would close the coroutine that runs the hook
        raise odd_exit(exit_) from exit_


async def _hook(cell: Cell, turn: Delivery, function: Any, *arguments: Any) -> None:
    """Runs a hook of the actor, plain or async, in its own context, as the turn: under its grant's authority."""
    context = cell.kernel.context_of(cell)
    if cell.spec.cls.blocking:
        await cell.extras().host.run(turn, context.run, _call_hook, turn, function, (cell.actor, *arguments))
        return
    cell.kernel.steps += 1  # for the watchdog, which could take it for the constructor still: a frame may lie where that one's lay
    result = context.run(_call_hook, turn, function, (cell.actor, *arguments))
    if isinstance(result, Coroutine):
        cell.turn = turn
        with trio.CancelScope() as scope:  # a stop cuts off what it finds here when its grace is over
            turn.suspension = Suspension(trio.lowlevel.current_task(), scope)
            try:
                trap = context.run(result.send, None)
            except StopIteration:
                return
            except GeneratorExit as exit_:
                raise odd_exit(exit_) from exit_
            finally:
                cell.kernel.running = cell
            await resume(context.run, result, trap, cell.kernel, turn)
            return
        raise ActorStopped(f"{cell.path} was stopped before its {function.__name__} was done")


async def bring_up(cell: Cell, born: Delivery | None = None) -> None:
    """Constructor, `on_start`, resident loop, within the system's time for a start. `born` is the start as its spawner waits for it: what the error of one of them
    tells is an answer, and has the labels of its turn.
    """
    limit = cell.kernel.start_timeout
    turns: list[Delivery] = []
    with trio.move_on_after(limit):
        try:
            await _begin(cell, turns)
        except BaseException:
            if born is not None and cell.kernel.labelled:
                for turn in turns:
                    received(born, turn)
                answered(born)
            raise
        return
    raise StartTimeout(
        f"{cell.path} took longer than {limit:g} s to start; do less in its constructor and on_start, or give ActorSystem(start_timeout=…) in seconds"
    )


async def _begin(cell: Cell, turns: list[Delivery]) -> None:
    spec = cell.spec
    if spec.cls.blocking:
        cell.extras().host = host = cell.kernel.make_host(cell)
        await host.start()
        turn = make_delivery(cell, None, None, cell.grant, None)
        turns.append(turn)
        await host.run(turn, build, cell, turn)
        if cell.closed:
            raise ActorStopped(f"{cell.path} was stopped while it was being started")
    else:
        build(cell)
    if spec.has_start:
        turns.append(make_delivery(cell, None, None, cell.grant, None))
        await _hook(cell, turns[-1], spec.cls.on_start)
    if spec.resident:
        from retinue.actors.runtime.tasks import start_owned

        start_owned(cell, cell.grant, spec.cls.run, (cell.actor,), "run")  # type: ignore[attr-defined]


async def start(cell: Cell, slot: AskSlot | None) -> None:
    """The first entry of a new cell's control lane. Started or fully undone: nothing is left of an actor whose start fails."""
    if slot is not None and slot.stage >= DONE:  # the spawner was cancelled before it began
        await _undo_start(cell, None)
        return
    with trio.CancelScope() as scope:
        if slot is not None:
            slot.delivery.suspension = Suspension(trio.lowlevel.current_task(), scope)
            slot.stage = ASK_RUNNING
        try:
            await bring_up(cell, slot.delivery if slot is not None else None)
        except BaseException as error:
            cell.turn = None
            failure = failure_of(error)
            await _undo_start(cell, failure)
            if failure is None:
                raise
            if slot is None or not slot.fail(failure):
                _log.error("%s failed to start", cell.path, exc_info=failure)
            return
    cell.turn = None
    if scope.cancelled_caught:
        return
    if slot is not None and not slot.answer(cell.ref):
        request_stop(cell, StopReason.STOPPED, None)


async def _undo_start(cell: Cell, failure: BaseException | None) -> None:
    extra = cell.extras()
    extra.cause = failure
    cell.closed = True
    with trio.CancelScope(shield=True):
        await end_dependents(cell, StopReason.STOPPED, trio.current_time())
        await close_host(cell)
    cell.actor = None
    finish(cell, StopReason.START_FAILED)


# -- failure ---------------------------------------------------------------------------------------------------------------------------------------


def fail(cell: Cell, error: BaseException) -> None:
    """The actor failed on a message, in a task of its own, or at its restart: does what its supervision says."""
    if cell.state == DEAD or cell.closed:
        return
    extra = cell.extras()
    extra.failures += 1
    directive = cell.spec.supervision.decide(error)
    cell.kernel.event(cell, "failed", f"{type(error).__name__}: {directive}")
    if directive == "resume":
        return
    if directive == "stop":
        request_stop(cell, StopReason.FAILED, error)
    elif directive == "escalate":
        _escalate(cell, error)
    else:
        _schedule_restart(cell, error)


def stop_itself(cell: Cell) -> None:
    """The actor asked to stop: for good, unless its supervision is "permanent"."""
    if cell.spec.supervision.restart == "permanent" and not cell.closed and cell.spec.region is None:
        _schedule_restart(cell, ActorStopped(f"{cell.path} stopped itself, and its supervision is permanent"))
    else:
        request_stop(cell, StopReason.STOPPED, None)


def fail_task(cell: Cell, name: str, error: BaseException) -> None:
    """A task that the actor owns failed, which is a failure of the actor."""
    if cell.state == DEAD or cell.closed:
        return
    _log.error("%s failed in its task %s", cell.path, name, exc_info=error)
    if not crash_if_fatal(cell, error):
        cell.signal(fail, error)


def crash_if_fatal(cell: Cell, error: BaseException) -> bool:
    """SystemExit and KeyboardInterrupt end the whole system, where no actor of its own raises them; says whether it is one, or has one in it."""
    fatal = next((leaf for leaf in leaves(error) if isinstance(leaf, (SystemExit, KeyboardInterrupt))), None)
    if fatal is None or cell.kernel.household.owns(cell):
        return False
    cell.kernel.crash(fatal)
    request_stop(cell, StopReason.FAILED, fatal)
    return True


def failure_of(error: BaseException) -> BaseException | None:
    """What an actor's code raised, without trio's cancellation. None where this task is being cancelled or closed: then the error goes its way.

    A Cancelled that belongs to no scope around (somebody kept it, and raised it again later) is a failure: out of here it would end every actor.
    """
    from retinue.actors.runtime.outcomes import without_cancelled

    if isinstance(error, GeneratorExit):
        return None
    failure = without_cancelled(error)
    if failure is None and trio.current_effective_deadline() > -math.inf:
        failure = RuntimeError("trio.Cancelled was raised outside the cancel scope that it belongs to; let it pass where it is caught")
        failure.__cause__ = error
    return failure


def _schedule_restart(cell: Cell, error: BaseException) -> None:
    delay = next_delay(cell, cell.kernel.luck)
    if delay is None:
        most, window = cell.spec.supervision.intensity
        alone = cell.parent is None or cell.parent.parent is None or cell.spec.region is not None
        then = "it is stopped" if alone else "escalating to its parent"
        _log.error("%s failed more than %d times in %g s: %s", cell.path, most, window, then, exc_info=error)
        cell.kernel.event(cell, "gave up", type(error).__name__)
        _escalate(cell, error)
        return
    cell.signal(restart, delay)
    parent = cell.parent
    strategy = cell.spec.supervision.strategy
    if parent is None or not parent.children or strategy == "one_for_one":
        return
    siblings = list(parent.children.values())
    if strategy == "rest_for_one":
        siblings = siblings[siblings.index(cell) :]
    for sibling in siblings:
        if sibling is cell or sibling.closed:
            continue
        if sibling.spec.supervision.restart == "temporary":  # never restarted, not even with others
            request_stop(sibling, StopReason.STOPPED, None)
        else:
            sibling.signal(restart, delay)


def _escalate(cell: Cell, error: BaseException) -> None:
    """The parent fails with it. Right under `/user` and in a region there is nobody above: the actor stops, and nothing else with it."""
    parent = cell.parent
    request_stop(cell, StopReason.FAILED, error)
    if parent is not None and parent.parent is not None and cell.spec.region is None:
        parent.signal(fail, error)


async def end_instance(cell: Cell, reason: StopReason, grace: float, hook_grace: float) -> None:
    """Ends the instance with all that is its own: children and tasks within `grace` seconds, `on_stop` within `hook_grace`. The cell takes mail meanwhile."""
    extra = cell.extras()
    extra.restarting = True
    extra.incarnation += 1  # the watches of the old instance end with it
    for notice in cell.drop_notices():
        cell.kernel.refuse(notice, "stopped")
    if cell.children:
        for delivery in cell.mail():
            if delivery.slot is not None and delivery.asker is not None and below(delivery.asker.cell, cell):
                delivery.slot.turn_away(restarting_error(delivery.asker.cell, cell, delivery.message))
    await end_dependents(cell, reason, trio.current_time() + grace)
    extra.restarting = False
    if cell.actor is not None:
        await _run_on_stop(cell, reason, hook_grace)
        await end_dependents(cell, reason, trio.current_time() + grace)  # what on_stop has spawned or started
    await close_host(cell)
    cell.actor = None
    _fail_deferred(cell)
    cell.gate_context = cell.gate_handler = cell.gate_security = None
    while extra.stash:
        cell.push_front(extra.stash.pop())
    _disarm_revival(cell)


async def restart(cell: Cell, delay: float) -> None:
    """Ends the old instance and makes a new one, at once or after a delay. Ref and mailbox stay."""
    if cell.closed or cell.state == DEAD:
        return
    await end_instance(cell, StopReason.RESTART, START_GRACE, START_GRACE)
    extra = cell.extras()
    if delay > 0:
        extra.revival = cell.kernel.deadlines.add(trio.current_time() + delay, lambda: cell.signal(revive))
    else:
        await revive(cell)


def _disarm_revival(cell: Cell) -> None:
    extra = cell.extra
    if extra is not None and extra.revival is not None:
        cell.kernel.deadlines.cancel(extra.revival)
        extra.revival = None


async def revive(cell: Cell) -> None:
    """Makes the new instance of a restart."""
    if cell.closed or cell.state == DEAD or cell.actor is not None:
        return
    extra = cell.extras()
    try:
        await bring_up(cell)
    except BaseException as error:
        failure = failure_of(error)
        if failure is None:
            raise
        cell.turn = None
        cell.actor = None
        await end_dependents(cell, StopReason.RESTART, trio.current_time() + START_GRACE)
        await close_host(cell)
        _log.error("%s failed to start again", cell.path, exc_info=failure)
        if not crash_if_fatal(cell, failure):
            fail(cell, failure)
        return
    cell.turn = None
    extra.restarts += 1
    cell.kernel.event(cell, "restarted", "")


# -- end -------------------------------------------------------------------------------------------------------------------------------------------


def request_stop(cell: Cell, reason: StopReason, error: BaseException | None, grace: float | None = None) -> None:
    """Closes the intake at once; the actor ends after the message in progress, which is cancelled after `grace` seconds (default: the system's).

    The grace is one for the whole family: children that are busy have the same seconds. Mail that still waits becomes dead letters. Asked for again, the
    shorter grace counts.
    """
    if cell.state == DEAD:
        return
    kernel = cell.kernel
    until = trio.current_time() + (kernel.grace if grace is None else grace)
    if cell.state == RUNNING and not on_the_stack(cell):
        hurry(cell, until)
    if cell.closed or (cell.spec.region is not None and cell.spec.region.end(cell, reason, error, until)):
        return
    told = error is not None or reason is not StopReason.STOPPED
    extra = cell.extras() if told else None
    cell.signal(stop, reason, until)  # before anything is changed, for it raises where the caller's stack is full
    cell.closed = True
    if extra is not None:
        extra.reason = reason
        if error is not None:
            extra.cause = error


def stop(cell: Cell, reason: StopReason, until: float) -> Coroutine[Any, Any, None] | None:
    """The stop entry of the control lane: at once for an actor that has nothing to end, else a coroutine."""
    if cell.state == DEAD:
        return None
    extra = cell.extra
    if not cell.children and not cell.spec.has_stop and (extra is None or (not extra.tasks and extra.host is None)):
        finish(cell, reason)
        return None
    return _stop(cell, reason, until)


async def _stop(cell: Cell, reason: StopReason, until: float) -> None:
    refuse_mail(cell)  # now, for a child may wait for an answer to it
    await end_dependents(cell, reason, until)
    if cell.actor is not None:
        await _run_on_stop(cell, reason, max(until - trio.current_time(), cell.kernel.stop_grace))
        await end_dependents(cell, reason, until)  # what on_stop has started
    await close_host(cell)
    finish(cell, reason)


async def end_dependents(cell: Cell, reason: StopReason, until: float) -> None:
    """Stops the timers, the children and the actor's own tasks, and what those started while they were ended; not for ever, should each start another."""
    clear_timers(cell)
    for _ in range(ROUNDS):
        if not cell.children and (cell.extra is None or not cell.extra.tasks):
            return
        await _end_those_there(cell, reason, until)


async def _end_those_there(cell: Cell, reason: StopReason, until: float) -> None:
    """Stops the children, last born first, with one grace for all of them, and then the tasks that the actor owns."""
    child_reason = StopReason.SYSTEM if reason is StopReason.SYSTEM else StopReason.STOPPED
    while cell.children:
        # A snapshot: popping a dict from its end one by one scans the holes that were left, which is quadratic.
        for child in reversed(list(cell.children.values())):
            if child.state == DEAD:  # should its end have been cut off: whoever waits for it here would do so for ever
                if cell.children.get(child.name) is child:
                    del cell.children[child.name]
            elif child.state in (IDLE, WAITING) and not child.children and not child.spec.has_stop and child.extra is None:
                child.closed = True
                finish(child, child_reason)
            else:
                watch = cell.kernel.watch(child)
                last = until if cell.extra is None else min(until, cell.extra.stop_by)
                request_stop(child, child_reason, None, max(0.0, last - trio.current_time()))
                await watch.wait()
    extra = cell.extra
    if extra is not None and extra.tasks:
        for task in list(extra.tasks):
            task.cancel()
        for task in list(extra.tasks):
            await task.wait()


async def _run_on_stop(cell: Cell, reason: StopReason, grace: float) -> None:
    if not cell.spec.has_stop:
        return
    if reason is not StopReason.RESTART:
        unlimit(cell)  # that was for the message in progress
        cell.extras().ending = True
    hook_scopes = cell.kernel.hook_scopes
    scope = None
    try:
        with trio.move_on_after(grace, shield=True) as scope:
            hook_scopes.add(scope)
            await _hook(cell, make_delivery(cell, None, None, cell.grant, None), cell.spec.cls.on_stop, reason)
        if scope.cancelled_caught:
            _log.error("%s: on_stop(%s) took longer than %g s and was cancelled", cell.path, reason, grace)
    except BaseException as error:
        failure = failure_of(error)
        if failure is None:
            raise
        _log.error("%s: on_stop(%s) failed", cell.path, reason, exc_info=failure)
        crash_if_fatal(cell, failure)
    finally:
        cell.turn = None
        if scope is not None:
            hook_scopes.discard(scope)


async def close_host(cell: Cell) -> None:
    extra = cell.extra
    if extra is not None and extra.host is not None:
        host, extra.host = extra.host, None
        await host.close()


def _fail_deferred(cell: Cell) -> None:
    """Reply slots are bound to an incarnation: who still waits for the old one is told that it is gone."""
    extra = cell.extra
    if extra is None:
        return
    for slot in list(extra.deferred):
        label = type(slot.delivery.message).__qualname__
        slot.fail(
            ActorStopped(
                f"{cell.path} was stopped or restarted before it answered the {label} that it had deferred; the outcome is unknown",
                path=cell.path,
                begun=True,
            )
        )
    extra.deferred.clear()


def finish(cell: Cell, reason: StopReason) -> None:
    """The end: nothing waits in the cell any more, nobody can find it, every asker and watcher has been told. Whatever goes wrong, all the rest is done."""
    kernel = cell.kernel
    cell.state = DEAD
    cell.closed = True
    parent = cell.parent
    siblings = parent.children if parent is not None else None
    if (
        siblings is not None and cell.name in siblings and siblings[cell.name] is cell
    ):  # without a call, for which the stack may be too full
        del siblings[cell.name]
    extra = cell.extra
    try:
        kernel.retire(cell)
        kernel.names.forget(cell)
    except BaseException as error:
        _went_wrong(cell, "forgetting it", error)
    if extra is not None or reason not in (StopReason.STOPPED, StopReason.SYSTEM):
        extra = cell.extras()
        if extra.reason is None or reason is StopReason.START_FAILED:
            extra.reason = reason
    if cell.head is not None or cell.box or cell.queue is not None or extra is not None:
        for step in (refuse_mail, clear_timers, _fail_deferred, unlimit, _disarm_revival):
            try:
                step(cell)
            except BaseException as error:  # parents and watchers are told whatever goes wrong
                _went_wrong(cell, step.__name__, error)
    if cell.spec.region is not None:
        try:
            cell.spec.region.ended(cell)
        except BaseException as error:
            _went_wrong(cell, "telling its region", error)
    cell.actor = cell.birth = cell.context = cell.facade = cell.control = cell.turn = cell.box = None
    cell.gate_context = cell.gate_handler = cell.gate_security = None
    kernel.event(cell, "stopped", str(reason))
    if extra is not None and extra.watchers:
        terminated = terminated_of(cell)
        watchers, extra.watchers = extra.watchers, []
        for watch in watchers:
            try:
                watch.deliver(terminated)
            except BaseException as error:  # the others are told all the same
                _went_wrong(cell, "telling a watcher", error)


def _went_wrong(cell: Cell, what: str, error: BaseException) -> None:
    """Part of an actor's end has failed, which must not keep the rest from being done. One that is to end the program ends the system."""
    try:
        _log.error("%s: %s failed at its end; this is a fault of the runtime", cell.path, what, exc_info=error)
    except RecursionError:
        pass
    crash_if_fatal(cell, error)


def refuse_mail(cell: Cell) -> None:
    """Everything that waits becomes a dead letter, and its askers and senders are told."""
    kernel = cell.kernel
    reason = "system_closed" if kernel.closing else "stopped"
    for delivery in cell.clear_mail():
        try:
            kernel.refuse(delivery, reason)
        except BaseException as error:  # the others are told all the same
            _went_wrong(cell, "refusing a message", error)
    extra = cell.extra
    if extra is None:
        return
    while extra.waiters:
        delivery, room_slot = extra.waiters.popitem(last=False)
        kernel.record(reason, delivery)
        if room_slot is not None:
            room_slot.answer(STOPPED)
        elif delivery.slot is not None:  # not so a tell that a pool or a group has let in before, and lets wait here
            delivery.slot.fail(stopped_error(delivery))
