"""A real HTTP server on the loopback address that answers as the test says, and remembers what it was asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Asked:
    """One request as the server saw it."""

    def __init__(self, path: str, headers: dict[str, str], body: bytes) -> None:
        self.path = path
        self.headers = headers
        self.body = body

    @property
    def json(self) -> Any:
        return json.loads(self.body)


Answer = tuple[int, dict[str, str], bytes]


def completion(text: Any, *, finish: str | None = "stop", model: str = "served", usage: Any = None) -> Answer:
    """Make the answer of a well-behaved server."""
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish}
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10} if usage is None else usage
    return 200, {"content-type": "application/json"}, json.dumps({"choices": [choice], "model": model, "usage": usage}).encode()


class Loopback:
    """A server in threads of its own.

    Args:
        answer: What to answer with, or a function from the request to it; a function may block, and may return None to break the connection.
    """

    def __init__(self, answer: Answer | Callable[[Asked], Answer | None]) -> None:
        self.asked: list[Asked] = []
        self.hung_up = threading.Event()
        """Set when a client went away before it had its answer."""
        self.busiest = 0
        """The most requests that were in progress at once."""
        self._busy = 0
        self._lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                asked = Asked(
                    self.path, {k.lower(): v for k, v in self.headers.items()}, self.rfile.read(int(self.headers["content-length"]))
                )
                with outer._lock:
                    outer.asked.append(asked)
                    outer._busy += 1
                    outer.busiest = max(outer.busiest, outer._busy)
                try:
                    made = answer(asked) if callable(answer) else answer
                finally:
                    with outer._lock:
                        outer._busy -= 1
                self.close_connection = made is None
                if made is None:
                    return
                status, headers, body = made
                try:
                    self.send_response(status)
                    for name, value in ({"content-length": str(len(body))} | headers).items():
                        self.send_header(name, value)
                    self.end_headers()
                    self.wfile.write(body)
                    self.wfile.flush()
                except OSError:
                    outer.hung_up.set()
                    self.close_connection = True

            def log_message(self, *args: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            block_on_close = False

            def handle_error(self, *args: object) -> None:
                outer.hung_up.set()  # the client is gone

        self._server = Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@contextmanager
def loopback(answer: Answer | Callable[[Asked], Answer | None]) -> Iterator[Loopback]:
    """Run a `Loopback` server for the length of a `with` block."""
    server = Loopback(answer)
    try:
        yield server
    finally:
        server.close()
