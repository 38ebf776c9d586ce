"""examples/sessions.py"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from example_runner import run_example


def day(first: int) -> list[str]:
    return [
        f"a hundred messages at once: 1 session; next comes visit {first + 100}",
        f"ada is passivated; when she comes back, it is visit {first + 101}",
        "two hundred guests, never more than 50 sessions at the same time: True",
    ]


@pytest.mark.slow
def test_sessions_are_kept_across_passivation_and_two_systems() -> None:
    assert run_example("sessions").splitlines() == ["-- day 1", *day(1), "-- day 2", *day(103)]


@pytest.mark.slow
def test_and_across_two_runs_of_the_program_in_a_file_that_sqlite_opens(tmp_path: Path) -> None:
    file = tmp_path / "guests.db"
    assert run_example("sessions", str(file)).splitlines() == day(1)
    assert run_example("sessions", str(file)).splitlines() == day(103)
    with closing(sqlite3.connect(file)) as database:
        assert database.execute("select guest, count from visits where guest in ('ada', 'guest 7') order by guest").fetchall() == [
            ("ada", 204),
            ("guest 7", 2),
        ]
        assert database.execute("select count(*) from visits").fetchone() == (201,)
