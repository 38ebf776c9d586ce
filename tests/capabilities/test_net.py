"""The guarded client against real servers on loopback addresses: where it goes, and where it does not."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
import sys
from ipaddress import ip_address

import httpx
import pytest
import trio

from net_loopback import Names, Server, answer, redirect, serving
from retinue.capabilities import net
from retinue.capabilities.net import guarded_client
from retinue.capabilities.net_addresses import AddressRule, resolve
from retinue.security.errors import GuardRefused

GOOD, OTHER = "api.example.com", "files.example.com"


def client_for(*servers, names=None, **options):
    """A client that may go to these servers' addresses and ports, in plain text."""
    chosen = {
        "schemes": ("http",),
        "ports": tuple(server.port for server in servers) or (80,),
        "addresses": ["127.0.0.1"],
        "resolver": names or Names({GOOD: ["127.0.0.1"], OTHER: ["127.0.0.1"]}),
        "timeout": 10,
    } | options
    return guarded_client([GOOD, OTHER], **chosen)


def url_of(server, path="/", name=GOOD):
    return f"http://{name}:{server.port}{path}"


async def refusal(client, url, **options):
    with pytest.raises(GuardRefused) as caught:
        await client.get(url, **options)
    assert caught.value.what == "host"
    return str(caught.value)


async def test_a_permitted_host_is_asked_under_its_name_at_its_address():
    names = Names({GOOD: ["127.0.0.1"]})
    async with serving(Server(answer(b'{"a": 1}', content_type="application/json"))) as server, client_for(server, names=names) as client:
        found = await client.get(url_of(server, "/a?b=c"), params=None)
        assert found.json() == {"a": 1}
        assert found.status_code == 200
        sent = await client.post(url_of(server, "/post"), json={"x": 1})
        async with client.stream("GET", url_of(server, "/stream")) as streamed:
            assert b"".join([piece async for piece in streamed.aiter_bytes()]) == b'{"a": 1}'
        assert sent.http_version == "HTTP/1.1"
        assert (await client.get(url_of(server), headers={"X-Mine": "1"})).is_success
    assert [asked.target for asked in server.asked] == ["/a?b=c", "/post", "/stream", "/"]
    assert {asked.headers["host"] for asked in server.asked} == {f"{GOOD}:{server.port}"}
    assert server.asked[1].body == b'{"x":1}'
    assert server.asked[3].headers["x-mine"] == "1"
    assert server.asked[0].headers["accept-encoding"] == "gzip, deflate"
    assert names.questions == [(GOOD, server.port)]  # one connection, resolved once
    assert server.connections == 1


async def test_names_are_compared_as_names_and_one_trailing_dot_is_dropped():
    async with serving(Server(answer())) as server:
        names = Names({"a.b.example.com": ["127.0.0.1"], "example.com": ["127.0.0.1"]})
        options = {"schemes": ["http"], "ports": [server.port], "addresses": ["127.0.0.1"], "resolver": names}
        async with guarded_client(["**.example.com"], **options) as client:
            for name in ("a.b.example.com", "A.B.Example.COM", "a.b.example.com."):
                assert (await client.get(url_of(server, name=name))).text == "ok"
            await refusal(client, url_of(server, name="example.com"))
        async with guarded_client([], **options) as client:
            await refusal(client, url_of(server, name="example.com"))
    assert {asked.headers["host"] for asked in server.asked} == {f"a.b.example.com:{server.port}"}


EVIL = [
    "http://evil.example/",
    "http://evil.example:PORT/?a=api.example.com",
    "http://evil.example:PORT/#api.example.com",
    "http://evil.example:PORT\\@api.example.com/",
    "http://api.example.com.evil.example:PORT/",
    "http://evilapi.example.com:PORT/",
    "http://api.example.com@evil.example:PORT/",
    "http://api.example.com:PORT@127.0.0.1:PORT/",
    "http://user:secret@api.example.com:PORT/",
    "http://@api.example.com:PORT/",
    "http://127.0.0.1:PORT/",
    "http://127.1:PORT/",
    "http://2130706433:PORT/",
    "http://0x7f000001:PORT/",
    "http://0x7f.1:PORT/",
    "http://0177.0.0.1:PORT/",
    "http://127.0.0.1.:PORT/",
    "http://[::1]:PORT/",
    "http://[::ffff:127.0.0.1]:PORT/",
    "http://①②⑦.⓪.⓪.①:PORT/",
    "http://localhost:PORT/",
    "http://api.example.com/",
    "http://api.example.com:1/",
    "http://api.example.com:PORT0/",
    "https://api.example.com:PORT/",
    "ftp://api.example.com:PORT/",
    "file:///etc/passwd",
    "http:///etc/passwd",
    "//api.example.com:PORT/",
    "/etc/passwd",
    "api.example.com",
    "",
    "http://api.example.com%2eevil.example:PORT/",
    "http://api.example.com%00.evil.example:PORT/",
    "http://api.example.com\t.evil.example:PORT/",
    "http://api。example。com.evil.example:PORT/",
    "http://api..example.com:PORT/",
    "http://.api.example.com:PORT/",
    "http://api_example.com:PORT/",
    "http://xn--pi-7lc.example.com:PORT/",
    "http://api.example.com:PORT/a b",
    "http://api.example.com:PORT/ä",
    " http://api.example.com:PORT/",
    "HTTP://api.example.com:PORT/",
]


