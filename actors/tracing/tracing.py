"""`rt.Tracing`: whether and where a system's spans go."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import attrs

from retinue.security.errors import DefinitionError
from retinue.security.secret_shapes import hide_secrets
from retinue.security.spelling import names_the_nearest
from retinue.security.whole_texts import whole

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

    from retinue.actors.runtime.kernel import Kernel
    from retinue.actors.tracing.tracer import OpenTelemetryTracer

__all__ = ["FILE_NAME", "KEEP", "Tracing"]

FILE_NAME: Final = "traces.sqlite3"
"""The file in the system's `data_dir`."""

KEEP: Final = 100_000
"""Spans that the SQLite file keeps."""


_HEADER: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,200}", re.ASCII)
_OWN_HEADERS: Final = frozenset({"content-length", "content-type", "transfer-encoding", "host", "connection"})


def _shown(otlp: object) -> str:
    """An address without its query, in which services take keys."""
    return repr(otlp if not isinstance(otlp, str) else hide_secrets(otlp.partition("?")[0] + ("?…" if "?" in otlp else "")))


def _headers(value: Any) -> dict[str, str]:
    if not isinstance(value, Mapping) or not all(isinstance(key, str) and isinstance(text, str) for key, text in value.items()):
        raise DefinitionError('Tracing(headers=…): give a mapping of texts, {"Authorization": "Basic …"}')
    for key, text in value.items():
        if _HEADER.fullmatch(key) is None or not text.isascii() or not text.isprintable():
            raise DefinitionError(f"Tracing(headers=…): the header {key[:40]!r} has characters that no header may have")
        if key.lower() in _OWN_HEADERS:
            raise DefinitionError(f"Tracing(headers=…): {key[:40]!r} is a matter of the request itself; leave it out")
    return dict(value)


