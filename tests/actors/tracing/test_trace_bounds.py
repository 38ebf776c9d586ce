"""What traces may take of time, of memory and of room, and what one odd span may cost the others."""

from __future__ import annotations

import json
import socket
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from opentelemetry import trace

import retinue as rt
from openai_loopback import Answer, Asked, loopback
from retinue import llm
from retinue.actors.llm.spans import input_messages
from retinue.actors.tracing import exporting, otlp, spans, sqlite, tracer
from retinue.actors.tracing.attempt import Attempt, Overdue
from retinue.errors import TraceFileUnusable
from trace_reading import read_spans

OK: Answer = (200, {"content-type": "application/x-protobuf"}, b"")


@rt.message
class Do(rt.Request[str]):
    what: str = ""


class Doer(rt.Actor):
    @rt.handler
    def do(self, message: Do) -> str:
        if message.what == "fail":
            raise ValueError("x" * 4_000_000)
        if message.what == "odd":
            current = trace.get_current_span()
            current.record_exception(FileNotFoundError("\udcff"))
            current.set_attribute("bytes", b"\xff")
            current.set_attribute("half", "\ud800")
            current.set_attribute("none", float("nan"))
            current.update_name(None)  # type: ignore[arg-type]
        if message.what == "class":
            raise type("Odd", (ValueError,), {"__qualname__": "half \ud800 of it"})("x")
        self.ctx.span.content("said", message.what)
        return "done"


# -- time ----------------------------------------------------------------------------------------------------------------------------------------------


async def test_of_a_long_conversation_the_instructions_and_the_newest_messages_are_kept(tmp_path: Path) -> None:
    async with rt.ActorSystem("long", data_dir=tmp_path, tracing=rt.Tracing(contents=True)) as system:
        model = await system.spawn(llm.Scripted, ["Yes."])
        entries = [llm.ChatMessage("system", "Be kind."), *(llm.ChatMessage("user", f"question {n}") for n in range(500))]
        await model.ask(llm.Complete(entries))
    said = json.loads(read_spans(tmp_path)[0]["gen_ai.input.messages"])
    texts = [entry["parts"][0]["content"] for entry in said]
    left_out = 500 - (spans.MOST_ENTRIES - 1)
    assert texts[:2] == ["Be kind.", f"… {left_out} messages between are left out"]
    assert texts[2:] == [f"question {n}" for n in range(left_out, 500)]


def test_large_messages_are_kept_from_the_newest_on_until_there_is_no_room() -> None:
    calls = tuple(llm.ToolCall(f"c{n}", "t", json.dumps({"a": "y" * 1_900})) for n in range(10))
    entries = [llm.ChatMessage("assistant", str(n), tool_calls=calls) for n in range(30)]
    said = json.loads(spans._said("gen_ai.input.messages", input_messages(tuple(entries))))
    kept = [entry["parts"][0]["content"] for entry in said]
    assert kept[0] == "0" and kept[-1] == "29" and kept[1].endswith("messages between are left out") and 5 < len(kept) <= spans.MOST_ENTRIES
    assert len(json.dumps(said)) < spans.MOST_OF_ENTRIES + 50_000


async def test_the_text_of_an_error_is_cut_before_it_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[int] = []

    def noted(text: str) -> str:
        looked_at.append(len(text))
        return text

    monkeypatch.setattr(spans, "hide_secrets", noted)
    async with rt.ActorSystem("errors", data_dir=tmp_path, tracing=rt.Tracing(contents=True)) as system:
        with pytest.raises(ValueError):
            await (await system.spawn(Doer)).ask(Do("fail"))
    assert read_spans(tmp_path)[0].status_text == "x" * spans.MOST_TEXT and max(looked_at) <= 2 * spans.MOST_TEXT


# -- odd spans -----------------------------------------------------------------------------------------------------------------------------------------


async def test_an_odd_span_costs_no_other_one(tmp_path: Path) -> None:
    with loopback(OK) as server:
        tracing = rt.Tracing(jsonl=tmp_path / "spans.jsonl", otlp=f"{server.url}/traces", contents=True)
        async with rt.ActorSystem("odd", data_dir=tmp_path, tracing=tracing) as system:
            doer = await system.spawn(Doer, supervision=rt.Supervision(on={ValueError: "resume"}))
            for what in ("a", "odd", "class", "b"):
                try:
                    await doer.ask(Do(what))
                except ValueError:
                    assert what == "class"
        sent = b"".join(each.body for each in server.asked)
    assert [span.name for span in read_spans(tmp_path)] == ["Do", "", "Do", "Do"]
    assert read_spans(tmp_path)[2]["error.type"] == "half \ufffd of it"
    lines = [json.loads(line) for line in (tmp_path / "spans.jsonl").read_text().splitlines()]
    assert len(lines) == 4 and lines[1]["attributes"]["none"] == "nan" and lines[1]["attributes"]["half"] == "\ufffd"
    assert sent.count(b"/user/Doer-1") >= 3


