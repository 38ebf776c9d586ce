"""The memory that something takes, measured inside the process that takes it."""

from __future__ import annotations

import gc
import tracemalloc
from typing import Self

from benchmarks.machine import resident_bytes

__all__ = ["Meter"]


class Meter:
    """`with meter: make things`: what the process grew by meanwhile. Whatever is to be counted must be alive at the end.

    Attributes:
        traced: Whether allocations are counted (tracemalloc, which itself takes memory and time) or resident memory.
        grown: Bytes that were added, garbage collected before and after.
        total: Bytes the whole process held at the end; 0 when traced.
    """

    def __init__(self, *, traced: bool = False) -> None:
        self.traced = traced
        self.grown = 0
        self.total = 0
        self._before = 0

    def __enter__(self) -> Self:
        gc.collect()
        if self.traced:
            tracemalloc.start()
            self._before = tracemalloc.get_traced_memory()[0]
        else:
            self._before = resident_bytes()
        return self

    def __exit__(self, *_: object) -> None:
        gc.collect()
        if self.traced:
            self.grown = tracemalloc.get_traced_memory()[0] - self._before
            tracemalloc.stop()
        else:
            self.total = resident_bytes()
            self.grown = self.total - self._before
