"""One tree across mailboxes, whatever way a message takes."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import trio

import retinue as rt
from quiet_threads import until
from trace_reading import one, read_spans, tree_of


@rt.message
class Work(rt.Request[int]):
    n: int = 0


@rt.message
class Told(rt.Message):
    n: int = 0


@rt.message
class Count(rt.Stream[int]):
    to: int = 2


@rt.message
class By(rt.Request[Any]):
    way: str
    ref: rt.Ref[Any]


WORK = rt.Topic("work", Told)


class Worker(rt.Actor):
    def __init__(self) -> None:
        self.done = trio.Event()

    @rt.handler
    async def work(self, message: Work) -> int:
        await trio.lowlevel.checkpoint()
        return message.n

    @rt.handler
    def told(self, message: Told) -> None:
        self.done.set()

    @rt.handler
    async def count(self, message: Count) -> AsyncIterator[int]:
        for n in range(message.to):
            yield n


class Threaded(rt.Actor, blocking=True):
    @rt.handler
    def work(self, message: Work) -> int:
        return message.n

    @rt.handler
    def by(self, message: By) -> object:
        if message.way == "tell":
            return message.ref.tell(Told()).accepted
        return self.ctx.ask(message.ref, Work(2))


class Front(rt.Actor):
    @rt.handler
    async def by(self, message: By) -> object:
        ref = message.ref
        match message.way:
            case "ask":
                return await ref.ask(Work(1))
            case "tell":
                ref.tell(Told())
            case "send":
                await ref.send(Told())
            case "stream":
                async with ref.stream(Count(2)) as items:
                    return [item async for item in items]
            case "forward":
                self.ctx.forward(ref, Work(1))
            case "nursery":
                async with trio.open_nursery() as nursery:
                    for n in range(3):
                        nursery.start_soon(ref.ask, Work(n))
            case "owned":
                self.ctx.start_soon(ref.ask, Work(1))
            case "pipe":
                self.ctx.pipe_to_self(ref.ask(Work(1)), then=Told)
            case "timer":
                self.ctx.timers.once("later", Told(), 0.001)
            case "topic":
                self.ctx.topics.publish(WORK, Told())
            case "deferred":
                self.ctx.start_soon(self.later, self.ctx.defer(), ref)
        return None

    async def later(self, deferred: Any, ref: Any) -> None:
        deferred.reply(await ref.ask(Work(1)))

    @rt.handler
    def told(self, message: Told) -> None:
        pass


class Subscriber(Worker):
    def on_start(self) -> None:
        self.ctx.topics.subscribe(WORK)


TREES = {
    "ask": ["By", "Work"],
    "tell": ["By", "Told"],
    "send": ["By", "Told"],
    "stream": ["By", "Count"],
    "forward": "Work",
    "nursery": ["By", "Work", "Work", "Work"],
    "owned": ["By", "Work"],
    "pipe": ["By", "Told", "Work"],
    "timer": ["By", "Told"],
    "topic": ["By", "Told"],
    "deferred": ["By", "Work"],
}


@pytest.mark.parametrize("way", TREES)
async def test_what_a_handler_sends_is_a_child_of_its_own_span(way: str, tmp_path: Path) -> None:
    async with rt.ActorSystem("trees", data_dir=tmp_path, tracing=rt.Tracing()) as system:
        front = await system.spawn(Front, name="front")
        worker = await system.spawn(Subscriber if way == "topic" else Worker, name="worker")
        await front.ask(By(way, worker))
        handled = 2 if way == "forward" else len(TREES[way])
        await until(lambda: system.statistics().handled >= handled)
        await system.wait_quiet()
    spans = read_spans(tmp_path)
    assert tree_of(spans) == [TREES[way]]
    assert len({span.trace for span in spans}) == 1 and {span.status for span in spans} == {"unset"}
    assert {span.system for span in spans} == {"trees"} and all(span.started <= span.ended for span in spans)
    assert not [span.name for span in spans if "retinue.parent" in span.attributes]  # not even where the sender's turn was over by then


@pytest.mark.parametrize("way", ["ask", "tell"])
async def test_an_actor_in_a_thread_of_its_own_is_part_of_the_tree(way: str, tmp_path: Path) -> None:
    async with rt.ActorSystem("threads", data_dir=tmp_path, tracing=rt.Tracing()) as system:
        threaded = await system.spawn(Threaded, name="threaded")
        worker = await system.spawn(Worker, name="worker")
        front = await system.spawn(Front, name="front")
        await threaded.ask(By(way, worker))
        await front.ask(By("ask", threaded))
        await system.wait_quiet()
    assert tree_of(read_spans(tmp_path)) == [["By", "Told" if way == "tell" else "Work"], ["By", "Work"]]


POOLS = {
    "round robin": rt.Pool.round_robin(2),
    "least loaded": rt.Pool.least_loaded(2),
    "hashed": rt.Pool.consistent_hash(2, key=lambda message: 1),
    "pulling": rt.Pool.work_pulling(2),
    "elastic": rt.Pool.elastic(2),
}


@pytest.mark.parametrize("kind", POOLS)
async def test_a_pools_worker_has_the_span_and_its_front_has_none(kind: str, tmp_path: Path) -> None:
    async with rt.ActorSystem("pools", data_dir=tmp_path, tracing=rt.Tracing()) as system:
        pool = await system.spawn_pool(Worker, pool=POOLS[kind], name="pool")
        front = await system.spawn(Front, name="front")
        await front.ask(By("nursery", pool))
    spans = read_spans(tmp_path)
    assert tree_of(spans) == [["By", "Work", "Work", "Work"]]
    assert {span["retinue.path"] for span in spans if span.name == "Work"} <= {"/user/pool/0", "/user/pool/1"}


async def test_a_broadcast_makes_a_span_of_each_copy(tmp_path: Path) -> None:
    async with rt.ActorSystem("all", data_dir=tmp_path, tracing=rt.Tracing()) as system:
        pool = await system.spawn_pool(Worker, pool=rt.Pool.broadcast(3), name="pool")
        front = await system.spawn(Front, name="front")
        await front.ask(By("tell", pool))
        await system.wait_quiet()
    assert tree_of(read_spans(tmp_path)) == [["By", "Told", "Told", "Told"]]


async def test_a_virtual_actor_has_the_span_of_its_message(tmp_path: Path) -> None:
    async with rt.ActorSystem("virtual", data_dir=tmp_path, tracing=rt.Tracing()) as system:
        region = await system.spawn_virtual(Worker, name="carts")
        front = await system.spawn(Front, name="front")
        await front.ask(By("ask", region["ada"]))
    assert one(read_spans(tmp_path), "Work")["retinue.path"] == "/user/carts/ada"


async def test_what_comes_from_outside_any_span_starts_a_trace_of_its_own(tmp_path: Path) -> None:
    async with rt.ActorSystem("outside", data_dir=tmp_path, tracing=rt.Tracing()) as system:
        worker = await system.spawn(Worker, name="worker")
        await worker.ask(Work())
        await worker.ask(Work())
        worker.tell(Told())
        await system.wait_quiet()
    spans = read_spans(tmp_path)
    assert [span.parent for span in spans] == [None] * 3 and len({span.trace for span in spans}) == 3


async def test_a_span_says_who_was_asked_what_and_for_whom(tmp_path: Path) -> None:
    async with rt.ActorSystem("says", data_dir=tmp_path, tracing=rt.Tracing()) as system:
        worker = await system.spawn(Worker, name="worker")
        await worker.ask(Work(), context=system.authority.mint("ada", ["*"], tenant="acme"))
    (span,) = read_spans(tmp_path)
    assert span.attributes == {
        "retinue.path": "/user/worker", "retinue.message": "Work", "retinue.subject": "ada", "retinue.tenant": "acme",
    }  # fmt: skip
    assert span.kind == "internal"


async def test_a_message_that_was_set_aside_has_a_span_each_time_that_it_is_looked_at(tmp_path: Path) -> None:
    class Once(rt.Actor):
        seen = 0

        @rt.handler
        async def work(self, message: Work) -> int:
            if message.n == 0 and not Once.seen:
                Once.seen += 1
                self.ctx.stash()
            elif message.n:
                self.ctx.unstash_all()
            return message.n

    async with rt.ActorSystem("stash", data_dir=tmp_path, tracing=rt.Tracing()) as system:
        shelf = await system.spawn(Once, name="shelf")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(shelf.ask, Work(0))
            await trio.testing.wait_all_tasks_blocked()
            await shelf.ask(Work(1))
    spans = read_spans(tmp_path)
    assert [span.name for span in spans] == ["Work"] * 3 and len({span.id for span in spans}) == 3


@pytest.mark.parametrize(
    "option", [{"seed": 5}, {"loopback": True}, {"events": 10}, {"strict": False}], ids=["seed", "loopback", "events", "plain"]
)
async def test_tracing_goes_with_the_other_ways_a_system_may_be(option: dict[str, Any], tmp_path: Path) -> None:
    async with rt.ActorSystem("ways", data_dir=tmp_path, tracing=rt.Tracing(), **option) as system:
        middle, worker = await system.spawn(Front, name="front"), await system.spawn(Worker, name="worker")
        assert await middle.ask(By("ask", worker)) == 1
    assert tree_of(read_spans(tmp_path)) == [["By", "Work"]]


async def test_no_span_is_made_of_the_systems_own_actors(tmp_path: Path) -> None:
    @rt.message
    class Pay(rt.Request[str]):
        pass

    class Bank(rt.Actor):
        @rt.handler(requires="pay", approval=True)
        def pay(self, message: Pay) -> str:
            return "paid"

    async with rt.ActorSystem("own", data_dir=tmp_path, tracing=rt.Tracing()) as system:
        bank = await system.spawn(Bank, name="bank")
        with pytest.raises(rt.ApprovalRequired) as required:
            await bank.ask(Pay())
        token = await system.approvals.approve(required.value.requests[0].id, reviewer="carol")
        assert await bank.ask(Pay(), approvals=[token]) == "paid"
    asked, paid = read_spans(tmp_path)
    assert asked.status == paid.status == "unset" and asked.parent is paid.parent is None
    (parked,) = asked.events_named("retinue.approval.parked")
    assert parked == {"retinue.approval.requests": [required.value.requests[0].id]}
    assert asked["retinue.approval.requests"] == [required.value.requests[0].id]


async def test_a_sample_is_decided_where_a_trace_begins_and_holds_for_all_of_it(tmp_path: Path) -> None:
    async with rt.ActorSystem("sampled", data_dir=tmp_path, tracing=rt.Tracing(sample=0.5)) as system:
        front, worker = await system.spawn(Front, name="front"), await system.spawn(Worker, name="worker")
        for _ in range(200):
            await front.ask(By("ask", worker))
    spans = read_spans(tmp_path)
    traces = {span.trace for span in spans}
    assert 50 < len(traces) < 150 and len(spans) == 2 * len(traces)
    assert all(tree_of([span for span in spans if span.trace == trace]) == [["By", "Work"]] for trace in traces)


async def test_nothing_is_written_where_the_sample_is_nothing(tmp_path: Path) -> None:
    async with rt.ActorSystem("none", data_dir=tmp_path, tracing=rt.Tracing(sample=0.0)) as system:
        worker = await system.spawn(Worker, name="worker")
        await worker.ask(Work())
    assert read_spans(tmp_path) == []


async def test_without_tracing_a_handler_may_say_what_it_likes_of_its_span() -> None:
    class Talker(rt.Actor):
        @rt.handler
        def work(self, message: Work) -> int:
            span = self.ctx.span
            span.rename("x")
            span.set("a", 1)
            span.event("b", {"c": 1})
            span.content("d", "e")
            span.link("nothing")
            return int(span.recording) + int(span.traceparent is not None)

    async with rt.ActorSystem("off", block_warning=math.inf) as system:
        assert await (await system.spawn(Talker)).ask(Work()) == 0
        assert system._kernel.tracer is None and system._kernel.plain


async def test_a_handler_says_more_of_its_span(tmp_path: Path) -> None:
    class Talker(rt.Actor):
        @rt.handler
        def work(self, message: Work) -> int:
            span = self.ctx.span
            assert span.recording and span.traceparent is not None
            span.rename("order")
            span.set("shop.order", 7)
            span.set("shop.lines", ["a", "b"])
            span.set("shop.nothing", None)
            span.set("shop.odd", object())
            span.set("api_key", "sk-1234567890abcdef1234567890abcdef")
            span.event("packed", {"boxes": 2})
            span.content("shop.note", "for Ada")
            span.link("00-" + "1" * 32 + "-" + "2" * 16 + "-01")
            span.link("nothing")
            return 1

    async with rt.ActorSystem("says", data_dir=tmp_path, tracing=rt.Tracing()) as system:
        await (await system.spawn(Talker)).ask(Work())
    span = one(read_spans(tmp_path), "order")
    assert span["shop.order"] == 7 and span["shop.lines"] == ["a", "b"] and span["shop.odd"] == "[object]"
    assert span["api_key"] == "[redacted]" and "shop.note" not in span.attributes and "shop.nothing" not in span.attributes
    assert span.events_named("packed") == [{"boxes": 2}]
    assert span.events_named("link") == [{"trace_id": "1" * 32, "span_id": "2" * 16}]
