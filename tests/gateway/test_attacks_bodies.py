"""Bodies that are not what they must be, and tokens that come by another way than the header: each is told so in a typed error, and no actor is touched."""

from __future__ import annotations

import gzip
import json

from gateway_raw import SECRET, Target, ask_body, attacked, case

BODY = ask_body()


def call(**changes: object) -> bytes:
    """The good call with some of its fields changed; `...` leaves one out."""
    data = {**json.loads(BODY), **changes}
    return json.dumps({name: value for name, value in data.items() if value is not ...}).encode("utf-8")


def fields(text: str) -> bytes:
    """The good call with this as the text of its message's fields."""
    return f'{{"to":"/user/probe","message":{{"type":"probe/Look@1","body":{text}}}}}'.encode("utf-8", "surrogatepass")


BODIES = {
    # No JSON, or not only.
    "empty": b"",
    "a space": b" ",
    "null": b"null",
    "a number": b"1",
    "a string": b'"x"',
    "an array": b"[" + BODY + b"]",
    "two objects": BODY + BODY,
    "something behind it": BODY + b"x",
    "nul behind it": BODY + b"\0",
    "cut off": BODY[:-1],
    "single quotes": BODY.replace(b'"', b"'"),
    "a comment": b"/* */" + BODY,
    "a comma too many": BODY[:-1] + b",}",
    "utf-16": BODY.decode().encode("utf-16"),
    "a byte order mark": b"\xef\xbb\xbf" + BODY,
    "not utf-8": BODY.replace(b"sesame", b"\xff\xfe"),
    "overlong utf-8": BODY.replace(b"sesame", b"\xc0\xaf"),
    "a form": b"to=/user/probe&type=probe/Look@1",
    "pickle": b"\x80\x04\x95\x1a\x00\x00\x00\x00\x00\x00\x00.",
    # JSON that two readers take for different things.
    "the same key twice": BODY[:-1] + b',"to":"/user/probe"}',
    "the same field twice": fields('{"what":"a","what":"b"}'),
    "the same key by an escape": fields('{"what":"a","\\u0077hat":"b"}'),
    "not a number": fields('{"what":"a","amount":NaN}'),
    "infinity": fields('{"what":"a","amount":Infinity}'),
    "minus infinity": fields('{"what":"a","amount":-Infinity}'),
    "a number beyond all": fields('{"what":"a","amount":1e999}'),
    "a leading zero": fields('{"what":"a","amount":01}'),
    "hex": fields('{"what":"a","amount":0x1}'),
    "a lone surrogate, escaped": fields('{"what":"\\ud800"}'),
    "a lone surrogate, in bytes": fields('{"what":"\ud800"}'),
    "surrogates the wrong way round": fields('{"what":"\\udc00\\ud800"}'),
    "a raw control character": fields('{"what":"\n"}'),
    # Too much.
    "nested deeply": b"[" * 100_000,
    "nested deeply, and closed": b'{"to":' + b"[" * 500 + b"]" * 500 + b"}",
    "objects nested deeply": b'{"a":' * 50_000,
    "nested deeply in a field": fields('{"what":' + "[" * 70 + "]" * 70 + "}"),
    "a huge integer": fields('{"what":"a","amount":' + "9" * 5000 + "}"),
    "a huge exponent": fields('{"what":"a","amount":1e' + "9" * 5000 + "}"),
    "many keys": json.dumps({str(number): 0 for number in range(20_000)}).encode(),
    # Fields of other types.
    "a true for a number": fields('{"what":"a","amount":true}'),
    "a float for a number": fields('{"what":"a","amount":1.0}'),
    "a text for a number": fields('{"what":"a","amount":"1"}'),
    "a null for a number": fields('{"what":"a","amount":null}'),
    "a number for a text": fields('{"what":1}'),
    "an array for a text": fields(f'{{"what":["{SECRET}"]}}'),
    "a field missing": fields("{}"),
    "a field too many": fields(f'{{"what":"a","{SECRET[:6]}":1}}'),
    "a dunder": fields('{"what":"a","__class__":"x"}'),
    "fields as an array": fields('["a"]'),
    "fields as a text": fields('"a"'),
    # What is asked, and of whom.
    "no message": call(message=...),
    "a message of null": call(message=None),
    "a message of an array": call(message=[]),
    "a message without a type": call(message={"body": {}}),
    "a message without a body": call(message={"type": "probe/Look@1"}),
    "a message with more": call(message={"type": "probe/Look@1", "body": {"what": "a"}, "more": 1}),
    "a type of a number": call(message={"type": 1, "body": {}}),
    "an unknown type": call(message={"type": "probe/Never@1", "body": {}}),
    "a later version": call(message={"type": "probe/Look@2", "body": {"what": "a"}}),
    "a class of Python": call(message={"type": "builtins.object", "body": {}}),
    "a class by its path": call(message={"type": "gateway_raw.Look", "body": {"what": "a"}}),
    "a message that the actor does not take": call(message={"type": "retinue/Terminated@1", "body": {}}),
    "an empty type": call(message={"type": "", "body": {}}),
    "to nobody": call(to=...),
    "to null": call(to=None),
    "to a number": call(to=1),
    "to an array": call(to=["/user/probe"]),
    "to an empty path": call(to=""),
    "to the root": call(to="/"),
    "to the guardian": call(to="/user"),
    "to the system's own": call(to="/system"),
    "to the desk": call(to="/system/approvals"),
    "to the gateway": call(to="/system/gateway"),
    "by two dots": call(to="/user/../user/probe"),
    "by a dot": call(to="/user/./probe"),
    "by two slashes": call(to="//user//probe"),
    "by a slash at the end": call(to="/user/probe/"),
    "by a name": call(to="probe"),
    "without a slash": call(to="user/probe"),
    "with a space": call(to=" /user/probe"),
    "with nul": call(to="/user/probe\0"),
    "in capitals": call(to="/USER/PROBE"),
    "to nobody there": call(to="/user/nobody"),
    "to a child that is not": call(to="/user/probe/child"),
    "to a long path": call(to="/user/" + "a" * 100_000),
    "to a look-alike": call(to="/user/рrobe"),
    "as an address": call(to="retinue://attacked/user/probe"),
    # The rest of the call.
    "a negative time": call(timeout=-1),
    "a time of a text": call(timeout="5"),
    "a time of true": call(timeout=True),
    "a huge time": call(timeout=10**400),
    "a time beyond all": BODY[:-1] + b',"timeout":1e400}',
    "approvals of a text": call(approvals="x"),
    "approvals of numbers": call(approvals=[1]),
    "approvals of null": call(approvals=[None]),
    "many approvals": call(approvals=["x"] * 17),
    "detached by a number": call(detached=1),
    "a context of its own": call(context={"subject": "root"}),
    "a token in it": call(token="x"),
    "a field of tell": call(wait=1),
    "a field of stream": call(window=1),
    "a prototype": call(__proto__={"to": "/user/probe"}),
}

