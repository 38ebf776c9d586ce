"""Spans of those who call a system from outside: the parents of what they send."""

from __future__ import annotations

import asyncio
from pathlib import Path

from opentelemetry.sdk.trace import TracerProvider

import retinue as rt
from retinue import aio, sync
from trace_reading import Span, read_spans

TRACER = TracerProvider(shutdown_on_exit=False).get_tracer("a program of the user's")


@rt.message
class Add(rt.Request[int]):
    n: int = 1


@rt.message
class Note(rt.Message):
    pass


@rt.message
class Count(rt.Stream[int]):
    pass


class Adder(rt.Actor):
    @rt.handler
    async def add(self, message: Add) -> int:
        return message.n

    @rt.handler
    def note(self, message: Note) -> None:
        pass

    @rt.handler
    async def count(self, message: Count):  # type: ignore[no-untyped-def]
        yield 1


def parents(spans: list[Span]) -> dict[str, str | None]:
    return {span.name: span.parent for span in spans}


def test_what_a_script_sends_within_its_own_span_is_that_spans_child(tmp_path: Path) -> None:
    with sync.ActorSystem("script", data_dir=tmp_path, tracing=rt.Tracing()) as system:
        adder = system.spawn(Adder, name="adder")
        with TRACER.start_as_current_span("mine") as mine:
            adder.ask(Add())
            adder.tell(Note())
            with adder.stream(Count()) as items:
                list(items)
            adder.ask(Add())
        context = mine.get_span_context()
        adder.ask(Add())
    spans = read_spans(tmp_path)
    within = [span for span in spans if span.trace == f"{context.trace_id:032x}"]
    assert sorted(span.name for span in within) == ["Add", "Add", "Count", "Note"]
    assert {span.parent for span in within} == {f"{context.span_id:016x}"} and {span["retinue.parent"] for span in within} == {"remote"}
    (other,) = [span for span in spans if span not in within]
    assert other.parent is None and "retinue.parent" not in other.attributes


def test_what_a_task_of_asyncio_sends_within_its_own_span_is_that_spans_child(tmp_path: Path) -> None:
    async def one(adder: aio.Ref[Adder], name: str) -> str:
        with TRACER.start_as_current_span(name) as mine:
            await asyncio.sleep(0)
            await adder.ask(Add())
            return f"{mine.get_span_context().span_id:016x}"

    async def main() -> list[str]:
        async with aio.ActorSystem("loop", data_dir=tmp_path, tracing=rt.Tracing()) as system:
            adder = await system.spawn(Adder, name="adder")
            return list(await asyncio.gather(*(one(adder, str(n)) for n in range(5))))

    wanted = asyncio.run(main())
    assert {span.parent for span in read_spans(tmp_path)} == set(wanted)


async def test_a_handlers_own_span_is_between_its_turn_and_what_it_asks(tmp_path: Path) -> None:
    @rt.message
    class Via(rt.Request[str]):
        ref: rt.Ref[Adder]

    class Middle(rt.Actor):
        @rt.handler
        async def via(self, message: Via) -> str:
            with TRACER.start_as_current_span("inner") as inner:
                await message.ref.ask(Add())
            await message.ref.ask(Add())
            context = inner.get_span_context()
            assert inner.parent is not None  # type: ignore[attr-defined]
            return f"{context.span_id:016x} {inner.parent.span_id:016x}"  # type: ignore[attr-defined]

    async with rt.ActorSystem("between", data_dir=tmp_path, tracing=rt.Tracing()) as system:
        adder, middle = await system.spawn(Adder), await system.spawn(Middle)
        inner, outer = (await middle.ask(Via(adder))).split()
    via, first, second = read_spans(tmp_path)
    assert (via.id, first.parent, second.parent) == (outer, inner, via.id)


async def test_a_turn_leaves_no_span_in_force_for_the_next_one(tmp_path: Path) -> None:
    from opentelemetry import trace

    seen: list[bool] = []

    class Looks(rt.Actor):
        @rt.handler
        def add(self, message: Add) -> int:
            seen.append(trace.get_current_span().get_span_context().is_valid)
            return 1

        def on_stop(self, reason: object) -> None:
            seen.append(trace.get_current_span().get_span_context().is_valid)

    with TRACER.start_as_current_span("around the system"):
        async with rt.ActorSystem("clean", data_dir=tmp_path, tracing=rt.Tracing()) as system:
            looks = await system.spawn(Looks)
            await looks.ask(Add())
            await looks.stop()
    assert seen == [True, False]


def test_without_tracing_the_spans_of_callers_are_none_of_a_systems_business() -> None:
    with sync.ActorSystem("off") as system, TRACER.start_as_current_span("mine"):
        assert system.spawn(Adder).ask(Add(3)) == 3
