"""`retinue chat`: on a terminal, and with lines from standard input."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from on_a_terminal import OnATerminal
from openai_loopback import Loopback, completion, loopback
from retinue import llm
from retinue.cli import main
from retinue.cli.chat import tools_of_file

KEY = "sk-test-0123456789abcdef"

TOOLS = '''
import retinue as rt


def weather(city: str) -> str:
    """Forecast for a city.

    Args:
        city: Its name.
    """
    return f"{city}: sunny"


@rt.tool(approval=True)
def send_email(to: str) -> str:
    """Sends an e-mail.

    Args:
        to: Recipient.
    """
    return f"sent to {to}"


def _helper(untyped):
    return untyped
'''


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    path = tmp_path / "my_tools.py"
    path.write_text(TOOLS, encoding="utf-8")
    return path


def chat(*arguments: object, given: str = "hi\n", **variables: str | None) -> Result:
    environment = {"OPENAI_API_KEY": None, "OPENAI_BASE_URL": None, "RETINUE_MODEL": None, **variables}
    return CliRunner().invoke(main, ["chat", *map(str, arguments)], env=environment, input=given)


def live(server: Loopback, *arguments: object, given: str = "hi\n") -> Result:
    return chat("--live", *arguments, given=given, OPENAI_BASE_URL=server.url, OPENAI_API_KEY=KEY, RETINUE_MODEL="m")


def on_terminal(server: Loopback, *arguments: str) -> OnATerminal:
    return OnATerminal("chat", "--live", *arguments, OPENAI_BASE_URL=server.url, OPENAI_API_KEY=KEY, RETINUE_MODEL="m")


def tool_call(name: str, **arguments: Any) -> Any:
    status, headers, body = completion(None, finish="tool_calls")
    data = json.loads(body)
    data["choices"][0]["message"]["tool_calls"] = [
        {"id": f"call-{name}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
    ]
    return status, headers, json.dumps(data).encode()


@contextmanager
def in_turn(*answers: Any) -> Iterator[Loopback]:
    """A server that gives these answers, one after the other."""
    left = list(answers)
    with loopback(lambda _asked: left.pop(0)) as server:
        yield server


def told(server: Loopback, number: int = -1) -> list[tuple[str, Any]]:
    return [(message["role"], message.get("content")) for message in server.asked[number].json["messages"]]


def test_without_a_terminal_each_line_is_a_message_and_answers_alone_go_to_standard_output() -> None:
    result = chat("--model", "scripted:Grüße, 世界!", given="hi\n\n   \nagain\n")
    assert (result.exit_code, result.stdout) == (0, "Grüße, 世界!\nGrüße, 世界!\n")
    assert "a script" in result.stderr


def test_the_conversation_is_remembered_shown_and_forgotten() -> None:
    with loopback(completion("Yes.")) as server:
        result = live(server, "--system", "Be brief.", given="one\ntwo\n/memory\n/clear\n/memory\nthree\n")
    assert result.exit_code == 0, result.output
    assert told(server, 1) == [("system", "Be brief."), ("user", "one"), ("assistant", "Yes."), ("user", "two")]
    assert told(server, 2) == [("system", "Be brief."), ("user", "three")]
    assert result.stdout == "Yes.\nYes.\nuser: one\nagent: Yes.\nuser: two\nagent: Yes.\nYes.\n"


def test_commands_are_not_sent_and_two_slashes_say_one() -> None:
    with loopback(completion("Yes.")) as server:
        result = live(server, given="/help\n/nonsense now\n//clear\n/quit\nnever\n")
    assert [told(server, n)[-1] for n in range(len(server.asked))] == [("user", "/clear")]
    assert "there is no command /nonsense" in result.stderr


def test_tools_of_a_file_are_called_and_what_happens_is_told_beside_the_answer(tools: Path) -> None:
    with in_turn(tool_call("weather", city="Oslo"), completion("Sunny in Oslo.")) as server:
        result = live(server, "--tools", tools)
    assert result.stdout == "Sunny in Oslo.\n"
    assert '· weather {"city": "Oslo"}' in result.stderr
    assert "· weather -> Oslo: sunny" in result.stderr
    assert [tool["function"]["name"] for tool in server.asked[0].json["tools"]] == ["weather", "send_email"]


@pytest.mark.parametrize(
    ("said", "result", "sent"),
    [
        ("yes", "sent to bob", True),
        ("Y", "sent to bob", True),
        ("", "a person has not approved", False),
        ("not on a Sunday", "not on a Sunday", False),
        (None, "a person has not approved", False),
    ],
)
def test_a_tool_that_needs_consent_asks_for_it_and_nothing_but_a_yes_is_one(tools: Path, said: str | None, result: str, sent: bool) -> None:
    with in_turn(tool_call("send_email", to="bob"), completion("Well.")) as server:
        ended = live(server, "--tools", tools, given="mail Bob\n" + ("" if said is None else f"{said}\n"))
    assert (ended.exit_code, ended.stdout) == (0, "Well.\n"), ended.output
    role, text = told(server)[-1]
    assert role == "tool"
    assert result in text
    assert ("sent to bob" in text) is sent
    assert "tool.send_email needs your consent" in ended.stderr
    assert "bob" in ended.stderr


def test_nothing_is_spent_without_live() -> None:
    with loopback(completion("x")) as server:
        environment = {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": KEY, "RETINUE_MODEL": "m"}
        refused = chat("--model", "openai:gpt-4.1", **environment)
        assert refused.exit_code == 2
        assert "--live" in refused.output
        assert chat("--model", "scripted:Hello!", "--live", **environment).stdout == "Hello!\n"
        assert server.asked == []


def test_without_a_model_the_endpoint_of_the_environment_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("retinue.actors.llm.choose.is_local_installed", lambda: False)
    with loopback(completion("x")) as server:
        result = chat(OPENAI_BASE_URL=server.url, OPENAI_API_KEY=KEY, RETINUE_MODEL="m")
    assert server.asked == []
    assert "This is a scripted answer" in result.stdout
    assert "pip install 'retinue[local]'" in result.stderr


def test_live_says_whom_it_asks_and_what_it_took_and_never_the_key() -> None:
    with loopback(completion("Yes.")) as server:
        result = live(server)
    assert result.stderr.splitlines()[:3] == [f"Endpoint: {server.url}", "Model: m", "Its use may cost money."]
    assert "(1 request, 10 tokens, cost unknown)" in result.stderr
    assert server.asked[0].headers["authorization"] == f"Bearer {KEY}"
    assert KEY not in result.output


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("--model", "opnai:gpt-4.1"), 1, 'did you mean "openai:gpt-4.1"'),
        (("--model", "openai:gpt-4.1"), 1, "OPENAI_API_KEY"),
        (("--model", "gpt-4.1"), 1, "provider:model"),
        (("--live",), 1, "RETINUE_MODEL"),
        (("--tools", "/no/such/file.py"), 2, "does not exist"),
    ],
)
def test_what_cannot_be_is_one_sentence(arguments: tuple[str, ...], code: int, says: str) -> None:
    result = chat(*arguments)
    assert result.exit_code == code
    assert says in result.output
    assert "Traceback" not in result.output


def test_an_error_of_the_model_ends_the_turn_and_not_the_chat_and_the_exit_code_says_so() -> None:
    answers = [(401, {}, b'{"error": {"message": "bad key"}}'), completion("Better.")]
    with in_turn(*answers) as server:
        result = live(server, given="one\ntwo\n")
    assert (result.exit_code, result.stdout) == (1, "Better.\n")
    assert "Error: KeyRefused" in result.stderr
    assert told(server)[1:] == [("user", "two")]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("x = 1\n", "has no tool"),
        ("import nothing_of_that_name\n", "ModuleNotFoundError"),
        ("raise SystemExit(3)\n", "SystemExit"),
        ("def f(:\n", "SyntaxError"),
        ("TOOLS = 'weather'\n", "TOOLS is a str"),
        ("def f(x):\n    'Does.'\n    return x\n", "x"),
    ],
)
def test_a_file_of_tools_that_cannot_be_used_is_one_sentence(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "bad_tools.py"
    path.write_text(text, encoding="utf-8")
    result = chat("--model", "scripted:x", "--tools", path)
    assert result.exit_code == 1
    assert says in result.output
    assert "Traceback" not in result.output


def test_a_list_of_tools_goes_before_what_else_the_file_defines(tmp_path: Path) -> None:
    path = tmp_path / "listed_tools.py"
    path.write_text(f"{TOOLS}\n\nTOOLS = [weather]\n", encoding="utf-8")
    assert [tool.__name__ for tool in tools_of_file(path)] == ["weather"]


def test_what_is_no_text_of_ours_is_read_and_printed_all_the_same() -> None:
    command = [sys.executable, "-m", "retinue", "chat", "--model", "scripted:世界"]
    environment = dict(os.environ) | {"PYTHONIOENCODING": "latin-1"}
    done = subprocess.run(command, input=b"\xff\xfe hi\n", env=environment, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, b"??\n")


def test_a_message_without_end_is_refused_and_the_next_one_is_taken() -> None:
    result = chat("--model", "scripted:Yes.", given="x" * 2_500_000 + "\nhi\n")
    assert (result.exit_code, result.stdout) == (1, "Yes.\n")
    assert "more than 1,000,000 characters" in result.stderr


def test_ctrl_c_stops_an_answer_and_not_the_chat() -> None:
    arrived, release = threading.Event(), threading.Event()

    def answer(asked: Any) -> Any:
        if asked.json["messages"][-1]["content"] == "slow":
            arrived.set()
            release.wait(60)
            return completion("x" * 10_000_000)
        return completion("Here I am.")

    with loopback(answer) as server, on_terminal(server) as terminal:
        try:
            terminal.read_until("you> ")
            terminal.type("slow")
            assert arrived.wait(60)
            terminal.interrupt(r"\(stopped\)")
        finally:
            release.set()
        assert server.hung_up.wait(60)
        terminal.read_until("you> ")
        terminal.type("hello")
        terminal.read_until(r"Here I am\.")
        terminal.read_until("you> ")
        terminal.interrupt("once more")
        terminal.type("/memory")
        terminal.read_until("agent: Here I am")
        terminal.read_until("you> ")
        terminal.hang_up()
        assert terminal.finish() == 0
        assert "Traceback" not in terminal.output
        assert "slow" not in terminal.output.rpartition("/memory")[2]


def test_ctrl_c_at_the_question_refuses_and_gives_the_run_up(tools: Path) -> None:
    answers = [tool_call("send_email", to="bob"), completion("Fine.")]
    with in_turn(*answers) as server, on_terminal(server, "--tools", str(tools)) as terminal:
        terminal.read_until("you> ")
        terminal.type("mail Bob")
        terminal.read_until("the model is told what you write> ")
        terminal.interrupt(r"\(stopped\)")
        terminal.read_until("you> ")
        terminal.type("hello")
        terminal.read_until(r"Fine\.")
        assert told(server)[1:] == [("user", "hello")]
        terminal.type("/quit")
        assert terminal.finish() == 0


def test_an_answer_cannot_steer_the_terminal_and_two_ctrl_c_end_the_chat() -> None:
    with OnATerminal("chat", "--model", "scripted:one\x1b[2Jtwo") as terminal:
        terminal.read_until("you> ")
        terminal.type("hi")
        terminal.read_until(r"one\\x1b\[2Jtwo")
        for seen in ("once more", None):
            terminal.read_until("you> ")
            terminal.interrupt(seen)
        assert terminal.finish() == 130
        assert "once more" in terminal.output
        assert "Traceback" not in terminal.output


@pytest.mark.slow
def test_the_embedded_model_talks_without_a_key() -> None:
    choice = llm.from_env(live=False, environ={})
    if choice.kind != "local" or choice.weights is None:
        pytest.skip("the embedded model is not on this machine")
    result = chat(given="What is the capital of France?\n")
    assert result.exit_code == 0, result.output
    assert "Paris" in result.stdout


def test_the_model_may_be_named_without_its_option() -> None:
    result = chat("scripted:Hello!")
    assert (result.exit_code, "Hello!" in result.output) == (0, True)


def test_a_model_is_named_once() -> None:
    result = chat("scripted:Hello!", "--model", "scripted:Bye!")
    assert result.exit_code == 2
    assert "two models are named, 'scripted:Hello!' and 'scripted:Bye!': leave one out" in result.output


def test_a_missing_key_is_told_by_what_one_does_in_a_shell() -> None:
    result = chat("openai:gpt-4.1", "--live")
    assert result.exit_code == 1
    assert "needs a key: set OPENAI_API_KEY; what works without" in result.output
