"""A hundred first messages to a virtual actor make exactly one, however its start goes."""

from __future__ import annotations

import functools
import math
from typing import Any

import pytest
import trio
from trio.testing import MockClock

import retinue as rt
from core_hosts import conserved, reasons
from virtual_players import Bare, Book, Broken, Count, Number, Run, RunAsync, Session, ThreadSession, seconds

HUNDRED = 100


def make(**options: Any) -> rt.ActorSystem:
    return rt.ActorSystem("activation", **{"block_warning": math.inf, **options})


class Sender(rt.Actor):
    """Sends first messages as an actor."""

    def __init__(self, ref: rt.Ref[Any]) -> None:
        self.ref = ref

    @rt.handler
    async def count(self, message: Count) -> int:
        return await self.ref.ask(message)

    @rt.handler
    def number(self, message: Number) -> None:
        self.ref.tell(message)


@pytest.mark.parametrize("cls", [Bare, Session, ThreadSession])
@pytest.mark.parametrize("options", [{}, {"loopback": True}, {"seed": 3}], ids=["plain", "loopback", "seeded"])
async def test_a_hundred_first_messages_from_everywhere_make_one(cls: type[Bare], options: dict[str, Any]) -> None:
    async with make(**options) as system:
        book = Book()
        alice = (await system.spawn_virtual(cls, book, name="sessions"))["alice"]
        senders = [await system.spawn(Sender, alice) for _ in range(10)]
        root = system.authority.root
        counted: list[int] = []

        async def ask(ref: rt.Ref[Any]) -> None:
            counted.append(await ref.ask(Count()))

        async def send(number: int) -> None:
            assert await alice.send(Number("sent", number))

        def thread() -> None:
            for number in range(20):
                alice.tell(Number("thread", number), context=root)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.to_thread.run_sync, thread)
            for number in range(20):
                nursery.start_soon(ask, alice)
                nursery.start_soon(send, number)
                assert alice.tell(Number("told", number))
                if number < 10:
                    nursery.start_soon(ask, senders[number])
                    senders[number].tell(Number("actor", number))
        await system.wait_quiet()
        assert book.made == {"alice": 1}
        assert sorted(counted) == list(range(1, 31))
        assert book.numbers["alice", "told"] == book.numbers["alice", "thread"] == list(range(20))
        assert sorted(book.numbers["alice", "sent"]) == list(range(20))
        assert sorted(book.numbers["alice", "actor"]) == list(range(10))
        assert conserved(system)
        assert reasons(system) == {}


async def ask_all(ref: rt.Ref[Any], many: int = HUNDRED, **options: Any) -> list[Any]:
    """So many asks at the same time; what came of each."""
    outcomes: list[Any] = []

    async def ask() -> None:
        try:
            outcomes.append(await ref.ask(Count(), **options))
        except Exception as error:
            outcomes.append(error)

    async with trio.open_nursery() as nursery:
        for _ in range(many):
            nursery.start_soon(ask)
    return outcomes


async def test_a_start_that_takes_its_time_makes_one(autojump_clock: MockClock) -> None:
    async with make() as system:
        book = Book(on_start=lambda _: seconds(10))
        alice = (await system.spawn_virtual(Session, book, name="sessions"))["alice"]
        assert sorted(await ask_all(alice)) == list(range(1, HUNDRED + 1))
        assert book.made == {"alice": 1}


async def test_a_start_that_fails_gives_its_error_to_who_asks_and_the_next_message_tries_again(autojump_clock: MockClock) -> None:
    async def fail_once(self: Session) -> None:
        await trio.sleep(1)
        if book.made["alice"] == 1:
            raise Broken("not yet")

    async with make() as system:
        book = Book(on_start=fail_once)
        sessions = await system.spawn_virtual(Session, book, name="sessions")
        alice = sessions["alice"]
        alice.tell(Number("told", 0))
        outcomes = await ask_all(alice)
        assert {type(outcome) for outcome in outcomes} == {Broken}
        assert sessions.active() == ()
        assert reasons(system) == {"stopped": HUNDRED + 1}
        assert conserved(system)
        assert sorted(await ask_all(alice)) == list(range(1, HUNDRED + 1))
        assert book.made == {"alice": 2}
        assert conserved(system)


async def test_a_constructor_that_fails_does_so_for_each_class() -> None:
    for blocking in (False, True):

        class Never(rt.Actor, blocking=blocking):
            def __init__(self, tried: list[str | None]) -> None:
                tried.append(self.ctx.key)
                raise Broken("never")

            @rt.handler
            def count(self, _: Count) -> int:
                return 1

        async with make() as system:
            tried: list[str | None] = []
            never = await system.spawn_virtual(Never, tried, name="never")
            assert {type(outcome) for outcome in await ask_all(never["a"], 10)} == {Broken}
            never["b"].tell(Count())
            await system.wait_quiet()
            assert tried == ["a", "b"]
            assert never.active() == ()
            assert conserved(system)


