"""`retinue runs` and `retinue show`: recorded runs in the terminal, as JSON and as a page; and `--trace`, which records them."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
import trio
from click.testing import CliRunner, Result

import retinue as rt
from retinue import llm
from retinue.cli import main
from span_maker import ODD_ROWS, Spans, model, odd_row, team


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three runs: a team's, one whose tokens are known in part, and one of a message alone."""
    spans = Spans(tmp_path)
    team(spans, "a" * 32, 0)
    top = spans.add(
        "invoke_agent solo", 5_000, 6_000, trace="ab" * 16, kind="agent", status="error", attributes={"error.type": "RunLimitReached"}
    )
    model(spans, 5_100, 5_200, top, trace="ab" * 16)
    model(spans, 5_300, 5_400, top, trace="ab" * 16, tokens=None, cost=None)
    spans.add("Since", 9_000, 9_001, trace="c" * 32)
    spans.close()
    return tmp_path


def call(command: str, folder: Path, *arguments: object) -> Result:
    return CliRunner().invoke(main, [command, "--data-dir", str(folder), *map(str, arguments)])


def test_runs_are_listed_one_a_line_the_latest_last(folder: Path) -> None:
    result = call("runs", folder)
    assert result.exit_code == 0, result.output
    assert result.stdout == (
        "aaaaaaaa  2027-01-15 08:00:00  ok               4 s  invoke_agent team  2 model calls, 1,212 → 200 tokens, $0.0042  1 tool call  1 error\n"
        "abababab  2027-01-15 08:00:05  failed           1 s  invoke_agent solo  2 model calls, ≥ 100 → 20 tokens, ≥ $0.00025  1 error\n"
    )
    assert result.stderr == "and 1 of messages alone: --all lists them\n"


def test_how_many_and_which_runs_are_listed_can_be_chosen(folder: Path) -> None:
    assert [line[:8] for line in call("runs", folder, "--all").stdout.splitlines()] == ["aaaaaaaa", "abababab", "cccccccc"]
    assert [line[:8] for line in call("runs", folder, "--last", 1).stdout.splitlines()] == ["abababab"]
    assert [line[:8] for line in call("runs", folder, "--last", 0).stdout.splitlines()] == ["aaaaaaaa", "abababab"]


def test_runs_as_json_have_null_for_what_nobody_knows(folder: Path) -> None:
    first, second = json.loads(call("runs", folder, "--json").stdout)
    assert (first["trace"], first["status"], first["cost_micro_usd"], first["cost_complete"]) == ("a" * 32, "ok", 4200, True)
    assert (second["error"], second["cost_micro_usd"], second["cost_complete"], second["subject"]) == ("RunLimitReached", 250, False, None)


@pytest.mark.parametrize("run", ["aaaa", "last", "A" * 32])
def test_a_run_is_shown_as_a_tree(folder: Path, run: str) -> None:
    result = call("show", folder, run)
    assert result.exit_code == 0, result.output
    assert "█" in result.stdout
    assert ("invoke_agent team: ok" if run != "last" else "invoke_agent solo: failed") in result.stdout


def test_a_tree_is_cut_and_says_how_to_see_the_rest(folder: Path) -> None:
    result = call("show", folder, "aaaa", "--most", 2)
    assert "… 4 more spans" in result.stdout
    assert result.stderr == "--most 0 prints them all, --html FILE makes a page of them\n"
    assert "more" not in call("show", folder, "aaaa", "--most", 0).output


def test_a_run_as_json_has_its_spans(folder: Path) -> None:
    data = json.loads(call("show", folder, "aaaa", "--json").stdout)
    assert [one["name"] for one in data["tree"]][:2] == ["invoke_agent team", "invoke_agent writer"]
    assert data["other_traces"] == []


def test_the_page_is_written_into_a_file_of_the_users_alone(folder: Path, tmp_path: Path) -> None:
    page = tmp_path / "run.html"
    page.write_text("before", encoding="utf-8")
    result = call("show", folder, "aaaa", "--html", page)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == f"{page} has been written: open it in a browser\n"
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


