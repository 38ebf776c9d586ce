"""Virtual actors: one is addressed by a key, and there when it is needed."""

from __future__ import annotations

import copy
import math
import pickle
from typing import Any

import pytest
import trio
from trio.testing import MockClock

import retinue as rt
from core_hosts import conserved, reasons
from virtual_players import Bare, Book, Broken, Count, Fail, Leave, Number, Run, RunAsync, Session, ThreadSession, Up, seconds


def make(**options: Any) -> rt.ActorSystem:
    return rt.ActorSystem("virtual", **{"block_warning": math.inf, **options})


async def test_the_first_message_makes_an_instance_under_its_key() -> None:
    async with make() as system:
        book = Book()
        sessions = await system.spawn_virtual(Session, book, name="sessions")
        alice = sessions["alice"]
        assert (sessions.path, alice.path, alice.key) == ("/user/sessions", "/user/sessions/alice", "alice")
        assert (sessions.active(), alice.active, alice.alive, book.made) == ((), False, True, {})
        assert await alice.ask(Count()) == 1
        assert await sessions.ref("alice").ask(Count()) == 2
        assert await sessions["bob"].ask(Count()) == 1
        assert sessions.active() == ("alice", "bob")
        assert alice.active
        assert book.made == {"alice": 1, "bob": 1}
        assert (sessions.idle, sessions.capacity) == (900.0, 10_000)


async def test_every_way_to_send_makes_one() -> None:
    async with make() as system:
        book = Book()
        sessions = await system.spawn_virtual(Session, book, name="sessions")
        assert sessions["told"].tell(Number("t", 1))
        assert await sessions["sent"].send(Number("t", 2))
        async with sessions["streamed"].stream(Up(3)) as items:
            assert [item async for item in items] == [0, 1, 2]
        await system.wait_quiet()
        assert book.made == {"told": 1, "sent": 1, "streamed": 1}
        assert conserved(system)


async def test_all_refs_of_a_key_are_one_as_long_as_one_is_held() -> None:
    async with make() as system:
        sessions = await system.spawn_virtual(Session, Book(), name="sessions")
        alice = sessions["alice"]
        assert sessions["alice"] is alice
        assert await alice.ask(Run(lambda self: self.ctx.ref)) is alice
        assert system.registry.get("/user/sessions/alice") is alice
        assert await sessions.passivate("alice")
        assert sessions["alice"] is alice
        assert await alice.ask(Run(lambda self: self.ctx.ref)) is alice
        assert {alice: 1}[sessions["alice"]] == 1


async def test_the_registry_gives_a_living_one_only_and_a_look_up_of_an_actor_any() -> None:
    class Looker(rt.Actor):
        @rt.handler
        async def look(self, message: RunAsync) -> Any:
            return await message.what(self)

    async with make() as system:
        sessions = await system.spawn_virtual(Session, Book(), name="sessions")
        looker = await system.spawn(Looker)
        assert system.registry.get("/user/sessions/alice") is None

        async def find(self: Looker) -> Any:
            found = self.ctx.system.find("/user/sessions/alice")
            assert found is not None
            return await found.ask(Count())

        assert await looker.ask(RunAsync(find)) == 1
        assert system.registry.get("/user/sessions/alice") is sessions["alice"]
        assert system.registry.get("/user/sessions") is not None
        assert system.registry.get("/user/sessions/alice/deeper") is None


async def test_the_key_is_known_from_the_constructor_on_and_only_to_virtual_actors() -> None:
    class Other(rt.Actor):
        @rt.handler
        def do(self, message: Run) -> Any:
            return message.what(self)

    async with make() as system:
        sessions = await system.spawn_virtual(Session, Book(), name="sessions")
        assert await sessions["alice"].ask(Run(lambda self: (self.key, self.ctx.key, self.ctx.parent))) == ("alice", "alice", None)
        assert await (await system.spawn(Other)).ask(Run(lambda self: self.ctx.key)) is None


