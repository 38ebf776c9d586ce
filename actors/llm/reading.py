"""From the bytes of an answer to its events: whether it comes as a stream or, although a stream was asked for, as one JSON body."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from retinue.actors.llm.assembler import Assembler
from retinue.actors.llm.completion import Completion
from retinue.actors.llm.errors import BadReply, BadStreamEvent
from retinue.actors.llm.events import ModelEvent
from retinue.actors.llm.profiles.profile import Profile
from retinue.actors.llm.sse import SseDecoder

__all__ = ["LONGEST_BODY", "AnswerReader"]

LONGEST_BODY = 16 * 1024 * 1024
"""The most bytes of a plain answer."""

_BLANK = b" \t\r\n\xef\xbb\xbf"


class AnswerReader:
    """Reads one successful answer. What it is shows its first byte: `{` or `[` begin JSON, `<` a web page, and no stream begins with them.

    Args:
        profile: What is known of the endpoint.
        model: The name that was asked for.
        where: Which model at which address, for the errors' texts.
        content_type: The answer's content type.
        hide: Blots out what must not be quoted.
        names: Tools' names as they were sent, where they differ from ours, to ours; see `Payloads.names`.
    """

    def __init__(
        self,
        profile: Profile,
        *,
        model: str,
        where: str,
        content_type: str = "",
        hide: Callable[[str], str] = str,
        names: Mapping[str, str] | None = None,
    ) -> None:
        self._assembler = Assembler(profile, model=model, where=where, hide=hide, names=names)
        self._decoder = SseDecoder(where)
        self._where = where
        self._content_type = content_type
        self._body = bytearray()
        self._is_stream: bool | None = False if "html" in content_type.lower() else None

    @property
    def ended(self) -> bool:
        """Whether the model has finished: what may still come is the count of tokens, and the mark of the end."""
        return self._assembler.ended

    @property
    def done(self) -> bool:
        """Whether the mark of the end came: nothing that follows counts."""
        return self._assembler.done

    def feed(self, chunk: bytes) -> list[ModelEvent]:
        """Take the next bytes, and return the events that they complete. Raises what `Assembler.data` and `SseDecoder.feed` do."""
        if self._is_stream is None:
            begin = (bytes(self._body[-8:]) + chunk).lstrip(_BLANK)[:1]
            if begin:
                self._is_stream = begin not in (b"{", b"[", b"<")
                if self._is_stream:
                    chunk = bytes(self._body) + chunk
                    self._body.clear()
        if self._is_stream:
            found: list[ModelEvent] = []
            for data in self._decoder.feed(chunk):
                found += self._assembler.data(data)
            return found
        self._body += chunk
        if len(self._body) > LONGEST_BODY:
            raise BadReply(f"{self._where} answered with more than {LONGEST_BODY:,} bytes: is it an OpenAI-compatible endpoint?")
        return []

    def close(self) -> list[ModelEvent]:
        """The bytes are over: return the last events, `Completed` at the end. Raises what `Assembler.finish` and `Assembler.body` do."""
        found: list[ModelEvent] = []
        if self._is_stream or (self._is_stream is None and "event-stream" in self._content_type.lower()):
            for data in self._decoder.close():
                try:
                    found += self._assembler.data(data)
                except BadStreamEvent:
                    break  # half an event: `finish` sees whether something is missing
        else:
            found += self._assembler.body(bytes(self._body), self._content_type)
        return found + self._assembler.finish()

    def partial(self) -> Completion:
        """What has been said so far; see `Assembler.partial`."""
        return self._assembler.partial()
