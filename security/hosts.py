"""URLs and host names, judged by their text alone: what two parsers could read differently is refused, never repaired.

The text is screened first, then taken apart by a small grammar of our own, and then by the standard library; the two must agree. What
an allow-list is compared with is the host that will be connected to, never the raw text (`https://evil.tld/?a=.example.com/`). Which
addresses a name stands for is not asked here: that is checked by what connects (`retinue.capabilities.net`).
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterable
from typing import Final, final
from urllib.parse import urlsplit

import attrs

from retinue.security.errors import GuardRefused

__all__ = [
    "DEFAULT_PORTS",
    "MAX_HOST_CHARACTERS",
    "MAX_URL_CHARACTERS",
    "HostPattern",
    "Url",
    "check_host",
    "check_url",
    "host_matches",
    "split_url",
]

DEFAULT_PORTS: Final = {"http": 80, "https": 443, "ws": 80, "wss": 443}
"""The schemes that exist here, each with the port that a URL without one means."""

MAX_URL_CHARACTERS: Final = 8192
"""Characters of a URL."""

MAX_HOST_CHARACTERS: Final = 253
"""Characters of a host name, a trailing dot left out."""

_MAX_LABEL: Final = 63
_SHOWN_CHARACTERS: Final = 80

_VISIBLE: Final = re.compile(r"[!-\[\]-~]+")  # ASCII from 0x21 to 0x7E without the backslash
_LABEL: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?")
_PORT: Final = re.compile(r"[1-9][0-9]{0,4}")

# The scheme in lower case, the authority up to the first of / ? #, and the rest.
_URL: Final = re.compile(r"([a-z][a-z0-9+.-]*)://([^/?#]*)(.*)")


def _refused(text: str) -> GuardRefused:
    return GuardRefused(text, what="host")


def _shown(host: str) -> str:
    return repr(host) if len(host) <= _SHOWN_CHARACTERS else f"{host[:_SHOWN_CHARACTERS]!r}… ({len(host)} characters)"


def _labels(host: str, what: str) -> tuple[str, ...]:
    """The labels of a host name in lower case, checked; one trailing dot is dropped."""
    if not host.isascii():
        raise _refused(f"{what} has characters outside ASCII. Write its punycode form (xn--…), as the name system knows it.")
    plain = host.lower().removesuffix(".")
    if not plain or len(plain) > MAX_HOST_CHARACTERS:
        raise _refused(
            f"{what} has 1 to {MAX_HOST_CHARACTERS} characters; this one has {len(plain)}. Write a name such as 'api.example.com'."
        )
    labels = tuple(plain.split("."))
    for number, label in enumerate(labels, 1):
        if len(label) > _MAX_LABEL or not _LABEL.fullmatch(label):
            raise _refused(
                f"{what}, {_shown(plain)}, is no host name: label {number} must be 1 to {_MAX_LABEL} characters of a-z 0-9 -, "
                "without a - at its ends. Write a name such as 'api.example.com', without user, port or address."
            )
    # Whatever reads numbers as addresses (127.1, 0x7f000001, 2130706433, 0177.0.0.1) does so only if the last label begins with a digit.
    if labels[-1][0] in string.digits:
        raise _refused(f"{what}, {_shown(plain)}, may be read as an IP address. Addresses are refused in every spelling: write a name.")
    return labels


def check_host(host: str) -> str:
    """A host name in lower case, one trailing dot dropped, if it is nothing else than a name.

    Labels of 1 to 63 characters `a-z 0-9 -`, no `-` at a label's ends, 253 characters in all, and a last label that begins with a
    letter. IP addresses are refused in every spelling, and so is what is not ASCII: write punycode, which is compared literally.

    Raises:
        GuardRefused: See above, or `host` is no plain `str`. Its `what` is "host".
    """
    if type(host) is not str:
        raise _refused(f"a host is a plain str, not an object of type {type(host).__name__}. Pass its name.")
    return ".".join(_labels(host, "the host"))


def _pattern_text(text: object) -> str:
    if type(text) is not str:
        raise _refused(f"a host name is a plain str, not an object of type {type(text).__name__}. Write a name such as 'api.example.com'.")
    star, dot, name = text.partition(".")
    if text == "**":
        return text
    if star in ("*", "**") and dot:
        return ".".join((star, *_labels(name, f"the pattern {_shown(text)}, its wildcard left out,")))
    if "://" in text:
        raise _refused(  # not shown: a URL may have a password
            "this is a URL, and a host is wanted: a name without the scheme, the port and the path. Write 'api.example.com'; schemes= and ports= say the rest."
        )
    if "*" in text:
        raise _refused(
            f"{_shown(text)} is no pattern of hosts. Write '*.example.com' for exactly one more label, '**.example.com' for one or more, "
            "'**' for every name of two or more labels."
        )
    return ".".join(_labels(text, "the host"))


@final
@attrs.frozen(repr=False)
class HostPattern:
    """A name of a host, or a pattern of names, parsed once.

    `example.com` is that host alone. `*.example.com` is exactly one label more, `**.example.com` one or more; neither is `example.com`
    itself. `**` is every name of two or more labels: names of one label, such as `localhost`, are listed or refused. Case does not
    count, one trailing dot is dropped.

    Raises:
        GuardRefused: The text is malformed: an IP address, characters outside ASCII, a wildcard that is not the first label.
    """

    text: str = attrs.field(converter=_pattern_text)
    _tail: tuple[str, ...] = attrs.field(init=False, eq=False)  # the labels, a leading wildcard left out
    _least: int = attrs.field(init=False, eq=False)
    _most: int = attrs.field(init=False, eq=False)

    def __attrs_post_init__(self) -> None:
        labels = tuple(self.text.split("."))
        star = labels[0] if labels[0] in ("*", "**") else ""
        tail = labels[1:] if star else labels
        least = max(2, len(tail) + 1) if star else len(tail)
        # attrs' own way to set what is derived on a frozen class.
        object.__setattr__(self, "_tail", tail)
        object.__setattr__(self, "_least", least)
        object.__setattr__(self, "_most", MAX_HOST_CHARACTERS if star == "**" else least)

    def matches(self, host: str) -> bool:
        """Whether the pattern names the host, which `check_host` or `split_url` returned."""
        labels = tuple(host.split("."))
        tail = self._tail
        return self._least <= len(labels) <= self._most and labels[len(labels) - len(tail) :] == tail

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"HostPattern({self.text!r})"


def host_matches(pattern: str, host: str) -> bool:
    """Whether the pattern (see `HostPattern`) names the host; a host that `check_host` refuses is named by none.

    Raises:
        GuardRefused: The pattern is malformed.
    """
    parsed = HostPattern(pattern)
    try:
        return parsed.matches(check_host(host))
    except GuardRefused:
        return False


@final
@attrs.frozen
class Url:
    """A URL that was taken apart and has one reading.

    Attributes:
        text: The URL as it was given.
        scheme: "http", "https", "ws" or "wss".
        host: The name in lower case, without a trailing dot: what to resolve, and what to send as SNI and `Host`.
        port: The port, the scheme's own where the URL names none.
        target: Path and query as they are sent, "/" at the least; without the fragment.
    """

    text: str = attrs.field(repr=False)  # may hold a secret in its query
    scheme: str
    host: str
    port: int
    target: str = attrs.field(repr=False)


def _host_and_port(authority: str, scheme: str) -> tuple[str, int]:
    if "@" in authority:
        raise _refused("the URL has a user or a password before its host. Leave them out; send credentials in a header.")
    if "[" in authority or "]" in authority:
        raise _refused("the URL's host is an IPv6 address. Addresses are refused in every spelling: write a name.")
    host, colon, digits = authority.partition(":")
    if not colon:
        return host, DEFAULT_PORTS[scheme]
    if not _PORT.fullmatch(digits) or int(digits) > 65535:
        raise _refused(
            "the URL's port is no number from 1 to 65535, written without leading zeros. Correct it, or leave it and its ':' out."
        )
    return host, int(digits)


def split_url(url: str) -> Url:
    """Take a URL apart, whatever its host; `check_url` also compares it with an allow-list.

    Raises:
        GuardRefused: The text is no absolute URL of a known scheme with one reading. Its `what` is "host", and its text repeats no
            more of the URL than the host.
    """
    if type(url) is not str:
        raise _refused(f"a URL is a plain str, not an object of type {type(url).__name__}. Pass its text.")
    if len(url) > MAX_URL_CHARACTERS:
        raise _refused(f"the URL has {len(url)} characters, more than {MAX_URL_CHARACTERS}. Send long data in the body.")
    # Parsers skip tabs and line ends, stop at a NUL, and take a backslash for a slash or not: nothing of that gets as far as a parser.
    if not _VISIBLE.fullmatch(url):
        raise _refused(
            "the URL has a blank, a control character, a backslash, or one outside ASCII. Percent-encode it; write hosts in punycode."
        )
    match = _URL.fullmatch(url)
    if match is None or match[1] not in DEFAULT_PORTS:
        raise _refused(f"the URL does not begin with one of {', '.join(sorted(DEFAULT_PORTS))} in lower case and '://'. Write it in full.")
    scheme, authority, rest = match.groups()
    raw_host, port = _host_and_port(authority, scheme)
    host = ".".join(_labels(raw_host, "the URL's host"))
    if rest and rest[0] != "/":
        # `https://good.example?@evil.tld/`: readers have disagreed about where such a host ends.
        raise _refused(f"the URL's host, {_shown(host)}, is followed by '{rest[0]}'. Write a '/' after the host.")
    try:
        parts = urlsplit(url)
        theirs = (parts.scheme, parts.netloc, parts.username, parts.hostname, DEFAULT_PORTS[scheme] if parts.port is None else parts.port)
    except ValueError:
        theirs = None
    if theirs != (scheme, authority, None, raw_host.lower(), port):
        raise _refused("the URL is read differently by the standard library. Write it plainly: scheme://host/path.")
    return Url(text=url, scheme=scheme, host=host, port=port, target=rest.partition("#")[0] or "/")


def check_url(url: str, names: Iterable[str | HostPattern], schemes: Iterable[str] = ("https",), ports: Iterable[int] = (443,)) -> Url:
    """The URL taken apart, if its host is one of `names` and its scheme and port are among those listed.

    Refused, and never repaired: users and passwords, IP addresses in any spelling, blanks, control characters, backslashes, characters
    outside ASCII, schemes in capitals, a host that no `/` follows where something does, empty ports and ports with leading zeros.

    Args:
        url: The whole URL.
        names: Hosts and patterns, see `HostPattern`.
        schemes: Exact schemes, by default https alone.
        ports: Exact ports, by default 443 alone; a URL without one counts with its scheme's own.

    Raises:
        GuardRefused: See above. Its `what` is "host".
    """
    if isinstance(names, str) or isinstance(schemes, str):
        raise _refused("names and schemes are lists. Write names=['api.example.com'], schemes=['https'].")
    patterns = [name if type(name) is HostPattern else HostPattern(name) for name in names]
    schemes, ports = tuple(schemes), tuple(ports)
    parsed = split_url(url)
    if parsed.scheme not in schemes:
        raise _refused(f"the URL's scheme is '{parsed.scheme}', and permitted is {', '.join(schemes) or 'none'}.")
    if parsed.port not in ports:
        raise _refused(f"the URL's port is {parsed.port}, and permitted is {', '.join(map(str, ports)) or 'none'}.")
    if not any(pattern.matches(parsed.host) for pattern in patterns):
        raise _refused(f"the URL's host, {_shown(parsed.host)}, is not permitted; permitted is {', '.join(map(str, patterns)) or 'none'}.")
    return parsed
