"""Addresses: every spelling is seen through, and only the public internet is public. Absolute tables, with few laws beside them."""

from __future__ import annotations

import socket
from ipaddress import IPv4Address, IPv4Network, IPv6Address, ip_address

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from retinue.security.addresses import embedded_addresses, is_private, is_public, parse_any_ip

LOOPBACK = [
    "127.0.0.1",
    "127.1",
    "127.0.1",
    "2130706433",
    "0x7f000001",
    "0X7F000001",
    "0x7f.1",
    "0x7F.0x0.0x0.0x1",
    "017700000001",
    "0177.0.0.1",
    "0177.1",
    "00000177.0000.0.01",
    "0" * 300 + "177.1",
    "127.0.0.1.",
    " 127.0.0.1 ",
    "127.0.0.1\n",
    "127.0.0.1 example.com",
    "127.0.0.1\tx",
    "[127.0.0.1]",
    "１２７.０.０.１",
    "127。0。0。1",
    "127．0．0．1",
    "127｡0｡0｡1",
    "①②⑦.0.0.①",
]
OTHERS = {
    "0": "0.0.0.0",
    "0x": "0.0.0.0",
    "0.0": "0.0.0.0",
    "4294967295": "255.255.255.255",
    "0xffffffff": "255.255.255.255",
    "1.16777215": "1.255.255.255",
    "1.2.65535": "1.2.255.255",
    "08.1": "8.0.0.1",
    "010.0.0.1": "8.0.0.1",
    "::1": "::1",
    "[::1]": "::1",
    "0:0:0:0:0:0:0:1": "::1",
    "::FFFF:127.0.0.1": "::ffff:7f00:1",
    "[::ffff:7f00:1]": "::ffff:7f00:1",
    "fe80::1%eth0": "fe80::1%eth0",
    "[fe80::1%25eth0]": "fe80::1%25eth0",
    "：：1": "::1",
    "fe80::1%": "fe80::1",
    "fe80::1%a%b": "fe80::1",
}
NO_ADDRESSES = [
    "",
    " ",
    ".",
    "..",
    "a",
    "example.com",
    "1.2.3.4.5",
    "1..2",
    ".1",
    "256.0.0.1",
    "1.256.1",
    "4294967296",
    "1.16777216",
    "0x100000000",
    "-1",
    "+1",
    "1_0.0.0.1",
    "0b1.0.0.1",
    "0o17.1",
    "1e3",
    "1.2.3.4/32",
    "127.0.0.1:80",
    "x127.0.0.1",
    "127.0.0.1x",
    ":",
    ":::",
    "1::2::3",
    "::1/128",
    "٣",  # another script's digit: NFKC leaves it, and no resolver takes it
    "9" * 4097,
]

PUBLIC = [
    "1.1.1.1",
    "8.8.8.8",
    "9.255.255.255",
    "11.0.0.0",
    "100.63.255.255",
    "100.128.0.0",
    "126.255.255.255",
    "128.0.0.0",
    "169.253.255.255",
    "172.15.255.255",
    "172.32.0.0",
    "192.0.1.0",
    "192.167.255.255",
    "198.17.255.255",
    "198.20.0.0",
    "223.255.255.255",
    "168.63.129.15",
    "2606:4700:4700::1111",
    "2001:4860:4860::8888",
    "2a00:1450:4001:81b::200e",
    "::ffff:8.8.8.8",
    "64:ff9b::8.8.8.8",
]
NOT_PUBLIC = [
    "0.0.0.0",
    "0.1.2.3",
    "10.0.0.1",
    "10.255.255.255",
    "100.64.0.1",
    "100.100.100.200",
    "100.127.255.255",
    "127.0.0.1",
    "127.255.255.255",
    "168.63.129.16",
    "169.254.0.1",
    "169.254.169.254",
    "172.16.0.0",
    "172.31.255.255",
    "192.0.0.1",
    "192.0.0.9",
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.0.1",
    "198.18.0.1",
    "198.19.255.255",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "224.0.1.1",
    "233.252.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::2",
    "::7f00:1",
    "::8.8.8.8",
    "100::1",
    "1000::1",
    "2001::1",
    "2001:0:808:808::f7f7:f7f7",  # Teredo: server and client are 8.8.8.8
    "2001:2::1",
    "2001:10::1",
    "2001:20::1",
    "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff",
    "2001:db8::1",
    "2002:7f00:1::",
    "2002:808:808::1",
    "3fff::1",
    "4000::1",
    "5f00::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fe80::1%eth0",
    "2606:4700::1%eth0",
    "fec0::1",
    "ff02::1",
    "ff0e::1",
    "::ffff:0:0",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:169.254.169.254",
    "::ffff:100.64.0.1",
    "::ffff:0:127.0.0.1",
    "::ffff:0:8.8.8.8",
    "64:ff9b::127.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::8.8.8.8",
    "64:ff9b:1::10.0.0.1",
    "2a00::5efe:10.0.0.1",
    "2a00::200:5efe:127.0.0.1",
]


