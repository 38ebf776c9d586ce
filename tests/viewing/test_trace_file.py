"""The file of recorded runs: found, read, and refused in words where it cannot be."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from retinue.viewing import reading
from retinue.viewing.errors import TraceFileError
from retinue.viewing.reading import FILE, TraceFile
from span_maker import ODD_ROWS, Spans, odd_row, team


def test_a_run_is_found_by_any_beginning_of_its_id_and_the_latest_by_a_word(tmp_path: Path) -> None:
    spans = Spans(tmp_path)
    team(spans, "a" * 32, 0)
    team(spans, "b" * 32, 10_000)
    spans.close()
    with TraceFile(tmp_path) as file:
        assert (file.find("last"), file.find("a"), file.find(" BBB ")) == ("b" * 32, "a" * 32, "b" * 32)
        assert len(file.read("a" * 32).spans) == 6


def test_an_id_that_several_runs_begin_with_is_refused_with_beginnings_that_are_theirs_alone(tmp_path: Path) -> None:
    spans = Spans(tmp_path)
    for end in "12":
        team(spans, "abcdef0123456789" + end * 16)
    spans.close()
    with TraceFile(tmp_path) as file:
        with pytest.raises(TraceFileError, match="2 runs begin with 'abc': abcdef01234567891, abcdef01234567892") as caught:
            file.find("abc")
        assert caught.value.reason == "unknown"
        assert file.find("abcdef01234567892") == "abcdef0123456789" + "2" * 16


def test_an_id_that_is_the_beginning_of_a_longer_one_is_itself(tmp_path: Path) -> None:
    spans = Spans(tmp_path)
    spans.add("one", 0, 1, trace="abcdabcd")
    spans.add("two", 0, 1, trace="abcdabcdabcd")
    spans.close()
    with TraceFile(tmp_path) as file:
        assert file.find("abcdabcd") == "abcdabcd"
        assert (file.short("abcdabcd"), file.short("abcdabcdabcd")) == ("abcdabcd", "abcdabcda")


@given(st.sets(st.text("ab", min_size=7, max_size=14), min_size=1, max_size=30))
@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_short_form_of_an_id_is_the_shortest_that_no_other_begins_with(tmp_path: Path, ids: set[str]) -> None:
    with TemporaryDirectory(dir=tmp_path) as folder:
        spans = Spans(Path(folder))
        for one in ids:
            spans.add("one", 0, 1, trace=one)
        spans.close()
        with TraceFile(Path(folder)) as file:
            for one in ids:
                unique = [one[:size] for size in range(8, len(one)) if not any(other.startswith(one[:size]) for other in ids - {one})]
                assert file.short(one) == (unique or [one])[0]


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        ("abcdef02", "Did you mean abcdef01?"),
        ("zz", "`retinue runs` lists them"),
        ("", "`retinue runs` lists them"),
        ("%", "`retinue runs`"),
    ],
)
def test_an_unknown_run_is_refused_with_the_one_that_is_like_it(tmp_path: Path, wanted: str, says: str) -> None:
    spans = Spans(tmp_path)
    team(spans, "abcdef01" * 4)
    spans.close()
    with TraceFile(tmp_path) as file, pytest.raises(TraceFileError) as caught:
        file.find(wanted)
    assert caught.value.reason == "unknown"
    assert says in str(caught.value)


def test_runs_are_listed_the_latest_first_and_those_of_messages_alone_only_where_they_are_asked_for(tmp_path: Path) -> None:
    spans = Spans(tmp_path)
    team(spans, "a" * 32, 0)
    team(spans, "b" * 32, 5_000)
    spans.add("Since", 9_000, 9_001, trace="c" * 32)
    spans.close()
    with TraceFile(tmp_path) as file:
        assert file.latest(0) == (["b" * 32, "a" * 32], 1)
        assert file.latest(1) == (["b" * 32], 1)
        assert file.latest(2, plain=True) == (["c" * 32, "b" * 32], 0)
        assert file.find("last") == "b" * 32


def test_where_there_are_only_runs_of_messages_they_are_listed(tmp_path: Path) -> None:
    spans = Spans(tmp_path)
    spans.add("Since", 0, 1, trace="c" * 32)
    spans.close()
    with TraceFile(tmp_path) as file:
        assert file.latest(0) == (["c" * 32], 0)


def test_a_run_is_read_while_a_writer_goes_on(tmp_path: Path) -> None:
    spans = Spans(tmp_path)
    team(spans)
    spans.connection.commit()
    with TraceFile(tmp_path) as file:
        assert len(file.read("a" * 32).spans) == 6
        spans.add("more", 4000, 4001)
        assert len(file.read("a" * 32).spans) == 6  # not before it is committed
        spans.connection.commit()
        assert len(file.read("a" * 32).spans) == 7
    spans.close()


def test_more_spans_than_are_read_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MOST_SPANS", 4)
    spans = Spans(tmp_path)
    team(spans)
    spans.close()
    with TraceFile(tmp_path) as file:
        trace = file.read("a" * 32)
    assert (len(trace.spans), trace.left_out) == (4, 2)


def test_the_other_traces_of_a_parked_run_are_found(tmp_path: Path) -> None:
    spans = Spans(tmp_path)
    spans.add("invoke_agent a", 0, 1, trace="a" * 32, attributes={"retinue.run": "0/17"})
    spans.add("invoke_agent a", 5, 6, trace="b" * 32, events=[("retinue.approval.resumed", 5, {"retinue.run": "0/17"})])
    spans.add("invoke_agent a", 7, 8, trace="c" * 32, attributes={"retinue.run": "0/18"})
    spans.close()
    with TraceFile(tmp_path) as file:
        assert file.others_of("0/17", "a" * 32) == ["b" * 32]
        assert file.others_of("0/17", "b" * 32) == ["a" * 32]


def absent(path: Path) -> None:
    path.unlink()


def empty(path: Path) -> None:
    path.write_bytes(b"")


def of_something_else(path: Path) -> None:
    path.unlink()
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE people(name)")
    connection.close()


def with_other_columns(path: Path) -> None:
    path.unlink()
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE spans(trace_id, span_id)")
    connection.close()


def newer(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 2")
    connection.close()


def no_database(path: Path) -> None:
    path.write_bytes(b"Once upon a time there was a file. " * 200)


def torn(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[4096:] = os.urandom(len(data) - 4096)
    path.write_bytes(data)


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize(
    ("harm", "reason", "says"),
    [
        (absent, "missing", "no run was recorded there"),
        (empty, "empty", "has no run yet"),
        (of_something_else, "damaged", "database of something else"),
        (with_other_columns, "damaged", "lacks parent_id"),
        (newer, "newer", "pip install -U retinue"),
        (no_database, "damaged", "file is not a database"),
        (torn, "damaged", "damaged"),
        (a_folder, "damaged", "no plain file"),
        (a_pipe, "damaged", "no plain file"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_file_that_cannot_be_used_is_refused_with_the_reason(
    tmp_path: Path, harm: Callable[[Path], None], reason: str, says: str
) -> None:
    spans = Spans(tmp_path)
    team(spans)
    spans.close()
    harm(tmp_path / FILE)
    with pytest.raises(TraceFileError) as caught:
        with TraceFile(tmp_path) as file:
            file.read(file.find("last"))
    assert caught.value.reason == reason
    assert says in str(caught.value)
    assert str(tmp_path) in str(caught.value)


def test_a_file_that_is_missing_says_how_runs_are_recorded(tmp_path: Path) -> None:
    with pytest.raises(TraceFileError, match=r"--trace .*tracing=rt\.Tracing\(\)"):
        TraceFile(tmp_path)


def test_a_writer_that_holds_the_file_is_not_waited_for_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "BUSY_TIMEOUT", 0.05)
    spans = Spans(tmp_path)
    team(spans)
    spans.connection.commit()
    spans.connection.execute("PRAGMA journal_mode = DELETE")
    spans.connection.execute("BEGIN EXCLUSIVE")
    with pytest.raises(TraceFileError, match=r"longer than 0\.05 s") as caught:
        TraceFile(tmp_path)
    assert caught.value.reason == "busy"
    spans.close()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_of_another_user_is_refused(tmp_path: Path) -> None:
    spans = Spans(tmp_path)
    team(spans)
    spans.close()
    (tmp_path / FILE).chmod(0)
    with pytest.raises(TraceFileError) as caught:
        TraceFile(tmp_path)
    assert caught.value.reason == "forbidden"


def test_a_file_that_may_not_be_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spans = Spans(tmp_path)
    team(spans)
    spans.close()
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.R_OK)
    with pytest.raises(TraceFileError, match="its owner's alone") as caught:
        TraceFile(tmp_path)
    assert caught.value.reason == "forbidden"


def test_a_file_in_a_folder_that_nobody_may_write_is_read_and_gets_no_files_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "odd?name#1 %41"
    spans = Spans(folder)
    team(spans)
    spans.close()
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
    with TraceFile(folder) as file:
        assert len(file.read("a" * 32).spans) == 6
        assert [path.name for path in folder.iterdir()] == [FILE]


@pytest.mark.parametrize("name", sorted(ODD_ROWS))
def test_an_odd_row_is_a_span_and_hides_no_other(name: str, tmp_path: Path) -> None:
    odd_row(tmp_path, name)
    with TraceFile(tmp_path) as file:
        assert len(file.read(file.find("last")).spans) == 8


def test_what_is_too_large_in_a_row_is_left_out_and_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MOST_ATTRIBUTE_CHARACTERS", 1000)
    spans = Spans(tmp_path)
    spans.add("large", 0, 1, attributes={"a": "x" * 2000}, events=[("e", 0, {"a": "y" * 2000})])
    spans.close()
    with TraceFile(tmp_path) as file:
        (span,) = file.read("a" * 32).spans
    assert (span.attributes, span.events, len(span.notes)) == ({}, (), 2)
