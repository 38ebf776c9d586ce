"""The field's benchmark: every port of every program comes to the program's own result, at a size that takes no time. No test here judges a speed."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import traceback
from types import ModuleType

import attrs
import pytest
from click.testing import CliRunner

from housekeeping import ROOT

PROGRAMS = (
    "ping-pong",
    "counting",
    "fork-join-throughput",
    "fork-join-create",
    "thread-ring",
    "chameneos",
    "big",
    "bounded-buffer",
    "philosophers",
    "barber",
    "banking",
    "fibonacci",
)
SMALL_PORTS = ("ping-pong", "counting", "fork-join-create")


@pytest.fixture
def suite(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT))  # as `python -m benchmarks` does
    import benchmarks.savina.suite

    return benchmarks.savina.suite


def of(suite, name):
    return next(program for program in suite.BENCHMARKS if program.name == name)


def timed(seconds):
    """What a run took that there never was."""
    from benchmarks.harness import Timer

    timer = Timer()
    timer.seconds, timer.cpu_seconds = seconds, 0.5
    return timer


def test_the_twelve_programs_are_there_in_their_order(suite):
    assert tuple(program.name for program in suite.BENCHMARKS) == PROGRAMS


@pytest.mark.parametrize("contender", ["retinue", "pykka", "trio"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_port_comes_to_the_result_of_its_program(suite, name, contender):
    program = of(suite, name)
    timer, result = program.ports[contender](program.tiny)
    assert result == program.expected(program.tiny)
    assert timer.seconds > 0
    assert timer.cpu_seconds > 0


@pytest.mark.parametrize("contender", ["autogen-core", "xoscar"])
@pytest.mark.parametrize("name", SMALL_PORTS)
def test_a_port_for_a_peer_of_the_extra_comes_to_the_same(suite, name, contender):
    if importlib.util.find_spec(contender.replace("-", "_")) is None:
        pytest.skip(f"{contender} is not installed")
    program = of(suite, name)
    timer, result = suite.ports_of(program, [contender])[contender](program.tiny)
    assert result == program.expected(program.tiny)
    assert timer.seconds > 0


def test_a_result_that_is_another_one_breaks_the_run(suite):
    from benchmarks.harness import BrokenBlock
    from benchmarks.savina.benchmark import block_of

    program = of(suite, "chameneos")
    block = block_of(program, "trio", lambda size: (timed(0.1), 2 * size.meetings - 1), program.tiny, [])
    with pytest.raises(BrokenBlock, match="chameneos: trio came to 39 and not to 40"):
        block.run(program.operations(program.tiny))


@pytest.mark.parametrize("contender", ["retinue", "pykka", "trio"])
@pytest.mark.parametrize("where", ["big", "philosophers"])
def test_a_check_that_fails_in_an_actor_ends_the_run(suite, contender, where, monkeypatch):
    """It does not hang, whatever the contender makes of a failing actor."""
    import benchmarks.savina.big
    import benchmarks.savina.philosophers
    from benchmarks.harness import BrokenBlock

    def fail(*_: object) -> None:
        raise BrokenBlock("planted")

    monkeypatch.setattr(benchmarks.savina.big, "check", fail)
    monkeypatch.setattr(benchmarks.savina.philosophers.Forks, "put_back", fail)
    program = of(suite, where)
    with pytest.raises((BrokenBlock, BaseExceptionGroup)) as caught:
        program.ports[contender](program.tiny)
    assert "planted" in "".join(traceback.format_exception(caught.value))


def test_each_run_of_a_block_is_the_whole_program_however_fast_it_is(suite):
    from benchmarks.harness import calibrate
    from benchmarks.savina.benchmark import block_of

    program = of(suite, "counting")
    runs = []

    def port(size):
        runs.append(size)
        return timed(1e-6), size.messages

    cpu: list[float] = []
    count = calibrate(block_of(program, "retinue", port, program.full, cpu), 0.1)
    assert cpu == [0.5 / 200_000] * len(runs)
    assert count == program.full.messages == 200_000
    assert set(runs) == {program.full}


def test_the_parameters_are_those_of_the_reference(suite):
    full = {program.name: attrs.astuple(program.full) for program in suite.BENCHMARKS}
    assert full == {
        "ping-pong": (40_000,),
        "counting": (200_000,),
        "fork-join-throughput": (1_000, 60),
        "fork-join-create": (40_000,),
        "thread-ring": (100, 100_000),
        "chameneos": (100, 20_000),
        "big": (120, 200),
        "bounded-buffer": (50, 40, 40, 100, 1),
        "philosophers": (20, 500),
        "barber": (500, 100, 50, 50),
        "banking": (1_000, 5_000),
        "fibonacci": (18,),
    }


def test_where_a_contender_does_less_its_own_size_says_so(suite):
    for program in suite.BENCHMARKS:
        for contender, smaller in program.smaller.items():
            assert suite.size_of(program, contender, "full") == smaller
            assert program.operations(smaller) < program.operations(program.full)
        assert suite.size_of(program, "retinue", "full") is program.full
        assert suite.size_of(program, "pykka", "tiny") is program.tiny


def test_the_random_numbers_are_those_of_the_other_ports(suite):
    from benchmarks.savina.arithmetic import PseudoRandom

    random = PseudoRandom()
    value = 74755
    for _ in range(5):
        value = (value * 1309 + 13849) & 65535
        assert random.below(100) == value % 100
    value = (value * 1309 + 13849) & 65535
    assert random.fraction() == 1.0 / (value + 1)


def test_two_chameneos_of_different_colours_both_take_the_third(suite):
    from benchmarks.savina.chameneos import complement

    assert [[complement(one, other) for other in range(3)] for one in range(3)] == [[0, 2, 1], [2, 1, 0], [1, 0, 2]]
    assert complement(3, 1) == 3


def test_money_in_the_banking_program_goes_to_higher_numbers_only_and_none_is_lost(suite):
    from benchmarks.savina.banking import OPENING, Bank, balances_after, transfers

    size = Bank(100, 500)
    assert all(0 <= source < target < 100 and 0 <= amount < 1000 for source, target, amount in transfers(size))
    assert sum(balances_after(size)) == 100 * OPENING


@pytest.mark.parametrize(
    ("ours", "word"), [((90.0, 110.0, 100.0), "1.00× trio, the best peer: reached"), ((80.0, 70.0, 90.0), "0.89× trio, the best peer: NOT")]
)
def test_ours_is_judged_against_the_best_peer_round_by_round(suite, ours, word):
    from benchmarks.harness import Timed
    from benchmarks.savina.command import program_table, verdict

    program = of(suite, "ping-pong")
    rates = {"retinue": Timed(1, ours), "pykka": Timed(1, (50.0, 50.0, 50.0)), "trio": Timed(1, (90.0, 100.0, 100.0))}
    cpu = {"retinue": (1e-6, 2e-6, 4e-6), "pykka": (3e-6, 3e-6, 6e-6), "trio": (4e-6, 4e-6, 4e-6)}
    result = suite.ProgramResult(program, rates, dict.fromkeys(rates, program.full), cpu)
    assert result.cpu_margin() == ("pykka", 1.5)
    assert verdict(result).startswith(word)
    assert program_table(result)[1][:2] == ("retinue", "rounds 40,000")
    assert [row[-1] for row in program_table(result)[1:]] == ["2", "3", "4"]


def test_the_command_line_runs_a_program_and_says_what_it_came_to():
    command = [sys.executable, "-m", "benchmarks", "savina", "--quick", "--rounds", "1", "--only", "big", "--with", "retinue,trio"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    assert "trio, the best peer" in done.stdout


def test_results_of_a_part_of_the_programs_are_never_written(suite):
    from benchmarks.savina.command import savina

    refused = CliRunner().invoke(savina, ["--quick", "--write"])
    assert refused.exit_code == 2
    assert "--write is for a whole run" in refused.output
