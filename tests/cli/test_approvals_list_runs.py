"""`retinue approvals list`: whose question is whose, where two runs want the same."""

from __future__ import annotations

from approval_values import binding as bound
from approval_values import request
from retinue.cli.approvals_shown import in_short
from retinue.security.approvals import ApprovalRequest


def asked_by(run: str | None) -> str:
    made: ApprovalRequest = request()
    binding = bound(run=run)
    return in_short(ApprovalRequest.from_data({**made.to_data(), "binding": {**made.binding.to_data(), "run": binding.run}}))[0]


def test_a_line_of_the_list_says_which_run_asks_by_its_session_and_the_beginning_of_its_word() -> None:
    one, other = asked_by("ann/5f2a9c01" + "0" * 24), asked_by("ben/77e0aa12" + "0" * 24)
    assert ', run "ann/5f2a9c01"  ' in one and ', run "ben/77e0aa12"  ' in other
    assert "run" not in asked_by(None)
