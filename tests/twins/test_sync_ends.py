"""`retinue.sync`: stopping and watching, and how a system ends: in order, with an error, by Ctrl-C."""

from __future__ import annotations

import contextlib
import logging
import signal
import subprocess
import sys
import threading
from typing import Any

import pytest
import trio

import retinue as rt
from quiet_threads import PATIENCE, open_after, our_threads
from retinue import _twin
from retinue.sync import ActorSystem
from twin_actors import Break, Call, Count, Double, Leave, Never, Note, Notes, Worker, conserved

# -- stopping and watching ---------------------------------------------------------------------------------------------------------------------------


def test_an_actor_is_watched_and_stopped() -> None:
    with ActorSystem("script") as system:
        worker = system.spawn(Worker)
        watch = system.watch(worker)
        assert watch.terminated is None
        with pytest.raises(TimeoutError, match=r"has not ended within 0\.01 s"):
            watch.wait(0.01)
        worker.stop()
        terminated = watch.wait()
        assert (terminated.ref, terminated.reason) == (worker, "stopped")
        assert watch.wait() == terminated == watch.terminated
        assert system.watch(worker).wait(PATIENCE).ref == worker  # at once, it is gone
        with pytest.raises(rt.ActorStopped):
            worker.ask(Double(1))


def test_several_threads_may_wait_on_one_watch() -> None:
    with ActorSystem("script") as system:
        worker = system.spawn(Worker)
        watch = system.watch(worker)
        found: list[Any] = []
        threads = [threading.Thread(target=lambda: found.append(watch.wait(PATIENCE).ref)) for _ in range(3)]
        for thread in threads:
            thread.start()
        worker.tell(Leave())
        for thread in threads:
            thread.join(PATIENCE)
    assert found == [worker] * 3


def test_a_closed_watch_hears_nothing() -> None:
    with ActorSystem("script") as system:
        worker = system.spawn(Worker)
        watch = system.watch(worker)
        watch.close()
        worker.stop()
        assert watch.terminated is None


def test_a_ref_of_another_system_is_no_ref_here() -> None:
    with ActorSystem("script") as system, ActorSystem("other") as other:
        with pytest.raises(TypeError, match="belongs to another system"):
            system.watch(other.spawn(Worker))
        with pytest.raises(TypeError, match="a ref is wanted"):
            system.watch("/user/worker")  # type: ignore[arg-type]


def test_names_are_registered_and_found() -> None:
    with ActorSystem("script") as system:
        worker = system.spawn(Worker, name="worker")
        system.registry.register("boss", worker)
        assert system.registry.names() == ["boss"]
        assert system.registry.get("boss") == worker
        assert system.registry.get("nobody") is None
        system.registry.unregister("boss")
        assert system.registry.names() == []


def test_a_system_can_be_stopped_before_its_block_ends() -> None:
    gate = open_after(PATIENCE)
    with ActorSystem("script") as system:
        worker = system.spawn(Worker)
        waiting = worker.ask(Never(gate), block=False)
        assert gate.wait(PATIENCE)
        system.stop(grace=0)
        with pytest.raises(rt.ActorStopped, match="was stopped while it handled Never"):
            waiting.get(timeout=PATIENCE)
        with pytest.raises(rt.SystemClosed):
            worker.ask(Double(1))
        system.stop()  # again: nothing to do
    assert conserved(system.statistics())


def test_what_is_open_at_the_end_of_the_block_is_resolved() -> None:
    entered = threading.Event()
    with ActorSystem("script", grace=0) as system:
        worker = system.spawn(Worker)
        running = worker.ask(Never(entered), block=False)
        queued = worker.ask(Double(1), block=False)
        assert entered.wait(PATIENCE)
    for future in (running, queued):
        with pytest.raises(rt.ActorStopped):
            future.get(timeout=PATIENCE)
    assert conserved(system.statistics())


def test_the_event_ring_and_the_actors_can_be_looked_at() -> None:
    with ActorSystem("script", events=10) as system:
        worker = system.spawn(Worker, name="worker")
        worker.ask(Double(1))
        assert [counts.path for counts in system.actors()] == ["/user/worker"]
        assert system.events("/user/worker")
        assert (system.name, repr(system)) == ("script", "<sync.ActorSystem 'script'>")


# -- errors at the end -------------------------------------------------------------------------------------------------------------------------------


def test_an_error_in_the_block_leaves_it_as_it_is() -> None:
    error = LookupError("mine")
    with pytest.raises(LookupError) as caught:
        with ActorSystem("script") as system:
            system.spawn(Worker)
            raise error
    assert caught.value is error
    assert error.__cause__ is None
    assert our_threads() == []


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
def test_what_ends_the_whole_system_leaves_the_block(kind: type[BaseException]) -> None:
    with pytest.raises(kind, match="out"):
        with ActorSystem("script") as system:
            worker = system.spawn(Worker)
            with pytest.raises(rt.ActorStopped, match="ends the whole system"):
                worker.ask(Break(kind("out")))
            with contextlib.suppress(rt.RetinueError):
                worker.ask(Double(1))


def test_a_system_that_cannot_start_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(_: Any) -> None:
        raise OSError("no more sockets")

    monkeypatch.setattr(rt.ActorSystem, "__aenter__", fail)
    with pytest.raises(OSError, match="no more sockets"):
        with ActorSystem("script"):
            raise AssertionError("not reached")


