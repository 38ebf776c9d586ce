"""The client against a real server on the loopback address."""

from __future__ import annotations

import gzip
import json
import socket
import threading
import traceback

import pytest
import trio

from openai_loopback import completion, loopback
from retinue.actors.llm import reading as reading_module
from retinue.actors.llm.endpoint import Endpoint, Timeouts
from retinue.actors.llm.errors import (
    BadEndpoint,
    BadReply,
    KeyRefused,
    ModelError,
    ModelFailed,
    ModelRefused,
    ModelTimeout,
    ModelUnreachable,
    RateLimited,
    StreamTruncated,
    WrongEndpoint,
)
from retinue.actors.llm.messages import ChatMessage, Complete, Completion
from retinue.actors.llm.usage import Usage

KEY = "sk-test-0123456789abcdef"
JSON = {"content-type": "application/json"}


async def ask(server, request=None, **options):
    options = {"model": "m", "base_url": server.url, "api_key": KEY, "retries": 0, "proxies": False} | options
    async with Endpoint(**options) as endpoint:
        return await endpoint.complete(request or Complete.of("hello"))


async def test_a_completion_carries_text_model_usage_and_finish_reason():
    with loopback(completion("Grüße, 世界")) as server:
        assert await ask(server) == Completion("Grüße, 世界", "served", Usage(1, 7, 3), "stop")


async def test_the_request_holds_what_was_asked_and_nothing_that_was_not():
    request = Complete.of("hello", system="Be brief.", max_tokens=5, temperature=0, stop=("END",), seed=3)
    with loopback(completion("x")) as server:
        await ask(server, request)
        await ask(server, Complete((ChatMessage("user", "a"), ChatMessage("assistant", "b"), ChatMessage("user", "c"))))
    full, plain = server.asked
    assert full.path == "/v1/chat/completions"
    assert full.headers["authorization"] == f"Bearer {KEY}"
    assert full.json == {
        "model": "m",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hello"}],
        "max_tokens": 5,
        "temperature": 0,
        "stop": ["END"],
        "seed": 3,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    assert plain.json.keys() == {"model", "messages", "stream", "stream_options"}
    assert [entry["content"] for entry in plain.json["messages"]] == ["a", "b", "c"]


async def test_the_token_limit_goes_into_the_field_that_the_endpoint_takes():
    with loopback(completion("x")) as server:
        await ask(server, Complete.of("hello", max_tokens=5), limit_field="max_completion_tokens")
    assert server.asked[0].json["max_completion_tokens"] == 5
    assert "max_tokens" not in server.asked[0].json
    for url, field in (("https://api.openai.com/v1", "max_completion_tokens"), ("https://openai.example/v1", "max_tokens")):
        assert Endpoint(model="m", base_url=url).profile.limit_field == field


async def test_without_a_key_no_authorization_is_sent():
    with loopback(completion("x")) as server:
        await ask(server, api_key=None)
    assert "authorization" not in server.asked[0].headers


async def test_a_prompt_with_a_lone_surrogate_is_sent_and_one_in_the_answer_is_replaced():
    body = b'{"choices": [{"message": {"content": "a\\ud800b \\ud83d\\ude00"}}]}'
    with loopback((200, JSON, body)) as server:
        answer = await ask(server, Complete.of("x\udcff"))
    assert answer.text == "a\ufffdb 😀"
    assert server.asked[0].json["messages"][0]["content"] == "x\ufffd"


@pytest.mark.parametrize("encoding", ["gzip", "gzip, gzip", "GZIP", "br"])
async def test_a_compressed_answer_is_refused_unread(encoding):
    status, headers, body = completion("small")
    with loopback((status, headers | {"content-encoding": encoding}, gzip.compress(gzip.compress(body)))) as server:
        with pytest.raises(BadReply, match="although none was asked for"):
            await ask(server)
    assert server.asked[0].headers["accept-encoding"] == "identity"


async def test_an_answer_that_says_it_is_not_compressed_is_read():
    status, headers, body = completion("small")
    with loopback((status, headers | {"content-encoding": "identity"}, body)) as server:
        assert (await ask(server)).text == "small"


async def test_a_failure_that_is_compressed_keeps_its_kind():
    with loopback((401, JSON | {"content-encoding": "gzip"}, gzip.compress(b"{}"))) as server:
        with pytest.raises(KeyRefused):
            await ask(server)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("http_proxy", "::bad", "proxy settings"),
        ("ALL_PROXY", "foo://user:hunter2@x", "proxy settings"),
        ("SSL_CERT_FILE", "/no/such/file", "certificates cannot be loaded"),
        ("SSL_CERT_FILE", __file__, "certificates cannot be loaded"),
    ],
)
def test_settings_of_the_machine_that_cannot_be_used_are_a_bad_endpoint(monkeypatch, name, value, expected):
    monkeypatch.setenv(name, value)
    with pytest.raises(BadEndpoint, match=expected) as caught:
        Endpoint(model="m", base_url="https://127.0.0.1:9/v1", api_key=KEY)
    assert "hunter2" not in str(caught.value)


