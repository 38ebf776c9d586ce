"""Requests that are no HTTP/1.1, or that two readers could take for different things: refused or cut, with no actor touched, and the others served on."""

from __future__ import annotations

from gateway_raw import Target, ask_body, attacked, case

BODY = ask_body()
TYPE = "Content-Type: application/json"
LINE = "POST /v1/ask HTTP/1.1"


def framed(*headers: str, body: bytes = BODY, line: str = LINE):
    return lambda target: target.head(line, TYPE, *headers) + b"\r\n" + body


def chunked(*chunks: bytes, headers: tuple[str, ...] = ("Transfer-Encoding: chunked",)):
    return framed(*headers, body=b"".join(chunks))


def bare(data: bytes):
    return lambda target: data


def line(text: str):
    return lambda target: target.head(text, TYPE, f"Content-Length: {len(BODY)}") + b"\r\n" + BODY


def header(text: bytes):
    """A good request with one odd line among its headers."""
    return lambda target: target.head(LINE, TYPE, f"Content-Length: {len(BODY)}") + text + b"\r\n\r\n" + BODY


def hosted(*hosts: bytes, version: str = "1.1"):
    def request(target: Target) -> bytes:
        port = str(target.port).encode()
        lines = [f"POST /v1/ask HTTP/{version}".encode(), *(b"Host: " + host.replace(b"PORT", port) for host in hosts)]
        lines += [TYPE.encode(), b"Content-Length: %d" % len(BODY), b"Authorization: Bearer " + target.token.encode()]
        return b"\r\n".join([*lines, b"", BODY])

    return request


SIZE = b"%x" % len(BODY)
GOOD_CHUNK = SIZE + b"\r\n" + BODY + b"\r\n"

