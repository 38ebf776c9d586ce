"""examples/blog_that_refines_itself.py"""

from __future__ import annotations

import pytest

from example_runner import run_example
from live_endpoint import run_live

TOPICS = ["bees", "tides", "rust", "sourdough", "chess"]


def test_five_topics_are_refined_at_the_same_time_and_never_mix() -> None:
    printed = run_example("blog_that_refines_itself").split("\n\n")
    assert printed[0].splitlines() == [f"{topic}: Draft 4 about {topic}. Examples: 3." for topic in TOPICS]
    writer, critic = (part.splitlines()[1:] for part in printed[1:])
    assert [line.split(":")[0].strip() for line in writer] == ["user", "writer", *["critic", "writer"] * 3]
    assert writer[2] == "  critic: A post about bees needs example 1."
    for number in range(3):  # what the critic remembers bears the words of its hook
        assert critic[3 * number : 3 * number + 3] == [
            "  writer: Reflect on the following and criticise it:",
            f"    Draft {number + 1} about bees. Examples: {number}.",
            f"  critic: A post about bees needs example {number + 1}.",
        ]
    assert len(critic) == 9


@pytest.mark.slow  # a process and a server, as for hello_agent
def test_live_the_endpoint_is_asked_for_four_drafts_and_three_critiques_of_each_topic() -> None:
    printed, asked = run_live("blog_that_refines_itself", "Well.")
    assert printed.splitlines()[:2] == ["asking some-model at URL; this may cost money", "bees: Well."]
    roles = [one.json["messages"][0]["content"].split()[1] for one in asked]
    assert (roles.count("write"), roles.count("criticise")) == (20, 15)
