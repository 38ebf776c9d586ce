"""Where a gateway is: its address, checked before anything is sent there."""

from __future__ import annotations

import ipaddress
import re
from typing import Final
from urllib.parse import urlsplit

import attrs

from retinue.mailbox.errors import GatewayError
from retinue.security.errors import DefinitionError

__all__ = ["Address", "check_address", "check_path"]

_HOST: Final = re.compile(r"[A-Za-z0-9_.:-]{1,255}")
_PATH: Final = re.compile(r"/[^\x00-\x20\x7f]{1,2000}")


@attrs.frozen
class Address:
    """A gateway's address.

    Attributes:
        origin: `http://127.0.0.1:8420`: scheme, host and port, and nothing else.
        tls: Whether the connection is encrypted.
    """

    origin: str
    tls: bool


def check_address(url: object, *, plain: bool = False) -> Address:
    """The address that a URL gives.

    Args:
        url: `http://host:port` or `https://host:port`.
        plain: Whether `http` may lead to another machine, where whoever is between can read the token.

    Raises:
        GatewayError: It is no such URL, or it would carry the token over the network unencrypted ("wrong_url"); its text does not repeat what may be secret.
    """
    if not isinstance(url, str):
        raise DefinitionError(f"the gateway's URL is a str such as 'http://127.0.0.1:8420', not an object of type {type(url).__name__}")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise _wrong("it is no URL") from None
    if parts.scheme not in ("http", "https"):
        raise _wrong("it begins with http:// or https://")
    if parts.username is not None or parts.password is not None:
        raise _wrong("a name or password does not belong in it; the token is given as token=")
    if parts.path not in ("", "/") or parts.query or parts.fragment:
        raise _wrong("it has no path, query or fragment: the actor's path is given to client.ref(…)")
    if not _HOST.fullmatch(host) or port == 0:
        raise _wrong("it needs a host and a port")
    tls = parts.scheme == "https"
    if not tls and not plain and not _is_loopback(host):
        raise _wrong(
            "http to another machine would show the token to whoever is between: use https, or a tunnel to the machine; "
            "where the network is trusted, say so with plain=True"
        )
    shown = f"[{host}]" if ":" in host else host
    return Address(f"{parts.scheme}://{shown}{'' if port is None else f':{port}'}", tls)


def check_path(path: object) -> str:
    """An actor's path, `/user/…`. Raises DefinitionError for what cannot be one."""
    if not isinstance(path, str) or not _PATH.fullmatch(path) or any("\ud800" <= character <= "\udfff" for character in path):
        shown = repr(path)[:200] if isinstance(path, str) else f"an object of type {type(path).__name__}"
        raise DefinitionError(f"{shown} is no actor's path: give the path that its ref has in the system, such as '/user/shop'")
    return path


def _is_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _wrong(why: str) -> GatewayError:
    return GatewayError(
        f"the gateway's URL cannot be used: {why}. It is what `retinue serve` prints, such as http://127.0.0.1:8420",
        reason="wrong_url",
        delivered=False,
    )
