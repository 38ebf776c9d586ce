"""`retinue run module:function`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from retinue.cli import main

SCRIPT = """
import retinue as rt
from retinue.sync import ActorSystem


@rt.message
class Square(rt.Request[int]):
    value: int


class Calculator(rt.Actor):
    @rt.handler
    def square(self, message: Square) -> int:
        return message.value**2


def plain(*words):
    print("plain", *words)


def no_words():
    print("no words")


async def asynchronous(word="none"):
    import trio

    await trio.sleep(0)
    print("async", word)


async def with_system(system, number):
    calculator = await system.spawn(Calculator)
    print(await calculator.ask(Square(int(number))))


async def annotated(host: "rt.ActorSystem"):
    print(type(host).__name__, host.name)


def blocking(system, number):
    print(system.spawn(Calculator).ask(Square(int(number))))


async def fails(system):
    raise LookupError("the function's own error")


async def second(word, system="no system"):
    print(word, system)


def items():
    yield 1


class Box:
    @staticmethod
    def inside():
        print("inside")


number = 7
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put `play.py` into a folder of its own, make that the current one, and forget afterwards what was imported from it."""
    (tmp_path / "play.py").write_text(SCRIPT, encoding="utf-8")
    (tmp_path / "broken.py").write_text("import no_such_dependency\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("play", "broken"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["run", *arguments])


@pytest.mark.parametrize(
    ("arguments", "output"),
    [
        (["play:plain"], "plain"),
        (["play:plain", "a", "--b", "-c"], "plain a --b -c"),
        (["play:no_words"], "no words"),
        (["play:asynchronous"], "async none"),
        (["play:asynchronous", "word"], "async word"),
        (["play:with_system", "7"], "49"),
        (["play:annotated"], "ActorSystem main"),
        (["play:blocking", "8"], "64"),
        (["play:second", "one"], "one no system"),
        (["play:Box.inside"], "inside"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_the_function_is_run(arguments: list[str], output: str) -> None:
    result = run(*arguments)
    assert result.exception is None
    assert (result.exit_code, result.output.strip()) == (0, output)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["play"], "not of the form module:function"),
        (["play:"], "not of the form module:function"),
        ([":plain"], "not of the form module:function"),
        (["play:plian"], "play has no 'plian'; did you mean plain?"),
        (["play:Box.insid"], "play.Box has no 'insid'; did you mean inside?"),
        (["plya:plain"], "no module named 'plya' here or among the installed ones; did you mean play"),
        (["retinue.cli.rnu:run"], "did you mean retinue.cli.run"),
        (["no_such_package.module:f"], "no module named 'no_such_package'"),
        (["./play.py:plain"], "is not a module's name"),
        (["play.py:plain"], "'play.py' is a file, and a module's name is wanted: write 'play'"),
        (["play:number"], "is int, which cannot be called"),
        (["play:Box"], "play:Box is a class, and making an instance would do nothing: name a function that makes and uses it"),
        (["play:Calculator"], "name `async def main(system)` that spawns it: await system.spawn(Calculator)"),
        (["play:Square"], "is a class"),
        (["play:items"], "is a generator, and calling it would do nothing"),
        (["play:no_words", "one"], "cannot be called with 1 arguments: too many positional arguments"),
        (["play:with_system"], "cannot be called with 0 arguments: missing a required argument: 'number'"),
    ],
)
@pytest.mark.usefixtures("folder")
def test_a_bad_spec_or_wrong_arguments_end_like_any_wrong_command_line(arguments: list[str], says: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    usage, *_, last = result.output.splitlines()
    assert usage.startswith("Usage: ")
    assert last.startswith("Error: ")
    assert says in last


@pytest.mark.usefixtures("folder")
def test_an_error_inside_the_module_keeps_its_traceback() -> None:
    result = run("broken:main")
    assert isinstance(result.exception, ModuleNotFoundError)
    assert result.exception.name == "no_such_dependency"


@pytest.mark.usefixtures("folder")
def test_the_functions_own_error_leaves_unwrapped() -> None:
    result = run("play:fails")
    assert isinstance(result.exception, LookupError)
    assert result.exit_code == 1


def test_the_current_folder_is_searched_by_the_installed_command_too(folder: Path) -> None:
    command = [str(Path(sys.executable).with_name("retinue")), "run", "play:plain", "x"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "plain x\n"


def test_a_system_has_the_folder_that_it_is_given(tmp_path: Path) -> None:
    for function in ("with_system", "blocking"):
        data = tmp_path / function
        result = run("--data-dir", str(data), f"play:{function}", "3")
        assert (result.exit_code, result.stdout) == (0, "9\n"), result.output
        assert (data / "audit.jsonl").exists()
        assert not (tmp_path / "audit.jsonl").exists()
    refused = run("--data-dir", str(tmp_path / "none"), "play:plain")
    assert refused.exit_code == 2
    assert "takes none" in refused.output
    assert not (tmp_path / "none").exists()