async def test_a_region_without_a_name_is_called_after_the_class() -> None:
    async with make() as system:
        sessions = await system.spawn_virtual(Session, Book())
        assert sessions.path.startswith("/user/Session-")
        assert await sessions["a"].ask(Count()) == 1
        assert system.registry.get(sessions["a"].path) is sessions["a"]
        with pytest.raises(rt.NameTaken):
            await system.spawn_virtual(Session, Book(), name=sessions.path.rpartition("/")[2])


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"idle": 0}, "more than 0"),
        ({"idle": -1.0}, "more than 0"),
        ({"idle": math.nan}, "more than 0"),
        ({"idle": "900"}, "more than 0"),
        ({"idle": True}, "more than 0"),
        ({"capacity": 0}, "from 1 to 1,000,000"),
        ({"capacity": 1_000_001}, "from 1 to 1,000,000"),
        ({"capacity": 10.0}, "from 1 to 1,000,000"),
        ({"capacity": True}, "from 1 to 1,000,000"),
        ({"supervision": rt.Supervision(strategy="one_for_all")}, "nothing to do with each other"),
        ({"supervision": "restart"}, "give rt.Supervision"),
        ({"mailbox": 7}, "give rt.Mailbox"),
        ({"name": "a/b"}, "an actor's name"),
    ],
)
async def test_wrong_options_are_refused_with_what_is_right(options: dict[str, Any], text: str) -> None:
    async with make() as system:
        with pytest.raises(rt.DefinitionError, match=text):
            await system.spawn_virtual(Session, Book(), **options)
        assert system.statistics().actors == 0


async def test_a_class_that_takes_the_regions_own_keywords_is_refused() -> None:
    class Idle(rt.Actor):
        def __init__(self, idle: float) -> None:
            self.idle = idle

    async with make() as system:
        with pytest.raises(rt.DefinitionError, match="takes idle, which spawn_virtual keeps for itself"):
            await system.spawn_virtual(Idle, 3.0)
        with pytest.raises(rt.DefinitionError, match="derived from rt.Actor"):
            await system.spawn_virtual(object)  # type: ignore[type-var]


async def test_a_message_that_it_does_not_take_makes_no_instance() -> None:
    @rt.message
    class Other(rt.Message):
        pass

    async with make() as system:
        book = Book()
        sessions = await system.spawn_virtual(Session, book, name="sessions")
        with pytest.raises(rt.Unhandled):
            sessions["a"].tell(Other())
        with pytest.raises(rt.Unhandled):
            await sessions["a"].ask(Other())
        with pytest.raises(rt.Unhandled):
            sessions["a"].tell(Up(1))
        assert book.made == {}
        assert system.statistics().sent == 0


async def test_an_instance_that_stops_itself_is_followed_by_a_new_one_for_what_waits() -> None:
    async with make() as system:
        book = Book()
        sessions = await system.spawn_virtual(Session, book, name="sessions")
        alice = sessions["alice"]
        await alice.ask(Count())
        alice.tell(Leave())
        for number in range(10):
            alice.tell(Number("t", number))
        assert await alice.ask(Count()) == 1
        assert book.numbers["alice", "t"] == list(range(10))
        assert book.log == [("alice", "begin"), ("alice", "stopped"), ("alice", "begin")]
        alice.tell(Leave())
        await system.wait_quiet()
        assert sessions.active() == ()
        assert conserved(system)
        assert reasons(system) == {}


@pytest.mark.parametrize("restart", ["permanent", "transient", "temporary"])
async def test_supervision_restarts_an_instance_with_its_key_or_the_next_message_makes_another(restart: Any) -> None:
    async with make() as system:
        book = Book()
        sessions = await system.spawn_virtual(Session, book, name="sessions", supervision=rt.Supervision(restart=restart))
        with pytest.raises(Broken):
            await sessions["alice"].ask(Fail())
        assert await sessions["alice"].ask(Run(lambda self: self.ctx.key)) == "alice"
        assert book.log == [("alice", "begin"), ("alice", "failed" if restart == "temporary" else "restart"), ("alice", "begin")]


