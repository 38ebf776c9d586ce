"""What the tests of the house share: where things lie in the repository, and the list of its source files."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SOURCE_FOLDERS = ("src/retinue", "actors", "capabilities", "mailbox", "security")
FLOORS = {"security": 1, "mailbox": 2, "capabilities": 3, "actors": 4}  # anything else of `retinue` is the façade: 5
FACADE = 5


def pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def import_name(path: Path) -> str:
    """Return the name under which a source file is imported: `actors/runtime/ref.py` is `retinue.actors.runtime.ref`."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    parts = parts[1:] if parts[0] == "src" else ("retinue", *parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def source_files() -> list[Path]:
    """Return every module of the import package."""
    return sorted(path for folder in SOURCE_FOLDERS for path in (ROOT / folder).rglob("*.py") if "__pycache__" not in path.parts)


def all_files() -> list[Path]:
    """Return every Python file of the repository: the package, tests, examples, benchmarks, CI."""
    others = [path for folder in ("tests", "examples", "benchmarks", ".ci") for path in (ROOT / folder).rglob("*.py")]
    return sorted({*source_files(), *(path for path in others if "__pycache__" not in path.parts)})


def statements(source: str) -> Iterator[ast.AST]:
    """Yield every statement of a module, however deep. Definitions and imports are statements, and there are ten times fewer of these than of nodes."""
    waiting: list[ast.AST] = [ast.parse(source)]
    while waiting:
        node = waiting.pop()
        yield node
        for part in ("body", "orelse", "finalbody", "handlers", "cases"):
            waiting.extend(getattr(node, part, ()))
