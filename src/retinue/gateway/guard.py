"""The guard: what a request has to be before anybody looks at what it asks for.

In this order: for a host that is ours (a web page that was lured here by DNS names another), from no foreign web page, with exactly one token that is genuine,
within the rate of that token's root, and only then is the token read: one that was attenuated many times takes long, and whoever holds a token can make many of
it. Nothing that is refused here learns which paths, methods or actors there are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

import attrs
import trio

from retinue.errors import DefinitionError, Denied, GatewayError, KeyFileError, StoreUnavailable, TokenError
from retinue.gateway.rates import Rates

if TYPE_CHECKING:
    from retinue.gateway.bounds import Bounds
    from retinue.gateway.visit import Headers
    from retinue.security.context import SecurityContext
    from retinue.security.seal import Sealer

__all__ = ["LOOPBACK", "Caller", "Guard"]

LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")
"""The hosts of the default."""

_HOST: Final = re.compile(r"(\[[0-9a-f:.]{2,45}\]|[a-z0-9_.-]{1,253})(?::[0-9]{1,5})?", re.ASCII)
_NAME: Final = re.compile(r"\[[0-9a-f:.]{2,45}\]|[a-z0-9_.-]{1,253}", re.ASCII)
_OWN_SITES: Final = frozenset({b"same-origin", b"none"})

_TOLD: Final = {
    "expired": "the token has expired; ask for a new one",
    "revoked": "the token was revoked; ask for a new one",
    "audience": "the token is for somebody else; ask for one for this system",
    "not_yet_valid": "the token was sealed in the future: the clock here or there is wrong by more than 5 s",
}
"""What the holder of a genuine token is told; everybody else is told one and the same thing."""

CHARACTERS: Final = 1024
"""A token that is read for the first time counts as one request more for each so many characters."""

_CROWDED: Final = {
    "too_many": (
        429,
        "too many tokens with limits of their own were attenuated from this one's root, and have not expired; ask for a token that was not",
    ),
    "full": (503, "the system has as many tokens with limits as it can count for; come back when some of them have expired"),
}
"""What the holder of a genuine token is told whose limits there is no room for, with the status."""

_NOBODY: Final = "no valid token came with the request: send one header `Authorization: Bearer TOKEN` (`retinue token mint` makes one)"


@attrs.frozen(eq=False)
class Caller:
    """Who asks.

    Attributes:
        context: What the token stands for, within the root's permissions.
        token_id: A name of the token's root block, which it shares with all that were attenuated from the same token.
    """

    context: SecurityContext
    token_id: str


class Guard:
    """Looks at a request's headers.

    Args:
        sealer: What opens tokens.
        hosts: The names under which the gateway may be addressed, without ports.
        origins: The web pages that may talk to it, as `http://host:port`. Default: none.
        bounds: The rate.

    Raises:
        DefinitionError: A host or an origin is none.
    """

    __slots__ = ("_hosts", "_origins", "_rates", "_sealer")

    def __init__(self, sealer: Sealer, hosts: Iterable[str], origins: Iterable[str], bounds: Bounds) -> None:
        self._sealer = sealer
        self._hosts = frozenset(map(_host, _texts("hosts", hosts)))
        self._origins = frozenset(map(_origin, _texts("origins", origins)))
        self._rates = Rates(bounds.rate, bounds.burst)

    def check_place(self, headers: Headers) -> None:
        """Raises GatewayError ("refused_host") for a request to another host, or from a web page that is not among the origins."""
        values = headers.all(b"host")
        match = _HOST.fullmatch(values[0].decode("latin-1").lower()) if len(values) == 1 else None
        if match is None or match[1] not in self._hosts:
            raise GatewayError(
                "the request is for another host than this gateway's: address it by a name that it was given (hosts=)",
                reason="refused_host",
                delivered=False,
            )
        origins = headers.all(b"origin")
        if origins:
            if len(origins) == 1 and origins[0].decode("latin-1") in self._origins:
                return
            raise GatewayError("web pages of this origin may not talk to the gateway (origins=)", reason="refused_host", delivered=False)
        if not _OWN_SITES.issuperset(headers.all(b"sec-fetch-site")):
            raise GatewayError("web pages of other sites may not talk to the gateway (origins=)", reason="refused_host", delivered=False)

    def caller(self, headers: Headers, known: Callable[[Caller], None] | None = None) -> Caller:
        """Opens the token, and counts the request.

        Args:
            headers: The request's headers.
            known: Told who asks where the token is genuine and was opened before, also if it is refused then. None: the request is not counted.

        Raises:
            TokenError: There is none, there are several, or it is refused.
            GatewayError: There were too many requests with it, or with others of its root; or too many tokens with limits are in use ("rate").
            StoreUnavailable: The keys cannot be read, so no token can be told from another.
            AuditUnavailable: That it was opened could not be recorded.
        """
        values = headers.all(b"authorization")
        scheme, _, token = values[0].partition(b" ") if len(values) == 1 else (b"", b"", b"")
        if scheme.lower() != b"bearer" or not token or not token.isascii():
            raise TokenError(_NOBODY, reason="malformed")
        root = ""

        def admit(name: str, context: SecurityContext | None) -> None:
            nonlocal root
            root = name
            if known is not None:
                if context is not None:
                    known(Caller(context, name))
                self._count(name, 1.0 if context is not None else 1.0 + len(token) // CHARACTERS)

        try:
            context = self._sealer.unseal(token.decode("ascii"), record=False, admit=admit)
        except TokenError as error:
            if error.reason in _CROWDED:
                status, text = _CROWDED[error.reason]
                raise GatewayError(text, status=status, reason="rate", delivered=False) from None
            raise TokenError(_TOLD.get(error.reason, _NOBODY), reason=error.reason) from None
        except KeyFileError as error:
            raise StoreUnavailable("the gateway cannot read its keys now, so no token can be checked", reason="failed") from error
        return Caller(context, root)

    def owe(self, caller: Caller, cost: float) -> None:
        """Counts a request that was let in as so many more."""
        self._rates.owe(caller.token_id, trio.current_time(), cost)

    def _count(self, root: str, cost: float) -> None:
        seconds = self._rates.take(root, trio.current_time(), cost)
        if seconds:
            raise GatewayError(
                f"too many requests with this token, or with others of the same origin; the next one fits in {seconds:.3f} s",
                reason="rate",
                delivered=False,
                retry_after=seconds,
            )


def shown(error: TokenError) -> TokenError:
    """A token's refusal as it is answered: `reason` does not say how a text fails that is no token of this system."""
    return error if error.reason in _TOLD else TokenError(str(error), reason="malformed")


def reaches_nothing(context: SecurityContext) -> bool:
    """Whether the context is narrowed to nothing at all: its layers together permit no operation."""
    return not context.permissions.permits_something


def check_some(context: SecurityContext, path: str) -> None:
    """Raises Denied where a context is narrowed to nothing: not even what asks for no permission is for it."""
    if reaches_nothing(context):
        raise Denied(f"this token permits nothing, so it reaches nothing at {path}", path=path, subject=context.subject)


def _texts(what: str, values: Iterable[str]) -> list[str]:
    if isinstance(values, str):
        raise DefinitionError(f"Gateway({what}={values!r}): give a list of them")
    return list(values)


def _host(value: object) -> str:
    if type(value) is not str or not _NAME.fullmatch(value.lower()):
        raise DefinitionError(f"Gateway(hosts=…): {value!r} is no host: give a name or an address without a port, an IPv6 one in brackets")
    return value.lower()


def _origin(value: object) -> str:
    if type(value) is not str or not re.fullmatch(r"https?://[^/\s]+", value):
        raise DefinitionError(f"Gateway(origins=…): {value!r} is no origin: give http://host:port or https://host:port, without a path")
    return value
