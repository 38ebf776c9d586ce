"""The acceptance scripts, which fix the public names, run unchanged. They lie beside the repository and not in it: absent, they are skipped."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from fork_server import ForkServer

FOLDER = Path(__file__).resolve().parents[2] / "shared" / "acceptance"
DONE = ("01", "02", "03", "04", "05", "06", "07", "08", "09", "10", "11")


@pytest.fixture(scope="module")
def forks() -> Iterator[ForkServer]:
    """What runs programs without loading the libraries for each."""
    server = ForkServer(dict(os.environ))
    yield server
    server.close()


@pytest.mark.parametrize("number", DONE)
def test_the_acceptance_script_runs_unchanged(number: str, tmp_path: Path, forks: ForkServer) -> None:
    if not FOLDER.is_dir():
        pytest.skip("no ../shared/acceptance beside this repository")
    (script,) = FOLDER.glob(f"{number}_*.py")
    done = forks.run(script, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "ok"
