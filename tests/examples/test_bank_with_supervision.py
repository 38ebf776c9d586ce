"""examples/bank_with_supervision.py"""

from __future__ import annotations

import pytest

from example_runner import run


@pytest.fixture(scope="module")
def printed() -> list[str]:
    done = run("bank_with_supervision")
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines() == ["dead letter: Cash to /user/bank/ada from outside: stopped"]
    return done.stdout.splitlines()


def test_a_refusal_leaves_the_account_as_it_is(printed: list[str]) -> None:
    assert printed[:2] == ["10: balance 10", "-50: Overdrawn: ada has 10"]


def test_a_failed_account_is_restarted_and_finds_its_balance(printed: list[str]) -> None:
    assert [line.partition(":")[0] for line in printed[2:5]] == ["illegible", "twelve", "5"]
    assert all("ValueError" in line for line in printed[2:4])
    assert printed[4] == "5: balance 15"


def test_the_second_restart_is_held_back(printed: list[str]) -> None:
    assert printed[-1] == "the second restart was held back: True"


def test_the_forgery_ends_the_account_and_the_bank_is_told(printed: list[str]) -> None:
    assert "the bank is told: /user/bank/ada has ended (failed: ada handed in a forged cheque)" in printed
    assert "forged: Forgery: ada handed in a forged cheque" in printed
    assert [line for line in printed if line.startswith("1: ActorStopped: /user/bank/ada has stopped")]
    assert printed[-2] == "ada: failed, restarted, failed, restarted, failed, stopped"
