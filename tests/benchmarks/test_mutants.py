"""What tries mutants out, on made-up ones; and that every real one fits the code and is noticed."""

from __future__ import annotations

import os
import subprocess
import sys

import attrs
import pytest

from housekeeping import ROOT


@pytest.fixture(autouse=True)
def _benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))


@pytest.fixture
def mutant():
    from benchmarks.mutants.mutant import Mutant

    tests = ("tests/security/test_operations.py",)
    return Mutant("a name may be empty", "security/operations.py", "import string\n", "import string\n\nbroken = 1\n", tests)


def test_every_mutant_fits_the_code():
    from benchmarks.mutants.command import MUTANTS
    from benchmarks.mutants.trial import check_texts

    check_texts(MUTANTS)
    assert len(MUTANTS) >= 28


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"old": "no such text"}, "occurs 0 times"),
        ({"old": "e"}, r"occurs \d\d+ times"),
        ({"file": "security/nothing.py"}, "there is no security/nothing.py"),
        ({"tests": ("tests/security/test_nothing.py",)}, "there is no tests/security/test_nothing.py"),
        ({"new": "import string\n"}, "changes nothing"),
    ],
)
def test_a_mutant_that_says_nothing_is_an_error(mutant, change, text):
    from benchmarks.mutants.trial import BrokenMutant, check_texts

    check_texts([mutant])
    with pytest.raises(BrokenMutant, match=text):
        check_texts([attrs.evolve(mutant, **change)])


def test_two_mutants_of_one_name_are_an_error(mutant):
    from benchmarks.mutants.trial import BrokenMutant, check_texts

    with pytest.raises(BrokenMutant, match="two mutants"):
        check_texts([mutant, mutant])


@pytest.mark.slow
def test_a_mutant_dies_survives_or_cannot_be_tried_and_the_copy_is_whole_again(mutant, tmp_path):
    from benchmarks.mutants.trial import BrokenMutant, Copy

    copy = Copy(tmp_path)
    assert copy.imported_from().is_relative_to(tmp_path.resolve())
    assert copy.try_out(mutant).fate == "survived"
    deadly = attrs.evolve(mutant, new="import string\n\nstring = None\n")
    with pytest.raises(BrokenMutant, match="could not be run"):
        copy.try_out(deadly)
    harmful = attrs.evolve(mutant, old="if len(segments) <= len(head):", new="if len(segments) < len(head):")
    verdict = copy.try_out(harmful)
    assert verdict.fate == "died"
    assert "test_operations.py::" in verdict.killer
    assert copy.path_of(mutant.file).read_text(encoding="utf-8") == (ROOT / mutant.file).read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.timeout(3600)  # ten minutes on a quiet machine of two cores
def test_every_mutant_is_noticed():
    command = [sys.executable, "-m", "benchmarks", "mutants", "--jobs", str(os.cpu_count() or 1)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
