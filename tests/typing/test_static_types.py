"""What users' type checkers see. The files in `cases/` mark the lines where both checkers must report an error, and no other line may have one."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CASES = sorted((Path(__file__).parent / "cases").glob("*.py"))


def marked(case: Path) -> set[int]:
    lines = case.read_text(encoding="utf-8").splitlines()
    return {number for number, line in enumerate(lines, start=1) if line.endswith("# error")}


def run(*command: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=cwd, env={**os.environ, **env}, capture_output=True, text=True, check=False, timeout=300)


def test_the_cases_mark_errors():
    assert CASES
    assert all(marked(case) for case in CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_mypy_reports_the_marked_lines_and_no_others(case, search_path, tmp_path):
    pytest.importorskip("mypy", reason="mypy is not installed (it comes with the extra `dev`)")
    shutil.copy(case, tmp_path)
    options = ["--config-file=", "--strict", "--follow-imports=silent", "--no-error-summary", f"--cache-dir={tmp_path / 'cache'}"]
    done = run(sys.executable, "-m", "mypy", *options, case.name, cwd=tmp_path, MYPYPATH=search_path)
    assert done.returncode == 1, done.stdout + done.stderr
    found = re.findall(rf"^{case.name}:(\d+): error:", done.stdout, re.MULTILINE)
    assert set(map(int, found)) == marked(case), done.stdout + done.stderr


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_pyright_reports_the_marked_lines_and_no_others(case, search_path, tmp_path):
    pytest.importorskip("pyright", reason="pyright is not installed (it comes with the extra `dev`)")
    shutil.copy(case, tmp_path)
    settings = {"include": [case.name], "extraPaths": [search_path] if search_path else [], "typeCheckingMode": "standard"}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    done = run(sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--outputjson", "-p", ".", cwd=tmp_path)
    assert done.stdout.startswith("{"), done.stdout + done.stderr
    found = json.loads(done.stdout)["generalDiagnostics"]
    lines = {entry["range"]["start"]["line"] + 1 for entry in found if entry["severity"] == "error"}
    assert lines == marked(case), "\n".join(f"{entry['range']['start']['line'] + 1}: {entry['message']}" for entry in found)
