"""examples/dining_philosophers.py"""

from __future__ import annotations

import pytest

from example_runner import run_example


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