async def test_what_waits_behind_a_failure_that_is_the_end_gets_its_cause_and_what_comes_later_a_new_instance(
    autojump_clock: MockClock,
) -> None:
    async def fail(_: Any) -> None:
        await trio.sleep(1)
        raise Broken("as asked")

    async with make() as system:
        book = Book(on_stop=lambda _, __: seconds(2))
        sessions = await system.spawn_virtual(Session, book, name="sessions", supervision=rt.Supervision(restart="temporary"))
        alice = sessions["alice"]
        await alice.ask(Count())
        got: list[Any] = []

        async def ask() -> None:
            with pytest.raises(rt.ActorStopped) as stopped:
                await alice.ask(Count())
            got.append((type(stopped.value.__cause__), trio.current_time()))

        began = trio.current_time()
        alice.tell(RunAsync(fail))
        await trio.sleep(0.5)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await trio.sleep(1)
            assert got == [(Broken, began + 1)]
            assert await alice.ask(Count()) == 1  # it came while the old one ended
            assert trio.current_time() == began + 3
        assert reasons(system) == {"poison": 1, "stopped": 1}
        assert conserved(system)


async def test_an_instance_that_gives_up_takes_no_other_and_no_region_with_it() -> None:
    async with make() as system:
        book = Book()
        supervision = rt.Supervision(intensity=(0, 60))
        sessions = await system.spawn_virtual(Session, book, name="sessions", supervision=supervision)
        assert await sessions["bob"].ask(Count()) == 1
        with pytest.raises(Broken):
            await sessions["alice"].ask(Fail())
        await system.wait_quiet()
        assert book.log == [("bob", "begin"), ("alice", "begin"), ("alice", "failed")]
        assert sessions.alive
        assert await sessions["bob"].ask(Count()) == 2
        assert await sessions["alice"].ask(Count()) == 1


async def test_a_watch_tells_of_the_end_of_an_instance() -> None:
    async with make() as system:
        sessions = await system.spawn_virtual(Session, Book(), name="sessions")
        alice = sessions["alice"]
        assert (await (await system.watch(alice)).wait()).reason == rt.StopReason.STOPPED  # there is none yet
        await alice.ask(Count())
        watch = await system.watch(alice)
        assert watch.terminated is None
        await sessions.passivate("alice")
        terminated = await watch.wait()
        assert (terminated.ref, terminated.reason) == (alice, rt.StopReason.PASSIVATED)
        await alice.ask(Count())
        again = await system.watch(alice)
        await alice.stop()
        assert (await again.wait()).reason == rt.StopReason.STOPPED
        assert await alice.ask(Count()) == 1


async def test_a_stopped_region_refuses_and_ends_all_of_its_instances() -> None:
    async with make() as system:
        book = Book()
        sessions = await system.spawn_virtual(Session, book, name="sessions")
        refs = [sessions[str(number)] for number in range(5)]
        for ref in refs:
            await ref.ask(Count())
        await sessions.stop()
        assert not sessions.alive
        assert not refs[0].alive
        assert book.log[5:] == [(str(number), "stopped") for number in (4, 3, 2, 1, 0)]
        for ref in (refs[0], sessions["new"]):
            with pytest.raises(rt.ActorStopped):
                await ref.ask(Count())
            assert ref.tell(Count()).reason == "stopped"
            assert (await ref.send(Count())).reason == "stopped"
        assert not await sessions.passivate("0")
        assert repr(sessions) == "<Virtual /user/sessions (Session, stopped)>"
        assert conserved(system)
        again = await system.spawn_virtual(Session, book, name="sessions")
        assert await again["0"].ask(Count()) == 1