def test_a_run_that_dies_does_not_leave_anybody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(trio.TrioInternalError):
        with ActorSystem("script", grace=0, block_warning=float("inf")) as system:
            entered = threading.Event()
            worker = system.spawn(Worker)
            waiting = worker.ask(Never(entered), block=False)
            assert entered.wait(PATIENCE)

            def die() -> None:
                raise ZeroDivisionError("a fault of the loop itself")

            system._twin._token.run_sync_soon(die)  # type: ignore[union-attr]
            with pytest.raises(rt.RetinueError):
                waiting.get(timeout=PATIENCE)
            with contextlib.suppress(rt.RetinueError):  # answered by a loop that is just dying, or refused, but not left
                worker.ask(Double(1))


def test_a_loop_that_is_blocked_does_not_hold_an_asker_beyond_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_twin, "GUARD", 0.05)
    gate = open_after(PATIENCE)
    with ActorSystem("script", block_warning=float("inf")) as system:
        worker, other = system.spawn(Worker), system.spawn(Worker)
        entered = threading.Event()
        blocking = worker.ask(Call(lambda _: entered.set() or gate.wait(PATIENCE)), block=False)
        assert entered.wait(PATIENCE)
        with pytest.raises(rt.AskTimeout, match="the loop of the system 'script' does not react"):
            other.ask(Double(1), timeout=0.01)
        with pytest.raises(rt.AskTimeout, match="does not react"):
            other.ask(Double(1), timeout=0.01, block=False).get()
        with pytest.raises(rt.AskTimeout, match="does not react"):
            with other.stream(Count(1), timeout=0.01) as items:
                next(items)
        assert not gate.is_set()
        gate.set()
        assert blocking.get(timeout=PATIENCE) is True
        assert other.ask(Double(1)) == 2
        counts = system.statistics()
    assert conserved(counts)


def test_a_loop_that_is_blocked_for_good_is_left_behind(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(_twin, "STUCK", 0.05)
    monkeypatch.setattr("retinue.sync.PULSE", 0.01)
    gate, entered = open_after(PATIENCE), threading.Event()
    with pytest.raises(rt.SystemClosed, match="is blocked and was left behind"):
        with ActorSystem("script", block_warning=float("inf")) as system:
            system.spawn(Worker).tell(Call(lambda _: entered.set() or gate.wait(PATIENCE)))
            assert entered.wait(PATIENCE)
    assert not gate.is_set()
    assert "has been blocked" in caplog.text
    assert "gate.wait(PATIENCE)" in caplog.text  # the stack says where
    gate.set()


# -- Ctrl-C ------------------------------------------------------------------------------------------------------------------------------------------


def interrupt_main(_: Any = None) -> None:
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


class Interrupting(rt.Actor):
    def __init__(self, ends: list[Any]) -> None:
        self.ends = ends

    @rt.handler
    async def never(self, _: Never) -> int:
        interrupt_main()
        try:
            await trio.sleep_forever()
        finally:
            self.ends.append("cancelled")


def test_ctrl_c_withdraws_the_ask_that_it_interrupts_and_the_system_goes_on() -> None:
    ends: list[Any] = []
    with ActorSystem("script") as system:
        interrupting = system.spawn(Interrupting, ends)
        with pytest.raises(KeyboardInterrupt):
            interrupting.ask(Never(threading.Event()))
        assert system.spawn(Worker).ask(Double(4)) == 8
        system.wait_quiet()
        assert ends == ["cancelled"]
        assert conserved(system.statistics())


def test_ctrl_c_in_the_block_ends_the_system_in_good_order() -> None:
    ends: list[Any] = []
    with pytest.raises(KeyboardInterrupt):
        with ActorSystem("script") as system:
            worker = system.spawn(Worker, None, ends)
            for number in range(10):
                worker.tell(Call(lambda actor, number=number: actor.ends.append(number)))
            system.spawn(Interrupting, ends).ask(Never(threading.Event()))
    assert sorted(ends, key=str) == [*range(10), "cancelled"]
    assert conserved(system.statistics())


def test_a_second_ctrl_c_ends_it_at_once() -> None:
    ends: list[Any] = []
    entered = threading.Event()
    with pytest.raises(KeyboardInterrupt):
        with ActorSystem("script", grace=PATIENCE * 10) as system:
            worker = system.spawn(Worker, None, ends)
            worker.ask(Never(entered), block=False, timeout=PATIENCE * 10)
            assert entered.wait(PATIENCE)
            leaving = system._twin.leave

            def leave() -> None:
                leaving()
                threading.Timer(0.05, interrupt_main).start()

            system._twin.leave = leave  # type: ignore[method-assign]
            raise KeyboardInterrupt
    assert ends == ["cancelled"]


SCRIPT = """
import threading, time
import retinue as rt
from retinue.sync import ActorSystem

@rt.message
class Wait(rt.Request[int]):
    pass

class Slow(rt.Actor):
    @rt.handler
    async def wait(self, _: Wait) -> int:
        import trio
        print("waiting", flush=True)
        try:
            await trio.sleep_forever()
        finally:
            print("cancelled", flush=True)

    def on_stop(self, reason):
        print("stopped", reason, flush=True)

with ActorSystem("script") as system:
    system.spawn(Slow).ask(Wait())
"""


def test_ctrl_c_in_a_real_script() -> None:
    process = subprocess.Popen([sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=PATIENCE * 3)
    finally:
        process.kill()
    assert output.splitlines() == ["cancelled", "stopped system_closed"]
    assert errors.rstrip().endswith("KeyboardInterrupt")
    assert process.returncode == -signal.SIGINT


def test_nothing_is_logged_by_a_quiet_run(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO), ActorSystem("script") as system:
        worker = system.spawn(Worker)
        worker.tell(Note(1))
        assert worker.ask(Notes(), block=False).get() == [1]
    assert [record for record in caplog.records if record.name.startswith("retinue")] == []
