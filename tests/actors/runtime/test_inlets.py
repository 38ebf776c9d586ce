"""Inlets: mail with a room of its own beside the mailbox. A machine plays one cell through everything that may happen to its mail; the rest are single promises."""

from __future__ import annotations

import math
from collections import deque
from typing import Any

import pytest
import trio
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from trio.testing import MockClock

import retinue as rt
from core_hosts import conserved, reasons
from core_puppet import Call, Do, Puppet, state_of
from retinue.actors.runtime.asks import QUEUED, ROOM, WITHDRAWN, AskSlot
from retinue.actors.runtime.cell import DEAD, IDLE, READY, RUNNING, WAITING, Cell, Spec
from retinue.actors.runtime.current import Delivery, make_delivery
from retinue.actors.runtime.inlets import Inlet
from retinue.actors.runtime.receipts import ACCEPTED
from retinue.actors.runtime.ref import new_cell
from retinue.actors.runtime.supervision import DEFAULT_SUPERVISION

NOTICE: Any = object()
PLAIN: Any = object()


class Note:
    """A message of the machine's: a number, and what it is to be judged by in a special mailbox."""

    def __init__(self, number: int, rank: int) -> None:
        self.number = number
        self.rank = rank


class Books:
    """As much of a kernel as a cell needs to move its mail."""

    def __init__(self) -> None:
        self.ready: deque[Cell] = deque()
        self.spare_boxes: list[Any] = []
        self.closing = self.missed = False
        self.ring = None
        self.sent = 0
        self.dead: list[tuple[str, Delivery]] = []

    def push(self, cell: Cell) -> None:
        self.ready.append(cell)

    def record(self, reason: Any, delivery: Delivery, error: Any = None) -> None:
        assert all(delivery is not other for _, other in self.dead), "one message is one dead letter"
        self.dead.append((reason, delivery))

    def refuse(self, delivery: Delivery, reason: str) -> None:
        self.record(reason, delivery)


class Room:
    """Where a send waits."""

    def __init__(self) -> None:
        self.receipt: Any = None

    def answer(self, receipt: Any) -> None:
        self.receipt = receipt


