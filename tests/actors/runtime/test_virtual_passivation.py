"""Passivation: an instance that nobody needs any more goes, what keeps it awake, and what a region does that is full."""

from __future__ import annotations

import contextlib
import gc
import math
from pathlib import Path
from typing import Any

import pytest
import sqlite_utils
import trio
from trio.testing import MockClock

import retinue as rt
from core_hosts import conserved, reasons
from core_latch import Latch
from retinue.testing import VirtualClock
from virtual_players import Bare, Book, Count, Number, Run, RunAsync, Session, ThreadSession, Up, seconds

IDLE = 16.0
LATEST = IDLE + 1 + 0.001
"""An instance goes within a sixteenth more."""


def make(**options: Any) -> rt.ActorSystem:
    return rt.ActorSystem("passivation", **{"block_warning": math.inf, **options})


async def test_an_idle_instance_goes_and_the_next_message_makes_a_new_one(autojump_clock: MockClock) -> None:
    async with make() as system:
        for cls, log in ((Bare, []), (Session, [("a", "begin"), ("a", "passivated"), ("a", "begin")])):
            book = Book()
            sessions = await system.spawn_virtual(cls, book, idle=IDLE)
            assert await sessions["a"].ask(Count()) == 1
            await trio.sleep(IDLE - 0.001)
            assert sessions.active() == ("a",)
            await trio.sleep(LATEST - IDLE + 1)
            assert sessions.active() == ()
            assert not sessions["a"].active
            assert sessions["a"].alive
            assert await sessions["a"].ask(Count()) == 1
            assert book.made == {"a": 2}
            assert book.log == log
        assert conserved(system)


async def test_each_use_however_it_comes_starts_the_time_again(virtual_clock: VirtualClock) -> None:
    async with make() as system:
        sessions = await system.spawn_virtual(Session, Book(), name="sessions", idle=IDLE)
        root = system.authority.root
        ref = sessions["a"]
        await ref.ask(Count())
        for _ in range(3):
            for use in (
                lambda: ref.ask(Count()),
                lambda: ref.send(Number("t", 1)),
                lambda: trio.to_thread.run_sync(lambda: ref.tell(Number("t", 1), context=root)),
            ):
                await trio.sleep(IDLE * 0.9)
                await use()
        await trio.sleep(IDLE * 0.9)
        assert await ref.ask(Count()) == 5
        await trio.sleep(LATEST + 1)
        assert sessions.active() == ()


async def test_an_instance_for_ever_stays(autojump_clock: MockClock) -> None:
    async with make() as system:
        sessions = await system.spawn_virtual(Session, Book(), name="sessions", idle=math.inf)
        await sessions["a"].ask(Count())
        assert system.statistics().deadlines == 0
        await trio.sleep(1e6)
        assert sessions.active() == ("a",)


async def test_a_region_at_rest_has_no_deadline(autojump_clock: MockClock) -> None:
    async with make() as system:
        sessions = await system.spawn_virtual(Session, Book(), name="sessions", idle=IDLE)
        await sessions["a"].ask(Count())
        assert system.statistics().deadlines == 1
        await trio.sleep(LATEST + 1)
        assert system.statistics().deadlines == 0
        await sessions["a"].ask(Count())
        await sessions.stop()
        assert system.statistics().deadlines == 0


class Sleeper(rt.Actor):
    @rt.handler
    async def count(self, _: Count) -> int:
        await trio.sleep(IDLE * 5)
        return 1


@rt.message
class Tick(rt.Message):
    pass


class Ticking(Session):
    """Takes ticks and what a topic tells."""

    @rt.handler
    def tick(self, _: Tick) -> None:
        pass


NEWS = rt.Topic("news", Tick)


async def ask_somebody(self: Ticking) -> None:
    self.book.held = self.ctx.pipe_to_self(self.book.sleeper.ask(Count(), timeout=math.inf), then=lambda _: Tick())


async def defer(self: Ticking) -> None:
    self.book.held = self.ctx.defer()


