"""`retinue.sync`: streams, read by a plain `for`."""

from __future__ import annotations

import threading

import pytest

import retinue as rt
from retinue.sync import ActorSystem
from twin_actors import Boom, Count, Double, Worker, conserved

# -- streams -----------------------------------------------------------------------------------------------------------------------------------------


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
