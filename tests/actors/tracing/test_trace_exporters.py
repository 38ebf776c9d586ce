"""Where spans go: the files, the endpoint, somebody else's provider; and what goes wrong there."""

from __future__ import annotations

import json
import logging
import os
import sqlite3
import stat
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import retinue as rt
from openai_loopback import Answer, Asked, loopback
from retinue.errors import TraceFileUnusable
from trace_reading import read_spans

OK: Answer = (200, {"content-type": "application/x-protobuf"}, b"")


@rt.message
class Add(rt.Request[int]):
    n: int = 1


class Adder(rt.Actor):
    @rt.handler
    def add(self, message: Add) -> int:
        return message.n


async def asked(times: int = 1, **options: Any) -> None:
    async with rt.ActorSystem("export", **options) as system:
        adder = await system.spawn(Adder, name="adder")
        for n in range(times):
            await adder.ask(Add(n))


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# -- files ---------------------------------------------------------------------------------------------------------------------------------------------


async def test_the_files_are_the_users_alone_also_while_they_are_written(tmp_path: Path) -> None:
    umask = os.umask(0)
    try:
        folder = tmp_path / "new" / "data"
        tracing = rt.Tracing(jsonl=folder / "spans.jsonl")
        async with rt.ActorSystem("modes", data_dir=folder, tracing=tracing) as system:
            await (await system.spawn(Adder)).ask(Add())
            modes = {path.name: mode(path) for path in folder.iterdir() if path.name.startswith(("traces", "spans"))}
    finally:
        os.umask(umask)
    assert set(modes) >= {"traces.sqlite3", "traces.sqlite3-wal", "spans.jsonl"} and set(modes.values()) == {0o600}
    assert mode(folder) == 0o700


async def test_the_table_is_as_its_readers_expect(tmp_path: Path) -> None:
    await asked(data_dir=tmp_path, tracing=rt.Tracing())
    connection = sqlite3.connect(tmp_path / "traces.sqlite3")
    assert connection.execute("PRAGMA user_version").fetchone() == (1,)
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    columns = [row[1] for row in connection.execute("PRAGMA table_info(spans)")]
    assert columns == [
        "trace_id", "span_id", "parent_id", "name", "kind", "started_ns", "ended_ns", "status", "status_text", "attributes", "events", "system",
    ]  # fmt: skip
    connection.close()


async def test_a_line_of_the_other_file_says_the_same(tmp_path: Path) -> None:
    await asked(data_dir=tmp_path, tracing=rt.Tracing(jsonl=str(tmp_path / "spans.jsonl")))
    (line,) = (tmp_path / "spans.jsonl").read_text().splitlines()
    (span,) = read_spans(tmp_path)
    said = json.loads(line)
    assert (said["trace_id"], said["span_id"], said["name"], said["attributes"]) == (span.trace, span.id, span.name, span.attributes)
    assert (said["parent_id"], said["status"], said["system"]) == (None, "unset", "export")


async def test_another_run_adds_to_the_files(tmp_path: Path) -> None:
    for _ in range(2):
        await asked(data_dir=tmp_path, tracing=rt.Tracing(jsonl=tmp_path / "spans.jsonl"))
    assert len(read_spans(tmp_path)) == len((tmp_path / "spans.jsonl").read_text().splitlines()) == 2


async def test_two_systems_may_write_one_file(tmp_path: Path) -> None:
    tracing = rt.Tracing(sqlite=tmp_path / "both.sqlite3")
    async with rt.ActorSystem("one", tracing=tracing) as one, rt.ActorSystem("two", tracing=tracing) as two:
        for system in (one, two):
            adder = await system.spawn(Adder)
            for _ in range(50):
                await adder.ask(Add())
    spans = read_spans(tmp_path / "both.sqlite3")
    assert {name: sum(span.system == name for span in spans) for name in ("one", "two")} == {"one": 50, "two": 50}


