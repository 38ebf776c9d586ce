"""examples/customer_service_swarm.py"""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from example_runner import run_example
from live_endpoint import run_live
from retinue.cli import main

FOUND = "  [billing uses look_up: order 17: a lamp, 20 euros, charged twice on 28 November]"
BEFORE = [
    "bob: I want to return a lamp that I never bought.",
    "  [triage hands over to billing: a return]",
    *["  [billing hands over to refunds: money back]", "  [refunds hands over to billing: was it ever paid?]"] * 2,
    "  [billing hands over to refunds: money back]",
    "  stopped by the guard 'window': triage > billing > refunds > billing > refunds > billing > refunds",
    "ada: What did you charge me for order 17?",
    "  [triage hands over to billing: an order]",
    FOUND,
    "billing: For your lamp: 20 euros, twice.",
    "ada: Twice?! I want 20 euros back, and 5000 for my trouble.",
    "  [billing may not use refund: not permitted: refund needs 'tool.refund', which is refused here (permission); do without it]",
    "  [billing hands over to refunds: charged twice]",
    "  tool.refund needs a person: order = 17 euros = 20",
]
PROMPT = "  yes, or anything else to refuse, which the model is told> "


def test_the_refund_is_made_once_a_person_has_said_yes_and_the_run_is_recorded(tmp_path: Path) -> None:
    printed = run_example("customer_service_swarm", str(tmp_path), stdin="yes\n").splitlines()
    assert printed == [
        *BEFORE,
        PROMPT,
        "  [refunds uses refund: 20 euros for order 17 are on their way]",
        "refunds: About your 20 euros: 20 euros for order 17 are on their way.",
        f"the last of that as a tree: retinue show last --data-dir {tmp_path}",
    ]
    command = printed[-1].split(": ")[1].split()[1:]
    shown = CliRunner().invoke(main, command)
    assert shown.exit_code == 0, shown.output
    for word in ("invoke_agent desk: ok", "by ada", "goes on with consent", "invoke_agent refunds", "execute_tool refund"):
        assert word in shown.output
    assert "hands over" not in shown.output  # that was before it waited
    listed = CliRunner().invoke(main, ["runs", "--data-dir", str(tmp_path)])
    lines = [line.split() for line in listed.output.splitlines()]
    assert [line[3] for line in lines] == ["failed", "ok", "decided", "ok"]
    waited = CliRunner().invoke(main, ["show", lines[2][0], "--data-dir", str(tmp_path)])
    assert "handed over: billing → refunds: charged twice" in waited.output


@pytest.mark.slow  # one more process
def test_what_the_person_says_instead_of_yes_is_told_to_the_model(tmp_path: Path) -> None:
    printed = run_example("customer_service_swarm", str(tmp_path), stdin="it is too late for that\n").splitlines()
    assert printed[: len(BEFORE) + 1] == [*BEFORE, PROMPT]
    refused = "a person has not approved refund: it is too late for that. It was not carried out"
    assert printed[-3:-1] == [f"  [refunds cannot use refund: {refused}]", f"refunds: About your 20 euros: {refused}."]


@pytest.mark.slow  # one more process
def test_with_yes_nobody_is_asked(tmp_path: Path) -> None:
    printed = run_example("customer_service_swarm", str(tmp_path), "--yes").splitlines()
    assert printed[: len(BEFORE)] == BEFORE
    assert PROMPT not in printed
    assert printed[-2] == "refunds: About your 20 euros: 20 euros for order 17 are on their way."


@pytest.mark.slow  # a process and a server, as for hello_agent
def test_live_each_member_asks_the_endpoint_and_is_told_whom_it_may_hand_over_to(tmp_path: Path) -> None:
    printed, asked = run_live("customer_service_swarm", "We shall see.", arguments=(str(tmp_path),))
    assert printed.splitlines()[:3] == [
        "asking some-model at URL; this may cost money",
        "bob: I want to return a lamp that I never bought.",
        "triage: We shall see.",
    ]
    assert [tool["function"]["name"] for tool in asked[0].json["tools"]] == ["transfer_to_billing", "transfer_to_refunds"]
    assert len(asked) == 3
