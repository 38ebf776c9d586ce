"""Asking from the thread of a blocking actor: `self.ctx.ask`."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import trio

import retinue as rt
from quiet_threads import PATIENCE, open_after, until
from retinue.testing import assert_conserved as conserved


@rt.message
class Add(rt.Request[int]):
    number: int


@rt.message
class Never(rt.Request[int]):
    """Is answered when its asker has given up."""


@rt.message
class Break(rt.Request[int]):
    pass


@rt.message
class Items(rt.Stream[int]):
    pass


@rt.message
class Call(rt.Request[Any]):
    """Call a function with the actor."""

    function: Any


@rt.message
class Note(rt.Message):
    function: Any


@rt.message
class Pass(rt.Request[Any]):
    """Ask the next one to ask the next one, and so on, until there is none."""

    others: tuple[rt.Ref[Any], ...]


class Asker(rt.Actor, blocking=True):
    def __init__(self, built: list[int] | None = None) -> None:
        if built is not None:
            built.append(1)

    @rt.handler
    def call(self, message: Call) -> Any:
        return message.function(self)

    @rt.handler
    def note(self, message: Note) -> None:
        message.function(self)

    @rt.handler
    def pass_on(self, message: Pass) -> Any:
        if not message.others:
            return "the end"
        return self.ctx.ask(message.others[0], Pass(message.others[1:]))


class Async(rt.Actor):
    def __init__(self) -> None:
        self.cancelled = 0

    @rt.handler
    async def add(self, message: Add) -> Any:
        return message.number + 1 if message.number else (self.ctx.sender, self.ctx.security)

    @rt.handler
    async def never(self, _: Never) -> int:
        try:
            await trio.sleep_forever()
        finally:
            self.cancelled += 1

    @rt.handler
    async def fail(self, _: Break) -> int:
        raise LookupError("broken")

    @rt.handler
    async def items(self, _: Items) -> Any:
        yield 1

    @rt.handler
    async def pass_on(self, message: Pass) -> Any:
        if not message.others:
            return "the end"
        return await message.others[0].ask(Pass(message.others[1:]))

    @rt.handler
    async def call(self, message: Call) -> Any:
        return message.function(self)


async def test_a_blocking_actor_asks_another_and_acts_under_its_turn() -> None:
    async with rt.ActorSystem("asks") as system:
        asker, other = await system.spawn(Asker), await system.spawn(Async)
        assert await asker.ask(Call(lambda actor: actor.ctx.ask(other, Add(3)))) == 4
        narrow = system.authority.root.narrow(["shop.**"])
        sender, security = await asker.ask(Call(lambda actor: actor.ctx.ask(other, Add(0))), context=narrow)
        counts = system.statistics()
    assert sender == asker
    assert security.permissions == narrow.permissions
    assert (counts.sent, counts.handled, counts.queued) == (4, 4, 0)


async def test_two_blocking_actors_ask_each_other_in_a_row() -> None:
    async with rt.ActorSystem("asks") as system:
        refs = (await system.spawn(Asker), await system.spawn(Asker), await system.spawn(Async), await system.spawn(Asker))
        assert await refs[0].ask(Pass(refs[1:])) == "the end"


class Starting(rt.Actor, blocking=True):
    def __init__(self, other: rt.Ref[Async]) -> None:
        self.first = self.ctx.ask(other, Add(1))
        self.other = other

    def on_start(self) -> None:
        self.second = self.ctx.ask(self.other, Add(2))

    @rt.handler
    def call(self, _: Call) -> Any:
        return (self.first, self.second)


async def test_constructor_and_hooks_can_ask() -> None:
    async with rt.ActorSystem("asks") as system:
        starting = await system.spawn(Starting, await system.spawn(Async))
        assert await starting.ask(Call(None)) == (2, 3)


# -- errors ----------------------------------------------------------------------------------------------------------------------------------------


async def test_an_error_that_came_as_an_answer_restarts_only_the_actor_that_failed() -> None:
    built: list[int] = []
    async with rt.ActorSystem("asks") as system:
        asker, other = await system.spawn(Asker, built), await system.spawn(Async)
        with pytest.raises(LookupError, match="broken"):
            await asker.ask(Call(lambda actor: actor.ctx.ask(other, Break())))
        assert await asker.ask(Call(lambda _: "alive")) == "alive"
        restarts = {counts.path: counts.restarts for counts in system.actors()}
        assert conserved(system.statistics())
    assert built == [1]
    assert restarts == {asker.path: 0, other.path: 1}


async def test_an_error_that_is_handled_in_the_thread_is_no_failure() -> None:
    def careful(actor: Asker, other: rt.Ref[Async]) -> str:
        try:
            actor.ctx.ask(other, Break())
        except LookupError as error:
            return f"caught: {error}"
        return "nothing caught"

    async with rt.ActorSystem("asks") as system:
        asker, other = await system.spawn(Asker), await system.spawn(Async)
        assert await asker.ask(Call(lambda actor: careful(actor, other))) == "caught: broken"


async def test_the_ask_ends_with_the_deadline_of_the_request_that_it_serves() -> None:
    outcome: list[BaseException] = []
    over = open_after(PATIENCE)

    def try_it(actor: Asker) -> None:
        try:
            actor.ctx.ask(other, Never(), timeout=PATIENCE)
        except BaseException as error:
            outcome.append(error)
        over.set()

    async with rt.ActorSystem("asks") as system:
        asker, other = await system.spawn(Asker), await system.spawn(Async)
        with pytest.raises(rt.AskTimeout):
            await asker.ask(Call(try_it), timeout=0.05)
        await trio.to_thread.run_sync(over.wait)
        assert other._cell.actor.cancelled == 1
        assert await other.ask(Add(1)) == 2
    assert [type(error) for error in outcome] == [rt.AskTimeout]


async def test_its_own_time_out_cancels_the_request() -> None:
    async with rt.ActorSystem("asks") as system:
        asker, other = await system.spawn(Asker), await system.spawn(Async)
        with pytest.raises(rt.AskTimeout, match=r"within 0\.05 s"):
            await asker.ask(Call(lambda actor: actor.ctx.ask(other, Never(), timeout=0.05)))
        assert other._cell.actor.cancelled == 1
        assert await asker.ask(Call(lambda _: 1)) == 1
        assert conserved(system.statistics())


async def test_asking_a_stopped_actor_fails_at_once() -> None:
    async with rt.ActorSystem("asks") as system:
        asker, other = await system.spawn(Asker), await system.spawn(Async)
        await other.stop()
        with pytest.raises(rt.ActorStopped, match="has stopped"):
            await asker.ask(Call(lambda actor: actor.ctx.ask(other, Add(1))))
        assert conserved(system.statistics())


async def test_a_full_mailbox_is_waited_for_within_the_deadline() -> None:
    gate = open_after(PATIENCE)
    async with rt.ActorSystem("asks") as system:
        asker, busy = await system.spawn(Asker), await system.spawn(Asker, mailbox=rt.Mailbox.bounded(1))
        assert busy.tell(Note(lambda _: gate.wait())).accepted
        await trio.testing.wait_all_tasks_blocked()
        assert busy.tell(Note(lambda _: None)).accepted
        with pytest.raises(rt.MailboxFull, match="was not delivered"):
            await asker.ask(Call(lambda actor: actor.ctx.ask(busy, Call(lambda _: 1), timeout=0.05)))

        async def open_it() -> None:
            await until(lambda: busy._cell.waiting() == 2)
            gate.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(open_it)
            assert await asker.ask(Call(lambda actor: actor.ctx.ask(busy, Call(lambda _: 2)))) == 2
        assert conserved(system.statistics())


@pytest.mark.parametrize(
    ("function", "error", "says"),
    [
        (lambda actor, _: actor.ctx.ask("/user/other", Add(1)), TypeError, "is no ref"),
        (lambda actor, other: actor.ctx.ask(other, "hello"), rt.Unhandled, "which is no message"),
        (lambda actor, other: actor.ctx.ask(other, Note(None)), rt.Unhandled, "no handler for Note"),
        (lambda actor, other: actor.ctx.ask(other, Items()), rt.Unhandled, "answered by a stream"),
        (lambda actor, other: actor.ctx.ask(other, Add(1), timeout=-1), TypeError, "give seconds"),
        (lambda actor, other: actor.ctx.ask(other, Add(1), context=actor.ctx.ref), rt.Denied, "a security context is wanted"),
    ],
)
async def test_a_wrong_call_is_refused_where_it_is_made(function: Any, error: type[Exception], says: str) -> None:
    async with rt.ActorSystem("asks") as system:
        asker, other = await system.spawn(Asker), await system.spawn(Async)
        with pytest.raises(error, match=says):
            await asker.ask(Call(lambda actor: function(actor, other)))
        assert system.statistics().sent == 1


async def test_an_explicit_context_must_descend_from_the_current_one() -> None:
    async with rt.ActorSystem("asks") as system:
        asker, other = await system.spawn(Asker), await system.spawn(Async)
        wide, narrow = system.authority.root, system.authority.root.narrow(["shop.**"])
        with pytest.raises(rt.Denied, match="inside a handler"):
            await asker.ask(Call(lambda actor: actor.ctx.ask(other, Add(1), context=wide)), context=narrow)
        narrower = Call(lambda actor: actor.ctx.ask(other, Add(0), context=actor.ctx.security.narrow(["shop.buy"])))
        _, security = await asker.ask(narrower, context=narrow)
        assert security.allows("shop.buy")
        assert not security.allows("shop.sell")


async def test_a_ref_of_another_system_is_refused() -> None:
    async with rt.ActorSystem("asks") as system, rt.ActorSystem("others") as others:
        asker, other = await system.spawn(Asker), await others.spawn(Async)
        with pytest.raises(TypeError, match="belongs to the system 'others'"):
            await asker.ask(Call(lambda actor: actor.ctx.ask(other, Add(1))))


async def test_an_actor_of_the_loop_is_told_to_await() -> None:
    async with rt.ActorSystem("asks") as system:
        one, other = await system.spawn(Async), await system.spawn(Async)
        with pytest.raises(rt.WrongThread, match=r"await ref\.ask\(message\)"):
            await one.ask(Call(lambda actor: actor.ctx.ask(other, Add(1))))


async def test_a_thread_that_a_handler_starts_cannot_ask() -> None:
    def elsewhere(actor: Asker) -> list[Any]:
        found: list[Any] = []

        def run() -> None:
            try:
                found.append(actor.ctx.ask(other, Add(1)))
            except rt.NoContext as error:
                found.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        return found

    async with rt.ActorSystem("asks") as system:
        asker, other = await system.spawn(Asker), await system.spawn(Async)
        (error,) = await asker.ask(Call(elsewhere))
    assert isinstance(error, rt.NoContext)


# -- rings -----------------------------------------------------------------------------------------------------------------------------------------

RINGS = [
    [Asker],
    [Asker, Asker],
    [Asker, Async],
    [Async, Asker],
    [Asker, Async, Asker],
    [Async, Asker, Async],
]


@pytest.mark.parametrize("ring", RINGS, ids=lambda ring: "-".join(cls.__name__ for cls in ring))
async def test_a_ring_through_a_blocking_actor_is_found_at_once(ring: list[type[rt.Actor]]) -> None:
    async with rt.ActorSystem("asks") as system:
        refs = [await system.spawn(cls, name=f"n{number}") for number, cls in enumerate(ring)]
        with pytest.raises(rt.AskCycle) as caught:
            await refs[0].ask(Pass((*refs[1:], refs[0])), timeout=PATIENCE)
        assert all(ref.path in str(caught.value) for ref in refs)
        counts = system.statistics()
    assert (counts.sent, counts.handled) == (len(ring), len(ring))  # what would have closed the ring was never sent


async def test_two_independent_asks_that_wait_for_each_other_are_found() -> None:
    barrier = threading.Barrier(2)
    outcomes: list[Any] = []

    async with rt.ActorSystem("asks") as system:
        one, two = await system.spawn(Asker), await system.spawn(Asker)

        def meet(actor: Asker, other: rt.Ref[Asker]) -> Any:
            barrier.wait(PATIENCE)
            return actor.ctx.ask(other, Call(lambda _: "answered"), timeout=PATIENCE)

        async def ask(ref: rt.Ref[Asker], other: rt.Ref[Asker]) -> None:
            try:
                outcomes.append(await ref.ask(Call(lambda actor: meet(actor, other)), timeout=PATIENCE))
            except rt.AskCycle as error:
                outcomes.append(error)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, one, two)
            nursery.start_soon(ask, two, one)
        assert conserved(system.statistics())
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["AskCycle", "str"]


async def test_waiting_for_a_busy_actor_is_no_ring() -> None:
    gate = open_after(PATIENCE)
    async with rt.ActorSystem("asks") as system:
        asker, busy = await system.spawn(Asker), await system.spawn(Asker)
        busy.tell(Note(lambda _: gate.wait()))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(asker.ask, Call(lambda actor: actor.ctx.ask(busy, Call(lambda _: 1))))
            await until(lambda: busy._cell.waiting())
            gate.set()


# -- the end ---------------------------------------------------------------------------------------------------------------------------------------


async def test_a_stop_wakes_the_thread_that_waits_for_an_answer() -> None:
    caught: list[BaseException] = []

    def try_it(actor: Asker) -> None:
        try:
            actor.ctx.ask(other, Never(), timeout=PATIENCE)
        except BaseException as error:
            caught.append(error)
            try:
                actor.ctx.ask(other, Add(1))
            except BaseException as again:
                caught.append(again)
            raise

    async with rt.ActorSystem("asks") as system:
        asker, other = await system.spawn(Asker), await system.spawn(Async)
        asker.tell(Note(try_it))
        # Sent is not begun: the other actor must be waiting in its handler, else the stop withdraws the request instead.
        await until(lambda: other._cell.turn is not None and other._cell.turn.suspension is not None)
        await asker.stop(grace=0)
        counts = system.statistics()
        assert other._cell.actor.cancelled == 1
        assert conserved(counts)
    assert [type(error) for error in caught] == [rt.ActorStopped, rt.ActorStopped]
    assert "is being stopped" in str(caught[0])
    assert [(error.path, error.begun) for error in caught if isinstance(error, rt.ActorStopped)] == [
        (other.path, True),
        (other.path, False),
    ]
    assert counts.leaked_threads == 0
