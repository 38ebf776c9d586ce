"""What is built holds everything: the wheel each module, the sdist the tests and examples too."""

from __future__ import annotations

import fcntl
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from housekeeping import ROOT, import_name, source_files

pytestmark = pytest.mark.slow

pytest.importorskip("build", reason="the `dev` extra is not installed")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the sdist, and from it the wheel, in the way that `python -m build` does."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--outdir", str(folder), str(ROOT)]
    with (ROOT / "pyproject.toml").open("rb") as project:
        fcntl.flock(project, fcntl.LOCK_EX)  # another worker may build at the same place
        subprocess.run(command, check=True, timeout=300, stdin=subprocess.DEVNULL)
    return folder


def module_path(source: Path) -> str:
    name = import_name(source).replace(".", "/")
    return f"{name}/__init__.py" if source.name == "__init__.py" else f"{name}.py"


def test_the_wheel_holds_every_module_and_nothing_else(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert {name for name in names if name.endswith(".py")} == {module_path(source) for source in source_files()}
    assert {"retinue/py.typed", "retinue/viewing/page.css", "retinue/viewing/page.js"} <= names


def test_the_wheel_carries_the_licence(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert any(name.endswith(".dist-info/licenses/LICENSE") for name in archive.namelist())


def test_the_sdist_holds_the_tests_the_examples_and_the_papers(built: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = [path for folder in ("tests", "examples", "benchmarks") for path in (ROOT / folder).rglob("*.py")]
    wanted += [ROOT / name for name in ("README.md", "CHANGELOG.md", "LICENSE", ".ci/run", "pyproject.toml")]
    missing = {str(path.relative_to(ROOT)) for path in wanted} - names
    assert missing == set()
    assert not [name for name in names if name.endswith(".pyc")]
