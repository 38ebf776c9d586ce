"""Contract point 4: one message at a time in an actor, in the order in which each sender sent."""

from __future__ import annotations

import random

import trio
import trio.testing

import retinue as rt
from core_actors import Double, Hold, Note, Notes, Plain
from core_hosts import Host, conserved
from core_latch import Latch


@rt.message
class Step(rt.Request[int]):
    number: int
    pauses: int = 1


@rt.message
class From(rt.Message):
    sender: int
    number: int


class Counter(rt.Actor):
    """Notices when two handlers run at once."""

    def __init__(self, log: list[tuple[int, int]] | None = None) -> None:
        self.inside = 0
        self.most = 0
        self.log = log if log is not None else []

    @rt.handler
    async def step(self, message: Step) -> int:
        self.inside += 1
        self.most = max(self.most, self.inside)
        for _ in range(message.pauses):
            await trio.lowlevel.checkpoint()
        self.inside -= 1
        return self.most

    @rt.handler
    def arrived(self, message: From) -> None:
        self.most = max(self.most, self.inside + 1)
        self.log.append((message.sender, message.number))

    @rt.handler
    def double(self, message: Double) -> int:
        return max(self.most, self.inside + 1)


async def test_a_second_message_waits_until_the_first_is_done(host: Host) -> None:
    async with host.system() as system:
        latch = Latch()
        log: list[int] = []
        ref = await system.spawn(host.holder, log, latch)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ref.ask, Hold(1))
            await latch.until(entered=1)
            ref.tell(Note(2))
            nursery.start_soon(ref.ask, Note(3))
            await trio.testing.wait_all_tasks_blocked()
            assert log == []
            latch.open()
        assert log == [1, 2, 3]


async def test_handlers_of_one_actor_never_run_at_once_however_it_is_called(loop_host: Host) -> None:
    async with loop_host.system() as system:
        ref = await system.spawn(Counter)
        most: list[int] = []

        async def caller(number: int) -> None:
            dice = random.Random(number)
            for turn in range(10):
                kind = dice.randrange(3)
                if kind == 0:
                    most.append(await ref.ask(Step(turn, dice.randrange(4))))
                elif kind == 1:
                    ref.tell(From(number, turn))
                else:
                    most.append(await ref.ask(Double(turn)))

        async with trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(caller, number)
        assert max(most) == 1
        assert conserved(system)


async def test_each_senders_messages_arrive_in_the_order_they_were_sent(host: Host) -> None:
    log: list[tuple[int, int]] = []

    class Listener(rt.Actor, blocking=host.blocking):
        @rt.handler
        def arrived(self, message: From) -> None:
            log.append((message.sender, message.number))

    async with host.system() as system:
        ref = await system.spawn(Listener, mailbox=rt.Mailbox.bounded(5000))

        async def sender(number: int) -> None:
            dice = random.Random(number)
            for turn in range(60):
                if dice.random() < 0.6:
                    ref.tell(From(number, turn))
                elif dice.random() < 0.5:
                    await ref.ask(From(number, turn))
                else:
                    await ref.send(From(number, turn))
                if dice.random() < 0.3:
                    await trio.lowlevel.checkpoint()

        async with trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(sender, number)
        await system.wait_quiet()
        assert len(log) == 20 * 60
        for number in range(20):
            assert [turn for sender_number, turn in log if sender_number == number] == list(range(60))
        assert conserved(system)


async def test_an_ask_does_not_overtake_the_tells_before_it(host: Host) -> None:
    async with host.system() as system:
        ref = await system.spawn(host.plain)
        for number in range(100):
            ref.tell(Note(number))
        assert await ref.ask(Notes()) == list(range(100))


async def test_actors_of_one_system_take_turns_while_one_of_them_waits(loop_host: Host) -> None:
    async with loop_host.system() as system:
        latch = Latch()
        waiting = await system.spawn(loop_host.holder, None, latch)
        other = await system.spawn(loop_host.plain)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(waiting.ask, Hold(1))
            await latch.until(entered=1)
            other.tell(Note(1))
            assert await other.ask(Notes()) == [1]
            latch.open()


async def test_as_many_actors_as_there_are_can_wait_at_once(loop_host: Host) -> None:
    async with loop_host.system() as system:
        latch = Latch()
        refs = [await system.spawn(loop_host.holder, None, latch) for _ in range(200)]
        for ref in refs:
            ref.tell(Hold(1))
        await latch.until(entered=200)
        latch.open()
        await system.wait_quiet()
        assert system.statistics().handled == 200
        assert system.statistics().workers <= 9  # the workers that were needed for it are gone again
        assert conserved(system)


async def test_a_flooded_actor_does_not_starve_the_others(loop_host: Host) -> None:
    order: list[str] = []

    class Loud(rt.Actor):
        def __init__(self, word: str) -> None:
            self.word = word

        @rt.handler
        def note(self, message: Note) -> None:
            order.append(self.word)

    async with loop_host.system() as system:
        flooded = await system.spawn(Loud, "flooded", mailbox=rt.Mailbox.unbounded())
        quiet = await system.spawn(Loud, "quiet")
        for number in range(1000):
            flooded.tell(Note(number))
        quiet.tell(Note(0))
        await system.wait_quiet()
        assert order.index("quiet") <= 64
        assert len(order) == 1001


async def test_actors_that_keep_each_other_busy_do_not_stop_the_clock_and_other_tasks(loop_host: Host) -> None:
    class Ping(rt.Actor):
        @rt.handler
        def note(self, message: Note) -> None:
            self.ctx.ref.tell(message)

    async with loop_host.system() as system:
        ref = await system.spawn(Ping)
        ref.tell(Note(0))
        with trio.fail_after(10):
            for _ in range(20):
                await trio.sleep(0.002)
        await ref.stop()
        assert conserved(system)


async def test_a_seed_makes_the_order_of_turns_reproducible_and_another_seed_another_one() -> None:
    async def order(seed: int) -> list[int]:
        log: list[int] = []
        async with rt.ActorSystem(seed=seed) as system:
            refs = [await system.spawn(Plain, log) for _ in range(20)]
            for number, ref in enumerate(refs):
                ref.tell(Note(number))
            await system.wait_quiet()
        return log

    first, again, other = await order(1), await order(1), await order(2)
    assert first == again
    assert first != other
    assert sorted(first) == sorted(other) == list(range(20))


async def test_a_handler_sees_who_sent_its_message(loop_host: Host) -> None:
    senders: list[object] = []

    class Receiver(rt.Actor):
        @rt.handler
        def note(self, message: Note) -> None:
            senders.append(self.ctx.sender)

    class Sender(rt.Actor):
        def __init__(self, target: rt.Ref[Receiver]) -> None:
            self.target = target

        @rt.handler
        async def double(self, message: Double) -> int:
            self.target.tell(Note(1))
            await self.target.ask(Note(2))
            await self.target.send(Note(3))
            return 0

    async with loop_host.system() as system:
        receiver = await system.spawn(Receiver)
        sender = await system.spawn(Sender, receiver)
        await sender.ask(Double(1))
        receiver.tell(Note(4))
        await system.wait_quiet()
        assert senders == [sender, sender, sender, None]
