"""Limits of the guarded client: of size, packed and unpacked, and of time, against servers that have all the time in the world."""

from __future__ import annotations

import gzip
import zlib
from contextlib import aclosing, asynccontextmanager

import httpx
import pytest
import trio

from net_loopback import Names, Server, answer, redirect, serving
from retinue.capabilities.net import guarded_client
from retinue.security.errors import GuardRefused

GOOD = "api.example.com"


@asynccontextmanager
async def asking(answers, **options):
    """A server, and a client that may ask it; gives an async function that asks, and the server."""
    async with serving(Server(answers)) as server:
        chosen = {
            "schemes": ["http"],
            "ports": [server.port],
            "addresses": ["127.0.0.1"],
            "resolver": Names({GOOD: ["127.0.0.1"]}),
            "timeout": 10,
        }
        async with guarded_client([GOOD], **chosen | options) as client:
            server.url = f"http://{GOOD}:{server.port}/"
            yield client, server


async def too_much(client, server):
    with pytest.raises(GuardRefused, match="more than 1,000 bytes") as caught:
        await client.get(server.url)
    assert caught.value.what == "body"
    with pytest.raises(GuardRefused, match="more than 1,000 bytes"):
        async with client.stream("GET", server.url) as streamed:
            received = 0
            async for piece in streamed.aiter_bytes():
                received += len(piece)
                assert received <= 1000


def endless(head):
    """A server that sends for ever, and notes when its client hangs up."""
    hung_up = trio.Event()

    async def send(_asked, stream):
        await stream.send_all(head)
        try:
            while True:
                await stream.send_all(b"64\r\n" + b"x" * 100 + b"\r\n" if b"chunked" in head else b"x" * 100)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            hung_up.set()

    return send, hung_up


@pytest.mark.parametrize(
    "head", [b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.0 200 OK\r\n\r\n"]
)
async def test_an_endless_body_is_cut_off_and_the_connection_closed(head):
    send, hung_up = endless(head)
    async with asking(send, max_bytes=1000) as (client, server):
        await too_much(client, server)
        with trio.fail_after(60):
            await hung_up.wait()


async def test_a_body_of_just_the_bound_passes():
    async with asking(answer(b"x" * 1000), max_bytes=1000) as (client, server):
        assert len((await client.get(server.url)).content) == 1000
        server.answers = answer(b"x" * 1001)
        await too_much(client, server)


async def test_a_length_above_the_bound_is_refused_before_the_body_comes():
    async def promise(_asked, stream):
        await stream.send_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1001\r\n\r\n")
        await trio.sleep_forever()

    async with asking(promise, max_bytes=1000) as (client, server):
        await too_much(client, server)
        server.answers = b"HTTP/1.1 200 OK\r\ncontent-length: 1001\r\n\r\n"
        assert (await client.head(server.url)).headers["content-length"] == "1001"


@pytest.mark.parametrize(("encoding", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress)])
async def test_what_unpacks_to_too_much_is_cut_off(encoding, pack):
    bomb = pack(bytes(100_000))
    assert len(bomb) < 1000
    async with asking(answer(bomb, content_encoding=encoding), max_bytes=1000) as (client, server):
        await too_much(client, server)


@pytest.mark.parametrize(
    ("encoding", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress), ("x-gzip", gzip.compress), ("identity", bytes)]
)
async def test_what_is_packed_arrives_unpacked(encoding, pack):
    packed = pack("größer".encode() * 20)
    async with asking(answer(packed, content_encoding=encoding, content_type="text/plain; charset=utf-8"), max_bytes=1000) as (
        client,
        server,
    ):
        found = await client.get(server.url)
        assert found.text == "größer" * 20
        if encoding != "identity":
            assert "content-encoding" not in found.headers
            assert "content-length" not in found.headers
        async with client.stream("GET", server.url) as streamed:
            assert "".join([piece async for piece in streamed.aiter_text()]) == "größer" * 20
        server.answers = answer(b"", status="204 No Content", content_encoding=encoding).replace(b"content-length: 0\r\n", b"")
        assert (await client.get(server.url)).content == b""
        server.answers = answer(b"", content_encoding=encoding)
        assert (await client.head(server.url)).content == b""


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, gzip", "unknown"])
async def test_an_encoding_without_a_bound_is_refused(encoding):
    async with asking(answer(b"x", content_encoding=encoding)) as (client, server):
        with pytest.raises(GuardRefused) as caught:
            await client.get(server.url, headers={"Accept-Encoding": encoding})
        assert caught.value.what == "body"