async def test_the_file_keeps_the_newest_spans(tmp_path: Path) -> None:
    for _ in range(4):
        await asked(150, data_dir=tmp_path, tracing=rt.Tracing(keep=200))
    assert 150 <= len(read_spans(tmp_path)) <= 200 + 150
    await asked(1, data_dir=tmp_path, tracing=rt.Tracing(keep=200))
    await asked(1, data_dir=tmp_path, tracing=rt.Tracing(keep=200))
    spans = read_spans(tmp_path)
    assert len(spans) <= 202 and spans[-1].started == max(span.started for span in spans)


async def test_the_file_of_lines_begins_anew_before_it_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from retinue.actors.tracing import jsonl

    monkeypatch.setattr(jsonl, "MOST_BYTES", 2_000)
    for _ in range(3):
        await asked(4, tracing=rt.Tracing(jsonl=tmp_path / "spans.jsonl"))
    found = {name: (tmp_path / name).read_text() for name in os.listdir(tmp_path)}  # noqa: PTH208 - ruff knows no other way that it likes in an async test
    assert set(found) == {"spans.jsonl", "spans.jsonl.1"} and max(map(len, found.values())) <= 2_000
    assert all(json.loads(line) for text in found.values() for line in text.splitlines())


def unusable(tmp_path: Path, kind: str) -> Path:
    path = tmp_path / "place" / "traces.sqlite3"
    path.parent.mkdir(mode=0o700)
    match kind:
        case "a link":
            path.symlink_to(tmp_path / "elsewhere")
        case "a folder":
            path.mkdir()
        case "no database":
            path.write_bytes(b"no database " * 100)
            path.chmod(0o600)
        case "another database":
            connection = sqlite3.connect(path)
            connection.execute("CREATE TABLE other(x)")
            connection.commit()
            connection.close()
            path.chmod(0o600)
        case "of a later version":
            connection = sqlite3.connect(path)
            connection.execute("PRAGMA user_version = 99")
            connection.close()
            path.chmod(0o600)
        case "a folder for everybody":
            path.parent.chmod(0o777)
    return path


@pytest.mark.parametrize("kind", ["a link", "a folder", "no database", "another database", "of a later version", "a folder for everybody"])
async def test_a_file_that_cannot_be_used_is_an_error_of_the_systems_start(kind: str, tmp_path: Path) -> None:
    path = unusable(tmp_path, kind)
    with pytest.raises(TraceFileUnusable, match="traces.sqlite3"):
        await asked(tracing=rt.Tracing(sqlite=path))


@pytest.mark.parametrize("kind", ["a link", "a folder", "a folder for everybody"])
async def test_the_same_goes_for_the_file_of_lines(kind: str, tmp_path: Path) -> None:
    path = unusable(tmp_path, kind)
    with pytest.raises(TraceFileUnusable, match="traces.sqlite3"):
        await asked(tracing=rt.Tracing(jsonl=path))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
async def test_a_full_disk_costs_spans_and_nothing_else_and_is_logged_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    import io

    from retinue.actors.tracing import exporting, jsonl

    def full(path: Path) -> io.FileIO:
        return io.FileIO(os.open("/dev/full", os.O_WRONLY), "wb")

    monkeypatch.setattr(jsonl, "_open", full)
    monkeypatch.setattr(exporting, "BATCH", 4)
    with caplog.at_level(logging.WARNING, "retinue.tracing"):
        await asked(30, data_dir=tmp_path, tracing=rt.Tracing(jsonl=tmp_path / "full.jsonl"))
    assert [record.message.partition(" (")[0] for record in caplog.records if "cannot be written" in record.message] == [
        f"traces cannot be written to {tmp_path / 'full.jsonl'}"
    ]
    assert "30 spans of the system 'export' could not be exported" in caplog.text
    assert len(read_spans(tmp_path)) == 30


