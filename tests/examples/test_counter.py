"""examples/counter.py"""

from __future__ import annotations

from example_runner import run_example


def test_ten_tasks_count_to_a_thousand_and_nothing_is_lost() -> None:
    assert run_example("counter").splitlines() == [
        "/user/counter has counted to 1000",
        "sent 1001 = handled 1001 + dead letters 0 + queued 0",
    ]
