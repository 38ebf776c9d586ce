"""examples/streaming_to_the_terminal.py"""

from __future__ import annotations

import pytest

from example_runner import run_example
from live_endpoint import run_live


def test_thoughts_tools_and_text_are_printed_as_they_come_and_who_leaves_early_has_a_part() -> None:
    *told, last, remembered = run_example("streaming_to_the_terminal").splitlines()
    assert told == [
        "(I had better look that up.)",
        '[look_up {"word": "retinue"}]',
        "[-> retinue: a body of people who travel with somebody important]",
        "A retinue is the people who go with somebody important.",
        "[2 requests to the model]",
    ]
    shown = last.removesuffix(" …")
    kept, _, partial = remembered.removeprefix("remembered: ").rpartition(", ")
    assert shown.startswith("Once upon a time") and len(shown) > 40
    assert kept.strip("'").startswith(shown.rstrip())  # what the reader has seen is remembered, and at most what was already on its way
    assert partial == "partial=True"


@pytest.mark.slow  # a process and a server, as for hello_agent
def test_live_the_same_comes_from_a_real_endpoint() -> None:
    printed, asked = run_live("streaming_to_the_terminal", "A long answer. " * 10)
    assert printed.splitlines()[0] == "asking some-model at URL; this may cost money"
    assert ("A long answer. " * 10).strip() in printed
    assert all(each.json["stream"] for each in asked)
