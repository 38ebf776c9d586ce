"""Rings of actors that wait for each other, found at the moment that would close one.

Each turn notes what it waits for (`Delivery.waits`). When a turn is about to wait for an actor that is itself waiting, the notes are followed. Two kinds of wait:
what a handler awaits in its own task has to come (AND); asks raced in child tasks of one turn are alternatives (OR): as long as one task of the turn can
still go on, there is no alarm.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from retinue.actors.runtime.cell import RUNNING, Cell
from retinue.actors.runtime.current import Delivery, current_variable
from retinue.actors.runtime.errors import AskCycle

if TYPE_CHECKING:
    import trio

__all__ = ["add_wait", "check_cycle", "drop_wait"]


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


def _text(ring: list[Cell], what: str) -> str:
    shown = " -> ".join(cell.path for cell in ring)
    return (
        f"{what} would wait for ever: {shown}. Nothing was sent. Answer later with ctx.defer(), hand the question over with ctx.forward(), "
        "or tell and let the answer come as a message"
    )


def _stuck(cell: Cell, asker: Delivery, task: trio.lowlevel.Task, seen: set[Cell], path: list[Cell]) -> bool:
    """Whether the cell's turn cannot go on unless somebody in the ring does."""
    turn = cell.turn
    if turn is asker:
        path.append(cell)
        return _all_stuck(asker, asker, task, seen, path)
    if cell in seen:
        return True
    if turn is None or cell.state != RUNNING or turn.waits is None:
        return False
    seen.add(cell)
    path.append(cell)
    if _all_stuck(turn, asker, task, seen, path):
        return True
    path.remove(cell)
    return False


def _all_stuck(turn: Delivery, asker: Delivery, asking: trio.lowlevel.Task, seen: set[Cell], path: list[Cell]) -> bool:
    """Whether no task of the turn can go on; `asking` counts as waiting already."""
    waits = turn.waits
    awaited = waits if isinstance(waits, set) else ({waits} if waits is not None else set())
    own = _own_task(turn)
    by_task = {_task_of(one): one for one in awaited}
    if turn is asker:
        if own is None or asking is own:
            return True
    elif own is not None and own in by_task:
        return _stuck(by_task[own].cell, asker, asking, seen, path)
    elif own is None:
        return all(_stuck(one.cell, asker, asking, seen, path) for one in awaited)
    for child in _children(own, turn):
        if child is asking:
            continue
        if child not in by_task or not _stuck(by_task[child].cell, asker, asking, seen, path):
            return False
    return _parents_wait(own, turn)


def _own_task(turn: Delivery) -> trio.lowlevel.Task | None:
    return turn.suspension.task if turn.suspension is not None else None


def _task_of(delivery: Delivery) -> trio.lowlevel.Task | None:
    """The task that waits for the delivery's answer."""
    if delivery.slot is not None:
        task: trio.lowlevel.Task | None = delivery.slot.task
        return task
    return delivery.suspension.task if delivery.suspension is not None else None


def _children(task: trio.lowlevel.Task, turn: Delivery) -> list[trio.lowlevel.Task]:
    """The tasks without children of their own that the turn started in nurseries of its task: they carry the turn in their context."""
    found: list[trio.lowlevel.Task] = []
    for nursery in task.child_nurseries:
        for child in nursery.child_tasks:
            if child.context.get(current_variable) is turn:
                deeper = _children(child, turn)
                found.extend(deeper or [child])
    return found


def _parents_wait(task: trio.lowlevel.Task, turn: Delivery) -> bool:
    """Whether the turn's own task does nothing but wait for its nurseries' children. (Where trio does not tell: no alarm.)"""
    ours = [
        nursery for nursery in task.child_nurseries if any(child.context.get(current_variable) is turn for child in nursery.child_tasks)
    ]
    return bool(ours) and bool(getattr(ours[-1], "_parent_waiting_in_aexit", False))
