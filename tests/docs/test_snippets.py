"""Every program and command that the README and the pages of docs/ show is run, or at least checked against the project."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from fork_server import ForkServer
from housekeeping import ROOT, pyproject
from retinue.cli.group import main
from snippets import Snippet, commands, snippets

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
ALL = [snippet for page in PAGES for snippet in snippets(page, page.read_text(encoding="utf-8"))]
PROGRAMS = [snippet for snippet in ALL if snippet.language == "python"]
COMMANDS = [(snippet, command, output) for snippet in ALL if snippet.language != "python" for command, output in commands(snippet)]


def place(snippet: Snippet) -> str:
    return f"{snippet.path.relative_to(ROOT)}:{snippet.line}"


def environ() -> dict[str, str]:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    return {**os.environ, "PATH": path, "NO_COLOR": "1", "COLUMNS": "100"}


def execute(arguments: list[str], folder: Path) -> str:
    done = subprocess.run(
        arguments, cwd=folder, env=environ(), capture_output=True, text=True, check=False, timeout=120, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, f"{shlex.join(arguments)}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def forks() -> Iterator[ForkServer]:
    """What runs programs without loading the libraries for each."""
    server = ForkServer(environ())
    yield server
    server.close()


@pytest.mark.parametrize("snippet", PROGRAMS, ids=place)
def test_the_program_runs_and_prints_what_is_shown(snippet: Snippet, tmp_path: Path, forks: ForkServer) -> None:
    program = tmp_path / "snippet.py"
    program.write_text(snippet.code, encoding="utf-8")
    done = forks.run(program, tmp_path)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    if snippet.output is not None:
        assert done.stdout.strip() == snippet.output.strip()


@pytest.mark.parametrize(
    ("code", "exit_code", "out", "err"),
    [
        ("import sys\nprint(__name__, sys.argv == [__file__], sys.stdin.read() == '')", 0, "__main__ True True", ""),
        ("raise SystemExit(7)", 7, "", ""),
        ("print('so far')\nraise LookupError('gone')", 1, "so far", "LookupError: gone"),
        ("import threading\nthreading.Timer(0.05, print, ['late']).start()", 0, "late", ""),
        ("import atexit\natexit.register(print, 'at the end')", 0, "at the end", ""),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", -9, "", ""),
        ("import retinue as rt\nrt.gateway.Gateway", 1, "", "has no attribute 'gateway'"),
        ("import threading\nprint(threading.active_count(), threading.current_thread() is threading.main_thread())", 0, "1 True", ""),
    ],
)
def test_a_forked_program_ends_as_any_does(forks: ForkServer, tmp_path: Path, code: str, exit_code: int, out: str, err: str) -> None:
    program = tmp_path / "program.py"
    program.write_text(code, encoding="utf-8")
    done = forks.run(program, tmp_path)
    assert (done.returncode, done.stdout.strip()) == (exit_code, out), done.stderr
    assert err in done.stderr


@pytest.mark.parametrize(
    ("snippet", "command", "output"), COMMANDS, ids=[f"{place(snippet)} {command}" for snippet, command, _ in COMMANDS]
)
def test_the_command_works(snippet: Snippet, command: str, output: str) -> None:
    printed = "".join(check_command(shlex.split(part)) for part in command.split("&&"))
    for line in output.splitlines():
        assert line.strip() in printed, f"{place(snippet)}: not printed: {line}"


def check_command(words: list[str]) -> str:
    """Run the command where it is quick and changes nothing; else check that what it names exists. Returns what it printed."""
    match words:
        case ["pip", "install", *wanted]:
            check_installation(wanted)
        case ["pytest", *options]:
            execute([sys.executable, "-m", "pytest", "--collect-only", "-q", *options, "tests/house/test_layout.py"], ROOT)
        case ["retinue", ("chat" | "demo" | "models") as name, *_]:  # they may fetch and load a model: tests/cli runs them
            return execute([sys.executable, "-m", "retinue", name, "--help"], ROOT)
        case ["retinue", ("serve" | "token" | "ask" | "send" | "stream" | "ps" | "approvals") as name, *arguments] if (
            "--help" not in arguments
        ):
            check_options(name, [word for word in arguments if word != "&"])  # test_gateway_page.py runs them
        case ["curl", *_]:
            assert any(path in shlex.join(words) for path in ("/v1/ask", "/edit"))  # test_gateway_page.py runs them
        case ["retinue", *arguments]:
            return execute([sys.executable, "-m", "retinue", *arguments], ROOT)
        case ["python", "-m", "benchmarks", *_]:  # they take minutes
            return execute([sys.executable, "-m", "benchmarks", "--help"], ROOT)
        case ["python", script] if script.endswith(".py"):
            return execute([sys.executable, script], ROOT)
        case [script] if (ROOT / script).is_file() and os.access(ROOT / script, os.X_OK):
            execute(["bash", "-n", script], ROOT)
        case _:
            raise AssertionError(f"teach tests/docs/test_snippets.py how to check: {shlex.join(words)}")
    return ""


def check_options(name: str, arguments: list[str]) -> None:
    """Look whether the command line has these sub-commands and options; a word after an option is its value, others are arguments."""
    context = click.Context(main)
    command = main.get_command(context, name)
    if isinstance(command, click.Group) and arguments:
        command, arguments = command.get_command(context, arguments[0]), arguments[1:]
    assert command is not None, name
    try:
        command.make_context(name, arguments)
    except click.UsageError as error:
        raise AssertionError(f"retinue {name} {shlex.join(arguments)}: {error.format_message()}") from None


def check_installation(wanted: list[str]) -> None:
    names = [word for word in wanted if not word.startswith("-")]
    assert names
    for name in names:
        project, _, extras = name.rstrip("]").partition("[")
        assert project in (".", "retinue"), name
        assert set(filter(None, extras.split(","))) <= set(pyproject()["project"]["optional-dependencies"]), name


def test_the_readme_shows_programs_and_commands() -> None:
    assert [snippet for snippet in PROGRAMS if snippet.path.name == "README.md"]
    assert [command for snippet, command, _ in COMMANDS if snippet.path.name == "README.md" and command.startswith("pip install")]


def test_ci_runs_the_very_test_command_that_the_readme_gives() -> None:
    given = [part.strip() for _, command, _ in COMMANDS for part in command.split("&&") if part.strip().startswith("pytest")]
    assert given
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert [command for command in given if not re.search(rf"^ *(PATH=\S+ )?{re.escape(command)}$", script, re.MULTILINE)] == []


@pytest.mark.parametrize(
    "words",
    [
        ["rm", "-rf", "x"],
        ["retinue", "serve", "examples.counter:main", "--no-such-option"],
        ["retinue", "no-such-command"],
        ["pip", "install", ".[no-such-extra]"],
        ["pip", "install", "other"],
    ],
)
def test_a_command_that_cannot_work_is_found(words: list[str]) -> None:
    with pytest.raises(AssertionError):
        check_command(words)
