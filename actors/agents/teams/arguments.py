"""What authors of teams give a run: looked at where it is given, so that what is wrong is named there."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from retinue.actors.agents.errors import BadInput

__all__ = ["close_all", "functions_of", "several"]


def several(given: object, name: str, path: str) -> tuple[Any, ...]:
    """What stands for several in `run.ask(…)`. Raises BadInput for what is no list or the like."""
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise BadInput(f"{path}: run.ask({name}=…) is a {type(given).__name__}: give a list")
    return tuple(given)


def functions_of(given: object, path: str) -> list[Callable[[], Awaitable[Any]]]:
    """What is to be called at the same time. Raises BadInput for what cannot be; coroutines among it are closed."""
    found: list[Any] = list(given) if isinstance(given, Iterable) and not isinstance(given, str | bytes) else [given]
    wrong = next((each for each in found if not callable(each)), None) if isinstance(given, Iterable) else given
    if wrong is not None:
        close_all(found)
        raise BadInput(
            f"{path}: run.together was given a {type(wrong).__name__}: give async functions without arguments, and do not call them, "
            '[functools.partial(run.ask, "writer", "Begin"), …]'
        )
    return found


def close_all(given: Any) -> None:
    """Closes coroutines that nobody will await."""
    for one in given if isinstance(given, list | tuple) else ():
        if inspect.iscoroutine(one):
            one.close()
