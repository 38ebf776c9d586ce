"""examples/asyncio_notebook.py"""

from __future__ import annotations

import pytest

from example_runner import run_example


@pytest.fixture(scope="module")
def cells() -> dict[str, list[str]]:
    """What each cell printed."""
    found: dict[str, list[str]] = {}
    for line in run_example("asyncio_notebook").splitlines():
        cell, _, text = line.partition(": ")
        found.setdefault(cell, []).append(text)
    return found


def test_answers_come_one_by_one_and_all_at_once(cells: dict[str, list[str]]) -> None:
    assert cells["In [1]"] == ["chat"]
    assert cells["In [2]"] == ["['chien', 'oiseau', '?']"]


def test_a_message_that_was_written_again_needs_its_actor_written_again(cells: dict[str, list[str]]) -> None:
    (advice,) = cells["In [3]"]
    assert "defined again after the actor's class" in advice
    assert cells["In [4]"] == ["Katze"]


def test_the_stream_is_read_in_order(cells: dict[str, list[str]]) -> None:
    assert cells["In [5]"] == [
        "cat is chat in French",
        "dog is chien in French",
        "cat is Katze in German",
        "dog is Hund in German",
    ]


def test_giving_up_frees_the_actor(cells: dict[str, list[str]]) -> None:
    assert cells["In [6]"] == ["given up; chien"]