async def test_the_end_of_the_system_passivates_none_and_stops_all_in_order() -> None:
    book = Book()
    async with make() as system:
        sessions = await system.spawn_virtual(Session, book, name="sessions", idle=0.5)
        for key in "abc":
            sessions[key].tell(Number("t", 1))
        sessions["d"].tell(Number("t", 1))
    assert sorted(book.numbers) == [(key, "t") for key in "abcd"]  # they drain
    assert book.log[4:] == [(key, "system_closed") for key in "dcba"]
    assert +book.alive == {}
    assert system.statistics().actors == 0
    assert system.statistics().deadlines == 0
    assert not sessions["a"].tell(Count())


async def test_a_region_of_an_actor_ends_with_it() -> None:
    class Parent(rt.Actor):
        @rt.handler
        async def open(self, message: RunAsync) -> Any:
            return await message.what(self)

    async with make() as system:
        book = Book()
        parent = await system.spawn(Parent, name="parent")

        async def spawn(self: Parent) -> Any:
            return await self.ctx.spawn_virtual(Session, book, name="kids")

        kids = await parent.ask(RunAsync(spawn))
        assert kids.path == "/user/parent/kids"
        assert await kids["a"].ask(Run(lambda self: self.ctx.parent)) is parent
        await parent.stop()
        assert book.log == [("a", "begin"), ("a", "stopped")]
        assert not kids.alive


async def test_refs_and_regions_travel_in_messages_and_over_the_loopback() -> None:
    @rt.message
    class Take(rt.Request[int]):
        ref: rt.Ref[Session]
        virtual: rt.VirtualRef[Session]

    @rt.message
    class Use(rt.Request[int]):
        sessions: rt.Virtual[Session]

    class Taker(rt.Actor):
        @rt.handler(requires="take.it")  # so that the gate takes its copy
        async def take(self, message: Take) -> int:
            assert message.ref is message.virtual
            return await message.virtual.ask(Count())

        @rt.handler(requires="take.it")
        async def use(self, message: Use) -> int:
            return await message.sessions["b"].ask(Count())

    for loopback in (False, True):
        async with make(loopback=loopback) as system:
            sessions = await system.spawn_virtual(Bare, Book(), name="sessions")
            alice = sessions["alice/ö"]
            taker = await system.spawn(Taker)
            assert await taker.ask(Take(alice, alice)) == 1
            if not loopback:
                assert await taker.ask(Use(sessions)) == 1


async def test_a_ref_and_a_region_are_themselves_when_copied_and_cannot_be_pickled_or_made_by_hand() -> None:
    async with make() as system:
        sessions = await system.spawn_virtual(Session, Book(), name="sessions")
        for thing in (sessions, sessions["a"]):
            assert copy.copy(thing) is thing
            assert copy.deepcopy([thing])[0] is thing
            with pytest.raises(TypeError, match="cannot be pickled"):
                pickle.dumps(thing)
            with pytest.raises(rt.DefinitionError):
                type(thing)()
        with pytest.raises(TypeError, match="have no end"):
            list(sessions)  # type: ignore[call-overload]


async def test_it_can_be_forwarded_to_and_asked_by_actors_of_every_kind() -> None:
    class Desk(rt.Actor):
        def __init__(self, sessions: rt.Virtual[Session]) -> None:
            self.sessions = sessions

        @rt.handler
        def count(self, message: Count) -> None:
            self.ctx.forward(self.sessions["forwarded"], message)

    class Thread(rt.Actor, blocking=True):
        def __init__(self, sessions: rt.Virtual[Session]) -> None:
            self.sessions = sessions

        @rt.handler
        def count(self, message: Count) -> int:
            self.sessions["told"].tell(Number("thread", 1))
            return self.ctx.ask(self.sessions["asked"], message)

    async with make() as system:
        book = Book()
        sessions = await system.spawn_virtual(Session, book, name="sessions")
        assert await (await system.spawn(Desk, sessions)).ask(Count()) == 1
        assert await (await system.spawn(Thread, sessions)).ask(Count()) == 1
        await system.wait_quiet()
        assert book.made == {"forwarded": 1, "asked": 1, "told": 1}
        assert conserved(system)


