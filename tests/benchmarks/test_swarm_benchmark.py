"""The swarms' command: each contender is checked, a wrong way, a bleed and a lost span are noticed, its arithmetic on made-up figures, and that it runs."""

from __future__ import annotations

import importlib
import json
import os
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

from housekeeping import ROOT
from retinue import llm

PEERS = {
    "autogen-agentchat": "autogen_agentchat",
    "openai-agents": "agents",
    "pydantic-ai": "pydantic_ai",
}


@pytest.fixture(autouse=True)
def _benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))


def timed(*rates):
    from benchmarks.harness import Timed

    return Timed(10, rates)


# -- the way -----------------------------------------------------------------------------------------------------------------------------------------


def test_a_ring_asks_everybody_once_and_a_star_two_of_them():
    from benchmarks.swarm.walk import offered, ring, star

    assert ring(4, 7) == [0, 1, 2, 3]
    assert [star(4, number) for number in range(4)] == [[0, 1], [0, 2], [0, 3], [0, 1]]
    assert offered("ring", 3) == {0: [1], 1: [2], 2: []}
    assert offered("star", 4) == {0: [1, 2, 3], 1: [], 2: [], 3: []}


def walk():
    from benchmarks.swarm.walk import Walk

    return Walk("x", "ring", 2)


def test_a_conversation_that_goes_its_way_is_right():
    way = walk()
    for number in (1, 2):
        said = way.begin()
        assert f"message {number}" in said
        assert way.called(0, said) == 1
        assert way.called(1, f"user: {said}") is None
        way.check(way.answer)
    way.sum_up(2)


def test_the_wrong_agent_a_missing_call_and_a_wrong_answer_are_no_figure():
    from benchmarks.harness import BrokenBlock

    way = walk()
    said = way.begin()
    with pytest.raises(BrokenBlock, match="step 0 is 0's, and the model was asked by 1"):
        way.called(1, said)
    way.called(0, said)
    with pytest.raises(BrokenBlock, match="1 of 2 model calls"):
        way.check(way.answer)
    way.called(1, said)
    with pytest.raises(BrokenBlock, match="the answer was 'Hm'"):
        way.check("Hm")
    with pytest.raises(BrokenBlock, match="step 2 is nobody's"):
        way.called(0, said)
    with pytest.raises(BrokenBlock, match="2 messages were due, 1 came"):
        way.sum_up(2)


@pytest.mark.parametrize("texts", ["", "message 1 and message 2", "message 11"], ids=["none", "two", "another"])
def test_an_agent_that_hears_of_another_conversation_is_no_figure(texts):
    from benchmarks.harness import BrokenBlock

    way = walk()
    way.begin()
    with pytest.raises(BrokenBlock, match="was told of other messages than 1"):
        way.called(0, texts)


@pytest.mark.parametrize("shape", ["ring", "star"])
@pytest.mark.parametrize("kept", [False, True], ids=["forgets", "keeps"])
def test_our_swarm_goes_the_way(shape, kept, monkeypatch):
    from benchmarks.swarm import ours, walk

    monkeypatch.setattr(walk.Walk.__init__, "__defaults__", (5,))
    monkeypatch.setattr(walk.offered, "__defaults__", (5,))
    assert ours.messages(shape, kept, 3) > 0


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["ring", "star"])
@pytest.mark.parametrize("name", sorted(PEERS))
def test_a_peer_goes_the_same_way(name, shape):
    pytest.importorskip(PEERS[name])
    from benchmarks.swarm.contenders import load

    [contender], absent = load([name])
    assert not absent and contender.version != "absent"
    assert contender.blocks[shape].run(1) > 0


def test_a_peer_that_is_not_there_is_said_to_be_missing_and_ours_is_never_skipped(monkeypatch):
    from benchmarks.swarm import contenders

    monkeypatch.setattr(
        contenders, "SWARMS", {"gone": "benchmarks.swarm.no_such_peer:CONTENDER", "retinue": "benchmarks.swarm.no_such:CONTENDER"}
    )
    loaded, absent = contenders.load(["gone"])
    assert not loaded and "no_such_peer" in absent["gone"]
    with pytest.raises(ImportError):
        contenders.load(["retinue"])


# -- tracing -----------------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("measure", ["turn", "ask"])
@pytest.mark.parametrize("way", ["off", "SQLite", "JSONL", "SQLite, 1 %"])
def test_every_way_to_trace_finds_its_spans(way, measure):
    from benchmarks.swarm.traced import CONTENDERS

    assert CONTENDERS[way].blocks[measure].run(3) > 0


def put_rows(folder, names):
    with closing(sqlite3.connect(folder / "traces.sqlite3")) as file, file:
        file.execute("CREATE TABLE spans(name TEXT, parent_id TEXT)")
        file.executemany("INSERT INTO spans VALUES (?, NULL)", [(name,) for name in names])


def test_a_lost_span_is_no_figure(tmp_path):
    from benchmarks.harness import BrokenBlock
    from benchmarks.swarm.traced import Way, check_spans

    put_rows(tmp_path, ["invoke_agent a", "chat m", "chat m", "execute_tool t", "something else"])
    check_spans(Way("sqlite"), tmp_path, "turn", 1)
    with pytest.raises(BrokenBlock, match="4 spans for 2 turns of an agent, where 8 would be all"):
        check_spans(Way("sqlite"), tmp_path, "turn", 2)
    check_spans(Way(), tmp_path, "turn", 2)
    (tmp_path / "traces.jsonl").write_text(json.dumps({"name": "Ping", "parent_id": None}) + "\n", encoding="utf-8")
    check_spans(Way("jsonl"), tmp_path, "ask", 1)
    with pytest.raises(BrokenBlock, match="1 spans for 2 plain asks"):
        check_spans(Way("jsonl"), tmp_path, "ask", 2)


