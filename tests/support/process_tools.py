"""Functions for tools that run in a process of their own: another process must find them, so they stand at the top of a module."""

from __future__ import annotations

import ctypes
import os
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import sniffio

import retinue as rt


def greet(name: str) -> str:
    """Greets."""
    return f"hello, {name} 😀"


def table(rows: int) -> list[dict[str, int]]:
    """Rows."""
    return [{"row": row} for row in range(rows)]


def say(text: str) -> None:
    """Prints."""
    print(text)


def chatter(text: str) -> str:
    """Prints, writes past Python, and returns."""
    print(text)
    os.write(1, b"raw \xff bytes\n")
    os.system("echo from a shell")
    return "the value"


def leave(code: int) -> str:
    """Ends its process at once."""
    print("last words")
    os._exit(code)


def quit_politely(code: int) -> str:
    """sys.exit."""
    sys.exit(code)


def crash() -> str:
    """A fault of the processor's."""
    ctypes.string_at(0)
    return "never"


def fail(text: str) -> str:
    """Raises."""
    raise LookupError(text)


def breed(seconds: float, file: str) -> str:
    """Starts a child of its own, writes both ids down, and takes its time."""
    child = subprocess.Popen(["sleep", "300"])
    pathlib.Path(file).write_text(f"{os.getpid()} {child.pid}")
    time.sleep(seconds)
    return "done"


def stubborn(seconds: float, file: str) -> str:
    """Ignores what can be ignored."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    pathlib.Path(file).write_text(f"{os.getpid()} 0")
    time.sleep(seconds)
    return "done"


def fork_and_return() -> str:
    """Comes back twice."""
    os.fork()
    return "once"


def environment() -> str:
    """The names of its variables."""
    return " ".join(sorted(os.environ))


def read_stdin() -> str:
    """Asks the person at the terminal, who is not there."""
    return repr(sys.stdin.read())


def huge(size: int) -> str:
    """A long text."""
    return "x" * size


def count(to: int) -> Iterator[str]:
    """Yields."""
    for number in range(to):
        yield f"{number} "


async def nap(seconds: float) -> str:
    """Sleeps as trio does."""
    import trio  # not at the top: most processes need neither, and start in less time

    await trio.sleep(seconds)
    return "slept"


def pids(path: pathlib.Path, timeout: float = 20.0) -> list[int]:
    """The ids that `breed` has written down, once it has."""
    until = time.monotonic() + timeout
    while time.monotonic() < until:
        if path.exists() and (text := path.read_text()):
            return [int(pid) for pid in text.split() if pid != "0"]
        time.sleep(0.01)
    raise AssertionError(f"{path} was not written")


def is_gone(pid: int, timeout: float = 5.0) -> bool:
    """Whether a process has ended, soon at the latest. (One that nobody has taken note of, a zombie of another's, has.)"""
    until = time.monotonic() + timeout
    while True:
        try:
            state = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":
            return True
        if time.monotonic() > until:
            return False
        time.sleep(0.01)


def our_zombies() -> list[int]:
    """Children of this process that have ended and were not waited for."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if fields[0] == "Z" and int(fields[1]) == os.getpid():
                found.append(int(entry.name))
    return found


def repeat(letter: str, times: int) -> str:
    """A text of one letter."""
    return letter * times


async def which_library() -> str:
    """On what it runs."""
    return sniffio.current_async_library()


def own_result(ok: bool) -> rt.ToolResult:
    """A result of its own."""
    return rt.ToolResult(True, "well") if ok else rt.ToolResult.failed("denied", "my own")
