"""The pytest plugin of the testing kit; pytest loads it by itself (the entry point `retinue`).

Loading it imports nothing of the actor core and no trio: a test run that uses no actors pays nothing for it.
"""

from __future__ import annotations

__all__: list[str] = []
