"""The file of recorded runs: found, read, and refused in words where it cannot be."""

from __future__ import annotations

from pathlib import Path

from retinue.viewing.reading import TraceFile
from span_maker import Spans, team


def test_the_run_that_began_last_is_found_by_its_name_and_by_the_beginning_of_its_id(tmp_path: Path) -> None:
    spans = Spans(tmp_path)
    team(spans, "a" * 32, 0)
    team(spans, "b" * 32, 10_000)
    spans.close()
    with TraceFile(tmp_path) as file:
        assert (file.find("last"), file.find("a"), file.find(" BBB ")) == ("b" * 32, "a" * 32, "b" * 32)
        assert len(file.read("a" * 32).spans) == 6