TYPES = {
    "none": None,
    "empty": "",
    "text": "text/plain",
    "a form": "application/x-www-form-urlencoded",
    "many parts": "multipart/form-data; boundary=x",
    "another character set": "application/json; charset=utf-16",
    "something like it": "application/jsonp",
    "two in one": "application/json, text/plain",
    "with more": "application/json; charset=utf-8; x=1",
    "anything": "*/*",
    "xml": "application/xml",
}


async def test_a_body_that_is_no_call_is_told_so(tmp_path):
    async with attacked(tmp_path) as target:
        for name, body in BODIES.items():
            with case(name, target):
                reply = await target.once(target.post("/v1/ask", body))
                assert reply is not None and reply.status in (400, 404, 413, 422), reply
                assert reply.error["type"] in {"WireError", "GatewayError", "Unhandled"}


async def test_only_json_is_taken_for_json(tmp_path):
    async with attacked(tmp_path) as target:
        for name, kind in TYPES.items():
            headers = [] if kind is None else [f"Content-Type: {kind}"]
            with case(name, target):
                reply = await target.once(target.head("POST /v1/ask HTTP/1.1", *headers, f"Content-Length: {len(BODY)}") + b"\r\n" + BODY)
                assert reply is not None and reply.status == 415 and reply.error["type"] == "GatewayError", reply
        with case("twice", target):
            reply = await target.once(target.post("/v1/ask", BODY, "Content-Type: application/json"))
            assert reply is not None and reply.status == 415


async def test_a_body_that_is_packed_is_not_unpacked(tmp_path):
    async with attacked(tmp_path) as target:
        bomb = gzip.compress(b'{"to":"' + b"a" * 2**22)
        for encoding in ("gzip", "deflate", "br", "zstd", "identity, gzip", "x"):
            for body in (gzip.compress(BODY), bomb, BODY):
                with case(encoding, target):
                    reply = await target.once(target.post("/v1/ask", body, f"Content-Encoding: {encoding}"))
                    assert reply is not None and reply.status == 415, reply
        with case("packed, and not said", target):
            reply = await target.once(target.post("/v1/ask", gzip.compress(BODY)))
            assert reply is not None and reply.status == 400, reply


async def test_the_other_endpoints_read_as_strictly(tmp_path):
    names = (
        "empty",
        "the same key twice",
        "not a number",
        "a lone surrogate, escaped",
        "nested deeply",
        "an unknown type",
        "to the system's own",
    )
    async with attacked(tmp_path) as target:
        for endpoint in ("/v1/tell", "/v1/stream"):
            for name in names:
                with case((endpoint, name), target):
                    reply = await target.once(target.post(endpoint, BODIES[name]))
                    assert reply is not None and reply.status in (400, 404, 413, 422) and reply.error, reply


# -- sizes ---------------------------------------------------------------------------------------------------------------------------------------------


def sized(size: int) -> bytes:
    return ask_body("a" * (size - len(ask_body(""))))


async def test_a_body_may_be_as_long_as_the_bound_and_no_longer(tmp_path):
    async with attacked(tmp_path, max_body=65_536) as target:
        reply = await target.once(target.post("/v1/ask", sized(65_536)))
        assert reply is not None and reply.status == 200
        reply = await target.once(target.post("/v1/ask", sized(65_537)))
        assert reply is not None and reply.status == 413 and reply.error["reason"] == "too_large"
        assert len(target.seen) == 1


