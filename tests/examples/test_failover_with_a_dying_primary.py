"""examples/failover_with_a_dying_primary.py"""

from __future__ import annotations

import pytest

from example_runner import run_example
from live_endpoint import run_live

KILLED = "the primary is speaking and is killed"
PRIMARY = "/user/primary: cooling, asked 1, last error model.interrupted"
BACKUP = "/user/backup: ready, asked 2, last error None"


@pytest.mark.slow  # three processes
def test_the_answer_comes_whole_from_the_backup_and_the_dead_primary_is_not_asked_again() -> None:
    assert run_example("failover_with_a_dying_primary").splitlines() == [KILLED, "The pages do.", "The pages do.", PRIMARY, BACKUP]


@pytest.mark.slow  # three processes
def test_live_a_real_endpoint_is_the_backup() -> None:
    printed, asked = run_live("failover_with_a_dying_primary")
    said = "I am a real model."
    assert printed.splitlines() == ["the backup is some-model at URL; this may cost money", KILLED, said, said, PRIMARY, BACKUP]
    assert [each.json["messages"][-1]["content"] for each in asked] == ["Who carries the queen's train?", "And in the rain?"]
