"""Whether a file that is written is still the one of its name: people move files away and delete them while systems run."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["Identity", "identity_of", "is_at"]

Identity = tuple[int, int]


def identity_of(path: Path) -> Identity | None:
    """Which file stands there; None for none, or where that cannot be seen."""
    try:
        status = path.stat(follow_symlinks=False)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def is_at(path: Path, descriptor: int) -> bool:
    """Whether an open file is the one that stands there."""
    status = os.fstat(descriptor)
    return identity_of(path) == (status.st_dev, status.st_ino)
