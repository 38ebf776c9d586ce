"""examples/workers_that_die.py"""

from __future__ import annotations

from example_runner import run_example


def test_the_pool_outlives_its_readers() -> None:
    assert run_example("workers_that_die").splitlines() == [
        "4550 words on 38 pages; given up: page 7 is torn, page 23 is torn",
        "6 readers died",
        "sent 40, handled 40, lost 0",
    ]
