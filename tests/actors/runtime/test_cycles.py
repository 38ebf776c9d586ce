"""Contract point 10: an ask that would close a ring of waiting actors fails at once, with the ring in its text, and nothing else does."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from typing import Any

import pytest
import trio
from trio.testing import MockClock

import retinue as rt
from core_hosts import conserved
from core_puppet import Call, Do, Pour, Puppet, nothing, state_of
from retinue.actors.runtime import stepping

WAYS = {"inline": {}, "by workers": {}, "seeded": {"seed": 3}}


@pytest.fixture(params=WAYS)
def system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> rt.ActorSystem:
    """A system to be entered: asks run in the asker's task, go by workers, or by workers in a random order."""
    if request.param == "by workers":
        monkeypatch.setattr(stepping, "supported", lambda: False)
    return rt.ActorSystem("ring", block_warning=math.inf, **WAYS[request.param])


async def ring_error(ref: rt.Ref[Any], script: Any) -> rt.AskCycle:
    """Asks, and demands that the ring is found in no time at all."""
    began = trio.current_time()
    with pytest.raises(rt.AskCycle) as caught:
        await ref.ask(Do(script))
    assert trio.current_time() == began
    return caught.value


async def test_an_actor_that_asks_itself_is_told_at_once(system: rt.ActorSystem, autojump_clock: MockClock) -> None:
    async with system:
        a = await system.spawn(Puppet, name="a")

        async def ask_itself(actor: Puppet) -> Any:
            return await actor.ctx.ref.ask(Call(nothing))

        error = await ring_error(a, ask_itself)
        assert "/user/a -> /user/a" in str(error) and "Call" in str(error) and "defer" in str(error)
        assert conserved(system)


async def test_a_ring_of_two_is_told_at_once(system: rt.ActorSystem, autojump_clock: MockClock) -> None:
    async with system:
        a = await system.spawn(Puppet, name="a")
        b = await system.spawn(Puppet, name="b")

        async def back(_: Puppet) -> Any:
            return await a.ask(Call(nothing))

        async def there(_: Puppet) -> Any:
            return await b.ask(Do(back))

        error = await ring_error(a, there)
        assert "/user/b -> /user/a -> /user/b" in str(error)
        assert conserved(system)


async def test_a_ring_of_four_is_told_at_once_even_after_real_waiting(system: rt.ActorSystem, autojump_clock: MockClock) -> None:
    async with system:
        refs = [await system.spawn(Puppet, name=f"n{number}") for number in range(4)]

        def hop(number: int) -> Any:
            async def script(_: Puppet) -> Any:
                await trio.sleep(1)
                return await refs[(number + 1) % 4].ask(Do(hop(number + 1)))

            return script

        with pytest.raises(rt.AskCycle) as caught:
            await refs[0].ask(Do(hop(0)))
        assert trio.current_time() == 4
        assert all(f"/user/n{number}" in str(caught.value) for number in range(4))
        assert conserved(system)


async def test_the_error_can_be_caught_where_it_arises_and_everybody_goes_on(system: rt.ActorSystem, autojump_clock: MockClock) -> None:
    async with system:
        a = await system.spawn(Puppet, name="a")
        b = await system.spawn(Puppet, name="b")

        async def back(_: Puppet) -> str:
            try:
                await a.ask(Call(nothing))
            except rt.AskCycle:
                return "found it"
            return "missed it"

        async def there(actor: Puppet) -> Any:
            actor.log.append("kept")
            return await b.ask(Do(back))

        assert await a.ask(Do(there)) == "found it"
        assert await state_of(a) == ["kept"]
        assert all(actor.failures == 0 for actor in system.actors())


async def test_what_would_close_a_ring_was_never_sent(system: rt.ActorSystem, autojump_clock: MockClock) -> None:
    async with system:
        a = await system.spawn(Puppet, name="a")
        counts: list[int] = []

        async def ask_itself(actor: Puppet) -> None:
            before = system.statistics().sent
            with pytest.raises(rt.AskCycle):
                await actor.ctx.ref.ask(Call(nothing))
            counts.append(system.statistics().sent - before)

        await a.ask(Do(ask_itself))
        assert counts == [0]
        assert system.dead_letters.count == 0


async def test_two_independent_asks_that_wait_for_each_other_are_a_ring(system: rt.ActorSystem, autojump_clock: MockClock) -> None:
    async with system, trio.open_nursery() as nursery:
        a = await system.spawn(Puppet, name="a")
        b = await system.spawn(Puppet, name="b")
        outcomes: list[str] = []

        async def cross(mine: rt.Ref[Puppet], other: rt.Ref[Puppet], delay: float) -> None:
            async def script(_: Puppet) -> None:
                await trio.sleep(delay)
                await other.ask(Call(nothing))

            try:
                await mine.ask(Do(script))
            except rt.AskCycle:
                outcomes.append("cycle")
            else:
                outcomes.append("answered")

        nursery.start_soon(cross, a, b, 1)
        nursery.start_soon(cross, b, a, 2)
        await trio.sleep(2.5)
        assert sorted(outcomes) == ["answered", "cycle"]  # the one that closed the ring; the other goes on as soon as it ended
        assert conserved(system)


