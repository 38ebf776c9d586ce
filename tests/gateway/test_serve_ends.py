"""How `retinue serve` ends when the served function ends it, fails, or does not let itself be ended; and whose keys count when it goes to another folder."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

import retinue as rt
from retinue.security.authority import Authority
from retinue.security.revocations import Revocations
from retinue.security.seal import Sealer

ENDS = """
import os, sys, time
import trio
import retinue as rt

@rt.message(name="shop/Price@1")
class Price(rt.Request[int]):
    item: str

class Shop(rt.Actor):
    @rt.handler(requires="shop.read")
    def price(self, message: Price) -> int:
        return 3

async def nothing(system):
    pass

async def leaves(system):
    await system.spawn(Shop, name="shop")
    os.chdir("elsewhere")

def plain_leaves(system):
    system.spawn(Shop, name="shop")
    os.chdir("elsewhere")

async def exits(system):
    sys.exit(7)

def plain_exits(system):
    sys.exit(7)

async def exits_with_a_text(system):
    sys.exit("no tea today")

async def interrupts(system):
    raise KeyboardInterrupt

def plain_interrupts(system):
    raise KeyboardInterrupt

async def exits_in_a_group(system):
    async with trio.open_nursery() as nursery:
        nursery.start_soon(exits, system)

async def fails_in_a_group(system):
    raise BaseExceptionGroup("both", [ValueError("one"), ValueError("two")])

async def stops(system):
    await system.stop()

async def stops_later(system):
    await trio.sleep(0.1)
    await system.stop()

def plain_stops(system):
    system.stop()

async def tells_a_secret(system):
    raise ValueError("cannot log in with password=hunter2hunter2 \\x1b[2J")

def plain_tells_a_secret(system):
    raise ValueError("cannot log in with password=hunter2hunter2 \\x1b[2J")

def swallows(system):
    said = "runs"
    while True:
        try:
            if said:  # inside: a signal may come as soon as it is read
                print(said, flush=True)
                said = ""
            time.sleep(60)
        except BaseException as error:
            print("swallowed", flush=True)
