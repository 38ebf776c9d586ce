"""Finds and loads the replay script, which is no part of this repository.

It knows AgentDojo's suites, replays their ground truths through a gate that it is given, and counts. The gate is what this package has.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

__all__ = ["DEFAULT", "Absent", "agentdojo_installed", "check", "load"]

DEFAULT = Path(__file__).parents[2].parent / "shared" / "tools" / "agentdojo_eval.py"
"""Where it is looked for: beside the repository."""

_NAME = "agentdojo_eval"


class Absent(Exception):
    """The script, or AgentDojo itself, is not here; the text says what to do."""


def agentdojo_installed() -> bool:
    """Whether AgentDojo can be imported. It is not: that takes seconds."""
    return importlib.util.find_spec("agentdojo") is not None


def check(path: Path | None = None) -> Path:
    """Where the script is, without loading it.

    Raises:
        Absent: It, or AgentDojo, is not here.
    """
    path = (path or DEFAULT).resolve()
    if not agentdojo_installed():
        raise Absent("AgentDojo is not installed: pip install '.[agentdojo]'")
    if not path.is_file():
        raise Absent(f"the replay script is no part of this repository, and there is none at {path}: name it with --script PATH")
    return path


def load(path: Path | None = None) -> ModuleType:
    """The script as a module, the same one each time: its verdicts are compared by identity, so a second import would compare unequal.

    Raises:
        Absent: It, or AgentDojo, is not here.
    """
    path = check(path)
    loaded = sys.modules.get(_NAME)
    if loaded is not None:
        if Path(loaded.__file__ or "").resolve() != path:
            raise Absent(f"another replay script was loaded in this process already ({loaded.__file__})")
        return loaded
    spec = importlib.util.spec_from_file_location(_NAME, path)
    if spec is None or spec.loader is None:
        raise Absent(f"{path} is no Python file: name the replay script with --script PATH")
    module = importlib.util.module_from_spec(spec)
    sys.modules[_NAME] = module  # first: its dataclasses look their own module up
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[_NAME]
        raise
    return module
