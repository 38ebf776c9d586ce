"""`retinue.sync`: asks and tells from a plain script."""

from __future__ import annotations

import threading
import traceback
from typing import Any

import pytest

import retinue as rt
from quiet_threads import PATIENCE, open_after
from retinue.sync import ActorSystem
from twin_actors import Boom, Break, Call, Count, Double, Hold, Never, Note, Notes, Unknown, Worker, conserved


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
        for number in range(1000):
            worker.tell(Call(lambda actor, number=number: actor.ends.append(number)))
    assert ends == list(range(1000))
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
