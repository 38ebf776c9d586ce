"""Where an agent's sessions keep what they remember: outside the actors that work on it, so that a restart or a rest loses nothing."""

from __future__ import annotations

import logging
from collections import OrderedDict
from typing import Final

from retinue.actors.agents.state import EMPTY, SessionState

__all__ = ["Keeper"]

_log = logging.getLogger("retinue.agents")

LOOKED_AT: Final = 64
"""Sessions that are looked at, the longest unused first, for one that can be forgotten."""


class Keeper:
    """The states of one agent's sessions, by key; in memory, and bounded.

    Args:
        most: How many sessions are remembered. One more, and the one that was not used for the longest time is forgotten, unless a run is parked in it.
    """

    __slots__ = ("_most", "_states", "_warned")

    def __init__(self, most: int) -> None:
        self._most = most
        self._states: OrderedDict[str, SessionState] = OrderedDict()
        self._warned = False

    def __len__(self) -> int:
        return len(self._states)

    def get(self, key: str) -> SessionState:
        """What a session remembers; of one that was never used: nothing."""
        return self._states.get(key, EMPTY)

    def put(self, key: str, state: SessionState) -> None:
        """Replaces what a session remembers."""
        states = self._states
        states[key] = state
        states.move_to_end(key)
        if len(states) > self._most:
            self._forget()

    def drop(self, key: str) -> None:
        """Forgets a session."""
        self._states.pop(key, None)

    def _forget(self) -> None:
        oldest = next(iter(self._states))
        for number, (key, state) in enumerate(self._states.items()):
            if number >= LOOKED_AT:
                break
            if not state.parked:
                oldest = key
                break
        del self._states[oldest]
        if not self._warned:
            self._warned = True
            _log.warning(
                "an agent has more than %d sessions: those that were not used for the longest time are forgotten (sessions=)", self._most
            )
