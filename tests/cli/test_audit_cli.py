"""`retinue audit`: what verifies, what does not, and what is shown of it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import retinue as rt
from retinue.cli import main
from retinue.security.audit import AuditLog
from retinue.security.audit_file import AuditFile
from retinue.security.authority import Authority
from retinue.security.keys import KeyFile


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """An audit file of five records, with its key beside it."""
    path = tmp_path / "audit.jsonl"
    log = AuditLog(KeyFile(tmp_path / "audit.key").create().current.secret, sink=AuditFile(path), now_ms=lambda: 1_800_000_000_000)
    context = Authority().mint("ada", ["fs.read"])
    log.record("start", allowed=True)
    log.record(
        "decision", allowed=False, operation="fs.delete", reason="permission", security=context, path="/user/files", detail="not named"
    )
    log.record("allowed_batch", allowed=True, operation="fs.read", security=context, count=12)
    log.record("mint", allowed=True, security=context)
    log.record("decision", allowed=False, operation="web.get", reason="policy", detail="\x1b[2J\u202egood\nbye")
    log.close()
    return path


def audit(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["audit", *map(str, arguments)])


def head_of(result: Result) -> str:
    return result.output.splitlines()[-1].removeprefix("head ")


def test_a_true_file_verifies_and_its_head_is_printed(path: Path) -> None:
    result = audit("verify", path)
    assert result.exit_code == 0, result.output
    assert "5 records fit together" in result.output
    assert "cannot be said without --head" in result.output
    again = audit("verify", path, "--head", head_of(result))
    assert again.exit_code == 0
    assert "without --head" not in again.output


def test_a_file_that_was_cut_off_verifies_only_without_the_head(path: Path) -> None:
    head = head_of(audit("verify", path))
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:3]))
    assert "3 records fit" in audit("verify", path).output
    result = audit("verify", path, "--head", head)
    assert result.exit_code == 1
    assert "the end was cut off" in result.output


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (lambda lines: [lines[1], *lines[2:]], "record 1 does not follow"),
        (lambda lines: [lines[1], lines[0], *lines[2:]], "record 1 does not follow"),
        (lambda lines: [lines[0], lines[1].replace(b'"allowed":false', b'"allowed":true'), *lines[2:]], "record 2 was altered"),
        (lambda lines: [lines[0], lines[1].replace(b'"count":1', b'"count": 1'), *lines[2:]], "It is line 2"),
        (lambda lines: [*lines, b"{}\n"], "It is line 6"),
    ],
)
def test_a_file_that_was_changed_does_not_verify(path: Path, edit: object, says: str) -> None:
    path.write_bytes(b"".join(edit(path.read_bytes().splitlines(keepends=True))))  # type: ignore[operator]
    result = audit("verify", path)
    assert result.exit_code == 1
    assert says in result.output


def test_a_torn_line_at_the_end_is_told(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b'{"number":6')
    result = audit("verify", path)
    assert result.exit_code == 0
    assert "after them: 11 bytes of a record" in result.output


def test_the_key_may_lie_elsewhere_and_older_keys_are_tried(path: Path, tmp_path: Path) -> None:
    (tmp_path / "audit.key").rename(tmp_path / "other")
    missing = audit("verify", path)
    assert missing.exit_code == 1
    assert (
        missing.output
        == f"Error: the key file {tmp_path / 'audit.key'} is not there. Give the one that the records of {path} were written with: --key FILE\n"
    )
    assert audit("verify", path, "--key", tmp_path / "other").exit_code == 0
    KeyFile(tmp_path / "other").rotate(keep=1)
    assert audit("verify", path, "--key", tmp_path / "other").exit_code == 0
    KeyFile(tmp_path / "other").rotate(keep=1)
    result = audit("verify", path, "--key", tmp_path / "other")
    assert result.exit_code == 1
    assert "written with another key" in result.output


def test_the_file_of_a_second_system_verifies_with_the_key_of_the_first(path: Path) -> None:
    second = path.rename(path.with_name("audit.2.jsonl"))
    assert "5 records fit together" in audit("verify", second).output
    path.with_name("audit.key").rename(path.with_name("audit.2.key"))
    assert "5 records fit together" in audit("verify", second).output


def test_where_neither_the_file_nor_a_key_is_there_the_file_is_told(tmp_path: Path) -> None:
    result = audit("verify", tmp_path / "nope.jsonl")
    assert result.exit_code == 1
    assert result.output == f"Error: {tmp_path / 'nope.jsonl'} cannot be read: No such file or directory\n"


def test_what_cannot_be_read_is_one_sentence(path: Path, tmp_path: Path) -> None:
    for command in ("verify", "show"):
        (tmp_path / "none.key").write_bytes((tmp_path / "audit.key").read_bytes())
        (tmp_path / "none.key").chmod(0o600)
        result = audit(command, tmp_path / "none.jsonl")
        assert result.exit_code == 1
        assert result.output.startswith("Error: ")
        assert "No such file" in result.output
    assert audit("verify", path, "--head", "7").exit_code == 1
    (tmp_path / "audit.key").chmod(0o644)
    assert "chmod 600" in audit("verify", path).output


def test_records_are_shown_one_a_line_and_nothing_in_them_moves_the_cursor(path: Path) -> None:
    lines = audit("show", path).output.splitlines()
    assert len(lines) == 5
    assert lines[1] == "2 2027-01-15T08:00:00.000+00:00 decision refused fs.delete ada /user/files permission: not named"
    assert "allowed 12× fs.read ada" in lines[2]
    assert lines[4].endswith(r"\x1b[2J\u202egood\nbye")


@pytest.mark.parametrize(
    ("options", "numbers"),
    [
        (["--last", "2"], [4, 5]),
        (["--last", "0"], [1, 2, 3, 4, 5]),
        (["--refused"], [2, 5]),
        (["--operation", "fs.*"], [2, 3]),
        (["--operation", "**", "--refused", "--last", "1"], [5]),
    ],
)
def test_records_can_be_chosen(path: Path, options: list[str], numbers: list[int]) -> None:
    result = audit("show", path, "--json", *options)
    assert [json.loads(line)["number"] for line in result.output.splitlines()] == numbers


def test_a_malformed_pattern_is_refused(path: Path) -> None:
    result = audit("show", path, "--operation", "fs.**.x")
    assert result.exit_code == 1
    assert "'**' stands only at the end" in result.output


async def test_the_file_of_a_system_verifies(tmp_path: Path) -> None:
    async with rt.ActorSystem(data_dir=tmp_path) as system:
        system.authority.mint("ada", ["fs.read"])
    result = audit("verify", tmp_path / "audit.jsonl")
    assert result.exit_code == 0, result.output
    assert audit("show", tmp_path / "audit.jsonl").output


@pytest.mark.parametrize("command", ["verify", "show"])
def test_a_pipe_is_refused_and_not_waited_for(command: str, path: Path) -> None:
    path.unlink()
    os.mkfifo(path)
    done = CliRunner().invoke(main, ["audit", command, str(path)])
    assert done.exit_code == 1
    assert "it is no plain file" in done.output
