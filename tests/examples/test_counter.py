"""examples/counter.py"""

from __future__ import annotations

import retinue.testing as rtt
from example_runner import load_example, run_example

counter_example = load_example("counter")


def test_ten_tasks_count_to_a_thousand_and_nothing_is_lost() -> None:
    assert run_example("counter").splitlines() == [
        "/user/counter has counted to 1000",
        "sent 1001 = handled 1001 + dead letters 0 + queued 0",
    ]


def test_a_counter_adds_and_tells() -> None:
    counter = rtt.BehaviorTest(counter_example.Counter, 5)
    assert counter.tell(counter_example.Add(3)) == []
    assert counter.ask(counter_example.Get()) == 8
