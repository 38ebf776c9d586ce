"""examples/supervisor_with_dying_workers.py"""

from __future__ import annotations

import pytest

from example_runner import run_example
from live_endpoint import run_live

ENDS = [
    "/user/primes: failed, restarted",
    "/user/letters: failed, restarted",
    "/user/words: failed, stopped",
    "/user/spare: alive all the time",
]


def test_each_worker_dies_in_its_own_way_and_the_lead_gets_all_results() -> None:
    printed = run_example("supervisor_with_dying_workers").splitlines()
    assert sorted(printed[1:-5]) == sorted(
        [
            *[f'  lead calls ask_{name} {{"message": "all in the golden afternoon"}}' for name in ("letters", "words")],
            '  lead calls ask_primes {"message": "200000"}',
            "  (the process of primes is killed)",
            "  letters failed, and it is tried again (1 of 2): ValueError: not enough values to unpack (expected 2, got 1)",
            "  primes failed, and it is tried again (1 of 2): ChildProcessError: the process ended by SIGKILL",
            "  words failed, and it is tried again (1 of 2): OSError: the disk is gone",
            "  ask_primes -> 17984",
            "  ask_letters -> 23",
            "  ask_words -> 5",
        ]
    )
    assert printed[-5:] == ["team: 17984 primes; 23 letters in 5 words.", *ENDS]


@pytest.mark.slow  # a process and a server, as for hello_agent
def test_live_the_endpoint_is_told_of_the_three_workers() -> None:
    printed, asked = run_live("supervisor_with_dying_workers", "I do it myself.")
    assert printed.splitlines()[0] == "asking some-model at URL; this may cost money"
    assert "team: I do it myself." in printed
    assert [tool["function"]["name"] for tool in asked[0].json["tools"]] == ["ask_primes", "ask_letters", "ask_words"]
    assert len(asked) == 1
