"""Spans over the gateway: a request's `traceparent` is the parent of what it asks."""

from __future__ import annotations

from pathlib import Path

import pytest
from opentelemetry.sdk.trace import TracerProvider

import retinue as rt
from gateway_shop import Price, call, open_shop
from trace_reading import read_spans

TRACED = {"tracing": rt.Tracing()}
PARENT = f"00-{'ab' * 16}-{'cd' * 8}-01"


async def test_a_request_with_a_traceparent_is_part_of_the_callers_trace(tmp_path: Path) -> None:
    async with open_shop(tmp_path, system=TRACED) as shop:
        for _ in range(2):
            answer = await shop.client.post("/v1/ask", json=call("Price", item="tea"), headers={"traceparent": PARENT})
            assert answer.status_code == 200
        assert (await shop.ask("Price", item="tea")).status_code == 200
    first, second, third = read_spans(tmp_path)
    assert first.trace == second.trace == "ab" * 16 and first.parent == second.parent == "cd" * 8
    assert third.parent is None and third.trace != first.trace  # the connection is the same, and the span of another request is not its


ODD = ["", "nonsense", f"00-{'00' * 16}-{'cd' * 8}-01", f"ff-{'ab' * 16}-{'cd' * 8}-01", PARENT + "-more", "0" * 5_000, "é"]


@pytest.mark.parametrize("value", ODD, ids=["empty", "nonsense", "no trace", "version 255", "longer", "much longer", "not ASCII"])
async def test_what_is_no_traceparent_is_left_alone(value: str, tmp_path: Path) -> None:
    async with open_shop(tmp_path, system=TRACED) as shop:
        answer = await shop.client.post("/v1/ask", json=call("Price", item="tea"), headers={"traceparent": value.encode()})
        assert answer.status_code == 200
    (span,) = read_spans(tmp_path)
    assert span.parent is None


async def test_one_that_says_that_it_is_not_sampled_is_not(tmp_path: Path) -> None:
    async with open_shop(tmp_path, system=TRACED) as shop:
        await shop.client.post("/v1/ask", json=call("Price", item="tea"), headers={"traceparent": PARENT[:-2] + "00"})
    assert read_spans(tmp_path) == []


async def test_a_client_says_which_span_it_asks_in(tmp_path: Path) -> None:
    tracer = TracerProvider(shutdown_on_exit=False).get_tracer("a client")
    async with open_shop(tmp_path, system=TRACED) as shop:
        async with rt.connect(shop.url, token=shop.token) as client:
            with tracer.start_as_current_span("mine") as mine:
                assert await client.ref("/user/shop").ask(Price("tea")) == 3
            assert await client.ref("/user/shop").ask(Price("tea")) == 3
    within, without = read_spans(tmp_path)
    assert within.parent == f"{mine.get_span_context().span_id:016x}" and without.parent is None
