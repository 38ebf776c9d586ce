"""Where files of traces lie, and whether one that is written is still the one of its name: people move files away and delete them while systems run."""

from __future__ import annotations

import os
from pathlib import Path

from retinue.actors.tracing.errors import TraceFileUnusable
from retinue.security.private_files import Unfit, check_place

__all__ = ["Identity", "check_folder_of", "identity_of", "is_at"]

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


def check_folder_of(path: Path) -> None:
    """Makes a file's folder where there is none. Raises TraceFileUnusable for one in which anybody can put another file in its place, and OSError."""
    folder = path.parent
    if not folder.exists():
        folder.mkdir(mode=0o700, parents=True)
    try:
        check_place(folder)
    except Unfit as unfit:
        raise TraceFileUnusable(f"{path}: its folder {folder} {unfit}") from None