async def test_missing_usage_model_and_finish_reason_are_not_invented():
    with loopback((200, JSON, b'{"choices": [{"message": {"content": "hi"}}]}')) as server:
        assert await ask(server) == Completion("hi", "m")


async def test_content_in_parts_is_joined():
    parts = [{"type": "text", "text": "one "}, {"type": "image_url"}, {"type": "text", "text": "two"}]
    with loopback(completion(parts)) as server:
        assert (await ask(server)).text == "one two"


@pytest.mark.parametrize(
    ("body", "content_type", "expected"),
    [
        (b"<!DOCTYPE html><html>log in</html>", "text/html", "web page"),
        (b"  <html>log in</html>", "", "web page"),
        (b'{"choices": [', "application/json", "no JSON"),
        (b"", "application/json", "with nothing"),
        (b"\xff\xfe\x00", "application/json", "without a finish reason"),
        (b"[" * 100_000, "application/json", "no JSON"),
        (b"[1, 2]", "application/json", "JSON list"),
        (b"{}", "application/json", "no chat completion"),
        (b'{"choices": []}', "application/json", "no chat completion"),
        (b'{"choices": {}}', "application/json", "no chat completion"),
        (b'{"choices": [null]}', "application/json", "no chat completion"),
        (b'{"choices": [{"message": "hi"}]}', "application/json", "no chat completion"),
        (b'{"choices": [{"message": {"content": null}, "finish_reason": "length"}]}', "application/json", "larger max_tokens"),
        (b'{"choices": [{"message": {"content": " \\n"}}]}', "application/json", "without text"),
        (b'{"choices": [{"message": {"content": 5}}], "usage": [], "model": 3}', "application/json", "without text"),
        (b'{"error": {"message": "out of memory"}}', "application/json", "out of memory"),
    ],
)
async def test_an_answer_that_is_no_completion_is_a_bad_reply_that_says_what_it_is(body, content_type, expected):
    with loopback((200, {"content-type": content_type}, body)) as server:
        with pytest.raises(BadReply, match=expected) as caught:
            await ask(server)
    assert server.url in str(caught.value)
    assert "'m'" in str(caught.value)


async def test_an_answer_without_end_is_cut_off(monkeypatch):
    monkeypatch.setattr(reading_module, "LONGEST_BODY", 1000)
    with loopback((200, JSON, b"{" + b" " * 5000)) as server:
        with pytest.raises(BadReply, match="more than 1,000 bytes"):
            await ask(server)


