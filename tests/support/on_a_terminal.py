"""A command of ours on a pseudo-terminal: what a person sees, and types."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from types import TracebackType
from typing import Self

__all__ = ["OnATerminal"]

_LEFT_OUT = {"PYTHONIOENCODING", "COLUMNS", "FORCE_COLOR", "TTY_COMPATIBLE", "OPENAI_BASE_URL", "OPENAI_API_KEY", "RETINUE_MODEL"}


class OnATerminal:
    """`python -m retinue …` with a terminal for standard input, output and errors; killed at the end of the block, should it still live.

    Attributes:
        output: What was written until now.
    """

    def __init__(self, *arguments: str, **variables: str) -> None:
        self._master, slave = pty.openpty()
        kept = {name: value for name, value in os.environ.items() if name not in _LEFT_OUT}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "retinue", *arguments],
            env=kept | {"TERM": "xterm-256color", "COLUMNS": "100", "LINES": "40"} | variables,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
        )
        os.close(slave)
        self.output = ""
        self._seen = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._process.kill()
        self._process.wait(30)
        os.close(self._master)

    def type(self, line: str) -> None:
        """Types a line."""
        os.write(self._master, line.encode() + b"\n")

    def interrupt(self, until: str | None) -> None:
        """Ctrl-C, until the pattern is there (None: the end). One that comes just before readline waits is not noticed before the next key or the next Ctrl-C."""
        for _ in range(20):
            self._process.send_signal(signal.SIGINT)
            try:
                self.read_until(until, 3.0)
            except AssertionError:
                continue
            return
        raise AssertionError(f"not seen after Ctrl-C: {until}\n{self.output}")

    def hang_up(self) -> None:
        """Ctrl-D on an empty line."""
        os.write(self._master, b"\x04")

    def read_until(self, pattern: str | None, seconds: float = 60.0) -> str:
        """Reads until the pattern is there, behind what was found before; with None, to the end. Returns what stands up to there."""
        end = time.monotonic() + seconds
        while True:
            found = None if pattern is None else re.search(pattern, self.output[self._seen :])
            if found is not None:
                begin, self._seen = self._seen, self._seen + found.end()
                return self.output[begin : self._seen]
            ready, _, _ = select.select([self._master], [], [], max(0.0, end - time.monotonic()))
            assert ready, f"not seen within {seconds} s: {pattern}\n{self.output}"
            try:
                data = os.read(self._master, 65536)
            except OSError:  # the other side is closed
                data = b""
            if not data:
                assert pattern is None, self.output
                return self.output[self._seen :]
            self.output += data.decode("utf-8", "replace")

    def finish(self) -> int:
        """Reads to the end. Returns the exit code."""
        self.read_until(None)
        return self._process.wait(30)
