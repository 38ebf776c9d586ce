"""How a system's tracer is put together: OpenTelemetry's provider with what it exports by."""

from __future__ import annotations

import importlib.metadata
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased

from retinue.actors.tracing.exporting import Place, Watched, batched
from retinue.actors.tracing.names import SCHEMA_URL
from retinue.actors.tracing.spans import MOST_CONTENT
from retinue.actors.tracing.tracer import OpenTelemetryTracer
from retinue.security.errors import DefinitionError

if TYPE_CHECKING:
    from retinue.actors.runtime.kernel import Kernel
    from retinue.actors.tracing.tracing import Tracing

__all__ = ["begin"]

_log = logging.getLogger("retinue.tracing")


def begin(tracing: Tracing, kernel: Kernel, sqlite: Path | None) -> OpenTelemetryTracer:
    """Starts exporting for a system."""
    if tracing.provider is not None:
        provider: Any = trace.get_tracer_provider() if tracing.provider == "global" else tracing.provider
        return OpenTelemetryTracer(kernel, _tracer_of(provider), contents=tracing.contents, ways=())
    if sqlite is not None and tracing.jsonl is not None and Path(tracing.jsonl).absolute() == sqlite:
        raise DefinitionError(f"Tracing(jsonl=…): {sqlite} is the SQLite file of the same traces; give another path")
    places: list[Place] = []
    try:
        if sqlite is not None:
            from retinue.actors.tracing.sqlite import SqliteFile

            places.append(SqliteFile(sqlite, kernel.name, tracing.keep))
        if tracing.jsonl is not None:
            from retinue.actors.tracing.jsonl import JsonlFile

            places.append(JsonlFile(Path(tracing.jsonl).absolute(), kernel.name))
        if tracing.otlp is not None:
            from retinue.actors.tracing.otlp import OtlpEndpoint

            places.append(OtlpEndpoint(tracing.otlp, tracing.headers))
    except BaseException:
        for place in places:
            place.close()
        raise
    watched = [Watched(place) for place in places]
    ways = [(batched(one), one) for one in watched]
    sampler = TraceIdRatioBased(tracing.sample)
    made = TracerProvider(
        ParentBased(sampler),
        Resource({"service.name": kernel.name, "telemetry.sdk.language": "python", "telemetry.sdk.name": "opentelemetry"}),
        shutdown_on_exit=False,  # the system's end does it
        span_limits=SpanLimits(  # all of them given: what is left out is looked for in the environment
            max_attributes=128,
            max_events=128,
            max_links=128,
            max_span_attributes=128,
            max_event_attributes=32,
            max_link_attributes=32,
            max_attribute_length=MOST_CONTENT,
            max_span_attribute_length=MOST_CONTENT,
        ),
    )
    for processor, _ in ways:
        made.add_span_processor(processor)
    return OpenTelemetryTracer(kernel, _tracer_of(made), contents=tracing.contents, ways=ways, sampler=sampler)


def _tracer_of(provider: Any) -> trace.Tracer:
    try:
        found: trace.Tracer = provider.get_tracer("retinue", importlib.metadata.version("retinue"), SCHEMA_URL)
    except Exception as error:
        raise DefinitionError(f"Tracing(provider=…): the provider has no tracer to give ({type(error).__name__})") from error
    if isinstance(found, trace.NoOpTracer):
        _log.warning(
            "nothing is traced, although tracing= is given: the provider makes no spans (OTEL_SDK_DISABLED switches OpenTelemetry off)"
        )
    return found
