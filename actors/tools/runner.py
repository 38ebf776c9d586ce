"""What runs in the process of a tool with `process=True`: finds the function, calls it once, says what came of it. A script, not imported by the rest.

    python -P -u -X utf8 runner.py REQUESTS REPLIES

The request is trusted (our own parent made it); the reply is JSON, for what runs here need not be. Our parent kills us when it has the reply, so nothing here waits for
threads or exit handlers.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import struct
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

__all__: list[str] = []


HEAD = struct.Struct("!IQ")  # as in child.py

LONGEST_REPLY = 60_000_000  # bytes; somewhat less than child.py takes


def read_frame(requests: int) -> tuple[int, bytes] | None:
    """The next frame's number and content, or None at the end."""
    head = _read(requests, HEAD.size)
    if head is None:
        return None
    length, number = HEAD.unpack(head)
    body = _read(requests, length)
    return None if body is None else (number, body)


def _read(descriptor: int, size: int) -> bytes | None:
    pieces = bytearray()
    while len(pieces) < size:
        piece = os.read(descriptor, min(size - len(pieces), 1 << 20))
        if not piece:
            return None
        pieces += piece
    return bytes(pieces)


def write_frame(replies: int, number: int, content: dict[str, Any]) -> None:
    """Sends the reply to the request of that number."""
    from retinue.actors.tools.rendering import bounded

    body = json.dumps(content, ensure_ascii=False).encode("utf-8", "replace")
    if len(body) > LONGEST_REPLY:  # characters of four bytes, or control characters, of which JSON makes six
        body = json.dumps({**content, "text": bounded(content["text"], LONGEST_REPLY // 7)}, ensure_ascii=False).encode("utf-8", "replace")
    data = memoryview(HEAD.pack(len(body), number) + body)
    while data:
        data = data[os.write(replies, data) :]


def end_with_parent(requests: int) -> None:
    """Ends this process and its group once the parent is gone: the request pipe has its end then. Runs in a thread."""
    try:
        while os.read(requests, 4096):
            pass
    except OSError:
        pass
    os.killpg(0, signal.SIGKILL)


def find(place: dict[str, Any]) -> Any:
    """The object that a request names, its module loaded as the parent's was."""
    import importlib
    import importlib.util
    import runpy
    import types

    name, file = place["module"], place["file"]
    if place["main"]:
        made = types.ModuleType("__mp_main__")
        with _no_system():
            content = (
                runpy.run_module(place["main"], run_name="__mp_main__", alter_sys=True)
                if place["main"] != file
                else runpy.run_path(file, run_name="__mp_main__")
            )
        made.__dict__.update(content)
        sys.modules["__main__"] = sys.modules["__mp_main__"] = made
        module: Any = made
    else:
        module = _named(importlib, name, file)
        if module is None:
            spec = importlib.util.spec_from_file_location(name, file)
            assert spec is not None and spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            sys.modules[name] = module
            spec.loader.exec_module(module)
    for part in place["qualname"].split("."):
        module = getattr(module, part)
    return module


@contextlib.contextmanager
def _no_system() -> Iterator[None]:
    """While the main program is loaded it starts no system: that would ask models, and start this tool again in a process of its own, and so on."""
    import trio

    def refuse(*_: Any, **__: Any) -> Any:
        raise RuntimeError(
            "a tool with process=True runs in a process of its own, which loads the main program to find the tool, and that started its system there too. "
            'Put what the program does under `if __name__ == "__main__":`, or define the tool in another module'
        )

    kept = trio.run
    trio.run = refuse  # type: ignore[assignment]  # it takes anything
    try:
        yield
    finally:
        trio.run = kept


def _named(importlib: Any, name: str, file: str | None) -> Any:
    """The module of that name, where it is the one in that file."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None
    if spec is None or (file is not None and spec.origin != file):
        return None
    return importlib.import_module(name)


def call(
    function: Callable[..., Any], positional: list[Any], keywords: dict[str, Any], kind: str, loop: str, add: Callable[[Any], None]
) -> Any:
    """What the function gives, whichever way it is written; a generator's items go to `add`."""
    if kind in ("async", "asyncgen"):

        async def work() -> Any:
            if kind == "async":
                return await function(*positional, **keywords)
            async for item in function(*positional, **keywords):
                add(item)
            return None

        if loop == "asyncio":
            import asyncio

            value = asyncio.run(work())
        else:
            import trio

            value = trio.run(work)
    else:
        value = function(*positional, **keywords)
    if kind == "generator":
        for item in value:
            add(item)
    return value


def serve(requests: int, replies: int) -> None:
    """One call."""
    import pickle

    frame = read_frame(requests)
    if frame is None:
        return
    number, content = frame
    request = pickle.loads(content)  # noqa: S301 - our parent's
    sys.path[:] = request["path"]
    sys.argv[:] = request["argv"]
    ours = os.getpid()
    # The thread is ours, and holds nothing: no reason to warn whoever forks.
    warnings.filterwarnings("ignore", message=".*multi-threaded, use of fork", category=DeprecationWarning)
    threading.Thread(target=end_with_parent, args=(requests,), daemon=True).start()
    reply = _outcome(request)
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except Exception:  # closed by the tool, or replaced by something odd
        pass
    if os.getpid() != ours:  # a child that the tool has forked, and which came back here
        os._exit(0)
    write_frame(replies, number, reply)
    signal.pause()  # the parent kills us


def _outcome(request: dict[str, Any]) -> dict[str, Any]:
    import pickle

    from retinue.actors.tools.rendering import LONGEST_TEXT, Joined, bounded, error_text, text_of

    try:
        function = find(request["place"])
        function = getattr(function, "function", function) if request["place"]["tool"] else function
        positional, keywords = pickle.loads(request["arguments"])  # noqa: S301 - our parent's
        items = Joined()
        value = call(function, positional, keywords, request["kind"], request["loop"], items.add)
        if request["kind"] in ("generator", "asyncgen"):
            text, none = items.text(), not items.count
        else:
            module = sys.modules.get("retinue.capabilities.tool_results")
            if module is not None and type(value) is module.ToolResult:
                made = (value.ok, value.text, value.error)
                if (type(value.ok), type(value.text)) != (bool, str) or not (value.error is None or type(value.error) is str):
                    raise TypeError("it returned a ToolResult whose ok, text or error is of another type")
                return {
                    "ok": made[0],
                    "text": bounded(made[1].encode("utf-8", "replace").decode(), LONGEST_TEXT),
                    "error": made[2],
                    "made": True,
                }
            text, none = text_of(value), value is None
        return {"ok": True, "text": bounded(text, LONGEST_TEXT), "none": none}
    except BaseException as error:  # also a SystemExit: it is the tool's, and this process has only this one
        return {"ok": False, "text": error_text(error)}


def descriptors() -> Iterator[int]:
    """The two pipes, kept from what the tool starts."""
    for text in sys.argv[1:3]:
        os.set_inheritable(int(text), False)
        yield int(text)


if __name__ == "__main__":
    serve(*descriptors())