def mended(port: int) -> set[str]:
    """What httpx makes an ordinary URL of; it is refused as text all the same, since a permission that judges the text refuses it."""
    return {f"http://@{GOOD}:{port}/", f"http://{GOOD}:{port}/a b", f"http://{GOOD}:{port}/ä", f"HTTP://{GOOD}:{port}/"}


@pytest.mark.parametrize("url", EVIL)
async def test_any_other_url_is_refused_before_anything_is_resolved(url):
    names = Names({})
    async with serving(Server(answer())) as server, client_for(server, names=names) as client:
        text = url.replace("PORT", str(server.port))
        with pytest.raises(GuardRefused) as caught:
            await client.get(text)
        try:
            parsed = httpx.URL(text)
        except httpx.InvalidURL:
            return
        if text not in mended(server.port):
            with pytest.raises(GuardRefused):
                await client.send(client.build_request("GET", parsed))
        assert "secret" not in str(caught.value)
        assert names.questions == []
        assert server.connections == 0


@pytest.mark.parametrize(
    "options",
    [
        {"headers": {"Host": "internal.example"}},
        {"headers": [("Host", GOOD), ("Host", "internal.example")]},
        {"headers": {"Host": f"{GOOD}:1"}},
        {"headers": {"Host": ""}},
        {"extensions": {"sni_hostname": "internal.example"}},
        {"extensions": {"target": b"http://internal.example/"}},
        {"extensions": {"anything": 1}},
    ],
)
async def test_a_request_cannot_lead_elsewhere_by_its_headers_or_extensions(options):
    async with serving(Server(answer())) as server, client_for(server) as client:
        await refusal(client, url_of(server), **options)
        assert server.connections == 0
        assert (await client.get(url_of(server), headers={"Host": f"{GOOD}:{server.port}"}, extensions={"timeout": {}})).is_success


@pytest.mark.parametrize(
    "other", ["http://evil.example:PORT/a", "http://api.example.com:1/a", "http://api.example.com:PORT/b", "https://api.example.com:PORT/a"]
)
async def test_a_url_that_httpx_reads_otherwise_than_it_is_checked_is_refused(other):
    """No such URL is known; should the two readers ever differ, nothing is sent."""

    class TwoFaced(httpx.URL):
        def __str__(self):
            return url_of(server, "/a")

    async with serving(Server(answer())) as server, client_for(server) as client:
        request = client.build_request("GET", url_of(server, "/a"))
        request.url = TwoFaced(other.replace("PORT", str(server.port)))
        with pytest.raises(GuardRefused, match="read in two ways"):
            await client.send(request)
        assert server.connections == 0
        request.url = TwoFaced(url_of(server, "/a"))
        assert (await client.send(request)).text == "ok"


@pytest.mark.parametrize("method", ["CONNECT", "connect", "TRACE"])
async def test_methods_of_proxies_are_refused(method):
    async with serving(Server(answer())) as server, client_for(server) as client:
        with pytest.raises(GuardRefused, match="for proxies"):
            await client.request(method, url_of(server))
        assert server.connections == 0


@pytest.mark.parametrize("first", ["127.0.0.1", "::ffff:127.0.0.1"])
@pytest.mark.parametrize(
    "second",
    [
        "127.0.0.2",
        "10.0.0.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "::1",
        "::ffff:10.0.0.1",
        "64:ff9b::7f00:1",
        "fe80::1%lo",
        "224.0.0.1",
    ],
)
async def test_one_bad_address_among_good_ones_refuses_the_name(first, second):
    for addresses in ([first, second], [second, first], [second]):
        async with serving(Server(answer())) as server:
            async with client_for(server, names=Names({GOOD: addresses}), addresses=["127.0.0.1", "::ffff:127.0.0.1"]) as client:
                text = await refusal(client, url_of(server))
            assert "not on the public internet" in text
            assert server.connections == 0


