"""`retinue demo` as people run it: a process of its own, with a script, a loopback endpoint, the embedded model (slow), and Ctrl-C."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from openai_loopback import completion, loopback
from retinue import llm
from retinue.actors.llm.weights import SMOLLM2, find_weights, models_folder
from retinue.cli import main

KEY = "sk-test-0123456789abcdef"
COMMAND = [sys.executable, "-m", "retinue", "demo"]


def environment(**variables):
    kept = {
        name: value for name, value in os.environ.items() if name not in {"PYTHONIOENCODING", "COLUMNS", "FORCE_COLOR", "TTY_COMPATIBLE"}
    }
    return kept | variables


def demo(*arguments, **variables):
    return subprocess.run(
        [*COMMAND, *arguments], env=environment(**variables), capture_output=True, text=True, encoding="utf-8", timeout=120, check=False
    )


def live(server, *arguments):
    return demo("--live", *arguments, OPENAI_BASE_URL=server.url, OPENAI_API_KEY=KEY, RETINUE_MODEL="m")


def test_a_scripted_demo_ends_with_a_text_about_the_topic_and_says_that_it_is_scripted():
    ended = demo("--scripted", "--topic", "paper boats")
    assert ended.returncode == 0
    assert ended.stderr == ""
    lines = ended.stdout.splitlines()
    assert "no model" in lines[0]
    assert "writer -> researcher: Find out about paper boats." in lines
    assert "paper boats" in lines[-3]
    assert lines[-1].startswith("6 completions")


def test_without_a_terminal_there_is_no_control_character():
    output = demo("--scripted").stdout
    assert all(letter.isprintable() or letter == "\n" for letter in output)


def test_where_the_extra_is_missing_the_script_is_used_and_the_way_to_a_model_is_told(monkeypatch):
    monkeypatch.setattr("retinue.actors.llm.choose.is_local_installed", lambda: False)
    result = CliRunner().invoke(main, ["demo"])
    assert result.exit_code == 0, result.output
    assert "pip install 'retinue[local]'" in result.output.splitlines()[0]
    assert "--live" in result.output.splitlines()[0]


def test_where_the_weights_cannot_be_fetched_the_script_is_used_and_the_reason_is_told(monkeypatch, tmp_path):
    asked = []

    def offline(weights, folder, *, progress):
        asked.append((weights, folder))
        raise llm.WeightsError("this machine is offline")

    monkeypatch.setattr("retinue.actors.llm.choose.is_local_installed", lambda: True)
    monkeypatch.setattr("retinue.actors.llm.weights._installed", lambda _weights: [])
    monkeypatch.setattr("retinue.cli.fetch.pull_weights", offline)
    result = CliRunner().invoke(main, ["demo", "--data-dir", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert asked == [(SMOLLM2, tmp_path / "models")]
    assert "this machine is offline" in result.output
    assert "6 completions" in result.output


def test_a_scripted_demo_fetches_nothing(monkeypatch, tmp_path):
    monkeypatch.setattr("retinue.cli.fetch.pull_weights", None)
    assert CliRunner().invoke(main, ["demo", "--scripted", "--data-dir", str(tmp_path)]).exit_code == 0


def test_a_live_demo_names_endpoint_and_model_first_and_never_the_key():
    with loopback(lambda asked: completion(f"About {asked.json['messages'][-1]['content'].split()[-1]}")) as server:
        ended = live(server)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines()[:2] == [f"Endpoint: {server.url}", "Model: m"]
    assert "cost money" in ended.stdout.splitlines()[2]
    assert "6 completions, 18 tokens" in ended.stdout
    assert len(server.asked) == 6
    assert {asked.headers["authorization"] for asked in server.asked} == {f"Bearer {KEY}"}
    assert KEY not in ended.stdout + ended.stderr


def test_without_live_an_endpoint_that_is_set_up_is_not_asked():
    with loopback(completion("x")) as server:
        ended = demo("--scripted", OPENAI_BASE_URL=server.url, OPENAI_API_KEY=KEY, RETINUE_MODEL="m")
    assert ended.returncode == 0
    assert server.asked == []


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ((401, {}, json.dumps({"error": {"message": f"bad key {KEY}"}}).encode()), "refused the key"),
        pytest.param((200, {"content-type": "text/html"}, b"<html>log in</html>"), "web page", marks=pytest.mark.slow),
        pytest.param((500, {}, b"oh no"), "oh no", marks=pytest.mark.slow),
        pytest.param(completion(""), "without text", marks=pytest.mark.slow),
    ],
)
def test_a_swarm_whose_model_fails_ends_with_one_sentence_and_exit_code_1(answer, expected):
    with loopback(answer) as server:
        ended = live(server)
    assert ended.returncode == 1
    # On a busy machine the watchdog may say, with the place, that loading the certificates took long.
    (said,) = (line for line in ended.stderr.splitlines() if line.startswith("Error:"))
    assert "Traceback" not in ended.stderr
    assert said.startswith("Error: model 'm' at ")
    assert expected in said
    assert KEY not in ended.stdout + ended.stderr


def test_live_without_an_endpoint_says_what_to_set():
    ended = demo("--live")
    assert ended.returncode == 1
    assert "OPENAI_BASE_URL" in ended.stderr
    assert "RETINUE_MODEL" in ended.stderr
    assert ended.stdout == ""


@pytest.mark.parametrize(
    "arguments", [("--topic", ""), ("--topic", " \n\x1b "), ("--topic", "x" * 201), ("--live", "--scripted"), ("extra",)]
)
def test_wrong_use_is_refused_with_exit_code_2(arguments):
    assert CliRunner().invoke(main, ["demo", *arguments]).exit_code == 2


def test_a_topic_may_be_in_any_script_and_an_encoding_that_lacks_it_breaks_nothing():
    assert "Über 世界" in demo("--scripted", "--topic", "Über 世界", PYTHONIOENCODING="utf-8").stdout
    ended = demo("--scripted", "--topic", "Über 世界", PYTHONIOENCODING="ascii")
    assert ended.returncode == 0
    assert "?ber ??" in ended.stdout


def test_a_reader_that_goes_away_ends_the_demo_quietly():
    process = subprocess.Popen([*COMMAND, "--scripted"], env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(60) == 1
    assert b"Traceback" not in process.stderr.read()
    process.stderr.close()


def test_a_full_disk_is_one_sentence():
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [*COMMAND, "--scripted"], env=environment(), stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False
        )
    assert ended.returncode == 1
    assert "cannot be written" in ended.stderr
    assert "Traceback" not in ended.stderr


class Terminal:
    """The demo on a pseudo-terminal."""

    def __init__(self, *arguments, **variables):
        self._master, slave = pty.openpty()
        self.process = subprocess.Popen(
            [*COMMAND, *arguments],
            env=environment(TERM="xterm-256color", COLUMNS="100", LINES="40", **variables),
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
        )
        os.close(slave)
        self.output = ""

    def read_until(self, pattern, seconds=60):
        """Read until the pattern is there; with None, to the end."""
        end = time.monotonic() + seconds
        while pattern is None or not re.search(pattern, self.output):
            ready, _, _ = select.select([self._master], [], [], max(0.0, end - time.monotonic()))
            assert ready, f"not seen within {seconds} s: {pattern}\n{self.output}"
            try:
                data = os.read(self._master, 65536)
            except OSError:  # the other side is closed
                data = b""
            if not data:
                assert pattern is None, self.output
                return
            self.output += data.decode("utf-8", "replace")

    def finish(self):
        self.read_until(None)
        os.close(self._master)
        return self.process.wait(30)


def test_on_a_terminal_there_is_a_picture_and_then_the_text():
    terminal = Terminal("--scripted", "--topic", "tea")
    assert terminal.finish() == 0
    for word in ("mailbox", "researcher", "messages", "dead letters 0"):
        assert word in terminal.output
    assert terminal.output.rindex("Ask three people about tea") > terminal.output.rindex("mailbox")
    assert terminal.output.rindex("\x1b[?25h") > terminal.output.rindex("\x1b[?25l")
    assert re.search(r"model.*3 .*███", terminal.output) or re.search(r"model.*2 .*██", terminal.output)  # the questions wait at the model


@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_ends_it_cleanly_with_exit_code_130_and_hangs_up_at_the_endpoint(times):
    arrived, release = threading.Event(), threading.Event()

    def never(_asked):
        arrived.set()
        release.wait(60)
        return completion("x" * 10_000_000)

    with loopback(never) as server:
        terminal = Terminal("--live", OPENAI_BASE_URL=server.url, OPENAI_API_KEY=KEY, RETINUE_MODEL="m")
        try:
            assert arrived.wait(60)
            terminal.read_until("mailbox")
            for _ in range(times):
                os.kill(terminal.process.pid, signal.SIGINT)
            assert terminal.finish() == 130
        finally:
            release.set()
        assert server.hung_up.wait(60)
    assert "Interrupted." in terminal.output
    assert "Traceback" not in terminal.output
    assert "dead letter:" not in terminal.output
    assert terminal.output.rindex("\x1b[?25h") > terminal.output.rindex("\x1b[?25l")


@pytest.mark.slow
def test_the_embedded_model_ends_the_demo_with_a_text_of_its_own():
    choice = llm.from_env(live=False, environ={})
    if choice.kind != "local" or find_weights(SMOLLM2, models_folder()) is None:
        pytest.skip("the embedded model is not on this machine")
    ended = demo("--topic", "lighthouses")
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr == ""
    assert "SmolLM2" in ended.stdout.splitlines()[0]
    assert "ighthouse" in ended.stdout.splitlines()[-3]
    (tokens,) = re.findall(r"^6 completions, (\d+) tokens", ended.stdout, re.MULTILINE)
    assert 60 < int(tokens) <= 6 * 60


@pytest.mark.slow
def test_ctrl_c_while_the_embedded_model_is_talking_ends_it_cleanly():
    choice = llm.from_env(live=False, environ={})
    if choice.kind != "local" or choice.weights is None:
        pytest.skip("the embedded model is not on this machine")
    terminal = Terminal()
    terminal.read_until("mailbox")
    os.kill(terminal.process.pid, signal.SIGINT)
    assert terminal.finish() == 130
    assert "Traceback" not in terminal.output
