"""The client against a raw socket that sends bytes as told: whatever comes, a whole answer or a typed error, and nothing hangs."""

from __future__ import annotations

import gc
import json
import socket
import ssl
from contextlib import aclosing
from functools import partial

import pytest
import trio
import trustme

from retinue import llm
from retinue.actors.llm import reading as reading_module
from retinue.actors.llm.endpoint import Endpoint
from retinue.actors.llm.retrying import Retries
from retinue.actors.llm.sse import SseDecoder
from told_server import (
    DONE,
    GOOD,
    HALF_CLOSE,
    HEAD,
    KEEP,
    RESET,
    STALL,
    STOP,
    USAGE,
    chunk,
    chunked_head,
    event,
    head,
    refusal,
    sse,
    told,
    whole,
)

KEY = "sk-test-0123456789abcdef"
HELLO = llm.Complete.of("hello")
AT_ONCE = Retries(2, chance=lambda: 0.0)


@pytest.fixture(autouse=True)
def _no_waits(monkeypatch):
    monkeypatch.setattr("retinue.actors.llm.retrying._FIRST_WAIT", 0.001)


def endpoint(server, **options):
    options = {"model": "m", "base_url": server.url, "api_key": KEY, "proxies": False, "retries": 0} | options
    return Endpoint(**options)


async def complete(server, request=HELLO, **options):
    with trio.fail_after(20):
        async with endpoint(server, **options) as one:
            return await one.complete(request)


async def stream(server, request=HELLO, **options):
    """The texts of the stream's events, and what it ended with."""
    texts = []
    with trio.fail_after(20):
        async with endpoint(server, **options) as one, aclosing(one.stream(request)) as events:
            try:
                async for item in events:
                    if isinstance(item, llm.TextDelta):
                        texts.append(item.text)
                    last = item
            except llm.ModelError as error:
                return texts, error
    return texts, last.completion


async def test_an_answer_that_comes_byte_by_byte_is_the_same():
    data = HEAD + sse("Grüße, ") + sse("世界 😀") + STOP + USAGE + DONE
    async with told([data], [data[n : n + 1] for n in range(len(data))]) as server:
        at_once, slowly = await stream(server), await stream(server)
    assert slowly == at_once
    assert at_once[1].text == "Grüße, 世界 😀"
    assert at_once[1].usage.total_tokens == 8


async def test_a_character_cut_by_a_pause_is_one_character():
    data = sse("ü")
    cut = data.index("ü".encode()) + 1
    async with told([HEAD, data[:cut], 0.02, data[cut:], STOP, DONE]) as server:
        assert (await stream(server))[0] == ["ü"]


@pytest.mark.parametrize("end", [[], [HALF_CLOSE, STALL], [RESET]], ids=["closed", "half-closed", "reset"])
async def test_an_answer_that_ends_before_the_model_is_finished_is_a_typed_error(end):
    async with told([HEAD + sse("Hel"), 0.02, *end]) as server:
        texts, error = await stream(server)
        with pytest.raises(llm.StreamTruncated) as caught:
            await complete(server)
    assert texts == ["Hel"]
    assert type(error) is llm.ModelInterrupted
    assert isinstance(error.__cause__, llm.StreamTruncated)
    assert error.partial.text == caught.value.partial.text == "Hel"


@pytest.mark.parametrize("end", [[], [HALF_CLOSE, STALL], [DONE, HALF_CLOSE, STALL], [0.02, RESET], [DONE, STALL]])
async def test_once_the_model_is_finished_it_does_not_matter_how_the_connection_ends(end):
    async with told([HEAD + sse("Hello") + STOP, *end]) as server:
        assert (await complete(server)).text == "Hello"


@pytest.mark.parametrize(
    "start", [[], [RESET], [HALF_CLOSE], [HEAD], [HEAD, RESET], [HEAD, HALF_CLOSE], [b"HTT"], [b"\x00\xff garbage\r\n\r\n"]]
)
@pytest.mark.parametrize("how", [complete, stream])
async def test_a_connection_that_breaks_before_the_first_token_is_tried_again(start, how):
    async with told(start, GOOD) as server:
        answer = await how(server, retries=AT_ONCE)
    assert (answer if how is complete else answer[1]).text == "Hello"
    assert len(server.asked) == 2
    assert server.asked[0].body == server.asked[1].body


async def test_nothing_is_tried_again_after_the_first_piece():
    async with told([HEAD + sse("Hel"), RESET], GOOD) as server:
        texts, error = await stream(server, retries=AT_ONCE)
    assert (texts, type(error)) == (["Hel"], llm.ModelInterrupted)
    assert len(server.asked) == 1


