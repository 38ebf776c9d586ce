"""The repository's shape: see house.md's rules in the docstrings of each test."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

from housekeeping import ROOT, SOURCE_FOLDERS, all_files, import_name, pyproject, source_files, statements

MOST_LINES_A_FILE = 600
MOST_LINES_A_FUNCTION = 80


def test_the_package_list_equals_the_folders_on_disk() -> None:
    on_disk = sorted({import_name(path) for path in source_files() if path.name == "__init__.py"})
    assert pyproject()["tool"]["setuptools"]["packages"] == on_disk


def test_every_folder_with_modules_is_a_package() -> None:
    folders = {path.parent for path in source_files()}
    assert [str(folder) for folder in folders if not (folder / "__init__.py").is_file()] == []


def test_every_room_at_the_top_is_mapped_to_its_folder() -> None:
    mapping = pyproject()["tool"]["setuptools"]["package-dir"]
    assert mapping == {import_name(ROOT / folder / "__init__.py"): folder for folder in SOURCE_FOLDERS}


def test_no_folder_at_the_root_hides_the_installed_package() -> None:
    assert not (ROOT / "retinue").exists()
    assert not (ROOT / "retinue.py").exists()


def test_the_top_level_is_the_agreed_one() -> None:
    agreed = {"actors", "benchmarks", "capabilities", "docs", "examples", "mailbox", "security", "src", "tests"}
    passing = {"build", "dist", "venv"}  # made by tools, ignored by git
    folders = {path.name for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith(".")}
    assert {name for name in folders - agreed - passing if not name.endswith(".egg-info") and name != "__pycache__"} == set()


def test_test_folders_are_no_packages_and_their_files_have_unique_names() -> None:
    tests = [path for path in (ROOT / "tests").rglob("*.py") if "__pycache__" not in path.parts]
    assert [str(path) for path in tests if path.name == "__init__.py"] == []
    names = Counter(path.name for path in tests if path.name != "conftest.py")
    assert {name for name, count in names.items() if count > 1} == set()


def rooms() -> list[Path]:
    return sorted({path.parent for path in source_files() if path.name != "__init__.py"})


@pytest.mark.parametrize("room", rooms(), ids=import_name)
def test_every_room_has_its_folder_of_tests(room: Path) -> None:
    """`actors/runtime` is tested in `tests/runtime` or `tests/actors/runtime`; the modules of the façade itself in `tests/house`."""
    parts = import_name(room / "__init__.py").split(".")[1:]
    places = [ROOT / "tests" / Path(*parts[index:]) for index in range(len(parts))] or [ROOT / "tests" / "house"]
    found = [path for place in places for path in place.rglob("test_*.py")]
    assert found, f"no test in {' or '.join(str(place.relative_to(ROOT)) for place in places)}"


def test_no_file_is_too_long() -> None:
    lengths = {str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines()) for path in all_files()}
    assert {path: lines for path, lines in lengths.items() if lines > MOST_LINES_A_FILE} == {}


def functions_above(source: str, limit: int) -> dict[str, int]:
    if source.count("\n") < limit:
        return {}
    functions = [node for node in statements(source) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    lengths = {f"{node.name}, line {node.lineno}": (node.end_lineno or node.lineno) - node.lineno + 1 for node in functions}
    return {name: length for name, length in lengths.items() if length > limit}


def test_no_function_is_too_long() -> None:
    found = {str(path.relative_to(ROOT)): functions_above(path.read_text(encoding="utf-8"), MOST_LINES_A_FUNCTION) for path in all_files()}
    assert {path: functions for path, functions in found.items() if functions} == {}


def test_a_long_function_would_be_found() -> None:
    source = "class A:\n    async def long(self):\n" + "        pass\n" * MOST_LINES_A_FUNCTION
    assert functions_above(source, MOST_LINES_A_FUNCTION) == {"long, line 2": MOST_LINES_A_FUNCTION + 1}
