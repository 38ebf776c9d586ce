"""A busy machine is no failure: what holds for every law."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

made_here = settings(max_examples=3)


def test_no_law_has_a_deadline_and_a_failure_says_how_to_repeat_it() -> None:
    for profile in (settings(), made_here):
        assert profile.deadline is None
        assert profile.print_blob
        assert HealthCheck.too_slow in profile.suppress_health_check
