"""The embedded model's server: llama.cpp's own OpenAI-compatible server (from `xllamacpp`) in threads of this process.

It listens on a free port of the loopback address and takes a random key, so that no other user of the machine and no web page in a
browser can use it or read prompts from it. What talks to it is the same `Endpoint` that talks to the endpoints of others.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import secrets
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from retinue.actors.llm.errors import ModelNotInstalled

__all__ = ["LocalServer", "is_local_installed"]

INSTALL = "pip install 'retinue[local]'"


def is_local_installed() -> bool:
    """Whether the extra `local` is installed (looked up, not imported: the import takes a while)."""
    return importlib.util.find_spec("xllamacpp") is not None


class LocalServer:
    """A running server for one weights file. A context manager; also `close()`.

    Loading blocks the whole process (the library holds the interpreter's lock) for about a second with small weights.

    Args:
        path: The weights, a GGUF file.
        model: The name that the server gives its model.
        context: The most tokens of prompt and answer together; default 2,048.
        threads: Threads that compute; default half of the processors that this process may use. More are faster on an idle machine and
            far slower on a busy one, where they wait for each other.

    Raises:
        ModelNotInstalled: The extra is missing, or the weights cannot be loaded.
    """

    def __init__(self, path: Path, *, model: str, context: int = 2048, threads: int | None = None) -> None:
        if not is_local_installed():
            raise ModelNotInstalled(f"the embedded model's server is not installed: {INSTALL}")
        if not path.is_file():
            raise ModelNotInstalled(f"there are no weights at {path}: fetch them with `retinue models pull smollm2`")
        self.model = model
        self.key = secrets.token_urlsafe(24)
        self._server: Any = _start(path, model, self.key, context, threads or max(1, _processors() // 2))
        self.url = f"{self._server.listening_address}/v1"

    def __repr__(self) -> str:
        return f"<LocalServer {self.model!r} at {self.url}{'' if self._server is not None else ', closed'}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End the server's threads and free the memory; safe to call again.

        Close every connection to it first: the library waits for the requests under way, and holds the whole process while it waits.
        """
        self._server = None  # the last reference: the library stops the server when the object goes


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _start(path: Path, model: str, key: str, context: int, threads: int) -> Any:
    try:
        xllamacpp: Any = importlib.import_module("xllamacpp")  # heavy (100 MB of machine code), and without types
    except ImportError as error:
        raise ModelNotInstalled(f"the embedded model's server is installed but does not load on this machine: {error}") from error
    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.model_alias = {model}
    params.n_ctx = context
    params.n_parallel = 1
    params.n_gpu_layers = 0
    params.cpuparams.n_threads = threads
    params.cpuparams_batch.n_threads = threads
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [key]
    params.verbosity = 0  # else it writes its log over the terminal
    params.ui = False
    params.endpoint_slots = False  # would show prompts
    params.endpoint_props = False
    params.offline = True
    params.warmup = False
    params.fit_params = False
    params.cache_ram_mib = 0
    try:
        server = xllamacpp.Server(params)
    except RuntimeError as error:
        raise ModelNotInstalled(
            f"the weights at {path} cannot be loaded ({error}): delete the file and run `retinue models pull smollm2`"
        ) from error
    # The constructor returns before the server's own loop runs, and a server that is ended before that never ends (seen with xllamacpp
    # 2026.10): one token passes through the loop, and warms it up.
    server.handle_completions({"prompt": "a", "max_tokens": 1})
    return server
