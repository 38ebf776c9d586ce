"""What all three clients make of servers that are no gateways, or broken ones: an error that says so, in time, and never a second try."""

from __future__ import annotations

import gzip
import math
import ssl
import time
from typing import Any

import pytest
import trustme

import retinue as rt
from client_faces import Face
from client_impostor import HANG, Impostor, answer, events
from client_shop import Count, Note, Price
from retinue.client import approving, exchange, session

SHOP = "/user/shop"
TOKEN = "token-0123456789-0123456789"


@pytest.fixture(autouse=True)
def _short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "MARGIN", 0.1)
    monkeypatch.setattr(exchange, "MARGIN", 0.1)
    monkeypatch.setattr(session, "IDLE", 0.25)


async def ask(client: Any) -> Any:
    return await client.ref(SHOP).ask(Price("tea"), timeout=0.1)


async def tell(client: Any) -> Any:
    return await client.ref(SHOP).tell(Note("one"))


async def stream(client: Any) -> list[str]:
    async with client.ref(SHOP).stream(Count(3), timeout=5) as items:
        return [item.name async for item in items]


async def watch(client: Any) -> Any:
    return await client.ref(SHOP).watch().wait()


def met(face: Face, test: Any, *script: object, **options: Any) -> tuple[BaseException, Impostor]:
    """The error that a client ends with, and the server that it met; exactly one request was sent."""
    with Impostor(*script) as server:
        with pytest.raises(rt.RetinueError) as caught:
            face.talk(server.url, test, token=TOKEN, **options)
        patience = time.monotonic() + 5
        while not server.requests and time.monotonic() < patience:  # the client may be gone before the server's thread came to look
            time.sleep(0.005)
        assert len(server.requests) == server.connections == 1
        assert TOKEN not in str(caught.value)
    return caught.value, server


HTML = answer(b"<html><body>It works!</body></html>", kind="text/html")
HUGE = 10**12


