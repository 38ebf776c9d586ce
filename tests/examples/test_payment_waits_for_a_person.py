"""examples/payment_waits_for_a_person.py"""

from __future__ import annotations

import re

import pytest

from example_runner import run_example


@pytest.mark.slow  # seven processes
def test_a_payment_that_was_asked_for_in_one_process_is_approved_in_another_and_made_once_in_a_third() -> None:
    printed = run_example("payment_waits_for_a_person")
    (request,) = set(re.findall(r"\bapr_[a-z2-7]{26}\b", printed))
    lines = re.sub(r"20\d\d-\S+", "(when)", printed.replace(request, "(request)")).splitlines()
    assert lines == [
        "the bank's process has ended; what it asked waits: (request)",
        "request: (request)",
        "status: pending",
        "operation: payments.send",
        "message: examples/Pay@1",
        "at: /user/bank",
        'for: "alice"',
        "risk: L3",
        "because: its handler says approval=True",
        "asked: (when)",
        "waits until: (when)",
        "arguments:",
        '  to = "ACME"',
        "  cents = 4000",
        "bob has approved it, in a process of his own",
        "with the token, other cents: waits",
        "with the token, as asked: 4000 cents to ACME, approved by bob",
        "with the token, once more: refused: spent",
        "payments made: 1",
    ]
