"""Answers as providers send them, byte by byte, and what has to come of each.

Each `Case` stands for a complaint about another client. They are read alone in tests/llm and may be sent over a socket just as well.
"""

from __future__ import annotations

import json
from typing import Any

import attrs

from retinue.actors.llm.errors import ModelError

DONE = b"data: [DONE]\n\n"


@attrs.frozen(kw_only=True)
class Case:
    """One answer. Of `expected` only what is given is looked at; `calls` are (name, arguments decoded) in order."""

    name: str
    sent: bytes
    profile: str = "generic"
    content_type: str = "text/event-stream"
    text: str | None = None
    reasoning: str | None = None
    refusal: str | None = None
    calls: list[tuple[str, Any]] | None = None
    ids: list[str] | None = None
    finish: str | None = None
    usage: tuple[int | None, int | None] | None = None
    error: type[ModelError] | None = None
    status: int | None = None
    said: str = ""


def line(value: Any, end: bytes = b"\n\n") -> bytes:
    """One event with a JSON value as its data."""
    return b"data: " + json.dumps(value).encode() + end


def chunk(delta: dict[str, Any] | None = None, finish: str | None = None, **more: Any) -> bytes:
    """One event with a chunk of the usual form."""
    choice: dict[str, Any] = {"index": 0, "finish_reason": finish}
    if delta is not None:
        choice["delta"] = delta
    return line({"id": "x", "object": "chat.completion.chunk", "model": "m", "choices": [choice], **more})


def say(*texts: str, finish: str | None = "stop") -> bytes:
    """Events for a text in pieces."""
    return b"".join(chunk({"content": text}) for text in texts) + (chunk({}, finish) if finish else b"")


def piece(index: Any = 0, id: Any = None, name: Any = None, args: Any = None, **more: Any) -> dict[str, Any]:  # noqa: A002
    """One piece of a tool call; what is None is left out, "" and `...` (for null) are not."""
    function = {key: (None if value is ... else value) for key, value in (("name", name), ("arguments", args)) if value is not None}
    found: dict[str, Any] = {"function": function, **more}
    if index is not None:
        found["index"] = None if index is ... else index
    if id is not None:
        found["id"] = None if id is ... else id
    return found


def calls(*pieces: dict[str, Any], finish: str | None = "tool_calls") -> bytes:
    """Events with one piece of a tool call each."""
    return b"".join(chunk({"tool_calls": [one]}) for one in pieces) + (chunk({}, finish) if finish else b"")


def body(message: dict[str, Any] | None = None, finish: str | None = "stop", **more: Any) -> bytes:
    """A plain answer."""
    answer: dict[str, Any] = {"id": "x", "object": "chat.completion", "model": "m", **more}
    if message is not None:
        answer["choices"] = [{"index": 0, "message": message, "finish_reason": finish}]
    return json.dumps(answer).encode()


def plain(name: str, sent: bytes, **expected: Any) -> Case:
    """A case of a plain answer."""
    return Case(name=name, sent=sent, content_type="application/json", **expected)