async def set_timer(self: Ticking) -> None:
    self.ctx.timers.once("late", Tick(), after=IDLE * 5)


async def start_task(self: Ticking) -> None:
    self.ctx.start_soon(trio.sleep, IDLE * 5)


async def spawn_child(self: Ticking) -> None:
    self.book.held = await self.ctx.spawn(Sleeper)


async def stash(self: Ticking) -> None:
    self.ctx.stash()


async def subscribe(self: Ticking) -> None:
    self.ctx.topics.subscribe(NEWS)


async def let_go(self: Ticking) -> None:
    self.ctx.topics.unsubscribe(NEWS)
    held = self.book.held
    if isinstance(held, rt.Ref):
        await held.stop()
    elif hasattr(held, "reply"):
        held.reply(None)


@pytest.mark.parametrize(
    "keep", [ask_somebody, defer, set_timer, start_task, spawn_child, subscribe], ids=lambda function: function.__name__
)
async def test_what_it_has_to_do_keeps_it_awake_and_for_no_longer(autojump_clock: MockClock, keep: Any) -> None:
    async with make() as system:
        book = Book()
        book.sleeper = await system.spawn(Sleeper)
        sessions = await system.spawn_virtual(Ticking, book, name="sessions", idle=IDLE)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: sessions["a"].ask(RunAsync(keep), timeout=math.inf))
            await trio.sleep(IDLE * 4)
            assert sessions.active() == ("a",)
            if keep in (defer, spawn_child, subscribe):
                await sessions["a"].ask(RunAsync(let_go))
            await trio.sleep(IDLE + LATEST + 2)
            assert sessions.active() == ()
        assert book.log == [("a", "begin"), ("a", "passivated")]
        assert conserved(system)


async def test_mail_that_it_has_set_aside_keeps_it_awake(autojump_clock: MockClock) -> None:
    async with make() as system:
        sessions = await system.spawn_virtual(Session, Book(), name="sessions", idle=IDLE)
        sessions["a"].tell(RunAsync(stash))
        await trio.sleep(IDLE * 4)
        assert sessions.active() == ("a",)
        assert system.statistics().queued == 1


async def test_a_handler_that_waits_keeps_it_awake(autojump_clock: MockClock) -> None:
    async with make() as system:
        latch = Latch()
        sessions = await system.spawn_virtual(Session, Book(), name="sessions", idle=IDLE)
        sessions["a"].tell(RunAsync(lambda _: latch.wait()))
        await trio.sleep(IDLE * 4)
        assert sessions.active() == ("a",)
        latch.open()
        await trio.sleep(LATEST + 2)
        assert sessions.active() == ()


async def test_a_restart_that_is_delayed_is_no_reason_to_stay(autojump_clock: MockClock) -> None:
    async with make() as system:
        supervision = rt.Supervision(backoff=(25.0, 30.0))
        book = Book()
        sessions = await system.spawn_virtual(Bare, book, name="sessions", idle=IDLE, supervision=supervision)
        for _ in range(2):  # the first restart is at once
            with pytest.raises(ZeroDivisionError):
                await sessions["a"].ask(Run(lambda _: 1 / 0))
        await trio.sleep(LATEST + 1)
        assert sessions.active() == ()
        made = book.made["a"]
        await trio.sleep(60)
        assert book.made["a"] == made
        assert await sessions["a"].ask(Count()) == 1


# -- capacity ------------------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cls", [Bare, Session])
async def test_beyond_the_capacity_the_least_recently_used_one_goes(cls: type[Bare]) -> None:
    async with make() as system:
        book = Book()
        sessions = await system.spawn_virtual(cls, book, name="sessions", capacity=3)
        for key in "abc":
            await sessions[key].ask(Count())
        await sessions["a"].ask(Count())
        sessions["b"].tell(Number("t", 1))
        await sessions["d"].ask(Count())
        await system.wait_quiet()
        assert sessions.active() == ("a", "b", "d")
        await sessions["a"].ask(Count())
        for key in "ef":
            await sessions[key].ask(Count())
        await system.wait_quiet()
        assert sessions.active() == ("a", "e", "f")
        assert await sessions["a"].ask(Count()) == 4
        assert conserved(system)
        assert reasons(system) == {}


