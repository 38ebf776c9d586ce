"""examples/market.py"""

from __future__ import annotations

import re

import pytest

from example_runner import run


@pytest.fixture(scope="module")
def printed() -> list[str]:
    done = run("market")
    assert done.returncode == 0, done.stderr
    assert all(line.endswith(": lagged") or " more dead letters " in line for line in done.stderr.splitlines() if "dead letter" in line)
    return done.stdout.splitlines()


def test_the_traders_miss_no_price_though_somebody_is_slow(printed: list[str]) -> None:
    assert printed[0] == "120 prices for 4 subscribers; the traders missed none, the analyst more than half: True"
    assert printed[1:4] == [
        "/user/ada: 0 of ACME, and +35.13 in cash",
        "/user/grace: 0 of Globex, and +47.22 in cash",
        "/user/midas: 60 of Globex, and -1629.82 in cash",
    ]


def test_the_slow_one_knows_what_it_has_missed(printed: list[str]) -> None:
    (line,) = [line for line in printed if line.startswith("/user/analyst")]
    prices, read, missed, wait = map(int, re.findall(r"\d+", line))
    assert prices == read + missed + wait == 120
    assert 0 <= wait <= 5  # its room, and the one in its hands


def test_the_report_says_who_is_done_with_the_bell_and_who_failed(printed: list[str]) -> None:
    assert printed[-5:] == [
        "  /user/ada: handled",
        "  /user/grace: handled",
        "  /user/midas: failed nobody takes 60 of Globex off me",
        "  /user/analyst: handled",
        "the bell: 3 of 4 are done with it",
    ]
