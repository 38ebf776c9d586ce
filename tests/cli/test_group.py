"""The command itself: its list of commands, its help, both ways to start it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from retinue.cli import main
from retinue.cli.group import COMMANDS, LazyCommand, LazyGroup


def test_help_lists_every_command_with_its_summary() -> None:
    result = CliRunner().invoke(main, ["--help"])
    assert result.exit_code == 0
    for name, lazy in COMMANDS.items():
        assert f"{name} " in result.output
        assert lazy.summary in result.output


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_is_there_and_its_own_help_begins_with_the_listed_summary(name: str) -> None:
    command = main.get_command(click.Context(main), name)
    assert command is not None
    assert (command.help or "").replace("\n", " ").startswith(COMMANDS[name].summary.rstrip(".")[:20])
    result = CliRunner().invoke(main, [name, "--help"])
    assert result.exit_code == 0
    assert "Usage:" in result.output


def test_a_command_is_not_imported_until_it_is_used() -> None:
    group = LazyGroup("group", lazy={"gone": LazyCommand("no.such.module", "gone", "Never imported.")})
    result = CliRunner().invoke(group, ["--help"])
    assert result.exit_code == 0
    assert "Never imported." in result.output
    with pytest.raises(ModuleNotFoundError):
        group.get_command(click.Context(group), "gone")


def test_an_unknown_command_is_refused_with_exit_code_2() -> None:
    result = CliRunner().invoke(main, ["dmo"])
    assert result.exit_code == 2
    assert "No such command 'dmo'" in result.output


def test_the_module_and_the_installed_command_print_the_same_version(tmp_path: Path) -> None:
    import retinue

    module = [sys.executable, "-m", "retinue", "version"]
    command = [str(Path(sys.executable).with_name("retinue")), "version"]
    outputs = [
        subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60).stdout for line in (module, command)
    ]
    assert outputs[0] == outputs[1]
    assert outputs[0].startswith(f"retinue {retinue.__version__} (Python {sys.version_info[0]}.{sys.version_info[1]}")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("command", [["version"], ["doctor"], ["models", "list"]])
def test_an_output_that_takes_nothing_is_one_sentence(command: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "retinue", *command], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False
        )
    assert done.returncode == 1
    assert done.stderr.startswith("Error: the output cannot be written: ")
    assert done.stderr.count("\n") == 1


def test_a_command_that_is_none_is_told_with_the_one_that_is_like_it() -> None:
    result = CliRunner().invoke(main, ["dmeo"])
    assert result.exit_code == 2
    assert "No such command 'dmeo'. Did you mean 'demo'?" in result.output
    assert "They are: approvals, ask," in CliRunner().invoke(main, ["zzzz"]).output