async def test_a_send_that_waits_for_room_can_close_a_ring(system: rt.ActorSystem, autojump_clock: MockClock) -> None:
    async with system:
        small = rt.Mailbox.bounded(1)
        a = await system.spawn(Puppet, name="a", mailbox=small)

        async def flood_itself(actor: Puppet) -> None:
            await actor.ctx.ref.send(Call(nothing))
            await actor.ctx.ref.send(Call(nothing))

        error = await ring_error(a, flood_itself)
        assert "/user/a -> /user/a" in str(error) and "full" in str(error)
        await system.wait_quiet()
        assert conserved(system)


async def test_two_full_mailboxes_whose_owners_send_to_each_other_are_a_ring(system: rt.ActorSystem, autojump_clock: MockClock) -> None:
    async with system, trio.open_nursery() as nursery:
        small = rt.Mailbox.bounded(1)
        a = await system.spawn(Puppet, name="a", mailbox=small)
        b = await system.spawn(Puppet, name="b", mailbox=small)
        outcomes: list[str] = []

        async def flood(mine: rt.Ref[Puppet], other: rt.Ref[Puppet], delay: float) -> None:
            async def script(_: Puppet) -> None:
                await trio.sleep(delay)
                for _number in range(3):
                    await other.send(Call(nothing))

            try:
                await mine.ask(Do(script))
            except rt.AskCycle:
                outcomes.append("cycle")
            else:
                outcomes.append("sent")

        nursery.start_soon(flood, a, b, 1)
        nursery.start_soon(flood, b, a, 2)
        await trio.sleep(3)
        assert sorted(outcomes) == ["cycle", "sent"]
        await system.wait_quiet()
        assert conserved(system)


async def test_a_tell_never_waits_and_so_is_no_ring(system: rt.ActorSystem, autojump_clock: MockClock) -> None:
    async with system:
        a = await system.spawn(Puppet, name="a")

        async def tell_itself(actor: Puppet) -> bool:
            return actor.ctx.ref.tell(Call(lambda it: it.log.append("later"))).accepted

        assert await a.ask(Do(tell_itself)) is True
        assert await state_of(a) == ["later"]


async def test_a_child_whose_start_asks_its_waiting_parent_is_a_ring(system: rt.ActorSystem, autojump_clock: MockClock) -> None:
    class Child(rt.Actor):
        async def on_start(self) -> None:
            parent = self.ctx.parent
            assert parent is not None
            await parent.ask(Call(nothing))

    async with system:
        a = await system.spawn(Puppet, name="a")

        async def spawn_child(actor: Puppet) -> None:
            await actor.ctx.spawn(Child, name="child")

        error = await ring_error(a, spawn_child)
        assert "/user/a/child" in str(error)


async def test_a_forward_back_to_the_actor_that_waits_is_a_ring(system: rt.ActorSystem, autojump_clock: MockClock) -> None:
    async with system:
        a = await system.spawn(Puppet, name="a")
        b = await system.spawn(Puppet, name="b")

        def hand_back(actor: Puppet) -> None:
            actor.ctx.forward(a, Call(nothing))

        async def there(_: Puppet) -> Any:
            return await b.ask(Call(hand_back))

        error = await ring_error(a, there)
        assert "/user/a" in str(error)
        await system.wait_quiet()
        assert conserved(system)


async def test_a_ring_through_a_forwarded_request_is_found(system: rt.ActorSystem, autojump_clock: MockClock) -> None:
    async with system:
        a = await system.spawn(Puppet, name="a")
        b = await system.spawn(Puppet, name="b")
        c = await system.spawn(Puppet, name="c")

        async def back(_: Puppet) -> Any:
            return await a.ask(Call(nothing))

        def hand_over(actor: Puppet) -> None:
            actor.ctx.forward(c, Do(back))

        async def there(_: Puppet) -> Any:
            return await b.ask(Call(hand_over))

        error = await ring_error(a, there)
        assert "/user/c -> /user/a -> /user/c" in str(error)


async def test_a_deferred_answer_that_a_background_task_gives_is_no_ring(system: rt.ActorSystem, autojump_clock: MockClock) -> None:
    async with system, trio.open_nursery() as nursery:
        a = await system.spawn(Puppet, name="a")
        b = await system.spawn(Puppet, name="b")

        def defer(actor: Puppet) -> None:
            slot = actor.ctx.defer()

            async def answer_later() -> None:
                await trio.sleep(5)
                slot.reply("at last")

            actor.ctx.start_soon(answer_later)

        answers: list[Any] = []

        async def wait_for_b(_: Puppet) -> None:
            answers.append(await b.ask(Call(defer)))

        async def ask_a(_: Puppet) -> None:
            answers.append(await a.ask(Call(lambda actor: "a answered")))

        nursery.start_soon(a.ask, Do(wait_for_b))
        await trio.sleep(1)
        await b.ask(Do(ask_a))  # b waits for a, which waits for b's deferred answer, which a task gives that waits for nobody
        assert answers == ["at last", "a answered"]
        assert trio.current_time() == 5
        assert conserved(system)


