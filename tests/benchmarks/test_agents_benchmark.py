"""The agents' command: its arithmetic on made-up figures, that a wrong turn and a bleed are noticed, and that it runs."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from housekeeping import ROOT


@pytest.fixture(autouse=True)
def _benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))


def timed(*rates):
    from benchmarks.harness import Timed

    return Timed(10, rates)


@pytest.mark.parametrize(("ours", "said"), [(1000.0, "reached"), (999.0, "NOT reached"), (5000.0, "reached")])
def test_turns_are_judged_against_the_best_peer_and_exactly_at_the_bound(ours, said):
    from benchmarks.agents.command import turns_table

    rows = turns_table({"retinue": timed(ours), "slow": timed(10.0), "best": timed(100.0)}, {"best": "as it is used"})
    assert [row[0] for row in rows[1:]] == ["retinue", "slow", "best: as it is used"]
    assert [row[-1] for row in rows[1:]] == ["", "", f"the best peer, ≥ 10×: {said}"]


def test_ratios_of_turns_are_formed_within_a_round():
    from benchmarks.agents.command import turns_table

    rows = turns_table({"retinue": timed(70.0, 700.0, 7.0), "peer": timed(10.0, 100.0, 1.0)}, {})
    assert rows[2][3] == "7.0× (7.0× – 7.0×)"


def test_a_token_costs_what_it_takes_over_the_bare_reading_in_the_same_round():
    from benchmarks.agents.command import tokens_table
    from benchmarks.agents.tokens import BARE, TokensResult

    result = TokensResult({BARE: timed(5.0, 5.0), "ours": timed(1.0, 1.0)}, {BARE: (2.0, 20.0), "ours": (12.0, 30.0)})
    [_, base, ours] = tokens_table(result)
    assert base[3] == "" and ours[3] == "10 (10 – 10)"


def test_sessions_are_told_by_the_session():
    from benchmarks.agents.command import sessions_table
    from benchmarks.agents.sessions import SessionsResult

    [_, row] = sessions_table([SessionsResult(1000, 2000, 3003, 10.0, 25_000, 12_500, 900.0, 256)])
    assert row == ("1,000", "2,000", "3,003", "10", "300", "900", "25", "12.5")


def test_a_turn_that_did_not_do_its_errand_is_no_figure():
    from benchmarks.agents.errand import ANSWER, Tally
    from benchmarks.harness import BrokenBlock

    tally = Tally()
    tally.completions, tally.calls = 4, 2
    tally.check("x", 2, [ANSWER, ANSWER])
    with pytest.raises(BrokenBlock, match="wrong ones such as 'Rain'"):
        tally.check("x", 2, [ANSWER, "Rain"])
    tally.calls = 1
    with pytest.raises(BrokenBlock, match="1 calls of the tool"):
        tally.check("x", 2, [ANSWER, ANSWER])


def test_a_contender_runs_apart_block_by_block_and_its_end_is_no_figure():
    from benchmarks.agents.apart import Apart
    from benchmarks.harness import BrokenBlock

    with Apart("retinue", "turn") as ours:
        assert not ours.missing and "actors" in ours.block.note
        assert ours.block.run(3) > 0 and ours.block.run(1) > 0
        ours._process.kill()
        with pytest.raises(BrokenBlock, match="process of retinue has ended"):
            ours.block.run(1)


def test_a_peer_that_is_not_installed_is_missing_and_says_why(monkeypatch, capsys):
    from benchmarks.agents import apart, command

    monkeypatch.setattr(command, "CONTENDERS", {"gone": "benchmarks.agents.no_such_peer:CONTENDER"})
    apart.main("gone", "turn", "benchmarks.agents.command")
    assert "no_such_peer" in json.loads(capsys.readouterr().out)["missing"]


def message(role, content=""):
    return {"role": role, "content": content}


@pytest.mark.parametrize(
    ("messages", "bleeds"),
    [
        ([message("user", "session 7")], 0),
        ([message("system", "x"), message("user", "session 7")], 0),
        ([message("user", "session 7"), message("assistant"), message("tool", "session 7")], 0),
        ([message("user", "session 7"), message("assistant"), message("tool", "session 8")], 1),
        ([message("user", "session 7"), message("user", "session 7")], 1),
        ([message("user", "nobody")], 1),
    ],
)
def test_the_endpoint_sees_a_bleed(messages, bleeds):
    from benchmarks.agents.server import Counts, Endpoint

    counts = Counts()
    Endpoint(counts)._answer(json.dumps({"messages": messages}).encode())
    assert counts.bleeds == bleeds


@pytest.mark.slow
def test_a_quick_run_measures_everything():
    for package in ("pydantic_ai", "agents", "autogen_agentchat"):
        pytest.importorskip(package)
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "agents", "--quick", "--sessions", "20"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    for title in ("turns of an agent", "sessions at once", "streamed tokens"):
        assert title in done.stdout
    assert all(name in done.stdout for name in ("retinue", "pydantic-ai", "openai-agents", "autogen-agentchat"))


def test_what_is_not_to_be_quoted_is_not_written():
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "agents", "--quick", "--write"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2 and "not to be quoted" in done.stderr
