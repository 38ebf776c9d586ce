"""examples/dining_philosophers.py"""

from __future__ import annotations

import pytest

import retinue.testing as rtt
from example_runner import load_example, run_example

table = load_example("dining_philosophers")


@pytest.fixture(scope="module")
def printed() -> list[str]:
    return run_example("dining_philosophers").splitlines()


def test_everybody_eats(printed: list[str]) -> None:
    names = ["Arendt", "Berkeley", "Confucius", "Descartes", "Epicurus"]
    assert sorted(printed[:-1]) == [f"/user/{name} has eaten 20 times" for name in names]


def test_asking_in_a_ring_fails_at_once_and_names_the_ring(printed: list[str]) -> None:
    ring, _, advice = printed[-1].partition(". ")
    assert "would wait for ever" in ring
    for name in ["Arendt", "Berkeley", "Confucius"]:
        assert f"/user/polite-{name}" in ring
    assert "ctx.defer()" in advice


def test_a_fork_answers_when_it_is_free() -> None:
    fork = rtt.BehaviorTest(table.Fork)
    assert fork.request(table.Take()) == [rtt.Replied(table.Take())]
    assert fork.request(table.Take()) == [rtt.Deferred(table.Take())]
    assert fork.tell(table.PutBack()) == [rtt.Replied(table.Take())]
    assert fork.tell(table.PutBack()) == []
    assert not fork.actor.taken


@pytest.mark.parametrize("leave", [True, False])
def test_a_polite_philosopher_asks_the_neighbour(leave: bool) -> None:
    polite = rtt.BehaviorTest(table.Polite)
    neighbour = polite.ref("neighbour", table.Polite)
    polite.tell(table.Sit(neighbour))
    polite.answer(table.MayIEat, leave)
    assert polite.ask(table.MayIEat()) is leave
    assert polite.effects[0] == rtt.Asked(neighbour, table.MayIEat())