@names_the_nearest
@attrs.frozen(kw_only=True)
class Tracing:
    """Traces of a system: `rt.ActorSystem(data_dir="data", tracing=rt.Tracing())`. A span for each message that an actor handles, in one tree with its sender's.

    What users, models and tools say is left out, unless `contents` says otherwise.

    Args:
        sqlite: The file that `retinue runs` and `retinue show` read: a path; True: `traces.sqlite3` in the system's `data_dir`; False: none. Default: True, where the
            system has a `data_dir`.
        jsonl: The path of a file that gets a line of JSON for each span; it begins anew at 64 MB, and the one before is kept. Default: none.
        otlp: The address of an OTLP endpoint over HTTP, such as "http://localhost:4318/v1/traces" (needs the extra `otlp`). Default: none.
        headers: What goes with each request to it, such as a key; shown nowhere.
        contents: Whether prompts, answers, arguments, results and the texts of errors are exported; what looks like a secret is taken out even then. Default False.
        sample: The share of traces that is kept, from 0.0 to 1.0, decided where a trace begins. Default 1.0, all.
        provider: A TracerProvider of OpenTelemetry that exports instead of all these, or "global" for the one that the program has set. Default: one of the system's own.
        keep: How many spans the SQLite file keeps, 100 or more; the oldest traces go first. Default 100,000.

    Raises:
        DefinitionError: An option is wrong, or two exclude each other.
    """

    sqlite: bool | str | Path | None = None
    jsonl: str | Path | None = None
    otlp: str | None = attrs.field(default=None, repr=_shown)
    headers: Mapping[str, str] = attrs.field(factory=dict, converter=_headers, repr=False)
    contents: bool = False
    sample: float = 1.0
    provider: TracerProvider | Literal["global"] | None = None
    keep: int = KEEP

    def __attrs_post_init__(self) -> None:
        for what, path in (("sqlite", self.sqlite), ("jsonl", self.jsonl)):
            if path is not None and not (isinstance(path, str | Path) and str(path)) and not (what == "sqlite" and isinstance(path, bool)):
                raise DefinitionError(f"Tracing({what}={path!r:.100}): give the path of a file")
            if path is not None and not isinstance(path, bool) and ("\0" in str(path) or whole(str(path)) != str(path)):
                raise DefinitionError(f"Tracing({what}={str(path)!r:.100}): the path has characters in it that no path may have")
        if not isinstance(self.contents, bool):
            raise DefinitionError(f"Tracing(contents={self.contents!r:.100}): write True or False")
        if isinstance(self.sample, bool) or not isinstance(self.sample, int | float) or not 0.0 <= self.sample <= 1.0:
            raise DefinitionError(f"Tracing(sample={self.sample!r:.100}): give the share of traces to keep, from 0.0 to 1.0")
        if isinstance(self.keep, bool) or not isinstance(self.keep, int) or not 100 <= self.keep <= 100_000_000:
            raise DefinitionError(f"Tracing(keep={self.keep!r:.100}): give how many spans the file keeps, 100 to 100,000,000")
        self._check_otlp()
        if self.provider is not None:
            given = [name for name in ("sqlite", "jsonl", "otlp") if getattr(self, name) not in (None, False)]
            if given or self.sample != 1.0:
                raise DefinitionError(
                    f"Tracing(provider=…, {(given or ['sample'])[0]}=…): a provider of yours decides itself where its spans go and which are kept; leave one of the two out"
                )
            if self.provider != "global" and not callable(getattr(self.provider, "get_tracer", None)):
                raise DefinitionError(
                    f'Tracing(provider=…) takes a TracerProvider of OpenTelemetry, or "global", not a {type(self.provider).__name__}'
                )

    def _check_otlp(self) -> None:
        if self.otlp is None:
            if self.headers:
                raise DefinitionError("Tracing(headers=…) go to an OTLP endpoint: give otlp= as well")
            return
        import httpx

        try:
            url = httpx.URL(self.otlp)
            valid = url.port is None or 0 < url.port < 2**16
        except (TypeError, ValueError, httpx.InvalidURL):
            url, valid = httpx.URL(""), False
        if not valid or url.scheme not in ("http", "https") or not url.host:
            raise DefinitionError("Tracing(otlp=…): give the address of an endpoint for traces, such as http://localhost:4318/v1/traces")
        if url.userinfo:
            raise DefinitionError("Tracing(otlp=…): the address has a password in it; give it in headers=, where nothing shows it")
        try:
            import opentelemetry.exporter.otlp.proto.common.trace_encoder  # noqa: F401
        except ImportError as error:
            raise DefinitionError("Tracing(otlp=…) needs an extra: pip install 'retinue[otlp]'") from error

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None, **options: Any) -> Tracing:
        """What the standard variables say: `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`, or `OTEL_EXPORTER_OTLP_ENDPOINT` with `/v1/traces` added, and
        `OTEL_EXPORTER_OTLP_TRACES_HEADERS` or `OTEL_EXPORTER_OTLP_HEADERS` (`key=value,key=value`, percent-encoded). Nothing else looks there.

        Args:
            environ: Where to look; default: the process's environment, at this moment.
            options: Any of the class's, which come first.

        Raises:
            DefinitionError: A variable is malformed, or asks for gRPC.
        """
        from retinue.actors.tracing.environment import endpoint_of

        found = endpoint_of(os.environ if environ is None else environ)
        return cls(**{**found, **options})

    def begin(self, kernel: Kernel, data_dir: Path | None) -> OpenTelemetryTracer:
        """Starts exporting for a system; the runtime calls it. Raises DefinitionError and TraceFileUnusable."""
        from retinue.actors.tracing.starting import begin

        return begin(self, kernel, self.file(data_dir))

    def file(self, data_dir: Path | None) -> Path | None:
        """The SQLite file of a system with that `data_dir`; None for none.

        Raises:
            DefinitionError: Spans would go nowhere.
        """
        if isinstance(self.sqlite, str | Path):
            return Path(self.sqlite).absolute()
        elsewhere = self.jsonl is not None or self.otlp is not None or self.provider is not None
        if self.provider is not None or self.sqlite is False or (data_dir is None and elsewhere and self.sqlite is None):
            if not elsewhere:
                raise DefinitionError("Tracing(sqlite=False) exports nowhere: give jsonl=, otlp= or provider=, or leave tracing= out")
            return None
        if data_dir is None:
            raise DefinitionError(
                f'rt.Tracing() writes {FILE_NAME} into the system\'s data_dir, and it has none: give ActorSystem(data_dir=…), or Tracing(sqlite="traces.sqlite3")'
            )
        return data_dir / FILE_NAME
