"""What a client asks of a gateway: each request with all that belongs to it, but the sending."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, TypeVar, final

import attrs

from retinue.actors.runtime.errors import AskTimeout, StreamClosed
from retinue.client.answers import malformed, read_json
from retinue.client.events import Event, EventParser
from retinue.mailbox.errors import GatewayError
from retinue.remote import error_from_data
from retinue.security.errors import DefinitionError, RetinueError

__all__ = ["MARGIN", "Exchange", "Opening", "Reading", "approvals_data", "body_of", "object_of", "timeout_data"]

T = TypeVar("T")

MARGIN: Final = 5.0
"""Seconds that an answer may take beyond the time-out that the gateway was given: it answers that the time is over, and that has to come back, too."""

_LONGEST: Final = 2.0**31
"""The most seconds that a gateway takes for a time-out."""


@attrs.frozen(kw_only=True)
class Exchange(Generic[T]):
    """One request that has one answer.

    Attributes:
        method: The HTTP method.
        target: Path and query.
        what: What it is, for texts: "the ask of /user/shop".
        read: The value of an expected answer, from its status and its JSON.
        body: The JSON that is sent, or None.
        expected: The statuses of answers that `read` takes.
        seconds: How long the answer may take once the request is sent; `math.inf`: no limit.
        largest: The most bytes of the answer.
        path: The actor that is asked, where one is: then no answer in time is an `AskTimeout`.
        hint: What to say where the system does not know the message.
    """

    method: str
    target: str
    what: str
    read: Callable[[int, Any], T]
    body: bytes | None = None
    expected: frozenset[int] = frozenset({200})
    seconds: float
    largest: int
    path: str | None = None
    hint: str = ""

    def overdue(self) -> RetinueError:
        """The error where no answer came in time."""
        text = f"no answer to {self.what} within {self.seconds:g} s: the gateway is stuck, or out of reach"
        if self.path is not None:
            return AskTimeout(f"{text}. The outcome is unknown: it may have been carried out", path=self.path)
        return GatewayError(text, reason="timeout")

    def silent(self, seconds: float) -> RetinueError:
        """The error where a stream said nothing for so long that it counts as lost."""
        return GatewayError(f"{self.what}: not a byte for {seconds:g} s, so the connection counts as lost", reason="timeout")


@attrs.frozen(kw_only=True)
class Opening(Exchange[None], Generic[T]):
    """One request that has a stream of events as its answer.

    Attributes:
        reading: Makes what reads the events of one such stream.
        begin: Seconds until its headers are there.
        idle: Seconds that may pass without any byte; the gateway sends a heartbeat each 15.
    """

    reading: Callable[[], Reading[T]]
    begin: float
    idle: float


@final
class Reading(Generic[T]):
    """What came of one stream, and how it ended.

    Args:
        what: What was asked, for texts.
        largest: The most bytes of one event.
        item: The value of an event's JSON.
        name: The event that is an item.
        last: Whether an item is the end, too.

    Attributes:
        items: What came and was not taken yet.
    """

    __slots__ = ("_error", "_item", "_largest", "_last", "_name", "_over", "_parser", "_what", "items")

    def __init__(self, what: str, largest: int, item: Callable[[bytes], T], *, name: str = "item", last: bool = False) -> None:
        self._what = what
        self._largest = largest
        self._item = item
        self._name = name
        self._last = last
        self._parser = EventParser(largest)
        self._over = False
        self._error: RetinueError | None = None
        self.items: deque[T] = deque()

    def feed(self, data: bytes) -> None:
        """The next bytes; b"" is the end of them, which must come after the stream's own."""
        if self._over:
            return
        if not data:
            torn = "in the middle of an event" if self._parser.torn else "without its end"
            self.end(StreamClosed(f"{self._what} broke off {torn}: the gateway was stopped, or the connection was lost"))
            return
        try:
            for event in self._parser.feed(data):
                self._take(event)
                if self._over:
                    return
        except RetinueError as error:
            self.end(error)

    def end(self, error: RetinueError | None = None) -> None:
        """Nothing comes any more; the items that came before can still be taken."""
        if not self._over:
            self._over = True
            self._error = error

    def over(self) -> bool:
        """Whether the end is reached, and all items are taken. Raises the error that the stream ended with, each time."""
        if self.items or not self._over:
            return False
        if self._error is not None:
            raise self._error.with_traceback(None)
        return True

    def _take(self, event: Event) -> None:
        if event.name == self._name:
            self.items.append(self._item(event.data))
            if self._last:
                self.end()
        elif event.name == "end":
            self.end()
        elif event.name == "error":
            self.end(error_from_data(200, read_json(self._what, None, event.data, self._largest)))
        # Another name is one of a later version.


def body_of(fields: dict[str, Any], message: bytes | None = None) -> bytes:
    """The JSON of a request, around a message that is JSON already."""
    try:
        text = json.dumps(fields, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        data = text.encode("utf-8")
    except (ValueError, TypeError, RecursionError):
        raise DefinitionError("a part of the request is no plain text or number that JSON can hold") from None
    return data if message is None else data[:-1] + b',"message":' + message + b"}"


def approvals_data(approvals: Sequence[object]) -> dict[str, list[str]]:
    """The approvals of a message: tokens, as `approve` gives them."""
    if isinstance(approvals, str | bytes):
        raise DefinitionError("approvals= is a list of tokens, not one token: write approvals=[token]")
    tokens = list(approvals)
    if not all(isinstance(token, str) and token.isascii() and token.isprintable() for token in tokens):
        raise DefinitionError("approvals= is a list of tokens, each the text that approving gave")
    return {"approvals": [str(token) for token in tokens]} if tokens else {}


def timeout_data(seconds: float, name: str = "timeout") -> dict[str, float]:
    """A time-out in a request. No limit is the longest that can be said: left out, it would be the system's default."""
    return {name: min(seconds, _LONGEST)}


def object_of(what: str, status: int | None, data: object, *keys: str) -> dict[str, Any]:
    """The JSON object of an answer that has these keys. Raises GatewayError ("malformed")."""
    if not isinstance(data, dict) or not all(key in data for key in keys):
        raise malformed(what, f"it is no object with {', '.join(map(repr, keys))}", status)
    return data
