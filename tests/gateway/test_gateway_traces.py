"""Spans over the gateway: a request's `traceparent` is the parent of what it asks."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from opentelemetry.sdk.trace import TracerProvider

import retinue as rt
from gateway_shop import Price, call, open_shop
from trace_reading import one, read_spans

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


@pytest.mark.parametrize(("sample", "flags", "kept"), [(1.0, "00", 1), (0.0, "01", 0)], ids=["unsampled", "sampled"])
async def test_the_system_says_what_is_kept_and_not_the_caller(sample: float, flags: str, kept: int, tmp_path: Path) -> None:
    async with open_shop(tmp_path, system={"tracing": rt.Tracing(sample=sample)}) as shop:
        await shop.client.post("/v1/ask", json=call("Price", item="tea"), headers={"traceparent": PARENT[:-2] + flags})
    assert len(read_spans(tmp_path)) == kept


@rt.message
class Held(rt.Request[str]):
    pass


class Holder(rt.Actor):
    """Tells its span, as it would to a service that it calls, and works on meanwhile."""

    def __init__(self, told: trio.MemorySendChannel[str | None], over: trio.Event) -> None:
        self.told = told
        self.over = over

    @rt.handler
    async def hold(self, message: Held) -> str:
        self.ctx.span.mark({"gen_ai.operation.name": "invoke_agent"})  # as an agent's: it adds up what is below it
        await self.told.send(self.ctx.span.traceparent)
        await self.over.wait()
        return "done"


class Counting(rt.Actor):
    @rt.handler
    def price(self, message: Price) -> int:
        self.ctx.span.count({"gen_ai.usage.input_tokens": 5})
        return 1


async def test_who_knows_an_open_span_writes_below_it_as_a_stranger(tmp_path: Path) -> None:
    told, heard = trio.open_memory_channel[str | None](1)
    over = trio.Event()
    async with open_shop(tmp_path, system=TRACED) as shop:
        holder = await shop.system.spawn(Holder, told, over)
        await shop.system.spawn(Counting, name="counting")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(holder.ask, Held())
            headers = {"traceparent": await heard.receive() or ""}
            answer = await shop.client.post("/v1/ask", json=call("Price", "/user/counting", item="tea"), headers=headers)
            assert answer.status_code == 200
            over.set()
    spans = read_spans(tmp_path)
    held, price = one(spans, "Held"), one(spans, "Price")
    assert price.parent == held.id and price["retinue.parent"] == "remote" and price["gen_ai.usage.input_tokens"] == 5
    assert "gen_ai.usage.input_tokens" not in held.attributes


async def test_a_client_says_which_span_it_asks_in(tmp_path: Path) -> None:
    tracer = TracerProvider(shutdown_on_exit=False).get_tracer("a client")
    async with open_shop(tmp_path, system=TRACED) as shop:
        async with rt.connect(shop.url, token=shop.token) as client:
            with tracer.start_as_current_span("mine") as mine:
                assert await client.ref("/user/shop").ask(Price("tea")) == 3
            assert await client.ref("/user/shop").ask(Price("tea")) == 3
    within, without = read_spans(tmp_path)
    assert within.parent == f"{mine.get_span_context().span_id:016x}" and without.parent is None
