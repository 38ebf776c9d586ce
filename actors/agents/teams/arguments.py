"""What authors of teams give a run: looked at where it is given, so that what is wrong is named there."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Any

from retinue.actors.agents.errors import BadInput
from retinue.security.errors import DefinitionError, RetinueError

__all__ = ["called", "check_call", "check_method", "close_all", "functions_of", "several"]


def several(given: object, name: str, path: str) -> tuple[Any, ...]:
    """What stands for several in `run.ask(…)`. Raises BadInput for what is no list or the like."""
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise BadInput(f"{path}: run.ask({name}=…) is a {type(given).__name__}: give a list")
    return tuple(given)


def functions_of(given: object, path: str) -> list[Callable[[], Awaitable[Any]]]:
    """What is to be called at the same time. Raises BadInput for what cannot be; coroutines among it are closed."""
    found: list[Any] = list(given) if isinstance(given, Iterable) and not isinstance(given, str | bytes) else [given]
    wrong = next((each for each in found if not callable(each)), None) if isinstance(given, Iterable) else given
    if wrong is None:
        _check_functions(found, path)
    else:
        close_all(found)
        raise BadInput(
            f"{path}: run.together was given a {type(wrong).__name__}: give async functions without arguments, and do not call them, "
            '[functools.partial(run.ask, "writer", "Begin"), …]'
        )
    return found


def _check_functions(found: Iterable[Any], path: str) -> None:
    """Raises BadInput where one of them needs arguments: before any of them has begun."""
    seen: set[Any] = set()
    for each in found:
        kind = (
            (id(each.func), len(each.args), *each.keywords) if isinstance(each, partial) else id(each)
        )  # many pieces of work are of one kind
        if kind not in seen:
            seen.add(kind)
            check_call(
                each, (), f"{path}: run.together", "give functions without arguments, functools.partial(function, …) or a lambda", BadInput
            )


def called(function: Callable[[], Any], where: str) -> Any:
    """What a function without arguments gives. Raises BadInput where it needs some."""
    try:
        return function()
    except TypeError:
        check_call(function, (), where, "give a function without arguments, functools.partial(function, …) or a lambda", BadInput)
        raise


def check_call(function: Any, told: Sequence[str], where: str, fix: str, error: type[RetinueError] = DefinitionError) -> None:
    """Looks whether a function can be called as it will be. Of one that does not say what it takes, as many in C do not, nothing is known.

    Args:
        function: The function; what is none is let pass.
        told: What it will be given, in order, in words.
        where: To whom it was given, and as what, for the error's text.
        fix: What would be right.
        error: The class of the error.

    Raises:
        DefinitionError: It cannot be called so. (Or `error`.)
    """
    found = _misfit(function, told)
    if found is not None:
        name, problem = found
        raise error(f"{where} is given the function {name}, and calls it with {_listed(told)}: {problem}; {fix}") from None


def check_method(method: Any, told: Sequence[str], fix: str) -> None:
    """Looks whether a method that an author has overridden can be called as it will be. Raises DefinitionError."""
    found = _misfit(method, told)
    if found is not None:
        name, problem = found
        raise DefinitionError(f"{name} is called with {_listed(told)}: {problem}; {fix}") from None


def _misfit(function: Any, told: Sequence[str]) -> tuple[str, str] | None:
    """A function that cannot be called so, and why."""
    try:
        signature = inspect.signature(function, follow_wrapped=False)  # a decorator may give it more than it is given itself
    except (TypeError, ValueError):
        return None
    try:
        signature.bind(*told)
    except TypeError as problem:
        name = getattr(function, "__qualname__", None) or type(function).__name__
        takes = [*(["self"] if inspect.ismethod(function) else []), *signature.parameters]  # and not their defaults, which may be anything
        return f"{name[:100]}({', '.join(takes)[:200]})", str(problem)
    return None


def _listed(told: Sequence[str]) -> str:
    return " and ".join(told) or "nothing"


def close_all(given: Any) -> None:
    """Closes coroutines that nobody will await."""
    for one in given if isinstance(given, list | tuple) else ():
        if inspect.iscoroutine(one):
            one.close()
