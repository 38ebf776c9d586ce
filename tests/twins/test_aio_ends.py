"""`retinue.aio`: how a system ends."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from typing import Any

import pytest

import retinue as rt
from quiet_threads import PATIENCE, open_after, our_threads
from retinue import _twin, aio
from twin_actors import Break, Call, Double, Hold, Never, Worker, conserved
from twin_asyncio import under_asyncio, wait_set

# -- the end -----------------------------------------------------------------------------------------------------------------------------------------


@under_asyncio
async def test_an_error_in_the_block_leaves_it_as_it_is() -> None:
    error = LookupError("mine")
    with pytest.raises(LookupError) as caught:
        async with aio.ActorSystem("twin") as system:
            await system.spawn(Worker)
            raise error
    assert caught.value is error
    assert our_threads() == []


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
def test_what_ends_the_whole_system_leaves_the_block(kind: type[BaseException]) -> None:
    async def main() -> None:
        async with aio.ActorSystem("twin") as system:
            worker = await system.spawn(Worker)
            with pytest.raises(rt.ActorStopped, match="ends the whole system"):
                await worker.ask(Break(kind("out")))

    with pytest.raises(kind, match="out"):
        asyncio.run(main())


@under_asyncio
async def test_a_system_can_be_stopped_before_its_block_ends() -> None:
    entered = threading.Event()
    async with aio.ActorSystem("twin") as system:
        worker = await system.spawn(Worker)
        running = asyncio.create_task(worker.ask(Never(entered)))
        await wait_set(entered)
        await system.stop(grace=0)
        with pytest.raises(rt.ActorStopped):
            await running
        await system.stop()


@under_asyncio
async def test_what_is_open_at_the_end_of_the_block_is_resolved() -> None:
    entered = threading.Event()
    async with aio.ActorSystem("twin", grace=0) as system:
        worker = await system.spawn(Worker)
        running = asyncio.create_task(worker.ask(Never(entered)))
        queued = asyncio.create_task(worker.ask(Double(1)))
        await wait_set(entered)
    outcomes = await asyncio.gather(running, queued, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [rt.ActorStopped, rt.ActorStopped]
    assert conserved(await system.statistics())


@under_asyncio
async def test_a_cancelled_block_ends_in_good_order() -> None:
    ends: list[Any] = []
    entered = threading.Event()

    async def main() -> None:
        async with aio.ActorSystem("twin") as system:
            worker = await system.spawn(Worker, None, ends)
            worker.tell(Call(lambda actor: actor.ends.append("handled")))
            await worker.ask(Never(entered))

    task = asyncio.create_task(main())
    await wait_set(entered)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ends == ["handled", "cancelled"]
    assert our_threads() == []


@under_asyncio
async def test_a_block_that_is_cancelled_while_it_ends_ends_at_once() -> None:
    ends: list[Any] = []
    entered = threading.Event()

    async def main() -> None:
        async with aio.ActorSystem("twin", grace=PATIENCE * 10) as system:
            worker = await system.spawn(Worker, None, ends)
            worker.tell(Never(entered))
            await wait_set(entered)

    task = asyncio.create_task(main())
    await wait_set(entered)
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ends == ["cancelled"]
    assert our_threads() == []


@under_asyncio
async def test_a_system_that_cannot_start_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(_: Any) -> None:
        raise OSError("no more sockets")

    monkeypatch.setattr(rt.ActorSystem, "__aenter__", fail)
    with pytest.raises(OSError, match="no more sockets"):
        async with aio.ActorSystem("twin"):
            raise AssertionError("not reached")
    assert our_threads() == []


def test_an_asyncio_loop_that_is_closed_without_leaving_stops_the_system(caplog: pytest.LogCaptureFixture) -> None:
    """Nobody is there any more to leave the block: a notebook's kernel that is shut down, say."""
    gate = open_after(PATIENCE)
    loop = asyncio.new_event_loop()
    system = aio.ActorSystem("twin")

    async def begin() -> aio.Ref[Worker]:
        await system.__aenter__()
        return await system.spawn(Worker)

    worker = loop.run_until_complete(begin())
    task = loop.create_task(worker.ask(Hold(gate)))
    loop.call_later(0.01, loop.stop)
    loop.run_forever()
    loop.close()
    gate.set()  # the answer comes to a loop that is closed
    system._twin.thread.join(PATIENCE)  # type: ignore[union-attr]
    assert system._twin.ended
    assert "was closed without leaving it" in caplog.text
    task._log_destroy_pending = False  # type: ignore[attr-defined]


@under_asyncio
async def test_another_loop_in_another_thread_may_use_the_refs() -> None:
    async with aio.ActorSystem("twin") as system:
        worker = await system.spawn(Worker)

        async def work(start: int) -> list[int]:
            return list(await asyncio.gather(*(worker.ask(Double(number)) for number in range(start, start + 50))))

        found = await asyncio.gather(*(asyncio.to_thread(asyncio.run, work(start)) for start in (0, 50, 100)))
        assert [number for part in found for number in part] == [2 * number for number in range(150)]


@under_asyncio
async def test_a_loop_that_is_blocked_does_not_hold_an_asker_beyond_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_twin, "GUARD", 0.05)
    monkeypatch.setattr("retinue._twin_loops.PULSE", 0.01)
    gate, entered = open_after(PATIENCE), threading.Event()
    async with aio.ActorSystem("twin", block_warning=float("inf")) as system:
        worker, other = await system.spawn(Worker), await system.spawn(Worker)
        blocking = asyncio.create_task(worker.ask(Call(lambda _: entered.set() or gate.wait(PATIENCE))))
        await wait_set(entered)
        with pytest.raises(rt.AskTimeout, match="the loop of the system 'twin' does not react"):
            await other.ask(Double(1), timeout=0.01)
        assert not gate.is_set()
        gate.set()
        assert await blocking is True
        assert conserved(await system.statistics())


@under_asyncio
async def test_nothing_of_a_message_or_an_error_is_kept() -> None:
    class Thing(Exception):
        pass

    async with aio.ActorSystem("twin") as system:
        worker = await system.spawn(Worker, supervision=rt.Supervision(on={Thing: "resume"}))
        thing = Thing()
        kept = weakref.ref(thing)
        with pytest.raises(Thing):
            await worker.ask(Break(thing))
        del thing
        with pytest.raises(LookupError):
            await worker.ask(Break(LookupError()))  # the actor remembers its last error
        await worker.ask(Double(1))
        gc.collect()
        assert kept() is None
