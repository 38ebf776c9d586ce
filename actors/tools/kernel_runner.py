"""The process of a Python kernel: runs one piece of code after another in one namespace, in IPython where that is there and wanted. A script, not imported by the rest.

python -P -u -X utf8 kernel_runner.py REQUESTS REPLIES

The first request says where modules are looked for; each one after it is a piece of code.
"""

from __future__ import annotations

import ast
import json
import linecache
import os
import signal
import struct
import sys
import threading
import traceback
from typing import Any

__all__: list[str] = []

LONGEST_VALUE = 1_000_000
"""Characters of a value's repr that are sent."""

LONGEST_TRACE = 20_000
"""Characters of a traceback that are sent."""


class Plain:
    """Python itself: a namespace that lasts."""

    def __init__(self) -> None:
        import types

        main = types.ModuleType("__main__")
        sys.modules["__main__"] = main
        self.names = main.__dict__
        self.number = 0

    def run(self, code: str) -> tuple[bool, str]:
        """Runs it; gives whether it went well, and the repr of the last expression's value, or what was raised."""
        self.number += 1
        file = f"<cell {self.number}>"
        linecache.cache[file] = (len(code), None, code.splitlines(keepends=True), file)
        try:
            tree = ast.parse(code, file)
            last = tree.body[-1] if tree.body else None
            if isinstance(last, ast.Expr):
                tree.body.pop()
            if tree.body:
                exec(compile(tree, file, "exec"), self.names)  # noqa: S102 - what a kernel is for; it is a process of its own
            if not isinstance(last, ast.Expr):
                return True, ""
            value = eval(compile(ast.Expression(last.value), file, "eval"), self.names)  # noqa: S307 - as above
            if value is None:
                return True, ""
            self.names["_"] = value
            return True, _shown(value)
        except BaseException as error:  # a SystemExit is an error like another: the state stays
            return False, _trace(error)


class Notebook:
    """IPython: magics, `!` and `await` at the top level."""

    def __init__(self) -> None:
        from IPython.core.interactiveshell import InteractiveShell  # type: ignore[import-not-found,import-untyped,unused-ignore]

        self.shell = InteractiveShell.instance()
        self.shell.colors = "NoColor"
        self.shell.history_manager.enabled = False
        shown = self.shell.displayhook  # the value goes another way than what is printed
        shown.start_displayhook = shown.finish_displayhook = shown.write_output_prompt = lambda: None
        shown.write_format_data = lambda *_, **__: None

    def run(self, code: str) -> tuple[bool, str]:
        """As `Plain.run`."""
        self.shell.showtraceback = self.shell.showsyntaxerror = lambda *_, **__: None
        outcome = self.shell.run_cell(code, store_history=False, silent=False)
        error = outcome.error_before_exec or outcome.error_in_exec
        if error is not None:
            return False, _trace(error)
        return True, "" if outcome.result is None else _shown(outcome.result)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE // 2]} … {text[-LONGEST_VALUE // 2 :]}"


def _trace(error: BaseException) -> str:
    """What was raised, with the lines of the code that was given and of what it called; nothing of ours, or of IPython's."""
    frames = traceback.extract_tb(error.__traceback__)
    first = next((number for number, frame in enumerate(frames) if frame.filename.startswith(("<cell ", "<ipython-input"))), len(frames))
    kept = frames[first:]
    text = "".join([*traceback.format_list(kept[-20:]), *traceback.format_exception_only(error)]).strip()
    return text if len(text) <= LONGEST_TRACE else f"{text[: LONGEST_TRACE // 2]}\n…\n{text[-LONGEST_TRACE // 2 :]}"


def _shell(ipython: bool | None) -> Any:
    if ipython is False:
        return Plain()
    try:
        return Notebook()
    except ImportError:
        if ipython:
            raise
        return Plain()


def _read(descriptor: int, size: int) -> bytes | None:
    pieces = bytearray()
    while len(pieces) < size:
        piece = os.read(descriptor, min(size - len(pieces), 1 << 20))
        if not piece:
            return None
        pieces += piece
    return bytes(pieces)


_HEAD = struct.Struct("!IQ")  # as in child.py


def _write(replies: int, number: int, content: dict[str, Any]) -> None:
    body = json.dumps(content).encode("ascii")
    data = memoryview(_HEAD.pack(len(body), number) + body)
    while data:
        data = data[os.write(replies, data) :]


class Inbox:
    """The requests, read in a thread of their own: so the end of the parent is seen while code runs."""

    def __init__(self, requests: int) -> None:
        import queue
        import warnings

        # The thread is ours, and holds nothing: no reason to warn whoever forks.
        warnings.filterwarnings("ignore", message=".*multi-threaded, use of fork", category=DeprecationWarning)

        self._requests = requests
        self.queue: queue.SimpleQueue[tuple[int, dict[str, Any]]] = queue.SimpleQueue()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while (head := _read(self._requests, _HEAD.size)) is not None:
            length, number = _HEAD.unpack(head)
            body = _read(self._requests, length)
            if body is None:
                break
            self.queue.put((number, json.loads(body)))
        os.killpg(0, signal.SIGKILL)


def serve(requests: int, replies: int) -> None:
    """Runs what is sent until the parent ends."""
    inbox = Inbox(requests)
    ours = os.getpid()
    number, first = inbox.queue.get()
    sys.path[:] = ["", *first["path"]]
    sys.argv[:] = [""]
    shell = _shell(first["ipython"])
    _write(replies, number, {"ready": type(shell).__name__})
    while True:
        number, request = inbox.queue.get()
        try:
            ok, text = shell.run(request["code"])
        except BaseException as error:
            ok, text = False, f"{type(error).__name__}: {error}"
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except Exception:  # the code has closed or replaced it
                pass
        if os.getpid() != ours:  # a child that the code has forked, and which came back here
            os._exit(0)
        _write(replies, number, {"ok": ok, "text": text})


if __name__ == "__main__":
    _descriptors = [int(text) for text in sys.argv[1:3]]
    for _descriptor in _descriptors:
        os.set_inheritable(_descriptor, False)
    serve(*_descriptors)
