"""The tree that `retinue.errors` opens with is the real one."""

from __future__ import annotations

import ast
import importlib
import re

import pytest

from housekeeping import import_name, source_files, statements
from retinue import errors

LINE = re.compile(r"^    (?P<branch>[│├└─ ]*)(?P<name>[A-Z]\w+)(?: \((?P<builtin>\w+)\))?$", re.MULTILINE)


def drawn() -> list[tuple[int, str, str | None]]:
    """Return the drawing's lines: depth, name, and the built-in error in brackets."""
    return [(len(match["branch"]) // 4, match["name"], match["builtin"]) for match in LINE.finditer(errors.__doc__ or "")]


def ours(cls: type[BaseException]) -> list[type[BaseException]]:
    return [sub for sub in cls.__subclasses__() if sub.__module__.startswith("retinue.")]


def real(cls: type[BaseException], depth: int = 0) -> set[tuple[int, str, str | None]]:
    builtin = next((base.__name__ for base in cls.__bases__ if base.__module__ == "builtins" and base is not Exception), None)
    return {(depth, cls.__name__, builtin)}.union(*(real(sub, depth + 1) for sub in ours(cls)))


@pytest.fixture(scope="module", autouse=True)
def _every_module_of_errors_is_loaded() -> None:
    for path in source_files():
        if path.name == "errors.py":
            importlib.import_module(import_name(path))


def test_the_drawing_equals_reality() -> None:
    assert set(drawn()) == real(errors.RetinueError)


def test_every_error_stands_in_a_module_of_errors() -> None:
    """Else the drawing could miss one: a module that nothing has imported yet."""
    elsewhere = set()
    for path in source_files():
        classes = [node for node in statements(path.read_text(encoding="utf-8")) if isinstance(node, ast.ClassDef)]
        bases = {(node.name, ast.unparse(base).rpartition(".")[2]) for node in classes for base in node.bases}
        elsewhere |= {f"{import_name(path)}.{name}" for name, base in bases if base in errors.__all__ and path.name != "errors.py"}
    assert elsewhere == set()


def test_every_error_hangs_under_its_own_parent_in_the_drawing() -> None:
    path: list[str] = []
    for depth, name, _ in drawn():
        path[depth:] = [name]
        if depth:
            assert path[depth - 1] in {base.__name__ for base in getattr(errors, name).__bases__}


def test_the_module_exports_exactly_what_is_drawn() -> None:
    names = [name for _, name, _ in drawn()]
    assert len(names) == len(set(names))
    assert sorted(names) == errors.__all__


@pytest.mark.parametrize("name", errors.__all__)
def test_every_error_says_in_its_docstring_what_it_means(name: str) -> None:
    assert (getattr(errors, name).__doc__ or "").strip()
