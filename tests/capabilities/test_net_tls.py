"""TLS of the guarded client: the certificate is checked against the name, at whatever address it was reached."""

from __future__ import annotations

import functools
import ssl
import warnings

import httpx
import pytest
import trio
import trustme

from net_loopback import Names, Server, answer, redirect, serving
from retinue.capabilities.net import guarded_client
from retinue.security.errors import GuardRefused

GOOD, OTHER = "api.example.com", "files.example.com"


@functools.cache
def authority():
    return trustme.CA()


def server_tls(*names):
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority().issue_cert(*names).configure_cert(context)
    return context


def client_tls():
    context = ssl.create_default_context()
    authority().configure_trust(context)
    return context


def client_for(*servers, **options):
    chosen = {"ports": [server.port for server in servers], "addresses": ["127.0.0.1"], "tls": client_tls(), "timeout": 10}
    return guarded_client([GOOD, OTHER], resolver=Names({GOOD: ["127.0.0.1"], OTHER: ["127.0.0.1"]}), **chosen | options)


def url_of(server, path="/", name=GOOD, scheme="https"):
    return f"{scheme}://{name}:{server.port}{path}"


async def test_the_name_is_what_tls_and_the_host_header_say_and_the_address_is_what_is_connected_to():
    async with serving(Server(answer(b"safe"), server_tls(GOOD, OTHER))) as server, client_for(server) as client:
        assert (await client.get(url_of(server))).text == "safe"
        assert (await client.get(url_of(server, name=f"{OTHER}."))).text == "safe"
        assert server.names == [GOOD, OTHER]
        assert [asked.headers["host"] for asked in server.asked] == [f"{GOOD}:{server.port}", f"{OTHER}:{server.port}"]


@pytest.mark.parametrize("names", [["other.example.com"], ["127.0.0.1"], ["example.com"]])
async def test_a_certificate_of_another_name_is_refused(names):
    async with serving(Server(answer(), server_tls(*names))) as server, client_for(server) as client:
        with pytest.raises(httpx.ConnectError, match="certificate"):
            await client.get(url_of(server))
        assert server.asked == []


async def test_a_certificate_of_an_unknown_authority_is_refused_whatever_the_environment_says(monkeypatch, tmp_path):
    authority().cert_pem.write_to_path(tmp_path / "ca.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    async with serving(Server(answer(), server_tls(GOOD))) as server, client_for(server, tls=None) as client:
        with pytest.raises(httpx.ConnectError, match="certificate"):
            await client.get(url_of(server))
        assert server.asked == []


@pytest.mark.parametrize("tls", [True, 0, "no", ssl.create_default_context])
def test_tls_that_is_no_context_is_refused(tls):
    with pytest.raises(GuardRefused, match="is an ssl.SSLContext"):
        guarded_client([GOOD], tls=tls)


def test_tls_that_checks_nothing_is_refused():
    unchecked = ssl.create_default_context()
    unchecked.check_hostname = False
    for context in (unchecked, ssl._create_unverified_context()):
        with pytest.raises(GuardRefused, match="does not check"):
            guarded_client([GOOD], tls=context)


async def test_a_redirect_from_tls_to_none_is_refused_also_where_both_are_permitted():
    async with serving(Server(answer(b"plain"))) as plain, serving(Server({}, server_tls(GOOD))) as safe:
        safe.answers = {"/": redirect(url_of(plain, scheme="http")), "/same": redirect("/end"), "/end": answer(b"end")}
        plain.answers = {"/": redirect(url_of(safe, "/end"))}
        async with client_for(plain, safe, schemes=["http", "https"]) as client:
            with pytest.raises(GuardRefused, match="from TLS to none"):
                await client.get(url_of(safe))
            assert plain.asked == []
            assert (await client.get(url_of(safe, "/same"))).text == "end"
            assert (await client.get(url_of(plain, scheme="http"))).text == "end"


class Odd(Server):
    """A server that does not begin TLS."""

    def __init__(self, first: bytes) -> None:
        super().__init__(first)
        self.hung_up = trio.Event()

    async def __call__(self, stream: trio.SocketStream) -> None:
        async with stream:
            if self.answers:
                await stream.send_all(self.answers)
            async for _ in stream:
                pass
        self.hung_up.set()


async def test_plain_text_where_tls_is_expected_is_a_connect_error():
    async with serving(Odd(b"HTTP/1.1 400 Bad Request\r\n\r\n")) as server, client_for(server) as client:
        with pytest.raises(httpx.ConnectError, match="SSL"):
            await client.get(url_of(server))


@pytest.mark.parametrize(("limit", "error"), [("connect_timeout", httpx.ConnectTimeout), ("timeout", httpx.TimeoutException)])
async def test_a_server_that_never_begins_tls_is_given_up_and_the_connection_closed(limit, error):
    async with serving(Odd(b"")) as server, client_for(server, **{limit: 0.2}) as client:
        with pytest.raises(error):
            await client.get(url_of(server))
        with trio.fail_after(60):
            await server.hung_up.wait()


async def test_a_handshake_that_is_cancelled_closes_its_connection():
    async with serving(Odd(b"")) as server, client_for(server) as client:
        with trio.move_on_after(0.2):
            await client.get(url_of(server))
        with trio.fail_after(60):
            await server.hung_up.wait()


async def test_compressed_and_large_bodies_are_bounded_over_tls_as_well():
    async with serving(Server(answer(b"x" * 100_000), server_tls(GOOD))) as server, client_for(server, max_bytes=50_000) as client:
        with pytest.raises(GuardRefused, match="more than 50,000 bytes"):
            await client.get(url_of(server))


def test_the_certificates_are_loaded_only_where_they_are_needed(monkeypatch):
    monkeypatch.setattr(httpx, "create_ssl_context", lambda **_: pytest.fail("loaded"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        guarded_client([GOOD], schemes=["http"], ports=[80])
