"""The two ways down to a file, for tests that must hold on both."""

from __future__ import annotations

import errno
import os

import pytest

from retinue.security import beneath_walk


def no_openat2(*_: object) -> int:
    """Answer as an old kernel does."""
    raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))


def use_way(way: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Have all openings go one way only, "openat2" or "walk"; skips the test where the kernel has no such call."""
    if way == "walk":
        monkeypatch.setattr(beneath_walk, "openat2", no_openat2)
        return way
    here = os.open("/", os.O_RDONLY)
    try:
        os.close(beneath_walk.openat2(here, "tmp", beneath_walk.HANDLE | os.O_CLOEXEC, 0, 0))
    except OSError:
        pytest.skip("this kernel, or a sandbox, has no openat2")
    finally:
        os.close(here)

    def walk(*_: object, **__: object) -> int:
        raise AssertionError("the walk was used although openat2 is there")

    monkeypatch.setattr(beneath_walk, "_walk", walk)
    return way
