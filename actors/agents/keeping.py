"""Where an agent's sessions keep what they remember: outside the actors that work on it, so that a restart or a rest loses nothing."""

from __future__ import annotations

import logging
from collections import OrderedDict

from retinue.actors.agents.state import EMPTY, SessionState

__all__ = ["Keeper"]

_log = logging.getLogger("retinue.agents")


class Keeper:
    """The states of one agent's sessions, by key; in memory, and bounded.

    Args:
        most: How many sessions are remembered. One more, and the one that was not used for the longest time is forgotten; those in which a run is parked come last.
    """

    __slots__ = ("_parked", "_states", "_warned", "most")

    def __init__(self, most: int) -> None:
        self.most = most
        self._states: OrderedDict[str, SessionState] = OrderedDict()
        self._parked: OrderedDict[str, SessionState] = OrderedDict()
        self._warned = False

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
            others.pop(key, None)
        states[key] = state
        states.move_to_end(key)
        if len(states) + len(others) > self.most:
            self._forget()

    def drop(self, key: str) -> None:
        """Forgets a session."""
        self._states.pop(key, None)
        self._parked.pop(key, None)

    def _forget(self) -> None:
        (self._states or self._parked).popitem(last=False)
        if not self._warned:
            self._warned = True
            _log.warning(
                "an agent has more than %d sessions: those that were not used for the longest time are forgotten (sessions=)", self.most
            )
