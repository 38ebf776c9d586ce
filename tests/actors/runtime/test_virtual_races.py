"""Messages that race with the end of an instance, at every moment of it: never two instances of a key, no message lost, the order of each sender kept."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
import trio
from trio.testing import MockClock

import retinue as rt
from core_hosts import conserved, reasons
from retinue.testing import deterministic
from virtual_players import Bare, Book, Broken, Count, Fail, Leave, Number, Run, RunAsync, Session, seconds

IDLE = 16.0


def make(**options: Any) -> rt.ActorSystem:
    return rt.ActorSystem("races", **{"block_warning": math.inf, **options})


@pytest.mark.parametrize("cls", [Bare, Session])
@pytest.mark.parametrize("first", ["deadline", "message"])
async def test_a_message_comes_in_the_very_pass_in_which_its_time_is_over(cls: type[Bare], first: str, autojump_clock: MockClock) -> None:
    async with make() as system:
        book = Book()
        sessions = await system.spawn_virtual(cls, book, name="sessions", idle=IDLE)
        await sessions["a"].ask(Count())
        await system.wait_quiet()
        seats = sessions._region.seats

        def look() -> None:
            assert seats._deadline is not None
            system._kernel.deadlines.cancel(seats._deadline)
            seats._look_round()

        for _ in range(16):
            look()
        sent: list[Any] = [Number("t", 1), Number("t", 2)]
        if first == "message":
            sessions["a"].tell(sent.pop(0))
        look()  # its time is over; nothing suspends between this and what is sent
        for message in sent:
            sessions["a"].tell(message)
        await system.wait_quiet()
        assert book.numbers["a", "t"] == [1, 2]
        assert book.made["a"] == (2 if cls is Bare and first == "deadline" else 1)
        assert sessions.active() == ("a",)
        assert conserved(system)
        await trio.sleep(IDLE * 1.2)
        assert sessions.active() == ()  # it was asked to leave and stayed, and can be asked again


async def test_what_comes_during_on_stop_is_for_a_new_instance_that_begins_after_it(autojump_clock: MockClock) -> None:
    async with make() as system:
        book = Book(on_stop=lambda _, __: seconds(3))
        sessions = await system.spawn_virtual(Session, book, name="sessions", idle=IDLE)
        alice = sessions["alice"]
        await alice.ask(Count())
        got: list[Any] = []

        async def ask() -> None:
            got.append((await alice.ask(Count()), trio.current_time()))

        async with trio.open_nursery() as nursery:
            began = trio.current_time()
            nursery.start_soon(sessions.passivate, "alice")
            await trio.sleep(1)
            assert book.alive["alice"] == 1
            alice.tell(Number("t", 1))
            assert await alice.send(Number("t", 2))
            nursery.start_soon(ask)
        assert got == [(1, began + 3)]
        assert book.numbers["alice", "t"] == [1, 2]
        assert book.log == [("alice", "begin"), ("alice", "passivated"), ("alice", "begin")]
        assert conserved(system)


async def test_a_request_that_is_withdrawn_during_on_stop_makes_no_new_instance(autojump_clock: MockClock) -> None:
    async with make() as system:
        book = Book(on_stop=lambda _, __: seconds(3))
        sessions = await system.spawn_virtual(Session, book, name="sessions")
        await sessions["a"].ask(Count())
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sessions.passivate, "a")
            await trio.sleep(1)
            with pytest.raises(rt.AskTimeout):
                await sessions["a"].ask(Count(), timeout=1)
        assert sessions.active() == ()
        assert book.made == {"a": 1}
        assert conserved(system)


async def test_requests_that_moved_to_the_new_instance_can_still_be_withdrawn(autojump_clock: MockClock) -> None:
    async def slow_second(self: Session) -> None:
        if book.made["a"] == 2:
            await trio.sleep(5)

    async with make() as system:
        book = Book(on_stop=lambda _, __: seconds(1), on_start=slow_second)
        sessions = await system.spawn_virtual(Session, book, name="sessions", mailbox=rt.Mailbox.bounded(3))
        await sessions["a"].ask(Count())
        outcomes: list[Any] = []

        async def ask(timeout: float) -> None:
            try:
                outcomes.append(await sessions["a"].ask(Count(), timeout=timeout))
            except rt.RetinueError as error:
                outcomes.append(type(error))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(sessions.passivate, "a")
            await trio.sleep(0.5)
            for timeout in (2.0, 20.0, 2.0, 20.0, 2.0, 20.0):  # three of them wait for room
                nursery.start_soon(ask, timeout)
                await trio.testing.wait_all_tasks_blocked()
            await trio.sleep(1)
            assert sessions["a"].tell(Count()).reason == "mailbox_full"
            assert conserved(system)
        assert sorted(map(str, outcomes)) == sorted(map(str, [1, 2, 3, rt.AskTimeout, rt.AskTimeout, rt.MailboxFull]))
        assert book.made == {"a": 2}
        assert conserved(system)


async def test_a_send_that_waits_for_room_moves_with_the_rest(autojump_clock: MockClock) -> None:
    async with make() as system:
        book = Book(on_stop=lambda _, __: seconds(1))
        sessions = await system.spawn_virtual(Session, book, name="sessions", mailbox=rt.Mailbox.bounded(2))
        await sessions["a"].ask(Count())
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sessions.passivate, "a")
            await trio.sleep(0.5)
            for number in range(8):
                nursery.start_soon(sessions["a"].send, Number("t", number))
                await trio.testing.wait_all_tasks_blocked()
            assert system.statistics().queued == 8
        await system.wait_quiet()
        assert book.numbers["a", "t"] == list(range(8))
        assert conserved(system)


async def test_passivating_twice_ends_one_and_waits_for_the_same_end(autojump_clock: MockClock) -> None:
    async with make() as system:
        book = Book(on_stop=lambda _, __: seconds(2))
        sessions = await system.spawn_virtual(Session, book, name="sessions")
        await sessions["a"].ask(Count())
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sessions.passivate, "a")
            nursery.start_soon(sessions.passivate, "a")
            nursery.start_soon(sessions["a"].stop)
        assert trio.current_time() == began + 2
        assert book.log == [("a", "begin"), ("a", "passivated")] or book.log == [("a", "begin"), ("a", "stopped")]
        assert not await sessions.passivate("a")
        assert not await sessions.passivate("never")


async def test_an_instance_may_passivate_itself() -> None:
    async def leave(self: Session) -> bool:
        return await sessions.passivate("a")

    async with make() as system:
        book = Book()
        sessions = await system.spawn_virtual(Session, book, name="sessions")
        assert await sessions["a"].ask(RunAsync(leave)) is True
        assert await sessions["a"].ask(Count()) == 1
        assert book.log == [("a", "begin"), ("a", "passivated"), ("a", "begin")]


async def test_a_handler_that_takes_longer_than_the_grace_is_cut_off(autojump_clock: MockClock) -> None:
    async with make() as system:
        book = Book()
        sessions = await system.spawn_virtual(Session, book, name="sessions")
        sessions["a"].tell(RunAsync(lambda _: seconds(1000)))
        await trio.sleep(1)
        sessions["a"].tell(Number("t", 1))
        began = trio.current_time()
        assert await sessions.passivate("a", grace=3)
        assert trio.current_time() == began + 3
        await system.wait_quiet()
        assert book.numbers["a", "t"] == [1]
        assert reasons(system) == {"cancelled": 1}
        assert conserved(system)


async def test_an_on_stop_that_never_ends_is_cut_off_and_one_that_fails_is_no_obstacle(autojump_clock: MockClock) -> None:
    async def stop(self: Session, _: str) -> None:
        if self.key == "fails":
            raise Broken("in on_stop")
        await trio.sleep(math.inf)

    async with make() as system:
        book = Book(on_stop=stop)
        sessions = await system.spawn_virtual(Session, book, name="sessions")
        for key in ("fails", "hangs"):
            await sessions[key].ask(Count())
            async with trio.open_nursery() as nursery:
                nursery.start_soon(sessions.passivate, key)
                await trio.testing.wait_all_tasks_blocked(0.01)
                assert await sessions[key].ask(Count()) == 1
        assert conserved(system)
        assert trio.current_time() < 20


async def test_the_region_stops_while_an_instance_ends_and_mail_waits(autojump_clock: MockClock) -> None:
    async with make() as system:
        book = Book(on_stop=lambda _, __: seconds(2))
        sessions = await system.spawn_virtual(Session, book, name="sessions")
        await sessions["a"].ask(Count())
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sessions.passivate, "a")
            await trio.sleep(1)
            sessions["a"].tell(Count())
            nursery.start_soon(sessions.stop)
        assert book.log == [("a", "begin"), ("a", "passivated")]
        assert reasons(system) == {"stopped": 1}
        assert conserved(system)
        assert system.statistics().actors == 0


async def test_timers_and_stashed_mail_of_an_instance_that_ends() -> None:
    @rt.message
    class Tick(rt.Message):
        pass

    class Ticking(Session):
        @rt.handler
        def tick(self, _: Tick) -> None:
            self.book.log.append((str(self.key), "tick"))

    def begin(self: Any) -> None:
        self.ctx.timers.every("t", Tick(), 0.001)

    async with make() as system:
        book = Book()
        sessions = await system.spawn_virtual(Ticking, book, name="sessions")
        await sessions["a"].ask(Run(begin))
        await trio.sleep(0.02)
        sessions["a"].tell(Run(lambda self: self.ctx.stash()))
        await sessions.passivate("a")
        await system.wait_quiet()
        made = book.made["a"]
        assert made == 2  # for what it had set aside, which it sets aside again
        ticks = book.log.count(("a", "tick"))
        assert ticks
        await trio.sleep(0.02)
        assert book.log.count(("a", "tick")) == ticks
        assert conserved(system)


class Schedule:
    """One schedule: senders, ends of all kinds and failures in an order that the seed decides."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.dice = random.Random(seed)
        self.book = Book(on_start=self.start, on_stop=self.stop)
        self.expected: dict[tuple[str, str], list[int]] = {}
        self.system: rt.ActorSystem
        self.sessions: rt.Virtual[Session]

    async def pause(self, most: float) -> None:
        if self.dice.random() < 0.5:
            await trio.sleep(self.dice.random() * most)
        else:
            for _ in range(self.dice.randrange(4)):
                await trio.lowlevel.checkpoint()

    async def start(self, _: Session) -> None:
        await self.pause(0.3)
        if self.dice.random() < 0.1:
            raise Broken("at the start")

    async def stop(self, _: Session, __: str) -> None:
        await self.pause(0.3)
        if self.dice.random() < 0.1:
            raise Broken("at the end")

    async def sender(self, name: str) -> None:
        for number in range(12):
            key = self.dice.choice("abc")
            ref = self.sessions[key]
            kind = self.dice.randrange(4)
            try:
                if kind == 0:
                    await ref.ask(Count(), timeout=self.dice.choice([0.05, 30.0]))
                elif kind == 1:
                    if ref.tell(Number(name, number)):
                        self.expected.setdefault((key, name), []).append(number)
                elif kind == 2:
                    if await ref.send(Number(name, number)):
                        self.expected.setdefault((key, name), []).append(number)
                else:
                    await ref.ask(RunAsync(lambda _: self.pause(0.1)))
            except (rt.RetinueError, Broken):
                pass
            await self.pause(0.4)

    async def ender(self) -> None:
        for _ in range(10):
            await self.pause(0.5)
            key = self.dice.choice("abc")
            kind = self.dice.randrange(4)
            try:
                if kind == 0:
                    await self.sessions.passivate(key)
                elif kind == 1:
                    await self.sessions[key].stop()
                else:
                    await self.sessions[key].send(Leave() if kind == 2 else Fail())
            except rt.MailboxFull:
                pass
            assert conserved(self.system)

    async def main(self) -> None:
        dice, book = self.dice, self.book
        supervision = rt.Supervision(restart=dice.choice(["permanent", "transient", "temporary"]), intensity=(2, 60))
        mailbox = dice.choice([rt.Mailbox(), rt.Mailbox.bounded(8), rt.Mailbox.unbounded()])
        options: dict[str, Any] = {"supervision": supervision, "mailbox": mailbox}
        async with make(**({"seed": self.seed} if dice.random() < 0.5 else {})) as self.system:
            self.sessions = await self.system.spawn_virtual(
                Session, book, name="sessions", idle=dice.choice([0.05, 0.5, 5.0]), capacity=dice.choice([1, 2, 100]), **options
            )
            async with trio.open_nursery() as nursery:
                for name in ("x", "y", "z"):
                    nursery.start_soon(self.sender, name)
                nursery.start_soon(self.ender)
                nursery.start_soon(self.ender)
            await self.system.wait_quiet()
            self.check()
        assert +book.alive == {}
        assert conserved(self.system)
        assert self.system.statistics().queued == 0

    def check(self) -> None:
        assert conserved(self.system)
        for of, numbers in self.book.numbers.items():
            assert numbers == sorted(numbers), of
            assert set(numbers) <= set(self.expected[of]), of
        counts = self.system.statistics()
        refused = sum(counts.dead_letters_by_reason.get(reason, 0) for reason in ("stopped", "poison", "cancelled"))
        lost = sum(map(len, self.expected.values())) - sum(map(len, self.book.numbers.values()))
        assert lost <= refused  # each of them is a dead letter of a start or an instance that failed, or was cut off
        assert set(+self.book.alive) <= set(self.sessions.active())  # which has those, too, that wait to be restarted


def run_schedule(seed: int) -> None:
    with deterministic(seed):
        trio.run(Schedule(seed).main, clock=MockClock(autojump_threshold=0), strict_exception_groups=True)


@pytest.mark.parametrize("first", [0, *(pytest.param(first, marks=pytest.mark.slow) for first in range(10, 970, 120))])
def test_no_schedule_loses_a_message_or_makes_two(first: int) -> None:
    for seed in range(first, first + (10 if first == 0 else 120)):
        try:
            run_schedule(seed)
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
