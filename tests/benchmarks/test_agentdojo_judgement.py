"""What the AgentDojo command makes of counts, on made-up ones; and what it says where something is missing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from housekeeping import ROOT


@pytest.fixture(autouse=True)
def _benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))


def counts(**changes):
    from benchmarks.agentdojo.replay import counts_of

    raw = {"users": 97, "pairs": 949, "blk_any": 928, "blk_pred": 927, "util_human": 97, "util_strict": 75, "asks": 31, "gt_calls": 339}
    return counts_of({**raw, **changes, "t_ns": 12345})


def everything(**changes):
    return counts(blk_any=0, blk_pred=0, **changes)


def test_targets_are_reached_exactly_at_their_bounds():
    from benchmarks.agentdojo.judgement import outcomes

    totals = {("full", "gate"): counts(), ("full+4", "gate"): counts(), ("allow-all", "gate"): everything()}
    found = list(outcomes(totals))
    assert len(found) == 7
    assert all(outcome.reached for outcome in found)


@pytest.mark.parametrize(
    ("row", "change"),
    [
        ("full", {"blk_any": 927}),
        ("full", {"util_human": 96}),
        ("full", {"asks": 32}),
        ("full", {"util_strict": 74}),
        ("full", {"pairs": 948}),
        ("full", {"users": 96, "util_human": 96}),
        ("full+4", {"blk_any": 927}),
        ("allow-all", {"blk_any": 1}),
        ("allow-all", {"blk_pred": 1}),
    ],
)
def test_each_target_can_be_missed(row, change):
    from benchmarks.agentdojo.judgement import outcomes

    totals = {("full", "actors"): counts(), ("full+4", "actors"): counts(), ("allow-all", "actors"): everything()}
    totals[row, "actors"] = counts(**({"blk_any": 0, "blk_pred": 0} if row == "allow-all" else {}) | change)
    assert not all(outcome.reached for outcome in outcomes(totals))


def test_counts_that_differ_in_anything_are_a_disagreement_and_the_stopwatch_is_no_count():
    from benchmarks.agentdojo.judgement import disagreements
    from benchmarks.agentdojo.replay import Counts, counts_of

    assert list(disagreements({("full", "gate"): counts(), ("full", "actors"): counts()})) == []
    [text] = disagreements({("full", "gate"): counts(), ("full", "actors"): counts(gt_calls=340)})
    assert "gt_calls: 339 / 340" in text
    assert "full, gate / actors" in text
    assert counts_of({"asks": 1, "t_ns": 1}) == counts_of({"asks": 1, "t_ns": 2})
    assert (counts() + counts()).pairs == 2 * 949
    assert Counts() + counts() == counts()


def test_ways_that_counted_the_same_share_a_line():
    from benchmarks.agentdojo.judgement import table

    rows = table({("full", "gate"): counts(), ("full", "layers"): counts(), ("full", "actors"): counts(asks=30)})
    assert [row[1] for row in rows[1:]] == ["gate, layers", "actors"]
    assert rows[1][2] == "928 of 949 (97.8%)"


def test_extra_tools_are_drawn_alike_each_time_and_never_too_few_of_those_that_are_planned():
    from benchmarks.agentdojo.plans import PLANS

    task = SimpleNamespace(suite="slack", task_id="user_task_1", all_tools=tuple("abcdefgh"), planned_tools=frozenset("ab"))
    plans = {plan.name: plan for plan in PLANS}
    assert plans["full"].permitted(task) == ["a", "b"]
    assert plans["full+4"].permitted(task) == plans["full+4"].permitted(task)
    assert len(plans["full+4"].permitted(task)) == 6
    assert plans["allow-all"].permitted(task) == sorted("abcdefgh")
    assert set(plans["full+1"].permitted(task)) > {"a", "b"}


def test_a_missing_script_or_extra_is_said_with_what_to_do(monkeypatch, tmp_path):
    from benchmarks.agentdojo import script

    monkeypatch.setattr(script, "agentdojo_installed", lambda: True)
    with pytest.raises(script.Absent, match="--script PATH"):
        script.check(tmp_path / "nothing.py")
    monkeypatch.setattr(script, "agentdojo_installed", lambda: False)
    with pytest.raises(script.Absent, match="pip install"):
        script.check(Path(__file__))


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks", "agentdojo", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False, stdin=subprocess.DEVNULL)


def test_the_command_fails_in_one_line_where_the_script_is_missing(tmp_path):
    done = run("--script", str(tmp_path / "nothing.py"))
    assert done.returncode == 1
    assert done.stderr.startswith("Error: ")
    assert len(done.stderr.splitlines()) == 1


def test_a_part_is_never_written():
    done = run("--suite", "slack", "--write")
    assert done.returncode == 2
    assert "--write is for a whole run" in done.stderr
