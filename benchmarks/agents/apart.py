"""A contender in a process of its own: nobody's imports, heap and caches are in another's way. `python -m benchmarks.agents.apart NAME MEASURE COMMAND` is what runs there."""

from __future__ import annotations

import importlib
import json
import logging
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TextIO

from benchmarks.harness import Block, BrokenBlock, gc_policy

__all__ = ["Apart", "main"]

ROOT = Path(__file__).parents[2]

ENDING = 60.0
"""Seconds in which the process must end when it is told to."""


class Apart:
    """A contender whose blocks run in a process of its own, one after the other as they are asked for; a context manager. While others run theirs it waits for its input.

    Args:
        name: The contender.
        measure: Which of its blocks.
        command: The module whose `load` knows the contender.
        environment: Variables that its process has besides.

    Attributes:
        version, note: The contender's, as it says them itself.
        missing: Why it cannot run, where it cannot be imported; else "".
    """

    def __init__(
        self, name: str, measure: str, *, command: str = "benchmarks.agents.command", environment: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.agents.apart", name, measure, command],
            cwd=ROOT,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
        try:
            said = self._line()
        except BaseException:
            self._kill()
            raise
        self.missing: str = said.get("missing", "")
        self.version: str = said.get("version", "")
        self.note: str = said.get("note", "")

    @property
    def block(self) -> Block:
        """What it does, to be timed."""
        return Block(self._run, note=self.note)

    def _run(self, count: int) -> float:
        assert self._process.stdin is not None
        try:
            print(json.dumps({"count": count}), file=self._process.stdin, flush=True)
        except OSError:
            pass  # it has ended: what it said before is told
        return float(self._line()["seconds"])

    def _line(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise BrokenBlock(f"the process of {self.name} has ended with exit code {self._process.wait(ENDING)}; its error stands above")
        said: dict[str, Any] = json.loads(line)
        return said

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        try:
            if kind is None:
                assert self._process.stdin is not None
                self._process.stdin.close()
                self._process.wait(ENDING)
        finally:
            self._kill()

    def _kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None and not pipe.closed:
                pipe.close()


def main(name: str, measure: str, command: str) -> None:
    """Runs blocks of one contender as they are asked for, until the input ends."""
    logging.getLogger("retinue").addHandler(logging.NullHandler())
    logging.getLogger("retinue").propagate = False
    out, sys.stdout = sys.stdout, sys.stderr  # whatever a framework prints is no line of ours
    try:
        _serve(name, measure, command, out)
    finally:
        sys.stdout = out


def _serve(name: str, measure: str, command: str, out: TextIO) -> None:
    contenders, absent = importlib.import_module(command).load([name])
    if not contenders:
        print(json.dumps({"missing": absent[name]}), file=out, flush=True)
        return
    block = contenders[0].blocks[measure]
    print(json.dumps({"version": contenders[0].version, "note": block.note}), file=out, flush=True)
    with gc_policy("tuned"):
        for line in sys.stdin:
            print(json.dumps({"seconds": block.run(json.loads(line)["count"])}), file=out, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
