"""AgentDojo's own tasks through gate, layers and actors. Where the extra or the replay script is not here, there is nothing to replay."""

from __future__ import annotations

import os

import pytest

from housekeeping import ROOT

pytestmark = pytest.mark.slow

WAYS = ("gate", "layers", "actors")


@pytest.fixture(autouse=True)
def _benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks.agentdojo.script import Absent, check

    try:
        check()
    except Absent as error:
        pytest.skip(str(error))


def plan_of(name):
    from benchmarks.agentdojo.plans import PLANS

    return next(plan for plan in PLANS if plan.name == name)


@pytest.mark.filterwarnings("ignore")  # what other packages warn of when they are imported
def test_a_few_pairs_are_refused_the_same_way_by_the_gate_by_layers_and_by_actors():
    from benchmarks.agentdojo.replay import Unit, evaluate

    def three(name, ways=WAYS):
        found = [evaluate(Unit(plan_of(name), way, "slack"), version="v1.2.2", most=4) for way in ways]
        assert all(counts == found[0] for counts in found)
        return found[0]

    full, tools, everything = three("full"), three("tools", ("gate", "actors")), three("allow-all", ("gate", "actors"))
    assert full.users == 4
    assert full.pairs == full.refused == 16
    assert 0 < tools.refused < 16
    assert everything.refused == everything.goals_failed == 0
    assert full.done == tools.done == everything.done == 4
    assert full.questions > tools.questions == 0


def test_an_actor_that_runs_what_the_gate_refused_breaks_the_replay(monkeypatch):
    from benchmarks.agentdojo.replay import Unit, evaluate
    from benchmarks.agentdojo.script import load
    from benchmarks.harness import BrokenBlock

    load()
    from benchmarks.agentdojo import acting

    async def step(self, message):  # a planner that sends each call a second time, for luck
        executor = self.executors[type(message.call)]
        await executor.ask(message.call)
        return await executor.ask(message.call)

    monkeypatch.setattr(acting.Planner.__handlers__[acting.Step], "function", step)
    with pytest.raises(BrokenBlock, match="executors ran"):
        evaluate(Unit(plan_of("allow-all"), "actors", "slack"), version="v1.2.2", most=1)


@pytest.mark.timeout(1800)  # two minutes on a quiet machine of two cores
def test_all_pairs_and_tasks_reach_the_targets_through_gate_layers_and_actors():
    from benchmarks.agentdojo.judgement import disagreements, outcomes
    from benchmarks.agentdojo.replay import evaluate_all

    totals = evaluate_all([plan_of("full")], WAYS, version="v1.2.2", script=None, jobs=os.cpu_count() or 1)
    assert list(disagreements(totals)) == []
    assert [outcome for outcome in outcomes(totals) if not outcome.reached] == []
    assert {way for _, way in totals} == set(WAYS)
