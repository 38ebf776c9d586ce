"""Puts mutants to the test, each in a copy of the tree, several copies at once. The tree itself is never written to."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Literal

import attrs

from benchmarks.harness import quiet
from benchmarks.mutants.mutant import Mutant

__all__ = ["ROOT", "BrokenMutant", "Verdict", "check_texts", "trials"]

ROOT = Path(__file__).parents[2]

ROOMS = ("actors", "capabilities", "mailbox", "security")
LONGEST = 300.0
"""Seconds that the tests of one mutant may take. One that hangs them is noticed all the same."""

ALL_OF_THEM = 1_800.0
"""Seconds that all these tests may take without a mutant."""

_PASSED, _FAILED = 0, 1  # pytest's exit codes; all others mean that the tests could not be run

_PROFILE = """
import trio._core._run
from hypothesis import Phase, settings

trio._core._run._r.seed(1)  # in which order tasks run that became ready together
settings.register_profile("mutants", phases=[Phase.explicit, Phase.generate], database=None, derandomize=True, print_blob=False)
settings.load_profile("mutants")
"""
# One failing example is enough, none is kept, and the same are tried each time: a mutant dies always or never.


class BrokenMutant(Exception):
    """A mutant that says nothing: its text is not in the file any more, its tests cannot be run, or they fail without it too."""


@attrs.frozen
class Verdict:
    """What became of a mutant.

    Attributes:
        mutant: Which one.
        fate: "died": a test failed. "hung": a test did not come to an end. "survived": nobody noticed.
        killer: The first test that failed, or "".
        seconds: How long it took.
    """

    mutant: Mutant
    fate: Literal["died", "hung", "survived"]
    killer: str
    seconds: float


def check_texts(mutants: Sequence[Mutant], root: Path = ROOT) -> None:
    """Raises BrokenMutant unless each old text occurs in its file exactly once, and each test file exists."""
    wrong = []
    for mutant in mutants:
        path = root / mutant.file
        found = path.read_text(encoding="utf-8").count(mutant.old) if path.is_file() else -1
        if found != 1:
            where = f"there is no {mutant.file}" if found < 0 else f"its text occurs {found} times in {mutant.file}"
            wrong.append(f"{mutant.name}: {where}")
        if mutant.old == mutant.new:
            wrong.append(f"{mutant.name}: it changes nothing")
        wrong += [f"{mutant.name}: there is no {test}" for test in mutant.tests if not (root / test.partition("::")[0]).is_file()]
    names = [mutant.name for mutant in mutants]
    wrong += sorted({f"{name}: two mutants have this name" for name in names if names.count(name) > 1})
    if wrong:
        raise BrokenMutant("these mutants do not fit the code; mend them:\n  " + "\n  ".join(wrong))


class Copy:
    """A copy of the package, as it is when installed, and of the tests."""

    def __init__(self, folder: Path, root: Path = ROOT) -> None:
        self._folder = folder
        self._package = folder / "lib" / "retinue"
        ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
        shutil.copytree(root / "src" / "retinue", self._package, ignore=ignored)
        for room in ROOMS:
            shutil.copytree(root / room, self._package / room, ignore=ignored)
        shutil.copytree(root / "tests", folder / "tests", ignore=ignored)
        shutil.copy(root / "pyproject.toml", folder)
        (folder / "lib" / "mutants_profile.py").write_text(_PROFILE, encoding="utf-8")

    def path_of(self, file: str) -> Path:
        """Where the copy has a file of the tree."""
        return self._package / file.removeprefix("src/retinue/")

    def run(self, tests: Sequence[str], longest: float = LONGEST) -> tuple[int | None, str]:
        """Runs these tests until the first fails, for so many seconds at most: pytest's exit code (None: no end) and what it wrote."""
        # No bytecode: a stale one would hide a change of the same length within the same second.
        environment = {**os.environ, "PYTHONPATH": str(self._folder / "lib"), "PYTHONDONTWRITEBYTECODE": "1"}
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-x",
            "-q",
            "-p",
            "mutants_profile",
            "-p",
            "no:cacheprovider",
            "--timeout=60",
            "-m",
            "not slow",
            "--hypothesis-profile=retinue-at-length",  # a third of the examples does not notice each of them
        ]
        command += tests
        try:
            done = subprocess.run(
                command,
                cwd=self._folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
                timeout=longest,
            )
        except subprocess.TimeoutExpired:
            return None, ""
        return done.returncode, done.stdout + done.stderr

    def imported_from(self) -> Path:
        """Where Python finds the package: must be in the copy."""
        command = [sys.executable, "-c", "import retinue; print(retinue.__file__)"]
        environment = {**os.environ, "PYTHONPATH": str(self._folder / "lib")}
        done = subprocess.run(command, cwd=self._folder, env=environment, capture_output=True, text=True, check=True)
        return Path(done.stdout.strip())

    def try_out(self, mutant: Mutant) -> Verdict:
        """Applies a mutant, runs its tests, and takes it back."""
        path = self.path_of(mutant.file)
        text = path.read_text(encoding="utf-8")
        began = time.perf_counter()
        path.write_text(text.replace(mutant.old, mutant.new), encoding="utf-8")
        try:
            code, output = self.run(mutant.tests)
        finally:
            path.write_text(text, encoding="utf-8")
        seconds = time.perf_counter() - began
        if code is None:
            return Verdict(mutant, "hung", "", seconds)
        if code == _PASSED:
            return Verdict(mutant, "survived", "", seconds)
        if code == _FAILED:
            return Verdict(mutant, "died", _first_failure(output), seconds)
        raise BrokenMutant(f"{mutant.name}: its tests could not be run (pytest said {code}):\n{output[-3000:]}")


def _first_failure(output: str) -> str:
    for line in output.splitlines():
        if line.startswith(("FAILED ", "ERROR ")):
            return line.split(" ", 2)[1]
    return ""


def trials(mutants: Sequence[Mutant], *, jobs: int, root: Path = ROOT, progress: Callable[[str], None] = quiet) -> Iterator[Verdict]:
    """A verdict a mutant, as they come. First all their tests must pass without any.

    Raises:
        BrokenMutant: Texts that are not found, tests that fail anyway or cannot be run.
    """
    check_texts(mutants, root)
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copies: SimpleQueue[Copy] = SimpleQueue()
        first = Copy(Path(folder) / "0", root)
        copies.put(first)
        for number in range(1, jobs):
            copies.put(Copy(Path(folder) / str(number), root))
        if not first.imported_from().is_relative_to(Path(folder).resolve()):
            raise BrokenMutant(f"Python imports retinue from {first.imported_from()}, not from the copy")
        progress("the tests, without a mutant")
        code, output = first.run(sorted({test.partition("::")[0] for mutant in mutants for test in mutant.tests}), ALL_OF_THEM)
        if code != _PASSED:
            raise BrokenMutant(f"the tests fail without any mutant (pytest said {code}):\n{output[-3000:]}")

        def one(mutant: Mutant) -> Verdict:
            copy = copies.get()
            try:
                progress(mutant.name)
                return copy.try_out(mutant)
            finally:
                copies.put(copy)

        with ThreadPoolExecutor(jobs) as pool:
            try:
                yield from pool.map(one, mutants)
            finally:
                pool.shutdown(cancel_futures=True)
