"""Disks that are full, and processes that may do nothing: what the tests of files that cannot be used share."""

from __future__ import annotations

import contextlib
import ctypes
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


def without_rights(function: Callable[[], str]) -> str:
    """What the function returns in a process that may only do what the modes of files let their owner do.

    The root user may write any file whatever its mode says. The process stays root, and gives up the capabilities (capset(2)) that make it so: as
    another user it could not even reach a folder of a test, where a folder above belongs to root alone.
    """
    if os.geteuid() != 0:
        return function()
    readable, writable = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            _give_up_capabilities()
            answer = function()
        except BaseException as error:
            answer = f"{type(error).__name__}: {error}"
        os.write(writable, answer.encode())
        os._exit(0)
    os.close(writable)
    os.waitpid(child, 0)
    with os.fdopen(readable, encoding="utf-8") as stream:
        return stream.read()


def _give_up_capabilities() -> None:
    version_3, this_thread = 0x20080522, 0
    header = (ctypes.c_uint32 * 2)(version_3, this_thread)
    none_of_them = (ctypes.c_uint32 * 6)()
    if ctypes.CDLL(None, use_errno=True).capset(header, none_of_them) != 0:
        raise OSError(ctypes.get_errno(), "the capabilities of root cannot be given up")
