"""What stands between OpenTelemetry's batching thread and the place that spans go to: it counts, and nothing that goes wrong there leaves it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from sys import getsizeof
from typing import TYPE_CHECKING, Final, Protocol

from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

__all__ = ["BATCH", "BATCH_BYTES", "INTERVAL", "QUEUE", "QUEUE_BYTES", "Place", "Watched", "batched"]

_log = logging.getLogger("retinue.tracing")

QUEUE: Final = 65_536
"""Spans that wait for export, at most; beyond it the newest are dropped, and counted."""

BATCH: Final = 512
"""Spans that are exported at once, at most; so many wake the exporting thread."""

QUEUE_BYTES: Final = 64 * 1024 * 1024
"""Bytes of them, about: with contents a span may have hundreds of thousands."""

BATCH_BYTES: Final = 2 * 1024 * 1024
"""Bytes of what is handed to a place at once, about, beside its first span: endpoints refuse large requests as a whole."""

INTERVAL: Final = 0.5
"""Seconds between two exports."""


class Place(Protocol):
    """Where spans go to. All of it runs in the exporting thread, but `close`, which comes after that."""

    name: str

    def write(self, spans: Sequence[ReadableSpan]) -> int:
        """Takes them over, or raises. Returns how many it has left out, because they cannot be written down."""
        ...

    def hurry(self, seconds: float) -> None:
        """The system ends: what is written from now on has so many seconds together. From another thread."""

    def close(self) -> None:
        """Lets go of everything."""


class Watched(SpanExporter):
    """Exports to a place, and counts.

    Attributes:
        exported: Spans that the place took.
        failed: Spans that it did not take.
    """

    def __init__(self, place: Place) -> None:
        self.place = place
        self.exported = 0
        self.failed = 0
        self._closed = False
        self._lock = threading.Lock()
        self._waiting = 0
        self._waiting_bytes = 0
        self._refused = False

    def admit(self, span: ReadableSpan) -> bool:
        """Whether there is room for it to wait in. It is called in any thread."""
        size = _size_of(span)
        with self._lock:
            if self._waiting >= QUEUE or (self._waiting and self._waiting_bytes + size > QUEUE_BYTES):
                first, self._refused = not self._refused, True
            else:
                self._waiting += 1
                self._waiting_bytes += size
                return True
        if first:
            _log.warning(
                "spans end faster than %s takes them: those that there is no room for are lost. This is logged once", self.place.name
            )
        return False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Writes them; a failure is counted, and logged the first time."""
        before = self.failed
        for part in _parts(spans):
            try:
                left_out = self.place.write(part)
            except Exception as error:
                self._fails(len(part), f"{type(error).__name__}: {str(error)[:300]}")
            else:
                self.exported += len(part) - left_out
                if left_out:
                    self._fails(left_out, "they have something in them that nobody can write down")
        with self._lock:
            self._waiting -= len(spans)
            self._waiting_bytes -= sum(map(_size_of, spans))
        return SpanExportResult.SUCCESS if self.failed == before else SpanExportResult.FAILURE

    def _fails(self, count: int, why: str) -> None:
        if not self.failed:
            _log.warning(
                "traces cannot be written to %s (%s): spans are lost, which nothing else depends on. This is logged once",
                self.place.name, why,
            )  # fmt: skip
        self.failed += count

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """There is nothing held back here."""
        del timeout_millis
        return True

    def shutdown(self) -> None:
        """Closes the place, once."""
        if self._closed:
            return
        self._closed = True
        try:
            self.place.close()
        except Exception as error:
            _log.warning("%s could not be closed (%s)", self.place.name, type(error).__name__)


class _Batches(BatchSpanProcessor):
    """OpenTelemetry's own batching, in a thread of its own, for what there is room for."""

    def __init__(self, watched: Watched) -> None:
        # Every option is given: what is left out it would look for in the environment.
        super().__init__(
            watched,
            max_queue_size=QUEUE,
            schedule_delay_millis=INTERVAL * 1000,
            max_export_batch_size=BATCH,
            export_timeout_millis=30_000,
        )
        self._watched = watched

    def on_end(self, span: ReadableSpan) -> None:
        if self._watched.admit(span):
            super().on_end(span)


def batched(watched: Watched) -> BatchSpanProcessor:
    """What hands spans to it, in batches."""
    return _Batches(watched)


def _parts(spans: Sequence[ReadableSpan]) -> Iterator[list[ReadableSpan]]:
    part: list[ReadableSpan] = []
    size = 0
    for span in spans:
        more = _size_of(span)
        if part and size + more > BATCH_BYTES:
            yield part
            part, size = [], 0
        part.append(span)
        size += more
    if part:
        yield part


def _size_of(span: ReadableSpan) -> int:
    """Bytes of memory, about."""
    size = 2_000
    for value in (span.attributes or {}).values():
        size += getsizeof(value)
    for event in span.events:
        size += 500
        for value in (event.attributes or {}).values():
            size += getsizeof(value)
    return size