# -- files that are moved away -------------------------------------------------------------------------------------------------------------------------


async def until(path: Path, what: str) -> None:
    """Waits until a file has it."""
    import trio

    with trio.fail_after(10):
        while not holds(path, what):
            await trio.sleep(0.05)


def holds(path: Path, what: str) -> bool:
    return path.exists() and what.encode() in b"".join(each.read_bytes() for each in path.parent.glob(f"{path.name}*"))


@pytest.mark.parametrize("moved", [True, False], ids=["moved", "deleted"])
async def test_a_file_that_somebody_moves_away_or_deletes_is_begun_anew(moved: bool, tmp_path: Path) -> None:
    lines, table = tmp_path / "spans.jsonl", tmp_path / "traces.sqlite3"
    async with rt.ActorSystem("rotated", data_dir=tmp_path, tracing=rt.Tracing(jsonl=lines, contents=True)) as system:
        doer = await system.spawn(Doer)
        await doer.ask(Do("first"))
        await until(lines, "first")
        await until(table, "first")
        for path in (lines, table):
            if moved:
                path.rename(tmp_path / f"old-{path.name}")
            else:
                path.unlink()
        await doer.ask(Do("second"))
    assert [span["said"] for span in read_spans(tmp_path)] == ["second"]
    assert [json.loads(line)["attributes"]["said"] for line in lines.read_text().splitlines()] == ["second"]
    assert [path.stat().st_mode & 0o777 for path in (lines, table)] == [0o600] * 2


# -- room ----------------------------------------------------------------------------------------------------------------------------------------------


async def test_what_waits_for_a_slow_endpoint_is_bounded_in_bytes_and_it_is_said_what_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(exporting, "QUEUE_BYTES", 100_000)
    monkeypatch.setattr(exporting, "INTERVAL", 60.0)
    with loopback(OK) as server:
        tracing = rt.Tracing(sqlite=False, otlp=f"{server.url}/traces", contents=True)
        async with rt.ActorSystem("full", data_dir=tmp_path, tracing=tracing) as system:
            doer = await system.spawn(Doer)
            for _ in range(100):
                await doer.ask(Do("z" * 1_990))
        sent = sum(len(each.body) for each in server.asked)
    assert 30_000 < sent < 100_000 and "spans end faster than http://" in caplog.text
    lost = next(record for record in caplog.records if "could not be exported" in record.message)
    assert 50 < int(lost.message.split()[0]) < 90


async def test_a_request_to_an_endpoint_is_not_larger_than_it_may_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(exporting, "BATCH_BYTES", 20_000)

    def refuses(asked: Asked) -> Answer:
        return (413, {}, b"") if b"w" * 1_990 in asked.body else OK

    with loopback(refuses) as server:
        async with rt.ActorSystem("parts", tracing=rt.Tracing(otlp=f"{server.url}/traces", contents=True)) as system:
            doer = await system.spawn(Doer)
            for n in range(40):
                await doer.ask(Do(("w" if n == 7 else "z") * 1_990))
        sizes = [len(each.body) for each in server.asked]
    assert max(sizes) < 20_000 and len(sizes) >= 8
    lost = next(record for record in caplog.records if "could not be exported" in record.message)
    assert 1 <= int(lost.message.split()[0]) < 8


