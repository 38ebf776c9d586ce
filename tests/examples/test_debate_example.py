"""examples/debate.py"""

from __future__ import annotations

import pytest

from example_runner import run_example
from live_endpoint import run_live


def test_the_hasty_one_is_convinced_the_judge_decides_the_vote_agrees_and_a_matter_of_taste_stays_open() -> None:
    printed = run_example("debate").splitlines()
    judged, voting, taste = printed.index("with a judge:"), printed.index("by vote:"), printed.index("by vote, on a matter of taste:")
    assert judged == 0
    first, second = sorted(printed[1:4]), sorted(printed[4:7])  # those of a round answer at the same time
    assert first == ["  careful, 1: 5 cents", "  hasty, 1: 10 cents", "  sceptic, 1: 5 cents"]
    assert second == ["  careful, 2: 5 cents", "  hasty, 2: 5 cents", "  sceptic, 2: 5 cents"]
    words = "5 cents: then the bat costs 1.05, and together they cost 1.10."
    assert printed[7:voting] == [f"  judge, 1: {words}", f"=> {words} [judge, rounds: 2]"]
    assert sorted(printed[voting + 1 : voting + 4]) == first
    assert printed[taste - 1] == "=> 5 cents [agreed, rounds: 2, votes: [['5 cents', 3]]]"
    assert len(printed[taste + 1 :]) == 3 * 3 + 1
    assert printed[-1] == "=> nobody has won: a lamp, a ladder, a lantern"


@pytest.mark.slow  # a process and a server, as for hello_agent
def test_live_the_endpoint_is_asked_by_each_debater_and_the_judge() -> None:
    printed, asked = run_live("debate", "Five cents")
    assert printed.splitlines()[0] == "asking some-model at URL; this may cost money"
    assert "=> Five cents [judge, rounds: 2]" in printed
    assert "=> Five cents [agreed, rounds: 1, votes: [['Five cents', 3]]]" in printed
    assert len(asked) == 7 + 3 + 3
