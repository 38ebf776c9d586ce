"""Sleeping barber: customers come in a burst, wait in a room with a bound, and come again where it is full."""

from collections import deque
from typing import Any

import attrs
import pykka
import trio
import trio.testing

import retinue as rt
from benchmarks.harness import Timer
from benchmarks.savina.arithmetic import PseudoRandom, busy_wait
from benchmarks.savina.benchmark import Benchmark, Outcome
from benchmarks.savina.hosts import MANY, Answer, Channel, Failures, in_pykka, in_retinue, in_trio, inbox

__all__ = ["BARBER", "Shop"]


@attrs.frozen
class Shop:
    """So many haircuts, so many chairs to wait on; average pauses between customers and for a haircut, in random numbers drawn."""

    haircuts: int
    room: int
    arrival: int
    cut: int


# -- Retinue ---------------------------------------------------------------------------------------------------------------------------------------


@rt.message
class Start(rt.Message):
    pass


@rt.message
class Enter(rt.Message):
    customer: rt.Ref[Any]


@rt.message
class Returned(rt.Message):
    customer: rt.Ref[Any]


@rt.message
class Full(rt.Message):
    pass


@rt.message
class Wait(rt.Message):
    pass


@rt.message
class Next(rt.Message):
    pass


@rt.message
class Done(rt.Message):
    pass


@rt.message
class Exit(rt.Message):
    cuts: int


class Room(rt.Actor):
    def __init__(self, capacity: int, barber: rt.Ref[Any], answer: Answer) -> None:
        self.capacity = capacity
        self.barber = barber
        self.answer = answer
        self.waiting: deque[rt.Ref[Any]] = deque()
        self.asleep = True
        self.full = 0

    @rt.handler(requires="savina.cut")
    def enter(self, message: Enter) -> None:
        if len(self.waiting) == self.capacity:
            self.full += 1
            message.customer.tell(Full())
            return
        self.waiting.append(message.customer)
        if self.asleep:
            self.asleep = False
            self.ctx.ref.tell(Next())
        else:
            message.customer.tell(Wait())

    @rt.handler(requires="savina.cut")
    def next(self, _: Next) -> None:
        if self.waiting:
            self.barber.tell(Enter(self.waiting.popleft()))
        else:
            self.barber.tell(Wait())
            self.asleep = True

    @rt.handler(requires="savina.cut")
    def exit(self, message: Exit) -> None:
        self.barber.tell(message)
        self.answer.set((message.cuts, self.full > 0))
        self.ctx.stop()


class Barber(rt.Actor):
    def __init__(self, cut: int) -> None:
        self.cut = cut
        self.random = PseudoRandom()

    @rt.handler(requires="savina.cut")
    def enter(self, message: Enter) -> None:
        message.customer.tell(Start())
        busy_wait(self.random.below(self.cut) + 10, self.random)
        message.customer.tell(Done())
        room = self.ctx.sender
        if room is not None:
            room.tell(Next())

    @rt.handler(requires="savina.cut")
    def wait(self, _: Wait) -> None:
        pass

    @rt.handler(requires="savina.cut")
    def exit(self, _: Exit) -> None:
        self.ctx.stop()


class Customer(rt.Actor):
    def __init__(self, factory: rt.Ref[Any]) -> None:
        self.factory = factory

    @rt.handler(requires="savina.cut")
    def full(self, _: Full) -> None:
        self.factory.tell(Returned(self.ctx.ref))

    @rt.handler(requires="savina.cut")
    def wait(self, _: Wait | Start) -> None:
        pass

    @rt.handler(requires="savina.cut")
    def done(self, _: Done) -> None:
        self.factory.tell(Done())
        self.ctx.stop()


class Factory(rt.Actor):
    def __init__(self, size: Shop, room: rt.Ref[Room]) -> None:
        self.size = size
        self.room = room
        self.random = PseudoRandom()
        self.cuts = 0

    @rt.handler(requires="savina.cut")
    async def start(self, _: Start) -> None:
        for customer in [await self.ctx.spawn(Customer, self.ctx.ref) for _number in range(self.size.haircuts)]:
            self.room.tell(Enter(customer))
            busy_wait(self.random.below(self.size.arrival) + 10, self.random)

    @rt.handler(requires="savina.cut")
    def returned(self, message: Returned) -> None:
        self.room.tell(Enter(message.customer))

    @rt.handler(requires="savina.cut")
    def done(self, _: Done) -> None:
        self.cuts += 1
        if self.cuts == self.size.haircuts:
            self.room.tell(Exit(self.cuts))
            self.ctx.stop()