def test_a_share_that_is_all_is_no_figure(tmp_path):
    from benchmarks.harness import BrokenBlock
    from benchmarks.swarm.traced import Way, check_spans

    put_rows(tmp_path, ["Ping"] * 1000)
    with pytest.raises(BrokenBlock, match="a share of 0.01"):
        check_spans(Way("sqlite", 0.01), tmp_path, "ask", 1000)


def test_the_bare_copy_asks_for_no_tracer_and_works(tmp_path):
    from benchmarks.swarm.bare import FEWEST, make_bare

    bare = make_bare(tmp_path)
    assert bare.places >= FEWEST
    package = bare.path / "retinue"
    assert not any(
        "kernel.tracer is not None" in file.read_text(encoding="utf-8") for file in (package / "actors" / "runtime").glob("*.py")
    )
    said = "import retinue; from retinue.sync import ActorSystem\nwith ActorSystem() as s: print(s.spawn(retinue.Agent, model='scripted:Hi').ask('x').content, retinue.__file__)"
    done = subprocess.run(
        [sys.executable, "-c", said], env={**os.environ, "PYTHONPATH": str(bare.path)}, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["Hi", str(package / "__init__.py")]


def test_code_in_which_nothing_asks_for_a_tracer_is_said_not_to_fit(tmp_path, monkeypatch):
    from benchmarks.harness import BrokenBlock
    from benchmarks.swarm import bare

    monkeypatch.setattr(bare, "_WHERE", ())
    with pytest.raises(BrokenBlock, match="does not fit the code"):
        bare.make_bare(tmp_path)


# -- sessions ----------------------------------------------------------------------------------------------------------------------------------------


def test_many_sessions_of_a_swarm_do_not_bleed():
    from benchmarks.swarm.sessions import CALLS, measure_swarm_sessions

    result = measure_swarm_sessions(20, progress=lambda _: None)
    assert (result.sessions, result.calls) == (20, 20 * CALLS) and result.at_once > 1


@pytest.mark.parametrize("texts", [("session 7", "session 8"), ("nobody",), ("session 7", "session 7")], ids=["two", "none", "history"])
def test_the_canary_sees_a_bleed(texts):
    from benchmarks.harness import BrokenBlock
    from benchmarks.swarm.sessions import Canary

    canary = Canary()
    assert canary.seen(llm.Complete.of("session 7", system="Be kind."), frozenset({"u"})) == (7, "u")
    request = llm.Complete([llm.ChatMessage("user", text) for text in texts])
    with pytest.raises(BrokenBlock, match="a bleed"):
        canary.seen(request, frozenset({"u"}))
    assert canary.calls == 2


# -- tables and the command --------------------------------------------------------------------------------------------------------------------------


def test_ratios_of_swarms_are_formed_within_a_round_and_calls_are_told_by_the_call():
    from benchmarks.swarm.command import swarm_table

    rows = swarm_table(
        "ring", {"retinue": timed(7.0, 70.0, 0.7), "retinue, sessions": timed(1.0, 1.0, 1.0), "peer": timed(1.0, 10.0, 0.1)}, {"peer": "so"}
    )
    assert [row[0] for row in rows[1:]] == ["retinue", "retinue, sessions", "peer: so"]
    assert [row[3] for row in rows[1:]] == ["", "", "7.0× (7.0× – 7.0×)"]
    assert rows[3][2] == "10,000"


def test_tracing_is_told_over_off():
    from benchmarks.swarm.command import traced_table
    from benchmarks.swarm.traced import BARE, OFF

    rows = traced_table({BARE: timed(1000.0), OFF: timed(1000.0), "SQLite": timed(500.0)}, {BARE: "b", OFF: "o", "SQLite": "s"})
    assert [row[3:] for row in rows[1:]] == [("1.00× (1.00× – 1.00×)", "0"), ("", ""), ("2.00× (2.00× – 2.00×)", "1,000")]


def test_sessions_of_a_swarm_are_told_by_the_session():
    from benchmarks.swarm.command import sessions_table
    from benchmarks.swarm.sessions import SwarmSessions

    [_, row] = sessions_table([SwarmSessions(1000, 5000, 250, 10.0, 400.0, 45_000, 41_000)])
    assert row == ("1,000", "5,000", "0", "250", "10", "400", "45", "41")


def test_the_process_of_a_peer_has_nothing_of_ours_in_it():
    said = "import sys, benchmarks.agents.apart, benchmarks.swarm.contenders, benchmarks.swarm.walk; print([name for name in sys.modules if name.startswith(('retinue', 'trio'))])"
    done = subprocess.run([sys.executable, "-c", said], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.slow
def test_a_quick_run_of_swarms_measures_everything():
    for package in PEERS.values():
        pytest.importorskip(package)
    command = [sys.executable, "-m", "benchmarks", "swarm", "--quick", "--sessions", "20"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for title in (
        "a ring of 100 agents",
        "a star of 100 agents",
        "tracing, turns of an agent",
        "tracing, plain asks",
        "sessions of a swarm at once",
    ):
        assert title in done.stdout
    assert all(name in done.stdout for name in ("retinue", *PEERS))


@pytest.mark.parametrize("arguments", [["--quick"], ["--only", "star"]], ids=["quick", "part"])
def test_what_is_not_a_whole_run_of_swarms_is_not_written(arguments):
    command = importlib.import_module("benchmarks.__main__").main
    from click.testing import CliRunner

    done = CliRunner().invoke(command, ["swarm", *arguments, "--write"])
    assert done.exit_code == 2 and "not to be quoted" in done.output