"""

BODY = {"to": "/user/shop", "message": {"type": "shop/Price@1", "body": {"item": "tea"}}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "ends.py").write_text(ENDS, encoding="utf-8")
    (tmp_path / "elsewhere" / "data").mkdir(parents=True)
    return tmp_path


def command(function: str, *more: str) -> list[str]:
    return [sys.executable, "-m", "retinue", "serve", f"ends:{function}", "--port", "0", "--data-dir", "data", *more]


def ended(folder: Path, function: str, *more: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command(function, *more), cwd=folder, capture_output=True, text=True, encoding="utf-8", timeout=60, check=False)
    assert "Traceback" not in done.stderr, done.stderr
    return done


@contextmanager
def process_of(folder: Path, function: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(command(function), cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8")
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "code", "text"),
    [
        ("exits", 7, ""),
        ("plain_exits", 7, ""),
        ("exits_in_a_group", 7, ""),
        ("exits_with_a_text", 1, "Error: no tea today\n"),
        ("interrupts", 130, ""),
        ("plain_interrupts", 130, ""),
        ("stops", 0, ""),
        ("stops_later", 0, ""),
        ("plain_stops", 0, ""),
    ],
)
def test_a_function_ends_the_server_by_its_exit_or_by_stopping_the_system(folder: Path, function: str, code: int, text: str) -> None:
    done = ended(folder, function)
    assert (done.returncode, done.stderr, done.stdout) == (code, text, "")


@pytest.mark.slow
def test_a_group_of_errors_is_told_in_one_line(folder: Path) -> None:
    done = ended(folder, "fails_in_a_group")
    assert done.returncode == 1 and re.fullmatch(r"Error: ends:fails_in_a_group raised (Base)?ExceptionGroup: both .*\n", done.stderr)


@pytest.mark.slow
@pytest.mark.parametrize("function", ["tells_a_secret", "plain_tells_a_secret"])
def test_what_the_function_raised_is_told_without_secrets_and_escapes(folder: Path, function: str) -> None:
    done = ended(folder, function)
    assert done.returncode == 1 and "cannot log in with" in done.stderr
    assert "hunter2" not in done.stderr and "\x1b" not in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "second"), [(signal.SIGTERM, signal.SIGTERM), (signal.SIGINT, signal.SIGTERM), (signal.SIGINT, signal.SIGINT)]
)
def test_a_plain_function_that_catches_everything_does_not_survive_the_second_signal(folder: Path, first: int, second: int) -> None:
    with process_of(folder, "swallows") as process:
        assert process.stdout is not None and process.stdout.readline() == "runs\n"
        process.send_signal(first)
        assert process.stdout.readline() == "swallowed\n"
        process.send_signal(second)
        assert process.wait(10) == -second


@pytest.mark.parametrize(
    ("option", "value", "right"),
    [
        ("--rate", "nan", False),
        pytest.param("--rate", "0", False, marks=pytest.mark.slow),
        pytest.param("--rate", "-1", False, marks=pytest.mark.slow),
        pytest.param("--rate", "1e308", False, marks=pytest.mark.slow),
        pytest.param("--rate", "inf", True, marks=pytest.mark.slow),
        pytest.param("--rate", "0.1", True, marks=pytest.mark.slow),
        pytest.param("--rate", "1e9", True, marks=pytest.mark.slow),
        pytest.param("--grace", "nan", False, marks=pytest.mark.slow),
        pytest.param("--grace", "inf", False, marks=pytest.mark.slow),
    ],
)
def test_numbers_that_are_none_are_refused_as_usage(folder: Path, option: str, value: str, right: bool) -> None:
    done = ended(folder, "stops", option, value)
    assert (done.returncode, f"Invalid value for '{option}'" in done.stderr) == ((0, False) if right else (2, True)), done


@pytest.mark.slow
@pytest.mark.parametrize("function", ["leaves", "plain_leaves"])
def test_a_function_that_goes_to_another_folder_does_not_take_the_trust_there(folder: Path, function: str) -> None:
    foreign = Authority()
    theirs = Sealer(foreign, folder / "elsewhere" / "data" / "tokens.key").seal(foreign.mint("mallory", ["**"]))
    with process_of(folder, function) as process:
        assert process.stdout is not None
        url = process.stdout.readline().removeprefix("listening on ").strip()
        ours = Sealer(foreign, folder / "data" / "tokens.key", revocations=folder / "data" / "revoked.jsonl")
        mine = ours.seal(foreign.mint("ada", ["shop.read"]))

        def asked(token: str) -> int:
            headers = {"Authorization": f"Bearer {token}"}
            return httpx.post(f"{url}/v1/ask", json=BODY, headers=headers, trust_env=False).status_code

        assert (asked(mine), asked(theirs)) == (200, 401)
        ours.revoke_token(mine)
        assert asked(mine) == 401
        process.terminate()
        assert process.wait(20) == 0
    assert sorted(path.name for path in (folder / "elsewhere").iterdir()) == ["data"]
    assert {path.name for path in (folder / "elsewhere" / "data").iterdir()} <= {"tokens.key", "tokens.key.lock"}


async def test_a_system_keeps_its_folder_wherever_the_process_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "there" / "data").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here")
    async with rt.ActorSystem("home", data_dir="data") as system:
        before = system.sealer()
        token = before.seal(system.authority.mint("ada", ["x"]))
        monkeypatch.chdir(tmp_path / "there")
        foreign = Authority()
        theirs = Sealer(foreign, "data/tokens.key").seal(foreign.mint("mallory", ["**"]))
        for sealer in (before, system.sealer()):
            assert sealer.unseal(token).subject == "ada"
            with pytest.raises(rt.TokenError):
                sealer.unseal(theirs)
        await system.approvals.pending()
        before.revoke_token(token)
        with pytest.raises(rt.TokenError):
            system.sealer().unseal(token)
    assert {path.name for path in (tmp_path / "there" / "data").iterdir()} <= {"tokens.key", "tokens.key.lock"}


def test_files_of_keys_tokens_and_revocations_stay_where_they_were_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    keys, token, revoked = rt.KeyFile("a.key"), rt.TokenFile("a.token"), Revocations("revoked.jsonl")
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert keys.path.parent == token.path.parent == revoked.path.parent == tmp_path  # type: ignore[union-attr]
    keys.create()
    revoked.add(["0" * 24])
    assert list((tmp_path / "elsewhere").iterdir()) == []