class OneCell(RuleBasedStateMachine):
    """`waiting` and `beside` are what must wait, in the mailbox and in each inlet, by the machine's own books."""

    @initialize(kind=st.sampled_from(["fifo", "priority", "conflate"]), capacity=st.sampled_from([1, 2, 3, math.inf]), data=st.data())
    def begin(self, kind: str, capacity: Any, data: Any) -> None:
        if kind == "fifo":
            overflow = data.draw(st.sampled_from(["reject", "wait", "drop_oldest", "drop_newest"]))
            mailbox = rt.Mailbox.unbounded() if capacity == math.inf else rt.Mailbox.bounded(capacity, overflow=overflow)
        else:
            make = rt.Mailbox.priority if kind == "priority" else rt.Mailbox.conflate
            mailbox = make(lambda note: note.rank, 3 if capacity == math.inf else capacity)
        self.books = Books()
        spec = Spec(Puppet, {}, DEFAULT_SUPERVISION, mailbox)
        spec.notice = NOTICE
        self.cell = new_cell(self.books, None, spec, "one", None)  # type: ignore[arg-type]
        self.cell.actor = self.actor = Puppet()
        self.cell.state = IDLE
        self.mailbox = mailbox
        self.count = 0
        self.waiting: list[Delivery] = []
        self.patient: list[Delivery] = []
        self.stashed: list[Delivery] = []
        self.beside: list[list[Delivery]] = [[], [], []]
        self.left: list[Delivery] = []
        self.inlets = [Inlet(self.cell, self.left.append) for _ in self.beside]
        self.handled: list[Delivery] = []
        self.sendable = 0

    # -- what comes in -----------------------------------------------------------------------------------------------------------------------------

    def fresh(self, rank: int, handler: Any = PLAIN) -> Delivery:
        self.count += 1
        return make_delivery(self.cell, handler, Note(self.count, rank), None, None)  # type: ignore[arg-type]

    def took_in(self, delivery: Delivery, before: int) -> None:
        """After an enqueue that was accepted: who made room for it is a dead letter by now."""
        self.let_in()
        self.waiting.append(delivery)
        for _, dead in self.books.dead[before:]:
            self.waiting.remove(dead)

    def room_in_mailbox(self) -> bool:
        extra = self.cell.extra
        stale = extra.withdrawn if extra is not None else 0
        stale -= sum(d.slot is not None and d.slot.withdrawn for d in extra.stash) if extra is not None else 0
        return len(self.waiting) + stale < self.mailbox.capacity

    @rule(rank=st.integers(0, 2))
    def tell(self, rank: int) -> None:
        delivery, before, room = self.fresh(rank), len(self.books.dead), self.room_in_mailbox()
        self.books.sent += 1
        receipt = self.cell.enqueue(delivery)
        if receipt is ACCEPTED:
            self.took_in(delivery, before)
        else:
            assert not room or self.patient or self.cell.closed, "refused though there was room"
            self.books.record(receipt.reason, delivery)
            self.let_in()

    @rule(rank=st.integers(0, 2))
    @precondition(lambda self: not self.cell.closed)
    def ask(self, rank: int) -> None:
        delivery, before = self.fresh(rank), len(self.books.dead)
        delivery.slot = AskSlot(self.books, delivery)  # type: ignore[arg-type]
        self.books.sent += 1
        if self.cell.enqueue(delivery) is ACCEPTED:
            self.took_in(delivery, before)
            assert len(self.books.dead) == before, "a request makes others' mail no dead letters"
        else:
            delivery.slot.stage = ROOM
            self.let_in()
            self.cell.extras().waiters[delivery] = None
            self.patient.append(delivery)

    @rule(rank=st.integers(0, 2))
    @precondition(lambda self: not self.cell.closed)
    def send(self, rank: int) -> None:
        delivery, before = self.fresh(rank), len(self.books.dead)
        self.books.sent += 1
        if self.cell.enqueue(delivery, patient=True) is ACCEPTED:
            self.took_in(delivery, before)
        else:
            self.let_in()
            self.cell.extras().waiters[delivery] = Room()  # type: ignore[assignment]
            self.patient.append(delivery)

    @rule()
    @precondition(lambda self: not self.cell.closed)
    def notice(self) -> None:
        delivery = self.fresh(0, NOTICE)
        self.books.sent += 1
        self.cell.push_notice(delivery)
        self.waiting.append(delivery)

    @rule(index=st.integers(0, 2))
    @precondition(lambda self: sum(map(len, self.beside)) < 12)
    def put(self, index: int) -> None:
        delivery = self.fresh(0)
        if self.inlets[index].put(delivery) is ACCEPTED:
            self.beside[index].append(delivery)
        else:
            assert self.cell.closed

    # -- what goes out again -------------------------------------------------------------------------------------------------------------------------

    @rule(data=st.data())
    @precondition(lambda self: any(d.slot is not None for d in [*self.waiting, *self.patient, *self.stashed]))
    def give_up(self, data: Any) -> None:
        chosen = data.draw(st.sampled_from([d for d in [*self.waiting, *self.patient, *self.stashed] if d.slot is not None]))
        chosen.slot.give_up()
        for held in (self.waiting, self.patient, self.stashed):
            if chosen in held:
                held.remove(chosen)
        self.let_in()

    @rule(index=st.integers(0, 2), data=st.data())
    def discard(self, index: int, data: Any) -> None:
        mine = self.beside[index]
        chosen = data.draw(st.sampled_from([*mine, *self.handled[-1:], self.fresh(0)]))
        assert self.inlets[index].discard(chosen) == (chosen in mine)
        if chosen in mine:
            mine.remove(chosen)
            self.books.record("cancelled", chosen)

    @rule(index=st.integers(0, 2))
    def clear(self, index: int) -> None:
        assert self.inlets[index].clear() == self.beside[index]
        for delivery in self.beside[index]:
            self.books.record("cancelled", delivery)
        self.beside[index].clear()

    # -- turns -----------------------------------------------------------------------------------------------------------------------------------------

    def take(self) -> Delivery | None:
        """As the scheduler: the plain case is spelled out there."""
        cell = self.cell
        if cell.head is None or cell.extra is not None:
            return cell.take()
        delivery, box = cell.head, cell.box
        cell.head = box.popleft() if box else None
        return delivery

    @rule(most=st.integers(1, 4))
    @precondition(lambda self: self.cell.state == READY and self.cell.actor is not None)
    def turn(self, most: int) -> None:
        self.cell.state = RUNNING
        for _ in range(most):
            delivery = self.take()
            if delivery is None:
                break
            if delivery.slot is not None and delivery.slot.stage == WITHDRAWN:
                self.cell.extras().withdrawn -= 1
                self.let_in()
                continue
            if delivery.slot is not None:
                delivery.slot.stage = QUEUED
            self.handled.append(delivery)
            if delivery in self.waiting:
                self.waiting.remove(delivery)
            else:
                owner = next(mine for mine in self.beside if delivery in mine)
                assert owner.pop(0) is delivery, "first in, first out"
                assert self.left.pop() is delivery
            self.let_in()
        self.cell.settle()

    def let_in(self) -> None:
        """Those who waited for room and were let in."""
        waiters = self.cell.extra.waiters if self.cell.extra is not None else {}
        for delivery in [d for d in self.patient if d not in waiters]:
            self.patient.remove(delivery)
            self.waiting.append(delivery)

    @rule()
    @precondition(lambda self: self.cell.state in (IDLE, READY, RUNNING) and self.cell.actor is not None)
    def runs_inline(self) -> None:
        """An asker runs a turn in its own task, which moves no mail; afterwards the cell settles."""
        if self.cell.state == IDLE:
            self.cell.state = RUNNING
            self.cell.settle()

    @rule()
    @precondition(lambda self: self.handled and not self.cell.closed and self.handled[-1].handler is PLAIN)
    def stash(self) -> None:
        delivery = self.handled.pop()
        again = make_delivery(self.cell, PLAIN, delivery.message, None, None)  # type: ignore[arg-type]
        if delivery.slot is not None:
            again.slot, delivery.slot.delivery = delivery.slot, again
        self.cell.extras().stash.append(again)
        self.stashed.append(again)

    @rule()
    @precondition(lambda self: self.cell.extra is not None and not self.cell.closed)
    def unstash(self) -> None:
        self._unstash()

    @rule(clearing=st.booleans())
    @precondition(lambda self: self.cell.state == READY and not self.cell.closed)
    def restart(self, clearing: bool) -> None:
        """As `lifecycle.restart`, which waits for its delay afterwards."""
        self.cell.state = RUNNING
        for notice in self.cell.drop_notices():
            self.books.refuse(notice, "stopped")
            self.waiting.remove(notice)
        self.let_in()
        if clearing:
            self.clear(0)
        self.cell.actor = None
        self._unstash()
        self.cell.settle()
        assert self.cell.state == WAITING

    def _unstash(self) -> None:
        extra = self.cell.extras()
        while extra.stash:
            self.cell.push_front(extra.stash.pop())
        self.waiting.extend(self.stashed)
        self.stashed.clear()

    @rule()
    @precondition(lambda self: self.cell.state == WAITING)
    def revive(self) -> None:
        self.cell.actor = self.actor
        self.cell.state = RUNNING
        self.cell.settle()

    @rule()
    @precondition(lambda self: not self.cell.closed and self.count > 15)
    def stop(self) -> None:
        cell = self.cell
        cell.closed = True
        for delivery in cell.clear_mail():
            self.books.refuse(delivery, "stopped")
        for delivery in list(cell.extras().waiters):
            self.books.refuse(delivery, "stopped")
        cell.extras().waiters.clear()
        for held in (self.waiting, self.patient, self.stashed, *self.beside):
            held.clear()
        cell.state = DEAD

    # -- what always holds -----------------------------------------------------------------------------------------------------------------------------

    @invariant()
    def what_waits_is_what_should(self) -> None:
        expected = [*self.waiting, *self.patient, *self.stashed, *(d for mine in self.beside for d in mine)]
        found = [d for d in self.cell.mail() if d.slot is None or not d.slot.withdrawn]
        assert sorted(d.message.number for d in found) == sorted(d.message.number for d in expected)
        assert self.cell.waiting() == len(expected)
        assert [inlet.items() for inlet in self.inlets] == self.beside
        assert [len(inlet) for inlet in self.inlets] == [len(mine) for mine in self.beside]

    @invariant()
    def sent_is_handled_and_dead_and_queued(self) -> None:
        assert self.books.sent == len(self.handled) + len(self.books.dead) + self.cell.waiting()

    @invariant()
    def nobody_has_to_look_beside(self) -> None:
        cell, extra = self.cell, self.cell.extra
        inlets = list(extra.inlets or ()) if extra is not None else []
        if any(self.beside):
            assert cell.head is not None or (cell.queue is not None and len(cell.queue))
        assert {id(inlet) for inlet in inlets} == {id(self.inlets[i]) for i in range(3) if self.beside[i]}
        if extra is not None and extra.guest is not None:
            assert extra.guest.items()[0] is cell.head
            assert extra.guest is inlets[0]
        if cell.waiting():
            assert cell.state != IDLE or not (cell.head or cell.box or cell.queue)
        if cell.head is not None or (cell.queue is not None and len(cell.queue)):
            assert cell.state in (READY, WAITING)
        if cell.box:
            assert cell.head is not None

    @invariant()
    def who_waits_for_room_has_a_reason(self) -> None:
        assert not self.patient or not self.room_in_mailbox()

    def teardown(self) -> None:
        if not hasattr(self, "cell") or self.cell.state == DEAD:
            return
        if self.cell.state == WAITING:
            self.revive()
        for _ in range(500):
            if self.cell.state != READY:
                break
            self.turn(4)
        assert not self.waiting and not self.patient and not any(self.beside)
        assert self.cell.state == IDLE


