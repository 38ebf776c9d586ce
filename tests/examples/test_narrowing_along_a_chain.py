"""examples/narrowing_along_a_chain.py"""

from __future__ import annotations

import re

from example_runner import run_example

EXPLAINED = (
    "'payments.send' is not permitted: the layer where('payments.send', cents=at_most(5000), to=one_of('ACME')) refuses it: "
    "its argument 'cents' is not at_most(5000)"
)


def test_orders_within_what_was_lent_are_done_and_all_others_are_refused_and_on_record() -> None:
    printed = re.sub(r"^ +\d+ ", "  n ", run_example("narrowing_along_a_chain"), flags=re.MULTILINE)
    assert printed.splitlines() == [
        "done:    4000 cents to ACME, for ada",
        "refused: payments.send (arguments)",
        "refused: payments.send (arguments)",
        "refused: payments.send (permission)",
        EXPLAINED,
        "done:    1000 cents to ACME, for ada",
        "done:    1000 cents to ACME, for ada",
        "refused: payments.send (budget)",
        "the audit:",
        "  n allowed payments.send at /user/bank for ada",
        "  n refused payments.send at /user/bank for ada",
        "  n refused payments.send at /user/bank for ada",
        "  n refused payments.send at /user/bank for ada",
        "  n allowed payments.send at /user/bank for ada",
        "  n allowed payments.send at /user/bank for ada",
        "  n refused payments.send at /user/bank for ada",
        "records verified: True",
    ]
