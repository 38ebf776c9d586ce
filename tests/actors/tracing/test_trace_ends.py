"""A span ends once, however its turn does."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import trio
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider

import retinue as rt
from quiet_threads import our_threads
from retinue.actors.tracing import exporting, tracer
from trace_reading import one, read_spans, tree_of


@rt.message
class Do(rt.Request[str]):
    what: str = ""


@rt.message
class Count(rt.Stream[int]):
    pass


class Odd(rt.Actor):
    def __init__(self) -> None:
        self.began = trio.Event()

    @rt.handler(raises=KeyError)
    async def do(self, message: Do) -> str:
        match message.what:
            case "hang":
                await trio.sleep_forever()
            case "raise":
                raise ValueError("odd")
            case "declared":
                raise KeyError("odd")
            case "reject":
                raise rt.Reject("no")
            case "stop":
                self.ctx.stop()
            case "group":
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(trio.sleep_forever)
                    raise ValueError("in a group")
            case "exit":
                raise GeneratorExit
        return "done"

    @rt.handler
    async def count(self, message: Count) -> AsyncIterator[int]:
        for n in range(1_000_000):
            yield n


class Counting(SpanProcessor):
    """Counts how often each span ends."""

    def __init__(self) -> None:
        self.ended: dict[int, int] = {}

    def on_end(self, span: ReadableSpan) -> None:
        context = span.get_span_context()
        assert context is not None
        self.ended[context.span_id] = self.ended.get(context.span_id, 0) + 1


ENDS = {
    "raise": "ValueError",
    "declared": "KeyError",
    "reject": "Reject",
    "group": "ExceptionGroup",
    "exit": "RuntimeError",
    "stop": None,
    "": None,
}


@pytest.mark.parametrize("what", ENDS)
async def test_what_a_handler_ends_with_is_the_spans_end(what: str, tmp_path: Path) -> None:
    async with rt.ActorSystem("ends", data_dir=tmp_path, tracing=rt.Tracing()) as system:
        odd = await system.spawn(Odd, name="odd")
        if ENDS[what] is None:
            assert await odd.ask(Do(what)) == "done"
        else:
            with pytest.raises((Exception, rt.ActorStopped)):
                await odd.ask(Do(what))
    span = one(read_spans(tmp_path), "Do")
    assert span.attributes.get("error.type") == ENDS[what]
    assert span.status == ("unset" if ENDS[what] is None else "error") and span.status_text == ""


async def test_a_time_out_is_an_error_of_the_span_that_was_too_slow(tmp_path: Path) -> None:
    async with rt.ActorSystem("slow", data_dir=tmp_path, tracing=rt.Tracing()) as system:
        odd = await system.spawn(Odd, name="odd")
        with pytest.raises(rt.AskTimeout):
            await odd.ask(Do("hang"), timeout=0.01)
        await system.wait_quiet()
    assert one(read_spans(tmp_path), "Do")["error.type"] == "AskTimeout"


async def test_an_asker_that_leaves_ends_the_span_as_cancelled(tmp_path: Path) -> None:
    async with rt.ActorSystem("left", data_dir=tmp_path, tracing=rt.Tracing()) as system:
        odd = await system.spawn(Odd, name="odd")
        with trio.move_on_after(0.01):
            await odd.ask(Do("hang"))
        await system.wait_quiet()
    assert one(read_spans(tmp_path), "Do")["error.type"] == "AskCancelled"


async def test_a_message_that_was_never_begun_has_no_span(tmp_path: Path) -> None:
    async with rt.ActorSystem("queued", data_dir=tmp_path, tracing=rt.Tracing()) as system:
        odd = await system.spawn(Odd, name="odd")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(odd.ask, Do("hang"))
            await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(rt.AskTimeout):
                await odd.ask(Do(""), timeout=0.01)
            nursery.cancel_scope.cancel()
    assert len(read_spans(tmp_path)) == 1


async def test_a_stop_and_the_systems_end_end_what_is_in_progress(tmp_path: Path) -> None:
    async def ask(ref: Any) -> None:
        with pytest.raises(rt.ActorStopped):
            await ref.ask(Do("hang"))

    async with trio.open_nursery() as nursery:
        async with rt.ActorSystem("stops", data_dir=tmp_path, tracing=rt.Tracing(), grace=0.01) as system:
            one_, two = await system.spawn(Odd, name="one"), await system.spawn(Odd, name="two")
            nursery.start_soon(ask, one_)
            nursery.start_soon(ask, two)
            await trio.testing.wait_all_tasks_blocked()
            await one_.stop(grace=0.0)
    assert [span["error.type"] for span in read_spans(tmp_path)] == ["ActorStopped"] * 2


async def test_a_stream_that_is_left_early_ends_its_span(tmp_path: Path) -> None:
    async with rt.ActorSystem("streams", data_dir=tmp_path, tracing=rt.Tracing()) as system:
        odd = await system.spawn(Odd, name="odd")
        async with odd.stream(Count(), window=2) as items:
            async for _ in items:
                break
        await system.wait_quiet()
    assert one(read_spans(tmp_path), "Count").attributes.get("error.type") in ("AskCancelled", None)


async def test_each_span_ends_once_whatever_happens_to_many_turns_at_once() -> None:
    provider, counting = TracerProvider(shutdown_on_exit=False), Counting()
    provider.add_span_processor(counting)

    async def ask(ref: Any, first: int) -> None:
        for n in range(first, first + 30):
            try:
                with trio.move_on_after(0.001 * (n % 4)):
                    await ref.ask(Do(("", "hang", "declared", "reject", "group")[n % 5]), timeout=0.002)
            except Exception:
                pass

    supervision = rt.Supervision(on={Exception: "resume"})
    async with rt.ActorSystem("many", tracing=rt.Tracing(provider=provider), grace=0.01) as system:
        refs = [await system.spawn(Odd, supervision=supervision) for _ in range(10)]
        async with trio.open_nursery() as nursery:
            for n, ref in enumerate(refs):
                nursery.start_soon(ask, ref, n)
        for ref in refs:
            ref.tell(Do("hang"))
    assert len(counting.ended) >= 100 and set(counting.ended.values()) == {1}


async def test_a_turn_whose_actor_is_restarted_leaves_one_span_that_says_why(tmp_path: Path) -> None:
    async with rt.ActorSystem("restarts", data_dir=tmp_path, tracing=rt.Tracing()) as system:
        odd = await system.spawn(Odd, name="odd")
        with pytest.raises(ValueError):
            await odd.ask(Do("raise"))
        assert await odd.ask(Do("")) == "done"
    failed, fine = read_spans(tmp_path)
    assert (failed.status, fine.status) == ("error", "unset") and failed["error.type"] == "ValueError"


async def test_a_refusal_of_the_gate_is_the_end_of_a_span(tmp_path: Path) -> None:
    class Guarded(rt.Actor):
        @rt.handler(requires="work.do")
        def do(self, message: Do) -> str:
            return "done"

    async with rt.ActorSystem("gate", data_dir=tmp_path, tracing=rt.Tracing()) as system:
        guarded = await system.spawn(Guarded, name="guarded")
        with pytest.raises(rt.Denied):
            await guarded.ask(Do(), context=system.authority.mint("eve", []))
    (span,) = read_spans(tmp_path)
    assert (span["error.type"], span["retinue.subject"]) == ("Denied", "eve")


async def test_a_worker_of_a_pool_that_fails_leaves_its_span_beside_that_of_the_next_attempt(tmp_path: Path) -> None:
    class Fragile(rt.Actor):
        failed = False

        @rt.handler
        async def do(self, message: Do) -> str:
            await trio.lowlevel.checkpoint()
            if not Fragile.failed:
                Fragile.failed = True
                raise ValueError("once")
            return "done"

    async with rt.ActorSystem("retries", data_dir=tmp_path, tracing=rt.Tracing()) as system:
        pool = await system.spawn_pool(Fragile, pool=rt.Pool.work_pulling(2, retries=1), name="pool")
        assert await pool.ask(Do()) == "done"
    spans = read_spans(tmp_path)
    assert sorted(span.status for span in spans) == ["error", "unset"]


@pytest.mark.slow
async def test_a_thread_that_does_not_come_back_does_not_keep_its_span_open(tmp_path: Path) -> None:
    import threading

    leave = threading.Event()

    class Stuck(rt.Actor, blocking=True):
        @rt.handler
        def do(self, message: Do) -> str:
            leave.wait(30)
            return "late"

    try:
        async with rt.ActorSystem("stuck", data_dir=tmp_path, tracing=rt.Tracing(), grace=0.01) as system:
            stuck = await system.spawn(Stuck, name="stuck")
            with pytest.raises(rt.AskTimeout):
                await stuck.ask(Do(), timeout=0.01)
    finally:
        leave.set()
    assert one(read_spans(tmp_path), "Do").status == "error"


async def test_nothing_that_traces_is_left_running() -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        async with rt.ActorSystem("quiet", data_dir=folder, tracing=rt.Tracing(jsonl=f"{folder}/spans.jsonl")) as system:
            odd = await system.spawn(Odd)
            await odd.ask(Do())
        import threading

        left = [thread.name for thread in threading.enumerate() if "Otel" in thread.name or "traces" in thread.name]
        assert left == [] and not [thread for thread in our_threads() if "traces" in thread.name]


async def test_a_nested_turn_that_fails_is_drawn_below_the_one_that_asked(tmp_path: Path) -> None:
    @rt.message
    class Outer(rt.Request[str]):
        ref: rt.Ref[Any]

    class Asker(rt.Actor):
        @rt.handler
        async def outer(self, message: Outer) -> str:
            return str(await message.ref.ask(Do("declared")))

    async with rt.ActorSystem("nested", data_dir=tmp_path, tracing=rt.Tracing()) as system:
        odd, asker = await system.spawn(Odd), await system.spawn(Asker)
        with pytest.raises(KeyError):
            await asker.ask(Outer(odd))
    spans = read_spans(tmp_path)
    assert tree_of(spans) == [["Outer", "Do"]] and {span["error.type"] for span in spans} == {"KeyError"}


async def test_the_spans_of_a_system_that_a_handler_ends_are_exported_all_the_same(tmp_path: Path) -> None:
    @rt.message
    class Leave(rt.Request[None]):
        pass

    class Fatal(rt.Actor):
        @rt.handler
        def leave(self, message: Leave) -> None:
            raise SystemExit(3)

    with pytest.raises(SystemExit):
        async with rt.ActorSystem("fatal", data_dir=tmp_path, tracing=rt.Tracing()) as system:
            fatal, odd = await system.spawn(Fatal, name="fatal"), await system.spawn(Odd, name="odd")
            odd.tell(Do("hang"))
            await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(rt.ActorStopped):
                await fatal.ask(Leave())
            await trio.sleep_forever()
    spans = read_spans(tmp_path)
    assert one(spans, "Leave")["error.type"] == "SystemExit" and one(spans, "Do")["error.type"] == "ActorStopped"


async def test_a_system_whose_block_is_cancelled_exports_what_it_has(tmp_path: Path) -> None:
    with trio.CancelScope() as scope:
        async with rt.ActorSystem("cancelled", data_dir=tmp_path, tracing=rt.Tracing()) as system, trio.open_nursery() as nursery:
            odd = await system.spawn(Odd, name="odd")
            await odd.ask(Do(""))
            nursery.start_soon(odd.ask, Do("hang"))
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()
            await trio.lowlevel.checkpoint()
    spans = read_spans(tmp_path)
    assert [span.attributes.get("error.type") for span in spans] in ([None, "ActorStopped"], [None, "AskCancelled"])


def test_a_system_of_a_script_that_is_stopped_twice_ends_its_export_once(tmp_path: Path) -> None:
    from retinue.sync import ActorSystem

    with ActorSystem("twice", data_dir=tmp_path, tracing=rt.Tracing()) as system:
        system.spawn(Odd, name="odd").ask(Do(""))
        system.stop()
        system.stop()
    assert len(read_spans(tmp_path)) == 1


async def test_a_later_opentelemetry_that_has_no_inside_of_its_own_is_ended_by_its_own_promise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    class Later(BatchSpanProcessor):
        """As today's, with its insides under another name."""

        def __getattribute__(self, name: str) -> Any:
            if name == "_batch_processor" and inspect.stack()[1].filename == tracer.__file__:
                raise AttributeError(name)
            return super().__getattribute__(name)

    monkeypatch.setattr(exporting, "BatchSpanProcessor", Later)
    async with rt.ActorSystem("later", data_dir=tmp_path, tracing=rt.Tracing()) as system:
        odd = await system.spawn(Odd)
        await odd.ask(Do())
    assert [span.name for span in read_spans(tmp_path)] == ["Do"]
    assert not [thread for thread in our_threads() if "traces" in thread.name]