async def test_a_plain_request_is_tried_again_also_when_its_answer_broke_in_the_middle():
    async with told([HEAD + sse("Hel"), RESET], [HEAD + sse("Hel")], GOOD) as server:
        assert (await complete(server, retries=AT_ONCE)).text == "Hello"


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        (head(kind="text/html") + b"<!DOCTYPE html><html>log in</html>", llm.WrongEndpoint, "web page"),
        (HEAD + b"<html>log in</html>", llm.WrongEndpoint, "web page"),
        (head(302, location="https://elsewhere.invalid/"), llm.WrongEndpoint, "address"),
        (head(307, location="https://elsewhere.invalid/"), llm.WrongEndpoint, "address"),
        (head(404, "text/html") + b"<html>nothing here</html>", llm.WrongEndpoint, "/v1"),
        (head(502, "text/html") + b"<html>bad gateway</html>", llm.ModelFailed, "502"),
        (HEAD + event("{broken") + sse("x") + STOP, llm.BadStreamEvent, "{broken"),
        (HEAD + event("[1, 2]") + STOP, llm.BadStreamEvent, r"\[1, 2\]"),
        (HEAD + STOP + DONE, llm.EmptyReply, "finish reason"),
        (HEAD + DONE, llm.BadReply, None),
        (HEAD, llm.BadReply, None),
        (head(kind="application/json"), llm.BadReply, "nothing"),
        (refusal(400, "too long", code="context_length_exceeded"), llm.ContextOverflow, "too long"),
        (refusal(401), llm.KeyRefused, "OPENAI_API_KEY"),
        (refusal(402), llm.QuotaExceeded, None),
        (refusal(429, code="insufficient_quota"), llm.QuotaExceeded, None),
        (refusal(429), llm.RateLimited, None),
        (refusal(400), llm.ModelRefused, "no"),
    ],
)
async def test_each_answer_that_is_none_has_its_error(answer, kind, words):
    async with told([answer]) as server:
        with pytest.raises(kind, match=words) as caught:
            await complete(server)
        texts, error = await stream(server)
    assert type(caught.value) is type(error)
    assert texts == []
    assert server.url in str(error)
    assert str(error).isprintable()


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 413, 422])
async def test_what_cannot_pass_is_not_tried_again(status):
    async with told([refusal(status, "rate limit, timeout, try again")]) as server:
        with pytest.raises(llm.ModelRefused):
            await complete(server, retries=AT_ONCE)
    assert len(server.asked) == 1


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 529])
async def test_what_may_pass_is(status):
    async with told([refusal(status)], GOOD) as server:
        assert (await complete(server, retries=AT_ONCE)).text == "Hello"


async def test_a_quota_that_is_used_up_is_not_tried_again_although_its_status_is_429():
    async with told([refusal(429, "You exceeded your current quota", code="insufficient_quota", kind="insufficient_quota")]) as server:
        with pytest.raises(llm.QuotaExceeded):
            await complete(server, retries=AT_ONCE)
    assert len(server.asked) == 1


@pytest.mark.parametrize(("code", "again"), [(429, True), (502, True), ("503", True), (400, False), (401, False)])
async def test_an_error_inside_a_successful_answer_counts_as_the_status_that_it_names(code, again):
    inside = {"error": {"code": code, "message": "provider returned error"}}
    for answer in (HEAD + event(inside | {"choices": None}), head(kind="application/json") + json.dumps(inside).encode()):
        async with told([answer], GOOD) as server:
            if again:
                assert (await complete(server, retries=AT_ONCE)).text == "Hello"
            else:
                with pytest.raises(llm.ModelRefused) as caught:
                    await complete(server, retries=AT_ONCE)
                assert caught.value.status == code
        assert len(server.asked) == 1 + again


async def test_an_optional_parameter_that_is_refused_is_left_out_from_then_on():
    said = "Unsupported parameter: 'stream_options' is not supported with this model."
    async with told([refusal(400, said, param="stream_options", kind="invalid_request_error")], GOOD) as server, endpoint(server) as one:
        for _ in range(2):
            assert (await one.complete(HELLO)).text == "Hello"
    assert ["stream_options" in asked.json for asked in server.asked] == [True, False, False]


async def test_the_other_field_for_the_token_limit_is_taken_where_one_is_refused():
    said = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
    request = llm.Complete.of("hello", max_tokens=5)
    async with told([refusal(400, said, param="max_tokens", code="unsupported_parameter")], GOOD) as server, endpoint(server) as one:
        for _ in range(2):
            assert (await one.complete(request)).text == "Hello"
    assert [asked.json.get("max_completion_tokens") for asked in server.asked] == [None, 5, 5]


