"""The end of a blocking actor: in good order where its thread comes back, and in bounded time where it does not."""

from __future__ import annotations

import gc
import logging
import threading
import weakref
from typing import Any

import pytest
import trio

import retinue as rt
from quiet_threads import PATIENCE, open_after, our_threads, until
from retinue.actors.runtime import lifecycle
from retinue.testing import assert_conserved as conserved


@rt.message
class Note(rt.Message):
    function: Any


@rt.message
class Call(rt.Request[Any]):
    function: Any


class Worker(rt.Actor, blocking=True):
    """Its constructor and hooks call what the test gave for them.

    Args:
        start: Called by the constructor with a count of the incarnation.
        stop: Called by `on_stop`.
    """

    def __init__(self, start: Any = None, stop: Any = None) -> None:
        self.stop = stop
        if start is not None:
            start()

    def on_stop(self, reason: Any) -> None:
        if self.stop is not None:
            self.stop()

    @rt.handler
    def note(self, message: Note) -> None:
        message.function(self)

    @rt.handler
    def call(self, message: Call) -> Any:
        return message.function(self)


class Stuck:
    """Something that blocks until the test lets go."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.gate = open_after(PATIENCE)
        self.after: list[Any] = []
        self.then: Any = None
        self.over = threading.Event()

    def __call__(self, *_: Any) -> str:
        self.entered.set()
        self.gate.wait()
        try:
            if self.then is not None:
                self.after.append(self.then())
        except BaseException as error:
            self.after.append(error)
        self.over.set()
        return "late"

    async def wait_entered(self) -> None:
        await trio.to_thread.run_sync(self.entered.wait, PATIENCE)

    async def let_go(self) -> None:
        self.gate.set()
        await trio.to_thread.run_sync(self.over.wait, PATIENCE)


# -- in good order ---------------------------------------------------------------------------------------------------------------------------------


async def test_a_stop_lets_the_message_in_progress_finish_and_makes_dead_letters_of_the_rest() -> None:
    done: list[str] = []
    stuck = Stuck()
    async with rt.ActorSystem("ends") as system:
        worker = await system.spawn(Worker, stop=lambda: done.append("on_stop"))
        worker.tell(Note(lambda _: done.append(stuck())))
        worker.tell(Note(lambda _: done.append("never")))
        await stuck.wait_entered()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(worker.stop)
            await trio.testing.wait_all_tasks_blocked()
            assert not worker.tell(Note(None)).accepted
            stuck.gate.set()
        counts = system.statistics()
        assert [thread.name for thread in our_threads() if thread.name.startswith("retinue /user")] == []
    assert done == ["late", "on_stop"]
    assert (counts.handled, counts.dead_letters_by_reason["stopped"], counts.leaked_threads) == (1, 2, 0)
    assert conserved(counts)


async def test_the_system_drains_blocking_actors_within_its_grace() -> None:
    done: list[int] = []
    async with rt.ActorSystem("ends") as system:
        worker = await system.spawn(Worker)
        for number in range(50):
            worker.tell(Note(lambda _, number=number: done.append(number)))
    assert done == list(range(50))
    assert conserved(system.statistics())


async def test_nothing_of_an_actor_or_its_messages_is_kept() -> None:
    class Thing:
        pass

    thing = Thing()
    kept = weakref.ref(thing)
    actors: list[weakref.ref[Any]] = []

    def hold(actor: Worker, thing: Thing = thing) -> None:
        actors.append(weakref.ref(actor))

    async with rt.ActorSystem("ends") as system:
        worker = await system.spawn(Worker)
        await worker.ask(Call(hold))
        del thing, hold
        await worker.ask(Call(lambda _: None))  # the cell's context holds the turn until the next one
        gc.collect()
        assert kept() is None
        await worker.stop()
        gc.collect()
        assert actors[0]() is None


async def test_a_failed_message_is_not_kept_either() -> None:
    class Thing(Exception):
        pass

    thing = Thing()
    kept = weakref.ref(thing)

    def fail(_: Worker, thing: Thing = thing) -> None:
        raise thing

    async with rt.ActorSystem("ends") as system:
        worker = await system.spawn(Worker, supervision=rt.Supervision(on={Thing: "resume"}))
        with pytest.raises(Thing):
            await worker.ask(Call(fail))
        del thing, fail
        with pytest.raises(LookupError):
            await worker.ask(Call({}.__getitem__))
        await worker.stop()
        system._kernel.letters.clear()
        del worker
        gc.collect()
        assert kept() is None


# -- threads that do not come back -------------------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("short_join")
async def test_a_thread_that_does_not_come_back_is_left_behind_and_everybody_is_told(caplog: pytest.LogCaptureFixture) -> None:
    stuck = Stuck()
    errors: list[rt.ActorStopped] = []

    async def ask(ref: rt.Ref[Worker], message: Call) -> None:
        try:
            await ref.ask(message)
        except rt.ActorStopped as error:
            errors.append(error)

    async with rt.ActorSystem("ends") as system:
        worker = await system.spawn(Worker, name="worker")
        watch = await system.watch(worker)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, worker, Call(stuck))
            await stuck.wait_entered()
            nursery.start_soon(ask, worker, Call(lambda _: None))
            await trio.testing.wait_all_tasks_blocked()
            await worker.stop(grace=0)
        assert (await watch.wait()).ref == worker
        counts = system.statistics()
        assert (counts.leaked_threads, counts.actors) == (1, 0)
        assert conserved(counts)
        (record,) = [record for record in caplog.records if record.name == "retinue.hosts"]
        assert record.levelno == logging.ERROR
        assert "/user/worker: its thread has not ended" in record.message
        assert "in __call__" in record.message  # the stack says where it is
        (left,) = [thread for thread in our_threads() if thread.name == "retinue /user/worker"]
        assert left.daemon
        await stuck.let_go()
        left.join(PATIENCE)
        assert not left.is_alive()
    handled, queued = sorted(errors, key=lambda error: "while it handled" not in str(error))
    assert "/user/worker was stopped while it handled Call; the outcome is unknown" in str(handled)
    assert (handled.begun, queued.begun) == (True, False)
    assert "/user/worker has stopped and cannot answer Call" in str(queued)


@pytest.mark.usefixtures("short_join")
async def test_a_thread_that_was_left_behind_has_no_authority_any_more() -> None:
    stuck = Stuck()
    async with rt.ActorSystem("ends") as system:
        other = await system.spawn(Worker)
        worker = await system.spawn(Worker)
        stuck.then = lambda: other.tell(Note(lambda _: stuck.after.append("told")))
        worker.tell(Note(stuck))
        await stuck.wait_entered()
        await worker.stop(grace=0)
        await stuck.let_go()
        await other.ask(Call(lambda _: None))
    assert [type(one) for one in stuck.after] == [rt.NoContext]


@pytest.mark.usefixtures("short_join")
async def test_the_late_answer_of_a_thread_that_was_left_behind_is_a_dead_letter() -> None:
    stuck = Stuck()
    async with rt.ActorSystem("ends") as system:
        worker = await system.spawn(Worker)
        async with trio.open_nursery() as nursery:

            async def ask() -> None:
                with pytest.raises(rt.ActorStopped):
                    await worker.ask(Call(stuck))

            nursery.start_soon(ask)
            await stuck.wait_entered()
            await worker.stop(grace=0)
        await stuck.let_go()
        await until(lambda: system.dead_letters.counts["late_reply"])
        assert system.dead_letters.recent[-1].message == "late"


@pytest.mark.usefixtures("short_join")
@pytest.mark.parametrize("told", [True, False])
async def test_the_systems_exit_is_bounded_though_a_handler_never_returns(told: bool) -> None:
    stuck = Stuck()
    async with trio.open_nursery() as nursery:
        async with rt.ActorSystem("ends", grace=0) as system:
            worker = await system.spawn(Worker)
            if told:
                worker.tell(Note(stuck))
            else:

                async def ask() -> None:
                    with pytest.raises(rt.ActorStopped):
                        await worker.ask(Call(stuck))

                nursery.start_soon(ask)
            await stuck.wait_entered()
    assert not stuck.gate.is_set()
    assert (system.statistics().leaked_threads, system.statistics().actors) == (1, 0)
    assert conserved(system.statistics())
    await stuck.let_go()


@pytest.mark.parametrize("told", [True, False])
async def test_a_hard_stop_waits_for_no_thread(told: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("retinue.actors.runtime.shutdown.HARD_STOP", 0.05)
    stuck = Stuck()
    errors: list[BaseException] = []
    async with trio.open_nursery() as nursery:
        async with rt.ActorSystem("ends", grace=PATIENCE) as system:
            worker = await system.spawn(Worker)

            async def ask() -> None:
                try:
                    await worker.ask(Call(stuck), timeout=PATIENCE)
                except rt.ActorStopped as error:
                    errors.append(error)

            async def interrupt() -> None:
                await trio.sleep(0.05)
                system.interrupt(hard=True)

            if told:
                worker.tell(Note(stuck))
            else:
                nursery.start_soon(ask)
            await stuck.wait_entered()
            nursery.start_soon(interrupt)
    counts = system.statistics()
    assert not stuck.gate.is_set()
    assert (counts.leaked_threads, counts.actors, len(errors)) == (1, 0, 0 if told else 1)
    assert conserved(counts)
    await stuck.let_go()


@pytest.mark.parametrize("kind", [GeneratorExit, StopIteration, StopAsyncIteration])
async def test_an_odd_error_of_a_handler_is_a_failure_like_any_other(kind: type[BaseException]) -> None:
    def fail(_: Worker) -> None:
        raise kind

    async with rt.ActorSystem("ends") as system:
        worker = await system.spawn(Worker)
        with pytest.raises((RuntimeError, kind)):
            await worker.ask(Call(fail))
        assert await worker.ask(Call(lambda _: 1)) == 1


@pytest.mark.usefixtures("short_join")
async def test_a_cancelled_spawn_leaves_a_constructor_that_does_not_come_back() -> None:
    stuck = Stuck()
    async with rt.ActorSystem("ends") as system:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(system.spawn, Worker, stuck)
            await stuck.wait_entered()
            nursery.cancel_scope.cancel()
        await until(lambda: not system.actors())
        assert system.statistics().leaked_threads == 1
    assert not stuck.gate.is_set()
    await stuck.let_go()


async def test_a_cancelled_spawn_whose_constructor_comes_back_leaves_nothing() -> None:
    stuck = Stuck()
    async with rt.ActorSystem("ends") as system:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(system.spawn, Worker, stuck)
            await stuck.wait_entered()
            stuck.gate.set()
            nursery.cancel_scope.cancel()
        await until(lambda: not system.actors())
        assert system.statistics().leaked_threads == 0


@pytest.mark.usefixtures("short_join")
async def test_a_constructor_that_hangs_fails_the_spawn_at_the_limit_of_a_start() -> None:
    stuck = Stuck()
    async with rt.ActorSystem("ends", start_timeout=0.05) as system:
        with pytest.raises(rt.StartTimeout, match=r"longer than 0\.05 s to start"):
            await system.spawn(Worker, stuck)
        assert (system.statistics().leaked_threads, system.statistics().actors) == (1, 0)
        assert not stuck.gate.is_set()
        await stuck.let_go()


@pytest.mark.usefixtures("short_join")
async def test_a_constructor_that_hangs_at_a_restart_does_not_hold_the_exit_up() -> None:
    stuck = Stuck()
    incarnations: list[int] = []

    def start() -> None:
        incarnations.append(1)
        if len(incarnations) > 1:
            stuck()

    async with rt.ActorSystem("ends", grace=0) as system:
        worker = await system.spawn(Worker, start)
        with pytest.raises(LookupError):
            await worker.ask(Call({}.__getitem__))
        await stuck.wait_entered()
    assert not stuck.gate.is_set()
    assert (system.statistics().leaked_threads, system.statistics().actors) == (1, 0)
    await stuck.let_go()


@pytest.mark.usefixtures("short_join")
async def test_an_on_stop_that_hangs_is_left_after_its_grace(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    stuck = Stuck()
    async with rt.ActorSystem("ends") as system:
        monkeypatch.setattr(system._kernel, "stop_grace", 0.01)
        worker = await system.spawn(Worker, stop=stuck)
        await worker.stop(grace=0)
        assert (system.statistics().leaked_threads, system.statistics().actors) == (1, 0)
    assert "on_stop(stopped) took longer than" in caplog.text
    assert not stuck.gate.is_set()
    await stuck.let_go()


@pytest.mark.usefixtures("short_join")
async def test_a_restart_goes_on_without_a_thread_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    stuck = Stuck()
    monkeypatch.setattr(lifecycle, "START_GRACE", 0.01)
    async with rt.ActorSystem("ends") as system:
        worker = await system.spawn(Worker, stop=lambda: None if stuck.entered.is_set() else stuck())
        with pytest.raises(LookupError):
            await worker.ask(Call({}.__getitem__))
        assert await worker.ask(Call(lambda _: threading.current_thread().name)) == f"retinue {worker.path}"
        assert system.statistics().leaked_threads == 1
        assert not stuck.gate.is_set()
        await stuck.let_go()


async def test_a_handler_that_comes_back_in_its_last_seconds_leaves_nothing_and_on_stop_still_runs() -> None:
    stuck = Stuck()
    stopped: list[str] = []
    async with rt.ActorSystem("ends") as system:
        worker = await system.spawn(Worker, stop=lambda: stopped.append("on_stop"))
        host = worker._cell.extra.host
        worker.tell(Note(stuck))
        await stuck.wait_entered()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: worker.stop(grace=0))
            await until(lambda: host.due is not None)
            stuck.gate.set()
        counts = system.statistics()
    assert stopped == ["on_stop"]
    assert (counts.leaked_threads, counts.handled, conserved(counts)) == (0, 1, counts)
