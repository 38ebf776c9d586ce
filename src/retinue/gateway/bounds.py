"""The bounds of a gateway: how large, how many, how long, each with its unit and its default."""

from __future__ import annotations

import math
from typing import Any, TypedDict

import attrs

from retinue.security.errors import DefinitionError

__all__ = ["Bounds", "BoundsOptions"]


class BoundsOptions(TypedDict, total=False):
    """The bounds as keyword arguments of `Gateway`; `Bounds` describes them."""

    max_headers: int
    max_body: int
    max_reply: int
    max_item: int
    max_unsent: int
    max_unsent_per_token: int
    max_connections: int
    max_streams: int
    max_streams_per_token: int
    rate: float
    burst: int
    header_timeout: float
    body_timeout: float
    keep_alive: float
    write_timeout: float
    request_timeout: float
    stream_timeout: float
    heartbeat: float


def _positive(_: object, attribute: attrs.Attribute[Any], value: Any) -> Any:
    whole = attribute.type in (int, "int")
    fits = not isinstance(value, bool) and isinstance(value, int if whole else (int, float)) and value > 0
    if not fits or (value == math.inf and attribute.name not in _ENDLESS):
        what = "a whole number above 0" if whole else "a number above 0"
        raise DefinitionError(f"Gateway({attribute.name}={value!r}): give {what}")


_ENDLESS = frozenset({"rate", "stream_timeout"})


@attrs.frozen(kw_only=True)
class Bounds:
    """What a gateway takes and gives; beyond it, it refuses.

    Attributes:
        max_headers: Bytes of a request's line and headers. Default: 81,920 (a sealed token has up to 65,536).
        max_body: Bytes of a request's body. Default: 1 MiB.
        max_reply: Bytes of one reply. Default: 8 MiB.
        max_item: Bytes of one item of a stream. Default: 1 MiB.
        max_unsent: Bytes of answers that clients do not take; beyond it connections are cut, the slowest first. Default: 256 MiB.
        max_unsent_per_token: The same for one token and all that was attenuated from it. Default: 64 MiB.
        max_connections: Connections at one time. Default: 2,048; fewer where the process may not open so many files (`ulimit -n`). Where all are taken, one on
            which no token was accepted is closed for another.
        max_streams: Streams and watches at one time. Default: 1,536.
        max_streams_per_token: The same for one token and all that was attenuated from it. Default: 256.
        rate: Requests a second for one token and all that was attenuated from it. Default: 200; `math.inf`: no limit. A token that is read for the first time
            counts as one more for each 1,024 characters.
        burst: Requests that may come at once before the rate counts. Default: 400.
        header_timeout: Seconds from the first byte of a request to the end of its headers. Default: 10.
        body_timeout: Seconds for the body. Default: 10.
        keep_alive: Seconds that a connection may be idle between two requests. Default: 75. (5 s where no token was accepted on it yet.)
        write_timeout: Seconds in which a client has to take some of what is sent to it. Default: 30.
        request_timeout: Seconds that an ask may wait, whatever its client asks for. Default: 60.
        stream_timeout: Seconds that a stream may last, whatever its client asks for. Default: 3,600; `math.inf`: no limit.
        heartbeat: Seconds of silence in a stream after which a comment is sent, which shows both ends that the other is there. Default: 15.
    """

    max_headers: int = attrs.field(default=81_920, validator=_positive)
    max_body: int = attrs.field(default=2**20, validator=_positive)
    max_reply: int = attrs.field(default=2**23, validator=_positive)
    max_item: int = attrs.field(default=2**20, validator=_positive)
    max_unsent: int = attrs.field(default=2**28, validator=_positive)
    max_unsent_per_token: int = attrs.field(default=2**26, validator=_positive)
    max_connections: int = attrs.field(default=2048, validator=_positive)
    max_streams: int = attrs.field(default=1536, validator=_positive)
    max_streams_per_token: int = attrs.field(default=256, validator=_positive)
    rate: float = attrs.field(default=200.0, validator=_positive)
    burst: int = attrs.field(default=400, validator=_positive)
    header_timeout: float = attrs.field(default=10.0, validator=_positive)
    body_timeout: float = attrs.field(default=10.0, validator=_positive)
    keep_alive: float = attrs.field(default=75.0, validator=_positive)
    write_timeout: float = attrs.field(default=30.0, validator=_positive)
    request_timeout: float = attrs.field(default=60.0, validator=_positive)
    stream_timeout: float = attrs.field(default=3600.0, validator=_positive)
    heartbeat: float = attrs.field(default=15.0, validator=_positive)
