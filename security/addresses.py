"""IP addresses: every spelling that a resolver might take for one, and which of them are on the public internet.

`ipaddress` reads only the strict spellings, and its `is_global` differs between Python's versions (multicast, 192.88.99.0/24, the
tunnels) and does not look at the IPv4 address inside an IPv6 one: `64:ff9b::7f00:1` is 127.0.0.1 behind a NAT64. So what is public is
said here, as the little that is allowed.
"""

from __future__ import annotations

import unicodedata
from ipaddress import AddressValueError, IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Final, TypeAlias

__all__ = ["IPAddress", "IPNetwork", "embedded_addresses", "is_private", "is_public", "parse_any_ip"]

IPAddress: TypeAlias = IPv4Address | IPv6Address
"""An IPv4 or an IPv6 address."""

IPNetwork: TypeAlias = IPv4Network | IPv6Network
"""An IPv4 or an IPv6 network."""

_LONGEST: Final = 4096
"""Characters. Numbers may have any count of leading zeros, so the longest useful spelling is long; int() reads this much quickly."""

_DOTS: Final = str.maketrans(dict.fromkeys("。．｡․", "."))
"""What IDNA, NFKC or a sloppy reader takes for a dot."""

# What is not the public internet, from IANA's registries of special-purpose addresses (the few global parts of 192.0.0.0/24 left out on purpose).
_NOT_PUBLIC_4: Final = tuple(
    IPv4Network(network)
    for network in (
        "0.0.0.0/8",  # this network; 0.0.0.0 connects to this machine
        "10.0.0.0/8",
        "100.64.0.0/10",  # carrier-grade NAT, and the metadata server of a cloud
        "127.0.0.0/8",
        "168.63.129.16/32",  # the host of an Azure machine: a public number, answered inside
        "169.254.0.0/16",  # link-local: the metadata servers of most clouds
        "172.16.0.0/12",
        "192.0.0.0/24",  # protocol assignments, and the metadata server of a cloud
        "192.0.2.0/24",  # documentation
        "192.88.99.0/24",  # 6to4 relays
        "192.168.0.0/16",
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, and broadcast
    )
)
_UNICAST_6: Final = IPv6Network("2000::/3")
_NAT64: Final = IPv6Network("64:ff9b::/96")
_NOT_PUBLIC_6: Final = tuple(
    IPv6Network(network)
    for network in (
        "2001::/23",  # protocol assignments: Teredo, benchmarks, ORCHID
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4
        "3fff::/20",  # documentation
    )
)

# What a private network is: unicast that is routed inside, and this machine. Link-local is left out: there sit the metadata servers of clouds.
_PRIVATE_4: Final = tuple(
    IPv4Network(network) for network in ("10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")
)
_PRIVATE_6: Final = (IPv6Network("::1/128"), IPv6Network("fc00::/7"))
_METADATA: Final = frozenset({IPv4Address("100.100.100.200"), IPv6Address("fd00:ec2::254"), IPv6Address("fd20:ce::254")})
"""Metadata servers at private addresses: they give away a machine's credentials, so "private" does not include them."""


def parse_any_ip(text: object) -> IPAddress | None:
    """Read an IP address in any spelling that some resolver, library or browser takes for one.

    Beside the strict ones: fewer than four numbers (`127.1`, `2130706433`), octal and hexadecimal numbers (`0177.0.0.1`, `0x7f.1`), a
    trailing dot, brackets, a zone (`fe80::1%eth0`), blanks around, text after a blank (as `inet_aton` does), full-width digits and dots.

    Args:
        text: Anything; what is no exact `str` is no address.

    Returns:
        The address, or None where no spelling of one is known that is like this. An IPv6 address keeps its zone; one that holds an IPv4
        address is returned as it is (see `embedded_addresses`). Never raises.
    """
    if type(text) is not str or not 0 < len(text) <= _LONGEST:
        return None
    words = unicodedata.normalize("NFKC", text.translate(_DOTS)).split()
    if not words:
        return None
    plain = words[0].removesuffix(".")
    if plain.startswith("[") and plain.endswith("]"):
        plain = plain[1:-1]
    if ":" in plain:
        return _parse_6(plain)
    value = _parse_4(plain.removesuffix("."))
    return None if value is None else IPv4Address(value)


def _parse_6(text: str) -> IPv6Address | None:
    address, mark, zone = text.partition("%")
    try:
        return IPv6Address(f"{address}%{zone}" if mark and zone and "%" not in zone else address)
    except AddressValueError:
        return None


