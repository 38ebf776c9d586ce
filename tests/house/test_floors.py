"""Each floor imports only from the floors below it. `.ci/run` has import-linter hold the same on the installed wheel, chains included."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from housekeeping import FACADE, FLOORS, ROOT, import_name, source_files, statements


def imports_of(source: str, package: str) -> set[str]:
    """Return the modules that a module of the package imports; of `from retinue import x` it is `retinue.x`; relative names are made absolute."""
    found: set[str] = set()
    for node in statements(source):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, *([node.module] if node.module else [])])
            found |= {f"{base}.{alias.name}" for alias in node.names} if base == "retinue" else {base}
    return found


def floor_of(name: str) -> int:
    parts = name.split(".")
    return FLOORS.get(parts[1], FACADE) if len(parts) > 1 else FACADE


def upward_imports(source: str, module: str, package: str) -> set[str]:
    return {name for name in imports_of(source, package) if name.split(".")[0] == "retinue" and floor_of(name) > floor_of(module)}


def package_of(path: Path) -> str:
    name = import_name(path)
    return name if path.name == "__init__.py" else name.rpartition(".")[0]


@pytest.mark.parametrize("path", source_files(), ids=import_name)
def test_a_module_imports_only_from_its_floor_and_those_below(path: Path) -> None:
    assert upward_imports(path.read_text(encoding="utf-8"), import_name(path), package_of(path)) == set()


@pytest.mark.parametrize(
    "source",
    [
        "import retinue",
        "import retinue as rt",
        "from retinue import ActorSystem",
        "import retinue.actors",
        "from retinue.mailbox import wire",
        "from ..actors import x",
    ],
)
def test_an_upward_import_would_be_found(source: str) -> None:
    assert upward_imports(source, "retinue.security.context", "retinue.security")


@pytest.mark.parametrize(
    "source", ["import trio", "from retinue.security import errors", "from retinue.security.errors import Denied", "from . import errors"]
)
def test_a_level_or_downward_import_is_fine(source: str) -> None:
    assert upward_imports(source, "retinue.security.context", "retinue.security") == set()


def python_files_that_may_meet_the_root() -> list[Path]:
    folders = ("src", "actors", "capabilities", "mailbox", "security", "examples", "tests", "benchmarks")
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py") if "__pycache__" not in path.parts)


def test_nothing_imports_a_room_under_its_bare_name() -> None:
    """`import mailbox` would be the standard library's module, or shadow it."""
    bare = {}
    may_be = re.compile(rf"\b(?:import|from)\s+(?:[\w., ]*,\s*)?(?:{'|'.join(FLOORS)})\b")
    for path in python_files_that_may_meet_the_root():
        source = path.read_text(encoding="utf-8")
        if not may_be.search(source):  # parsing is what takes the time
            continue
        names = {name.split(".")[0] for name in imports_of(source, "x")}
        if names & set(FLOORS):
            bare[str(path.relative_to(ROOT))] = names & set(FLOORS)
    assert bare == {}


def test_the_actor_core_imports_none_of_the_stock_actors() -> None:
    allowed = (
        "retinue.actors.runtime",
        "retinue.actors.hosts",
        "retinue.actors.approvals",
        "retinue.actors.store",
        "retinue.actors.tracing",
    )
    wrong = set()
    for path in (ROOT / "actors" / "runtime").rglob("*.py"):
        names = {name for name in imports_of(path.read_text(encoding="utf-8"), package_of(path)) if name.startswith("retinue.actors")}
        wrong |= {(path.name, name) for name in names if not name.startswith(allowed)}
    assert wrong == set()