TestOneCell = OneCell.TestCase
TestOneCell.settings = settings(max_examples=30, stateful_step_count=40, phases=[Phase.generate], report_multiple_bugs=False)


# -- single promises, in a whole system ----------------------------------------------------------------------------------------------------------------


def make(**options: Any) -> rt.ActorSystem:
    return rt.ActorSystem("inlets", block_warning=math.inf, **options)


def put(inlet: Inlet, word: str) -> bool:
    """Puts in a message that writes the word into the actor's log."""
    cell = inlet.cell
    return bool(inlet.put(make_delivery(cell, cell.handlers[Call], Call(lambda actor: actor.log.append(word)), cell.grant, cell)))


def tell(ref: rt.Ref[Any], word: str) -> bool:
    return bool(ref.tell(Call(lambda actor: actor.log.append(word))))


async def test_mailbox_and_inlets_are_taken_in_turns_and_the_inlets_too() -> None:
    async with make() as system:
        ref = await system.spawn(Puppet)
        first, second = Inlet(ref._cell), Inlet(ref._cell)
        for number in range(3):
            tell(ref, f"m{number}")
        for number in range(2):
            put(first, f"a{number}")
            put(second, f"b{number}")
        await system.wait_quiet()
        assert await state_of(ref) == ["m0", "a0", "m1", "b0", "m2", "a1", "b1"]
        assert conserved(system)


