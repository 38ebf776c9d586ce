"""examples/hello_agent.py"""

from __future__ import annotations

from example_runner import run, run_example
from live_endpoint import run_live


def test_an_agent_answers_and_remembers() -> None:
    assert run_example("hello_agent").splitlines() == [
        "Hello, Ada!",
        "  user: Say hello to Ada",
        "  agent: Hello, Ada!",
    ]


def test_live_a_real_endpoint_is_asked_and_it_is_said_that_this_may_cost_money() -> None:
    printed, asked = run_live("hello_agent")
    assert printed.splitlines() == [
        "asking some-model at URL; this may cost money",
        "I am a real model.",
        "  user: Say hello to Ada",
        "  agent: I am a real model.",
    ]
    assert [each.headers["authorization"] for each in asked] == ["Bearer sk-live"]
    assert [each["content"] for each in asked[0].json["messages"]] == ["Be brief.", "Say hello to Ada"]


def test_live_without_an_endpoint_says_what_is_missing() -> None:
    done = run("hello_agent", "--live")
    assert done.returncode == 1
    assert "the environment lacks OPENAI_BASE_URL (or OPENAI_API_KEY, for OpenAI's own) and RETINUE_MODEL" in done.stderr
