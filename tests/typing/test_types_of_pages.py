"""What users copy from the README and the pages passes a strict type checker."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from housekeeping import ROOT
from snippets import snippets

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.slow
def test_the_programs_of_the_pages_pass_mypy(search_path: str, tmp_path: Path) -> None:
    pytest.importorskip("mypy", reason="mypy is not installed (it comes with the extra `dev`)")
    programs = tmp_path / "programs"
    programs.mkdir()
    for page in PAGES:
        for snippet in snippets(page, page.read_text(encoding="utf-8")):
            if snippet.language == "python":
                (programs / f"{page.stem}_{snippet.line}.py").write_text(snippet.code, encoding="utf-8")
    files = sorted(path.name for path in programs.iterdir())
    assert len(files) > 20
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
