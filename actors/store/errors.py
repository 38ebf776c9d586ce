"""The errors of the store."""

from __future__ import annotations

from typing import Literal

from retinue.security.errors import RetinueError

__all__ = ["StoreReason", "StoreUnavailable"]

StoreReason = Literal["busy", "locked", "full_disk", "read_only", "gone", "newer", "foreign", "closed", "failed", "unknown"]
"""Why a store could not do something; see `StoreUnavailable`."""


class StoreUnavailable(RetinueError):
    """The database cannot be used at the moment: what was asked was not done, unless `reason` is "unknown".

    Attributes:
        reason: "busy" (too much is waiting already), "locked" (another process holds it), "full_disk", "read_only", "gone" (the file was removed or replaced),
            "newer" (a later version of the schema), "foreign" (another program's database), "closed", "failed", or "unknown" (the commit may have happened).
    """

    def __init__(self, text: str, *, reason: StoreReason = "failed") -> None:
        super().__init__(text)
        self.reason: StoreReason = reason