MALFORMED = {
    # No HTTP/1.1 at all.
    "http 0.9": bare(b"GET /v1/actors\r\n\r\n"),
    "a line without a version": bare(b"POST /v1/ask\r\nHost: 127.0.0.1\r\n\r\n"),
    "the preface of http 2": bare(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"),
    "a tls hello": bare(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64) + b"\r\n\r\n"),
    "zeros": bare(bytes(4096) + b"\r\n\r\n"),
    "noise": bare(bytes(range(256)) * 16 + b"\r\n\r\n"),
    "socks": bare(b"\x05\x01\x00\r\n\r\n"),
    "version 2.0": line("POST /v1/ask HTTP/2.0"),
    "version 9.9": line("POST /v1/ask HTTP/9.9"),
    "version 1": line("POST /v1/ask HTTP/1"),
    "version 01.1": line("POST /v1/ask HTTP/01.1"),
    "a version in small letters": line("POST /v1/ask http/1.1"),
    "another protocol": line("POST /v1/ask RTSP/1.1"),
    "two spaces in the line": line("POST  /v1/ask HTTP/1.1"),
    "a tab in the line": line("POST\t/v1/ask\tHTTP/1.1"),
    "no method": line("/v1/ask HTTP/1.1"),
    "a method with a colon": line("PO:ST /v1/ask HTTP/1.1"),
    "a target with a space": line("POST /v1/ask now HTTP/1.1"),
    "a target of latin letters": line("POST /v1/äsk HTTP/1.1"),
    "a target with nul": line("POST /v1/ask\0 HTTP/1.1"),
    # Lengths that are none, or two.
    "two lengths": framed(f"Content-Length: {len(BODY)}", "Content-Length: 5"),
    "two lengths in one": framed(f"Content-Length: {len(BODY)}, 5"),
    "a negative length": framed("Content-Length: -5"),
    "a length with a sign": framed(f"Content-Length: +{len(BODY)}"),
    "a length in hex": framed("Content-Length: 0x5f"),
    "a length with an underscore": framed("Content-Length: 1_0"),
    "a length of other digits": header("Content-Length: ١٠".encode()),
    "an empty length": framed("Content-Length: "),
    "a length of two numbers": framed("Content-Length: 5 5"),
    "length and chunks": chunked(GOOD_CHUNK, b"0\r\n\r\n", headers=(f"Content-Length: {len(BODY)}", "Transfer-Encoding: chunked")),
    "chunks and length": chunked(GOOD_CHUNK, b"0\r\n\r\n", headers=("Transfer-Encoding: chunked", "Content-Length: 3")),
    # Transfer codings.
    "an unknown coding": framed("Transfer-Encoding: xchunked"),
    "identity": framed("Transfer-Encoding: identity"),
    "gzip and chunks": chunked(GOOD_CHUNK, b"0\r\n\r\n", headers=("Transfer-Encoding: gzip, chunked",)),
    "chunks twice": chunked(GOOD_CHUNK, b"0\r\n\r\n", headers=("Transfer-Encoding: chunked, chunked",)),
    "chunks, and another header of chunks": chunked(GOOD_CHUNK, b"0\r\n\r\n", headers=("Transfer-Encoding: chunked",) * 2),
    "chunks and then identity": chunked(GOOD_CHUNK, b"0\r\n\r\n", headers=("Transfer-Encoding: chunked", "Transfer-Encoding: identity")),
    "a coding behind a tab": chunked(GOOD_CHUNK, b"0\r\n\r\n", headers=("Transfer-Encoding: \x0bchunked",)),
    # Chunks.
    "a chunk whose size is no number": chunked(b"zz\r\n", BODY),
    "a chunk of a negative size": chunked(b"-5\r\n", BODY),
    "a chunk of a size with 0x": chunked(b"0x" + GOOD_CHUNK, b"0\r\n\r\n"),
    "a chunk of a size with a sign": chunked(b"+" + GOOD_CHUNK, b"0\r\n\r\n"),
    "a chunk of a size beyond all": chunked(b"f" * 40 + b"\r\n", BODY),
    "a chunk without a size": chunked(b"\r\n", BODY, b"\r\n0\r\n\r\n"),
    "a chunk that is longer than it says": chunked(b"3\r\n", BODY, b"\r\n0\r\n\r\n"),
    "a chunk whose extension has no end": chunked(SIZE + b";x=" + b"y" * 200_000),
    "a chunk with nul in its size": chunked(b"5\0\r\n", BODY),
    # Headers.
    "a header without a colon": header(b"nonsense"),
    "a header without a name": header(b": value"),
    "a space before the colon": header(b"X-Odd : value"),
    "a space in a name": header(b"X Odd: value"),
    "nul in a name": header(b"X-\0dd: value"),
    "nul in a value": header(b"X-Odd: va\0lue"),
    "a bare return in a value": header(b"X-Odd: va\rlue"),
    "a folded first line": bare(b"POST /v1/ask HTTP/1.1\r\n folded: yes\r\n\r\n"),
    "a control character in a value": header(b"X-Odd: va\x01lue"),
    # Targets that are none of ours.
    "authority form": line("CONNECT 127.0.0.1:80 HTTP/1.1"),
    "asterisk form": line("OPTIONS * HTTP/1.1"),
    "absolute form, to us": line("POST http://127.0.0.1/v1/ask HTTP/1.1"),
    "absolute form, to others": line("POST http://evil.example/v1/ask HTTP/1.1"),
    "absolute form, of a file": line("POST file:///v1/ask HTTP/1.1"),
    # Hosts, as far as they are about framing.
    "no host": hosted(),
    "no host in 1.0": hosted(version="1.0"),
    "two hosts": hosted(b"127.0.0.1:PORT", b"127.0.0.1:PORT"),
    "a good and a bad host": hosted(b"127.0.0.1:PORT", b"evil.example"),
    "a bad and a good host": hosted(b"evil.example", b"127.0.0.1:PORT"),
    "two hosts in one": hosted(b"127.0.0.1:PORT, evil.example"),
    "an empty host": hosted(b""),
    "a host of spaces": hosted(b"127.0.0.1 evil.example"),
    "a host with nul": hosted(b"127.0.0.1\0.evil.example"),
}

PATHS = {
    "two slashes": "//v1/ask",
    "two slashes inside": "/v1//ask",
    "a slash at the end": "/v1/ask/",
    "a dot": "/v1/./ask",
    "two dots": "/v1/../v1/ask",
    "two dots to the root": "/v1/../../v1/ask",
    "an encoded slash": "/v1%2Fask",
    "an encoded dot": "/v1/%2e/ask",
    "encoded dots": "/v1/%2e%2e/v1/ask",
    "nul": "/v1/ask%00",
    "nul and more": "/v1/ask%00.json",
    "not utf-8": "/v1/%ff%fe",
    "an overlong slash": "/v1%c0%afask",
    "encoded twice": "/v1%252fask",
    "a broken escape": "/v1/ask%",
    "a broken escape of two": "/v1/ask%4",
    "a parameter": "/v1/ask;x=1",
    "a space at the end": "/v1/ask%20",
    "a line's end": "/v1/ask%0d%0aX-Evil:%201",
    "capitals": "/V1/ASK",
    "a back-slash": "\\v1\\ask",
    "a back-slash inside": "/v1\\ask",
    "a fragment": "/v1/ask#x",
    "a look-alike": "/v1/%EF%BD%81sk",
    "another version": "/v2/ask",
    "a file": "/etc/passwd",
    "a file above": "/../../../../etc/passwd",
    "the root": "/",
    "a tilde": "/~root/",
    "a long one": "/v1/" + "a" * 8_000,
    "one with many segments": "/v1" + "/a" * 4_000,
}

