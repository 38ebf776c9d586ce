"""A copy of the package without any line that looks for a tracer: what "off" is measured against."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Final

import attrs

from benchmarks.harness import BrokenBlock

__all__ = ["ROOT", "Bare", "make_bare"]

ROOT: Final = Path(__file__).parents[2]
ROOMS: Final = ("actors", "capabilities", "mailbox", "security")

_ASKED: Final = re.compile(r"(?<![\w.])[\w.]*\b(?:tracer|postmark\.span) is not None")
"""Where code asks whether somebody traces. With False in its place CPython's compiler leaves the branch out."""

_WHERE: Final = ("actors/runtime", "actors/agents", "actors/llm", "actors/tools")

FEWEST: Final = 10
"""Such places there are at least: fewer, and the code reads differently from what is looked for here."""


@attrs.frozen
class Bare:
    """The copy.

    Attributes:
        path: What PYTHONPATH has to hold.
        places: Questions that were taken out.
    """

    path: Path
    places: int


def make_bare(folder: Path) -> Bare:
    """Copies the package, as it is when installed, into a folder, and takes the questions out.

    Raises:
        BrokenBlock: They were not found.
    """
    package = folder / "lib" / "retinue"
    ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
    shutil.copytree(ROOT / "src" / "retinue", package, ignore=ignored)
    for room in ROOMS:
        shutil.copytree(ROOT / room, package / room, ignore=ignored)
    places = 0
    for where in _WHERE:
        for file in (package / where).rglob("*.py"):
            text, found = _ASKED.subn("False", file.read_text(encoding="utf-8"))
            if found:
                file.write_text(text, encoding="utf-8")
                places += found
    if places < FEWEST:
        raise BrokenBlock(f"{places} places ask for a tracer, and {FEWEST} are known: benchmarks/swarm/bare.py does not fit the code")
    return Bare(folder / "lib", places)
