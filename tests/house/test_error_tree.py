"""The tree that `retinue.errors` opens with is the real one."""

from __future__ import annotations

import re

import pytest

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


def public(tree: set[tuple[int, str, str | None]]) -> set[tuple[int, str, str | None]]:
    return {line for line in tree if not line[1].startswith("_")}


def test_the_drawing_equals_reality() -> None:
    assert set(drawn()) == public(real(errors.RetinueError))


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