@pytest.mark.parametrize("capacity", [1, 2])
async def test_mail_beside_takes_no_room_in_the_mailbox_and_needs_none(capacity: int) -> None:
    async with make() as system:
        ref = await system.spawn(Puppet, mailbox=rt.Mailbox.bounded(capacity))
        inlet = Inlet(ref._cell)
        assert put(inlet, "beside")
        assert [tell(ref, f"m{number}") for number in range(capacity + 1)] == [True] * capacity + [False]
        assert put(inlet, "beside")
        await system.wait_quiet()
        assert (await state_of(ref)).count("beside") == 2
        assert reasons(system) == {"mailbox_full": 1}
        assert conserved(system)


async def test_a_newer_message_makes_no_room_at_the_cost_of_mail_beside() -> None:
    async with make() as system:
        ref = await system.spawn(Puppet, mailbox=rt.Mailbox.bounded(1, overflow="drop_oldest"))
        inlet = Inlet(ref._cell)
        put(inlet, "beside")
        assert tell(ref, "old")
        assert tell(ref, "new")
        await system.wait_quiet()
        assert sorted(await state_of(ref)) == ["beside", "new"]
        assert reasons(system) == {"dropped_oldest": 1}
        assert conserved(system)


async def test_mail_beside_survives_a_restart_and_waits_for_it_as_other_mail_does(autojump_clock: MockClock) -> None:
    def fail(_: Any) -> None:
        raise ValueError("restart me")

    async with make() as system:
        ref = await system.spawn(Puppet, supervision=rt.Supervision(backoff=(5, 5)))
        ref.tell(Call(fail))
        ref.tell(Call(fail))  # the second restart waits
        await system.wait_quiet()
        inlet = Inlet(ref._cell)
        assert put(inlet, "beside")
        assert (ref._cell.state, system.statistics().queued) == (WAITING, 1)
        assert await state_of(ref) == ["beside"]
        assert conserved(system)