async def test_foreign_threads_need_a_context_and_make_one() -> None:
    async with make() as system:
        book = Book()
        sessions = await system.spawn_virtual(Session, book, name="sessions")
        context = system.authority.root

        def work() -> str:
            with pytest.raises(rt.NoContext):
                sessions["a"].tell(Number("t", 0))
            return str(sessions["a"].tell(Number("t", 1), context=context).reason)

        assert await trio.to_thread.run_sync(work) == "handed_over"
        assert await sessions["a"].ask(Count()) == 1
        assert book.numbers == {("a", "t"): [1]}
        assert book.made == {"a": 1}


async def test_an_instance_that_asks_its_own_key_is_told_of_the_ring() -> None:
    async with make() as system:
        sessions = await system.spawn_virtual(Session, Book(), name="sessions")
        with pytest.raises(rt.AskCycle):
            await sessions["a"].ask(RunAsync(lambda self: sessions["a"].ask(Count())))
        with pytest.raises(rt.AskCycle):
            await sessions["a"].ask(RunAsync(lambda _: sessions["b"].ask(RunAsync(lambda _: sessions["a"].ask(Count())))))


async def test_blocking_ones_have_a_thread_each_and_only_while_they_are_active() -> None:
    async with make() as system:
        book = Book()
        sessions = await system.spawn_virtual(ThreadSession, book, name="sessions")
        for key in "abc":
            assert await sessions[key].ask(Count()) == 1
            assert await sessions.passivate(key)
        assert await sessions["a"].ask(Count()) == 1
        assert book.made == {"a": 2, "b": 1, "c": 1}
        assert system.statistics().leaked_threads == 0


async def test_a_conflating_and_a_priority_mailbox_keep_what_waits_while_an_instance_ends() -> None:
    @rt.message
    class Ranked(rt.Message):
        rank: int

    class Sorter(rt.Actor):
        def __init__(self, seen: list[int]) -> None:
            self.seen = seen

        async def on_stop(self, _: str) -> None:
            await trio.sleep(0.01)

        @rt.handler
        def ranked(self, message: Ranked) -> None:
            self.seen.append(message.rank)

    for mailbox, expected in (
        (rt.Mailbox.priority(lambda message: message.rank), [1, 2, 3, 4]),
        (rt.Mailbox.conflate(lambda message: message.rank % 2), [2, 1]),
    ):
        async with make() as system:
            seen: list[int] = []
            sorters = await system.spawn_virtual(Sorter, seen, name="sorters", mailbox=mailbox)
            sorters["a"].tell(Ranked(0))
            await system.wait_quiet()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(sorters.passivate, "a")
                await trio.testing.wait_all_tasks_blocked()
                for rank in (4, 3, 2, 1):
                    sorters["a"].tell(Ranked(rank))
            await system.wait_quiet()
            assert seen == [0, *expected]
            assert conserved(system)


async def test_the_twins_give_refs_of_their_own_for_them() -> None:
    from retinue.sync import ActorSystem

    class Opener(rt.Actor):
        async def on_start(self) -> None:
            self.sessions = await self.ctx.spawn_virtual(Bare, Book(), name="sessions")

        @rt.handler
        def do(self, message: Run) -> Any:
            return message.what(self)

    def main() -> None:
        with ActorSystem("twin") as system:
            opener = system.spawn(Opener, name="opener")
            alice = opener.ask(Run(lambda self: self.sessions["alice"]))
            assert alice.ask(Count()) == 1
            found = system.registry.get("/user/opener/sessions/alice")
            assert found is not None
            assert found.ask(Count()) == 2

    await trio.to_thread.run_sync(main)


async def test_the_default_is_fifteen_minutes(autojump_clock: MockClock) -> None:
    async with make() as system:
        book = Book()
        sessions = await system.spawn_virtual(Session, book, name="sessions")
        await sessions["a"].ask(Count())
        await trio.sleep(899)
        assert sessions.active() == ("a",)
        await trio.sleep(900 / 16 + 2)
        assert sessions.active() == ()
        assert book.log == [("a", "begin"), ("a", "passivated")]