async def test_a_database_that_somebody_holds_costs_no_more_than_the_end_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from retinue.actors.tracing import sqlite, tracer

    monkeypatch.setattr(tracer, "FLUSH_TIMEOUT", 0.2)
    monkeypatch.setattr(sqlite, "BUSY", 0.1)
    async with rt.ActorSystem("held", data_dir=tmp_path, tracing=rt.Tracing()) as system:
        await (await system.spawn(Adder)).ask(Add())
        holder = sqlite3.connect(tmp_path / "traces.sqlite3", isolation_level=None)
        holder.execute("BEGIN EXCLUSIVE")
    holder.close()


# -- the endpoint ----------------------------------------------------------------------------------------------------------------------------------------


def spans_in(asked: list[Asked]) -> list[Any]:
    """What a collector makes of the bodies: decoded by the published definition of the protocol."""
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    found = []
    for each in asked:
        request = ExportTraceServiceRequest()
        request.ParseFromString(each.body)
        found += [
            (resource.resource, scope, span)
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]
    return found


async def test_a_collector_gets_the_spans_with_the_headers(tmp_path: Path) -> None:
    with loopback(OK) as server:
        tracing = rt.Tracing(otlp=f"{server.url}/traces", headers={"Authorization": "Basic a2V5"})
        await asked(3, tracing=tracing)
        found = spans_in(server.asked)
    assert [span.name for _, _, span in found] == ["Add"] * 3
    resource, scope, span = found[0]
    assert {each.key: each.value.string_value for each in resource.attributes}["service.name"] == "export"
    assert scope.scope.name == "retinue" and scope.schema_url.startswith("https://opentelemetry.io/schemas/1.")
    assert {each.key: each.value.string_value for each in span.attributes}["retinue.path"] == "/user/adder"
    assert {(each.path, each.headers["authorization"], each.headers["content-type"]) for each in server.asked} == {
        ("/v1/traces", "Basic a2V5", "application/x-protobuf")
    }


async def test_an_endpoint_and_the_file_get_the_same_spans(tmp_path: Path) -> None:
    with loopback(OK) as server:
        await asked(3, data_dir=tmp_path, tracing=rt.Tracing(otlp=f"{server.url}/traces"))
        sent = {span.span_id.hex() for _, _, span in spans_in(server.asked)}
    assert sent == {span.id for span in read_spans(tmp_path)}


async def test_what_an_endpoint_does_not_take_for_now_is_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    from retinue.actors.tracing import otlp

    monkeypatch.setattr(otlp, "FIRST_PAUSE", 0.01)
    answers = [(503, {}, b""), (429, {"retry-after": "0"}, b"")]
    with loopback(lambda _: answers.pop(0) if answers else OK) as server:
        await asked(tracing=rt.Tracing(otlp=f"{server.url}/traces"))
        assert len(server.asked) == 3 and len(spans_in(server.asked[-1:])) == 1


async def test_what_it_refuses_for_good_is_not(caplog: pytest.LogCaptureFixture) -> None:
    with loopback((401, {}, b"who are you?")) as server, caplog.at_level(logging.WARNING, "retinue.tracing"):
        await asked(tracing=rt.Tracing(otlp=f"{server.url}/traces", headers={"x-key": "geheim"}))
        assert len(server.asked) == 1
    assert "the endpoint answered 401" in caplog.text and "geheim" not in caplog.text


async def test_a_dead_endpoint_harms_nothing_and_the_end_waits_for_it_no_longer_than_it_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    import threading

    from retinue.actors.tracing import tracer

    monkeypatch.setattr(tracer, "FLUSH_TIMEOUT", 0.3)
    leave = threading.Event()

    def hang(_: Asked) -> Answer | None:
        leave.wait(20)
        return None

    with loopback(hang) as server:
        try:
            await asked(3, data_dir=tmp_path, tracing=rt.Tracing(otlp=f"{server.url}/traces"))
        finally:
            leave.set()
    assert len(read_spans(tmp_path)) == 3 and "3 spans of the system 'export' could not be exported" in caplog.text


