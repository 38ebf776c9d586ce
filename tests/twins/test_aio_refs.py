"""`retinue.aio`: who acts; refs, watches and streams."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import retinue as rt
from retinue import aio
from twin_actors import Blocking, Boom, Call, Carry, Count, Double, Leave, Note, Who, Worker, conserved
from twin_asyncio import under_asyncio

# -- who acts ----------------------------------------------------------------------------------------------------------------------------------------


@under_asyncio
async def test_it_acts_under_the_root_context_or_one_that_is_given() -> None:
    async with aio.ActorSystem("twin") as system:
        worker = await system.spawn(Worker)
        assert await worker.ask(Who()) == (None, "root", True)
        guest = system.authority.mint("guest", ["shop.**"])
        assert await worker.ask(Who(), context=guest) == (None, "guest", False)


USES: dict[str, Callable[[Any, Any], Any]] = {
    "ask": lambda system, ref: ref.ask(Double(1)),
    "tell": lambda system, ref: ref.tell(Note(1)),
    "send": lambda system, ref: ref.send(Note(1)),
    "stream": lambda system, ref: ref.stream(Count(1)),
    "stop actor": lambda system, ref: ref.stop(),
    "spawn": lambda system, ref: system.spawn(Worker),
    "watch": lambda system, ref: system.watch(ref),
    "statistics": lambda system, ref: system.statistics(),
    "stop": lambda system, ref: system.stop(),
}


class Awaiting(rt.Actor):
    @rt.handler
    async def call(self, message: Call) -> Any:
        result = message.function(self)
        return await result if asyncio.iscoroutine(result) else result


@pytest.mark.parametrize("use", USES)
@under_asyncio
async def test_in_a_handler_the_twin_is_refused_at_once(use: str) -> None:
    async with aio.ActorSystem("twin") as system:
        other, actor = await system.spawn(Worker), await system.spawn(Awaiting)
        with pytest.raises(rt.WrongThread, match="in the thread that runs"):
            await actor.ask(Call(lambda _: USES[use](system, other)))


@under_asyncio
async def test_a_blocking_handler_with_a_loop_of_its_own_has_no_authority() -> None:
    async with aio.ActorSystem("twin") as system, aio.ActorSystem("other") as others:
        other, actor, stranger = await system.spawn(Worker), await system.spawn(Blocking), await others.spawn(Blocking)
        with pytest.raises(rt.WrongThread, match=r"self\.ctx\.ask"):
            await actor.ask(Call(lambda _: asyncio.run(other.ask(Double(1)))))
        with pytest.raises(rt.NoContext):
            await stranger.ask(Call(lambda _: asyncio.run(other.ask(Double(1)))))


# -- refs, watches, streams --------------------------------------------------------------------------------------------------------------------------


@under_asyncio
async def test_a_ref_arrives_as_a_core_ref_and_comes_back_as_a_twins() -> None:
    async with aio.ActorSystem("twin") as system:
        friend = await system.spawn(Worker)
        worker = await system.spawn(Worker, friend=friend)
        assert await worker.ask(Call(lambda actor: type(actor.friend))) is rt.Ref
        found = await worker.ask(Carry(friend))
        assert isinstance(found, aio.Ref)
        assert found == friend
        assert await found.ask(Double(1)) == 2


@under_asyncio
async def test_an_actor_is_watched_and_stopped() -> None:
    async with aio.ActorSystem("twin") as system:
        worker = await system.spawn(Worker)
        watch = await system.watch(worker)
        waiting = asyncio.gather(watch.wait(), watch.wait())
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(watch.wait(), 0.01)  # giving up is no harm to the others
        assert watch.terminated is None
        worker.tell(Leave())
        one, two = await waiting
        assert one == two == watch.terminated
        assert (one.ref, one.reason) == (worker, "stopped")
        assert (await (await system.watch(worker)).wait()).ref == worker
        other = await system.spawn(Worker)
        closed = await system.watch(other)
        closed.close()
        await other.stop()
        assert closed.terminated is None


@under_asyncio
async def test_names_are_registered_and_found() -> None:
    async with aio.ActorSystem("twin", events=10) as system:
        worker = await system.spawn(Worker, name="worker")
        await system.registry.register("boss", worker)
        assert await system.registry.names() == ["boss"]
        assert await system.registry.get("boss") == worker == await system.registry.get("/user/worker")
        await system.registry.unregister("boss")
        assert await system.registry.get("boss") is None
        await system.wait_quiet()
        await worker.ask(Double(1))
        assert await system.events("/user/worker")
        assert [counts.path for counts in await system.actors()] == ["/user/worker"]
        assert repr(system) == "<aio.ActorSystem 'twin'>"


@pytest.mark.parametrize("window", [1, 2, 7, 32])
@under_asyncio
async def test_a_stream_is_read_in_order_to_its_end_within_its_window(window: int) -> None:
    async with aio.ActorSystem("twin") as system:
        worker = await system.spawn(Worker)
        actor: Any = worker.core._cell.actor
        seen: list[int] = []
        async with worker.stream(Count(60), window=window) as items:
            async for item in items:
                await system.statistics()  # a round through the loop: the handler has gone as far as it may
                assert actor.ahead - item <= window
                seen.append(item)
            assert [item async for item in items] == []
        assert seen == list(range(60))
        assert conserved(await system.statistics())


@under_asyncio
async def test_a_streams_error_reaches_the_reader_after_its_items() -> None:
    async with aio.ActorSystem("twin") as system:
        worker = await system.spawn(Worker)
        seen: list[int] = []
        with pytest.raises(Boom, match="in the middle"):
            async with worker.stream(Count(3, Boom("in the middle"))) as items:
                async for item in items:
                    seen.append(item)
        assert seen == [0, 1, 2]


@under_asyncio
async def test_leaving_a_stream_early_or_cancelling_its_reader_cancels_its_handler() -> None:
    async with aio.ActorSystem("twin") as system:
        worker = await system.spawn(Worker)
        actor: Any = worker.core._cell.actor
        async with worker.stream(Count(10_000), window=4) as items:
            assert await anext(items) == 0
        assert await worker.ask(Double(1)) == 2
        assert actor.ends == ["stream over"]
        with pytest.raises(rt.StreamClosed, match="is not open"):
            await anext(items)

        async def read() -> None:
            async with worker.stream(Count(10_000), window=4) as items:
                async for _ in items:
                    await asyncio.sleep(0)

        with pytest.raises(TimeoutError):
            await asyncio.wait_for(read(), 0.01)
        assert await worker.ask(Double(1)) == 2
        assert actor.ends == ["stream over"] * 2
        assert conserved(await system.statistics())
