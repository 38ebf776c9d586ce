"""Virtual actors from plain scripts and from asyncio."""

from __future__ import annotations

import pickle
import threading

import pytest

import retinue as rt
from retinue import aio
from retinue.sync import ActorSystem
from twin_asyncio import under_asyncio
from virtual_players import Bare, Book, Count, Number, Session


def test_a_script_works_with_virtual_actors() -> None:
    book = Book()
    with ActorSystem("script") as system:
        sessions = system.spawn_virtual(Session, book, name="sessions", capacity=100)
        assert (sessions.path, sessions.alive, sessions.active()) == ("/user/sessions", True, ())
        alice = sessions["alice"]
        assert alice.ask(Count()) == 1
        assert sessions.ref("alice").ask(Count(), block=False).get(timeout=60) == 2
        assert sessions["alice"] == alice
        assert sessions.passivate("alice")
        assert not sessions.passivate("alice")
        assert alice.ask(Count()) == 1
        assert sessions.active() == ("alice",)
        sessions.stop()
        assert repr(sessions) == "<Virtual /user/sessions (Session, stopped)>"
        with pytest.raises(rt.ActorStopped):
            alice.ask(Count())
    assert book.log == [("alice", "begin"), ("alice", "passivated"), ("alice", "begin"), ("alice", "stopped")]


@under_asyncio
async def test_an_asyncio_program_works_with_virtual_actors() -> None:
    async with aio.ActorSystem("loop") as system:
        sessions = await system.spawn_virtual(Session, Book(), name="sessions")
        assert await sessions["alice"].ask(Count()) == 1
        assert await sessions.ref("bob").ask(Count()) == 1
        assert await sessions.active() == ("alice", "bob")
        assert await sessions.passivate("alice")
        assert await sessions["alice"].ask(Count()) == 1
        await sessions.stop()
        assert not sessions.alive


def test_a_hundred_first_messages_of_a_scripts_threads_make_one() -> None:
    book = Book()
    with ActorSystem("script") as system:
        sessions = system.spawn_virtual(Bare, book, name="sessions")

        def work(name: str) -> None:
            for number in range(10):
                sessions["alice"].tell(Number(name, number))

        threads = [threading.Thread(target=work, args=(str(number),)) for number in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sessions["alice"].ask(Count()) == 1
        assert book.made == {"alice": 1}
        assert book.numbers == {("alice", str(number)): list(range(10)) for number in range(10)}


def test_no_request_of_a_script_is_lost_between_the_ends_of_instances() -> None:
    book = Book()
    with ActorSystem("script") as system:
        sessions = system.spawn_virtual(Session, book, name="sessions", mailbox=rt.Mailbox.bounded(2))
        alice = sessions["alice"]
        futures = []
        for _ in range(20):
            futures.append(alice.ask(Count(), block=False))
            sessions.passivate("alice")
        assert all(future.get(timeout=60) >= 1 for future in futures)
        statistics = system.statistics()
        assert statistics.sent == statistics.handled + statistics.dead_letters + statistics.queued


@rt.message
class Visit(rt.Request[int]):
    sessions: rt.Virtual[Session]
    keys: tuple[rt.Ref[Session], ...] = ()


@rt.message
class Lend(rt.Request[rt.Virtual[Session]]):
    pass


class Porter(rt.Actor):
    def __init__(self, given: object, listed: object) -> None:
        self.given = given
        self.listed = listed

    @rt.handler
    async def visit(self, message: Visit) -> int:
        assert type(message.sessions) is type(self.given) is rt.Virtual
        assert self.listed == [message.sessions, message.keys[0]] == [self.given, message.sessions["ada"]]
        return await message.sessions["ada"].ask(Count())

    @rt.handler
    def lend(self, message: Lend) -> rt.Virtual[Session]:
        assert isinstance(self.given, rt.Virtual)
        return self.given


def test_a_scripts_region_arrives_at_actors_as_the_region_itself() -> None:
    with ActorSystem("script") as system:
        sessions = system.spawn_virtual(Session, Book(), name="sessions")
        porter = system.spawn(Porter, sessions, [sessions, sessions["ada"]])
        assert porter.ask(Visit(sessions, (sessions["ada"],))) == 1  # type: ignore[arg-type]
        assert porter.ask(Visit(sessions.core, (sessions["ada"].core,))) == 2
        lent = porter.ask(Lend())
        assert lent == sessions
        assert len({lent, sessions}) == 1
        assert lent["ada"].ask(Count()) == 3  # type: ignore[comparison-overlap]
        with pytest.raises(TypeError, match="have no end"):
            iter(sessions)
        with pytest.raises(TypeError, match="cannot be pickled"):
            pickle.dumps(sessions)


@under_asyncio
async def test_an_asyncio_programs_region_arrives_at_actors_as_the_region_itself() -> None:
    async with aio.ActorSystem("loop") as system:
        sessions = await system.spawn_virtual(Session, Book(), name="sessions")
        porter = await system.spawn(Porter, sessions, [sessions, sessions["ada"]])
        assert await porter.ask(Visit(sessions, (sessions["ada"],))) == 1  # type: ignore[arg-type]
        lent = await porter.ask(Lend())
        assert lent == sessions
        assert await lent["ada"].ask(Count()) == 2