@pytest.mark.parametrize(
    ("reason", "script"),
    [
        ("wrong_server", [HTML]),
        ("wrong_server", [answer(b"", status=404, kind="text/plain")]),
        ("wrong_server", [b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"]),
        ("wrong_server", [b"SSH-2.0-OpenSSH_9.9\r\n\r\n"]),
        ("wrong_server", [b"HTTP/1.1 200 OK\r\ncontent-length: a\r\n\r\n"]),
        ("broken", []),
        ("broken", [b"HTTP/1.1 200 OK\r\ncontent-"]),
        ("broken", [answer(b'{"reply":3}', length=100)]),
        ("malformed", [answer(b"")]),
        ("malformed", [answer(b'{"reply":3')]),
        ("malformed", [answer(b'{"reply":3,"reply":4}')]),
        ("malformed", [answer(b'{"reply":NaN}')]),
        ("malformed", [answer(b'{"reply":"\xff"}')]),
        ("malformed", [answer(b'{"answer":3}')]),
        ("malformed", [answer(b"[3]")]),
        ("malformed", [answer(b"[" * 500 + b"]" * 500)]),
        ("malformed", [answer(b'{"reply":3}', status=500)]),
        ("malformed", [answer(b'{"reply":3}', status=201)]),
        ("malformed", [answer(b'{"error":"no"}', status=403)]),
        ("malformed", [answer(b'{"error":{"type":"Denied","message":5}}', status=403)]),
        ("malformed", [answer(gzip.compress(b'{"reply":3}'), more="content-encoding: gzip\r\n")]),
        ("too_large", [answer(b"", length=HUGE), HANG]),
        ("too_large", [answer(b"x" * 200_000)]),
        (
            "too_large",
            [
                b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n",
                *[b"8000\r\n" + b" " * 0x8000 + b"\r\n"] * 9,
            ],
        ),
    ],
)
def test_an_answer_of_something_else_is_an_error_that_says_so(face: Face, reason: str, script: list[object]) -> None:
    error, _ = met(face, ask, *script, max_answer=100_000)
    assert isinstance(error, rt.GatewayError)
    assert error.reason == reason
    assert error.delivered is None


def test_a_redirect_is_not_followed_and_the_token_goes_nowhere_else(face: Face) -> None:
    with Impostor(answer(b'{"reply":3}')) as other:
        for status in (301, 302, 303, 307, 308):
            moved = answer(b"", status=status, more=f"location: {other.url}/v1/ask\r\n")
            for test in (ask, tell, short_stream, watch):
                error, _ = met(face, test, moved)
                assert isinstance(error, rt.GatewayError)
                assert (error.reason, error.status) == ("wrong_server", status)
                assert "not followed" in str(error)
        assert other.requests == []


def test_a_reply_of_another_type_than_promised_is_refused(face: Face) -> None:
    for body in (b'{"reply":"3"}', b'{"reply":null}', b'{"reply":3.0}', b'{"reply":[3]}'):
        error, _ = met(face, ask, answer(body))
        assert isinstance(error, rt.WireError)
        assert "does not promise" in str(error)


def test_a_server_that_says_nothing_is_left_in_time(face: Face) -> None:
    for script in ([HANG], [b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 11\r\n\r\n", b'{"rep', HANG]):
        began = time.monotonic()
        error, _ = met(face, ask, *script, connect_timeout=0.05)
        assert time.monotonic() - began < 15
        assert isinstance(error, rt.AskTimeout)
        assert error.begun is None
        assert error.path == SHOP
    error, _ = met(face, tell, HANG, connect_timeout=0.05, timeout=0.05)
    assert isinstance(error, rt.GatewayError)
    assert error.reason == "timeout"


def test_a_server_that_drips_is_left_in_time(face: Face) -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n"
    began = time.monotonic()
    error, _ = met(face, ask, head, *[b" ", 0.05] * 600, connect_timeout=0.1)
    assert time.monotonic() - began < 15
    assert isinstance(error, rt.AskTimeout)


DRIPS = {
    "a status line that does not end": [b"H", 0.05, b"T", 0.05, b"T", 0.05, b"P"] + [0.05, b"x"] * 600,
    "headers": [b"HTTP/1.1 200 OK\r\n"] + [b"x-a: b\r\n", 0.05] * 600,
    "answers before the answer": [b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n", 0.05] * 600,
    "a body": [b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n"] + [b" ", 0.05] * 600,
    "a body in chunks": [b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"]
    + [b"1\r\n \r\n", 0.05] * 600,
}


@pytest.mark.parametrize("script", DRIPS.values(), ids=list(DRIPS))
def test_one_time_out_counts_for_the_whole_of_an_answer(face: Face, script: list[object]) -> None:
    for test in (ask, stream):
        began = time.monotonic()
        with Impostor(*script) as server:
            with pytest.raises(rt.RetinueError) as caught:
                face.talk(server.url, test if test is ask else short_stream, token=TOKEN, connect_timeout=0.1)
        assert time.monotonic() - began < 15
        if test is ask:
            assert isinstance(caught.value, rt.AskTimeout), caught.value


async def short_stream(client: Any) -> None:
    async with client.ref(SHOP).stream(Count(3), timeout=0.1) as items:
        async for _ in items:
            pass


def test_a_stream_of_comments_does_not_last_longer_than_its_time(face: Face) -> None:
    with Impostor(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n", *[b": here\n\n", 0.05] * 600) as server:
        began = time.monotonic()
        with pytest.raises(rt.AskTimeout):
            face.talk(server.url, short_stream, token=TOKEN, connect_timeout=0.1)
        assert time.monotonic() - began < 15


FAILURES: list[list[object]] = [
    [],
    [HANG],
    [b"HTTP/1.1 200 OK\r\ncontent-"],
    [b"SSH-2.0\r\n\r\n"],
    [answer(b'{"reply":3}', length=100)],
    [answer(b'{"reply":3', status=200)],
    [answer(b"", status=307, more="location: http://127.0.0.1:1/\r\n")],
]


@pytest.mark.parametrize("script", FAILURES, ids=range(len(FAILURES)))
def test_no_error_keeps_the_request_with_its_token(face: Face, script: list[object]) -> None:
    for test in (ask, tell, short_stream, watch):
        with Impostor(*script) as server:
            with pytest.raises(rt.RetinueError) as caught:
                face.talk(server.url, test, token=TOKEN, connect_timeout=0.05, timeout=0.05)
        behind: BaseException | None = caught.value
        seen = []
        while behind is not None and behind not in seen:
            seen.append(behind)
            assert not hasattr(behind, "request") and not hasattr(behind, "_request"), seen
            behind = behind.__cause__ or behind.__context__


def test_cookies_are_not_taken(face: Face) -> None:
    async def twice(client: Any) -> None:
        for _ in range(2):
            assert await client.ref(SHOP).ask(Price("tea"), timeout=5) == 3

    with Impostor(answer(b'{"reply":3}', more="set-cookie: a=b; path=/\r\n")) as server:
        face.talk(server.url, twice, token=TOKEN)
        assert len(server.requests) == 2
        assert not any(b"cookie" in request.lower() for request in server.requests)


PAGE = b'{"requests":[],"more":%s}'
NEXT = b'"apr_' + b"a" * 26 + b'"'


def test_pages_that_come_to_no_end_are_left(face: Face, monkeypatch: pytest.MonkeyPatch) -> None:
    async def pending(client: Any) -> Any:
        return await client.approvals.pending()

    monkeypatch.setattr(approving, "MOST_PAGES", 20)
    for more in (NEXT, b"5", b"[]", b'"x"'):
        with Impostor(answer(PAGE % more)) as server:
            with pytest.raises(rt.GatewayError) as caught:
                face.talk(server.url, pending, token=TOKEN)
            assert caught.value.reason == "malformed"
            assert len(server.requests) <= 20


def test_a_receipt_that_is_none_is_malformed(face: Face) -> None:
    for body in (b'{"accepted":1}', b'{"accepted":true,"reason":5}', b"{}", b"true"):
        error, _ = met(face, tell, answer(body, status=202))
        assert isinstance(error, rt.GatewayError)
        assert error.reason == "malformed"


# Streams

ITEM = b'event: item\ndata: {"name":"a","price":"1","tags":[]}\n\n'


@pytest.mark.parametrize(
    ("kind", "script"),
    [
        (rt.StreamClosed, [events(ITEM)]),
        (rt.StreamClosed, [events(ITEM, whole=False)]),
        (rt.StreamClosed, [events(ITEM + b"event: en")]),
        (rt.StreamClosed, [events(ITEM + b"event: item\ndata: {", whole=False)]),
        (rt.StreamClosed, [events(b"")]),
        (rt.GatewayError, [events(ITEM + b"event: item\ndata: {\n\n")]),
        (rt.WireError, [events(ITEM + b"event: item\ndata: {}\n\n")]),
        (rt.GatewayError, [events(ITEM + b"event: error\ndata: {}\n\n")]),
        (rt.GatewayError, [events(ITEM + b"event: error\n\n")]),
        (rt.GatewayError, [events(ITEM + b"event: item\ndata: " + b"x" * 300_000)]),
        (rt.GatewayError, [events(ITEM + b"data: x\n" * 50_000)]),
        (rt.GatewayError, [events(ITEM + b"x" * 300_000, whole=False), HANG]),
        (rt.GatewayError, [events(ITEM, whole=False), HANG]),
        (rt.AskTimeout, [events(ITEM + b'event: error\ndata: {"error":{"type":"AskTimeout","message":"m","path":"/user/shop"}}\n\n')]),
    ],
)
def test_a_stream_that_goes_wrong_ends_with_an_error_each_time_and_after_what_came_before(
    face: Face, kind: type[BaseException], script: list[object]
) -> None:
    got = []

    async def test(client: Any) -> None:
        async with client.ref(SHOP).stream(Count(3), timeout=5) as items:
            with pytest.raises(kind):
                async for item in items:
                    got.append(item.name)
            with pytest.raises(kind):
                await items.__anext__()
            raise rt.Reject("the block goes on")

    error, _ = met(face, test, *script, max_answer=100_000)
    assert isinstance(error, rt.Reject)
    assert len(got) <= 1


def test_a_silent_stream_counts_as_lost_and_heartbeats_keep_one_alive(face: Face) -> None:
    began = time.monotonic()
    error, _ = met(face, stream, events(ITEM, whole=False), HANG)
    assert isinstance(error, rt.GatewayError)
    assert error.reason == "timeout"
    assert 0.2 < time.monotonic() - began < 15
    beat = [b"9\r\n: beat\r\n\n\r\n", 0.1]
    end = b"event: end\ndata: {}\n\n"
    with Impostor(events(ITEM, whole=False), 0.1, *beat * 3, b"%x\r\n%s\r\n0\r\n\r\n" % (len(end), end)) as server:
        assert face.talk(server.url, stream, token=TOKEN) == ["a"]


def test_lines_may_end_and_be_cut_in_any_way_and_unknown_events_are_of_a_later_version(face: Face) -> None:
    text = (b": hello\n" + ITEM + b"event: progress\ndata: 5\n\n: beat\n\nid: 7\nretry: 5\n\n" + ITEM).replace(
        b"\n", b"\r\n"
    ) + b"event: end\ndata:{}\n\n"
    head = events(b"", whole=False)
    single = [b"1\r\n%c\r\n" % byte for byte in text]
    with Impostor(head, *single, b"0\r\n\r\n") as server:
        assert face.talk(server.url, stream, token=TOKEN) == ["a", "a"]


def test_what_follows_the_end_of_a_stream_is_nothing(face: Face) -> None:
    with Impostor(events(b"event: end\ndata: {}\n\n" + ITEM, whole=False), HANG) as server:
        assert face.talk(server.url, stream, token=TOKEN) == []


def test_a_stream_that_is_no_stream_is_an_error(face: Face) -> None:
    for script in ([HTML], [answer(b'{"reply":3}')], [answer(b"{}")], [answer(b"", kind="text/event-stream", status=500)]):
        error, _ = met(face, stream, *script)
        assert isinstance(error, rt.GatewayError)
        assert error.reason in ("wrong_server", "malformed")


@pytest.mark.parametrize(
    "body",
    [
        b'event: terminated\ndata: {"path":"/user/shop"}\n\n',
        b'event: terminated\ndata: {"path":"/user/shop","reason":"bored"}\n\n',
        b'event: terminated\ndata: {"path":5,"reason":"stopped"}\n\n',
        b"event: terminated\ndata: []\n\n",
        b"event: end\ndata: {}\n\n",
        b"",
    ],
)
def test_a_watch_that_does_not_tell_the_end_is_an_error(face: Face, body: bytes) -> None:
    error, _ = met(face, watch, events(body))
    assert isinstance(error, rt.GatewayError | rt.StreamClosed)


def test_a_watch_tells_what_the_actor_failed_with(face: Face) -> None:
    body = b'event: terminated\ndata: {"path":"/user/shop","reason":"failed","error":{"type":"RemoteError","message":"m","raised":"ValueError"}}\n\n'
    with Impostor(events(body)) as server:
        terminated = face.talk(server.url, watch, token=TOKEN)
    assert terminated.reason == "failed"
    assert isinstance(terminated.error, rt.RemoteError)
    assert terminated.error.type == "ValueError"


# What is sent


def test_what_is_sent_is_the_token_in_its_header_and_nothing_of_the_environment(face: Face, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NETRC", __file__)
    with Impostor(answer(b'{"reply":3}')) as server:
        assert face.talk(server.url, ask, token=TOKEN) == 3
        (request,) = server.requests
    head, _, body = request.partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    assert lines[0] == b"POST /v1/ask HTTP/1.1"
    assert request.count(TOKEN.encode()) == 1
    assert b"authorization: Bearer " + TOKEN.encode() in [line.replace(b"Authorization", b"authorization") for line in lines]
    assert {line.split(b":")[0].lower() for line in lines[1:]} == {
        b"host", b"accept", b"accept-encoding", b"connection", b"user-agent", b"content-type", b"content-length", b"authorization",
    }  # fmt: skip
    assert body == b'{"to":"/user/shop","timeout":0.1,"message":{"type":"client-shop/Price@1","body":{"item":"tea"}}}'


def test_no_time_limit_is_sent_as_the_longest_and_not_left_to_a_default(face: Face) -> None:
    async def test(client: Any) -> Any:
        return await client.ref(SHOP).ask(Price("tea"), timeout=math.inf)

    with Impostor(0.2, answer(b'{"reply":3}')) as server:
        assert face.talk(server.url, test, token=TOKEN) == 3
        assert b'"timeout":2147483648.0,' in server.requests[0]


def test_a_certificate_that_nobody_here_trusts_is_refused_before_anything_is_sent(face: Face) -> None:
    authority = trustme.CA()
    served, trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert("127.0.0.1").configure_cert(served)
    authority.configure_trust(trusting)
    with Impostor(answer(b'{"reply":3}'), tls=served) as server:
        with pytest.raises(rt.GatewayError, match="CERTIFICATE_VERIFY_FAILED") as caught:
            face.talk(server.url, ask, token=TOKEN)
        assert (caught.value.reason, caught.value.delivered) == ("unreachable", False)
        assert server.requests == []
        assert face.talk(server.url, ask, token=TOKEN, tls=trusting) == 3
        with pytest.raises(rt.GatewayError):  # another name than the certificate's
            face.talk(server.url.replace("127.0.0.1", "localhost"), ask, token=TOKEN, tls=trusting)
        assert len(server.requests) == 1


def test_nothing_is_sent_where_the_url_is_wrong(face: Face) -> None:
    for url in (
        "", "127.0.0.1:8420", "ftp://127.0.0.1", "http://", "http://:80", "http://127.0.0.1:0", "http://127.0.0.1:99999", "http://127.0.0.1:x",
        "http://ada:secret@127.0.0.1", "http://127.0.0.1/v1", "http://127.0.0.1/?token=secret", "http://127.0.0.1/#x", "http://exa mple", "http://[::1",
        "http://192.168.0.1:8420", "http://shop.example:8420", "http://0.0.0.0:8420", "http://127.0.0.1.example:80", "http://localhost.:80\n",
    ):  # fmt: skip
        with pytest.raises(rt.GatewayError) as caught:
            face.connect(url, token=TOKEN)
        assert (caught.value.reason, caught.value.delivered) == ("wrong_url", False)
        assert "secret" not in str(caught.value)
    for url in (5, None, b"http://127.0.0.1"):
        with pytest.raises(rt.DefinitionError):
            face.connect(url, token=TOKEN)


@pytest.mark.parametrize(
    "options",
    [{"timeout": -1}, {"timeout": "5"}, {"timeout": float("nan")}, {"connect_timeout": True}, {"max_answer": 0}, {"max_answer": 1.5}],
)
def test_senseless_options_are_refused(face: Face, options: dict[str, Any]) -> None:
    with pytest.raises(rt.DefinitionError):
        face.connect("http://127.0.0.1:8420", token=TOKEN, **options)
    with pytest.raises(rt.DefinitionError):
        face.connect("http://127.0.0.1:8420", token=5)
