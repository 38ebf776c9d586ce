"""examples/hand_over_a_token.py"""

from __future__ import annotations

import pytest

from example_runner import run_example


@pytest.mark.slow
def test_a_helper_does_with_a_handed_token_what_was_lent_and_nothing_more_until_it_is_revoked() -> None:
    assert run_example("hand_over_a_token").splitlines() == [
        "the helper, with what ada lends it:",
        "  the price of tea: 300",
        "  buying 2: 2 of tea for ada",
        "  buying 200: refused (arguments)",
        "  buying 200, after widening: refused (arguments)",
        "after ada has revoked her token:",
        "  the price of tea: the token is refused (revoked)",
        "  buying 2: the token is refused (revoked)",
        "  buying 200: the token is refused (revoked)",
        "  buying 200, after widening: the token is refused (revoked)",
    ]
