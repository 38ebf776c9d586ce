"""examples/structured_output.py"""

from __future__ import annotations

from example_runner import run_example

EITHER = "an object (Invoice) or an object (NoInvoice)"


def test_a_letter_becomes_an_object_and_an_answer_that_does_not_fit_is_mended() -> None:
    assert run_example("structured_output").splitlines() == [
        "1250.00 EUR to be paid by 15 January 2027",
        "Invoice(number='2041', total=1250.0, currency='EUR', due=datetime.date(2027, 1, 15))",
        "  the model was told: Your answer does not fit:",
        f"    - value: expected {EITHER}, got one that fits none (at total: expected a number, got the string '1,250 euros')",
        f"    Expected: {EITHER}",
        "NoInvoice(reason='an invitation')",
    ]
