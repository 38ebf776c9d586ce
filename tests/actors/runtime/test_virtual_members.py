"""Virtual actors where an actor is wanted that lives: groups, topics, services, names, watches."""

from __future__ import annotations

import contextlib
import itertools
import math
import random
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest
import trio
from trio.testing import MockClock

import retinue as rt
from core_authority import error_of
from core_hosts import conserved, reasons
from virtual_players import Book, Broken, Count, Fail, Number, Run, RunAsync, Session, Up, seconds

POOLS = {
    "round_robin": rt.Pool.round_robin(),
    "least_loaded": rt.Pool.least_loaded(),
    "consistent_hash": rt.Pool.consistent_hash(key=lambda message: getattr(message, "sender", "x")),
}
TICKS = rt.Topic("ticks", Number)
DESKS = rt.ServiceKey("desks", Session)
KEYS = ("a", "b", "c")


def make(**options: Any) -> rt.ActorSystem:
    return rt.ActorSystem("members", **{"block_warning": math.inf, **options})


# -- groups ------------------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", POOLS)
async def test_a_group_of_virtual_actors_makes_those_that_it_chooses(kind: str, autojump_clock: MockClock) -> None:
    async with make() as system:
        book = Book()
        sessions = await system.spawn_virtual(Session, book, name="sessions", idle=10)
        group = await system.spawn_group([sessions[key] for key in KEYS], pool=POOLS[kind], name="group")
        assert sessions.active() == ()
        for number in range(30):
            assert await group.send(Number(f"s{number}", number))
            await system.wait_quiet()  # one that is starting would be passed over
        assert set(book.made) == set(KEYS)
        assert sorted(itertools.chain(*book.numbers.values())) == list(range(30))
        if kind != "consistent_hash":
            assert {key: [number for (of, _), found in book.numbers.items() if of == key for number in found] for key in KEYS} == {
                key: list(range(index, 30, 3)) for index, key in enumerate(KEYS)
            }
        await trio.sleep(20)  # all are passivated, and the group does not end with them
        assert sessions.active() == () and group.alive
        before = {sender: key for key, sender in book.numbers}
        for number in range(30):
            assert group.tell(Number(f"s{number}", number))
        await system.wait_quiet()
        assert set(book.made.values()) == {2}
        if kind == "consistent_hash":
            assert before == {sender: key for key, sender in book.numbers}
        assert conserved(system) and not reasons(system)


@pytest.mark.parametrize("kind", POOLS)
async def test_such_a_group_ends_with_its_region(kind: str) -> None:
    async with make() as system:
        sessions = await system.spawn_virtual(Session, Book(), name="sessions")
        others = await system.spawn_virtual(Session, Book(), name="others")
        assert await sessions["a"].ask(Count()) == 1
        group = await system.spawn_group([sessions["a"], sessions["b"], others["c"]], pool=POOLS[kind])
        watch = await system.watch(group)
        assert await group.ask(Count()) in (1, 2)
        await sessions.stop()
        assert group.alive
        assert {await group.ask(Run(lambda self: self.ctx.ref)) for _ in range(4)} == {others["c"]}
        await others.stop()
        assert (await watch.wait()).reason is rt.StopReason.STOPPED
        assert group.tell(Number("x", 1)).reason == "stopped" and conserved(system)
        error = await error_of(system.spawn_group([sessions["a"]], pool=POOLS[kind]))
        assert isinstance(error, rt.ActorStopped)


async def test_a_group_of_many_keys_costs_its_region_one_watch() -> None:
    async with make() as system:
        sessions = await system.spawn_virtual(Session, Book(), name="sessions")
        group = await system.spawn_group([sessions[str(number)] for number in range(1000)], pool=rt.Pool.round_robin())
        assert len(system.registry._walk("/user/sessions").extras().watchers) == 1
        watch = await system.watch(group)
        for number in range(1000):
            assert group.tell(Number("x", number))
        await system.wait_quiet()
        assert len(sessions.active()) == 1000
        await sessions.stop()
        await watch.wait()
        assert not group.alive and conserved(system)


async def test_a_group_asks_streams_and_finds_room_at_virtual_actors(autojump_clock: MockClock) -> None:
    async with make() as system:
        sessions = await system.spawn_virtual(Session, Book(), name="sessions", mailbox=rt.Mailbox.bounded(1))
        group = await system.spawn_group([sessions["a"], sessions["b"]], pool=rt.Pool.round_robin())
        async with group.stream(Up(3)) as items:
            assert [item async for item in items] == [0, 1, 2]
        answers: list[Any] = []

        async def ask() -> None:
            answers.append(await group.ask(RunAsync(lambda _: seconds(1)), timeout=20))

        async with trio.open_nursery() as nursery:
            for _ in range(12):  # most of them wait for room
                nursery.start_soon(ask)
            await trio.sleep(2.5)
            await sessions.passivate("a")
        assert answers == [None] * 12 and conserved(system)


async def test_where_the_region_is_full_a_group_goes_on_to_who_is_active(autojump_clock: MockClock) -> None:
    async with make() as system:
        sessions = await system.spawn_virtual(Session, Book(), name="sessions", capacity=1, mailbox=rt.Mailbox.bounded(2))
        group = await system.spawn_group([sessions["a"], sessions["b"]], pool=rt.Pool.round_robin())
        async with trio.open_nursery() as nursery:
            nursery.start_soon(group.ask, RunAsync(lambda _: seconds(5)))
            await trio.sleep(1)
            assert sessions.active() == ("a",)
            sent = system.statistics().sent
            assert group.tell(Number("x", 1)) and await group.send(Number("x", 2))  # b's turn, which there is no room for
            assert group.tell(Number("x", 3)).reason == "mailbox_full"
            nursery.start_soon(group.ask, Count())  # a's turn: it waits for room there
            await trio.sleep(1)
            error = await error_of(group.ask(Count()))
            assert isinstance(error, rt.MailboxFull) and "/user/sessions/b" in str(error)
            assert system.statistics().sent == sent + 4 and conserved(system)
        assert reasons(system) == {"mailbox_full": 1} and conserved(system)