async def test_a_parameter_that_is_refused_again_and_again_is_an_error():
    said = "Unsupported parameter: 'stream_options' is not supported with this model."
    async with told([refusal(400, said, param="stream_options")]) as server:
        with pytest.raises(llm.ModelRefused):
            await complete(server, retries=AT_ONCE)
    assert len(server.asked) == 2


async def test_a_server_that_answers_plainly_to_a_request_for_a_stream_is_understood():
    async with told([whole("Hello", usage={"prompt_tokens": 5, "completion_tokens": 3})]) as server:
        texts, answer = await stream(server)
    assert texts == ["Hello"]
    assert answer.usage.total_tokens == 8


async def test_connections_are_used_again_after_a_stream():
    script = [chunked_head() + chunk(sse("Hello") + STOP + DONE), b"0\r\n\r\n", KEEP]
    async with told(script) as server, endpoint(server) as one:
        for _ in range(3):
            assert (await one.complete(HELLO)).text == "Hello"
    assert (len(server.asked), server.connections) == (3, 1)


async def test_a_connection_that_the_server_closed_meanwhile_is_not_used_again():
    script = [chunked_head() + chunk(sse("Hello") + STOP + DONE) + b"0\r\n\r\n"]
    async with told(script) as server, endpoint(server) as one:
        for _ in range(3):
            assert (await one.complete(HELLO)).text == "Hello"
            await trio.sleep(0.02)
    assert server.connections == 3


async def test_whoever_leaves_a_stream_early_ends_it_at_the_server():
    async with told([HEAD + sse("Hel"), STALL]) as server, endpoint(server) as one:
        async with aclosing(one.stream(HELLO)) as events:
            async for _event in events:
                break
        with trio.fail_after(10):
            while not server.left:
                await trio.sleep(0.005)


@pytest.mark.parametrize("script", [[STALL], [HEAD, STALL], [HEAD + sse("Hel"), STALL], [HEAD + b"data: {", STALL], [head(500), STALL]])
@pytest.mark.parametrize("how", [complete, stream])
async def test_a_request_is_cancelled_at_whatever_it_waits_for(script, how):
    async with told(script) as server, trio.open_nursery() as nursery:
        nursery.start_soon(how, server)
        await server.arrived.acquire()
        await trio.sleep(0.02)
        began = trio.current_time()
        nursery.cancel_scope.cancel()
    assert trio.current_time() - began < 0.5  # 0.1 s are promised, on a machine that is not busy


async def test_many_streams_at_once_do_not_bleed_into_each_other():
    def echo(asked):
        word = asked.json["messages"][0]["content"]
        return [HEAD, *[piece for letter in word for piece in (sse(letter), 0.001)], STOP, DONE]

    answers = {}
    async with told(echo) as server, endpoint(server) as one:

        async def ask(word):
            async with aclosing(one.stream(llm.Complete.of(word))) as events:
                answers[word] = "".join([item.text async for item in events if isinstance(item, llm.TextDelta)])

        async with trio.open_nursery() as nursery:
            for number in range(60):
                nursery.start_soon(ask, f"word-{number}")
    assert answers == {f"word-{number}": f"word-{number}" for number in range(60)}


@pytest.mark.parametrize("piece", [sse("x" * 50), b": comment\n\n", b"data: " + b"x" * 50])
async def test_an_answer_without_end_is_cut_off(monkeypatch, piece):
    monkeypatch.setattr(reading_module, "SseDecoder", partial(SseDecoder, longest_event=400, longest_stream=1000))
    async with told([HEAD + piece * 500, STALL]) as server:
        with pytest.raises(llm.BadReply):
            await complete(server)


async def test_a_stream_may_be_longer_than_a_plain_answer():
    padded = event({"choices": [{"index": 0, "delta": {"content": "x"}}], "obfuscation": "y" * 100_000})
    async with told([HEAD, *[padded] * 200, STOP, DONE]) as server:
        assert (await complete(server)).text == "x" * 200


async def test_a_head_without_end_is_a_broken_connection():
    async with told([b"HTTP/1.1 200 OK\r\n" + b"x-padding: y\r\n" * 20_000, STALL]) as server:
        with pytest.raises(llm.ModelUnreachable):
            await complete(server)


async def test_a_key_that_comes_back_in_an_event_is_in_no_error():
    async with told([HEAD + event({"error": {"code": 400, "message": f"bad key {KEY}"}})], [HEAD + event(f"{{bad {KEY}")]) as server:
        for _ in range(2):
            texts, error = await stream(server)
            assert isinstance(error, llm.ModelError)
            assert KEY not in f"{error} {error!r} {vars(error)} {error.__cause__} {texts}"