def _parse_4(text: str) -> int | None:
    """The rules of `inet_aton`: one to four numbers, of which the last fills the bytes that are left."""
    parts = text.split(".")
    if len(parts) > 4:
        return None
    numbers = [_number(part) for part in parts]
    value = 0
    for number in numbers[:-1]:
        if number is None or number > 255:
            return None
        value = value << 8 | number
    last, room = numbers[-1], 8 * (5 - len(parts))
    if last is None or last >= 1 << room:
        return None
    return value << room | last


def _number(text: str) -> int | None:
    text = text.lower()
    if not text.isascii() or not text.isalnum():  # int() would take signs, blanks and underscores
        return None
    try:
        if text.startswith("0x"):
            return int(text[2:] or "0", 16)
        if text.startswith("0") and set(text) <= set("01234567"):
            return int(text, 8)
        return int(text)  # 08 is no octal number: some refuse it, some take it for 8
    except ValueError:
        return None


def embedded_addresses(address: IPAddress) -> tuple[IPv4Address, ...]:
    """The IPv4 addresses that an IPv6 address stands for or leads to: mapped, compatible, translated, NAT64, 6to4, Teredo, ISATAP.

    Args:
        address: Any address; an IPv4 address holds none.

    Returns:
        None, one, or for Teredo two (its server and its client).
    """
    if not isinstance(address, IPv6Address):
        return ()
    value = int(address)
    low = IPv4Address(value & 0xFFFF_FFFF)
    top = value >> 32
    if top in (0xFFFF, 0xFFFF_0000, 0x0064_FF9B << 64) or (top == 0 and value > 1):
        return (low,)  # ::ffff:a.b.c.d, ::ffff:0:a.b.c.d, 64:ff9b::a.b.c.d, ::a.b.c.d (:: and ::1 are no such)
    if value >> 80 == 0x0064_FF9B_0001:
        return (low,)  # 64:ff9b:1::/48, a NAT64 of one's own, in its /96 form
    if value >> 112 == 0x2002:
        return (IPv4Address(value >> 80 & 0xFFFF_FFFF),)
    if value >> 96 == 0x2001_0000:
        return (IPv4Address(value >> 64 & 0xFFFF_FFFF), IPv4Address(~value & 0xFFFF_FFFF))
    if value >> 32 & 0xFCFF_FFFF == 0x0000_5EFE:  # ISATAP, with the "universal" and the "group" bit of either value
        return (low,)
    return ()


def is_public(address: object) -> bool:
    """Whether an address is on the public internet: globally routed unicast, also where an IPv4 address is inside an IPv6 one.

    Not public are private, loopback, link-local, carrier-grade NAT, documentation, benchmark, multicast and reserved addresses, the
    tunnels 6to4 and Teredo, IPv6 addresses with a zone, and the address at which Azure's hosts answer (168.63.129.16). Of IPv6 only
    2000::/3 and NAT64 addresses are considered at all.

    Args:
        address: An `IPv4Address` or `IPv6Address`; anything else, text included, is not public.

    Returns:
        True or False; never raises.
    """
    if type(address) is IPv4Address:
        return address.is_global and not _in(address, _NOT_PUBLIC_4)
    if type(address) is not IPv6Address or address.scope_id is not None:
        return False
    if address in _UNICAST_6:
        routed = address.is_global and not _in(address, _NOT_PUBLIC_6)
    else:
        routed = address in _NAT64 or address.ipv4_mapped is not None
    return routed and all(is_public(inner) for inner in embedded_addresses(address))


def is_private(address: object) -> bool:
    """Whether an address is one of a private network or of this machine: what `allow_private=True` adds to the public ones.

    These are 10/8, 172.16/12, 192.168/16, 100.64/10, fc00::/7 and loopback, also mapped into IPv6; never link-local, multicast,
    unspecified or reserved addresses, and not the known metadata servers of clouds, which give away the machine's credentials.

    Args:
        address: An `IPv4Address` or `IPv6Address`; anything else is not private.

    Returns:
        True or False; never raises.
    """
    if type(address) is IPv4Address:
        return _in(address, _PRIVATE_4) and address not in _METADATA
    if type(address) is not IPv6Address or address.scope_id is not None or address in _METADATA:
        return False
    if address.ipv4_mapped is not None:
        return is_private(address.ipv4_mapped)
    return _in(address, _PRIVATE_6) and all(is_private(inner) or is_public(inner) for inner in embedded_addresses(address))


def _in(address: IPAddress, networks: tuple[IPNetwork, ...]) -> bool:
    return any(address in network for network in networks)
