"""Rings of actors that wait for each other, found at the moment that would close one.

Each turn notes what it waits for (`Delivery.waits`). When a turn is about to wait for an actor that is itself waiting, the notes are followed. Two kinds of wait:
what a handler awaits in its own task has to come (AND); asks raced in child tasks of one turn are alternatives (OR): as long as one task of the turn can
still go on, there is no alarm.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trio.lowlevel import current_task

from retinue.actors.runtime.asks import DONE, TakenSlot
from retinue.actors.runtime.cell import RUNNING, Cell
from retinue.actors.runtime.current import Delivery, current_variable
from retinue.actors.runtime.errors import ActorStopped, AskCycle
from retinue.actors.runtime.listening import is_listening

if TYPE_CHECKING:
    import trio

__all__ = [
    "add_wait",
    "below",
    "check_cycle",
    "check_forward",
    "check_restarting",
    "drop_wait",
    "restarting_error",
    "turn_one_away",
    "waits_for",
]


def add_wait(turn: Delivery, awaited: Delivery) -> None:
    """Notes that `turn` waits for `awaited`."""
    waits = turn.waits
    if waits is None:
        turn.waits = awaited
    elif isinstance(waits, set):
        waits.add(awaited)
    else:
        turn.waits = {waits, awaited}


def drop_wait(turn: Delivery, awaited: Delivery) -> None:
    """Notes that it does so no longer."""
    waits = turn.waits
    if waits is awaited:
        turn.waits = None
    elif isinstance(waits, set):
        waits.discard(awaited)
        if not waits:
            turn.waits = None


def waits_for(turn: Delivery, awaited: Delivery) -> bool:
    """Whether it is noted that `turn` waits for `awaited`."""
    waits = turn.waits
    return awaited in waits if isinstance(waits, set) else waits is awaited


def check_cycle(turn: Delivery, target: Cell, task: trio.lowlevel.Task, what: str) -> None:
    """Raises AskCycle if `turn`, waiting for `target` in `task`, would close a ring in which nobody can go on."""
    path: list[Cell] = []
    if target is turn.cell:
        if turn.cell.turn is turn and _all_stuck(turn, turn, task, set(), path):
            raise AskCycle(_text([turn.cell, target], what))
        return
    if target.turn is None or target.state != RUNNING:
        return
    if _stuck(target, turn, task, set(), path) and turn.cell in path:
        raise AskCycle(_text([turn.cell, *path], what))


def check_forward(turn: Delivery, target: Cell, what: str) -> None:
    """Raises AskCycle if the asker of `turn` would close a ring by waiting for `target` instead."""
    asker = turn.asker
    if asker is None:
        return
    drop_wait(asker, turn)
    try:
        check_cycle(asker, target, _task_of(turn) or current_task(), what)
    finally:
        add_wait(asker, turn)


def turn_one_away(turn: Delivery) -> bool:
    """Ends one of the asks that a turn's child tasks wait for, with AskCycle, where none of them can go on any more: one could when they were raced, and has ended
    since. For the task that listens to them, at each such end. Returns whether there was such a ring.
    """
    if turn.suspension is None or not _all_stuck(turn, turn, turn.suspension.task, set(), [], counted=False):
        return False
    waits = turn.waits
    for one in sorted(waits, key=lambda each: each.cell.path) if isinstance(waits, set) else [waits]:
        slot: Any = None if one is None else one.slot.real if isinstance(one.slot, TakenSlot) else one.slot
        if one is not None and slot is not None and slot.stage < DONE:
            slot.turn_away(AskCycle(_text([turn.cell, one.cell], f"the ask of {one.cell.path} for {type(one.message).__qualname__}")))
            return True
    return False


def check_restarting(asker: Cell, target: Cell, message: Any) -> None:
    """Raises ActorStopped where the target waits for the asker to end, so that its new incarnation cannot answer before: a ring of another kind."""
    if target.extra is not None and target.extra.restarting and below(asker, target):
        raise restarting_error(asker, target, message)


def restarting_error(asker: Cell, target: Cell, message: Any) -> ActorStopped:
    """What an asker gets whose question would keep the target from being restarted."""
    return ActorStopped(
        f"{target.path} is being restarted, and waits for its child {asker.path} to end: it cannot answer {type(message).__qualname__} before that"
    )


def below(cell: Cell, ancestor: Cell) -> bool:
    """Whether an actor is a child of the other one, or a child's child, and so on."""
    above = cell.parent
    while above is not None and above is not ancestor:
        above = above.parent
    return above is ancestor


