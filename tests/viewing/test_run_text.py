"""A run as text: a tree with bars, in the width that there is."""

from __future__ import annotations

from pathlib import Path

import pytest

from retinue.security.visible import columns
from retinue.viewing.reading import TraceFile
from retinue.viewing.summary import Summary, summed
from retinue.viewing.text import shown
from span_maker import ODD_ROWS, Spans, odd_row, team


def summary_of(folder: Path) -> Summary:
    with TraceFile(folder) as file:
        return summed(file.read(file.find("last")))


def test_a_run_is_drawn_with_what_went_on_at_once(tmp_path: Path) -> None:
    spans = Spans(tmp_path)
    team(spans)
    spans.close()
    assert "\n".join(shown(summary_of(tmp_path), 100)) == (
        "run aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n"
        "invoke_agent team: ok, 2027-01-15 08:00:00 UTC, 4 s\n"
        "by ada, session 0, at /user/team\n"
        "3 agent runs, 2 model calls, 1 tool call, 0 messages, 1 error\n"
        "tokens 1,212 → 200, cost $0.0042\n"
        "  model gpt-4.1: 2 calls, 4.38 s, tokens 1,212 → 200, cost $0.0042\n"
        "  agent team: 1 call, 4 s\n"
        "  agent critic: 1 call, 3.4 s, tokens 400 → 80, cost $0.0012\n"
        "  agent writer: 1 call, 2.09 s, tokens 812 → 120, cost $0.003\n"
        "  tool search: 1 call, 790 ms, 1 error\n"
        "  handed over: writer → critic: done\n"
        "\n"
        "invoke_agent team               4 s  ████████████████████████████████████████\n"
        "│  · hands over: writer → critic\n"
        "├─ invoke_agent writer       2.09 s  █████████████████████\n"
        "│  ├─ chat gpt-4.1           1.18 s  ████████████                              812 → 120 tokens, $0.003\n"
        "│  └─ execute_tool search    790 ms              ████████\n"
        "│        ✗ timeout: no answer in time\n"
        "└─ invoke_agent critic        3.4 s       ██████████████████████████████████\n"
        "   └─ chat gpt-4.1            3.2 s        ████████████████████████████████    400 → 80 tokens, $0.0012"
    )


def test_no_more_spans_are_drawn_than_are_wanted_and_the_rest_is_counted(tmp_path: Path) -> None:
    spans = Spans(tmp_path)
    team(spans)
    spans.close()
    lines = list(shown(summary_of(tmp_path), 100, most=2))
    assert lines[-1] == "… 4 more spans"
    assert "invoke_agent writer" in lines[-2]


@pytest.mark.parametrize("width", [1, 60, 80, 250])
def test_bars_begin_in_one_column_whatever_the_width_and_the_names(tmp_path: Path, width: int) -> None:
    spans = Spans(tmp_path)
    parent = spans.add("前" * 100, 0, 100)
    for number in range(80):
        parent = spans.add(f"chat {'x' * number}", 0, 100, parent=parent)
    spans.close()
    lines = [line for line in shown(summary_of(tmp_path), width) if "█" in line]
    assert len(lines) == 81
    assert len({columns(line[: line.index("█")]) for line in lines}) == 1
    assert all("chat" in line for line in lines[1:])


def test_nothing_of_a_run_writes_on_the_terminal(tmp_path: Path) -> None:
    evil = "\x1b[2J\u202egood\nbye\r\u200b"
    spans = Spans(tmp_path)
    spans.add(
        f"invoke_agent {evil}", 0, 9, kind="agent", status="error", text=evil,
        attributes={"gen_ai.agent.name": evil, "error.type": evil, "retinue.subject": evil, "retinue.path": evil, "retinue.approval.requests": [evil]},
        events=[("retinue.handoff", 1, {"retinue.handoff.source": evil, "retinue.handoff.target": evil, "retinue.handoff.reason": evil})],
    )  # fmt: skip
    spans.close()
    lines = list(shown(summary_of(tmp_path), 100, states={evil: "pending"}))
    assert all(line.isprintable() for line in lines)
    assert sum(r"\x1b[2J\u202egood\nbye\r\u200b" in line for line in lines) >= 6


def test_what_a_tool_says_of_its_failure_is_shown_where_it_was_recorded(tmp_path: Path) -> None:
    spans = Spans(tmp_path)
    root = spans.add("invoke_agent a", 0, 9, kind="agent")
    told = {
        "gen_ai.tool.name": "pay",
        "error.type": "raised",
        "gen_ai.tool.call.result": "the tool 'pay' raised KeyError: 'bob'\n" + "x" * 500,
    }
    spans.add("execute_tool pay", 1, 2, parent=root, kind="tool", status="error", attributes=told)
    spans.add("execute_tool pay", 3, 4, parent=root, kind="tool", status="error", attributes={"error.type": "raised"})
    spans.close()
    text = "\n".join(shown(summary_of(tmp_path), 100))
    assert "✗ raised: the tool 'pay' raised KeyError: 'bob'\\nxxx" in text
    assert "x" * 300 not in text
    assert text.count("✗ raised") == 2


def test_hand_overs_and_consents_are_told_in_the_head_and_at_their_place(tmp_path: Path) -> None:
    spans = Spans(tmp_path)
    spans.add(
        "invoke_agent a", 0, 9, kind="agent", status="error", attributes={"error.type": "ApprovalRequired"},
        events=[("retinue.approval.parked", 1, {"retinue.approval.requests": ["apr_1"], "retinue.run": "0/1"})],
    )  # fmt: skip
    spans.close()
    text = "\n".join(shown(summary_of(tmp_path), 100, states={"apr_1": "pending"}, others=["bbbbbbbb"]))
    assert "waits for consent, 2027" in text
    assert "consent apr_1: pending" in text
    assert "goes on, or began, in bbbbbbbb" in text
    assert "· waits for consent: apr_1" in text


def test_a_run_within_in_another_session_says_so_on_its_line(tmp_path: Path) -> None:
    spans = Spans(tmp_path)
    top = spans.add("invoke_agent m", 0, 9, kind="agent", attributes={"gen_ai.conversation.id": "0"})
    for number in (1, 2):
        piece = spans.add(
            "invoke_agent mapper", number, 8, parent=top, kind="agent", attributes={"gen_ai.conversation.id": f"0:piece-{number}\n"}
        )
        spans.add(
            "invoke_agent helper", number + 1, 7, parent=piece, kind="agent", attributes={"gen_ai.conversation.id": f"0:piece-{number}\n"}
        )
    spans.add("invoke_agent reducer", 8, 9, parent=top, kind="agent", attributes={"gen_ai.conversation.id": "0"})
    spans.close()
    lines = list(shown(summary_of(tmp_path), 100))
    lines = lines[lines.index("") + 1 :]
    assert [line.partition("  session ")[2] for line in lines] == ["", r"0:piece-1\n", "", r"0:piece-2\n", "", ""]


@pytest.mark.parametrize("name", sorted(ODD_ROWS))
def test_odd_rows_are_drawn(name: str, tmp_path: Path) -> None:
    odd_row(tmp_path, name)
    lines = list(shown(summary_of(tmp_path), 100))
    assert all(line.isprintable() for line in lines)
    assert sum("chat" in line for line in lines) >= 3
