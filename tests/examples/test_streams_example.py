"""examples/streams.py"""

from __future__ import annotations

import pytest

from example_runner import run_example


@pytest.fixture(scope="module")
def parts() -> list[list[str]]:
    """The lines below each of the three headings."""
    printed: list[list[str]] = []
    for line in run_example("streams").splitlines():
        if line.endswith(":"):
            printed.append([])
        else:
            printed[-1].append(line)
    assert len(printed) == 3
    return printed


def test_the_window_holds_the_searcher_back_and_leaving_ends_it(parts: list[list[str]]) -> None:
    slow = parts[0]
    assert slow[:9] == [f"  read {prime}" for prime in (2, 3, 5, 7, 11, 13, 17, 19, 23)]
    assert slow[9] == "the search is over"
    assert slow[10].endswith(": True")


def test_an_error_of_the_handler_ends_the_stream_after_its_items(parts: list[list[str]]) -> None:
    assert [line for line in parts[1] if line != "the search is over"] == [
        "  read 97",
        "The stream ended with TooBig: no further than 100",
    ]
    assert "the search is over" in parts[1]


def test_the_deadline_ends_the_stream(parts: list[list[str]]) -> None:
    assert sorted(parts[2]) == ["The stream ended with AskTimeout: the deadline is for the whole stream", "the search is over"]
