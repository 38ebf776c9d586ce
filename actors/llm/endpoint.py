"""A client for an OpenAI-compatible endpoint: plain chat completions over httpx, on trio.

It is used by the deployment actors for endpoints of others and for the embedded model's own server alike. It does not retry: whether
to ask again is for whoever knows what a second answer costs.
"""

from __future__ import annotations

import json
import math
from types import TracebackType
from typing import Any, Self

import attrs
import httpx
import trio

from retinue.actors.llm.errors import BadEndpoint, BadReply, ModelTimeout, ModelUnreachable
from retinue.actors.llm.messages import Complete, Completion
from retinue.actors.llm.replies import completion_of, failure_of, tidy
from retinue.actors.llm.secret import Key

__all__ = ["LONGEST_REPLY", "Endpoint", "Timeouts", "check_address"]

LONGEST_REPLY = 16 * 1024 * 1024
"""The most bytes of an answer that are read."""

_OPENAI_HOST = "api.openai.com"


def _seconds(_instance: object, field: attrs.Attribute[float], value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value) or value <= 0:
        raise ValueError(f"Timeouts.{field.name} is {value!r}: give seconds above zero, or math.inf for none")


@attrs.frozen(kw_only=True)
class Timeouts:
    """How long an endpoint may take, in seconds; `math.inf` for no limit.

    Attributes:
        connect: To open the connection, TLS included; default 10.
        silence: Without any byte of the answer; default 300. A plain completion is silent until it is finished.
        total: For the whole request; default 600.
    """

    connect: float = attrs.field(default=10.0, validator=_seconds)
    silence: float = attrs.field(default=300.0, validator=_seconds)
    total: float = attrs.field(default=600.0, validator=_seconds)