async def test_a_name_that_changes_its_address_cannot_be_used_to_reach_another_one():
    """DNS rebinding: what was checked is what is connected to, and a new connection is checked anew."""
    names = Names({GOOD: [["127.0.0.1"], ["127.0.0.2"]]})
    async with serving(Server(answer(b"outside"))) as outside, serving(Server(answer(b"inside")), "127.0.0.2", outside.port) as inside:
        async with client_for(outside, names=names) as client:
            assert (await client.get(url_of(outside))).text == "outside"
            assert (await client.get(url_of(outside))).text == "outside"
            assert len(names.questions) == 1
        async with client_for(outside, names=names) as client:
            assert "127.0.0.2" in await refusal(client, url_of(outside))
        assert (outside.connections, inside.connections) == (1, 0)
        assert len(names.questions) == 2


async def test_by_default_loopback_and_private_addresses_are_refused():
    for address in ("127.0.0.1", "::1", "10.1.2.3", "192.168.0.1", "fd00::1"):
        async with client_for(addresses=(), names=Names({GOOD: [address]})) as client:
            assert "allow_private=True" in await refusal(client, f"http://{GOOD}/")


async def test_private_addresses_can_be_allowed_but_never_metadata_servers():
    async with serving(Server(answer())) as server:
        async with client_for(server, addresses=(), allow_private=True) as client:
            assert (await client.get(url_of(server))).text == "ok"
        for address in ("169.254.169.254", "fd00:ec2::254", "100.100.100.200", "168.63.129.16", "0.0.0.0", "fe80::1", "224.0.0.1"):
            async with client_for(server, addresses=(), allow_private=True, names=Names({GOOD: [address]})) as client:
                await refusal(client, url_of(server))
        async with client_for(server, addresses=(), allow_private="yes") as client:  # a literal True alone
            await refusal(client, url_of(server))


def test_addresses_that_are_permitted():
    rule = AddressRule(addresses=["10.1.0.0/16", "::1"])
    assert [rule.permits(ip_address(text)) for text in ("8.8.8.8", "10.1.2.3", "::1", "10.2.0.1", "127.0.0.1")] == [
        True,
        True,
        True,
        False,
        False,
    ]
    assert AddressRule(allow_private=True).permits(ip_address("127.0.0.1"))
    assert not AddressRule().permits(ip_address("127.0.0.1"))


async def test_names_are_resolved_to_public_addresses_in_their_order():
    names = Names({GOOD: ["8.8.8.8", ip_address("2606:4700::1"), "8.8.8.8", "1.1.1.1"]})
    assert await resolve(GOOD, 443, names, AddressRule()) == (ip_address("8.8.8.8"), ip_address("2606:4700::1"), ip_address("1.1.1.1"))


@pytest.mark.parametrize(
    "answers", [["localhost"], ["127.1"], [2130706433], [b"8.8.8.8"], [None], ["8.8.8.8", ""], ["8.8.8.8/32"], ["8.8.8.8"] * 65]
)
async def test_odd_answers_of_a_resolver_are_refused(answers):
    async with client_for(names=Names({GOOD: answers})) as client:
        await refusal(client, f"http://{GOOD}/")


async def test_a_name_without_addresses_is_a_connect_error():
    async with client_for(names=Names({GOOD: []})) as client:
        for name in (GOOD, OTHER):
            with pytest.raises(httpx.ConnectError, match=name):
                await client.get(f"http://{name}/")


async def test_a_resolver_that_hangs_or_breaks_connects_to_nothing():
    async def hang(*_):
        await trio.sleep_forever()

    async def broken(*_):
        raise ZeroDivisionError

    async with client_for(resolver=hang, connect_timeout=0.05) as client:
        with pytest.raises(httpx.ConnectTimeout, match="not resolved in time"):
            await client.get(f"http://{GOOD}/")
    async with client_for(resolver=broken) as client:
        with pytest.raises(ZeroDivisionError):
            await client.get(f"http://{GOOD}/")


async def test_the_machines_own_resolver_is_asked_by_default():
    async with serving(Server(answer())) as server:
        options = {"schemes": ["http"], "ports": [server.port]}
        async with guarded_client(["localhost"], allow_private=True, **options) as client:
            assert (await client.get(url_of(server, name="localhost"))).text == "ok"
        async with guarded_client(["localhost"], **options) as client:
            await refusal(client, url_of(server, name="localhost"))
    assert server.connections == 1


async def test_addresses_are_tried_in_turn():
    async with serving(Server(answer())) as server:
        names = Names({GOOD: ["127.0.0.3", "127.0.0.1"], OTHER: ["127.0.0.3"]})
        async with client_for(server, names=names, addresses=["127.0.0.0/8"]) as client:
            assert (await client.get(url_of(server))).text == "ok"
            with pytest.raises(httpx.ConnectError):
                await client.get(url_of(server, name=OTHER))


async def test_the_settings_of_the_machine_are_ignored(monkeypatch, tmp_path):
    (tmp_path / "netrc").write_text(f"machine {GOOD} login me password secret\n", encoding="utf-8")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    async with serving(Server(answer(b"proxy"))) as proxy, serving(Server(answer(b"direct"))) as server:
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        async with client_for(server) as client:
            assert (await client.get(url_of(server))).text == "direct"
        assert proxy.connections == 0
    assert "authorization" not in server.asked[0].headers


