"""The order of trio's tasks, from a seed: trio shuffles what is ready at each pass, with a generator of its own, which is private. It is seeded here, and put back."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from typing import Any

from retinue.actors.runtime.scheduler import run_seed
from retinue.security.errors import DefinitionError

__all__ = ["deterministic"]


@contextlib.contextmanager
def deterministic(seed: int) -> Iterator[bool]:
    """Makes trio take ready tasks in a pseudo-random order that is the same for the same seed; around a `trio.run`, not inside one.

        with deterministic(7):
            trio.run(main)

    `ActorSystem(seed=7)` does the same for the order in which actors get their turns; both together repeat a run that depends on neither threads nor sockets nor real clocks.
    trio has one generator for the whole process: other runs beside this one, in other threads, draw from it too.

    Args:
        seed: Any whole number.

    Yields:
        Whether it works with this version of trio. It warns (RuntimeWarning) where it does not, and the order is random then.

    Raises:
        DefinitionError: The seed is no whole number.
    """
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise DefinitionError(f"deterministic({seed!r}): give a whole number")
    run = _trios()
    if run is None:
        warnings.warn(
            "this version of trio does not let its scheduler be seeded: the order of tasks stays random", RuntimeWarning, stacklevel=3
        )
        yield False
        return
    token = run_seed.set(seed)
    allowed, state = run._ALLOW_DETERMINISTIC_SCHEDULING, run._r.getstate()
    run._ALLOW_DETERMINISTIC_SCHEDULING = True
    run._r.seed(seed)
    try:
        yield True
    finally:
        run_seed.reset(token)
        run._ALLOW_DETERMINISTIC_SCHEDULING = allowed
        run._r.setstate(state)


def _trios() -> Any:
    """The module of trio's that has the scheduler's generator; None where it has not."""
    try:
        from trio._core import _run
    except ImportError:
        return None
    needed = ("seed", "getstate", "setstate")
    generator = getattr(_run, "_r", None)
    return _run if hasattr(_run, "_ALLOW_DETERMINISTIC_SCHEDULING") and all(hasattr(generator, name) for name in needed) else None
