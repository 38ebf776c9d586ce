"""The benchmarks' own arithmetic, on made-up blocks (no test here judges a speed), and that the command line runs."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType

import pytest

from housekeeping import ROOT


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT))  # as `python -m benchmarks` does
    import benchmarks.harness

    return benchmarks.harness


@pytest.fixture
def report(harness: ModuleType) -> ModuleType:
    import benchmarks.report

    return benchmarks.report


def test_every_block_runs_once_a_round_in_an_order_that_rotates(harness):
    order = []

    def block(label):
        def run(count):
            order.append(label)
            return count * 0.01

        return harness.Block(run)

    timed = harness.interleave({label: block(label) for label in "abc"}, rounds=4, seconds=0.1)
    assert "".join(order[-12:]) == "abc" + "bca" + "cab" + "abc"
    assert all(result.rates == pytest.approx([100.0] * 4) and result.count == 10 for result in timed.values())


def test_a_ratio_is_untouched_by_a_machine_that_slows_down_between_rounds(harness):
    calls = {"ours": 0, "theirs": 0}

    def block(label, seconds_each):
        def run(count):
            calls[label] += 1
            return count * seconds_each * calls[label] ** 2  # slower and slower

        return harness.Block(run, most=1)

    timed = harness.interleave({"ours": block("ours", 0.1), "theirs": block("theirs", 1.0)}, rounds=5, seconds=0.1)
    assert harness.ratios(timed["ours"].rates, timed["theirs"].rates) == pytest.approx([10.0] * 5)
    assert harness.spread(timed["ours"].rates).high > 2 * harness.spread(timed["ours"].rates).low


@pytest.mark.parametrize(
    ("step", "most", "expected"),
    [(1, float("inf"), 1000), (300, float("inf"), 900), (1, 50, 50), (5000, float("inf"), 5000), (100, 250, 200)],
)
def test_a_block_is_as_long_as_asked_for_within_its_steps_and_its_bound(harness, step, most, expected):
    assert harness.calibrate(harness.Block(lambda count: count * 1e-4, step=step, most=most), 0.1) == expected


def test_quartiles_surround_the_median_and_one_figure_is_enough(harness):
    assert harness.spread([5.0, 1.0, 3.0, 2.0, 4.0]) == harness.Spread(3.0, 2.0, 4.0)
    assert harness.spread([7.0]) == harness.Spread(7.0, 7.0, 7.0)


def test_the_collectors_thresholds_are_put_back(harness):
    import gc

    before = gc.get_threshold()
    with harness.gc_policy("tuned"):
        assert gc.get_threshold() != before
    assert gc.get_threshold() == before


@pytest.mark.parametrize(("ratio", "word"), [(14.9, "≥ 25×: NOT reached"), (15.0, "≥ 25×: reached"), (25.0, "stretch reached")])
def test_a_target_is_reached_or_not_and_says_so(report, ratio, word):
    from benchmarks.runtime.measures import Target

    assert report.verdict(Target("pykka", 15, 25), ratio).endswith(word)


def test_every_target_names_a_contender_and_a_measure_that_exist(harness):
    from benchmarks.runtime.measures import IDLE, MEASURES
    from benchmarks.runtime.suite import CONTENDERS, OURS

    names = {measure.name for measure in MEASURES}
    for measure in MEASURES:
        for target in measure.targets:
            contender, _, other = target.against.partition(":")
            assert contender in CONTENDERS
            assert not other or (contender == OURS and other in names)
    assert {idle.contender for idle in IDLE} <= set(CONTENDERS)


def test_a_result_shows_rates_ratios_and_verdicts_in_the_markdown(report):
    from benchmarks.harness import Timed
    from benchmarks.runtime.measures import Idle, Measure, Target
    from benchmarks.runtime.suite import IdleResult, MeasureResult

    measure = Measure("ask", "ask", "asks", "It is asked.", (Target("pykka", 15),))
    timed = {"retinue": Timed(100, (3000.0, 2000.0, 1000.0)), "pykka": Timed(10, (150.0, 100.0, 50.0))}
    idle = IdleResult(Idle("retinue", 1_000_000, bytes_each=700, total=700_000_000), grown=650_000_000, total=701_000_000)
    text = report.markdown({"date": "2026-11-29"}, "So it was done.", [MeasureResult(measure, timed, {})], [idle])
    assert "| pykka | 100 (75 – 125) | 20.0× (20.0× – 20.0×) | ≥ 15×: reached |" in text
    assert "| retinue, 1,000,000 | resident | 650 | 701 | ≤ 700 bytes: reached; ≤ 700 MB: NOT reached |" in text


def test_a_block_that_lost_a_message_breaks_the_run(harness, monkeypatch):
    from benchmarks.runtime import floor

    monkeypatch.setitem(floor.HANDLERS, floor.Add, lambda actor, message: 0)
    with pytest.raises(harness.BrokenBlock, match="0 of 10"):
        floor.ask(10)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks", "runtime", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False, stdin=subprocess.DEVNULL)


@pytest.mark.slow
def test_the_command_line_measures_and_prints_a_table():
    done = run("--with", "trio,floor", "--only", "ask,cancel", "--rounds", "1", "--seconds", "0.001")
    assert done.returncode == 0, done.stderr
    assert "ask, plain handler" in done.stdout
    assert "floor" in done.stdout


def test_results_of_a_part_are_never_written():
    done = run("--quick", "--write")
    assert done.returncode == 2
    assert "--write is for a whole run" in done.stderr
