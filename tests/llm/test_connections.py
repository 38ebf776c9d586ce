"""One client a request under way: many at once use many connections, one after the other uses one, and none is kept for ever."""

from __future__ import annotations

import json

import httpx
import pytest
import trio

from retinue import llm
from retinue.actors.llm import prices
from retinue.actors.llm.connections import IDLE_SECONDS, Connections

HELLO = llm.Complete.of("hello")
BODY = {
    "model": "gpt-4.1",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 1_000, "completion_tokens": 100, "total_tokens": 1_100},
}


class Transport(httpx.AsyncBaseTransport):
    """Answers every request after a moment, and counts how often it is closed."""

    def __init__(self, seconds=0.0):
        self.seconds = seconds
        self.closed = 0

    async def handle_async_request(self, request):
        await trio.sleep(self.seconds)
        return httpx.Response(
            200, headers={"content-type": "application/json"}, stream=httpx.ByteStream(json.dumps(BODY).encode()), request=request
        )

    async def aclose(self):
        self.closed += 1


def connections(transport=None, most_idle=8):
    return Connections({}, connect=10.0, proxies=False, secure=False, most_idle=most_idle, transport=transport)


async def test_the_client_that_was_used_last_is_used_next():
    pool = connections()
    first, second = pool.take(), pool.take()
    assert first is not second
    await pool.give_back(first)
    await pool.give_back(second)
    assert pool.take() is second
    assert pool.take() is first
    await pool.aclose()
    assert first.is_closed and second.is_closed


async def test_no_more_are_kept_than_wished():
    pool = connections(most_idle=2)
    taken = [pool.take() for _ in range(5)]
    for client in taken:
        await pool.give_back(client)
    assert [client.is_closed for client in taken] == [False, False, True, True, True]
    await pool.aclose()


async def test_those_that_nobody_needs_are_closed_after_a_while(autojump_clock):
    pool = connections()
    many = [pool.take() for _ in range(4)]
    for client in many:
        await pool.give_back(client)
    for _ in range(4):
        await trio.sleep(IDLE_SECONDS / 3)
        await pool.give_back(pool.take())
    assert [client.is_closed for client in many] == [True, True, True, False]
    await pool.aclose()


async def test_one_that_comes_back_after_the_end_is_closed():
    pool = connections()
    client = pool.take()
    await pool.aclose()
    assert client.is_closed  # also in use
    await pool.give_back(client)
    assert pool._idle == []


async def test_requests_at_once_have_a_client_each_and_requests_in_a_row_share_one(autojump_clock):
    transport = Transport(seconds=1)
    async with llm.Endpoint(model="m", base_url="http://127.0.0.1:9/v1", transport=transport, connections=50) as endpoint:
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            for _ in range(40):
                nursery.start_soon(endpoint.complete, HELLO)
        assert trio.current_time() - began == pytest.approx(1)
        assert (len(endpoint._connections._idle), len(endpoint._connections._taken)) == (40, 0)
        await endpoint.complete(HELLO)
        assert len(endpoint._connections._idle) == 40
    assert transport.closed == 40


async def test_a_request_that_is_given_up_gives_its_client_back(autojump_clock):
    async with llm.Endpoint(model="m", base_url="http://127.0.0.1:9/v1", transport=Transport(seconds=100)) as endpoint:
        with trio.move_on_after(1):
            await endpoint.complete(HELLO)
        assert (len(endpoint._connections._idle), len(endpoint._connections._taken)) == (1, 0)


async def test_an_answer_says_what_it_has_cost_where_the_price_is_known():
    pytest.importorskip("genai_prices")
    async with llm.Endpoint(model="gpt-4.1", base_url="https://api.openai.com/v1", transport=Transport(), proxies=False) as endpoint:
        usage = (await endpoint.complete(HELLO)).usage
    assert usage.cost_micro_usd == 1_000 * 2 + 100 * 8


@pytest.mark.parametrize("address", ["https://models.example/v1", "http://127.0.0.1:9/v1", "http://[::1]:9/v1"])
async def test_an_answer_of_somebody_else_has_no_known_price(address):
    async with llm.Endpoint(model="gpt-4.1", base_url=address, transport=Transport(), proxies=False) as endpoint:
        assert (await endpoint.complete(HELLO)).usage.cost_micro_usd is None


async def test_where_nothing_can_cost_no_list_is_loaded(monkeypatch):
    monkeypatch.setattr(prices, "_is_installed", lambda: pytest.fail("the list was looked for"))
    async with llm.Endpoint(model="gpt-4.1", base_url="http://localhost:9/v1", transport=Transport(), proxies=False) as endpoint:
        assert (await endpoint.complete(HELLO)).text == "hi"
