"""The processes that are measured: each is `python -m benchmarks.border.server KIND`, says its port and its token on a line, and ends when its input does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benchmarks.harness import BrokenBlock

__all__ = ["Serving"]

ROOT = Path(__file__).parents[2]
ENDING = 60.0
"""Seconds in which a server must end when it is told to."""


class Serving:
    """A server in a process of its own.

    Args:
        kind: Which: a name that `benchmarks.border.server` knows.
        arguments: For it.

    Attributes:
        port: Where it listens, on 127.0.0.1.
        token: What it takes; "" where it asks for none.
        last: What it said at its end: what it has counted.
    """

    def __init__(self, kind: str, *arguments: str) -> None:
        command = [sys.executable, "-m", "benchmarks.border.server", kind, *arguments]
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8", bufsize=1
        )
        self.kind = kind
        self.last: dict[str, Any] = {}
        try:
            said = self._line()
        except BaseException:
            self._process.kill()
            self._process.wait()
            raise
        self.port: int = said["port"]
        self.token: str = said["token"]

    def _line(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise BrokenBlock(f"the server {self.kind!r} has ended with exit code {self._process.wait(ENDING)}")
        said: dict[str, Any] = json.loads(line)
        return said

    def say(self, word: str) -> dict[str, Any]:
        """Tells the server a word, and returns what it answers."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()
        return self._line()

    def cpu_seconds(self) -> float:
        """The processor time that all its threads have had, in seconds."""
        tasks = Path(f"/proc/{self._process.pid}/task")
        nanoseconds = sum(int((task / "schedstat").read_text(encoding="ascii").split()[0]) for task in tasks.iterdir())
        return nanoseconds / 1e9

    def resident_bytes(self) -> int:
        """The memory of it that is in RAM, in bytes."""
        pages = int(Path(f"/proc/{self._process.pid}/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def close(self) -> None:
        """Ends it, and keeps what it says at its end; it must end well."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self.last = self._line()
        if self._process.wait(ENDING):
            raise BrokenBlock(f"the server {self.kind!r} has ended with exit code {self._process.returncode}")
        assert self._process.stdout is not None
        self._process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        if kind is None:
            try:
                self.close()
                return
            finally:
                self._kill()
        self._kill()

    def _kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
