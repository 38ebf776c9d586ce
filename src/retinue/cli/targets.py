"""Finding what a user names on the command line: a module, or `module:function`."""

from __future__ import annotations

import importlib
import inspect
import os
import pkgutil
import sys
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from types import ModuleType
from typing import cast

import click

__all__ = ["find_function", "import_target"]


def import_target(name: str) -> ModuleType:
    """Import a module by its dotted name, from the current folder too.

    Raises:
        click.UsageError: There is no such module (the text suggests the nearest names). The exit code is 2. An error inside the module is not caught:
            its traceback says where it is.
    """
    here = os.getcwd()  # noqa: PTH109 - an entry of sys.path is a string
    if here not in sys.path:
        sys.path.insert(0, here)
    if not all(part.isidentifier() for part in name.split(".")):
        raise click.UsageError(f"{name!r} is not a module's name: write it with dots and without .py, as in `package.module`")
    if name.endswith(".py"):
        raise click.UsageError(f"{name!r} is a file, and a module's name is wanted: write {name.removesuffix('.py')!r}")
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(error.name + ".")):
            raise  # the module is there; something that it imports is not
        missing = error.name
    parent = missing.rpartition(".")[0]
    nearest = _nearest(missing, _modules_in(parent))
    raise click.UsageError(f"no module named {missing!r} here or among the installed ones{nearest}")


def find_function(spec: str) -> Callable[..., object]:
    """Return the function that `module:function` names; the function may be an attribute of one (`module:Class.method`).

    Raises:
        click.UsageError: The spec is malformed, there is no such module or function (the text suggests the nearest names), or what it names is no
            function: a class, say. The exit code is 2.
    """
    module_name, colon, path = spec.partition(":")
    if not (module_name and colon and path):
        raise click.UsageError(f"{spec!r} is not of the form module:function, as in `examples.counter:main`")
    target: object = import_target(module_name)
    where = module_name
    for part in path.split("."):
        if not hasattr(target, part):
            callables = [name for name, value in vars(target).items() if callable(value) and not name.startswith("_")]
            raise click.UsageError(f"{where} has no {part!r}{_nearest(part, callables)}")
        target = getattr(target, part)
        where = f"{where}.{part}"
    _check_function(target, spec)
    return cast("Callable[..., object]", target)


def _check_function(target: object, spec: str) -> None:
    if isinstance(target, type):
        from retinue.actors.runtime.actor import Actor

        if issubclass(target, Actor):
            advice = f"`async def main(system)` that spawns it: await system.spawn({target.__name__})"
        else:
            advice = f"a function that makes and uses it, or a method that needs no instance ({spec}.method)"
        raise click.UsageError(f"{spec} is a class, and making an instance would do nothing: name {advice}")
    if not callable(target):
        raise click.UsageError(f"{spec} is {type(target).__name__}, which cannot be called")
    if inspect.isgeneratorfunction(target) or inspect.isasyncgenfunction(target):
        raise click.UsageError(f"{spec} is a generator, and calling it would do nothing: name a function that reads it")


def _modules_in(parent: str) -> Iterable[str]:
    """Return the names of the modules in a package, or of all top-level ones."""
    if not parent:
        return [found.name for found in pkgutil.iter_modules()]
    path = getattr(sys.modules.get(parent), "__path__", None)
    return [f"{parent}.{found.name}" for found in pkgutil.iter_modules(path)] if path is not None else []


def _nearest(name: str, candidates: Iterable[str]) -> str:
    matches = get_close_matches(name, list(candidates), n=2, cutoff=0.7)
    return f"; did you mean {' or '.join(matches)}?" if matches else ""
