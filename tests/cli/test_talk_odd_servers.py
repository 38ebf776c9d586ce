"""What the command line makes of a server that means no good, and of what is typed that would never end."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from client_impostor import Impostor, answer
from client_shop import RunningShop
from retinue.cli import main
from retinue.cli.arguments import body_of

PATH = "/user/shop"


def run(*arguments: object, token: str = "t") -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments], env={"RETINUE_TOKEN": token})


def described(messages: Any, **more: Any) -> bytes:
    return answer(json.dumps({"x-retinue-messages": messages, "components": {"schemas": {}}, **more}).encode())


def message(schema: Any, **more: Any) -> dict[str, Any]:
    return {"x/X@1": {"kind": "request", "schema": schema, **more}}


ODD: list[bytes] = [
    *(described(odd) for odd in (None, [], "x", 5, {"x/X@1": None}, {"x/X@1": []}, {"x/X@1": {}}, {"x/X@1": {"kind": 5}})),
    *(
        described(message(odd))
        for odd in (None, [], "x", 5, {"properties": []}, {"properties": {"a": 5}}, {"required": 5}, {"required": [5]})
    ),
    *(described(message({"properties": {"a": odd}})) for odd in ({"enum": 5}, {"anyOf": 5}, {"anyOf": [5]}, {"oneOf": {}}, {"items": 5})),
    *(described(message({"properties": {"a": odd}})) for odd in ({"type": 5}, {"type": ["string"]}, {"$ref": 5}, {"contentEncoding": []})),
    *(described(message({"additionalProperties": odd})) for odd in (5, "x", [], None)),
    *(described(message({"$ref": "#/components/schemas/x"}), components=odd) for odd in ([], 5, {"schemas": []}, {"schemas": {"x": 5}})),
    *(described({}, **{"x-retinue-actors": odd}) for odd in ([], 5, {"/user/x": 5}, {"/user/x": [5]})),
    described(message({"anyOf": [{"type": "integer"}] * 120_000})),
]


@pytest.mark.parametrize("script", ODD, ids=range(len(ODD)))
def test_a_description_of_an_odd_shape_is_one_line(script: bytes) -> None:
    with Impostor(script) as server:
        for command in ("ask", "send", "stream"):
            result = run(command, server.url, PATH, "x/X@1", "a=1")
            assert result.exit_code == 1 and isinstance(result.exception, SystemExit), result.exception
            assert result.stderr.startswith("Error: GatewayError: the answer to the description of the messages")
            assert result.stdout == "" and result.stderr.count("\n") == 1


def bombs() -> dict[str, Any]:
    layers = {f"s{number}": {"anyOf": [{"$ref": f"#/components/schemas/s{number + 1}"}] * 10} for number in range(60)}
    return {**layers, "s60": {"type": "integer"}, "loop": {"anyOf": [{"$ref": "#/components/schemas/loop"}, {"type": "integer"}]}}


@pytest.mark.parametrize("name", ["s0", "loop"])
def test_alternatives_that_multiply_or_contain_themselves_are_each_looked_at_once(name: str) -> None:
    schema = {"type": "object", "properties": {"a": {"$ref": f"#/components/schemas/{name}"}}, "required": ["a"]}
    description = {"x-retinue-messages": {"x": {"kind": "request", "schema": schema}}, "components": {"schemas": bombs()}}
    began = time.thread_time()
    assert body_of(description, "x", ["a=5"]) == {"a": 5}
    with pytest.raises(click.UsageError):
        body_of(description, "x", ["a=text"])
    assert time.thread_time() - began < 5


def test_names_that_a_server_gives_do_not_write_on_the_terminal() -> None:
    evil = "x/\x1b[2J\u202eX@1"
    for script, arguments in (
        (described({evil: {"kind": "request", "schema": {}}}), ("x/Y@1",)),
        (described(message({"properties": {evil: {"type": "string"}}, "additionalProperties": False})), ("x/X@1", "a=1")),
        (described(message({"properties": {evil: {}}, "required": [evil]})), ("x/X@1",)),
        (described({evil: {"kind": evil, "schema": {}}}), (evil,)),
        (described(message({"properties": {"a": {"enum": [evil]}}})), ("x/X@1", "a=1")),
    ):
        with Impostor(script) as server:
            result = run("ask", server.url, PATH, *arguments)
        assert result.exit_code in (1, 2)
        assert "\x1b" not in result.output and "\u202e" not in result.output, result.output


def test_a_file_that_would_never_end_is_not_waited_for(tmp_path: Path) -> None:
    description = {"x-retinue-messages": {"x": {"kind": "request", "schema": {"properties": {"a": {"type": "string"}}}}}}
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    for name in (tmp_path / "pipe", tmp_path / "link", "/dev/zero", "/dev/tty", tmp_path, tmp_path / "none", "a\0b"):
        with pytest.raises(click.UsageError, match=r"no regular file|cannot be read"):
            body_of(description, "x", [f"a=@{name}"])
    (tmp_path / "file").write_text("text", encoding="utf-8")
    assert body_of(description, "x", [f"a=@{tmp_path / 'file'}"]) == {"a": "text"}


@pytest.mark.parametrize("option", [("ask", "--timeout"), ("ask", "--wait-approval"), ("send", "--wait"), ("stream", "--timeout")])
def test_what_is_no_number_of_seconds_is_a_wrong_command_line(option: tuple[str, str]) -> None:
    command, name = option
    for text in ("nan", "NaN", "-nan", "-1", "-inf", "x", ""):
        result = run(command, "http://127.0.0.1:1", PATH, "x/X@1", name, text)
        assert result.exit_code == 2, (text, result.output)


def test_a_token_is_not_written_over_what_is_no_plain_file(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("precious", encoding="utf-8")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    (tmp_path / "dangling").symlink_to(tmp_path / "nothing")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "dangling", "pipe"):
        result = run("token", "mint", "--data-dir", tmp_path / "data", "--subject", "a", "--allow", "x", "--out", tmp_path / name)
        assert result.exit_code == 1 and "no file that may be replaced" in result.stderr
    assert (tmp_path / "target").read_text(encoding="utf-8") == "precious"
    assert (tmp_path / "link").is_symlink() and (tmp_path / "dangling").is_symlink() and (tmp_path / "pipe").is_fifo()


def test_a_true_system_is_described_as_it_is_read(tmp_path: Path) -> None:
    with RunningShop(tmp_path) as shop:
        for name in ("Price@1", "Swap@1", "Count@1", "Pay@1"):
            result = run("ask", shop.url, PATH, f"client-shop/{name}", "none=1", token=shop.token())
            assert result.exit_code == 2, result.output
