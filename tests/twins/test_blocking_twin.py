"""`retinue.sync`: the same actors from a plain script."""

from __future__ import annotations

import contextlib
import logging
import signal
import subprocess
import sys
import threading
import traceback
from typing import Any

import pytest
import trio

import retinue as rt
from quiet_threads import PATIENCE, open_after, our_threads
from retinue import _twin
from retinue.sync import ActorSystem, Ref
from twin_actors import Blocking, Boom, Break, Call, Carry, Count, Double, Hold, Leave, Never, Note, Notes, Unknown, Who, Worker, conserved


def test_an_ask_returns_the_answer() -> None:
    with ActorSystem("script") as system:
        worker = system.spawn(Worker, name="worker")
        assert worker.path == "/user/worker"
        assert worker.ask(Double(21)) == 42


def test_the_system_runs_in_a_thread_of_its_own_that_is_gone_after_the_block() -> None:
    with ActorSystem("script") as system:
        thread = system.spawn(Worker).ask(Call(lambda _: threading.current_thread()))
        assert thread.name == "retinue system script"
        assert thread is not threading.current_thread()
    assert not thread.is_alive()


def test_tells_are_handled_in_the_order_they_were_sent_before_a_later_ask() -> None:
    with ActorSystem("script") as system:
        worker = system.spawn(Worker)
        for number in range(500):
            receipt = worker.tell(Note(number))
            assert (receipt.accepted, receipt.reason) == (True, "handed_over")
        assert worker.ask(Notes()) == list(range(500))


def test_what_was_told_is_handled_before_the_block_is_left() -> None:
    ends: list[Any] = []
    with ActorSystem("script") as system:
        worker = system.spawn(Worker, None, ends)
        for number in range(50):
            worker.tell(Call(lambda actor, number=number: actor.ends.append(number)))
    assert ends == list(range(50))
    assert conserved(system.statistics())


