"""examples/approval_in_the_terminal.py"""

from __future__ import annotations

import pytest

from example_runner import run_example
from live_endpoint import run_live

PROMPT = "yes, or anything else to refuse, which the model is told> "


def asked(to: str) -> list[str]:
    return ["tool.send_email needs your consent:", f'  to = "{to}@corp.example"', '  text = "The meeting is at ten."', PROMPT]


def test_what_the_person_allows_is_done_and_what_they_refuse_is_told_to_the_model_with_their_words() -> None:
    assert run_example("approval_in_the_terminal", stdin="yes\nonly Bob needs it\n").splitlines() == [
        *asked("bob"),
        *asked("all"),
        "  (an e-mail goes out to bob@corp.example: The meeting is at ten.)",
        "This is what happened: sent to bob@corp.example; a person has not approved send_email: only Bob needs it. It was not carried out",
    ]


def test_where_nobody_is_at_the_terminal_nobody_has_consented() -> None:
    refused = "a person has not approved send_email. It was not carried out"
    assert run_example("approval_in_the_terminal").splitlines() == [
        *asked("bob"),
        *asked("all"),
        f"This is what happened: {refused}; {refused}",
    ]


@pytest.mark.slow  # a process and a server, as for hello_agent
def test_live_a_real_endpoint_decides_what_is_asked_for() -> None:
    printed, _ = run_live("approval_in_the_terminal", "They know already.")
    assert printed.splitlines() == ["asking some-model at URL; this may cost money", "They know already."]