@pytest.mark.parametrize(
    ("status", "kind", "expected"),
    [
        (400, ModelRefused, "refused the request"),
        (401, KeyRefused, "OPENAI_API_KEY"),
        (403, KeyRefused, "OPENAI_API_KEY"),
        (404, ModelRefused, "the model's name"),
        (422, ModelRefused, "refused the request"),
        (429, RateLimited, "wait 7 s"),
        (500, ModelFailed, "try again later"),
        (503, ModelFailed, "try again later"),
        (302, WrongEndpoint, "final address"),
    ],
)
async def test_each_status_has_its_error(status, kind, expected):
    body = json.dumps({"error": {"message": "no, because"}}).encode()
    with loopback((status, JSON | {"retry-after": "7", "location": "http://elsewhere.invalid/"}, body)) as server:
        with pytest.raises(kind, match=expected) as caught:
            await ask(server)
    assert type(caught.value) is kind
    assert caught.value.status == status
    assert len(server.asked) == 1  # no retry behind the caller's back, and no redirect followed
    if status >= 400:
        assert "no, because" in str(caught.value)
    if isinstance(caught.value, RateLimited):
        assert caught.value.retry_after == 7


@pytest.mark.parametrize(
    "body",
    [b'{"error": "flat words"}', b'{"message": "flat words"}', b'{"detail": [{"msg": "flat words"}]}', b"flat words"],
)
async def test_the_endpoints_own_words_are_quoted_whatever_shape_they_come_in(body):
    with loopback((400, {}, body)) as server:
        with pytest.raises(ModelRefused, match="flat words"):
            await ask(server)


async def test_quoted_words_are_one_printable_line_of_bounded_length():
    with loopback((500, JSON, json.dumps({"error": {"message": "\x1b[31mred\r\n" + "x" * 5000}}).encode())) as server:
        with pytest.raises(ModelFailed) as caught:
            await ask(server)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize("status", [200, 400, 401, 500])
@pytest.mark.parametrize("padding", [0, 280])
async def test_a_key_that_the_endpoint_sends_back_is_in_no_error(status, padding):
    said = "x" * padding + f" your key {KEY} is bad"
    with loopback((status, JSON, json.dumps({"error": {"message": said}}).encode())) as server:
        with pytest.raises(ModelError) as caught:
            await ask(server)
    whole = "".join(traceback.format_exception(caught.value)) + repr(caught.value) + repr(caught.value.__dict__)
    assert KEY[:12] not in whole


async def test_the_key_shows_in_no_repr():
    async with Endpoint(model="m", base_url="http://127.0.0.1:9/v1", api_key=KEY) as endpoint:
        shown = repr(endpoint) + repr(vars(endpoint)) + repr(endpoint._connections.take().headers) + f"{endpoint._key} {endpoint._key!r}"
    assert KEY not in shown
    assert "127.0.0.1:9" in shown


@pytest.mark.parametrize("key", ["", "  ", "two words", "line\nbreak", "schlüssel"])
def test_a_key_that_no_header_can_hold_is_refused_without_being_quoted(key):
    with pytest.raises(BadEndpoint) as caught:
        Endpoint(model="m", base_url="http://127.0.0.1:9/v1", api_key=key)
    assert not key.strip() or key not in str(caught.value)


async def test_white_space_around_a_key_is_dropped():
    with loopback(completion("x")) as server:
        await ask(server, api_key=f" {KEY}\n")
    assert server.asked[0].headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize(
    "url",
    [
        "",
        "api.example.com/v1",
        "ftp://example.com",
        "http://",
        "http://[::1",
        "http://h:port/v1",
        "https://user:pw@h/v1",
        "https://h/v1?key=pw",
    ],
)
def test_an_address_that_cannot_be_used_is_refused_when_it_is_given(url):
    with pytest.raises(BadEndpoint) as caught:
        Endpoint(model="m", base_url=url)
    assert "pw" not in str(caught.value)


@pytest.mark.parametrize("url", [None, 5])
def test_an_address_that_is_no_text_is_refused(url):
    with pytest.raises(BadEndpoint):
        Endpoint(model="m", base_url=url)


