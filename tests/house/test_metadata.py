"""The project's papers agree with each other."""

from __future__ import annotations

import importlib.metadata
import re

import pytest

from housekeeping import ROOT, all_files, pyproject


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_the_changelog_speaks_of_this_version() -> None:
    newest = re.search(r"^## (\S+)", read("CHANGELOG.md"), re.MULTILINE)
    assert newest is not None
    assert newest[1] == pyproject()["project"]["version"]


def test_the_installed_package_is_this_one() -> None:
    assert importlib.metadata.version("retinue") == pyproject()["project"]["version"], "install it again: pip install -e ."


def test_the_licence_is_apache_2() -> None:
    assert pyproject()["project"]["license"] == "Apache-2.0"
    assert "Apache License" in read("LICENSE")
    assert "Version 2.0, January 2004" in read("LICENSE")


def test_the_oldest_python_is_the_one_that_the_tools_check() -> None:
    settings = pyproject()
    assert settings["project"]["requires-python"] == ">=3.11"
    assert settings["tool"]["mypy"]["python_version"] == "3.11"
    assert settings["tool"]["pyright"]["pythonVersion"] == "3.11"
    assert settings["tool"]["ruff"]["target-version"] == "py311"


def test_the_command_is_the_one_that_is_installed() -> None:
    (script,) = importlib.metadata.entry_points(group="console_scripts", name="retinue")
    from retinue.cli import main

    assert script.load() is main


@pytest.mark.parametrize("extra", ["charts", "local", "otlp", "test", "dev", "bench", "agentdojo"])
def test_the_extras_are_there(extra: str) -> None:
    assert extra in pyproject()["project"]["optional-dependencies"]


def test_no_file_names_a_place_on_one_machine() -> None:
    pattern = re.compile(r"(?<![\w.])/(?:home|root|Users|tmp|work)/\w")
    texts = [*all_files(), *ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "pyproject.toml", ROOT / ".ci" / "run"]
    found = {str(path.relative_to(ROOT)): pattern.findall(path.read_text(encoding="utf-8")) for path in texts}
    assert {path: places for path, places in found.items() if places} == {}
