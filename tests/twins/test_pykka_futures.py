"""What `ask(…, block=False)` returns is a pykka future, with all that pykka does with one."""

from __future__ import annotations

import threading
import traceback

import pykka
import pytest

import retinue as rt
from quiet_threads import PATIENCE, open_after
from retinue.sync import ActorSystem, Future
from twin_actors import Blocking, Boom, Break, Call, Double, Hold, Never, Worker


def test_it_is_a_pykka_future_that_may_be_read_again() -> None:
    with ActorSystem("futures") as system:
        future = system.spawn(Worker).ask(Double(4), block=False)
        assert isinstance(future, pykka.Future)
        assert isinstance(future, Future)
        assert [future.get(timeout=PATIENCE) for _ in range(3)] == [8, 8, 8]
    assert future.get() == 8


def test_the_asker_goes_on_while_the_handler_works() -> None:
    gate = open_after(PATIENCE)
    with ActorSystem("futures") as system:
        futures = [system.spawn(Blocking).ask(Hold(gate, number), block=False) for number in range(4)]
        assert not gate.is_set()
        gate.set()
        assert list(pykka.get_all(futures, timeout=PATIENCE)) == [0, 1, 2, 3]


def test_map_filter_reduce_and_join() -> None:
    with ActorSystem("futures") as system:
        worker = system.spawn(Worker)

        def ask(number: int) -> Future[int]:
            return worker.ask(Double(number), block=False)

        numbers = worker.ask(Call(lambda _: [1, 2, 3, 4]), block=False)
        assert ask(3).map(lambda value: value + 1).get(timeout=PATIENCE) == 7
        assert ask(3).map(str).map(len).get() == 1
        assert numbers.filter(lambda number: number % 2).get() == [1, 3]
        assert numbers.reduce(lambda one, two: one + two).get() == 10
        assert numbers.reduce(lambda one, two: one + two, 100).get() == 110
        assert ask(1).join(ask(2), ask(3)).get(timeout=PATIENCE) == [2, 4, 6]
        assert ask(1).join(ask(2)).map(sum).get() == 6


def test_a_mapping_is_called_once() -> None:
    calls: list[int] = []
    with ActorSystem("futures") as system:
        future = system.spawn(Worker).ask(Double(1), block=False).map(calls.append)
        future.get()
        future.get()
    assert calls == [2]


def test_an_error_is_raised_each_time_with_the_same_traceback() -> None:
    with ActorSystem("futures") as system:
        error = Boom("from the handler")
        future = system.spawn(Worker).ask(Break(error), block=False)
        lengths = []
        for _ in range(3):
            with pytest.raises(Boom) as caught:
                future.get(timeout=PATIENCE)
            assert caught.value is error
            lengths.append(len(traceback.extract_tb(error.__traceback__)))
            assert "fail" in [frame.name for frame in traceback.extract_tb(error.__traceback__)]
        with pytest.raises(Boom):
            future.map(str).get()
    assert len(set(lengths)) == 1


def test_a_time_out_of_get_is_pykkas_and_leaves_the_request_alone() -> None:
    gate = open_after(PATIENCE)
    with ActorSystem("futures") as system:
        future = system.spawn(Worker).ask(Hold(gate, 5), block=False)
        with pytest.raises(pykka.Timeout):
            future.get(timeout=0.01)
        with pytest.raises(pykka.Timeout):
            future.map(str).get(timeout=0.01)
        with pytest.raises(pykka.Timeout):
            pykka.get_all([future], timeout=0.01)
        gate.set()
        assert future.get(timeout=PATIENCE) == 5


def test_a_handlers_own_pykka_timeout_is_an_answer() -> None:
    with ActorSystem("futures") as system:
        future = system.spawn(Worker).ask(Break(pykka.Timeout("the handler's")), block=False)
        with pytest.raises(pykka.Timeout, match="the handler's"):
            future.get()


def test_the_asks_own_time_out_is_an_ask_timeout() -> None:
    with ActorSystem("futures") as system:
        worker = system.spawn(Worker)
        future = worker.ask(Never(threading.Event()), block=False, timeout=0.05)
        with pytest.raises(rt.AskTimeout, match=r"within 0\.05 s"):
            future.get(timeout=PATIENCE)
        with pytest.raises(rt.AskTimeout):
            future.get()
        assert worker.ask(Double(1)) == 2


def test_it_is_not_awaited() -> None:
    with ActorSystem("futures") as system:
        future = system.spawn(Worker).ask(Double(1), block=False)
        with pytest.raises(TypeError, match=r"retinue\.aio"):
            future.__await__()
        with pytest.raises(TypeError, match=r"retinue\.aio"):
            iter(future)


def test_several_threads_may_wait_for_one_future() -> None:
    gate = open_after(PATIENCE)
    found: list[int] = []
    with ActorSystem("futures") as system:
        future = system.spawn(Worker).ask(Hold(gate, 6), block=False)
        threads = [threading.Thread(target=lambda: found.append(future.get(timeout=PATIENCE))) for _ in range(4)]
        for thread in threads:
            thread.start()
        gate.set()
        for thread in threads:
            thread.join(PATIENCE)
    assert found == [6, 6, 6, 6]


def test_a_future_that_nobody_reads_is_no_loss() -> None:
    with ActorSystem("futures") as system:
        worker = system.spawn(Worker)
        for number in range(100):
            worker.ask(Double(number), block=False)
        assert worker.ask(Double(1)) == 2
        counts = system.statistics()
    assert (counts.sent, counts.handled, counts.dead_letters) == (101, 101, 0)


def test_a_future_of_ours_can_be_set_as_any_pykka_future() -> None:
    future: Future[int] = Future()
    future.set(3)
    assert future.get() == 3
    other: Future[int] = Future()
    other.set_exception((Boom, Boom("set"), None))
    with pytest.raises(Boom, match="set"):
        other.get()