@pytest.mark.parametrize(("letter", "length"), [("x", 180), ("x", 190), ("x", 199), ("x", 290), (" ", 990), (" ", 3_990), (" ", 65_530)])
async def test_no_half_of_a_key_is_left_where_a_text_is_cut(letter, length):
    before = f"x{letter * length}"
    refused = b"HTTP/1.1 400 Bad\r\ncontent-type: text/plain\r\nconnection: close\r\n\r\n" + f"{before}{KEY} is no key".encode()
    async with told([HEAD + b"data: " + before.encode() + KEY.encode() + b" is no key\n\n"], [refused]) as server:
        for kind in (llm.BadStreamEvent, llm.ModelRefused):
            _, error = await stream(server)
            assert type(error) is kind
            assert KEY[:4] not in str(error)


async def test_a_server_that_does_not_speak_tls_is_a_typed_error():
    async with told(GOOD) as server:
        with pytest.raises((llm.ModelUnreachable, llm.ModelTimeout)):
            await complete(server, base_url=server.url.replace("http:", "https:"), timeouts=llm.Timeouts(connect=0.3))


async def test_a_name_that_does_not_exist_is_a_typed_error():
    with pytest.raises(llm.ModelUnreachable, match="is it running"):
        async with Endpoint(model="m", base_url="http://no-such-host.invalid/v1", proxies=False, retries=0) as one:
            await one.complete(HELLO)


async def test_a_refused_connection_is_tried_again():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        attempts = []
        async with Endpoint(model="m", base_url=f"http://127.0.0.1:{port}/v1", proxies=False, retries=AT_ONCE) as one:
            with pytest.raises(llm.ModelUnreachable):
                async with aclosing(one.stream(HELLO)) as events:
                    async for item in events:
                        attempts.append(item.attempt)
    assert attempts == [2, 3]


@pytest.fixture
def authority(monkeypatch, tmp_path):
    found = trustme.CA()
    found.cert_pem.write_to_path(tmp_path / "ca.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    monkeypatch.setenv("NO_PROXY", "localhost")
    return found


def server_side(authority):
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(context)
    return context


async def test_a_stream_over_tls_is_the_same(authority):
    async with told([HEAD, *[sse(letter) for letter in "Grüße"], STOP, USAGE, DONE], tls=server_side(authority)) as server:
        texts, answer = await stream(server, proxies=True)
    assert texts == list("Grüße")
    assert answer.usage.total_tokens == 8


async def test_a_stream_over_tls_that_is_left_or_cancelled_ends_at_the_server(authority):
    async with told([HEAD + sse("Hel"), STALL], tls=server_side(authority)) as server, endpoint(server, proxies=True) as one:
        async with aclosing(one.stream(HELLO)) as events:
            async for _event in events:
                break
        with trio.move_on_after(1):
            await one.complete(HELLO)
        with trio.fail_after(10):
            while server.left < 2:
                await trio.sleep(0.005)


@pytest.mark.usefixtures("authority")
async def test_a_certificate_that_is_not_trusted_is_not_tried_again():
    async with told(GOOD, tls=server_side(trustme.CA())) as server:
        with pytest.raises(llm.ModelUnreachable, match=r"(?i)certificate"):
            await complete(server, proxies=True, retries=AT_ONCE)
    assert server.connections == 1


async def test_no_log_line_of_a_retry_has_the_key(caplog):
    caplog.set_level("DEBUG")
    async with told([refusal(503, f"your key {KEY} is busy")], [HEAD + event({"error": {"code": 502, "message": KEY}})], GOOD) as server:
        assert (await complete(server, retries=AT_ONCE)).text == "Hello"
    ours = [record.getMessage() for record in caplog.records if record.name.startswith("retinue")]
    assert len([line for line in ours if "attempt" in line]) == 2
    assert KEY not in "".join(ours)


def kept(text, **headers):
    """A whole answer, after which the connection is kept."""
    body = sse(text) + STOP + DONE
    fields = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {len(body)}\r\n{fields}\r\n".encode() + body


async def test_what_comes_after_an_answer_is_nobodys_answer():
    async with told([kept("one") + kept("of somebody else"), KEEP], [kept("two"), KEEP]) as server, endpoint(server) as one:
        assert [(await one.complete(HELLO)).text for _ in range(3)] == ["one", "two", "two"]
        assert server.connections == 2  # the others are kept


async def test_what_comes_after_a_refusal_is_not_the_answer_to_the_retry():
    refused = b"HTTP/1.1 503 Busy\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"
    async with told([refused + kept("of somebody else"), KEEP], [kept("two"), KEEP]) as server, endpoint(server, retries=1) as one:
        assert (await one.complete(HELLO)).text == "two"


@pytest.mark.parametrize("end", [[], [RESET]])
async def test_a_kept_connection_that_the_server_has_closed_is_no_failure(end):
    async with told([kept("one"), KEEP], end, [kept("two"), KEEP]) as server, endpoint(server, retries=0) as one:
        assert [(await one.complete(HELLO)).text for _ in range(2)] == ["one", "two"]
        assert len(server.asked) == 3


@pytest.mark.parametrize("end", [[], [RESET]])
async def test_a_new_connection_that_is_closed_is_one(end):
    async with told([kept("one"), KEEP], end) as server, endpoint(server, retries=0) as one:
        assert (await one.complete(HELLO)).text == "one"
        with pytest.raises(llm.ModelUnreachable):
            await one.complete(HELLO)
        assert len(server.asked) == 3  # once more over a new connection, and no more


async def test_no_cookie_is_kept():
    async with told([kept("one", **{"set-cookie": "user=ada; path=/"}), KEEP]) as server, endpoint(server) as one:
        for _ in range(2):
            await one.complete(HELLO)
    assert all("cookie" not in asked.headers for asked in server.asked)


async def test_the_key_is_not_to_be_found_from_a_broken_connections_error():
    async with told([]) as server:
        _, error = await stream(server)
    chain = [error]
    while (below := chain[-1].__cause__ or chain[-1].__context__) is not None:
        chain.append(below)
    assert not [one for one in chain if not isinstance(one, llm.ModelError)]


async def test_a_key_that_comes_back_in_another_form_or_place_is_hidden():
    key = "sk-test/+0123456789="
    strange = {"model": f"m {key}", "choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": f"no {key}"}]}
    async with told([HEAD + event(strange) + DONE], [refusal(401, "no: sk-test%2F%2B0123456789%3D")]) as server:
        completion = await complete(server, api_key=key)
        assert (completion.model, completion.finish_reason) == ("m [key]", "no [key]")
        with pytest.raises(llm.KeyRefused, match=r"no: \[key\]"):
            await complete(server, api_key=key)


