"""How many examples a law is tried with: few in the usual run, and many in tests/house/test_laws_at_length.py, which runs every law again."""

from __future__ import annotations

from hypothesis import settings

AT_LENGTH = "retinue-at-length"
"""The profile of Hypothesis under which laws have all their examples."""

MANY = 100
FEW = 30


def examples(number: int) -> int:
    """Of the examples that a law wants at length, those that it gets in this run."""
    return number if settings().max_examples >= MANY else max(1, number * FEW // MANY)
