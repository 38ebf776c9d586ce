"""Spans over the gateway: a request's `traceparent` is the parent of what it asks."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, TraceState

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


class Noting(rt.Actor):
    """Notes the state of its span's trace."""

    def __init__(self, noted: list[str | None]) -> None:
        self.noted = noted

    @rt.handler
    def price(self, message: Price) -> int:
        self.noted.append(self.ctx.span.tracestate)
        return 1


STATES = {
    "one": (["vendor=1"], "vendor=1"),
    "two in one header": (["vendor=1, other@sys=a b"], "vendor=1,other@sys=a b"),
    "two headers": (["vendor=1", "other=2"], "vendor=1,other=2"),
    "malformed": (["vendor"], None),
    "one of two malformed": (["vendor=1", "Other=2"], None),
    "not ASCII": (["vendor=\u00e9"], None),
    "too long": (["a=" + "x" * 255, "b=" + "x" * 255], None),
    "much too long": (["a=" + "x" * 5_000], None),
    "none": ([], None),
}


@pytest.mark.parametrize("name", list(STATES))
async def test_the_state_of_the_callers_trace_comes_with_it_or_is_left_out_alone(name: str, tmp_path: Path) -> None:
    given, expected = STATES[name]
    noted: list[str | None] = []
    async with open_shop(tmp_path, system=TRACED) as shop:
        await shop.system.spawn(Noting, noted, name="noting")
        headers = [(b"traceparent", PARENT.encode()), *((b"tracestate", value.encode()) for value in given)]
        for more in (headers, headers[1:]):  # without a parent, a state belongs to nothing
            answer = await shop.client.post("/v1/ask", json=call("Price", "/user/noting", item="tea"), headers=more)
            assert answer.status_code == 200
    first, second = read_spans(tmp_path)
    assert noted == [expected, None] and first.parent == "cd" * 8 and second.parent is None


async def test_a_client_sends_the_state_of_its_trace_unless_that_is_too_long(tmp_path: Path) -> None:
    noted: list[str | None] = []
    async with open_shop(tmp_path, system=TRACED) as shop:
        await shop.system.spawn(Noting, noted, name="noting")
        async with rt.connect(shop.url, token=shop.token) as client:
            for size in (10, 200):
                state = TraceState([(f"v{n}", "x" * size) for n in range(3)])
                with trace.use_span(NonRecordingSpan(SpanContext(5, 6, is_remote=False, trace_flags=TraceFlags(1), trace_state=state))):
                    assert await client.ref("/user/noting").ask(Price("tea")) == 1
    assert noted == [",".join(f"v{n}={'x' * 10}" for n in range(3)), None]
    assert [span.parent for span in read_spans(tmp_path)] == [f"{6:016x}"] * 2