@pytest.mark.parametrize("what", ["link", "folder", "nowhere"])
def test_a_page_is_not_written_where_it_should_not(folder: Path, tmp_path: Path, what: str) -> None:
    page = tmp_path / "run.html"
    if what == "link":
        (tmp_path / "target").write_text("kept", encoding="utf-8")
        page.symlink_to(tmp_path / "target")
    elif what == "folder":
        page.mkdir()
    else:
        page = tmp_path / "no" / "run.html"
    result = call("show", folder, "aaaa", "--html", page)
    assert result.exit_code in (1, 2)
    assert "Error" in result.output
    assert what != "link" or (tmp_path / "target").read_text(encoding="utf-8") == "kept"


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("zzzz",), 1, "no run in"),
        (("a",), 1, "2 runs begin with 'a': aaaaaaaa, abababab"),
        (("aaaaaaab",), 1, "Did you mean aaaaaaaa?"),
        (("\x1b[2J",), 1, r"\x1b"),
        (("last", "--json", "--html", "x"), 2, "choose one"),
        ((), 2, "RUN"),
    ],
)
def test_what_cannot_be_is_one_sentence_and_its_exit_code(folder: Path, arguments: tuple[str, ...], code: int, says: str) -> None:
    result = call("show", folder, *arguments)
    assert result.exit_code == code
    assert says in result.output
    assert "\x1b" not in result.output


@pytest.mark.parametrize("command", ["runs", "show"])
def test_a_folder_without_runs_says_how_they_are_recorded(tmp_path: Path, command: str) -> None:
    result = call(command, tmp_path, *(["last"] if command == "show" else []))
    assert result.exit_code == 1
    assert "--trace" in result.output
    assert "traces.sqlite3" in result.output


def test_a_file_in_which_nothing_has_been_recorded_yet_is_no_error_for_a_list(tmp_path: Path) -> None:
    Spans(tmp_path).close()
    assert (call("runs", tmp_path).exit_code, call("runs", tmp_path).output) == (0, "no run was recorded yet\n")
    assert call("runs", tmp_path, "--json").stdout == "[]\n"
    assert call("show", tmp_path, "last").exit_code == 1


@pytest.mark.parametrize("name", sorted(ODD_ROWS))
def test_odd_rows_are_listed_and_shown_in_every_form(name: str, tmp_path: Path) -> None:
    odd_row(tmp_path, name)
    for command in (
        ["runs"],
        ["runs", "--json"],
        ["show", "last"],
        ["show", "last", "--json"],
        ["show", "last", "--html", str(tmp_path / "a.html")],
    ):
        result = call(command[0], tmp_path, *command[1:])
        assert result.exit_code == 0, result.output


def test_an_output_without_the_signs_gets_plain_ones(folder: Path) -> None:
    command = [sys.executable, "-m", "retinue", "show", "aaaa", "--data-dir", str(folder)]
    done = subprocess.run(command, env={**os.environ, "PYTHONIOENCODING": "latin-1"}, capture_output=True, timeout=60, check=True)
    text = done.stdout.decode("ascii")
    assert "|- invoke_agent writer" in text
    assert "tokens 1,212 -> 200, cost $0.0042" in text


# -- what a system really records


@rt.tool(approval=True)
def send_email(to: str) -> str:
    """Sends an e-mail."""
    return f"sent to {to}"


async def test_a_run_that_waits_for_a_person_is_listed_with_its_request_and_goes_on_in_another_trace(tmp_path: Path) -> None:
    async with rt.ActorSystem(data_dir=tmp_path, tracing=rt.Tracing()) as system:
        script = await system.spawn(llm.Scripted, [llm.tool_calls(("send_email", {"to": "bob"})), "Bob has it."])
        agent = await system.spawn(rt.Agent, model=script, tools=[send_email], name="clerk")
        with pytest.raises(rt.ApprovalRequired) as caught:
            await agent.ask("Write to Bob")
        request = caught.value.requests[0].id
        with trio.fail_after(30):
            while f"waits for {request}" not in call("runs", tmp_path).stdout:
                await trio.sleep(0.05)
        assert f"consent {request}: pending" in call("show", tmp_path, "last").stdout
    assert "given up" in call("runs", tmp_path).stdout, "what it waited in has ended"
    assert f"consent {request}: cancelled" in call("show", tmp_path, "last").stdout
    async with rt.ActorSystem(data_dir=tmp_path, tracing=rt.Tracing()) as system:
        script = await system.spawn(llm.Scripted, ["Bob has it."])
        agent = await system.spawn(rt.Agent, model=script, tools=[send_email], name="clerk")
        with pytest.raises(rt.ApprovalError):  # nobody waits for it any more
            await system.approvals.approve(request, reviewer="eve")
        with pytest.raises(rt.NoSuchRun):  # that system has ended, and kept it in memory
            await agent.ask(rt.Resume(caught.value.run or ""))