async def test_an_option_for_an_endpoint_is_never_silently_off(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.common.trace_encoder", None)
    with pytest.raises(rt.DefinitionError, match=r"retinue\[otlp\]"):
        rt.Tracing(otlp="http://localhost:4318/v1/traces")


async def test_odd_values_cost_no_span_wherever_they_go(tmp_path: Path) -> None:
    half = "half \ud83d of it"
    odd = {
        "text": half, half: 1, "huge": 2**80, "below": -(2**63) - 1, "largest": 2**63 - 1, "nan": float("nan"), "inf": [1.0, float("inf")],
        "texts": [half, "x"], "mixed": [1, "x"], "bytes": b"x", "empty": [], "nul": "a\0b",
    }  # fmt: skip

    class Odd(rt.Actor):
        @rt.handler
        def add(self, message: Add) -> int:
            for key, value in odd.items():
                self.ctx.span.set(key, value)
            self.ctx.span.rename(f"odd {half}")
            self.ctx.span.event(half, odd)
            self.ctx.span.content("said", [half, odd])
            self.ctx.span.mark({"count": 1, "word": half})
            self.ctx.span.count({"amount": 2**70})
            raise rt.Reject(half)

    with loopback(OK) as server:
        tracing = rt.Tracing(jsonl=tmp_path / "spans.jsonl", otlp=f"{server.url}/traces", contents=True)
        async with rt.ActorSystem("odd", data_dir=tmp_path, tracing=tracing) as system:
            ref = await system.spawn(Odd, name="odd")
            with pytest.raises(rt.Reject):
                await ref.ask(Add(), context=system.authority.mint("ada", ["*"]))
        sent = spans_in(server.asked)
    (span,) = read_spans(tmp_path)
    assert (span.name, span["text"], span["huge"], span["largest"]) == (
        "odd half \ufffd of it",
        "half \ufffd of it",
        "[int of 81 bits]",
        2**63 - 1,
    )
    assert (span["nan"], span["inf"], span["mixed"], span["texts"]) == ("nan", ["1.0", "inf"], "[list]", ["half \ufffd of it", "x"])
    assert span["amount"] == 2**63 - 1 and span.status_text == "half \ufffd of it"
    assert len(sent) == 1 and len((tmp_path / "spans.jsonl").read_text().splitlines()) == 1


# -- somebody else's provider ----------------------------------------------------------------------------------------------------------------------------


async def test_a_provider_of_ones_own_gets_the_spans_and_is_left_running(tmp_path: Path) -> None:
    memory = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(memory))
    for _ in range(2):
        await asked(data_dir=tmp_path, tracing=rt.Tracing(provider=provider))
    assert [span.name for span in memory.get_finished_spans()] == ["Add", "Add"]
    assert not (tmp_path / "traces.sqlite3").exists()


async def test_it_is_said_where_open_telemetry_itself_is_switched_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    await asked(data_dir=tmp_path, tracing=rt.Tracing())
    assert "nothing is traced, although tracing= is given" in caplog.text


async def test_the_environment_says_nothing_about_a_systems_own_traces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "OTEL_TRACES_SAMPLER": "always_off",
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:1",
        "OTEL_BSP_MAX_QUEUE_SIZE": "nonsense",
        "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": "1",
        "OTEL_RESOURCE_ATTRIBUTES": "secret=1",
    }.items():
        monkeypatch.setenv(name, value)
    await asked(data_dir=tmp_path, tracing=rt.Tracing())
    (span,) = read_spans(tmp_path)
    assert len(span.attributes) == 3


# -- options ---------------------------------------------------------------------------------------------------------------------------------------------


