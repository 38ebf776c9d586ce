"""`retinue.aio`: asks and tells under asyncio."""

from __future__ import annotations

import asyncio
import threading
import traceback
from typing import Any

import pytest
import trio

import retinue as rt
from quiet_threads import PATIENCE, open_after, our_threads
from retinue import aio, sync
from twin_actors import Boom, Break, Call, Count, Double, Hold, Never, Note, Notes, Unknown, Worker, conserved
from twin_asyncio import under_asyncio, wait_set


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
        with pytest.raises(asyncio.CancelledError):
            await queued
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


# -- room --------------------------------------------------------------------------------------------------------------------------------------------


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
async def test_a_scripts_system_under_asyncio_would_stop_its_loop_and_is_refused() -> None:
    system = sync.ActorSystem("script")
    with pytest.raises(rt.WrongEventLoop, match=r"retinue\.aio\.ActorSystem.*asyncio\.to_thread"), system:
        raise AssertionError("not reached")
    assert our_threads() == []

    def in_a_thread() -> int:
        with system:
            return system.spawn(Worker).ask(Double(21))

    assert await asyncio.to_thread(in_a_thread) == 42


async def test_a_scripts_system_in_a_run_of_trio_is_refused() -> None:
    def in_a_thread() -> int:
        with sync.ActorSystem("script") as system:
            return system.spawn(Worker).ask(Double(21))

    with pytest.raises(rt.WrongEventLoop, match=r"retinue\.ActorSystem.*trio\.to_thread\.run_sync"):
        in_a_thread()
    assert await trio.to_thread.run_sync(in_a_thread) == 42


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
    assert (counts.actors, counts.dead_letters_by_reason["system_closed"], conserved(counts)) == (0, 1, counts)
