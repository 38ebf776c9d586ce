"""The laws of Hypothesis have few examples in the usual run. Here each has as many as it wants, in a process of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

from housekeeping import ROOT
from laws import AT_LENGTH, FEW, MANY, examples

ROOMS = sorted(
    str(room.relative_to(ROOT))
    for room in (ROOT / "tests").iterdir()
    if room.is_dir() and any("\n@given(" in file.read_text(encoding="utf-8") for file in room.rglob("test_*.py"))
)


def test_a_law_has_few_examples_in_the_usual_run() -> None:
    assert [examples(number) for number in (1, 10, MANY)] in ([1, 3, FEW], [1, 10, MANY])


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("room", ROOMS)
def test_the_laws_of_a_room_hold_with_many_examples(room: str) -> None:
    options = ["-q", "-p", "no:cacheprovider", "-m", "hypothesis and not slow", f"--hypothesis-profile={AT_LENGTH}"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, room],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=1700,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-2_000:]
    assert " passed" in done.stdout
