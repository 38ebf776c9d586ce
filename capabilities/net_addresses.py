"""From a host's name to the addresses that may be connected to: resolved once, and all of them checked.

A name is permitted; what it stands for is said by whoever runs its name server, and may be another thing a second later (DNS rebinding).
So nothing is resolved twice, and one address that is not permitted refuses the name with all its addresses.
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final, TypeAlias

import attrs
import trio

from retinue.security.addresses import IPAddress, IPNetwork, is_private, is_public
from retinue.security.errors import GuardRefused

__all__ = ["MAX_ADDRESSES", "AddressRule", "Resolver", "resolve", "system_resolver"]

Resolver: TypeAlias = Callable[[str, int], Awaitable[Sequence[str | IPAddress]]]
"""Takes a host's name and a port, gives its addresses in the order in which to try them; an OSError where there are none."""

MAX_ADDRESSES: Final = 64
"""The most addresses of one name."""


def _networks(given: Iterable[object]) -> tuple[IPNetwork, ...]:
    if isinstance(given, str | bytes):
        raise GuardRefused(f"addresses={given!r} is one text: give a list, ['127.0.0.1'] for example", what="host")
    found: list[IPNetwork] = []
    for item in given:
        try:
            found.append(ip_network(str(item)))
        except ValueError:
            raise GuardRefused(
                f"addresses= has {item!r}, which is no address and no network: write '127.0.0.1' or '10.1.0.0/16'", what="host"
            ) from None
    return tuple(found)


@attrs.frozen
class AddressRule:
    """Which addresses may be connected to.

    Attributes:
        allow_private: Whether those of private networks and of this machine may be (see `is_private`), beside the public ones.
        addresses: Networks that may be in any case.
    """

    allow_private: bool = False
    addresses: tuple[IPNetwork, ...] = attrs.field(default=(), converter=_networks)

    def permits(self, address: IPAddress) -> bool:
        """Whether the address may be connected to."""
        return is_public(address) or (self.allow_private and is_private(address)) or any(address in network for network in self.addresses)


async def system_resolver(name: str, port: int) -> Sequence[str]:
    """Ask the machine's resolver, in a thread."""
    answers = await trio.socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in answers]


async def resolve(name: str, port: int, resolver: Resolver, rule: AddressRule) -> tuple[IPAddress, ...]:
    """The addresses of a name, each once, if each may be connected to.

    Raises:
        GuardRefused: One of them may not be, is no address, or there are more than 64 of them. Its `what` is "host".
        OSError: The name has no address, or could not be resolved.
    """
    answers = await resolver(name, port)
    if not answers:
        raise OSError(f"the host {name!r} has no address")
    if len(answers) > MAX_ADDRESSES:
        raise GuardRefused(
            f"the host {name!r} has {len(answers)} addresses, more than {MAX_ADDRESSES}. None was connected to.", what="host"
        )
    found: dict[IPAddress, None] = {}
    for answer in answers:
        address = _address(name, answer)
        if not rule.permits(address):
            raise GuardRefused(
                f"the host {name!r} stands for {address}, which is not on the public internet. Nothing was connected to. "
                "Fix: if that is wanted, give allow_private=True, or addresses= with what may be connected to.",
                what="host",
            )
        found[address] = None
    return tuple(found)


def _address(name: str, answer: object) -> IPAddress:
    if type(answer) is IPv4Address or type(answer) is IPv6Address:
        return answer
    try:
        return ip_address(answer if type(answer) is str else "")
    except ValueError:
        raise GuardRefused(
            f"the resolver's answer for the host {name!r} is no IP address. Nothing was connected to.", what="host"
        ) from None