WRONG: dict[str, dict[str, Any]] = {
    "a number for a path": {"sqlite": 3},
    "an empty path": {"jsonl": ""},
    "a word for yes": {"contents": "yes"},
    "more than all": {"sample": 1.5},
    "no number": {"sample": float("nan")},
    "a bool for a share": {"sample": True},
    "too few": {"keep": 3},
    "no address": {"otlp": "localhost:4318"},
    "an address that is none": {"otlp": 7},
    "a password in the address": {"otlp": "http://me:secret@localhost/v1/traces"},
    "headers for nobody": {"headers": {"a": "b"}},
    "headers of numbers": {"otlp": "http://localhost/x", "headers": {"a": 1}},
    "a header with a line in it": {"otlp": "http://localhost/x", "headers": {"a": "b\r\nc: d"}},
    "two ways": {"provider": "global", "jsonl": "x"},
    "two deciders": {"provider": "global", "sample": 0.5},
    "no provider": {"provider": object()},
    "an unknown word": {"provider": "default"},
}


@pytest.mark.parametrize("options", WRONG.values(), ids=WRONG.keys())
def test_an_option_that_is_wrong_is_refused_where_it_is_written(options: dict[str, Any]) -> None:
    with pytest.raises(rt.DefinitionError, match="Tracing") as refused:
        rt.Tracing(**options)
    assert "secret" not in str(refused.value)


async def test_a_system_says_where_its_traces_would_go_nowhere() -> None:
    with pytest.raises(rt.DefinitionError, match="data_dir"):
        await asked(tracing=rt.Tracing())
    with pytest.raises(rt.DefinitionError, match="nowhere"):
        await asked(tracing=rt.Tracing(sqlite=False))
    with pytest.raises(rt.DefinitionError, match="data_dir"):
        await asked(tracing=rt.Tracing(sqlite=True, jsonl="x"))
    with pytest.raises(rt.DefinitionError, match=r"rt\.Tracing"):
        await asked(tracing=True)


def test_the_standard_variables_are_read_when_asked_for() -> None:
    environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4318/", "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Basic%20a2V5,x=1"}
    tracing = rt.Tracing.from_env(environ, contents=True)
    assert (tracing.otlp, tracing.headers, tracing.contents) == (
        "http://localhost:4318/v1/traces",
        {"authorization": "Basic a2V5", "x": "1"},
        True,
    )
    exact = rt.Tracing.from_env({**environ, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://localhost:9/t"})
    assert exact.otlp == "http://localhost:9/t"
    assert rt.Tracing.from_env({}) == rt.Tracing()


@pytest.mark.parametrize(
    "more", [{"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, {"OTEL_EXPORTER_OTLP_HEADERS": "geheim"}], ids=["grpc", "a header without a value"]
)
def test_variables_that_cannot_be_followed_are_refused_without_their_values(more: dict[str, str]) -> None:
    with pytest.raises(rt.DefinitionError, match="OTEL_EXPORTER_OTLP") as refused:
        rt.Tracing.from_env({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4318", **more})
    assert "geheim" not in str(refused.value)


def test_the_names_are_those_of_the_version_that_is_said() -> None:
    from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
    from opentelemetry.semconv.attributes import error_attributes
    from opentelemetry.semconv.schemas import Schemas

    from retinue.actors.tracing import names

    published = {value for key, value in vars(gen_ai_attributes).items() if key.startswith("GEN_AI_") and isinstance(value, str)}
    ours = {value for key, value in vars(names).items() if key.isupper() and isinstance(value, str) and value.startswith("gen_ai.")}
    assert ours <= published and error_attributes.ERROR_TYPE == names.ERROR_TYPE
    assert names.SCHEMA_URL in {each.value for each in Schemas}


async def test_both_files_of_one_system_are_not_the_same_file(tmp_path: Path) -> None:
    with pytest.raises(rt.DefinitionError, match="is the SQLite file of the same traces"):
        await asked(data_dir=tmp_path, tracing=rt.Tracing(sqlite=True, jsonl=tmp_path / "traces.sqlite3"))
