"""Several processes on one file, and processes that are killed: what was acknowledged is there, once, and nothing is half done."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import store_works
from retinue.actors.store.session import Session
from store_works import NOTES, Add, Count, Texts, texts_in

PROGRAM = store_works.__file__


def start(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, PROGRAM, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def killed_round(path: Path, seconds: float) -> set[str]:
    """Starts a writer, kills it after some time, and returns what it had acknowledged."""
    command = [sys.executable, PROGRAM, "write_for_ever", str(path)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    ) as process:  # a buffer of ours would hide from communicate()
        assert process.stdout is not None
        first = process.stdout.readline()
        time.sleep(seconds)
        process.send_signal(signal.SIGKILL)
        rest, _ = process.communicate(timeout=30)
    lines = (first + rest).decode("utf-8").split("\n")
    return set(lines[:-1])  # the last one may be cut off


def rounds(path: Path, count: int) -> None:
    dice = random.Random(count)
    acknowledged: set[str] = set()
    for _ in range(count):
        acknowledged |= killed_round(path, dice.uniform(0.0, 0.25))
        with Session(path, NOTES) as session:
            texts = session.do(Texts())
            assert session.open().recovered is None, "a killed process is no damage"
        assert acknowledged <= set(texts)
        assert len(texts) == len(set(texts))
    assert len(acknowledged) > count


def test_what_was_acknowledged_survives_a_kill(tmp_path: Path) -> None:
    rounds(tmp_path / "notes.db", 3)


@pytest.mark.slow
def test_what_was_acknowledged_survives_twenty_kills(tmp_path: Path) -> None:
    rounds(tmp_path / "notes.db", 20)


def test_two_stores_in_two_processes_write_into_one_file_and_nothing_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "notes.db"
    writers = [start("write_some", str(path), name, "500") for name in ("left", "right")]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("\n")
        writer.stdin.flush()
    for writer in writers:
        out, _ = writer.communicate(timeout=60)
        assert out == "done\n" and writer.returncode == 0
    assert sorted(texts_in(path)) == sorted(f"{name} {number}" for name in ("left", "right") for number in range(500))


def test_two_sessions_see_what_the_other_has_written(tmp_path: Path) -> None:
    path = tmp_path / "notes.db"
    with Session(path, NOTES) as one, Session(path, NOTES) as other:
        one.do(Add("from one"))
        assert other.do(Texts()) == ["from one"]
        other.do(Add("from the other"))
        assert one.do(Count()) == 2