def test_a_handlers_exception_reaches_the_caller_with_its_traceback() -> None:
    with ActorSystem("script") as system:
        worker = system.spawn(Worker)
        error = Boom("from the handler")
        with pytest.raises(Boom) as caught:
            worker.ask(Break(error))
        assert caught.value is error
        assert "fail" in [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
        assert worker.ask(Double(1)) == 2  # restarted


def test_a_time_out_is_an_ask_timeout_and_cancels_the_handler() -> None:
    ends: list[Any] = []
    with ActorSystem("script") as system:
        worker = system.spawn(Worker, None, ends)
        with pytest.raises(rt.AskTimeout, match=r"did not answer Never within 0\.05 s"):
            worker.ask(Never(threading.Event()), timeout=0.05)
        assert worker.ask(Double(1)) == 2
        assert ends == ["cancelled"]


def test_the_systems_ask_timeout_holds_where_the_ask_says_nothing() -> None:
    with ActorSystem("script", ask_timeout=0.05) as system:
        with pytest.raises(rt.AskTimeout, match=r"within 0\.05 s"):
            system.spawn(Worker).ask(Never(threading.Event()))


def test_a_detached_request_goes_on_after_its_time_out() -> None:
    gate = open_after(PATIENCE)
    with ActorSystem("script") as system:
        worker = system.spawn(Worker)
        with pytest.raises(rt.AskTimeout):
            worker.ask(Hold(gate, 3), timeout=0.05, detached=True)
        gate.set()
        assert worker.ask(Double(1)) == 2
        (letter,) = system.dead_letters.recent
    assert (letter.reason, letter.message) == ("late_reply", 3)


def test_threads_may_ask_side_by_side() -> None:
    answers: list[int] = []
    with ActorSystem("script") as system:
        worker = system.spawn(Worker)

        def work(start: int) -> None:
            answers.extend(worker.ask(Double(number)) for number in range(start, start + 50))

        threads = [threading.Thread(target=work, args=(start,)) for start in range(0, 400, 50)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        counts = system.statistics()
    assert sorted(answers) == [2 * number for number in range(400)]
    assert (counts.sent, counts.handled) == (400, 400)


def test_a_flood_from_eight_threads_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    from retinue import sync
    from retinue.actors.runtime import portal

    monkeypatch.setattr(portal, "PORTAL_CAPACITY", 500)
    monkeypatch.setattr(sync, "PORTAL_CAPACITY", 500)
    with ActorSystem("script") as system:
        worker = system.spawn(Worker, mailbox=rt.Mailbox.unbounded())

        def flood() -> None:
            for number in range(1000):
                assert worker.tell(Note(number))

        threads = [threading.Thread(target=flood) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        assert sorted(worker.ask(Notes())) == sorted([*range(1000)] * 8)
        counts = system.statistics()
    assert (counts.sent, counts.handled, counts.dead_letters) == (8001, 8001, 0)


# -- receipts and room -------------------------------------------------------------------------------------------------------------------------------


def test_a_tell_to_a_full_mailbox_is_a_dead_letter() -> None:
    gate = open_after(PATIENCE)
    with ActorSystem("script") as system:
        worker = system.spawn(Worker, mailbox=rt.Mailbox.bounded(2))
        holding = worker.ask(Hold(gate), block=False)
        system.spawn(Worker).ask(Double(1))  # the Hold is in progress by now
        for number in range(5):
            assert worker.tell(Note(number)).accepted
        gate.set()
        assert holding.get(timeout=PATIENCE) == 0
        assert worker.ask(Notes()) == [0, 1]
        counts = system.statistics()
    assert counts.dead_letters_by_reason["mailbox_full"] == 3
    assert conserved(counts)


def test_a_send_waits_for_room_and_knows() -> None:
    gate = open_after(PATIENCE)
    with ActorSystem("script") as system:
        worker = system.spawn(Worker, mailbox=rt.Mailbox.bounded(1))
        worker.ask(Hold(gate), block=False)
        assert worker.send(Note(0)).reason is None
        with pytest.raises(rt.MailboxFull, match="was not delivered"):
            worker.send(Note(1), timeout=0.05)
        threading.Timer(0.02, gate.set).start()
        assert worker.send(Note(2)).accepted
        assert worker.ask(Notes()) == [0, 2]
        assert conserved(system.statistics())


def test_a_tell_to_a_mailbox_that_waits_blocks_until_there_is_room() -> None:
    gate = open_after(PATIENCE)
    with ActorSystem("script") as system:
        worker = system.spawn(Worker, mailbox=rt.Mailbox.bounded(1, overflow="wait"))
        worker.ask(Hold(gate), block=False)
        assert worker.tell(Note(0)).reason is None
        threading.Timer(0.02, gate.set).start()
        assert [worker.tell(Note(number)).reason for number in range(1, 20)] == [None] * 19
        assert worker.ask(Notes()) == list(range(20))
        assert system.statistics().dead_letters == 0


def test_a_tell_that_waits_in_vain_says_so_in_its_receipt() -> None:
    gate = open_after(PATIENCE)
    with ActorSystem("script", ask_timeout=0.05) as system:
        worker = system.spawn(Worker, mailbox=rt.Mailbox.bounded(1, overflow="wait"))
        worker.ask(Hold(gate), block=False, timeout=PATIENCE)
        assert worker.tell(Note(0))
        receipt = worker.tell(Note(1))
        assert (receipt.accepted, receipt.reason) == (False, "mailbox_full")
        gate.set()
        assert system.statistics().dead_letters_by_reason["mailbox_full"] == 1


def test_a_tell_that_a_priority_mailbox_cannot_place_is_a_dead_letter_and_an_ask_is_told() -> None:
    with ActorSystem("script") as system:
        gate = open_after(PATIENCE)
        worker = system.spawn(Worker, mailbox=rt.Mailbox.priority(lambda message: message.number))
        worker.ask(Hold(gate), block=False)
        assert worker.tell(Notes()).accepted
        with pytest.raises(TypeError, match="priority mailbox"):
            worker.ask(Notes())
        gate.set()
        system.wait_quiet()
        counts = system.statistics()
    assert counts.dead_letters_by_reason["poison"] == 1
    assert conserved(counts)


# -- what is wrong with a call -----------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda ref: ref.ask(Unknown()), rt.Unhandled, "no handler for Unknown"),
        (lambda ref: ref.ask(Unknown(), block=False), rt.Unhandled, "no handler for Unknown"),
        (lambda ref: ref.ask("hello"), rt.Unhandled, "which is no message"),
        (lambda ref: ref.tell(Unknown()), rt.Unhandled, "no handler for Unknown"),
        (lambda ref: ref.send(Unknown()), rt.Unhandled, "no handler for Unknown"),
        (lambda ref: ref.ask(Count(1)), rt.Unhandled, "answered by a stream"),
        (lambda ref: ref.tell(Count(1)), rt.Unhandled, "answered by a stream"),
        (lambda ref: ref.stream(Double(1)), rt.Unhandled, "no Stream"),
        (lambda ref: ref.stream(Count(1), window=0), TypeError, "window=0"),
        (lambda ref: ref.ask(Double(1), timeout=-1), TypeError, "timeout=-1"),
        (lambda ref: ref.ask(Double(1), context="root"), rt.ForgedContext, "a security context is wanted"),
    ],
)
def test_a_wrong_call_is_refused_where_it_is_made(call: Any, error: type[Exception], says: str) -> None:
    with ActorSystem("script") as system:
        worker = system.spawn(Worker)
        with pytest.raises(error, match=says):
            call(worker)
        assert system.statistics().sent == 0


def test_options_are_checked_when_the_system_is_made() -> None:
    with pytest.raises(TypeError, match="grace=inf"):
        ActorSystem("script", grace=float("inf"))
    with pytest.raises(TypeError, match="name="):
        ActorSystem("not a name")


def test_spawn_raises_what_the_constructor_raises_and_what_is_wrong_with_the_call() -> None:
    class Failing(rt.Actor):
        def __init__(self) -> None:
            raise Boom("no")

    with ActorSystem("script") as system:
        with pytest.raises(Boom, match="no"):
            system.spawn(Failing)
        with pytest.raises(TypeError, match=r"rt\.Actor"):
            system.spawn(int)  # type: ignore[type-var]
        system.spawn(Worker, name="one")
        with pytest.raises(rt.NameTaken):
            system.spawn(Worker, name="one")


@pytest.mark.parametrize(
    "use",
    [
        lambda system: system.spawn(Worker),
        lambda system: system.statistics(),
        lambda system: system.stop(),
        lambda system: system.registry.names(),
    ],
)
def test_a_system_is_used_inside_its_block(use: Any) -> None:
    with pytest.raises(rt.SystemClosed, match="has not started: use it inside its `with`"):
        use(ActorSystem("script"))


def test_a_system_runs_once() -> None:
    system = ActorSystem("script")
    with system:
        pass
    with pytest.raises(rt.SystemClosed, match="runs once"):
        with system:
            pass


def test_after_the_block_everything_is_refused_and_nothing_hangs() -> None:
    with ActorSystem("script") as system:
        worker = system.spawn(Worker)
        worker.ask(Double(1))
    with pytest.raises(rt.SystemClosed, match="'script' is closed"):
        worker.ask(Double(1))
    with pytest.raises(rt.SystemClosed):
        worker.ask(Double(1), block=False)
    with pytest.raises(rt.SystemClosed):
        worker.send(Note(1))
    with pytest.raises(rt.SystemClosed):
        system.spawn(Worker)
    with pytest.raises(rt.SystemClosed):
        with worker.stream(Count(1)):
            pass
    assert worker.tell(Note(1)).reason == "system_closed"
    assert not worker.alive
    counts = system.statistics()
    assert (counts.handled, counts.dead_letters_by_reason["system_closed"], counts.actors) == (1, 1, 0)
    assert conserved(counts)


# -- who acts --------------------------------------------------------------------------------------------------------------------------------------


def test_a_script_acts_under_the_root_context_or_one_that_it_gives() -> None:
    with ActorSystem("script") as system:
        worker = system.spawn(Worker)
        assert worker.ask(Who()) == (None, "root", True)
        guest = system.authority.mint("guest", ["shop.**"])
        assert worker.ask(Who(), context=guest) == (None, "guest", False)
        assert worker.ask(Who(), context=guest, block=False).get() == (None, "guest", False)


def test_another_systems_context_is_forged() -> None:
    with ActorSystem("script") as system, ActorSystem("other") as other:
        worker = system.spawn(Worker)
        with pytest.raises(rt.ForgedContext):
            worker.tell(Note(1), context=other.authority.root)


USES = {
    "ask": lambda system, ref: ref.ask(Double(1)),
    "future": lambda system, ref: ref.ask(Double(1), block=False),
    "tell": lambda system, ref: ref.tell(Note(1)),
    "send": lambda system, ref: ref.send(Note(1)),
    "stream": lambda system, ref: ref.stream(Count(1)),
    "stop actor": lambda system, ref: ref.stop(),
    "spawn": lambda system, ref: system.spawn(Worker),
    "watch": lambda system, ref: system.watch(ref),
    "statistics": lambda system, ref: system.statistics(),
    "stop": lambda system, ref: system.stop(),
    "names": lambda system, ref: system.registry.names(),
    "quiet": lambda system, ref: system.wait_quiet(),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("kind", [Worker, Blocking])
def test_in_a_handler_the_twin_is_refused_at_once(use: str, kind: type[rt.Actor]) -> None:
    with ActorSystem("script") as system:
        other, actor = system.spawn(Worker), system.spawn(kind)
        function = USES[use]
        with pytest.raises(rt.WrongThread, match=r"in a handler|in the thread that runs"):
            actor.ask(Call(lambda _: function(system, other)))


def test_a_future_is_not_waited_for_in_a_handler() -> None:
    gate = open_after(PATIENCE)
    with ActorSystem("script") as system:
        worker, other = system.spawn(Worker), system.spawn(Worker)
        future = other.ask(Hold(gate, 4), block=False)
        with pytest.raises(rt.WrongThread, match="would wait for itself"):
            worker.ask(Call(lambda _: future.get()))
        gate.set()
        assert future.get(timeout=PATIENCE) == 4
        assert worker.ask(Call(lambda _: future.get())) == 4  # it is there: nothing to wait for


def test_another_systems_handler_has_no_authority_here() -> None:
    with ActorSystem("script") as system, ActorSystem("other") as other:
        worker, stranger = system.spawn(Worker), other.spawn(Blocking)
        with pytest.raises(rt.NoContext):
            stranger.ask(Call(lambda _: worker.ask(Double(1))))
        with pytest.raises(rt.NoContext):
            stranger.ask(Call(lambda _: system.spawn(Worker)))
        guest = system.authority.mint("guest", ["shop.**"])
        assert stranger.ask(Call(lambda _: worker.ask(Who(), context=guest)))[1] == "guest"


def test_a_thread_that_trio_starts_in_a_handler_has_no_authority() -> None:
    class Delegating(rt.Actor):
        @rt.handler
        async def call(self, message: Call) -> Any:
            return await trio.to_thread.run_sync(message.function, self)

    with ActorSystem("script") as system:
        worker, delegating = system.spawn(Worker), system.spawn(Delegating)
        with pytest.raises(rt.NoContext):
            delegating.ask(Call(lambda _: worker.ask(Double(1))))


# -- refs ------------------------------------------------------------------------------------------------------------------------------------------


def test_refs_are_equal_if_they_address_the_same_actor() -> None:
    with ActorSystem("script") as system:
        worker, other = system.spawn(Worker, name="worker"), system.spawn(Worker)
        again = system.registry.get("/user/worker")
        assert again == worker
        assert hash(again) == hash(worker)
        assert again is not worker
        assert worker != other
        assert worker != "worker"
        assert repr(worker) == "<Ref /user/worker (Worker)>"
        assert worker.alive


def test_a_ref_arrives_as_a_core_ref_and_comes_back_as_a_twins() -> None:
    ends: list[Any] = []
    with ActorSystem("script") as system:
        friend = system.spawn(Worker, name="friend")
        worker = system.spawn(Worker, friend, ends=ends)
        assert worker.ask(Call(lambda actor: type(actor.friend))) is rt.Ref
        found = worker.ask(Carry(friend, [friend, {"deep": (friend, 1)}]))
        assert isinstance(found, Ref)
        assert found == friend
        assert worker.ask(Carry(friend), block=False).get() == friend
        assert worker.ask(Carry(friend.core)) == friend
        plain = [1, 2]
        worker.ask(Carry(None, plain))
    assert ends[0] == (friend.core, [friend.core, {"deep": (friend.core, 1)}])
    assert ends[-1][1] is plain  # what holds no ref is not copied


def test_a_ref_is_not_pickled() -> None:
    import pickle

    with ActorSystem("script") as system:
        with pytest.raises(TypeError, match="cannot be pickled"):
            pickle.dumps(system.spawn(Worker))


# -- streams ---------------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("window", [1, 2, 7, 32])
def test_a_stream_is_read_in_order_to_its_end(window: int) -> None:
    with ActorSystem("script") as system:
        worker = system.spawn(Worker)
        with worker.stream(Count(100), window=window) as items:
            assert list(items) == list(range(100))
            assert list(items) == []  # the end stays one
        assert conserved(system.statistics())


@pytest.mark.parametrize("window", [1, 2, 8])
def test_a_streams_handler_is_never_more_than_its_window_ahead(window: int) -> None:
    with ActorSystem("script") as system:
        worker = system.spawn(Worker)
        actor = worker.core._cell.actor
        with worker.stream(Count(60), window=window) as items:
            for item in items:
                system.statistics()  # a round through the loop: the handler has gone as far as it may
                assert actor.ahead - item <= window
        assert actor.ends == ["stream over"]


def test_a_streams_error_reaches_the_reader_after_its_items() -> None:
    with ActorSystem("script") as system:
        worker = system.spawn(Worker)
        seen: list[int] = []
        with pytest.raises(Boom, match="in the middle"):
            with worker.stream(Count(3, Boom("in the middle"))) as items:
                seen.extend(items)
        assert seen in ([], [0, 1, 2])  # extend takes all or nothing
        with worker.stream(Count(3, Boom("again"))) as items:
            assert [next(items), next(items), next(items)] == [0, 1, 2]
            with pytest.raises(Boom):
                next(items)
            with pytest.raises(Boom):
                next(items)


def test_leaving_a_stream_early_cancels_its_handler() -> None:
    with ActorSystem("script") as system:
        worker = system.spawn(Worker)
        with worker.stream(Count(10_000), window=4) as items:
            assert next(items) == 0
        assert worker.ask(Double(1)) == 2
        assert worker.core._cell.actor.ends == ["stream over"]
        assert conserved(system.statistics())
        with pytest.raises(rt.StreamClosed, match="is not open"):
            next(items)


def test_a_streams_time_out_is_an_error_for_the_reader() -> None:
    with ActorSystem("script") as system:
        worker = system.spawn(Worker)
        with worker.stream(Count(10_000), window=2, timeout=0.05) as items:
            with pytest.raises(rt.AskTimeout):
                for _ in items:
                    threading.Event().wait(0.02)


def test_a_stream_is_read_inside_its_block_and_entered_once() -> None:
    with ActorSystem("script") as system:
        worker = system.spawn(Worker)
        reader = worker.stream(Count(1))
        with pytest.raises(rt.StreamClosed, match="inside its block"):
            next(reader)
        with reader:
            pass
        with pytest.raises(rt.StreamClosed, match="entered before"):
            with reader:
                pass


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


# -- Ctrl-C ----------------------------------------------------------------------------------------------------------------------------------------


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
