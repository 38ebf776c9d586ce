"""The authority command: its arithmetic on made-up figures, that every block does what it is timed for, and that it runs."""

from __future__ import annotations

import subprocess
import sys

import pytest

from housekeeping import ROOT


@pytest.fixture(autouse=True)
def _benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))


def result(**targets):
    from benchmarks.authority.command import Result
    from benchmarks.authority.groups import Group
    from benchmarks.harness import Timed

    group = Group("ask", "ask", "It is asked.", "nowhere:nothing", base="off", targets=targets)
    timed = {"off": Timed(10, (1e6, 0.5e6, 0.25e6)), "on": Timed(10, (0.5e6, 0.25e6, 0.125e6))}  # 1, 2, 4 µs, and twice as much
    return Result(group, timed, {"on": "twice"})


def test_what_is_added_is_formed_within_a_round():
    from benchmarks.authority.command import table

    [head, off, on] = table(result())
    assert head[2] == "more than “off”, µs"
    assert off[1:] == ("2 (1.5 – 3)", "", "", "")
    assert on == ("on (twice)", "4 (3 – 6)", "2 (1.5 – 3)", "+100.0%", "")


@pytest.mark.parametrize(
    ("at_most", "of", "said"),
    [
        (4, "microseconds", "≤ 4 µs: reached"),
        (3.9, "microseconds", "≤ 3.9 µs: NOT reached"),
        (2, "added microseconds", "≤ +2 µs: reached"),
        (1.9, "added microseconds", "≤ +1.9 µs: NOT reached"),
        (1.0, "added share", "≤ +100%: reached"),
        (0.15, "added share", "≤ +15%: NOT reached"),
    ],
)
def test_a_target_is_reached_exactly_at_its_bound(at_most, of, said):
    from benchmarks.authority.command import table
    from benchmarks.authority.groups import Target

    assert table(result(on=Target(at_most, of)))[2][-1] == said


def test_every_target_and_base_names_a_row_of_its_table_and_every_block_checks_itself():
    from benchmarks.authority.groups import GROUPS, blocks_of

    for group in GROUPS:
        blocks = blocks_of(group)
        assert set(group.targets) <= set(blocks), group.name
        assert group.base is None or next(iter(blocks)) == group.base
        for label, block in blocks.items():
            assert block.run(3) > 0, label


def test_a_block_whose_action_gives_something_else_breaks():
    from benchmarks.authority.decisions import repeated
    from benchmarks.harness import BrokenBlock

    with pytest.raises(BrokenBlock):
        repeated(lambda: False, True).run(1)


def test_contexts_against_operations_are_counted():
    from benchmarks.authority.decisions import square

    made = square(40)
    assert (made.contexts, made.operations, made.kept) == (40, 40, 1.0)
    assert made.permitted == pytest.approx(1 / 20)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks", "authority", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False, stdin=subprocess.DEVNULL)


def test_the_command_line_measures_and_prints_tables():
    done = run("--rounds", "1", "--seconds", "0.001", "--size", "20", "--only", "contexts,square")
    assert done.returncode == 0, done.stderr
    assert 'narrow(allow("fs.read"))' in done.stdout
    assert "20 × 20" in done.stdout


def test_results_of_a_part_are_never_written():
    done = run("--only", "gate", "--write")
    assert done.returncode == 2
    assert "--write is for a whole run" in done.stderr