async def test_no_cookie_goes_from_one_request_to_the_next():
    answers = {"/": redirect("/next"), "/next": answer()}
    answers["/"] = answers["/"].replace(b"location", b"Set-Cookie: session=1; Path=/\r\nlocation")
    async with serving(Server(answers)) as server, client_for(server) as client:
        for _ in range(2):
            assert (await client.get(url_of(server))).text == "ok"
    assert all("cookie" not in asked.headers for asked in server.asked)
    assert len(server.asked) == 4


async def test_the_raw_connection_is_not_handed_out():
    async with serving(Server(answer())) as server, client_for(server) as client:
        assert set((await client.get(url_of(server))).extensions) == {"http_version", "reason_phrase"}


async def test_a_request_that_is_cancelled_closes_its_connection():
    closed = trio.Event()

    async def silent(_asked, stream):
        while await stream.receive_some():
            pass
        closed.set()

    async with serving(Server(silent)) as server, client_for(server) as client:
        with trio.move_on_after(0.5):
            await client.get(url_of(server))
        with trio.fail_after(60):
            await closed.wait()


async def test_many_requests_at_once():
    async with serving(Server(answer())) as server, client_for(server) as client:
        found = []

        async def fetch():
            found.append((await client.get(url_of(server))).text)

        async with trio.open_nursery() as nursery:
            for _ in range(40):
                nursery.start_soon(fetch)
        assert found == ["ok"] * 40


@pytest.mark.parametrize(
    ("names", "options"),
    [
        ("api.example.com", {}),
        (b"api.example.com", {}),
        (["127.0.0.1"], {}),
        (["*"], {}),
        ([""], {}),
        ([1], {}),
        ([GOOD], {"schemes": ["ftp"]}),
        ([GOOD], {"schemes": []}),
        ([GOOD], {"schemes": ["wss"]}),
        ([GOOD], {"ports": []}),
        ([GOOD], {"ports": [0]}),
        ([GOOD], {"ports": [65536]}),
        ([GOOD], {"ports": ["443"]}),
        ([GOOD], {"ports": [True]}),
        ([GOOD], {"timeout": 0}),
        ([GOOD], {"timeout": float("inf")}),
        ([GOOD], {"timeout": float("nan")}),
        ([GOOD], {"timeout": True}),
        ([GOOD], {"timeout": None}),
        ([GOOD], {"connect_timeout": -1}),
        ([GOOD], {"max_bytes": 0}),
        ([GOOD], {"max_bytes": 1.5}),
        ([GOOD], {"max_redirects": -1}),
        ([GOOD], {"addresses": "127.0.0.1"}),
        ([GOOD], {"addresses": ["localhost"]}),
        ([GOOD], {"addresses": ["10.0.0.1/8"]}),
        ([GOOD], {"tls": ssl._create_unverified_context()}),
    ],
)
def test_arguments_that_cannot_be_used_are_refused(names, options):
    with pytest.raises(GuardRefused):
        guarded_client(names, **options)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"ports": 443}, r"ports= is 443\. Give a list or a tuple, \(443,\)"),
        ({"ports": None}, "ports= is an object of type NoneType"),
        ({"schemes": "https"}, r"schemes= is 'https'\. Give a list or a tuple, \('https',\)"),
        ({"schemes": [["https"]]}, "schemes="),
        ({"names": GOOD}, "names= is 'api.example.com'"),
        ({"names": 5}, "names= is 5"),
    ],
)
def test_one_value_in_place_of_a_list_is_refused_with_the_list_to_write(options, says):
    with pytest.raises(GuardRefused, match=says):
        guarded_client(**({"names": [GOOD]} | options))


def test_the_certificates_are_read_once_for_all_clients(monkeypatch):
    read, real = [], httpx.create_ssl_context

    def reading(**options):
        read.append(options)
        return real(**options)

    net._usual_tls.cache_clear()
    monkeypatch.setattr(httpx, "create_ssl_context", reading)
    for _ in range(3):
        guarded_client([GOOD])
    assert read == [{"trust_env": False}]
    assert net._usual_tls().verify_mode is ssl.CERT_REQUIRED
    assert net._usual_tls().check_hostname is True


def test_outside_of_trio_it_says_so():
    async def main():
        async with client_for() as client:
            with pytest.raises(RuntimeError, match="within trio only"):
                await client.get(f"http://{GOOD}/")

    asyncio.run(main())


def test_importing_the_module_loads_no_http_library():
    code = "import sys, retinue.capabilities.net; sys.exit(bool({'httpx', 'httpcore', 'trio'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