class Wrapped(Session):
    @functools.wraps(Session.__init__)
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)


class Plain(rt.Actor):
    pass


@pytest.mark.parametrize(
    ("cls", "arguments", "keywords", "text"),
    [
        (Session, (), {}, "constructor of Session cannot be called .* 'book'.* It takes book"),
        (Session, (1, 2), {}, "too many positional"),
        (Session, (1,), {"book": 2}, "multiple values for argument 'book'"),
        (Session, (1,), {"extra": 1}, "does not take extra="),
        (Plain, (1,), {}, "Plain has no constructor"),
    ],
)
async def test_constructor_arguments_that_cannot_do_are_refused_when_the_region_is_made(
    cls: Any, arguments: Any, keywords: Any, text: str
) -> None:
    async with make() as system:
        with pytest.raises(rt.DefinitionError, match=text):
            await system.spawn_virtual(cls, *arguments, **keywords)
        assert system.actors() == []


async def test_wrong_arguments_of_a_wrapped_constructor_are_told_to_who_asks() -> None:
    async with make() as system:
        few = await system.spawn_virtual(Wrapped, name="few")
        with pytest.raises(TypeError, match="book"):
            await few["a"].ask(Count())
        assert few.active() == ()


async def test_a_start_that_takes_too_long_is_cut_off_and_tried_again(autojump_clock: MockClock) -> None:
    async def slow_once(_: Session) -> None:
        if book.made["alice"] == 1:
            await trio.sleep(math.inf)

    async with make(start_timeout=5) as system:
        book = Book(on_start=slow_once)
        alice = (await system.spawn_virtual(Session, book, name="sessions"))["alice"]
        outcomes = await ask_all(alice)
        assert {type(outcome) for outcome in outcomes} == {rt.StartTimeout}
        assert sorted(await ask_all(alice)) == list(range(1, HUNDRED + 1))
        assert book.made == {"alice": 2}
        assert conserved(system)


async def test_askers_that_give_up_while_it_starts_leave_nothing_behind(autojump_clock: MockClock) -> None:
    async with make() as system:
        book = Book(on_start=lambda _: seconds(10))
        alice = (await system.spawn_virtual(Session, book, name="sessions"))["alice"]
        outcomes = await ask_all(alice, timeout=1.0)
        assert {type(outcome) for outcome in outcomes} == {rt.AskTimeout}
        assert all(outcome.begun is False for outcome in outcomes)
        assert reasons(system) == {"expired": HUNDRED}
        assert conserved(system)
        assert await alice.ask(Count()) == 1  # of the same instance, which goes on to start
        assert book.made == {"alice": 1}


async def test_a_full_mailbox_is_full_while_it_starts_and_those_who_wait_for_room_get_in_or_the_error(autojump_clock: MockClock) -> None:
    async def fail_once(self: Session) -> None:
        await trio.sleep(1)
        if book.made["alice"] == 1:
            raise Broken("not yet")

    async with make() as system:
        book = Book(on_start=fail_once)
        mailbox = rt.Mailbox.bounded(2)
        alice = (await system.spawn_virtual(Session, book, name="sessions", mailbox=mailbox))["alice"]
        receipts: list[rt.Receipt] = []

        async def send(number: int) -> None:
            receipts.append(await alice.send(Number("sent", number)))

        async with trio.open_nursery() as nursery:
            for number in range(5):
                nursery.start_soon(send, number)
            await trio.testing.wait_all_tasks_blocked()
            assert alice.tell(Number("told", 0)).reason == "mailbox_full"
            assert {type(outcome) for outcome in await ask_all(alice, 5)} == {Broken}
        assert sorted(str(receipt.reason) for receipt in receipts) == ["None", "None", "stopped", "stopped", "stopped"]
        assert conserved(system)
        async with trio.open_nursery() as nursery:
            for number in range(5):
                nursery.start_soon(send, number)
        await system.wait_quiet()
        assert sorted(book.numbers["alice", "sent"]) == list(range(5))
        assert conserved(system)


