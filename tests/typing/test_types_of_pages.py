"""What users copy from the README and the pages passes a strict type checker."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from housekeeping import ROOT
from snippets import snippets

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all of them, each named after its page and line."""
    folder = tmp_path_factory.mktemp("programs")
    for page in PAGES:
        for snippet in snippets(page, page.read_text(encoding="utf-8")):
            if snippet.language == "python":
                (folder / f"{page.stem.replace('-', '_')}_{snippet.line}.py").write_text(snippet.code, encoding="utf-8")
    assert len(list(folder.iterdir())) > 20
    return folder


@pytest.mark.slow
def test_the_programs_of_the_pages_pass_mypy(search_path: str, programs: Path, tmp_path: Path) -> None:
    pytest.importorskip("mypy", reason="mypy is not installed (it comes with the extra `dev`)")
    files = sorted(path.name for path in programs.glob("*.py"))
    options = ["--config-file=", "--strict", "--follow-imports=silent", "--no-error-summary", f"--cache-dir={tmp_path / 'cache'}"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, *files],
        cwd=programs,
        env={**os.environ, "MYPYPATH": search_path},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_the_programs_of_the_pages_pass_pyright(search_path: str, programs: Path) -> None:
    pytest.importorskip("pyright", reason="pyright is not installed (it comes with the extra `dev`)")
    settings = {"extraPaths": [search_path] if search_path else [], "typeCheckingMode": "standard"}
    (programs / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "-p", "."]
    done = subprocess.run(command, cwd=programs, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