async def test_a_run_that_went_on_is_shown_with_the_trace_where_it_did(tmp_path: Path) -> None:
    async with rt.ActorSystem(data_dir=tmp_path, tracing=rt.Tracing()) as system:
        script = await system.spawn(llm.Scripted, [llm.tool_calls(("send_email", {"to": "bob"})), "Bob has it."])
        agent = await system.spawn(rt.Agent, model=script, tools=[send_email], name="clerk")
        with pytest.raises(rt.ApprovalRequired) as caught:
            await agent.ask("Write to Bob")
        token = await system.approvals.approve(caught.value.requests[0].id, reviewer="eve")
        await agent.ask(rt.Resume(caught.value.run or ""), approvals=[token])
    first, second = (line[:8] for line in call("runs", tmp_path).stdout.splitlines())
    assert f"goes on, or began, in {second}" in call("show", tmp_path, first).stdout
    assert f"goes on, or began, in {first}" in call("show", tmp_path, second).stdout
    assert json.loads(call("show", tmp_path, first, "--json").stdout)["approvals"][0]["state"] == "approved"


PLAY = """
import retinue as rt
from retinue import llm


async def main(system):
    agent = await system.spawn(rt.Agent, model="scripted:A canary sings.", name="agent")
    await agent.ask("A canary, please")


async def stays(system):
    await main(system)
    import trio
    await trio.sleep_forever()


def nothing():
    pass
"""


@pytest.fixture
def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module in a folder of its own, which is the current one."""
    (tmp_path / "traced_play.py").write_text(PLAY, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "traced_play", raising=False)
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


def test_run_records_where_runs_looks_and_leaves_out_what_was_said(play: Path) -> None:
    result = run("run", "--trace", "traced_play:main")
    assert (result.exit_code, result.stderr) == (0, "recorded; to look at it: retinue show last\n")
    assert "invoke_agent agent" in run("runs").stdout
    assert b"canary" not in b"".join(path.read_bytes() for path in (play / ".retinue").glob("traces*"))


def test_run_records_what_was_said_where_it_is_asked_to_and_in_the_data_folder(play: Path) -> None:
    result = run("run", "--trace-contents", "--data-dir", "my data", "traced_play:main")
    assert result.stderr == "recorded; to look at it: retinue show last --data-dir 'my data'\n"
    assert "A canary sings." in run("show", "last", "--data-dir", "my data", "--json").stdout
    assert not (play / ".retinue").exists()


def test_nothing_is_recorded_unless_it_is_asked_for(play: Path) -> None:
    assert run("run", "traced_play:main").output == ""
    assert not (play / ".retinue").exists()


def test_a_file_that_cannot_be_used_is_an_error_and_nothing_is_said_to_be_recorded(play: Path) -> None:
    (play / ".retinue").mkdir(mode=0o700)
    with closing(sqlite3.connect(play / ".retinue" / "traces.sqlite3")) as other:
        other.execute("CREATE TABLE something(else_ TEXT)")
    result = run("run", "--trace", "traced_play:main")
    assert result.exit_code == 1
    assert "is a database of something else" in result.stderr and "--data-dir FOLDER" in result.stderr
    assert "recorded" not in result.stderr


def test_a_function_that_takes_no_system_cannot_be_recorded(play: Path) -> None:
    result = run("run", "--trace", "traced_play:nothing")
    assert result.exit_code == 2
    assert "takes none" in result.output


def test_a_place_that_cannot_be_recorded_to_is_one_sentence(play: Path) -> None:
    (play / ".retinue").write_text("in the way", encoding="utf-8")
    result = run("run", "--trace", "traced_play:main")
    assert result.exit_code == 1
    assert result.output.startswith("Error: ")
    assert result.output.count("\n") == 1


def test_chat_and_demo_record_too(play: Path) -> None:
    result = CliRunner().invoke(main, ["chat", "scripted:Hello", "--trace"], input="hi\n")
    assert (result.exit_code, result.stdout) == (0, "Hello\n")
    assert "retinue show last" in result.stderr
    assert run("demo", "--scripted", "--trace").exit_code == 0
    lines = run("runs").stdout.splitlines()
    assert (len(lines), "invoke_agent agent" in lines[0]) == (2, True)
    assert "6 model calls" in lines[-1]


@pytest.mark.slow
def test_serve_records_what_it_serves(play: Path) -> None:
    command = [sys.executable, "-m", "retinue", "serve", "--trace", "--port", "0", "traced_play:stays"]
    with subprocess.Popen(command, cwd=play, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert re.match(r"listening on http", process.stdout.readline())
        process.send_signal(signal.SIGTERM)
        _, told = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "recorded; to look at it: retinue show last\n" in told
    assert "invoke_agent agent" in run("runs").stdout
