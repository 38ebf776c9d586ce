"""Floor 3: what can be done, and the gate in front of it. Knows messages and authority, nothing of actors."""

from __future__ import annotations

from retinue.capabilities.gate import Gate, GateStatistics

__all__ = ["Gate", "GateStatistics"]