async def test_mail_beside_ends_as_dead_letters_with_its_actor_and_is_none_for_one_that_has_ended() -> None:
    async with make() as system:
        ref = await system.spawn(Puppet)
        inlet = Inlet(ref._cell)
        ref.tell(Call(lambda actor: actor.ctx.stop()))
        for _ in range(3):
            put(inlet, "beside")
        await system.wait_quiet()
        assert not put(inlet, "too late")
        assert not len(inlet)
        assert reasons(system) == {"stopped": 4}
        assert conserved(system)


async def test_what_was_discarded_is_never_seen_and_what_is_behind_it_is() -> None:
    async with make() as system:
        ref = await system.spawn(Puppet)
        inlet = Inlet(ref._cell)
        put(inlet, "first")
        put(inlet, "second")
        first = inlet.items()[0]
        assert inlet.discard(first)
        assert not inlet.discard(first)
        system._kernel.record("cancelled", first)
        assert await state_of(ref) == ["second"]
        assert reasons(system) == {"cancelled": 1}
        assert conserved(system)


async def test_who_waits_for_room_is_let_in_when_a_restart_drops_a_notice(autojump_clock: MockClock) -> None:
    """The notice had taken the only place; found by the machine above."""

    class Watching(Puppet):
        @rt.handler
        def ended(self, _: rt.Terminated) -> None:
            self.log.append("ended")

    async def fail_later(actor: Any) -> None:
        actor.ctx.watch(await actor.ctx.spawn(Puppet, name="child"))
        await actor.ctx.children[0].stop()
        await trio.sleep(1)
        raise ValueError("restart me")

    async with make() as system:
        ref = await system.spawn(Watching, mailbox=rt.Mailbox.bounded(1))
        ref.tell(Do(fail_later))
        await trio.sleep(0.5)
        assert await ref.ask(Call(lambda actor: "let in"), timeout=10) == "let in"
        assert trio.current_time() < 5
        assert conserved(system)
