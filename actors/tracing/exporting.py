"""What stands between OpenTelemetry's batching thread and the place that spans go to: it counts, and nothing that goes wrong there leaves it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Protocol

from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

__all__ = ["BATCH", "INTERVAL", "QUEUE", "Place", "Watched", "batched"]

_log = logging.getLogger("retinue.tracing")

QUEUE: Final = 65_536
"""Spans that wait for export, at most; beyond it the newest are dropped, and counted."""

BATCH: Final = 512
"""Spans that are exported at once, at most; so many wake the exporting thread."""

INTERVAL: Final = 0.5
"""Seconds between two exports."""


class Place(Protocol):
    """Where spans go to. All of it runs in the exporting thread, but `close`, which comes after that."""

    name: str

    def write(self, spans: Sequence[ReadableSpan]) -> None:
        """Takes them over, or raises."""

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

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Writes them; a failure is counted, and logged the first time."""
        try:
            self.place.write(spans)
        except Exception as error:
            if not self.failed:
                _log.warning(
                    "traces cannot be written to %s (%s: %s): spans are lost, which nothing else depends on. This is logged once",
                    self.place.name, type(error).__name__, str(error)[:300],
                )  # fmt: skip
            self.failed += len(spans)
            return SpanExportResult.FAILURE
        self.exported += len(spans)
        return SpanExportResult.SUCCESS

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


def batched(watched: Watched) -> BatchSpanProcessor:
    """OpenTelemetry's own batching, in a thread of its own. Every option is given: what is left out it would look for in the environment."""
    return BatchSpanProcessor(
        watched,
        max_queue_size=QUEUE,
        schedule_delay_millis=INTERVAL * 1000,
        max_export_batch_size=BATCH,
        export_timeout_millis=30_000,
    )