async def test_a_stop_of_the_region_while_it_starts_ends_it_and_tells_who_asks(autojump_clock: MockClock) -> None:
    async with make() as system:
        book = Book(on_start=lambda _: seconds(1000))
        sessions = await system.spawn_virtual(Session, book, name="sessions")
        outcomes: list[Any] = []

        async def ask() -> None:
            outcomes.extend(await ask_all(sessions["alice"], timeout=math.inf))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await trio.sleep(1)
            await sessions.stop(grace=2)
            assert trio.current_time() < 10
        assert {type(outcome) for outcome in outcomes} == {rt.ActorStopped}
        assert +book.alive == {}
        assert conserved(system)
        assert system.statistics().actors == 0


async def test_an_order_to_end_while_it_starts_comes_after_the_start(autojump_clock: MockClock) -> None:
    async with make() as system:
        book = Book(on_start=lambda _: seconds(2))
        sessions = await system.spawn_virtual(Session, book, name="sessions")
        outcomes: list[Any] = []

        async def ask() -> None:
            outcomes.extend(await ask_all(sessions["alice"]))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await trio.sleep(1)
            assert await sessions.passivate("alice")
        assert sorted(outcomes) == list(range(1, HUNDRED + 1))  # of the next instance: they waited
        assert book.log[:3] == [("alice", "begin"), ("alice", "passivated"), ("alice", "begin")]
        assert conserved(system)


async def test_children_and_tasks_of_a_start_that_fails_end_with_it() -> None:
    ended: list[str] = []

    class Child(rt.Actor):
        def on_stop(self, reason: str) -> None:
            ended.append(str(reason))

    async def start(self: Session) -> None:
        await self.ctx.spawn(Child)
        self.ctx.start_soon(trio.sleep_forever)
        raise Broken("after all")

    async with make() as system:
        sessions = await system.spawn_virtual(Session, Book(on_start=start), name="sessions")
        with pytest.raises(Broken):
            await sessions["alice"].ask(Count())
        await system.wait_quiet()
        assert ended == ["stopped"]
        assert system.statistics().actors == 1


async def test_a_start_may_use_its_own_ref_and_other_keys() -> None:
    async def start(self: Session) -> None:
        self.ctx.ref.tell(Number("self", 1))
        if self.key != "b":
            assert await sessions["b"].ask(Count()) == 1

    async with make() as system:
        book = Book(on_start=start)
        sessions = await system.spawn_virtual(Session, book, name="sessions")
        assert await sessions["a"].ask(Count()) == 1
        await system.wait_quiet()
        assert book.numbers == {("a", "self"): [1], ("b", "self"): [1]}


async def test_starts_that_need_each_other_are_told_of_the_ring() -> None:
    async def start(self: Session) -> None:
        await sessions["b" if self.key == "a" else "a"].ask(Count())

    async with make() as system:
        sessions = await system.spawn_virtual(Session, Book(on_start=start), name="sessions")
        with pytest.raises(rt.AskCycle):
            await sessions["a"].ask(Count(), timeout=2)
        assert conserved(system)


async def test_an_exit_in_a_start_ends_the_system_and_its_asker_is_told() -> None:
    async def leave(_: Session) -> None:
        raise SystemExit(7)

    with pytest.raises(SystemExit) as exit_:
        async with make() as system:
            sessions = await system.spawn_virtual(Session, Book(on_start=leave), name="sessions")
            with pytest.raises(rt.ActorStopped, match="ends the whole system"):
                await sessions["a"].ask(Count())
            await trio.sleep_forever()
    assert exit_.value.code == 7


async def test_the_error_of_a_start_brings_its_labels_to_who_asks() -> None:
    async def start(self: Session) -> None:
        self.ctx.taint("web")
        raise Broken("what the page said")

    class Asker(rt.Actor):
        @rt.handler
        async def do_async(self, message: RunAsync) -> Any:
            return await message.what(self)

    async with make() as system:
        sessions = await system.spawn_virtual(Session, Book(on_start=start), name="sessions")

        async def ask(self: Asker) -> Any:
            with pytest.raises(Broken):
                await sessions["a"].ask(Count())
            return self.ctx.labels

        assert await (await system.spawn(Asker)).ask(RunAsync(ask)) == {"web"}


async def test_a_full_stack_of_the_sender_changes_nothing() -> None:
    async with make() as system:
        book = Book()
        alice = (await system.spawn_virtual(Session, book, name="sessions"))["alice"]
        raised: list[int] = []

        def deep(levels: int) -> None:
            try:
                alice.tell(Number("deep", levels))
            except RecursionError:
                raised.append(levels)
            if levels:
                deep(levels - 1)

        with pytest.raises(RecursionError):
            deep(100_000)
        await system.wait_quiet()
        assert book.made == {"alice": 1}
        assert len(book.numbers["alice", "deep"]) + len(raised) >= 100
        assert conserved(system)
        assert await alice.ask(Run(lambda self: self.ctx.key)) == "alice"
