"""An OpenAI-compatible endpoint on the loopback interface, as cheap as it can be made: `python -m benchmarks.agents.server` says its port on a line.

It answers in a stream. A conversation of "session N" is answered with N, by way of a tool call in its first turn, and the endpoint counts each request that
speaks of two sessions, or whose history is not the session's own. A request for "TOKENS n" gets n pieces. When its input ends it says what it has counted.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from typing import Any, Final

__all__ = ["SESSION", "TOOL", "main", "stream_of"]

SESSION: Final = re.compile(rb"session (\d+)\b")
_TOKENS: Final = re.compile(rb"TOKENS (\d+)")
_LENGTH: Final = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)
TOOL: Final = "look_up"

_HEAD: Final = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def stream_of(deltas: list[dict[str, Any]], finish: str) -> bytes:
    """A whole answer: each event in a chunk of its own, as servers send them."""
    events = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas] + [
        {"index": 0, "delta": {}, "finish_reason": finish}
    ]
    bodies = [{"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "loopback", "choices": [event]} for event in events]
    usage = {"prompt_tokens": 10, "completion_tokens": len(deltas), "total_tokens": 10 + len(deltas)}
    bodies.append({"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "loopback", "choices": [], "usage": usage})
    lines = [b"data: " + json.dumps(body, separators=(",", ":")).encode() + b"\n\n" for body in bodies] + [b"data: [DONE]\n\n"]
    return _HEAD + b"".join(b"%x\r\n%b\r\n" % (len(line), line) for line in lines) + b"0\r\n\r\n"


class Counts:
    """What the endpoint has seen.

    Attributes:
        requests: In all.
        bleeds: Requests that spoke of another session, or whose history was not the session's own.
        open: Connections now.
        most_open: The most at once.
    """

    def __init__(self) -> None:
        self.requests = self.bleeds = self.open = self.most_open = 0
        self.tokens: dict[int, bytes] = {}


class Endpoint(asyncio.Protocol):
    """One connection, kept alive."""

    def __init__(self, counts: Counts) -> None:
        self._counts = counts
        self._data = b""
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._counts.open += 1
        self._counts.most_open = max(self._counts.most_open, self._counts.open)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._counts.open -= 1

    def data_received(self, data: bytes) -> None:
        self._data += data
        while True:
            head, found, rest = self._data.partition(b"\r\n\r\n")
            if not found:
                return
            length = _LENGTH.search(head + b"\r\n")
            size = int(length[1]) if length else 0
            if len(rest) < size:
                return
            self._data = rest[size:]
            self._counts.requests += 1
            self._transport.write(self._answer(rest[:size]))

    def _answer(self, body: bytes) -> bytes:
        wanted = _TOKENS.search(body)
        if wanted is not None:
            number = int(wanted[1])
            if number not in self._counts.tokens:
                self._counts.tokens[number] = stream_of([{"content": f"token{index % 1000:03} "} for index in range(number)], "stop")
            return self._counts.tokens[number]
        sessions = set(SESSION.findall(body))
        messages = [message for message in json.loads(body)["messages"] if message["role"] != "system"]
        roles = "".join(message["role"][0] for message in messages)
        # user, assistant with its call, tool, assistant; and user again.
        if len(sessions) != 1 or roles not in ("u", "uat", "uatau"):
            self._counts.bleeds += 1
            return stream_of([{"role": "assistant", "content": f"a bleed: {sorted(sessions)!r} {roles}"}], "stop")
        number = int(next(iter(sessions)))
        if roles != "u":
            return stream_of(
                [{"role": "assistant", "content": "I am "}, {"content": f"session {number}"}, {"content": f", {roles}"}], "stop"
            )
        call = {
            "index": 0,
            "id": f"call-{number}",
            "type": "function",
            "function": {"name": TOOL, "arguments": json.dumps({"number": number})},
        }
        return stream_of([{"role": "assistant", "content": None, "tool_calls": [call]}], "tool_calls")


async def main() -> None:
    """Serves until the input ends."""
    counts = Counts()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Endpoint(counts), "127.0.0.1", 0, backlog=4096)
    print(json.dumps({"port": server.sockets[0].getsockname()[1]}), flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    print(json.dumps({"requests": counts.requests, "bleeds": counts.bleeds, "most_open": counts.most_open}), flush=True)
    server.close()


if __name__ == "__main__":
    asyncio.run(main())
