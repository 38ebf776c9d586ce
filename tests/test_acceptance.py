"""The acceptance scripts, which fix the public names, run unchanged. They lie beside the repository and not in it: absent, they are skipped."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "shared" / "acceptance"
DONE = ("01", "02", "03", "04", "05", "06", "07", "08", "09", "10", "11")


@pytest.mark.parametrize("number", DONE)
def test_the_acceptance_script_runs_unchanged(number: str, tmp_path: Path) -> None:
    if not FOLDER.is_dir():
        pytest.skip("no ../shared/acceptance beside this repository")
    (script,) = FOLDER.glob(f"{number}_*.py")
    command = [sys.executable, str(script)]
    done = subprocess.run(command, cwd=tmp_path, env=dict(os.environ), capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "ok"
