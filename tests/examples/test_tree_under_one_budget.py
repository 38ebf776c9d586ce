"""examples/tree_under_one_budget.py"""

from __future__ import annotations

import re

import pytest

from example_runner import run_example
from live_endpoint import run_live


def test_the_budget_at_the_top_is_used_up_and_never_overdrawn() -> None:
    printed = run_example("tree_under_one_budget")
    ada, _, rest = printed.partition("bob has")
    bob, _, cem = rest.partition("cem has")
    assert ada.splitlines()[0] == "ada has 1000 calls:"
    assert ada.count("is news") == 8 and ada.count("refused") == 1  # sport has 7 calls: a plan, and two reporters with three each
    assert ada.splitlines()[-1] == "=> 28 of 1000 calls are spent, 0 reserved"
    assert bob.splitlines()[-1] == "=> 20 of 20 calls are spent, 0 reserved"
    assert 1 <= bob.count("is news") <= (20 - 4) // 3
    assert bob.count("refused, no calls left") >= 1 and "tokens left" not in bob
    spent = re.fullmatch(r"=> (\d+) of 700 tokens are spent, 0 reserved", cem.splitlines()[-1])
    assert (
        spent is not None and 550 < int(spent[1]) <= 700 and int(spent[1]) % 50 == 0
    )  # a request takes 50, and is reserved for beforehand
    assert 1 <= cem.count("is news") <= (700 // 50 - 4) // 2
    assert "refused, no tokens left" in cem


@pytest.mark.slow  # a process and a server, as for hello_agent
def test_live_the_endpoint_is_asked_by_desks_and_reporters() -> None:
    printed, asked = run_live("tree_under_one_budget", "Well.")
    assert printed.splitlines()[0] == "asking some-model at URL; this may cost money"
    assert "=> 13 of 1000 calls are spent, 0 reserved" in printed
    assert "=> 13 of 20 calls are spent, 0 reserved" in printed
    assert {one.json["max_tokens"] for one in asked} == {30}