OTHER_METHODS = ("GET", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "QUERY", "PROPFIND", "X")


async def test_a_malformed_request_is_refused_or_cut(tmp_path):
    async with attacked(tmp_path) as target:
        for name, request in MALFORMED.items():
            with case(name, target):
                async with target.client() as client:
                    await client.send(request(target))
                    await client.half_close()
                    reply = await client.reply()
                    if reply is not None:
                        assert (400 <= reply.status < 500 or reply.status == 501) and reply.error, reply
                    await client.closed()


async def test_a_path_is_what_is_written_or_it_is_not_there(tmp_path):
    async with attacked(tmp_path) as target:
        for name, path in PATHS.items():
            with case(name, target):
                reply = await target.once(target.post(path, BODY))
                assert reply is not None and reply.status in (400, 404) and reply.error, reply


async def test_only_the_methods_of_a_path_are_taken(tmp_path):
    async with attacked(tmp_path) as target:
        for method in OTHER_METHODS:
            reply = await target.once(line(f"{method} /v1/ask HTTP/1.1")(target), to=method)
            assert reply is not None and reply.status in (400, 404, 405), (method, reply)
            reply = await target.once(target.post("/v1/actors", BODY, f"X-HTTP-Method-Override: {method}"))
            assert reply is not None and reply.status == 405, (method, reply)
        assert target.seen == []


async def test_a_connection_is_never_turned_into_another_protocol(tmp_path):
    async with attacked(tmp_path) as target:
        for upgrade in ("websocket", "h2c", "WebSocket", "h2c, websocket", "TLS/1.2"):
            more = [
                "Connection: Upgrade, HTTP2-Settings",
                f"Upgrade: {upgrade}",
                "HTTP2-Settings: AAMAAABkAAQAAP__",
                "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
                "Sec-WebSocket-Version: 13",
            ]
            for path in ("/v1/actors", "/v1/watch?path=/user/probe", "/v1/ask", "/"):
                with case((upgrade, path), target):
                    reply = await target.once(target.get(path, *more, token=None))
                    assert reply is None or (reply.status >= 400 and reply.error), reply
            with case(upgrade, target):
                reply = await target.once(target.get("/v1/actors", *more))
                assert reply is None or reply.status in (200, 400, 403, 426, 501), reply


async def test_what_a_folded_header_hides_is_no_header_of_its_own(tmp_path):
    async with attacked(tmp_path) as target:
        request = (
            target.head(LINE, TYPE, f"Content-Length: {len(BODY)}", token=None)
            + f"X-Odd: a\r\n Authorization: Bearer {target.token}\r\n\r\n".encode()
        )
        reply = await target.once(request + BODY)
        assert reply is None or reply.status in (400, 401), reply
        assert target.seen == []


async def test_a_trailer_is_no_header(tmp_path):
    async with attacked(tmp_path) as target:
        head = target.head(LINE, TYPE, "Transfer-Encoding: chunked", "Trailer: Authorization", token=None) + b"\r\n"
        reply = await target.once(head + GOOD_CHUNK + f"0\r\nAuthorization: Bearer {target.token}\r\n\r\n".encode())
        assert reply is not None and reply.status == 401 and reply.error["type"] == "TokenError"
        assert target.seen == []


async def test_chunks_within_the_bounds_are_a_body_like_any(tmp_path):
    async with attacked(tmp_path) as target:
        parts = b"".join(b"1;note=x\r\n%c\r\n" % byte for byte in BODY)
        reply = await target.once(chunked(parts, b"0\r\nX-Trailer: 1\r\n\r\n")(target))
        assert reply is not None and reply.status == 200 and reply.json() == {"reply": 1}


async def test_who_waits_for_leave_to_send_a_body_gets_it_only_with_a_token(tmp_path):
    async with attacked(tmp_path) as target, target.client() as client:
        expect = (TYPE, f"Content-Length: {len(BODY)}", "Expect: 100-continue")
        await client.send(target.head(LINE, *expect) + b"\r\n")
        await client.send(BODY)
        reply = await client.reply()
        assert reply is not None and reply.status == 200
        await client.send(target.head(LINE, *expect, token=None) + b"\r\n")
        reply = await client.reply()
        assert reply is not None and reply.status == 401
