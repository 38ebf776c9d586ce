"""What a run adds up to, and that what is not known is never 0."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from retinue.viewing.data import data_of, summary_data
from retinue.viewing.reading import TraceFile
from retinue.viewing.summary import Line, Summary, summed
from retinue.viewing.words import cost, dollars, length, moment, status_words, tokens
from span_maker import Spans, model, team

MS = 1_000_000


def summary_of(folder: Path, run: str = "last") -> Summary:
    with TraceFile(folder) as file:
        return summed(file.read(file.find(run)))


def test_a_run_is_summed_up(tmp_path: Path) -> None:
    spans = Spans(tmp_path)
    team(spans)
    spans.close()
    summary = summary_of(tmp_path)
    assert (summary.status, summary.duration_ns, summary.errors, summary.messages) == ("ok", 4000 * MS, 1, 0)
    assert (summary.models.calls, summary.tools.calls, summary.agents.calls) == (2, 1, 3)
    assert (summary.models.input_tokens, summary.models.output_tokens, summary.models.cost) == (1212, 200, 4200)
    assert [(line.name, line.calls, line.errors) for line in summary.by_tool] == [("search", 1, 1)]
    assert [line.name for line in summary.by_agent] == ["team", "critic", "writer"]
    assert [(one.source, one.target, one.reason) for one in summary.handoffs] == [("writer", "critic", "done")]


def test_each_model_call_is_that_agents_who_made_it_so_that_the_agents_add_up_to_the_run(tmp_path: Path) -> None:
    spans = Spans(tmp_path)
    top = team(spans)
    model(spans, 3950, 3990, top, tokens=(5, 1), cost=None)
    within = spans.add("Note", 3950, 3960, parent=top)
    model(spans, 3951, 3959, within, tokens=(7, 2), cost=9)
    spans.close()
    summary = summary_of(tmp_path)
    found = {line.name: (line.calls, line.model_calls, tokens(line), cost(line)) for line in summary.by_agent}
    assert found == {
        "team": (1, 2, "12 → 3", "≥ $0.000009"),
        "writer": (1, 1, "812 → 120", "$0.003"),
        "critic": (1, 1, "400 → 80", "$0.0012"),
    }
    data = data_of(summary)
    for name in ("input_tokens", "output_tokens", "cost_micro_usd", "model_calls"):
        assert sum(line[name] for line in data["by_agent"]) == data[name]


def test_tokens_and_cost_that_a_run_repeats_of_its_calls_are_counted_once(tmp_path: Path) -> None:
    spans = Spans(tmp_path)
    top = spans.add("invoke_agent a", 0, 9, kind="agent", attributes={"gen_ai.usage.input_tokens": 100, "retinue.cost_micro_usd": 250})
    model(spans, 1, 2, top)
    spans.close()
    assert (summary_of(tmp_path).models.input_tokens, summary_of(tmp_path).models.cost) == (100, 250)


@pytest.mark.parametrize(
    ("calls", "tokens_said", "cost_said", "data"),
    [
        ([((5, 1), 10), ((5, 1), 20)], "10 → 2", "$0.00003", (10, 2, True, 30, True)),
        ([((5, 1), 0)], "5 → 1", "$0", (5, 1, True, 0, True)),
        ([((5, 1), None)], "5 → 1", "?", (5, 1, True, None, False)),
        ([((5, 1), 10), (None, None)], "≥ 5 → 1", "≥ $0.00001", (5, 1, False, 10, False)),
        ([(None, None)], "?", "?", (None, None, False, None, False)),
    ],
    ids=["known", "nothing", "no-price", "in-part", "unknown"],
)  # fmt: skip
def test_what_is_not_known_of_tokens_and_cost_is_never_nothing(
    tmp_path: Path, calls: list[Any], tokens_said: str, cost_said: str, data: tuple[Any, ...]
) -> None:
    spans = Spans(tmp_path)
    top = spans.add("invoke_agent a", 0, 9, kind="agent")
    for used, price in calls:
        model(spans, 1, 2, top, tokens=used, cost=price)
    spans.close()
    summary = summary_of(tmp_path)
    assert (tokens(summary.models), cost(summary.models)) == (tokens_said, cost_said)
    found = summary_data(summary)
    assert tuple(found[name] for name in ("input_tokens", "output_tokens", "tokens_complete", "cost_micro_usd", "cost_complete")) == data


def test_a_run_whose_first_span_is_not_there_has_not_ended(tmp_path: Path) -> None:
    spans = Spans(tmp_path)
    spans.add("chat m", 5, 6, parent="f" * 16, kind="model")
    spans.add("chat m", 7, 8, parent="f" * 16, kind="model")
    spans.close()
    summary = summary_of(tmp_path)
    assert (summary.status, len(summary.roots)) == ("unfinished", 2)


def test_a_run_that_another_program_caused_ends_with_its_own_span(tmp_path: Path) -> None:
    spans = Spans(tmp_path)
    spans.add("invoke_agent a", 0, 9, parent="f" * 16, kind="agent", attributes={"retinue.parent": "remote"})
    spans.close()
    assert summary_of(tmp_path).status == "ok"


def test_a_first_span_without_an_end_has_not_ended(tmp_path: Path) -> None:
    spans = Spans(tmp_path)
    spans.add("invoke_agent a", 0, None, kind="agent")
    spans.close()
    summary = summary_of(tmp_path)
    assert (summary.status, summary.duration_ns, length(summary.duration_ns)) == ("unfinished", None, "?")


def parked(folder: Path, *, resumed: bool = False, error: str = "ApprovalRequired") -> Summary:
    spans = Spans(folder)
    events: list[Any] = [("retinue.approval.parked", 5, {"retinue.approval.requests": ["apr_1", "apr_2"], "retinue.run": "0/1"})]
    if resumed:
        events.append(("retinue.approval.resumed", 6, {"retinue.approval.requests": ["apr_1", "apr_2"]}))
    spans.add("invoke_agent a", 0, 9, kind="agent", status="error", attributes={"error.type": error}, events=events)
    spans.close()
    return summary_of(folder)


def test_a_run_that_waits_for_a_person_says_for_what(tmp_path: Path) -> None:
    summary = parked(tmp_path)
    assert (summary.status, summary.waiting, summary.runs) == ("waits", ("apr_1", "apr_2"), ("0/1",))
    assert status_words(summary, {}) == status_words(summary, {"apr_1": "approved"}) == "waits for consent"
    assert "decided" in status_words(summary, {"apr_1": "approved", "apr_2": "rejected"})


def test_a_run_that_went_on_waits_no_more(tmp_path: Path) -> None:
    summary = parked(tmp_path, resumed=True, error="")
    assert (summary.status, summary.waiting) == ("error", ())


def test_a_parked_run_that_failed_for_another_reason_has_failed(tmp_path: Path) -> None:
    assert parked(tmp_path, error="RunLimitReached").status == "error"


def test_a_hand_over_that_the_team_tells_of_too_is_one_and_the_next_is_another(tmp_path: Path) -> None:
    def over(source: str, target: str, at: float, reason: str = "") -> Any:
        return "retinue.handoff", at, {"retinue.handoff.source": source, "retinue.handoff.target": target, "retinue.handoff.reason": reason}

    spans = Spans(tmp_path)
    top = spans.add("invoke_agent team", 0, 9, kind="agent", events=[over("a", "b", 2, "why"), over("b", "a", 4), over("a", "b", 6)])
    for at, source, target in ((1, "a", "b"), (3, "b", "a"), (5, "a", "b")):
        spans.add(f"invoke_agent {source}", at, at + 0.9, parent=top, kind="agent", events=[over(source, target, at + 0.5)])
    spans.close()
    assert [(one.source, one.target, one.reason) for one in summary_of(tmp_path).handoffs] == [
        ("a", "b", "why"),
        ("b", "a", ""),
        ("a", "b", ""),
    ]


def test_very_many_names_share_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("retinue.viewing.summary._MOST_NAMES", 3)
    spans = Spans(tmp_path)
    for number in range(10):
        spans.add("execute_tool t", number, number + 1, kind="tool", attributes={"gen_ai.tool.name": f"t{number}"})
    spans.close()
    assert {line.name: line.calls for line in summary_of(tmp_path).by_tool} == {"t0": 1, "t1": 1, "t2": 1, "(others)": 7}


def test_the_data_has_every_span_in_its_place(tmp_path: Path) -> None:
    spans = Spans(tmp_path)
    top = team(spans)
    spans.close()
    data = data_of(summary_of(tmp_path), {})
    assert [(one["depth"], one["name"]) for one in data["tree"]] == [
        (0, "invoke_agent team"), (1, "invoke_agent writer"), (2, "chat gpt-4.1"), (2, "execute_tool search"),
        (1, "invoke_agent critic"), (2, "chat gpt-4.1"),
    ]  # fmt: skip
    assert data["tree"][1]["parent"] == top
    assert data["by_model"][0]["cost_micro_usd"] == 4200


@pytest.mark.parametrize(
    ("ns", "said"),
    [
        (0, "0 µs"), (1_499, "1 µs"), (999_400, "999 µs"), (999_600, "1 ms"), (12_345_678, "12.3 ms"), (999_600_000, "1 s"), (59_990_000_000, "60 s"),
        (60_000_000_000, "1 m 00 s"), (3_599_600_000_000, "1 h 00 m"), (90_000_000_000_000, "25 h 00 m"), (None, "?"),
    ],
)  # fmt: skip
def test_lengths_of_time_are_said_in_fitting_units(ns: int | None, said: str) -> None:
    assert length(ns) == said


@pytest.mark.parametrize(
    ("micro", "said"),
    [(0, "$0"), (1, "$0.000001"), (4200, "$0.0042"), (999_999, "$0.999999"), (1_250_000, "$1.25"), (10**10, "$10,000.00")],
)
def test_amounts_are_said_in_dollars(micro: int, said: str) -> None:
    assert dollars(micro) == said


def test_a_time_that_no_calendar_reaches_is_not_known() -> None:
    assert (moment(2**62), moment(2**80), moment(1_800_000_000 * 10**9)) == ("2116-02-20 23:53:38", "?", "2027-01-15 08:00:00")


def test_without_a_call_nothing_was_used() -> None:
    assert (tokens(Line("")), cost(Line(""))) == ("0 → 0", "$0")