PROMPT = "What is max_tokens, what 'seed' and what stream_options?"


@pytest.mark.parametrize(
    "refused",
    [
        {"error": {"message": f"unknown model name; you said {PROMPT!r}"}},
        {"detail": [{"type": "extra_forbidden", "loc": ["body", "stop"], "msg": "Extra inputs are not permitted", "input": PROMPT}]},
        {"detail": f"unexpected: {PROMPT}"},
    ],
)
async def test_a_prompt_that_is_quoted_makes_no_endpoint_give_up_a_parameter(refused):
    asked = llm.Complete.of(PROMPT, max_tokens=5, seed=1)
    answer = head(400, "application/json") + json.dumps(refused).encode()
    async with told([answer], GOOD) as server, endpoint(server) as one:
        with pytest.raises(llm.ModelRefused):
            await one.complete(asked)
        await one.complete(asked)
        first, second = [json.loads(request.body) for request in server.asked]
        assert first == second and second["max_tokens"] == 5


async def test_a_parameter_is_left_out_from_now_on_only_where_that_has_helped():
    no = refusal(400, "Unsupported parameter: 'seed'", param="seed")
    async with told([no], [no], GOOD, [no], GOOD, GOOD) as server, endpoint(server) as one:
        asked = llm.Complete.of("hello", seed=1)
        with pytest.raises(llm.ModelRefused):
            await one.complete(asked)
        for _ in range(3):
            await one.complete(asked)
        assert ["seed" in json.loads(request.body) for request in server.asked] == [True, False, True, True, False, False]


async def test_who_gives_up_during_a_handshake_leaves_no_socket_open():
    listener = (await trio.open_tcp_listeners(0, host="127.0.0.1"))[0]
    streams = []
    async with listener, Endpoint(model="m", base_url=f"https://127.0.0.1:{listener.socket.getsockname()[1]}/v1", proxies=False) as one:
        gc.disable()
        try:
            for _ in range(5):
                with trio.move_on_after(0.2):
                    await one.complete(HELLO)
                streams.append(await listener.accept())
            with trio.fail_after(5):
                for stream in streams:
                    while await stream.receive_some():  # what it has sent, and then the end
                        pass
                    await stream.aclose()
        finally:
            gc.enable()
