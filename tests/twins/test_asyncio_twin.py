"""`retinue.aio`: the same actors under asyncio."""

from __future__ import annotations

import asyncio
import gc
import threading
import traceback
import weakref
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any

import pytest
import trio

import retinue as rt
from quiet_threads import PATIENCE, open_after, our_threads
from retinue import _twin, aio
from twin_actors import Blocking, Boom, Break, Call, Carry, Count, Double, Hold, Leave, Never, Note, Notes, Unknown, Who, Worker, conserved


def under_asyncio(function: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run an async test under asyncio."""

    @wraps(function)
    def run(*arguments: Any, **keywords: Any) -> None:
        async def main() -> None:
            await asyncio.wait_for(function(*arguments, **keywords), PATIENCE * 3)

        asyncio.run(main())

    return run


async def wait_set(event: threading.Event) -> None:
    assert await asyncio.to_thread(event.wait, PATIENCE)


@under_asyncio
async def test_an_ask_returns_the_answer() -> None:
    async with aio.ActorSystem("twin") as system:
        worker = await system.spawn(Worker, name="worker")
        assert worker.path == "/user/worker"
        assert await worker.ask(Double(21)) == 42


@under_asyncio
async def test_the_system_runs_in_a_thread_of_its_own_that_is_gone_after_the_block() -> None:
    async with aio.ActorSystem("twin") as system:
        thread = await (await system.spawn(Worker)).ask(Call(lambda _: threading.current_thread()))
        assert thread.name == "retinue system twin"
    assert not thread.is_alive()


@under_asyncio
async def test_thousands_of_asks_are_gathered() -> None:
    async with aio.ActorSystem("twin") as system:
        worker = await system.spawn(Worker)
        answers = await asyncio.gather(*(worker.ask(Double(number)) for number in range(5000)))
        assert answers == [2 * number for number in range(5000)]
        counts = await system.statistics()
        assert (counts.sent, counts.handled, counts.deadlines) == (5000, 5000, 0)


@under_asyncio
async def test_tells_are_handled_in_the_order_they_were_sent_before_a_later_ask() -> None:
    async with aio.ActorSystem("twin") as system:
        worker = await system.spawn(Worker)
        for number in range(500):
            assert worker.tell(Note(number)).reason == "handed_over"
        assert await worker.ask(Notes()) == list(range(500))


@under_asyncio
async def test_a_handlers_exception_reaches_the_caller_with_its_traceback() -> None:
    async with aio.ActorSystem("twin") as system:
        worker = await system.spawn(Worker)
        error = Boom("from the handler")
        with pytest.raises(Boom) as caught:
            await worker.ask(Break(error))
        assert caught.value is error
        assert "fail" in [frame.name for frame in traceback.extract_tb(error.__traceback__)]
        with pytest.raises(RuntimeError, match="StopIteration"):
            await worker.ask(Break(StopIteration()))


@under_asyncio
async def test_a_time_out_is_an_ask_timeout() -> None:
    async with aio.ActorSystem("twin") as system:
        worker = await system.spawn(Worker)
        with pytest.raises(rt.AskTimeout, match=r"within 0\.05 s"):
            await worker.ask(Never(threading.Event()), timeout=0.05)
        assert await worker.ask(Double(1)) == 2


@under_asyncio
async def test_cancelling_the_task_cancels_a_running_request() -> None:
    ends: list[Any] = []
    entered = threading.Event()
    async with aio.ActorSystem("twin") as system:
        worker = await system.spawn(Worker, None, ends)
        task = asyncio.create_task(worker.ask(Never(entered)))
        await wait_set(entered)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await worker.ask(Double(1)) == 2
        assert ends == ["cancelled"]
        assert conserved(await system.statistics())


@under_asyncio
async def test_cancelling_the_task_withdraws_a_queued_request() -> None:
    gate = open_after(PATIENCE)
    ends: list[Any] = []
    async with aio.ActorSystem("twin") as system:
        worker = await system.spawn(Worker, None, ends)
        holding = asyncio.create_task(worker.ask(Hold(gate)))
        queued = asyncio.create_task(worker.ask(Call(lambda actor: actor.ends.append("handled"))))
        await asyncio.sleep(0)
        await system.statistics()  # both are in the mailbox
        queued.cancel()
        gate.set()
        await holding
        assert await worker.ask(Double(1)) == 2
        assert ends == []
        counts = await system.statistics()
        assert counts.dead_letters_by_reason["withdrawn"] == 1
        assert conserved(counts)


@under_asyncio
async def test_a_task_that_is_cancelled_before_it_asks_sends_nothing() -> None:
    async with aio.ActorSystem("twin") as system:
        worker = await system.spawn(Worker)
        task = asyncio.create_task(worker.ask(Double(1)))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await system.statistics()).sent == 0


@under_asyncio
async def test_wait_for_cancels_too() -> None:
    ends: list[Any] = []
    async with aio.ActorSystem("twin") as system:
        worker = await system.spawn(Worker, None, ends)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(worker.ask(Never(threading.Event())), 0.05)
        await worker.ask(Double(1))
        assert ends == ["cancelled"]


@under_asyncio
async def test_a_detached_request_goes_on_without_its_asker() -> None:
    gate = open_after(PATIENCE)
    async with aio.ActorSystem("twin") as system:
        worker = await system.spawn(Worker)
        task = asyncio.create_task(worker.ask(Hold(gate, 3), detached=True))
        await asyncio.sleep(0)
        await system.statistics()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        gate.set()
        await worker.ask(Double(1))
        (letter,) = system.dead_letters.recent
        assert (letter.reason, letter.message) == ("late_reply", 3)


@under_asyncio
async def test_a_cancelled_spawn_leaves_nothing() -> None:
    gate, entered = open_after(PATIENCE), threading.Event()

    class Slow(rt.Actor, blocking=True):
        def __init__(self) -> None:
            entered.set()
            gate.wait(PATIENCE)

    async with aio.ActorSystem("twin") as system:
        task = asyncio.create_task(system.spawn(Slow))
        await wait_set(entered)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        gate.set()
        while await system.actors():
            await asyncio.sleep(0.001)


# -- room ------------------------------------------------------------------------------------------------------------------------------------------


@under_asyncio
async def test_a_send_waits_for_room_and_can_be_cancelled() -> None:
    gate = open_after(PATIENCE)
    async with aio.ActorSystem("twin") as system:
        worker = await system.spawn(Worker, mailbox=rt.Mailbox.bounded(1))
        holding = asyncio.create_task(worker.ask(Hold(gate)))
        await asyncio.sleep(0)
        assert (await worker.send(Note(0))).reason is None
        with pytest.raises(rt.MailboxFull):
            await worker.send(Note(1), timeout=0.05)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(worker.send(Note(2)), 0.05)
        waiting = asyncio.create_task(worker.send(Note(3)))
        await asyncio.sleep(0)
        await system.statistics()
        gate.set()
        assert (await waiting).accepted
        await holding
        assert await worker.ask(Notes()) == [0, 3]
        assert conserved(await system.statistics())


@under_asyncio
async def test_a_tell_never_blocks_and_a_full_mailbox_makes_a_dead_letter() -> None:
    gate = open_after(PATIENCE)
    async with aio.ActorSystem("twin") as system:
        worker = await system.spawn(Worker, mailbox=rt.Mailbox.bounded(1, overflow="wait"))
        holding = asyncio.create_task(worker.ask(Hold(gate)))
        await asyncio.sleep(0)
        await (await system.spawn(Worker)).ask(Double(1))  # the Hold is in progress by now
        for number in range(4):
            assert worker.tell(Note(number))
        counts = await system.statistics()
        gate.set()
        await holding
        assert counts.dead_letters_by_reason["mailbox_full"] == 3


@under_asyncio
async def test_a_tell_that_the_portal_has_no_room_for_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    from retinue.actors.runtime import portal

    async with aio.ActorSystem("twin") as system:
        worker = await system.spawn(Worker)
        monkeypatch.setattr(portal, "PORTAL_CAPACITY", 0)
        receipt = worker.tell(Note(1))
        assert (receipt.accepted, receipt.reason) == (False, "mailbox_full")
        assert await worker.ask(Notes()) == []
        counts = await system.statistics()
        assert counts.dead_letters_by_reason["mailbox_full"] == 1
        assert conserved(counts)


# -- what is wrong with a call -----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda ref: ref.ask(Unknown()), rt.Unhandled, "no handler for Unknown"),
        (lambda ref: ref.ask("hello"), rt.Unhandled, "which is no message"),
        (lambda ref: ref.send(Unknown()), rt.Unhandled, "no handler for Unknown"),
        (lambda ref: ref.ask(Count(1)), rt.Unhandled, "answered by a stream"),
        (lambda ref: ref.ask(Double(1), timeout=-1), TypeError, "timeout=-1"),
        (lambda ref: ref.ask(Double(1), context="root"), rt.ForgedContext, "a security context is wanted"),
    ],
)
@under_asyncio
async def test_a_wrong_call_is_refused_where_it_is_made(call: Any, error: type[Exception], says: str) -> None:
    async with aio.ActorSystem("twin") as system:
        worker = await system.spawn(Worker)
        with pytest.raises(error, match=says):
            await call(worker)
        with pytest.raises(rt.Unhandled):
            worker.tell(Unknown())
        with pytest.raises(rt.Unhandled, match="no Stream"):
            worker.stream(Double(1))
        with pytest.raises(TypeError, match="window=0"):
            worker.stream(Count(1), window=0)
        assert (await system.statistics()).sent == 0


def test_without_an_asyncio_loop_it_says_what_to_use() -> None:
    async def main() -> None:
        async with aio.ActorSystem("twin"):
            raise AssertionError("not reached")

    with pytest.raises(rt.WrongEventLoop, match=r"retinue\.sync.*retinue\.ActorSystem"):
        trio.run(main)
    assert our_threads() == []


@under_asyncio
async def test_the_trio_system_under_asyncio_names_the_twin() -> None:
    with pytest.raises(rt.WrongEventLoop, match=r"retinue\.aio"):
        async with rt.ActorSystem("wrong"):
            pass


@under_asyncio
async def test_before_and_after_its_block_a_system_is_refused() -> None:
    system = aio.ActorSystem("twin")
    with pytest.raises(rt.SystemClosed, match="has not started"):
        await system.spawn(Worker)
    with pytest.raises(rt.SystemClosed, match="has not started"):
        await system.statistics()
    async with system:
        worker = await system.spawn(Worker)
        await worker.ask(Double(1))
    with pytest.raises(rt.SystemClosed, match="runs once"):
        async with system:
            pass
    with pytest.raises(rt.SystemClosed, match="is closed"):
        await worker.ask(Double(1))
    with pytest.raises(rt.SystemClosed):
        await worker.send(Note(1))
    with pytest.raises(rt.SystemClosed):
        async with worker.stream(Count(1)):
            pass
    assert worker.tell(Note(1)).reason == "system_closed"
    counts = await system.statistics()
    assert (counts.actors, counts.dead_letters_by_reason["system_closed"], conserved(counts)) == (0, 1, True)


# -- who acts --------------------------------------------------------------------------------------------------------------------------------------


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


# -- the end ---------------------------------------------------------------------------------------------------------------------------------------


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