@pytest.mark.parametrize("text", LOOPBACK)
def test_every_spelling_of_loopback_is_loopback(text):
    assert parse_any_ip(text) == IPv4Address("127.0.0.1")


@pytest.mark.parametrize("text", OTHERS)
def test_other_spellings(text):
    assert parse_any_ip(text) == ip_address(OTHERS[text])


@pytest.mark.parametrize("text", NO_ADDRESSES)
def test_what_is_no_address_is_none(text):
    assert parse_any_ip(text) is None


@pytest.mark.parametrize("value", [None, 1, 2130706433, b"127.0.0.1", IPv4Address(1), ["127.0.0.1"], type("Text", (str,), {})("127.0.0.1")])
def test_what_is_no_plain_text_is_none(value):
    assert parse_any_ip(value) is None


NUMBERS = st.one_of(
    st.integers(0, 300).map(str), st.integers(0, 300).map(hex), st.integers(0, 300).map("0{:o}".format), st.integers(0, 2**33).map(str)
)
TEXTS = st.one_of(
    st.lists(NUMBERS, min_size=1, max_size=5).map(".".join), st.text("0123456789abcdefx. \n", max_size=16), st.text(max_size=20)
)


@given(TEXTS)
@example("1.2.3.4 \0")
@example("0x7f.1 x")
def test_what_the_systems_own_resolver_takes_for_an_address_is_one(text):
    """`inet_aton` is what a name goes through first, in the resolvers of most systems."""
    try:
        expected = IPv4Address(socket.inet_aton(text))
    except (OSError, ValueError):  # no address; or a character that it does not take
        return
    assert parse_any_ip(text) == expected


@given(st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6)))
def test_the_strict_spellings_are_read_as_ever(address):
    assert parse_any_ip(str(address)) == address
    assert parse_any_ip(address.exploded) == address


@pytest.mark.parametrize("text", PUBLIC)
def test_these_are_public(text):
    assert is_public(ip_address(text)) is True
    assert is_private(ip_address(text)) is False


@pytest.mark.parametrize("text", NOT_PUBLIC)
def test_these_are_not_public(text):
    assert is_public(ip_address(text)) is False


@pytest.mark.parametrize(
    "value", [None, "8.8.8.8", 134744072, b"\x08\x08\x08\x08", IPv4Network("8.8.8.8"), object(), type("IP", (IPv4Address,), {})("8.8.8.8")]
)
def test_what_is_no_address_is_neither_public_nor_private(value):
    assert is_public(value) is False
    assert is_private(value) is False


@pytest.mark.parametrize(
    "text",
    [
        "10.0.0.1",
        "127.0.0.1",
        "127.9.9.9",
        "172.16.0.1",
        "192.168.1.1",
        "100.64.0.1",
        "::1",
        "fc00::1",
        "fd12::1",
        "::ffff:10.0.0.1",
        "::ffff:127.0.0.1",
    ],
)
def test_these_are_private(text):
    assert is_private(ip_address(text)) is True


NEITHER = """
    169.254.169.254 100.100.100.200 fd00:ec2::254 fd20:ce::254 168.63.129.16 192.0.0.192 ::ffff:169.254.169.254 ::ffff:100.100.100.200 fd12::5efe:169.254.169.254
    fe80::1 fd12::1%eth0 0.0.0.0 :: 224.0.0.1 ff02::1 255.255.255.255 240.0.0.1 192.0.2.1 2001:db8::1 64:ff9b::10.0.0.1 ::10.0.0.1
"""


@pytest.mark.parametrize("text", NEITHER.split())
def test_private_does_not_include_metadata_servers_nor_what_no_network_routes(text):
    assert is_private(ip_address(text)) is False
    assert is_public(ip_address(text)) is False


@given(st.ip_addresses(v=4))
def test_an_ipv4_address_inside_an_ipv6_one_is_never_more_public_than_by_itself(address):
    value = int(address)
    spellings = [0xFFFF << 32, 0xFFFF_0000 << 32, 0, 0x0064_FF9B << 96, 0x0064_FF9B_0001 << 80, 0x2A00 << 112 | 0x5EFE << 32]
    inside = [IPv6Address(prefix | value) for prefix in spellings] + [
        IPv6Address(0x2002 << 112 | value << 80),
        IPv6Address(0x2001 << 112 | value ^ 0xFFFF_FFFF),
    ]
    for outer in inside:
        if outer not in (IPv6Address("::"), IPv6Address("::1")):
            assert address in embedded_addresses(outer)
        assert is_public(outer) <= is_public(address)
        assert is_private(outer) <= is_private(address) or outer == IPv6Address("::1")


@given(st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6)))
def test_what_is_public_is_global_and_neither_private_nor_multicast(address):
    if is_public(address):
        assert not is_private(address)
        assert not address.is_multicast
        assert not address.is_loopback
        assert not address.is_link_local
        assert not address.is_unspecified


def test_an_address_that_holds_none_holds_none():
    for text in ("8.8.8.8", "::", "::1", "2606:4700::1", "fe80::1"):
        assert embedded_addresses(ip_address(text)) == ()
