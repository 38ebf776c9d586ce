"""What an agent is called."""

from __future__ import annotations

__all__ = ["own_name"]


def own_name(path: str) -> str:
    """What whoever lives at a path signs with: its last part, without what tells a member of a team from one that was there before it."""
    return path.rpartition("/")[2].partition("~~")[0]
