"""A client for an OpenAI-compatible endpoint, over httpx, on trio: one path, whose events fold to a plain answer.

It is used by the deployment actors for endpoints of others and for the embedded model's own server alike. It is the one place in which a
request is sent again; nothing is, once a piece of the answer was passed on.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from types import TracebackType
from typing import Self
from urllib.parse import urlencode

import attrs
import httpx
import trio

from retinue.actors.llm.connections import Connections
from retinue.actors.llm.deadlines import Clock, Timeouts
from retinue.actors.llm.errors import BadEndpoint, ModelError, ModelInterrupted, ModelUnreachable
from retinue.actors.llm.events import Completed, ModelEvent, Retrying
from retinue.actors.llm.exchange import Exchange
from retinue.actors.llm.messages import ChatMessage, Complete, Completion
from retinue.actors.llm.payload import Payloads
from retinue.actors.llm.prices import FREE, Price, Tariff, load_prices, price_of, tariff_of
from retinue.actors.llm.profiles.catalogue import profile_of
from retinue.actors.llm.profiles.profile import Profile
from retinue.actors.llm.reading import AnswerReader
from retinue.actors.llm.replies import refused_parameter, tidy
from retinue.actors.llm.reserving import current_charge
from retinue.actors.llm.retrying import LONGEST_WAIT, Retries, is_retryable
from retinue.actors.llm.secret import Key
from retinue.actors.llm.tool_mode import ToolMode

__all__ = ["Endpoint", "Timeouts", "check_address"]

_log = logging.getLogger("retinue.llm")

_THIS_MACHINE = ("localhost", "127.0.0.1", "::1")  # what answers there has no price
_REFUSED = (400, 422)  # the statuses with which endpoints refuse a parameter


class Endpoint:
    """One model at one address. An async context manager; make it and use it within one trio run.

    Args:
        model: The model's name as the endpoint knows it.
        base_url: The address up to and with `/v1`, as in `https://api.example.com/v1`.
        api_key: For endpoints with keys; default None. It is in no text, error or `repr` of this class.
        profile: The endpoint's ways: a name such as "openai" or "vllm", a `Profile`, or "auto" (the default): by the address and the model.
        retries: How many more times it is asked after what may pass (see `is_retryable`); default 2. Or a `Retries`.
        timeouts: See `Timeouts`.
        proxies: Whether the machine's proxy settings apply; False for an address on this machine.
        limit_field: The field in which the endpoint takes `max_tokens`; default: the profile's.
        connections: How many connections are kept open for the next request; default 64.
        price: What the model costs; default: by the installed list of prices, and nothing on this machine.
        transport: What sends the requests instead of httpx's own connections, for tests; default None.

    Raises BadEndpoint for an address, a name or a key that cannot be used, and for proxy settings or certificates of the machine that cannot.
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
        proxies: bool = True,
        limit_field: str | None = None,
        connections: int = 64,
        price: Price | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        if not str(model or "").strip():
            raise BadEndpoint("the model's name is empty: give the name that the endpoint knows (RETINUE_MODEL, model=)")
        self.model = str(model).strip()
        self.address = check_address(base_url)
        self.timeouts = Timeouts() if timeouts is None else timeouts
        self.retries = _retries(retries)
        found = profile_of(profile, address=self.address, model=self.model)
        self.profile = found if limit_field is None else attrs.evolve(found, limit_field=limit_field)
        self._key = None if api_key is None else Key(api_key)
        self._hide = str if self._key is None else self._key.hide_in
        self._where = f"model {self.model!r} at {self.address}"
        query = urlencode(self.profile.query)
        self._url = f"{self.address}{self.profile.path}{'?' if query else ''}{query}"
        self._payloads = Payloads(self.profile, self.model)
        self._tool_mode: ToolMode | None = None
        if self.profile.tools != "native":
            self._tool_mode = ToolMode(self.profile.output, grammar=self.profile.tools == "llguidance", where=self._where)
        self._without: frozenset[str] = frozenset()
        self._closed = False
        headers = {"accept": "text/event-stream, application/json", "accept-encoding": "identity", "content-type": "application/json"}
        if self._key is not None:
            headers[self.profile.key_header] = self.profile.key_prefix + self._key.plain
        self._connections = Connections(
            headers,
            connect=self.timeouts.connect,
            proxies=proxies,
            secure=proxies or self.address.startswith("https:"),
            most_idle=connections,
            transport=transport,
        )
        self.price = price if price is not None or httpx.URL(self.address).host not in _THIS_MACHINE else FREE
        self._says_cost = (
            self.price is price
        )  # not where the price is only taken to be nothing, by the address: it may be a door to somebody else's model

    def __repr__(self) -> str:
        return f"<Endpoint {self.model!r} at {self.address}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close all connections, those in use included; safe to call again. A cancellation waits for it, two seconds at most."""
        self._closed = True
        await self._connections.aclose()

    async def complete(self, request: Complete) -> Completion:
        """Ask for a completion.

        Raises:
            ModelError: What went wrong, by type (see `retinue.actors.llm.errors`).
        """
        charge = current_charge()
        async with aclosing(self._events(request, passed_on=False)) as events:
            async for event in events:
                if type(event) is Completed:
                    return event.completion
                if charge is not None:
                    charge.hear(event)
        raise AssertionError("the events of an answer end with Completed, or with an error")

    def stream(self, request: Complete) -> AsyncIterator[ModelEvent]:
        """Ask for a completion in pieces: an async generator of events, of which `Completed` is the last. Close it where you leave it early
        (`contextlib.aclosing`): that ends the request at the endpoint.

        Raises:
            ModelInterrupted: It broke off after the first piece.
            ModelError: It went wrong before, by type.
        """
        return self._events(request, passed_on=True)

    async def tariff(self, prompt_tokens: int) -> Tariff | None:
        """What an answer to a request of so many tokens costs; None where that is not known."""
        if self.price is not None:
            return self.price.tariff(prompt_tokens)
        await load_prices()
        return tariff_of(self.address, self.model, prompt_tokens)

    async def _events(self, request: Complete, *, passed_on: bool) -> AsyncGenerator[ModelEvent, None]:
        if self._closed:
            raise ModelUnreachable(f"the client for {self._where} was closed: make a new Endpoint")
        total_at = trio.current_time() + self.timeouts.total
        if self._says_cost and self.price is None:
            await load_prices()
        async with aclosing(self._answers(request, total_at, passed_on=passed_on)) as events:
            async for event in events:
                yield self._with_price(event) if type(event) is Completed and self._says_cost else event

    def _answers(self, request: Complete, total_at: float, *, passed_on: bool) -> AsyncGenerator[ModelEvent, None]:
        if self._tool_mode is None:
            return self._tries(request, total_at, passed_on=passed_on)
        return self._tool_mode.events(request, lambda asked: self._tries(asked, total_at, passed_on=passed_on))

    async def _tries(self, request: Complete, total_at: float, *, passed_on: bool) -> AsyncGenerator[ModelEvent, None]:
        attempt = 1
        charge = current_charge()
        refused: frozenset[str] = frozenset()
        sent_again = False
        while True:
            if charge is not None:
                charge.begin()
            without = self._without | refused
            client = self._connections.take()
            exchange = self._exchange(client, request, without, total_at)
            said = False
            try:
                async with aclosing(exchange.events()) as events:
                    async for event in events:
                        said = passed_on
                        if type(event) is Completed and refused:
                            self._leaves_out(refused)
                        yield event
                return
            except ModelError as error:
                if said:
                    raise self._interrupted(error, exchange) from error
                failure = error
            finally:
                if charge is not None and not exchange.may_have_begun:
                    charge.not_taken()
                await self._connections.give_back(client, again=not exchange.surplus)
            name = self._refused(request, exchange, without)
            if name is not None:
                refused |= {name}
                continue  # without what it refused: that is another request, and no retry
            if exchange.was_stale and not sent_again and isinstance(failure, ModelUnreachable):
                sent_again = True
                continue  # a connection that was closed while nobody used it: that is no failure, and no retry
            wait = self._wait(failure, exchange, attempt, total_at)
            if wait is None:
                raise failure
            if charge is not None:
                charge.failed(failure)  # before the wait, in which others of the account may have what is reserved
            attempt += 1
            reason = tidy(str(failure))
            _log.info("attempt %d at %s in %.2f s: %s", attempt, self._where, wait, reason)
            yield Retrying(reason, attempt, wait, failure.code)
            await trio.sleep(wait)
            if charge is not None:
                request = await charge.anew(request)

    def _with_price(self, event: Completed) -> Completed:
        usage = event.completion.usage
        cost = None
        if usage.cost_micro_usd is None:
            cost = price_of(self.address, self.model, usage) if self.price is None else self.price.of(usage)
        return event if cost is None else Completed(attrs.evolve(event.completion, usage=attrs.evolve(usage, cost_micro_usd=cost)))

    def _exchange(self, client: httpx.AsyncClient, request: Complete, without: frozenset[str], total_at: float) -> Exchange:
        streams = self.profile.streams
        names = self._payloads.names(request)
        return Exchange(
            client,
            url=self._url,
            content=self._payloads.body(request, stream=streams, without=without),
            clock=Clock(self.timeouts, total_at, whole=not streams),
            profile=self.profile,
            read_by=lambda kind: AnswerReader(
                self.profile, model=self.model, where=self._where, content_type=kind, hide=self._hide, names=names
            ),
            where=self._where,
            hide=self._hide,
        )

    def _refused(self, request: Complete, exchange: Exchange, without: frozenset[str]) -> str | None:
        """The optional parameter that the endpoint has refused, if that is what it did."""
        if exchange.failure is None or exchange.failure[0] not in _REFUSED:
            return None
        status, body = exchange.failure
        name = refused_parameter(status, body, self.profile.optional, said=_words_of(request))
        if name is None or name in without:
            return None
        if self._payloads.body(request, stream=self.profile.streams, without=without | {name}) == exchange.content:
            return None  # it was not in the request
        return name

    def _leaves_out(self, refused: frozenset[str]) -> None:
        """Without these it has answered: they are left out from now on."""
        if not refused <= self._without:
            self._without |= refused
            _log.info("%s takes no %s: left out from now on", self._where, ", ".join(sorted(refused)))

    def _wait(self, error: ModelError, exchange: Exchange, attempt: int, total_at: float) -> float | None:
        """The seconds until the next attempt; None where there is none."""
        if attempt > self.retries.most or exchange.hopeless or self._closed or not is_retryable(error):
            return None
        asked = exchange.asked_wait
        if asked is not None and asked > LONGEST_WAIT:
            return None
        wait = self.retries.wait(attempt, asked)
        # An asker whose time is over before is better told what happened than that it waited too long.
        return wait if trio.current_time() + wait < min(total_at, trio.current_effective_deadline()) else None

    def _interrupted(self, error: ModelError, exchange: Exchange) -> ModelInterrupted:
        partial = exchange.reader.partial() if exchange.reader is not None else None
        return ModelInterrupted(
            f"an answer broke off after a part of it had been passed on, so it is not asked for again: {error}",
            status=error.status,
            partial=partial,
        )


