"""The portal: how other threads reach a system."""

from __future__ import annotations

import logging
import threading
from typing import Any

import pytest
import trio

import retinue as rt
from quiet_threads import PATIENCE, open_after, until
from retinue.actors.runtime import portal as portal_module
from retinue.actors.runtime.portal import Latch, Portal


@rt.message
class Note(rt.Message):
    number: int


class Quiet(rt.Actor):
    def __init__(self) -> None:
        self.numbers: list[int] = []

    @rt.handler
    def note(self, message: Note) -> None:
        self.numbers.append(message.number)


def portal_of(system: rt.ActorSystem) -> Portal:
    return system._kernel.portal


async def in_thread(function: Any, *arguments: Any) -> Any:
    """In a thread that knows nothing of trio or of who acts here."""
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.append(function(*arguments))
        except BaseException as error:
            outcome.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    await until(lambda: not thread.is_alive())
    return outcome[0]


async def test_calls_run_in_the_systems_thread_in_the_order_they_came() -> None:
    seen: list[Any] = []
    async with rt.ActorSystem("portal") as system:
        here = threading.get_ident()

        def post() -> bool:
            portal = portal_of(system)
            return sum(portal.post(lambda number=number: seen.append((number, threading.get_ident()))) for number in range(1000)) == 1000

        assert await in_thread(post) is True
        await until(lambda: len(seen) == 1000)
    assert seen == [(number, here) for number in range(1000)]


async def test_many_calls_do_not_keep_the_loop_from_its_other_work() -> None:
    async with rt.ActorSystem("portal") as system:
        portal = portal_of(system)
        passes: list[int] = []
        done = trio.Event()
        for number in range(portal_module.BATCH * 4):
            portal.post(passes.append, number)
        portal.post(done.set)
        seen = []
        while not done.is_set():
            seen.append(len(passes))
            await trio.lowlevel.checkpoint()
        assert len([count for count in seen if 0 < count < portal_module.BATCH * 4]) >= 2  # it was seen in between


async def test_what_a_call_raises_is_logged_and_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        raise SystemExit("not for the loop")

    async with rt.ActorSystem("portal") as system:
        portal = portal_of(system)
        assert portal.post(fail)
        assert await in_thread(portal.call, lambda: 3) == 3
        (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
        assert "a call from another thread failed" in record.message


async def test_a_blocking_call_returns_or_raises_the_outcome() -> None:
    async with rt.ActorSystem("portal") as system:
        assert await in_thread(portal_of(system).call, max, 3, 4) == 4
        assert isinstance(await in_thread(portal_of(system).call, {}.__getitem__, "x"), KeyError)
        with pytest.raises(rt.WrongThread, match="it would wait for itself"):
            portal_of(system).call(max, 3, 4)


async def test_a_closed_portal_takes_nothing_and_what_waits_is_run_before() -> None:
    seen: list[int] = []
    async with rt.ActorSystem("portal") as system:
        portal = portal_of(system)
        portal.post(seen.append, 1)
    assert seen == [1]
    assert portal.closed
    assert not portal.is_open()
    assert not portal.post(seen.append, 2)
    assert isinstance(await in_thread(portal.call, max, 3, 4), rt.SystemClosed)
    assert seen == [1]


class Closing:
    """A token of a loop that ends while a call is being posted."""

    def __init__(self, act: Any) -> None:
        self.act = act

    def run_sync_soon(self, function: Any, *, idempotent: bool = False) -> None:
        self.act(function)


async def test_a_call_that_meets_the_end_of_the_loop_is_run_once_or_refused() -> None:
    async with rt.ActorSystem("portal") as system:
        portal = Portal(system._kernel)
        seen: list[int] = []

        def over(_: Any) -> None:
            raise trio.RunFinishedError

        portal.open(Closing(over))  # type: ignore[arg-type]
        assert not portal.post(seen.append, 1)
        assert portal.closed

        def close(_: Any) -> None:
            portal.close()

        portal.open(Closing(close))  # type: ignore[arg-type]
        portal._armed = False
        assert portal.post(seen.append, 2)  # the last drain has run it
        assert seen == [2]


async def test_a_ctrl_c_in_the_middle_of_a_post_does_not_keep_the_next_ones_waiting() -> None:
    async with rt.ActorSystem("portal") as system:
        portal = Portal(system._kernel)
        seen: list[int] = []

        def interrupted(_: Any) -> None:
            raise KeyboardInterrupt

        portal.open(Closing(interrupted))  # type: ignore[arg-type]
        with pytest.raises(KeyboardInterrupt):
            portal.post(seen.append, 1)
        portal.open(trio.lowlevel.current_trio_token())
        assert portal.post(seen.append, 2)
        await until(lambda: seen == [1, 2])


async def test_a_waiting_thread_finds_out_that_the_loop_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(portal_module, "PULSE", 0.01)
    async with rt.ActorSystem("portal") as system:
        portal = Portal(system._kernel)
        assert isinstance(await in_thread(Latch().wait, portal), rt.SystemClosed)


async def test_a_latch_has_a_limit() -> None:
    async with rt.ActorSystem("portal") as system:
        latch = Latch()
        assert isinstance(await in_thread(latch.wait, portal_of(system), 0.01), TimeoutError)
        assert not latch.done


async def test_a_tell_from_a_foreign_thread_needs_a_context_and_is_handed_over() -> None:
    async with rt.ActorSystem("portal") as system:
        quiet = await system.spawn(Quiet)
        assert isinstance(await in_thread(quiet.tell, Note(1)), rt.NoContext)
        receipt = await in_thread(lambda: quiet.tell(Note(2), context=system.authority.root))
        assert (receipt.accepted, receipt.reason) == (True, "handed_over")
        await system.wait_quiet()
        assert quiet._cell.actor.numbers == [2]


async def test_more_than_the_portal_holds_is_a_dead_letter_at_once_and_the_counts_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(portal_module, "PORTAL_CAPACITY", 10)
    async with rt.ActorSystem("portal") as system:
        quiet = await system.spawn(Quiet)
        root = system.authority.root

        def flood() -> list[bool]:
            return [quiet.tell(Note(number), context=root).accepted for number in range(100)]

        gate = open_after(PATIENCE)
        thread = threading.Thread(target=lambda: gate.set() if flood() else None)
        thread.start()
        gate.wait()  # the loop stands still meanwhile
        thread.join()
        await until(lambda: not len(portal_of(system)))
        await system.wait_quiet()
        counts = system.statistics()
    assert (counts.sent, counts.handled, counts.dead_letters_by_reason["mailbox_full"]) == (100, 10, 90)