@pytest.mark.parametrize("cls", [Session, ThreadSession])
async def test_many_keys_pass_through_a_region_for_ten(cls: type[Bare]) -> None:
    many = 200 if cls is Session else 30
    async with make() as system:
        book = Book()
        sessions = await system.spawn_virtual(cls, book, name="sessions", capacity=10)
        for number in range(many):
            assert await sessions[str(number)].ask(Count()) == 1
            assert len(sessions.active()) <= 20  # those that end are not counted
        await system.wait_quiet()
        assert len(sessions.active()) == 10
        assert sum(book.alive.values()) == 10
        assert conserved(system)


async def test_a_region_full_of_busy_ones_refuses_and_says_so() -> None:
    async with make() as system:
        latch = Latch()
        book = Book()
        sessions = await system.spawn_virtual(Session, book, name="sessions", capacity=2)
        for key in "ab":
            sessions[key].tell(RunAsync(lambda _: latch.wait()))
        await latch.until(entered=2)
        assert sessions["c"].tell(Count()).reason == "mailbox_full"
        with pytest.raises(
            rt.MailboxFull, match=r"2 active virtual actors.*its capacity is 2.*/user/sessions/c was not activated.*may be sent again"
        ):
            await sessions["c"].ask(Count())
        with pytest.raises(rt.MailboxFull):
            await sessions["c"].send(Count())
        with pytest.raises(rt.MailboxFull):
            async with sessions["c"].stream(Up(1)):
                pass
        assert conserved(system)
        assert sorted(book.made) == ["a", "b"]
        assert sessions["a"].tell(Count())  # who is active is not refused
        latch.open()
        await system.wait_quiet()
        assert await sessions["c"].ask(Count()) == 1
        assert reasons(system) == {"mailbox_full": 1}


async def test_a_large_region_that_is_full_finds_the_idle_one_among_many_busy_ones() -> None:
    async with make() as system:
        latch = Latch()
        sessions = await system.spawn_virtual(Session, Book(), name="sessions", capacity=300)
        for number in range(300):
            sessions[str(number)].tell(RunAsync(lambda _: latch.wait()) if number != 150 else Count())
        await latch.until(entered=299)
        await system_step()
        assert sessions["new"].tell(RunAsync(lambda _: latch.wait()))
        assert not sessions["newer"].tell(Count())
        await system_step()
        assert "150" not in sessions.active()
        latch.open()
        await system.wait_quiet()


async def system_step() -> None:
    for _ in range(20):
        await trio.lowlevel.checkpoint()


async def test_a_full_region_names_what_keeps_its_actors_awake(autojump_clock: MockClock) -> None:
    topic = rt.Topic("numbers", Number)

    async def defer(self: Session) -> None:
        book.held = self.ctx.defer()

    keeps: dict[str, RunAsync | Run] = {
        "a timer": Run(lambda self: self.ctx.timers.once("later", Number("t", 1), 1000)),
        "a task": Run(lambda self: self.ctx.start_soon(trio.sleep, 1000) and None),
        "a subscription or a registration": Run(lambda self: self.ctx.topics.subscribe(topic) and None),
        "a child": RunAsync(lambda self: self.ctx.spawn(Idler)),
        "a deferred request": RunAsync(defer),
        "a message": RunAsync(lambda _: seconds(1000)),
    }

    async def ask(ref: rt.Ref[Session], message: Run | RunAsync) -> None:
        with contextlib.suppress(rt.RetinueError):
            await ref.ask(message, timeout=2000)

    for what, message in keeps.items():
        async with make() as system, trio.open_nursery() as nursery:
            book = Book()
            sessions = await system.spawn_virtual(Session, book, name="sessions", capacity=2)
            nursery.start_soon(ask, sessions["a"], message)
            nursery.start_soon(ask, sessions["b"], RunAsync(lambda _: seconds(1000)))
            await trio.sleep(1)
            with pytest.raises(rt.MailboxFull) as caught:
                await sessions["c"].ask(Count())
            expected = "a message (2)" if what == "a message" else f"a message (1), {what} (1)"
            text = str(caught.value)
            assert f"None is idle: {expected}." in text or f"None is idle: {what} (1), a message (1)." in text
            await sessions.stop(grace=0)


