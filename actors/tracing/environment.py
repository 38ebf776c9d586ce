"""The standard variables for an OTLP endpoint, read when `Tracing.from_env` is called, and never otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote

from retinue.security.errors import DefinitionError

__all__ = ["endpoint_of"]

_PREFIX: Final = "OTEL_EXPORTER_OTLP_"


def endpoint_of(environ: Mapping[str, str]) -> dict[str, Any]:
    """`otlp` and `headers` as `Tracing` takes them; empty where no variable names an endpoint."""
    exact, base = environ.get(f"{_PREFIX}TRACES_ENDPOINT", "").strip(), environ.get(f"{_PREFIX}ENDPOINT", "").strip()
    if not exact and not base:
        return {}
    protocol = (environ.get(f"{_PREFIX}TRACES_PROTOCOL") or environ.get(f"{_PREFIX}PROTOCOL") or "http/protobuf").strip()
    if protocol != "http/protobuf":
        raise DefinitionError(
            f"{_PREFIX}PROTOCOL is {protocol[:40]!r}, and Retinue speaks http/protobuf: set that, with the endpoint's address for HTTP (mostly port 4318)"
        )
    text = environ.get(f"{_PREFIX}TRACES_HEADERS") or environ.get(f"{_PREFIX}HEADERS") or ""
    where, mark, query = base.partition("?")
    return {"otlp": exact or f"{where.rstrip('/')}/v1/traces{mark}{query}", "headers": _headers(text)}


def _headers(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for number, pair in enumerate((each for each in text.split(",") if each.strip()), 1):
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise DefinitionError(f"{_PREFIX}HEADERS: entry {number} is not key=value")  # its text may be a secret
        found[unquote(key.strip())] = unquote(value.strip())
    return found
