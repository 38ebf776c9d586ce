"""examples/blocking_script.py"""

from __future__ import annotations

from example_runner import run_example


def test_notes_are_saved_and_found_in_a_file_that_outlives_the_system() -> None:
    assert run_example("blocking_script").splitlines() == [
        "first note: 1",
        "three more: [2, 3, 4]",
        "how many things to buy: 2",
        "['BUY PEARS.', 'BUY PLUMS.']",
        "the file is closed (system_closed)",
        "still there: ['Eat.']",
        "the file is closed (system_closed)",
    ]
