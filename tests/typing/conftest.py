"""What the tests of static types share."""

from __future__ import annotations

import importlib
import shutil
from pathlib import Path

import pytest

import retinue

ROOMS = ("actors", "capabilities", "mailbox", "security")


@pytest.fixture(scope="session")
def search_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Where checkers find the package: a copy in one piece of an editable install, which they cannot follow; nothing for a wheel's."""
    (package,) = map(Path, retinue.__path__)
    if (package / "mailbox").is_dir():
        return ""
    folder = tmp_path_factory.mktemp("installed")
    shutil.copytree(package, folder / "retinue")
    for room in ROOMS:
        (source,) = importlib.import_module(f"retinue.{room}").__path__
        shutil.copytree(source, folder / "retinue" / room)
    return str(folder)
