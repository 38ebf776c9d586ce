"""Floor 3: what can be done, and the gate in front of it. Knows messages and authority, nothing of actors.

`gate` decides, with what `policy` and `policy_file` (asked by `engine`), `registry` and `registry_providers`, and `budgets` know; `cases` and `snapshots` are its
own: one call in front of it, and the copy of a message that nobody else holds. `self_test` proves that it refuses.
"""

from __future__ import annotations

from retinue.capabilities.gate import Admission, Gate, GateStatistics

__all__ = ["Admission", "Gate", "GateStatistics"]