class Endpoint:
    """One model at one address. An async context manager; make it and use it within one trio run.

    Args:
        model: The model's name as the endpoint knows it.
        base_url: The address up to and with `/v1`, as in `https://api.example.com/v1`.
        api_key: Sent as a bearer token; None for endpoints without keys. It is in no text, no error and no `repr` of this class.
        timeouts: See `Timeouts`.
        proxies: Whether the machine's proxy settings apply; False for an address on this machine.
        limit_field: The field in which the endpoint takes `max_tokens`; default: "max_completion_tokens" at OpenAI's own endpoint, whose
            newer models take no other, and "max_tokens" elsewhere.

    Raises BadEndpoint for an address, a name or a key that cannot be used, and for proxy settings or certificates of the machine that cannot.
    """

    def __init__(
        self,
        *,
        model: str,
        base_url: str,
        api_key: str | None = None,
        timeouts: Timeouts | None = None,
        proxies: bool = True,
        limit_field: str | None = None,
    ) -> None:
        if not str(model or "").strip():
            raise BadEndpoint("the model's name is empty: give the name that the endpoint knows (RETINUE_MODEL, model=)")
        self.model = str(model).strip()
        self.address = check_address(base_url)
        self.timeouts = Timeouts() if timeouts is None else timeouts
        self._key = None if api_key is None else Key(api_key)
        self._limit_field = limit_field or ("max_completion_tokens" if httpx.URL(self.address).host == _OPENAI_HOST else "max_tokens")
        self._closed = False
        headers = {"accept": "application/json", "accept-encoding": "identity", "content-type": "application/json"}
        if self._key is not None:
            headers["authorization"] = self._key.header
        limits = {"connect": self.timeouts.connect, "read": self.timeouts.silence, "write": self.timeouts.silence, "pool": None}
        try:
            self._client = httpx.AsyncClient(
                headers=headers,
                timeout=httpx.Timeout(**{name: None if value == math.inf else value for name, value in limits.items()}),
                trust_env=proxies,
                verify=proxies or self.address.startswith("https:"),  # no TLS at all: do not load the certificates either
                follow_redirects=False,
            )
        except OSError as error:  # ssl.SSLError is one
            raise BadEndpoint(
                f"the machine's certificates cannot be loaded ({tidy(error.strerror or str(error))}): mend SSL_CERT_FILE or SSL_CERT_DIR"
            ) from None
        except (ImportError, ValueError, httpx.InvalidURL) as error:  # its text may show a proxy's password
            needed = ", and a SOCKS proxy needs `pip install 'httpx[socks]'`" if isinstance(error, ImportError) else ""
            raise BadEndpoint(
                "the machine's proxy settings cannot be used: mend HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY (or the same in small letters)"
                f"{needed}; proxies=False passes them over"
            ) from None

    def __repr__(self) -> str:
        return f"<Endpoint {self.model!r} at {self.address}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close all connections, those in use included; safe to call again. A cancellation waits for it, two seconds at most."""
        self._closed = True
        with trio.move_on_after(2, shield=True):
            await self._client.aclose()

    async def complete(self, request: Complete) -> Completion:
        """Ask once for a completion.

        Raises:
            ModelError: What went wrong, by type (see `retinue.actors.llm.errors`).
        """
        where = f"model {self.model!r} at {self.address}"
        if self._closed:
            raise ModelUnreachable(f"the client for {where} was closed: make a new Endpoint")
        try:
            with trio.fail_after(self.timeouts.total):
                status, headers, body = await self._post(request, where)
        except trio.TooSlowError:
            raise ModelTimeout(
                f"{where} did not finish within {self.timeouts.total:g} s (Timeouts.total): ask for fewer tokens or allow more time"
            ) from None
        hide = str if self._key is None else self._key.hide_in
        if 200 <= status < 300:
            return completion_of(body, content_type=headers.get("content-type", ""), where=where, model=self.model, hide=hide)
        raise failure_of(status, headers, body, where=where, hide=hide)

    async def _post(self, request: Complete, where: str) -> tuple[int, httpx.Headers, bytes]:
        content = json.dumps(
            _payload(request, self.model, self._limit_field)
        ).encode()  # ASCII: lone surrogates of a prompt pass as escapes
        try:
            async with self._client.stream("POST", f"{self.address}/chat/completions", content=content) as answer:
                encoding = answer.headers.get("content-encoding", "").strip().lower()
                if encoding not in ("", "identity"):  # never decoded: a few kilobytes may stand for gigabytes
                    if not answer.is_success:
                        return answer.status_code, answer.headers, b""
                    raise BadReply(
                        f"{where} answered in the encoding {tidy(encoding)!r} although none was asked for: is a proxy compressing its answers?"
                    )
                body = bytearray()
                async for chunk in answer.aiter_raw():
                    body += chunk
                    if len(body) > LONGEST_REPLY:
                        raise BadReply(f"{where} answered with more than {LONGEST_REPLY:,} bytes: is it an OpenAI-compatible endpoint?")
                return answer.status_code, answer.headers, bytes(body)
        except httpx.ConnectTimeout:
            raise ModelTimeout(f"{where} could not be connected to within {self.timeouts.connect:g} s (Timeouts.connect)") from None
        except httpx.TimeoutException:
            raise ModelTimeout(f"{where} was silent for {self.timeouts.silence:g} s (Timeouts.silence): is it overloaded?") from None
        except httpx.ConnectError as error:
            raise ModelUnreachable(
                f"{where} cannot be connected to ({self._reason(error)}): is it running, and is the address right?"
            ) from None
        except BadReply:
            raise
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError, RuntimeError, ValueError) as error:
            # The last three are what the layers below httpx let through: closed sockets, certificates, host names.
            raise ModelUnreachable(f"the connection to {where} broke ({self._reason(error)}): try again") from None

    def _reason(self, error: Exception) -> str:
        text = str(error) or type(error).__name__
        return tidy(text if self._key is None else self._key.hide_in(text))


def _payload(request: Complete, model: str, limit_field: str) -> dict[str, Any]:
    payload: dict[str, Any] = {
        "model": model,
        "messages": [{"role": entry.role, "content": entry.content} for entry in request.messages],
    }
    if request.max_tokens is not None:
        payload[limit_field] = request.max_tokens
    if request.temperature is not None:
        payload["temperature"] = request.temperature
    if request.stop:
        payload["stop"] = list(request.stop)
    if request.seed is not None:
        payload["seed"] = request.seed
    return payload


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
    if url.scheme not in ("http", "https") or not url.host:
        raise BadEndpoint(f"the endpoint's address {tidy(str(url))!r} is no http address: {advice}")
    host = f"[{url.host}]" if ":" in url.host else url.host
    return f"{url.scheme}://{host}{'' if port is None else f':{port}'}{url.path.rstrip('/')}"