async def test_the_file_keeps_no_more_bytes_than_it_may_whatever_the_number_of_spans(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "KEEP_BYTES", 200_000)
    monkeypatch.setattr(sqlite, "_TRIM_EVERY", 1)
    for n in range(3):
        async with rt.ActorSystem("small", data_dir=tmp_path, tracing=rt.Tracing(contents=True)) as system:
            doer = await system.spawn(Doer)
            for _ in range(80):
                await doer.ask(Do(str(n) * 1_990))
    found = [span["said"][0] for span in read_spans(tmp_path)]
    assert 20 <= len(found) <= 100 and found[-1] == "2"
    with closing(sqlite3.connect(tmp_path / "traces.sqlite3")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


@contextmanager
def dripping() -> Iterator[str]:
    """An endpoint that answers with a byte each hundredth of a second, and never comes to an end."""
    over = threading.Event()
    listener = socket.create_server(("127.0.0.1", 0))

    def drip(connection: socket.socket) -> None:
        with connection:
            connection.recv(65_536)
            try:
                connection.sendall(b"HTTP/1.1 200 OK\r\nx-a: ")
                while not over.wait(0.01):
                    connection.sendall(b"y")
            except OSError:
                pass

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threads.append(threading.Thread(target=drip, args=(connection,)))
            threads[-1].start()

    threads = [threading.Thread(target=serve)]
    threads[0].start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1/traces"
    finally:
        over.set()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        for thread in threads:
            thread.join(5)


@pytest.mark.slow
async def test_an_endpoint_that_drips_is_left_after_the_time_of_an_attempt(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    import trio

    monkeypatch.setattr(otlp, "TIMEOUT", 0.1)
    monkeypatch.setattr(otlp, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(exporting, "INTERVAL", 0.01)
    with dripping() as url:
        async with rt.ActorSystem("drip", tracing=rt.Tracing(otlp=url)) as system:
            await (await system.spawn(Doer)).ask(Do())
            with trio.fail_after(10):
                while "no whole answer within 0.1 s" not in caplog.text:
                    await trio.sleep(0.02)


@pytest.mark.slow
async def test_no_thread_stays_at_an_endpoint_that_drips_when_the_system_has_ended(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tracer, "FLUSH_TIMEOUT", 0.2)
    monkeypatch.setattr(exporting, "INTERVAL", 0.01)
    before = set(threading.enumerate())
    with dripping() as url:
        async with rt.ActorSystem("drip", tracing=rt.Tracing(otlp=url)) as system:
            await (await system.spawn(Doer)).ask(Do())
        until = time.monotonic() + 5
        left = [thread for thread in set(threading.enumerate()) - before if "Otel" in thread.name]
        for thread in left:
            thread.join(max(0.0, until - time.monotonic()))
        assert not any(thread.is_alive() for thread in left)
    assert "1 spans of the system 'drip' could not be exported" in caplog.text


class _Connected:
    """What httpcore tells of a connection."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection

    def get_extra_info(self, what: str) -> socket.socket:
        assert what == "socket"
        return self.connection


@pytest.mark.parametrize("seconds", [0.01, 60.0], ids=["after its time", "hurried"])
def test_an_attempt_that_waits_at_a_connection_is_ended_from_another_thread(seconds: float) -> None:
    near, far = socket.socketpair()
    with near, far:
        attempt = Attempt()
        with pytest.raises(Overdue, match=f"within {seconds:g} s"), attempt.within(seconds):
            attempt.watch("connection.connect_tcp.complete", {"return_value": _Connected(near)})
            if seconds > 1:
                attempt.hurry(0.01)
            near.settimeout(30)
            raise EOFError(near.recv(1))  # for an endpoint that drips it is the same: httpx reads on and on
        attempt.close()


def test_an_attempt_that_is_overdue_ends_with_the_connection_that_it_gets_then() -> None:
    near, far = socket.socketpair()
    with near, far:
        attempt = Attempt()
        with pytest.raises(Overdue), attempt.within(0.001):
            while not attempt._overdue:  # at a name that is looked up, say
                time.sleep(0.001)
            attempt.watch("connection.connect_tcp.complete", {"return_value": _Connected(near)})
            near.settimeout(30)
            raise EOFError(near.recv(1))
        attempt.close()


async def test_a_name_that_is_looked_up_without_end_does_not_hold_up_the_systems_end(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    import trio

    found, asked = threading.Event(), threading.Event()

    def look_up(*_: object, **__: object) -> list[object]:
        asked.set()
        found.wait(30)
        raise OSError("no such name")

    monkeypatch.setattr(tracer, "FLUSH_TIMEOUT", 0.1)
    monkeypatch.setattr(otlp, "ATTEMPTS", 1)
    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    try:
        with trio.fail_after(10):
            async with rt.ActorSystem("names", tracing=rt.Tracing(otlp="http://collector.invalid/v1/traces")) as system:
                await (await system.spawn(Doer)).ask(Do())
        assert asked.wait(20) and "1 spans of the system 'names' could not be exported" in caplog.text
    finally:
        found.set()


def test_an_attempt_that_is_hurried_and_comes_back_leaves_no_timer_behind() -> None:
    attempt, before = Attempt(), set(threading.enumerate())
    with attempt.within(60):
        attempt.hurry(30)
    attempt.hurry(30)  # nothing is going on
    for thread in set(threading.enumerate()) - before:
        thread.join(5)
    assert set(threading.enumerate()) <= before
    attempt.close()


# -- options -------------------------------------------------------------------------------------------------------------------------------------------

TRACES = "http://localhost:4318/v1/traces"
ODD_OPTIONS = {
    "a path with a null": {"sqlite": "a\0b"},
    "a path with half a character": {"jsonl": "\ud800"},
    "an address with half a character": {"otlp": "http://\ud800/"},
    "a port that is none": {"otlp": "http://localhost:99999/v1/traces"},
    "a header with a blank": {"otlp": TRACES, "headers": {"a b": "c"}},
    "a header with a colon": {"otlp": TRACES, "headers": {"a:": "c"}},
    "the length of the request": {"otlp": TRACES, "headers": {"Content-Length": "5"}},
}


@pytest.mark.parametrize("name", list(ODD_OPTIONS))
def test_an_option_that_could_never_work_is_refused_where_it_is_written(name: str) -> None:
    with pytest.raises(rt.DefinitionError):
        rt.Tracing(**ODD_OPTIONS[name])  # type: ignore[arg-type]


def test_an_address_is_shown_without_its_query_and_keeps_it() -> None:
    tracing = rt.Tracing(otlp="https://h.example/v1/traces?api_key=hush")
    assert "hush" not in repr(tracing) and "https://h.example/v1/traces?…" in repr(tracing) and str(tracing.otlp).endswith("=hush")
    from_env = rt.Tracing.from_env({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://h/?x=1"})
    assert from_env.otlp == "http://h/v1/traces?x=1"


class _Broken:
    def get_tracer(self, *_: object) -> trace.Tracer:
        raise RuntimeError("no")


class _Boom(trace.NoOpTracer):
    def start_span(self, *_: object, **__: object) -> trace.Span:
        raise RuntimeError("boom")


class _Booms:
    def get_tracer(self, *_: object) -> trace.Tracer:
        return _Boom()


async def test_a_provider_that_fails_is_told_of_once_and_harms_no_message(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(rt.DefinitionError, match="RuntimeError"):
        async with rt.ActorSystem("broken", tracing=rt.Tracing(provider=_Broken())):  # type: ignore[arg-type]
            pass
    async with rt.ActorSystem("booms", tracing=rt.Tracing(provider=_Booms())) as system:  # type: ignore[arg-type]
        doer = await system.spawn(Doer)
        assert [await doer.ask(Do()) for _ in range(5)] == ["done"] * 5
    assert caplog.text.count("could not be begun") == 1


async def test_a_key_in_the_place_of_a_plain_word_is_not_exported(tmp_path: Path) -> None:
    key = "sk-proj-Zx8Kp2Lm4Nq6Rt8Vw0Yb2Dc4Fe6Gh8Jk"
    async with rt.ActorSystem("words", data_dir=tmp_path, tracing=rt.Tracing()) as system:
        said = llm.Completion("yes", key, finish_reason="stop")
        model = await system.spawn(llm.Scripted, lambda _: said)
        await model.ask(llm.Complete.of("hello"))
    assert key not in repr(read_spans(tmp_path)) and len(read_spans(tmp_path)) == 1


async def test_lines_are_not_added_to_a_file_of_something_else(tmp_path: Path) -> None:
    async with rt.ActorSystem("audited", data_dir=tmp_path) as system:
        await (await system.spawn(Doer)).ask(Do())
    before = (tmp_path / "audit.jsonl").read_bytes()
    with pytest.raises(TraceFileUnusable, match="something else"):
        async with rt.ActorSystem("audited", data_dir=tmp_path, tracing=rt.Tracing(jsonl=tmp_path / "audit.jsonl")):
            pass
    assert before and (tmp_path / "audit.jsonl").read_bytes().startswith(before)


@pytest.mark.parametrize("option", ["sqlite", "jsonl"])
async def test_a_folder_that_anybody_may_write_is_refused_by_its_own_name(option: str, tmp_path: Path) -> None:
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(TraceFileUnusable, match=f"its folder {folder} can be written by everybody"):
        async with rt.ActorSystem("open", tracing=rt.Tracing(**{option: folder / "file"})):  # type: ignore[arg-type]
            pass