def _text(ring: list[Cell], what: str) -> str:
    shown = " -> ".join(cell.path for cell in ring)
    return (
        f"{what} would wait for ever: {shown}. Nothing was sent. Answer later with ctx.defer(), hand the question over with ctx.forward(), "
        "or tell and let the answer come as a message"
    )


def _stuck(cell: Cell, asker: Delivery, asking: trio.lowlevel.Task, seen: set[Cell], path: list[Cell]) -> bool:
    """Whether the cell's turn cannot go on unless somebody in the ring does."""
    turn = cell.turn
    if cell in seen:
        return True  # as far as is known: whoever can go on ends the whole search
    if turn is asker:
        seen.add(cell)
        path.append(cell)
        return _all_stuck(asker, asker, asking, seen, path)
    if turn is None or cell.state != RUNNING or turn.waits is None:
        return False
    seen.add(cell)
    path.append(cell)
    if _all_stuck(turn, asker, asking, seen, path):
        return True
    path.remove(cell)
    return False


def _all_stuck(
    turn: Delivery, asker: Delivery, asking: trio.lowlevel.Task, seen: set[Cell], path: list[Cell], *, counted: bool = True
) -> bool:
    """Whether no task of the turn can go on; `asking` counts as waiting already, unless it is not `counted`.

    A turn that has not suspended yet is on the stack of the asking task.
    """
    waits = turn.waits
    awaited = waits if isinstance(waits, set) else ({waits} if waits is not None else set())
    by_task: dict[trio.lowlevel.Task, list[Delivery]] = {}
    for one in awaited:
        by_task.setdefault(_task_of(one) or asking, []).append(one)

    def stands(task: trio.lowlevel.Task) -> bool:
        ones = by_task.get(task)
        if ones is not None:  # several, where it waits for all subscribers of a topic: one that cannot go on is enough
            if not any(not _is_deferred(one) and not _is_answered(one) and _stuck(one.cell, asker, asking, seen, path) for one in ones):
                return False
        elif not (counted and turn is asker and task is asking) and not _waits_for_children(task, turn):
            return False
        return all(stands(child) for child in _children(task, turn))  # any of them may still cancel the others

    return stands(turn.suspension.task if turn.suspension is not None else asking)


def _task_of(delivery: Delivery) -> trio.lowlevel.Task | None:
    """The task that waits for the delivery's answer; None where it is handled in the asker's task and has not suspended yet."""
    slot = delivery.slot
    if isinstance(slot, TakenSlot):
        slot = slot.real
    if slot is not None:
        task: trio.lowlevel.Task | None = slot.task
        return task
    return delivery.suspension.task if delivery.suspension is not None else None


def _is_deferred(delivery: Delivery) -> bool:
    """Whether anybody may hold the reply slot by now: then nobody can tell who will answer, and there is no alarm."""
    slot = delivery.slot
    return isinstance(slot, TakenSlot) and slot.real is not None and slot.real.owner is not None


def _is_answered(delivery: Delivery) -> bool:
    """Whether the task that waited for it goes on, and has not come to it yet."""
    slot = delivery.slot
    if isinstance(slot, TakenSlot):
        slot = slot.real
    return slot is not None and slot.stage >= DONE


def _children(task: trio.lowlevel.Task, turn: Delivery) -> list[trio.lowlevel.Task]:
    """The tasks that the turn started in nurseries of this task of its: they carry the turn in their context."""
    return [child for nursery in task.child_nurseries for child in nursery.child_tasks if child.context.get(current_variable) is turn]


def _waits_for_children(task: trio.lowlevel.Task, turn: Delivery) -> bool:
    """Whether the task does nothing but wait for its nurseries' children: for their end, or for what they tell it. (Where trio does not tell: no alarm.)"""
    ours = [
        nursery for nursery in task.child_nurseries if any(child.context.get(current_variable) is turn for child in nursery.child_tasks)
    ]
    if not ours:
        return False
    inner = ours[-1]
    return bool(getattr(inner, "_parent_waiting_in_aexit", False)) or any(is_listening(task, child) for child in inner.child_tasks)
