"""Runs programs in processes of their own that need not load the libraries again: this one has them, and forks for each program.

Started with nothing in it but what stands below, and it starts no thread. What a program prints and how it ends is what it would as `python PROGRAM`. Of the
package it finds the rooms loaded, but not the modules that users import: a program that forgets such an import fails here as anywhere.

A line on standard input names a program, its folder, and the files for its output and errors, as JSON; a line on standard output gives the exit code.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import runpy
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

PRELOAD = (
    *("asyncio", "attrs", "docstring_parser", "httpx", "pkgutil", "pykka", "sqlite3", "trio"),
    *(
        "retinue.actors.runtime.system",
        "retinue.actors.approvals.office",
        "retinue.capabilities.self_test",
        "retinue.capabilities.tool_making",
    ),
    *("retinue.actors.agents.agent", "retinue.actors.agents.teams.team", "retinue.actors.llm.deployment", "retinue.actors.llm.scripted"),
    *("retinue.actors.runtime.pools", "retinue.actors.runtime.virtual", "retinue.actors.tools.executor", "retinue.actors.tracing.tracing"),
    *("retinue._twin", "retinue._twin_approvals", "retinue._twin_books", "retinue._twin_joining"),
)


class ForkServer:
    """The test's end of it.

    Args:
        environ: The environment of the programs.
    """

    def __init__(self, environ: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ, bufsize=1
        )

    def run(self, program: Path, folder: Path) -> subprocess.CompletedProcess[str]:
        """Run a program in a folder, with nothing on its standard input. A program that hangs is ended by the test's own time-out."""
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        out, err = folder / "stdout.forked", folder / "stderr.forked"
        process.stdin.write(json.dumps([str(program), str(folder), str(out), str(err)]) + "\n")
        answer = process.stdout.readline()
        assert answer, "the process that forks has ended"
        texts = [file.read_text(encoding="utf-8") for file in (out, err)]
        return subprocess.CompletedProcess([str(program)], int(answer), *texts)

    def close(self) -> None:
        """End it."""
        self._process.communicate(timeout=60)


def serve() -> str | None:
    """Fork for each line; return the program in the fork, and None at the end."""
    for line in sys.stdin:
        program, folder, out, err = json.loads(line)
        child = os.fork()
        if not child:
            os.chdir(folder)
            for number, path in ((1, out), (2, err)):
                os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), number)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            sys.stdin = open(0, encoding="utf-8")  # noqa: SIM115 - the program's, to its end
            return str(program)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)
    return None


def load(names: tuple[str, ...]) -> None:
    for name in names:
        __import__(name)


def leave() -> None:
    """End as the interpreter does, in its order, but for taking apart all that was loaded: that takes longer than most programs."""
    gc.collect()  # what is told of what was left open or never awaited
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(0)


def main() -> None:
    load(PRELOAD)
    gc.collect()
    gc.freeze()  # a program's end need not take apart what it has not made
    program: Any = serve()
    if program is not None:
        sys.argv = [program]
        sys.path[0] = str(Path(program).parent)
        runpy.run_path(program, run_name="__main__")
        leave()


if __name__ == "__main__":
    main()