def _words_of(request: Complete) -> str:
    """What people and models have written in a request."""
    parts = [part for message in request.messages for part in (message.content, message.name, message.reasoning, *_written(message))]
    return "\n".join(part for part in parts if part)


def _written(message: ChatMessage) -> list[str]:
    return [part for call in message.tool_calls for part in (call.name, call.arguments)]


def _retries(given: object) -> Retries:
    if isinstance(given, Retries):
        return given
    if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given <= 100:
        raise ValueError(f"retries={given!r} is given to an endpoint: give a whole number from 0 to 100")
    return Retries(given)


def check_address(base_url: str) -> str:
    """Return an endpoint's address in the form in which it is used and shown. Raises BadEndpoint for one that cannot be used."""
    advice = "give an address such as https://api.example.com/v1 (OPENAI_BASE_URL, base_url=)"
    try:
        url = httpx.URL(base_url.strip())
        port = url.port
    except (AttributeError, TypeError, ValueError, httpx.InvalidURL):
        raise BadEndpoint(f"the endpoint's address cannot be read: {advice}") from None
    if url.userinfo or url.query or url.fragment:
        raise BadEndpoint(
            f"the endpoint's address holds a user, a query or a fragment, which would be shown in texts: {advice}; the key goes apart"
        )
    if url.scheme not in ("http", "https") or not url.host or not (port is None or 0 < port < 65_536):
        raise BadEndpoint(f"the endpoint's address {tidy(str(url))!r} is no http address: {advice}")
    host = f"[{url.host}]" if ":" in url.host else url.host
    return f"{url.scheme}://{host}{'' if port is None else f':{port}'}{url.path.rstrip('/')}"
