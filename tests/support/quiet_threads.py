"""What the tests of threads share: which threads of ours are alive, and waiting for them to end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pykka
import trio

PATIENCE = 30.0
"""Seconds after which a test gives up on something that should happen at once."""


def our_threads() -> list[threading.Thread]:
    """The threads that a system has started, its loop's and its actors'."""
    return [thread for thread in threading.enumerate() if thread.name.startswith("retinue ")]


def nothing_is_left() -> bool:
    """Whether no thread of ours is alive and pykka knows no actor; waits a while for those that are just ending."""
    end = time.monotonic() + PATIENCE
    while our_threads() or pykka.ActorRegistry.get_all():
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True


def open_after(seconds: float) -> threading.Event:
    """An event that a timer sets, should the test fail to: no thread of a failing test waits for ever."""
    event = threading.Event()
    timer = threading.Timer(seconds, event.set)
    timer.daemon = True
    timer.name = "test timer"
    timer.start()
    return event


async def until(condition: Callable[[], object]) -> None:
    """Wait under trio until something that another thread brings about is so; for what no event tells of."""
    with trio.fail_after(PATIENCE):
        while not condition():
            await trio.sleep(0.001)
