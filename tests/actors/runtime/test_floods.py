"""Floods: two bounded actors that fill each other's mailboxes, many producers against one consumer, tickers between them. Nothing ever hangs, and the books balance."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest
import trio
from trio.testing import MockClock

import retinue as rt
from core_hosts import conserved, reasons

PATIENCE = 60.0


@rt.message
class Flood(rt.Request[int]):
    """Send `width` further ones to the other actor, each of which does so `left` times more."""

    how: str
    left: int
    width: int = 3
    pause: float = 0


@rt.message
class Meet(rt.Request[None]):
    other: Any


@rt.message
class Beat(rt.Message):
    pass


class Flooder(rt.Actor):
    """Floods the other one, by tells, sends or asks, and counts what comes of it."""

    def __init__(self, count: Counter[str]) -> None:
        self.count = count
        self.other: Any = None

    @rt.handler
    def meet(self, message: Meet) -> None:
        self.other = message.other

    @rt.handler
    def beat(self, _: Beat) -> None:
        self.count["beat"] += 1

    @rt.handler
    async def flood(self, message: Flood) -> int:
        self.count["handled"] += 1
        await trio.sleep(message.pause)
        for number in range(message.width if message.left else 0):
            how = message.how if message.how != "all" else ("tell", "send", "ask")[number % 3]
            following = Flood(message.how, message.left - 1, message.width, message.pause)
            try:
                if how == "tell":
                    self.count["told" if self.other.tell(following) else "refused"] += 1
                elif how == "send":
                    self.count["sent" if await self.other.send(following, timeout=PATIENCE) else "refused"] += 1
                else:
                    await self.other.ask(following, timeout=PATIENCE)
                    self.count["asked"] += 1
            except (rt.AskCycle, rt.MailboxFull, rt.AskTimeout) as error:
                self.count[type(error).__name__] += 1
        return message.left


async def pair(system: rt.ActorSystem, count: Counter[str], mailbox: rt.Mailbox) -> tuple[rt.Ref[Flooder], rt.Ref[Flooder]]:
    a, b = [await system.spawn(Flooder, count, name=name, mailbox=mailbox) for name in "ab"]
    await a.ask(Meet(b))
    await b.ask(Meet(a))
    return a, b


@pytest.mark.parametrize("overflow", ["reject", "drop_oldest", "drop_newest", "wait"])
@pytest.mark.parametrize("how", ["tell", "send", "ask", "all"])
async def test_two_actors_that_flood_each_other_never_hang(
    how: str, overflow: Any, turn_system: rt.ActorSystem, autojump_clock: MockClock
) -> None:
    """Row 22 of the reference: two bounded queues that are full in both directions were a deadlock."""
    count: Counter[str] = Counter()
    async with turn_system as system:
        a, b = await pair(system, count, rt.Mailbox.bounded(4, overflow=overflow))
        for number in range(8):
            (a if number % 2 else b).tell(Flood(how, 5))
        with trio.fail_after(600):
            while not system._kernel.is_quiet():
                await trio.sleep(0.1)
        assert conserved(system)
        counts = system.statistics()
        assert counts.queued == counts.suspended == 0
        assert count["handled"] == counts.handled - 2
        if how == "tell":
            assert counts.dead_letters > 10, "a tell never waits: what has no room is a dead letter"
            assert trio.current_time() < 1
        elif how == "send":
            assert count["AskCycle"] + count["MailboxFull"] > 0, "both wait for room with the other"
        elif how == "ask":
            assert count["AskCycle"] > 0
            assert count["asked"] > 0
        assert set(reasons(system)) <= {"mailbox_full", "dropped_oldest", "dropped_newest", "withdrawn", "expired"}
        assert await a.ask(Flood("tell", 0)) == await b.ask(Flood("tell", 0)) == 0, "both go on afterwards"


@pytest.mark.parametrize("how", ["send", "all"])
async def test_a_stop_in_the_middle_of_a_flood_is_reached_and_all_who_wait_are_told(
    how: str, turn_system: rt.ActorSystem, autojump_clock: MockClock
) -> None:
    count: Counter[str] = Counter()
    ended: Counter[str] = Counter()
    flood = Flood(how, 3, pause=0.2)

    async def outside(ref: rt.Ref[Any]) -> None:
        for number in range(20):
            try:
                await ref.ask(flood, timeout=60) if number % 2 else await ref.send(flood, timeout=60)
                ended["fine"] += 1
            except rt.RetinueError as error:
                ended[type(error).__name__] += 1

    async with turn_system as system, trio.open_nursery() as nursery:
        a, b = await pair(system, count, rt.Mailbox.bounded(2))
        for ref in (a, b) * 5:
            nursery.start_soon(outside, ref)
        await trio.sleep(1)
        before = trio.current_time()
        await a.stop(grace=0.5)
        assert trio.current_time() - before <= 0.5 + 1e-9
        await b.stop(grace=0.5)
        with trio.fail_after(60):
            while nursery.child_tasks:
                await trio.sleep(0.1)
        assert sum(ended.values()) == 200
        assert ended["ActorStopped"] > 0
        assert conserved(system)
        assert system.statistics().queued == 0


async def test_the_bound_is_counted_at_the_receiver_whoever_sends(autojump_clock: MockClock) -> None:
    """Row 25 of the reference: a limit for each caller is no limit for fifty callers."""

    class Slow(rt.Actor):
        @rt.handler
        async def beat(self, _: Beat) -> None:
            await trio.sleep(0.01)

    most = 0

    async def produce(ref: rt.Ref[Any], system: rt.ActorSystem) -> None:
        nonlocal most
        for number in range(40):
            ref.tell(Beat()) if number % 2 else await ref.send(Beat(), timeout=1000)
            most = max(most, system.actors()[0].queued)

    async with rt.ActorSystem("floods", block_warning=math.inf) as system:
        ref = await system.spawn(Slow, mailbox=rt.Mailbox.bounded(16))
        async with trio.open_nursery() as nursery:
            for _ in range(50):
                nursery.start_soon(produce, ref, system)
        await system.wait_quiet(timeout=1000)
        assert most <= 1 + 16 + 50  # in progress, in the mailbox, and a send of each producer that waits for room
        assert set(reasons(system)) == {"mailbox_full"}
        assert conserved(system)


async def test_tickers_between_floods_are_heard_and_take_nobodys_room(turn_system: rt.ActorSystem, autojump_clock: MockClock) -> None:
    """A ticker of 1 ms against two actors that flood each other, each slow: the mail goes on, the ticks go on, and neither piles up."""
    count: Counter[str] = Counter()

    class Ticking(Flooder):
        def on_start(self) -> None:
            self.ctx.timers.every("beat", Beat(), 0.001)

        @rt.handler
        async def flood(self, message: Flood) -> int:
            self.count["handled"] += 1
            await trio.sleep(0.01)
            for _ in range(2):
                self.other.tell(message)
            return 0

    async with turn_system as system:
        a, b = [await system.spawn(Ticking, count, mailbox=rt.Mailbox.bounded(3)) for _ in range(2)]
        await a.ask(Meet(b))
        await b.ask(Meet(a))
        a.tell(Flood("tell", 1))
        b.tell(Flood("tell", 1))
        most = 0
        for _ in range(50):
            await trio.sleep(0.00777 * 2)
            most = max(most, *(actor.queued for actor in system.actors()))
        assert most <= 1 + 3 + 1  # in progress, in the mailbox, and one tick
        assert count["handled"] > 140
        assert count["beat"] > 70, "a tick waits for two messages of the mailbox at most: the one in progress, and the one that was next"
        before = trio.current_time()
        await a.stop(grace=1)
        await b.stop(grace=1)
        assert trio.current_time() - before <= 0.02 + 1e-9
        assert system.statistics().timers == 0
        assert conserved(system)
