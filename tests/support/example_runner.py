"""Runs an example as a user does: `python examples/NAME.py`, at the root of the repository."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from types import ModuleType

from housekeeping import ROOT


def run_example(name: str, *arguments: str, code: int = 0, stdin: str = "") -> str:
    """Return what the example printed. Fails where it ended with another exit code, took too long, or left something unexpected behind."""
    done = run(name, *arguments, stdin=stdin)
    assert done.returncode == code, f"{name} ended with {done.returncode}\n{done.stdout}{done.stderr}"
    assert "Traceback" not in done.stderr, done.stderr
    assert "never awaited" not in done.stderr, done.stderr
    return done.stdout


def environ() -> dict[str, str]:
    """The environment of an example."""
    return {**os.environ, "PYTHONWARNINGS": "default"}


def run(name: str, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "examples" / f"{name}.py"), *arguments]
    return subprocess.run(command, cwd=ROOT, env=environ(), capture_output=True, text=True, check=False, timeout=60, input=stdin)


def load_example(name: str) -> ModuleType:
    """The example as a module, for tests of its actors."""
    known = sys.modules.get(f"example_{name}")
    if known is not None:
        return known
    spec = importlib.util.spec_from_file_location(f"example_{name}", ROOT / "examples" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
