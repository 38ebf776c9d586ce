"""examples/ask_a_running_swarm.sh"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from housekeeping import ROOT

SCRIPT = ROOT / "examples" / "ask_a_running_swarm.sh"


@pytest.mark.slow
def test_a_shell_asks_a_swarm_that_is_served_and_leaves_nothing_behind(tmp_path: Path) -> None:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    environ = {**os.environ, "PATH": path, "TMPDIR": str(tmp_path)}
    done = subprocess.run(
        ["bash", str(SCRIPT)], cwd=tmp_path, env=environ, capture_output=True, text=True, encoding="utf-8", check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    article, refused = done.stdout.splitlines()
    answer = json.loads(article)
    assert answer["topic"] == "lighthouses"
    assert len(answer["notes"]) == 3
    assert answer["text"].startswith("Ask three people about lighthouses")
    assert refused == "exit code 1"
    assert "Denied" in done.stderr
    assert "model.complete" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_script_can_be_started_by_its_name() -> None:
    assert os.access(SCRIPT, os.X_OK)
    assert SCRIPT.read_text(encoding="utf-8").startswith("#!/usr/bin/env bash\n")