@pytest.mark.parametrize("body", [b"no gzip", gzip.compress(b"x" * 50, mtime=0)[:-4]])
async def test_what_cannot_be_unpacked_is_a_decoding_error(body):
    async with asking(answer(body, content_encoding="gzip")) as (client, server):
        with pytest.raises(httpx.DecodingError):
            await client.get(server.url)


async def test_a_body_that_ends_too_early_is_an_error():
    async def break_off(_asked, stream):
        await stream.send_all(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc")

    async with asking(break_off) as (client, server):
        with pytest.raises(httpx.RemoteProtocolError):
            await client.get(server.url)


async def test_heads_have_a_bound_too():
    async def boast(_asked, stream):
        await stream.send_all(b"HTTP/1.1 200 OK\r\n")
        while True:
            await stream.send_all(b"x-more: " + b"x" * 1000 + b"\r\n")

    async with asking(boast) as (client, server):
        with pytest.raises(httpx.RemoteProtocolError):
            await client.get(server.url)


def drip(text, pause=0.02):
    async def send(_asked, stream):
        for byte in text:
            await stream.send_all(bytes([byte]))
            await trio.sleep(pause)
        await trio.sleep_forever()

    return send


async def informational(_asked, stream):
    while True:
        await stream.send_all(b"HTTP/1.1 103 Early Hints\r\n\r\n")
        await trio.sleep(0.02)


SLOW = {
    "a head, byte by byte": drip(b"HTTP/1.1 200 OK\r\n" + b"x-slow: slow\r\n" * 100),
    "a body, byte by byte": drip(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n", 0)
    if False
    else drip(b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 1000),
    "nothing": drip(b""),
    "hints for ever": informational,
}


@pytest.mark.parametrize("server_is", SLOW)
async def test_a_server_that_is_always_almost_done_is_given_up_when_the_time_is_over(server_is):
    async with asking(SLOW[server_is], timeout=0.4) as (client, server):
        began = trio.current_time()
        with pytest.raises(httpx.TimeoutException):
            await client.get(server.url)
        assert trio.current_time() - began < 20
        with pytest.raises(httpx.TimeoutException):
            async with client.stream("GET", server.url, timeout=None) as streamed:
                async for _ in streamed.aiter_bytes():
                    pass
        assert trio.current_time() - began < 30


async def test_the_time_is_for_all_redirects_together():
    async def slowly(_asked, stream):
        await trio.sleep(0.15)
        await stream.send_all(redirect("/again"))

    async with asking(slowly, timeout=0.5, max_redirects=100) as (client, server):
        with pytest.raises(httpx.ReadTimeout, match="more than 0.5 s"):
            await client.get(server.url)
        assert 2 <= len(server.asked) <= 4


async def test_a_request_that_is_sent_again_has_its_time_anew():
    async with asking(answer(), timeout=0.3) as (client, server):
        request = client.build_request("GET", server.url)
        for _ in range(3):
            assert (await client.send(request)).text == "ok"
            await trio.sleep(0.2)


async def test_uploading_is_on_the_same_clock():
    async def never_reads(_asked, stream):
        await trio.sleep_forever()

    async def endless_upload():
        while True:
            yield b"x" * 100_000

    async with asking(never_reads, timeout=0.4) as (client, server), aclosing(endless_upload()) as content:
        with pytest.raises(httpx.TimeoutException):
            await client.post(server.url, content=content)


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), 10**400, "5", True, None])
@pytest.mark.parametrize("name", ["timeout", "connect_timeout"])
def test_a_time_that_is_none_makes_no_client(name, seconds):
    with pytest.raises(GuardRefused, match="finite number of seconds"):
        guarded_client(["example.com"], **{name: seconds})
