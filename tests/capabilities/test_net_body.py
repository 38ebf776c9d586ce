"""Bodies with a bound: whole in any pieces, and never a byte beyond the bound."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retinue.capabilities.net_body import Body
from retinue.security.errors import GuardRefused


def raw_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


PACKERS = {
    "": bytes,
    "identity": bytes,
    "gzip": gzip.compress,
    "X-GZip": gzip.compress,
    " gzip , identity": gzip.compress,
    "deflate": zlib.compress,
    "Deflate": raw_deflate,
}


def feed_all(body, data, size):
    out = b"".join(body.feed(data[start : start + size]) for start in range(0, len(data), size))
    body.finish()
    return out


@pytest.mark.parametrize("encoding", PACKERS)
@given(data=st.one_of(st.binary(max_size=300), st.binary(min_size=1, max_size=4).map(lambda piece: piece * 100)))
def test_a_body_is_whole_in_whatever_pieces_it_comes(encoding, data):
    packed = PACKERS[encoding](data)
    for size in (1, 2, 3, 7, 10_000):
        assert feed_all(Body(encoding, max(len(packed), len(data), 1), "here"), packed, size) == data


@pytest.mark.parametrize("encoding", PACKERS)
def test_the_bound_is_exact_and_holds_for_what_comes_and_for_what_it_unpacks_to(encoding):
    data = bytes(range(256)) * 40
    packed = PACKERS[encoding](data)
    for size in (1, 100, len(packed)):
        assert feed_all(Body(encoding, len(data), "here"), packed, size) == data
        with pytest.raises(GuardRefused, match="more than 10,239 bytes") as caught:
            feed_all(Body(encoding, len(data) - 1, "here"), packed, size)
        assert caught.value.what == "body"
    noise = gzip.compress(b"")
    with pytest.raises(GuardRefused):  # nothing, said at length
        feed_all(Body("gzip", 100, "here"), noise * 6, 20)
    assert feed_all(Body("gzip", 120, "here"), noise * 6, 20) == b""


@pytest.mark.parametrize(("encoding", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress), ("deflate", raw_deflate)])
def test_a_bomb_is_unpacked_no_further_than_to_the_bound(encoding, pack):
    bomb = pack(bytes(64 * 1024 * 1024))
    tracemalloc.start()
    try:
        with pytest.raises(GuardRefused):
            Body(encoding, 1_000_000, "here").feed(bomb)
        assert tracemalloc.get_traced_memory()[1] < 8_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "encoding", ["br", "zstd", "compress", "gzip, gzip", "gzip,deflate", "br, identity", "unknown", "gzip;q=1", "\x00"]
)
def test_an_encoding_that_cannot_be_bounded_is_refused(encoding):
    with pytest.raises(GuardRefused, match="not asked for") as caught:
        Body(encoding, 1000, "here")
    assert caught.value.what == "body"


def test_gzip_may_consist_of_parts():
    data = gzip.compress(b"one ") + gzip.compress(b"") + gzip.compress(b"two")
    for size in (1, 5, 1000):
        assert feed_all(Body("gzip", 1000, "here"), data, size) == b"one two"


@pytest.mark.parametrize(
    ("encoding", "data"),
    [
        ("gzip", b"no gzip at all"),
        ("gzip", gzip.compress(b"x" * 100, mtime=0)[:-1]),
        ("gzip", gzip.compress(b"x" * 100, mtime=0)[:5]),
        ("gzip", gzip.compress(b"x" * 100, mtime=0)[:-8] + bytes(8)),
        ("gzip", gzip.compress(b"x", mtime=0) + b"more"),
        ("gzip", gzip.compress(b"x", mtime=0) + gzip.compress(b"y", mtime=0)[:9]),
        ("deflate", b"x"),
        ("deflate", b"\xff\xff\xff"),
        ("deflate", zlib.compress(b"x" * 100)[:-1]),
        ("deflate", zlib.compress(b"x") + b"more"),
        ("deflate", raw_deflate(b"x" * 100)[:-1]),
    ],
)
@pytest.mark.parametrize("size", [1, 1000])
def test_what_is_broken_is_an_error_and_not_a_short_body(encoding, data, size):
    with pytest.raises(zlib.error):
        feed_all(Body(encoding, 1000, "here"), data, size)


def test_an_empty_body_needs_no_unpacking():
    for encoding in PACKERS:
        Body(encoding, 1, "here").finish()
    assert [Body(encoding, 1, "here").unpacks for encoding in ("", "identity", "gzip", "deflate")] == [False, False, True, True]


def test_a_length_above_the_bound_is_refused_when_it_is_announced():
    body = Body("", 10, "here")
    body.announced(10)
    with pytest.raises(GuardRefused):
        body.announced(11)


@given(st.sampled_from(["", "gzip", "deflate"]), st.lists(st.binary(max_size=40), max_size=8))
def test_whatever_comes_it_is_bounded_or_refused(encoding, pieces):
    body = Body(encoding, 60, "here")
    total = 0
    try:
        for piece in pieces:
            total += len(body.feed(piece))
            assert total <= 60
        body.finish()
    except (GuardRefused, zlib.error):
        pass
