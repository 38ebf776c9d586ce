"""Redirects: each hop passes the same checks as the first request, and takes no secrets along."""

from __future__ import annotations

import gzip

import httpx
import pytest

from net_loopback import Names, Server, answer, redirect, serving
from retinue.capabilities.net import guarded_client
from retinue.security.errors import GuardRefused

GOOD, OTHER = "api.example.com", "files.example.com"
STATUSES = ["301 Moved Permanently", "302 Found", "303 See Other", "307 Temporary Redirect", "308 Permanent Redirect"]


def client_for(*servers, **options):
    chosen = {"schemes": ("http",), "ports": [server.port for server in servers], "addresses": ["127.0.0.1"], "timeout": 10}
    chosen["resolver"] = Names(
        {GOOD: ["127.0.0.1"], OTHER: ["127.0.0.1"], "inside.example.com": ["127.0.0.2"], "evil.example": ["127.0.0.1"]}
    )
    return guarded_client([GOOD, OTHER, "inside.example.com"], **chosen | options)


def url_of(server, path="/", name=GOOD):
    return f"http://{name}:{server.port}{path}"


@pytest.mark.parametrize("status", STATUSES)
async def test_a_redirect_to_a_permitted_place_is_followed(status):
    async with serving(Server({})) as server, client_for(server) as client:
        server.answers = {
            "/": redirect("/b/../b/1", status=status),
            "/b/1": redirect(url_of(server, "/2", OTHER), status=status),
            "/2": answer(b"there"),
        }
        server.answers["/b/../b/1"] = server.answers["/b/1"]
        found = await client.get(url_of(server))
        assert found.text == "there"
        assert str(found.url) == url_of(server, "/2", OTHER)
        assert [step.status_code for step in found.history] == [int(status[:3])] * 2
        assert [asked.headers["host"].partition(":")[0] for asked in server.asked] == [GOOD, GOOD, OTHER]


@pytest.mark.parametrize(
    "location",
    [
        "http://evil.example:PORT/",
        "//evil.example:PORT/",
        "http://evil.example:PORT/?api.example.com",
        "http://api.example.com@evil.example:PORT/",
        "http://user:secret@api.example.com:PORT/",
        "http://127.0.0.1:PORT/",
        "http://2130706433:PORT/",
        "http://[::1]:PORT/",
        "http://169.254.169.254/latest/meta-data/",
        "http://localhost:PORT/",
        "http://api.example.com/",
        "http://api.example.com:1/",
        "http://inside.example.com:PORT/",
        "https://api.example.com:PORT/",
        "ftp://api.example.com:PORT/",
        "file:///etc/passwd",
        "http:///evil.example/",
        "javascript:alert(1)",
        "http://api.example.com:PORT\\@evil.example/",
    ],
)
async def test_a_redirect_to_anywhere_else_is_refused(location):
    async with serving(Server(answer(b"secret"))) as server, serving(Server(answer(b"inside")), "127.0.0.2", server.port) as inside:
        server.answers = {"/start": redirect(location.replace("PORT", str(server.port)))}
        async with client_for(server) as client:
            with pytest.raises((GuardRefused, httpx.RemoteProtocolError)) as caught:
                await client.get(url_of(server, "/start"))
            assert "secret" not in str(caught.value)
            assert "latest" not in str(caught.value)
        assert [asked.target for asked in server.asked] == ["/start"]
        assert inside.connections == 0


async def test_the_refusal_says_where_the_redirect_came_from():
    async with serving(Server({})) as server, client_for(server) as client:
        server.answers = redirect(url_of(server, name="evil.example"))
        with pytest.raises(GuardRefused, match="http://api.example.com redirects to what is refused: .*evil.example") as caught:
            await client.get(url_of(server, "/?token=secret"))
        assert caught.value.what == "host"
        assert "secret" not in str(caught.value)


async def test_a_loop_of_redirects_ends():
    async with serving(Server(redirect("/again"))) as server:
        for most in (0, 1, 5):
            server.asked.clear()
            async with client_for(server, max_redirects=most) as client:
                with pytest.raises(httpx.TooManyRedirects, match=f"more than {most} redirects"):
                    await client.get(url_of(server))
            assert len(server.asked) == most + 1


async def test_redirects_can_be_left_alone():
    async with serving(Server(redirect("http://evil.example/"))) as server, client_for(server) as client:
        found = await client.get(url_of(server), follow_redirects=False)
        assert (found.status_code, found.text) == (302, "elsewhere")
        assert found.next_request is not None
        with pytest.raises(GuardRefused):
            await client.send(found.next_request)
        async with client.stream("GET", url_of(server), follow_redirects=False) as streamed:
            assert await streamed.aread() == b"elsewhere"


async def test_what_may_be_secret_does_not_go_along_to_another_origin():
    secrets = {
        "Authorization": "Bearer x",
        "X-Api-Key": "x",
        "Cookie": "session=x",
        "Proxy-Authorization": "x",
        "X-Anything": "x",
        "Referer": "http://a/?x",
    }
    harmless = {"Accept": "text/html", "Accept-Language": "de", "User-Agent": "test", "Range": "bytes=0-"}
    async with (
        serving(Server({})) as server,
        serving(Server(answer(b"there"))) as second,
        client_for(server, second, headers={"X-Client": "x"}) as client,
    ):
        server.answers = {
            "/": redirect("/same"),
            "/same": redirect(url_of(second)),
            "/other": redirect(url_of(server, "/there", OTHER)),
            "/there": answer(b"there"),
        }
        for path, last in (("/", second), ("/other", server)):
            found = await client.get(url_of(server, path), headers=secrets | harmless, auth=("user", "password"))
            assert found.text == "there"
            kept = last.asked[-1].headers
            assert {name: kept[name.lower()] for name in harmless} == harmless
            assert kept.keys() <= {"host", "accept", "accept-encoding", "accept-language", "connection", "range", "user-agent"}
        same = server.asked[1].headers
        assert same["x-api-key"] == same["x-client"] == "x"
        assert same["authorization"].startswith("Basic ")


async def test_a_clients_own_credentials_are_for_the_first_origin():
    async with serving(Server({})) as server, client_for(server) as client:
        server.answers = {"/": redirect(url_of(server, "/there", OTHER)), "/there": answer()}
        client.auth = ("user", "password")
        assert (await client.get(url_of(server))).text == "ok"
        assert "authorization" in server.asked[0].headers
        assert "authorization" not in server.asked[1].headers


@pytest.mark.parametrize(
    ("status", "method", "body"), [("303 See Other", "GET", b""), ("302 Found", "GET", b""), ("307 Temporary Redirect", "POST", b"data")]
)
async def test_a_body_is_sent_again_where_the_standard_says_so(status, method, body):
    async with serving(Server({"/": redirect("/next", status=status), "/next": answer()})) as server, client_for(server) as client:
        assert (await client.post(url_of(server), content=b"data")).text == "ok"
        assert (server.asked[1].method, server.asked[1].body) == (method, body)


async def test_the_body_of_a_redirect_is_not_read():
    bomb = gzip.compress(bytes(10_000_000))
    first = b"HTTP/1.1 302 Found\r\nlocation: /next\r\ncontent-length: 1000000\r\n\r\n" + bomb
    async with serving(Server({"/": first, "/next": answer()})) as server, client_for(server, max_bytes=2_000_000) as client:
        assert (await client.get(url_of(server))).text == "ok"
        assert server.connections == 2