async def test_a_length_beyond_the_bound_is_refused_before_the_body_comes(tmp_path):
    async with attacked(tmp_path) as target:
        for length in (2**20 + 1, 2**31, 2**63, 10**18, 10**19):
            with case(length, target):
                async with target.client() as client:
                    lines = ("Content-Type: application/json", f"Content-Length: {length}")
                    await client.send(target.head("POST /v1/ask HTTP/1.1", *lines) + b"\r\n")
                    reply = await client.reply()
                    assert reply is not None and reply.status in (400, 413) and reply.error, reply
                    await client.half_close()
                    await client.closed()


async def test_chunks_beyond_the_bound_are_refused_and_the_rest_is_no_request(tmp_path):
    async with attacked(tmp_path, max_body=65_536) as target, target.client() as client:
        await client.send(target.head("POST /v1/ask HTTP/1.1", "Content-Type: application/json", "Transfer-Encoding: chunked") + b"\r\n")
        inner = target.post("/v1/ask", BODY)
        chunk = b"%x\r\n" % 16_384 + inner.ljust(16_384) + b"\r\n"
        for _ in range(64):
            if not await client.send(chunk):
                break
        reply = await client.reply()
        assert reply is None or (reply.status == 413 and reply.error), reply
        await client.send(inner)
        await client.half_close()
        await client.closed()
        assert target.seen == []


HEADS = {
    "one header": lambda target, line: target.head(line, "X-Long: " + "a" * 40_000) + b"\r\n",
    "many headers": lambda target, line: target.head(line, *(f"X-{number}: a" for number in range(4_000))) + b"\r\n",
    "the line": lambda target, _: target.head(f"POST /v1/ask?{'a' * 40_000} HTTP/1.1") + b"\r\n",
    "no end": lambda target, line: target.head(line, "X-Long: " + "a" * 400_000)[:-2],
    "a name": lambda target, line: target.head(line, "X" * 40_000 + ": a") + b"\r\n",
}


async def test_headers_beyond_the_bound_are_refused(tmp_path):
    async with attacked(tmp_path, max_headers=16_384) as target:
        for name, head in HEADS.items():
            with case(name, target):
                async with target.client() as client:
                    await client.send(head(target, "POST /v1/ask HTTP/1.1"))
                    reply = await client.reply()
                    assert reply is None or (reply.status in (400, 414, 431) and reply.error), reply
                    await client.closed()


# -- tokens by other ways ------------------------------------------------------------------------------------------------------------------------------


def by(*headers: str, path: str = "/v1/ask", body: bytes = BODY):
    def request(target: Target) -> bytes:
        filled = [line.replace("TOKEN", target.token) for line in headers]
        return target.post(path.replace("TOKEN", target.token), body.replace(b"TOKEN", target.token.encode()), *filled, token=None)

    return request


WAYS = {
    "not at all": by(),
    "in the query": by(path="/v1/ask?token=TOKEN&access_token=TOKEN&authorization=Bearer%20TOKEN"),
    "in the path": by(path="/v1/ask/TOKEN"),
    "in the body": by(body=ask_body("TOKEN")),
    "in a cookie": by("Cookie: token=TOKEN; Authorization=Bearer TOKEN"),
    "for a proxy": by("Proxy-Authorization: Bearer TOKEN"),
    "in a header of another name": by("X-Authorization: Bearer TOKEN", "X-Forwarded-Authorization: Bearer TOKEN", "X-Token: TOKEN"),
    "twice": by("Authorization: Bearer TOKEN", "Authorization: Bearer TOKEN"),
    "behind nonsense": by("Authorization: Bearer nonsense", "Authorization: Bearer TOKEN"),
    "before nonsense": by("Authorization: Bearer TOKEN", "Authorization: Bearer nonsense"),
    "as a password": by("Authorization: Basic TOKEN"),
    "without a scheme": by("Authorization: TOKEN"),
    "with another scheme": by("Authorization: Token TOKEN"),
    "two in one header": by("Authorization: Bearer TOKEN, Bearer TOKEN"),
    "two behind one word": by("Authorization: Bearer TOKEN TOKEN"),
    "with a comma": by("Authorization: Bearer TOKEN,"),
    "in quotes": by('Authorization: Bearer "TOKEN"'),
    "as a parameter": by("Authorization: Bearer token=TOKEN"),
    "with padding": by("Authorization: Bearer TOKEN=="),
    "cut": by("Authorization: Bearer "),
    "a scheme alone": by("Authorization: Bearer"),
    "empty": by("Authorization: "),
    "a scheme that is longer": by("Authorization: BearerTOKEN"),
    "with letters beyond ascii": by("Authorization: Bearer TOKENé"),
}


async def test_a_token_comes_in_one_header_or_not_at_all(tmp_path):
    async with attacked(tmp_path) as target:
        for name, request in WAYS.items():
            with case(name, target):
                reply = await target.once(request(target))
                assert reply is not None and reply.status == 401 and reply.error["type"] == "TokenError", reply
