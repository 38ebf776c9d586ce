"""What users' type checkers see. The files in `cases/` mark the lines where both checkers must report an error, and no other line may have one."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow  # each of the checkers reads all libraries first

CASES = sorted((Path(__file__).parent / "cases").glob("*.py"))


def marked(case: Path) -> set[int]:
    lines = case.read_text(encoding="utf-8").splitlines()
    return {number for number, line in enumerate(lines, start=1) if line.endswith("# error")}


def run(*command: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=cwd, env={**os.environ, **env}, capture_output=True, text=True, check=False, timeout=300)


def test_the_cases_mark_errors():
    assert CASES
    assert all(marked(case) for case in CASES)


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of its own with the cases, which a checker looks at all at once: most of its time goes to the libraries."""
    folder = tmp_path_factory.mktemp("cases")
    for case in CASES:
        shutil.copy(case, folder)
    return folder


@pytest.fixture(scope="module")
def mypy(cases: Path, search_path: str) -> str:
    """What mypy says of the cases."""
    pytest.importorskip("mypy", reason="mypy is not installed (it comes with the extra `dev`)")
    options = ["--config-file=", "--strict", "--follow-imports=silent", "--no-error-summary", f"--cache-dir={cases / 'cache'}"]
    done = run(sys.executable, "-m", "mypy", *options, *(case.name for case in CASES), cwd=cases, MYPYPATH=search_path)
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def pyright(cases: Path, search_path: str) -> list[dict[str, Any]]:
    """What pyright says of the cases."""
    pytest.importorskip("pyright", reason="pyright is not installed (it comes with the extra `dev`)")
    names = [case.name for case in CASES]
    settings = {"include": names, "extraPaths": [search_path] if search_path else [], "typeCheckingMode": "standard"}
    (cases / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    done = run(sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--outputjson", "-p", ".", cwd=cases)
    assert done.stdout.startswith("{"), done.stdout + done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)["generalDiagnostics"]
    assert {Path(entry["file"]).name for entry in found} <= set(names)
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_mypy_reports_the_marked_lines_and_no_others(case: Path, mypy: str) -> None:
    found = re.findall(rf"^{case.name}:(\d+): error:", mypy, re.MULTILINE)
    assert set(map(int, found)) == marked(case), mypy


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_pyright_reports_the_marked_lines_and_no_others(case: Path, pyright: list[dict[str, Any]]) -> None:
    found = [entry for entry in pyright if entry["severity"] == "error" and Path(entry["file"]).name == case.name]
    lines = {entry["range"]["start"]["line"] + 1 for entry in found}
    assert lines == marked(case), "\n".join(f"{entry['range']['start']['line'] + 1}: {entry['message']}" for entry in found)


def test_the_checkers_complain_of_nothing_but_the_cases(mypy: str) -> None:
    files = set(re.findall(r"^([^:\n]+):\d+: error:", mypy, re.MULTILINE))
    assert files == {case.name for case in CASES}
