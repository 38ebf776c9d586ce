"""The measures that the field's benchmark lacks: each contender's block checks itself and comes to an end; no test here judges a speed."""

from __future__ import annotations

from types import ModuleType

import pytest

from housekeeping import ROOT

CONTENDERS = ("retinue", "pykka", "trio")


@pytest.fixture
def suite(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT))  # as `python -m benchmarks` does
    import benchmarks.runtime.suite

    return benchmarks.runtime.suite


@pytest.mark.parametrize("contender", CONTENDERS)
def test_a_storm_of_failures_leaves_every_message_accounted_for(suite, contender):
    assert suite.MORE["crash_storm"][contender].run(2_000) > 0


@pytest.mark.parametrize("contender", CONTENDERS)
@pytest.mark.parametrize(
    "measure", [pytest.param("slow_subscriber", marks=pytest.mark.slow), pytest.param("wake_one", marks=pytest.mark.slow)]
)
def test_the_other_blocks_come_to_their_end(suite, contender, measure):
    block = suite.MORE[measure][contender]
    assert block.run(max(block.step, 20)) > 0


def test_a_storm_in_which_a_message_is_lost_or_nobody_begins_anew_breaks_the_run(suite):
    from benchmarks.harness import BrokenBlock
    from benchmarks.runtime.storms import ACTORS, Books, check

    check(Books(handled=990, births=ACTORS + 10), 1000)
    with pytest.raises(BrokenBlock, match="989 were handled"):
        check(Books(handled=989, births=ACTORS + 10), 1000)
    with pytest.raises(BrokenBlock, match="began 10 times"):
        check(Books(handled=990, births=ACTORS), 1000)


@pytest.mark.parametrize("contender", CONTENDERS)
def test_each_probe_beside_a_busy_actor_is_handled_and_timed(suite, contender):
    from benchmarks.runtime.latency import PROBES

    waits = PROBES[contender](5)
    assert len(waits) == 5
    assert all(wait > 0 for wait in waits)


def test_latencies_are_compared_round_by_round_in_an_order_that_rotates(suite, monkeypatch):
    from benchmarks import report
    from benchmarks.runtime import latency

    order = []

    def probe(label, factor):
        def run(count):
            order.append(label)
            return [factor * 0.001 * len(order)] * count

        return run

    monkeypatch.setattr(latency, "PROBES", {"retinue": probe("r", 1), "trio": probe("t", 2)})
    result = latency.latency_results(["retinue", "trio", "floor"], rounds=3, probes=10)
    assert "".join(order) == "rttrrt"
    assert [round(figure) for figure in (result.late["retinue"].median, result.late["trio"].median)] == [4, 6]
    rows = report.latency_table(result)
    assert rows[1][3:] == ("", "")
    assert rows[2][-1] == "≥ 1×: reached"


def test_every_measure_of_its_own_module_has_its_targets_among_its_contenders(suite):
    from benchmarks.runtime.measures import MEASURES

    measures = {measure.name: measure for measure in MEASURES}
    for name, blocks in suite.MORE.items():
        assert {target.against for target in measures[name].targets} == set(blocks) - {"retinue"}
        assert all(target.at_least == 1 for target in measures[name].targets), "no slower than the best of them"
