"""examples/join_a_pykka_program.py"""

from __future__ import annotations

from example_runner import run_example


def test_the_agent_reads_the_balance_and_cannot_pay() -> None:
    assert run_example("join_a_pykka_program").splitlines() == [
        "ACME wants 9000 of 10000 cents; not paid: account.pay is refused to adviser at /user/account",
        "the program's own way is as it was: 900 cents to the mill",
        "a clerk pays 400 cents to the baker",
        "left: 8700",
        "on record: ['account.pay of adviser']",
        "the bank has closed: stopped",
        "asked once more: ActorStopped",
    ]
