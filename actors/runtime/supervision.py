"""Supervision: what happens to an actor that fails."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, get_args

import attrs
import trio

from retinue.security.errors import DefinitionError
from retinue.security.spelling import names_the_nearest

if TYPE_CHECKING:
    from retinue.actors.runtime.cell import Cell

__all__ = ["DEFAULT_SUPERVISION", "Directive", "Strategy", "Supervision", "is_a", "leaves", "next_delay"]

Directive = Literal["resume", "restart", "stop", "escalate"]
Restart = Literal["permanent", "transient", "temporary"]
Strategy = Literal["one_for_one", "one_for_all", "rest_for_one"]

_STRENGTH: Mapping[str, int] = MappingProxyType({"resume": 0, "restart": 1, "stop": 2, "escalate": 3})
RESET_AFTER = 60.0
"""Seconds without a failure after which the delays start again from none."""
JITTER = 0.2
"""A delay is up to this share shorter or longer, so that actors that failed together do not come back together."""


def _frozen(value: Mapping[type[BaseException], Directive] | None) -> Mapping[type[BaseException], Directive]:
    return MappingProxyType(dict(value or {}))


@names_the_nearest
@attrs.frozen(eq=False)
class Supervision:
    """What happens when an actor fails. Given at its spawn; the words are Erlang's, the back-off Pekko's.

    Attributes:
        restart: "transient" (default): it is restarted when it fails, and stays stopped when it stops itself. "permanent": it is restarted then too (a
            stop by its parent or by the system's holder is for good all the same). "temporary": it is never restarted; a failure stops it.
        on: What an exception type leads to, instead of the restart: "resume" (the actor keeps its state and goes on), "restart", "stop", or "escalate" (its
            parent fails with it). The nearest type in the exception's class hierarchy decides; of an exception group the leaves, and the strongest wins.
        backoff: (first delay, longest delay) in seconds. The first restart happens at once, the second after the first delay, and so on doubling, each
            20 % shorter or longer by chance; 60 s of life without a failure start again from none. Default (0.1, 30).
        intensity: (restarts, seconds): more restarts in that time are one too many, and the failure escalates to the parent. Right under `/user` the actor
            is stopped instead, and nothing else with it. Default (10, 60).
        strategy: Who is restarted with it: "one_for_one" (default) nobody, "one_for_all" all siblings, "rest_for_one" the siblings spawned after it.
    """

    restart: Restart = "transient"
    on: Mapping[type[BaseException], Directive] = attrs.field(default=None, converter=_frozen)
    backoff: tuple[float, float] = (0.1, 30.0)
    intensity: tuple[int, float] = (10, 60.0)
    strategy: Strategy = "one_for_one"

    def __attrs_post_init__(self) -> None:
        for field, kinds in (("restart", Restart), ("strategy", Strategy)):
            if getattr(self, field) not in get_args(kinds):
                raise DefinitionError(
                    f"Supervision({field}={getattr(self, field)!r}) is unknown; choose one of {', '.join(get_args(kinds))}"
                )
        for kind, directive in self.on.items():
            if not (isinstance(kind, type) and issubclass(kind, BaseException)):
                raise DefinitionError(f"Supervision(on=…) maps exception classes to directives, and {kind!r} is no exception class")
            if directive not in get_args(Directive):
                raise DefinitionError(
                    f"Supervision(on={{{kind.__name__}: {directive!r}}}) is unknown; choose one of {', '.join(get_args(Directive))}"
                )
        _check_pair(
            "backoff",
            self.backoff,
            "(first delay, longest delay) in seconds, 0 ≤ first ≤ longest",
            lambda first, longest: 0 <= first <= longest < math.inf,
        )
        _check_pair(
            "intensity", self.intensity, "(restarts, seconds)", lambda count, seconds: count >= 0 and seconds > 0 and count == int(count)
        )

    def decide(self, error: BaseException) -> Directive:
        """What the error leads to."""
        usual: Directive = "stop" if self.restart == "temporary" else "restart"
        found: list[Directive] = [self._nearest(leaf, usual) for leaf in leaves(error)] or [usual]
        strongest = max(found, key=_STRENGTH.__getitem__)
        return "stop" if strongest == "restart" and self.restart == "temporary" else strongest

    def _nearest(self, leaf: BaseException, usual: Directive) -> Directive:
        for kind in type(leaf).__mro__:
            directive = self.on.get(kind)
            if directive is not None:
                return directive
        return usual


def _check_pair(field: str, value: Any, what: str, holds: Any) -> None:
    try:
        low, high = value
        good = not isinstance(low, bool) and not isinstance(high, bool) and holds(low, high)
    except (TypeError, ValueError, OverflowError):
        good = False
    if not good:
        raise DefinitionError(f"Supervision({field}={value!r}): give {what}")


DEFAULT_SUPERVISION = Supervision()


def is_a(error: BaseException, kinds: type[BaseException] | tuple[type[BaseException], ...]) -> bool:
    """`isinstance` by the real type: an exception's `__class__` may be anybody's code."""
    return issubclass(type(error), kinds)


def leaves(error: BaseException) -> Iterator[BaseException]:
    """The single exceptions in an exception group, however deep; an exception that is no group is its own leaf."""
    todo = [error]
    while todo:
        one = todo.pop()
        if is_a(one, BaseExceptionGroup):
            todo.extend(reversed(_PARTS(one)))
        else:
            yield one


_PARTS: Callable[[Any], tuple[BaseException, ...]] = BaseExceptionGroup.__dict__["exceptions"].__get__  # not a subclass's own idea of them


def next_delay(cell: Cell, luck: Any = random) -> float | None:
    """Counts a restart and says how many seconds it waits; None when there were too many.

    Kept in the cell: when the last failures happened, and the delay that was used last. An actor that waits to be restarted cannot fail, so the time
    without failure counts from its return.
    """
    supervision = cell.spec.supervision
    extra = cell.extras()
    now = trio.current_time()
    most, window = supervision.intensity
    history = extra.history
    calm = not history or now - history[-1] - extra.delay * (1 + JITTER) > RESET_AFTER
    while len(history) > 1 and now - history[0] > window:
        history.popleft()
    recent = len(history) if history and now - history[0] <= window else 0  # more than one are recent, all of them
    if recent >= most:
        return None
    first, longest = supervision.backoff
    wait = 0.0 if calm else min(max(extra.delay * 2, first), longest)
    extra.delay = wait
    history.append(now)
    share: float = luck.random()
    return wait * (1 + JITTER * (share * 2 - 1))
