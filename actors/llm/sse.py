"""Server-sent events out of bytes that come in any pieces. Pure: it reads no socket and knows nothing of models.

What the events of others look like, beside the standard: comments at any place, also between an `id:` and its blank line (which makes no
event); comments that stand in a data line (`data: : PROCESSING`); lines that end with CR, LF or both; no blank line after the last event.
"""

from __future__ import annotations

from retinue.actors.llm.errors import BadStreamEvent

__all__ = ["LONGEST_EVENT", "LONGEST_STREAM", "SseDecoder"]

LONGEST_EVENT = 16 * 1024 * 1024
"""The most bytes of one event."""

LONGEST_STREAM = 512 * 1024 * 1024
"""The most bytes of one stream: a million tokens or two, each in an event of its own."""

_BOM = b"\xef\xbb\xbf"


class SseDecoder:
    """Reads the data of server-sent events.

    Lines are split as bytes: a character that is cut in two by the network is put together again before it is decoded, and what only
    Unicode calls a line's end (U+2028) ends none.

    Args:
        where: Whose stream this is, for the errors' texts.
        longest_event: The most bytes of one event; default 16 MiB.
        longest_stream: The most bytes in all; default 512 MiB.
    """

    __slots__ = ("_data", "_held", "_longest_event", "_longest_stream", "_rest", "_seen", "_skip_lf", "_start", "_where")

    def __init__(self, where: str = "the stream", *, longest_event: int = LONGEST_EVENT, longest_stream: int = LONGEST_STREAM) -> None:
        self._where = where
        self._longest_event = longest_event
        self._longest_stream = longest_stream
        self._rest = bytearray()  # a line that has not ended yet
        self._data: list[bytes] = []  # the data lines of the event that has not ended yet
        self._held = 0  # their bytes
        self._seen = 0
        self._skip_lf = False  # the last piece ended with CR: a LF that follows belongs to it
        self._start = True

    def feed(self, chunk: bytes) -> list[str]:
        """Take the next bytes, and return the data of each event that ended in them; of an event without data, nothing.

        Raises BadStreamEvent where an event or the stream grows too long.
        """
        if not chunk:
            return []
        self._seen += len(chunk)
        if self._seen > self._longest_stream:
            raise BadStreamEvent(f"{self._where} sent more than {self._longest_stream:,} bytes: is it an OpenAI-compatible endpoint?")
        if self._start:
            chunk = self._begin(chunk)
        if self._skip_lf:
            self._skip_lf = False
            if chunk[:1] == b"\n":
                chunk = chunk[1:]
        if b"\r" in chunk:
            self._skip_lf = chunk.endswith(b"\r")
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        lines, newline, rest = chunk.rpartition(b"\n")
        if not newline:
            self._rest += rest
            self._check(len(self._rest))
            return []
        if self._rest:
            lines = bytes(self._rest) + lines
        self._rest = bytearray(rest)
        found: list[str] = []
        for line in lines.split(b"\n"):
            if line:
                self._take(line)
            elif self._data:
                self._end(found)
        self._check(len(rest))
        return found

    def close(self) -> list[str]:
        """The stream is over: return the data of an event whose blank line never came. Whether it is whole is for its reader to see."""
        found: list[str] = []
        if self._rest:
            self._take(bytes(self._rest))
            self._rest.clear()
        if self._data:
            self._end(found)
        return found

    def _begin(self, chunk: bytes) -> bytes:
        # A byte order mark at the very start says nothing; it too may come in pieces.
        chunk = bytes(self._rest) + chunk
        self._rest.clear()
        if len(chunk) < len(_BOM) and _BOM.startswith(chunk):
            self._rest += chunk
            return b""
        self._start = False
        return chunk.removeprefix(_BOM)

    def _take(self, line: bytes) -> None:
        if line.startswith(b"data:"):
            line = line[6:] if line[5:6] == b" " else line[5:]
            self._data.append(line)
            self._held += len(line) + 1
            self._check(0)

    def _end(self, found: list[str]) -> None:
        data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
        self._data.clear()
        self._held = 0
        text = data.decode("utf-8", "replace")
        if text and text.lstrip()[:1] not in ("", ":"):
            found.append(text)

    def _check(self, more: int) -> None:
        if self._held + more > self._longest_event:
            raise BadStreamEvent(
                f"{self._where} sent one event of more than {self._longest_event:,} bytes: is it an OpenAI-compatible endpoint?"
            )