class Idler(rt.Actor):
    pass


# -- state -----------------------------------------------------------------------------------------------------------------------------------------------


@rt.message
class Add(rt.Request[int]):
    amount: int


class Account(rt.Actor):
    """Loads its state from a file when it begins and saves it when it ends; a slow disk, both ways."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.balance = 0

    async def on_start(self) -> None:
        rows = await trio.to_thread.run_sync(self.load)
        self.balance = rows

    def load(self) -> int:
        database = sqlite_utils.Database(self.file)
        try:
            table = database.table("accounts")
            return int(table.get(self.ctx_key)["balance"]) if table.exists() and table.count_where("id = ?", [self.ctx_key]) else 0
        finally:
            database.close()

    async def on_stop(self, _: str) -> None:
        await trio.to_thread.run_sync(self.save)

    def save(self) -> None:
        database = sqlite_utils.Database(self.file)
        try:
            database.table("accounts", pk="id").upsert({"id": self.ctx_key, "balance": self.balance}, pk="id")
        finally:
            database.close()

    @property
    def ctx_key(self) -> str:
        key = self._cell.ref.key  # type: ignore[attr-defined]  # self.ctx speaks in the loop's thread only
        assert isinstance(key, str)
        return key

    @rt.handler
    def add(self, message: Add) -> int:
        self.balance += message.amount
        return self.balance


async def test_what_on_stop_has_saved_is_there_for_the_next_on_start(tmp_path: Path) -> None:
    file = tmp_path / "accounts.db"
    async with make() as system:
        accounts = await system.spawn_virtual(Account, file, name="accounts", capacity=2)
        total = 0
        for round_ in range(5):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(accounts.passivate, "a/ö")
                for _ in range(5):
                    await trio.sleep(0.0005 * (round_ % 4))
                    total += 1
                    assert await accounts["a/ö"].ask(Add(1)) == total
            assert await accounts[f"other {round_}"].ask(Add(round_)) == round_
    async with make() as system:
        accounts = await system.spawn_virtual(Account, file, name="accounts")
        assert await accounts["a/ö"].ask(Add(0)) == total == 25
        assert [await accounts[f"other {number}"].ask(Add(0)) for number in range(5)] == list(range(5))


# -- memory ----------------------------------------------------------------------------------------------------------------------------------------------


def cells() -> int:
    gc.collect()
    return sum(type(thing).__name__ in ("Cell", "VirtualRef", "Seat", "Delivery") for thing in gc.get_objects())


@pytest.mark.parametrize("many", [500, pytest.param(100_000, marks=pytest.mark.slow)])
async def test_keys_that_were_used_and_passivated_hold_nothing(many: int, autojump_clock: MockClock) -> None:
    async with make() as system:
        book = Book()
        sessions = await system.spawn_virtual(Bare, book, name="sessions", idle=IDLE, capacity=max(many // 10, 10))
        await sessions["first"].ask(Count())
        await trio.sleep(LATEST + 2)
        before = cells()
        for number in range(many):
            await sessions[f"key {number}"].ask(Count())
        await trio.sleep(LATEST + 2)
        assert sessions.active() == ()
        assert len(book.made) == many + 1
        assert cells() <= before + 5
        assert len(sessions._region._refs) <= 1
        counts = system.statistics()
        assert (counts.actors, counts.deadlines) == (1, 0)
        assert counts.spawned - counts.stopped == 1
        assert counts.handled == many + 1
