"""Where an agent's sessions keep what they remember: outside the actors that work on it, so that a restart or a rest loses nothing."""

from __future__ import annotations

import logging
from collections import Counter, OrderedDict
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from retinue.actors.agents.state import EMPTY, SessionState

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from retinue.actors.agents.leaving import Left

__all__ = ["Keeper"]

_log = logging.getLogger("retinue.agents")

MOST_LEFT: Final = 10_000
"""Messages and requests that are left of runs, and wait for their subjects; more, and those of whoever has not asked for the longest time are forgotten."""


class Keeper:
    """The states of one agent's sessions, by key; in memory, and bounded.

    Args:
        most: How many sessions are remembered. One more, and the one that was not used for the longest time is forgotten; those in which a run is parked come last.

    Attributes:
        left: What is left of runs that were given up, by subject and tenant, where nobody could be told; see `leaving`.
        user: The path of the agent whose sessions these are now: a member that was edited has another than before.
    """

    __slots__ = ("_parked", "_requests", "_size", "_states", "_warned", "left", "most", "user")

    def __init__(self, most: int) -> None:
        self.most = most
        self.left: OrderedDict[tuple[str, str | None], list[Left]] = OrderedDict()
        self._states: OrderedDict[str, SessionState] = OrderedDict()
        self._parked: OrderedDict[str, SessionState] = OrderedDict()
        self.user = ""
        self._warned = False
        self._size = 0  # of what is left
        self._requests: Counter[str] = Counter()  # what people are asked for those that are parked

    def __len__(self) -> int:
        return len(self._states) + len(self._parked)

    @property
    def parks(self) -> bool:
        """Whether a run is parked in any of the sessions."""
        return bool(self._parked)

    def get(self, key: str) -> SessionState:
        """What a session remembers; of one that was never used: nothing."""
        state = self._states.get(key)
        return self._parked.get(key, EMPTY) if state is None else state

    def put(self, key: str, state: SessionState) -> None:
        """Replaces what a session remembers."""
        states, others = (self._parked, self._states) if state.parked else (self._states, self._parked)
        if others:
            before = others.pop(key, None)
            if before is not None and before.parked:
                self._count_requests(before, -1)
        if states is self._parked:
            before = states.get(key)
            if before is not None:
                self._count_requests(before, -1)
            self._count_requests(state, 1)
        states[key] = state
        states.move_to_end(key)
        if len(states) + len(others) > self.most:
            self._forget()

    def drop(self, key: str) -> None:
        """Forgets a session."""
        self._states.pop(key, None)
        parked = self._parked.pop(key, None)
        if parked is not None:
            self._count_requests(parked, -1)

    def take_parked(self) -> list[SessionState]:
        """The sessions in which a run is parked; they are forgotten."""
        found = list(self._parked.values())
        self._parked.clear()
        self._requests.clear()
        return found

    def waits(self, request: str) -> bool:
        """Whether a run of any of the sessions waits for a person's answer to this request: those that are alike have one for all of them."""
        return request in self._requests

    @contextmanager
    def waiting(self, requests: Iterable[str]) -> Iterator[None]:
        """A run waits for them that is not parked."""
        mine = list(requests)
        self._count(mine, 1)
        try:
            yield
        finally:
            self._count(mine, -1)

    def _count_requests(self, state: SessionState, by: int) -> None:
        for parked in state.parked.values():
            self._count(parked.asked, by)

    def _count(self, requests: Iterable[str], by: int) -> None:
        counts = self._requests
        for request in requests:
            counts[request] += by
            if not counts[request]:
                del counts[request]

    def leave(self, left: Left) -> None:
        """Something is left of a run, until its subject asks again."""
        if not left.size:
            return
        owner = left.owner[:2]
        self.left.setdefault(owner, []).append(left)
        self.left.move_to_end(owner)
        self._size += left.size
        while self._size > MOST_LEFT:
            self.take_left(*next(iter(self.left)))

    def take_left(self, subject: str, tenant: str | None) -> list[Left]:
        """What is left for a subject; it is that no more."""
        found = self.left.pop((subject, tenant), [])
        self._size -= sum(left.size for left in found)
        return found

    def _forget(self) -> None:
        _, state = (self._states or self._parked).popitem(last=False)
        self._count_requests(state, -1)
        for parked in state.parked.values():
            self.leave(parked.left())
        if not self._warned:
            self._warned = True
            _log.warning(
                "an agent has more than %d sessions: those that were not used for the longest time are forgotten (sessions=)", self.most
            )