async def test_an_ask_crossing_a_stashed_request_is_a_ring(system: rt.ActorSystem, autojump_clock: MockClock) -> None:
    async with system, trio.open_nursery() as nursery:
        a = await system.spawn(Puppet, name="a")
        b = await system.spawn(Puppet, name="b")
        outcomes: list[str] = []

        def put_aside(actor: Puppet) -> None:
            if "open" in actor.log:
                return
            actor.ctx.stash()

        async def wait_for_b(_: Puppet) -> Any:
            return await b.ask(Call(put_aside))

        async def ask_a(actor: Puppet) -> None:
            try:
                await a.ask(Call(nothing))
            except rt.AskCycle:
                outcomes.append("cycle")
            actor.log.append("open")
            actor.ctx.unstash_all()

        nursery.start_soon(a.ask, Do(wait_for_b))
        await trio.sleep(1)
        await b.ask(Do(ask_a))  # only b can bring the stashed request back, and b waits for a
        assert outcomes == ["cycle"]
        assert trio.current_time() == 1
        await system.wait_quiet()
        assert conserved(system)


async def test_a_reader_that_asks_its_blocked_producer_is_a_ring(system: rt.ActorSystem, autojump_clock: MockClock) -> None:
    async with system:
        a = await system.spawn(Puppet, name="a")
        b = await system.spawn(Puppet, name="b")

        async def numbers(_: Puppet) -> AsyncIterator[int]:
            for number in range(10):
                yield number

        async def read(_: Puppet) -> None:
            async with b.stream(Pour(numbers), window=1) as items:
                async for _item in items:
                    await trio.sleep(1)  # the producer waits for credit by now
                    await b.ask(Call(nothing))

        with pytest.raises(rt.AskCycle):
            await a.ask(Do(read))
        assert trio.current_time() == 1
        assert conserved(system)


async def test_a_reader_that_waits_for_a_producer_that_asks_it_is_a_ring(system: rt.ActorSystem, autojump_clock: MockClock) -> None:
    async with system:
        a = await system.spawn(Puppet, name="a")
        b = await system.spawn(Puppet, name="b")

        async def needs_the_reader(_: Puppet) -> AsyncIterator[Any]:
            yield 1
            yield await a.ask(Call(nothing))

        async def read(_: Puppet) -> None:
            async with b.stream(Pour(needs_the_reader)) as items:
                async for _item in items:
                    await trio.sleep(1)  # the producer waits for this actor by now; so does this actor for it, with the next step

        with pytest.raises(rt.AskCycle):
            await a.ask(Do(read))
        assert trio.current_time() == 1
        assert conserved(system)


async def test_a_stream_back_to_the_actor_that_waits_is_a_ring(system: rt.ActorSystem, autojump_clock: MockClock) -> None:
    async with system:
        a = await system.spawn(Puppet, name="a")
        b = await system.spawn(Puppet, name="b")

        async def nobody_reads(_: Puppet) -> AsyncIterator[int]:
            yield 1

        async def stream_back(_: Puppet) -> None:
            async with a.stream(Pour(nobody_reads)) as items:
                async for _item in items:
                    pass

        async def there(_: Puppet) -> Any:
            return await b.ask(Do(stream_back))

        await ring_error(a, there)
        assert conserved(system)


async def test_a_sender_that_was_just_let_in_waits_no_longer(system: rt.ActorSystem, autojump_clock: MockClock) -> None:
    async with system, trio.open_nursery() as nursery:
        a = await system.spawn(Puppet, name="a")
        b = await system.spawn(Puppet, name="b", mailbox=rt.Mailbox.bounded(1))
        answers: list[Any] = []

        async def sleep_one(_: Puppet) -> None:
            await trio.sleep(1)

        async def ask_a(_: Puppet) -> None:
            answers.append(await a.ask(Call(lambda _: "a answered")))

        async def send(_: Puppet) -> None:
            await b.send(Do(ask_a))

        b.tell(Do(sleep_one))
        await trio.testing.wait_all_tasks_blocked()
        b.tell(Do(ask_a))  # fills the mailbox
        nursery.start_soon(a.ask, Do(send))  # waits for room; as soon as there is some, b asks a
        await trio.sleep(2)
        await system.wait_quiet()
        assert answers == ["a answered", "a answered"]
        assert [actor.failures for actor in system.actors()] == [0, 0]
        assert conserved(system)


async def test_a_producer_that_just_got_credit_waits_no_longer(system: rt.ActorSystem, autojump_clock: MockClock) -> None:
    async with system:
        a = await system.spawn(Puppet, name="a")
        b = await system.spawn(Puppet, name="b")

        async def numbers(_: Puppet) -> AsyncIterator[int]:
            for number in range(20):
                yield number

        def read(window: int) -> Any:
            async def script(_: Puppet) -> int:
                async with b.stream(Pour(numbers), window=window) as items:
                    return sum([item async for item in items])

            return script

        for window in (1, 2, 7):
            assert await a.ask(Do(read(window))) == 190
        assert conserved(system)
