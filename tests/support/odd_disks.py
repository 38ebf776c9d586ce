"""Disks that are full, and users that may do nothing: what the tests of files that cannot be used share."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest


@contextlib.contextmanager
def disk_of(place: Path, kib: int) -> Iterator[Path]:
    """A disk of so many KiB, mounted at a new folder; the test is skipped where none can be made."""
    place.mkdir()
    can = os.geteuid() == 0 and shutil.which("mount") is not None
    command = ["mount", "-t", "tmpfs", "-o", f"size={kib}k", "tmpfs", place]
    if not can or subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("no small disk can be mounted here")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", place], check=True)


def as_nobody(function: Callable[[], str]) -> str:
    """What the function returns in a process of a user without rights; the root user's rights would make any file writable."""
    if os.geteuid() != 0:
        return function()
    readable, writable = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgid(65534)
            os.setuid(65534)
            answer = function()
        except BaseException as error:
            answer = f"{type(error).__name__}: {error}"
        os.write(writable, answer.encode())
        os._exit(0)
    os.close(writable)
    os.waitpid(child, 0)
    with os.fdopen(readable, encoding="utf-8") as stream:
        return stream.read()
