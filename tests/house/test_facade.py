"""`import retinue`: lazy, complete, and the same to static tools as at run time."""

from __future__ import annotations

import ast
import importlib.metadata
import subprocess
import sys
import types
from pathlib import Path

import pytest

import retinue
from housekeeping import ROOT

HEAVY = {"asyncio", "cattrs", "click", "httpx", "pykka", "rich", "sqlite_utils", "tiktoken", "trio", "xllamacpp"}
FACADE_SOURCE = (ROOT / "src" / "retinue" / "__init__.py").read_text(encoding="utf-8")


def static_imports() -> dict[str, str]:
    """Return what a static tool sees: public name → the module that it is imported from."""
    for node in ast.parse(FACADE_SOURCE).body:
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            imports = [statement for statement in node.body if isinstance(statement, ast.ImportFrom)]
            return {alias.name: str(statement.module) for statement in imports for alias in statement.names}
    raise AssertionError("no `if TYPE_CHECKING:` in the façade")


def loaded_by(*arguments: str) -> set[str]:
    """Return the top-level names of all modules that a fresh interpreter loads."""
    command = [sys.executable, "-X", "importtime", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    names = [line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")]
    assert "retinue" in names
    return {name.split(".")[0] for name in names}


def test_static_tools_see_what_is_loaded_at_run_time() -> None:
    assert static_imports() == retinue._HOMES
    assert sorted({*retinue._HOMES, "__version__"}) == sorted(retinue.__all__)


def test_the_public_names_are_listed_once_and_in_order() -> None:
    assert retinue.__all__ == sorted(set(retinue.__all__))
    assert list(retinue._HOMES) == sorted(retinue._HOMES)


@pytest.mark.parametrize("name", retinue.__all__)
def test_every_public_name_is_there_and_documented(name: str) -> None:
    value = getattr(retinue, name)
    assert name in dir(retinue)
    assert isinstance(value, str) or (value.__doc__ or "").strip()


@pytest.mark.parametrize("name", sorted(retinue._HOMES))
def test_a_public_name_is_public_where_it_lives(name: str) -> None:
    value = getattr(retinue, name)
    # An alias of a type, or an object, has no module of its own.
    home = value.__module__ if isinstance(value, type | types.FunctionType) else retinue._HOMES[name]
    assert name in sys.modules[home].__all__


def test_a_value_is_fetched_once() -> None:
    first = retinue.AskTimeout
    assert vars(retinue)["AskTimeout"] is first


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Actr'"):
        _ = retinue.Actr


def test_the_version_is_the_installed_one() -> None:
    assert retinue.__version__ == importlib.metadata.version("retinue")


def test_importing_the_package_loads_nothing_heavy() -> None:
    assert loaded_by("-c", "import retinue") & HEAVY == set()


def test_importing_the_lowest_floors_loads_no_event_loop() -> None:
    assert loaded_by("-c", "import retinue.security, retinue.mailbox.errors") & {"trio", "httpx", "pykka", "rich", "click"} == set()


@pytest.mark.parametrize("arguments", [["--help"], ["version"], ["run", "--help"], ["doctor", "--help"]])
def test_the_command_lines_help_loads_nothing_heavy(arguments: list[str]) -> None:
    assert loaded_by("-m", "retinue", *arguments) & (HEAVY - {"click"}) == set()


def test_a_heavy_import_would_be_found() -> None:
    assert "trio" in loaded_by("-c", "import retinue, trio")


def test_the_package_is_marked_as_typed() -> None:
    assert (Path(retinue.__path__[0]) / "py.typed").is_file()