@in_retinue
async def ours(system: rt.ActorSystem, size: Shop) -> Outcome:
    answer = Answer()
    barber = await system.spawn(Barber, size.cut)
    room = await system.spawn(Room, size.room, barber, answer, mailbox=MANY)
    factory = await system.spawn(Factory, size, room, mailbox=MANY)
    with Timer() as timer:
        factory.tell(Start())
        result = await answer.get()
    return timer, result


# -- pykka -----------------------------------------------------------------------------------------------------------------------------------------


@attrs.frozen
class PeerEnter:
    customer: Any
    room: Any


@attrs.frozen
class PeerReturned:
    customer: Any


class PykkaRoom(pykka.ThreadingActor):
    def __init__(self, capacity: int, barber: pykka.ActorRef[Any], answer: pykka.Future[Any]) -> None:
        super().__init__()
        self.capacity = capacity
        self.barber = barber
        self.answer = answer
        self.waiting: deque[pykka.ActorRef[Any]] = deque()
        self.asleep = True
        self.full = 0

    def on_receive(self, message: object) -> None:
        if isinstance(message, PeerEnter):
            if len(self.waiting) == self.capacity:
                self.full += 1
                message.customer.tell(Full())
                return
            self.waiting.append(message.customer)
            if self.asleep:
                self.asleep = False
                self.actor_ref.tell(Next())
            else:
                message.customer.tell(Wait())
        elif isinstance(message, Next):
            if self.waiting:
                self.barber.tell(PeerEnter(self.waiting.popleft(), self.actor_ref))
            else:
                self.barber.tell(Wait())
                self.asleep = True
        elif isinstance(message, Exit):
            self.barber.tell(message)
            self.answer.set((message.cuts, self.full > 0))
            self.stop()


class PykkaBarber(pykka.ThreadingActor):
    def __init__(self, cut: int) -> None:
        super().__init__()
        self.cut = cut
        self.random = PseudoRandom()

    def on_receive(self, message: object) -> None:
        if isinstance(message, PeerEnter):
            message.customer.tell(Start())
            busy_wait(self.random.below(self.cut) + 10, self.random)
            message.customer.tell(Done())
            message.room.tell(Next())
        elif isinstance(message, Exit):
            self.stop()


class PykkaCustomer(pykka.ThreadingActor):
    def __init__(self, factory: pykka.ActorRef[Any]) -> None:
        super().__init__()
        self.factory = factory

    def on_receive(self, message: object) -> None:
        if isinstance(message, Full):
            self.factory.tell(PeerReturned(self.actor_ref))
        elif isinstance(message, Done):
            self.factory.tell(Done())
            self.stop()


class PykkaFactory(pykka.ThreadingActor):
    def __init__(self, size: Shop, room: pykka.ActorRef[Any]) -> None:
        super().__init__()
        self.size = size
        self.room = room
        self.random = PseudoRandom()
        self.cuts = 0

    def on_receive(self, message: object) -> None:
        if isinstance(message, Start):
            for customer in [PykkaCustomer.start(self.actor_ref) for _ in range(self.size.haircuts)]:
                self.room.tell(PeerEnter(customer, self.room))
                busy_wait(self.random.below(self.size.arrival) + 10, self.random)
        elif isinstance(message, PeerReturned):
            self.room.tell(PeerEnter(message.customer, self.room))
        else:
            self.cuts += 1
            if self.cuts == self.size.haircuts:
                self.room.tell(Exit(self.cuts))
                self.stop()


@in_pykka
def with_pykka(failures: Failures, size: Shop) -> Outcome:
    answer: pykka.Future[Any] = pykka.ThreadingFuture()
    barber = PykkaBarber.start(size.cut)
    factory = PykkaFactory.start(size, PykkaRoom.start(size.room, barber, answer))
    with Timer() as timer:
        factory.tell(Start())
        result = failures.result_of(answer)
    failures.ended([barber])
    return timer, result


