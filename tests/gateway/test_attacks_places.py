"""Requests under names that are not the gateway's, and from web pages: refused before the token is looked at, whatever the token."""

from __future__ import annotations

from gateway_raw import Reply, Target, ask_body, attacked, case

BODY = ask_body()

OURS = (
    "127.0.0.1:PORT",
    "127.0.0.1",
    "localhost:PORT",
    "localhost",
    "LOCALHOST:PORT",
    "LocalHost",
    "[::1]:PORT",
    "[::1]",
    "127.0.0.1:1",
    "localhost:65535",
)
"""Names of the default, in any case, with any port: who forwards a port sees another one than the gateway."""

OTHERS = (
    # Names of others, which DNS may point to this machine.
    "evil.example",
    "evil.example:PORT",
    "localhost.evil.example:PORT",
    "127.0.0.1.evil.example:PORT",
    "127.0.0.1.nip.io:PORT",
    "evil.example:PORT:PORT",
    "localhost.:PORT",
    "127.0.0.1.:PORT",
    "localhost.localdomain",
    "local",
    "*",
    "0.0.0.0:PORT",
    # This machine by other spellings: not ours either.
    "127.1:PORT",
    "127.0.0.2:PORT",
    "127.0.0.01:PORT",
    "0x7f.0.0.1:PORT",
    "0177.0.0.1",
    "2130706433:PORT",
    "[::]:PORT",
    "[::ffff:127.0.0.1]:PORT",
    "[0:0:0:0:0:0:0:1]:PORT",
    "[::1%25lo]:PORT",
    "[::1",
    "::1",
    "::1:PORT",
    "[]",
    "[localhost]",
    "[127.0.0.1]:PORT",
    # A user, a path, more than one.
    "evil.example@127.0.0.1:PORT",
    "127.0.0.1@evil.example",
    "127.0.0.1:PORT@evil.example",
    "localhost/evil.example",
    "localhost?evil.example",
    "localhost#evil.example",
    "localhost\\.evil.example",
    "http://localhost",
    "localhost, evil.example",
    "localhost evil.example",
    "localhost;evil.example",
    "localhost%2eevil.example",
    # Ports that are none.
    "localhost:",
    "localhost:-1",
    "localhost:+80",
    "localhost:port",
    "localhost:123456",
    "localhost:80:80",
    "localhost: 80",
    "",
    "-",
    "ｌocalhost".encode().decode("latin-1"),
    "localhost\xa0",
)

PAGES = (
    "http://evil.example",
    "https://evil.example",
    "http://evil.example:PORT",
    "http://localhost",
    "http://localhost:PORT",
    "http://127.0.0.1:PORT",
    "https://127.0.0.1:PORT",
    "http://127.0.0.1:PORT.evil.example",
    "http://good.example.evil.example",
    "https://good.example.",
    "https://good.example:443",
    "https://good.example:8443",
    "http://good.example",
    "https://GOOD.example",
    "https://good.example/",
    "https://user@good.example",
    "https://good.example, https://evil.example",
    "https://good.example https://evil.example",
    "null",
    "",
    "*",
    "file://",
    "chrome-extension://abcdef",
    "good.example",
)


def request(target: Target, host: str, *headers: str) -> bytes:
    lines = ["POST /v1/ask HTTP/1.1", f"Host: {host}", f"Authorization: Bearer {target.token}", "Content-Type: application/json"]
    lines += [f"Content-Length: {len(BODY)}", *headers]
    return "\r\n".join([*lines, "", ""]).replace("PORT", str(target.port)).encode("latin-1") + BODY


def refused(reply: Reply | None) -> bool:
    return reply is not None and reply.status in (400, 421) and reply.error["type"] == "GatewayError"


async def test_only_the_gateways_own_names_are_taken(tmp_path):
    async with attacked(tmp_path) as target:
        for host in OURS:
            reply = await target.once(request(target, host))
            assert reply is not None and reply.status == 200, (host, reply)
        for host in OTHERS:
            with case(host, target):
                reply = await target.once(request(target, host))
                assert refused(reply), reply
                reply = await target.once(request(target, host, f"X-Forwarded-Host: localhost:{target.port}", "Forwarded: host=localhost"))
                assert refused(reply), reply


async def test_names_that_were_given_are_taken_and_no_other(tmp_path):
    async with attacked(tmp_path, hosts=["127.0.0.1", "retinue.example", "[fd00::1]"]) as target:
        for host in ("retinue.example", "RETINUE.example:443", "[fd00::1]:PORT", "[FD00::1]"):
            reply = await target.once(request(target, host))
            assert reply is not None and reply.status == 200, (host, reply)
        for host in ("localhost:PORT", "[::1]:PORT", "a.retinue.example", "retinue.example.", "aretinue.example", "[fd00::2]"):
            with case(host, target):
                assert refused(await target.once(request(target, host)))


async def test_web_pages_are_refused_unless_they_were_named(tmp_path):
    async with attacked(tmp_path, origins=["https://good.example"]) as target:
        host = "127.0.0.1:PORT"
        reply = await target.once(request(target, host, "Origin: https://good.example"))
        assert reply is not None and reply.status == 200
        for page in PAGES:
            with case(page, target):
                assert refused(await target.once(request(target, host, f"Origin: {page}")))
        with case("two origins", target):
            assert refused(await target.once(request(target, host, "Origin: https://good.example", "Origin: https://evil.example")))
            assert refused(await target.once(request(target, host, "Origin: https://good.example", "Origin: https://good.example")))
        for site in ("cross-site", "same-site", "cross-site, same-origin"):
            with case(site, target):
                assert refused(await target.once(request(target, host, f"Sec-Fetch-Site: {site}")))


async def test_without_origins_no_page_is_let_in_not_even_the_gateways_own(tmp_path):
    async with attacked(tmp_path) as target:
        for page in PAGES:
            with case(page, target):
                assert refused(await target.once(request(target, "127.0.0.1:PORT", f"Origin: {page}")))


async def test_a_page_that_asks_for_leave_gets_none(tmp_path):
    async with attacked(tmp_path, origins=["https://good.example"]) as target:
        for page in ("https://evil.example", "null"):
            lines = [
                f"Origin: {page}",
                "Access-Control-Request-Method: POST",
                "Access-Control-Request-Headers: authorization, content-type",
                "Access-Control-Request-Private-Network: true",
            ]
            with case(page, target):
                reply = await target.once(target.head("OPTIONS /v1/ask HTTP/1.1", *lines, token=None) + b"\r\n", to="OPTIONS")
                assert reply is not None and reply.status >= 400, reply
                assert not any(name.startswith("access-control") for name in reply.headers), reply


async def test_where_a_request_is_from_is_looked_at_before_the_token(tmp_path):
    async with attacked(tmp_path) as target:
        answers = set()
        for token in (None, "nonsense", target.token):
            reply = await target.once(target.post("/v1/ask", BODY, "Origin: https://evil.example", token=token))
            assert reply is not None and reply.status == 421
            answers.add(reply.body)
        assert len(answers) == 1
        assert target.seen == []
