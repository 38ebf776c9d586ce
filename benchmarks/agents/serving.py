"""The endpoint's process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benchmarks.harness import BrokenBlock

__all__ = ["Serving"]

ROOT = Path(__file__).parents[2]
ENDING = 60.0
"""Seconds in which the endpoint must end when it is told to."""


class Serving:
    """`benchmarks.agents.server` in a process of its own; a context manager.

    Attributes:
        url: Its address.
        last: What it said at its end: what it has counted.
    """

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.agents.server"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
        self.last: dict[str, Any] = {}
        try:
            self.url = f"http://127.0.0.1:{self._line()['port']}/v1"
        except BaseException:
            self._kill()
            raise

    def _line(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise BrokenBlock(f"the endpoint has ended with exit code {self._process.wait(ENDING)}")
        said: dict[str, Any] = json.loads(line)
        return said

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        try:
            if kind is None:
                assert self._process.stdin is not None
                self._process.stdin.close()
                self.last = self._line()
                if self._process.wait(ENDING):
                    raise BrokenBlock(f"the endpoint has ended with exit code {self._process.returncode}")
        finally:
            self._kill()

    def _kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None and not pipe.closed:
                pipe.close()