async def test_a_group_makes_no_virtual_actor_for_who_may_not_use_it() -> None:
    class Vault(Session):
        @rt.handler(requires="vault.count")
        def count(self, _: Count) -> int:
            return 1

    async with make() as system:
        vaults = await system.spawn_virtual(Vault, Book(), name="vaults")
        group = await system.spawn_group([vaults["a"]], pool=rt.Pool.round_robin())
        narrow = await system.spawn_group([vaults["a"]], pool=rt.Pool.round_robin(), grant=["mail.*"])
        eve = system.authority.mint("eve", ["mail.read"])
        for ask in (group.ask(Count(), context=eve), narrow.ask(Count())):
            assert isinstance(await error_of(ask), rt.Denied)
        assert vaults.active() == () and conserved(system)
        assert await group.ask(Count()) == 1


@pytest.mark.parametrize("kind", POOLS)
@pytest.mark.parametrize("seed", range(4))
async def test_whatever_becomes_of_the_members_every_message_is_in_the_books(kind: str, seed: int, autojump_clock: MockClock) -> None:
    dice = random.Random(seed)
    async with make(seed=seed) as system:
        book = Book(on_stop=lambda _, __: seconds(0.5))
        options: dict[str, Any] = {"idle": 4, "capacity": dice.choice([1, 2, 6]), "mailbox": rt.Mailbox.bounded(dice.choice([1, 3]))}
        sessions = await system.spawn_virtual(Session, book, name="sessions", **options)
        members = [sessions[key] for key in "abcd"]
        group = await system.spawn_group(members, pool=POOLS[kind], name="group")
        begun = ended = 0

        async def attempt(send: Callable[[], Awaitable[Any]]) -> None:
            nonlocal ended
            with contextlib.suppress(rt.RetinueError, Broken):
                await send()
            ended += 1

        async with trio.open_nursery() as nursery:
            for _ in range(150):
                what, timeout = dice.random(), dice.choice([0.5, 3, 60])
                if what < 0.4:
                    message = dice.choice(
                        [Count(), Fail(), RunAsync(lambda _: seconds(1)), RunAsync(lambda self: self.ctx.stop() or seconds(0.1))]
                    )
                    nursery.start_soon(attempt, partial(group.ask, message, timeout=timeout))
                elif what < 0.6:
                    group.tell(Number("x", 1))
                elif what < 0.8:
                    nursery.start_soon(attempt, partial(group.send, Number("x", 1), timeout=timeout))
                elif what < 0.95:
                    nursery.start_soon(sessions.passivate, dice.choice("abcd"))
                else:
                    await trio.sleep(dice.choice([0.2, 1, 6]))
                begun += what < 0.4 or 0.6 <= what < 0.8
                if dice.random() < 0.3:
                    assert conserved(system)
            if dice.random() < 0.5:
                await sessions.stop()
        await system.wait_quiet()
        assert ended == begun and book.made and conserved(system)
    assert conserved(system)


# -- what only an instance can do -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("passivated", [False, True])
async def test_only_an_instance_subscribes_registers_and_has_a_name(passivated: bool) -> None:
    async with make() as system:
        sessions = await system.spawn_virtual(Session, Book(), name="sessions")
        alice = sessions["alice"]
        if passivated:
            await alice.ask(Count())
            await sessions.passivate("alice")
        for what, does in (
            (lambda: system.topics.subscribe(TICKS, alice), "self.ctx.topics.subscribe"),
            (lambda: system.receptionist.register(DESKS, alice), "self.ctx.receptionist.register"),
            (lambda: system.registry.register("alice", alice), "/user/sessions/alice"),
        ):
            with pytest.raises(rt.ActorStopped, match="has no instance at the moment") as caught:
                what()
            assert does in str(caught.value) and "has stopped" not in str(caught.value)
        await alice.ask(Count())
        system.topics.subscribe(TICKS, alice)
        system.receptionist.register(DESKS, alice)
        system.registry.register("alice", alice)
        assert system.receptionist.find(DESKS) == (alice,) == system.topics.subscribers(TICKS)
        await sessions.stop()
        for what in (lambda: system.topics.subscribe(TICKS, alice), lambda: system.receptionist.register(DESKS, alice)):
            with pytest.raises(rt.ActorStopped, match="has stopped"):
                what()


async def test_a_watch_of_a_key_without_an_instance_says_how_the_last_one_ended() -> None:
    async with make() as system:
        sessions = await system.spawn_virtual(Session, Book(), name="sessions")
        watch = await system.watch(sessions["nobody"])
        assert await watch.wait() == rt.Terminated(sessions["nobody"], rt.StopReason.STOPPED)
        alice = sessions["alice"]
        await alice.ask(Count())
        watch = await system.watch(alice)
        await sessions.passivate("alice")
        assert (await watch.wait()).reason is rt.StopReason.PASSIVATED
        assert (await (await system.watch(alice)).wait()).reason is rt.StopReason.PASSIVATED
        assert sessions.active() == ()
