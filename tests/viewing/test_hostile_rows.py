"""Files of anybody's: what stands in a row can neither hide other runs nor write on the terminal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from retinue.cli import main
from retinue.viewing.reading import TraceFile
from span_maker import Spans, team

HOSTILE: dict[str, dict[str, Any]] = {
    "escapes in ids": {
        "trace_id": "\x1b]0;pwned\x07\x1b[2Jaaaaaaaaaaaaaaaaaaaa",
        "span_id": "\x1b[31m",
        "name": "\x1b[2J",
        "system": "\x1b[2J",
    },
    "a huge cost": {"attributes": f'{{"gen_ai.operation.name": "chat", "retinue.cost_micro_usd": 1{"0" * 400}}}'},
    "huge tokens": {
        "attributes": f'{{"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": {"9" * 4300}, "gen_ai.usage.output_tokens": {"9" * 4300}}}'
    },
    "no numbers": {
        "attributes": '{"gen_ai.operation.name": "chat", "a": NaN, "b": [Infinity, -Infinity, 1e999]}',
        "events": '[{"name": "x", "attributes": {"c": NaN}}]',
    },
    "deep": {"attributes": f'{{"gen_ai.operation.name": "chat", "a": {"[" * 980}{"]" * 980}}}'},
}


@pytest.mark.parametrize("name", list(HOSTILE))
def test_one_hostile_row_hides_no_run_and_writes_nothing_on_the_terminal(name: str, tmp_path: Path) -> None:
    spans = Spans(tmp_path)
    team(spans, "b" * 32, 10_000)
    for number in range(2):  # two, for sums are made of them
        spans.add("chat m", 0, 1, kind="model", raw=HOSTILE[name] if number else {**HOSTILE[name], "span_id": "0" * 16})
    spans.close()

    def not_json(text: str) -> None:
        raise AssertionError(text)

    for arguments in (
        ["runs"],
        ["runs", "--json"],
        ["show", "last"],
        *(["show", one] for one in ("aaaaaaaa", "b")),
        ["show", "a", "--json"],
        ["show", "a", "--html", str(tmp_path / "page.html")],
    ):
        result = CliRunner().invoke(main, [*arguments, "--data-dir", str(tmp_path)])
        assert result.exception is None or isinstance(result.exception, SystemExit), (arguments, result.exception)
        assert "\x1b" not in result.output and "\x07" not in result.output
        if "--json" in arguments and result.exit_code == 0:
            json.loads(result.stdout, parse_constant=not_json)
        if arguments == ["runs"]:
            assert "invoke_agent team" in result.output and len(result.output.splitlines()) == 2


def test_rows_whose_ids_are_no_texts_are_none(tmp_path: Path) -> None:
    spans = Spans(tmp_path)
    team(spans, "b" * 32, 10_000)
    for number, odd in enumerate((b"\xff\x00", None)):
        spans.add("odd", 0, 1, kind="model", raw={"trace_id": odd, "span_id": str(number)})
    spans.close()
    result = CliRunner().invoke(main, ["runs", "--data-dir", str(tmp_path)])
    assert [line[:8] for line in result.output.splitlines()] == ["bbbbbbbb"]


def test_the_list_reads_nothing_of_what_was_said(tmp_path: Path) -> None:
    spans = Spans(tmp_path)
    said = {"gen_ai.input.messages": "w" * 5_000, "gen_ai.usage.input_tokens": 5, "gen_ai.usage.output_tokens": 7}
    spans.add("chat m", 0, 1, kind="model", attributes=said)
    spans.close()
    with TraceFile(tmp_path) as file:
        assert "gen_ai.input.messages" not in file.read("a" * 32, said=False).spans[0].attributes
        assert len(file.read("a" * 32).spans[0].attributes["gen_ai.input.messages"]) == 5_000
    assert "5 → 7 tokens" in CliRunner().invoke(main, ["runs", "--data-dir", str(tmp_path)]).output