def test_an_empty_model_name_is_refused():
    with pytest.raises(BadEndpoint, match="RETINUE_MODEL"):
        Endpoint(model=" ", base_url="http://127.0.0.1:9/v1")


async def test_a_slash_at_the_end_of_the_address_does_no_harm():
    with loopback(completion("x")) as server:
        await ask(server, base_url=server.url + "/")
    assert server.asked[0].path == "/v1/chat/completions"


async def test_nobody_listening_is_unreachable():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{unused.getsockname()[1]}/v1"
        async with Endpoint(model="m", base_url=address, proxies=False, retries=0) as endpoint:
            with pytest.raises(ModelUnreachable, match="is it running"):
                await endpoint.complete(Complete.of("hello"))


async def test_a_connection_that_breaks_is_unreachable():
    with loopback(lambda _asked: None) as server:
        with pytest.raises(ModelUnreachable, match="broke"):
            await ask(server)


async def test_an_answer_shorter_than_announced_is_a_broken_connection():
    with loopback((200, JSON | {"content-length": "500", "connection": "close"}, b"{}")) as server:
        with pytest.raises((StreamTruncated, ModelTimeout)):
            await ask(server, timeouts=Timeouts(between_tokens=1))


@pytest.mark.parametrize(
    ("timeouts", "expected"), [(Timeouts(first_token=0.05), "Timeouts.first_token"), (Timeouts(total=0.05), "Timeouts.total")]
)
async def test_each_time_out_is_named(timeouts, expected):
    release = threading.Event()

    def never(_asked):
        release.wait(30)

    with loopback(never) as server:
        try:
            with pytest.raises(ModelTimeout, match=expected):
                await ask(server, timeouts=timeouts)
        finally:
            release.set()


@pytest.mark.parametrize("value", [0, -1, float("nan"), True, "5"])
def test_a_time_out_that_is_none_is_refused(value):
    with pytest.raises(ValueError, match=r"Timeouts\.total"):
        Timeouts(total=value)


async def test_a_cancelled_request_leaves_as_a_cancellation_and_closes_its_connection():
    arrived, release = trio.Event(), threading.Event()
    token = trio.lowlevel.current_trio_token()

    def slow(_asked):
        token.run_sync_soon(arrived.set)
        release.wait(30)
        return completion("x" * 10_000_000)

    with loopback(slow) as server:
        async with Endpoint(model="m", base_url=server.url, proxies=False) as endpoint, trio.open_nursery() as nursery:
            nursery.start_soon(endpoint.complete, Complete.of("hello"))
            await arrived.wait()
            nursery.cancel_scope.cancel()
        release.set()
        assert await trio.to_thread.run_sync(server.hung_up.wait, 30)


async def test_closing_the_client_ends_the_requests_under_way_with_a_typed_error():
    arrived, release = trio.Event(), threading.Event()
    token = trio.lowlevel.current_trio_token()

    def slow(_asked):
        token.run_sync_soon(arrived.set)
        release.wait(30)
        return completion("late")

    with loopback(slow) as server:
        endpoint = Endpoint(model="m", base_url=server.url, proxies=False)
        caught = []

        async def complete():
            try:
                await endpoint.complete(Complete.of("hello"))
            except ModelUnreachable as error:
                caught.append(error)

        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(complete)
                await arrived.wait()
                await endpoint.aclose()
        finally:
            release.set()
        assert len(caught) == 1
        with pytest.raises(ModelUnreachable, match="closed"):
            await endpoint.complete(Complete.of("hello"))


async def test_proxy_settings_of_the_machine_are_passed_over_where_they_must_not_apply(monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY")
    monkeypatch.delenv("no_proxy")
    with loopback(completion("direct")) as server:
        assert (await ask(server, proxies=False)).text == "direct"
        with pytest.raises(ModelUnreachable):
            await ask(server, proxies=True)