# -- trio ------------------------------------------------------------------------------------------------------------------------------------------


async def serve_room(this: Channel, messages: trio.MemoryReceiveChannel[Any], capacity: int, barber: Channel, answer: Answer) -> None:
    waiting: deque[Channel] = deque()
    asleep = True
    full = 0
    async for message in messages:
        if isinstance(message, PeerEnter):
            if len(waiting) == capacity:
                full += 1
                message.customer.send_nowait(Full())
                continue
            waiting.append(message.customer)
            if asleep:
                asleep = False
                this.send_nowait(Next())
            else:
                message.customer.send_nowait(Wait())
        elif isinstance(message, Next):
            if waiting:
                barber.send_nowait(PeerEnter(waiting.popleft(), this))
            else:
                barber.send_nowait(Wait())
                asleep = True
        elif isinstance(message, Exit):
            barber.send_nowait(message)
            answer.set((message.cuts, full > 0))
            return


async def serve_barber(messages: trio.MemoryReceiveChannel[Any], cut: int) -> None:
    random = PseudoRandom()
    async for message in messages:
        if isinstance(message, PeerEnter):
            message.customer.send_nowait(Start())
            busy_wait(random.below(cut) + 10, random)
            message.customer.send_nowait(Done())
            message.room.send_nowait(Next())
        elif isinstance(message, Exit):
            return


async def serve_customer(this: Channel, messages: trio.MemoryReceiveChannel[Any], factory: Channel) -> None:
    async for message in messages:
        if isinstance(message, Full):
            factory.send_nowait(PeerReturned(this))
        elif isinstance(message, Done):
            factory.send_nowait(Done())
            return


async def serve_factory(nursery: trio.Nursery, this: Channel, messages: trio.MemoryReceiveChannel[Any], size: Shop, room: Channel) -> None:
    random = PseudoRandom()
    cuts = 0
    async for message in messages:
        if isinstance(message, Start):
            customers = []
            for _ in range(size.haircuts):
                customer, received = inbox()
                nursery.start_soon(serve_customer, customer, received, this)
                customers.append(customer)
            for customer in customers:
                room.send_nowait(PeerEnter(customer, room))
                busy_wait(random.below(size.arrival) + 10, random)
        elif isinstance(message, PeerReturned):
            room.send_nowait(PeerEnter(message.customer, room))
        else:
            cuts += 1
            if cuts == size.haircuts:
                room.send_nowait(Exit(cuts))
                return


@in_trio
async def with_trio(nursery: trio.Nursery, size: Shop) -> Outcome:
    answer = Answer()
    barber, cut = inbox()
    room, entered = inbox()
    factory, made = inbox()
    nursery.start_soon(serve_barber, cut, size.cut)
    nursery.start_soon(serve_room, room, entered, size.room, barber, answer)
    nursery.start_soon(serve_factory, nursery, factory, made, size, room)
    await trio.testing.wait_all_tasks_blocked()
    with Timer() as timer:
        factory.send_nowait(Start())
        result = await answer.get()
    return timer, result


BARBER = Benchmark(
    name="barber",
    title="Sleeping barber",
    unit="haircuts",
    how="A factory makes customers, each an actor, and then sends them to a waiting room, which drives the barber; who finds it full comes again at once, so most "
    "of the messages are about a room that is full. The room has a chair for every fifth haircut, as Savina's (5,000 haircuts, 1,000 chairs). Savina makes each "
    "customer right before it is sent; where that takes longer than a haircut (a thread) its room would never fill. Between customers and for a haircut random numbers "
    "are drawn. Checked: the haircuts that the factory heard of, one from each customer, and that the room was full.",
    operations=lambda size: size.haircuts,
    expected=lambda size: (size.haircuts, True),
    full=Shop(500, 100, arrival=50, cut=50),
    quick=Shop(200, 40, arrival=50, cut=50),
    tiny=Shop(12, 2, arrival=5, cut=5),
    ports={"retinue": ours, "pykka": with_pykka, "trio": with_trio},
)
