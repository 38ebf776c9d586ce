"""An endpoint of which nothing is known: the least that all understand."""

from __future__ import annotations

from retinue.actors.llm.profiles.profile import Profile

__all__ = ["GENERIC"]

GENERIC = Profile(name="generic", output_with_tools=False)
