"""Clients and a system in processes of their own: killed in the middle, and started again."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import retinue as rt
from client_faces import Face

pytestmark = pytest.mark.slow

PROGRAM = """
    from collections.abc import AsyncIterator

    import trio

    import retinue as rt


    @rt.message(name="client-processes/Add@1")
    class Add(rt.Request[int]):
        amount: int


    @rt.message(name="client-processes/Ticks@1")
    class Ticks(rt.Stream[int]):
        to: int


    class Counter(rt.Actor):
        def __init__(self) -> None:
            self.total = 0

        @rt.handler(requires="count.add")
        def add(self, message: Add) -> int:
            self.total += message.amount
            return self.total

        @rt.handler(requires="count.read")
        async def ticks(self, message: Ticks) -> AsyncIterator[int]:
            for number in range(message.to):
                yield number
                await trio.sleep(0.05)


    async def main(system: rt.ActorSystem) -> None:
        await system.spawn(Counter, name="counter")
        await system.spawn(Counter, name="ticking")
"""


@rt.message(name="client-processes/Add@1")
class Add(rt.Request[int]):
    amount: int


@rt.message(name="client-processes/Ticks@1")
class Ticks(rt.Stream[int]):
    to: int


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "counting.py").write_text(textwrap.dedent(PROGRAM), encoding="utf-8")
    return tmp_path


@contextmanager
def served(folder: Path, port: int = 0) -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [sys.executable, "-m", "retinue", "serve", "counting:main", "--port", str(port), "--data-dir", str(folder / "data")]
    process = subprocess.Popen(
        command, cwd=folder, env={**os.environ, "PYTHONPATH": str(folder)}, stdout=subprocess.PIPE, text=True, encoding="utf-8"
    )
    try:
        assert process.stdout is not None
        url = next(found[0] for line in process.stdout if (found := re.search(r"http://127\.0\.0\.1:\d+", line)))
        yield process, url
    finally:
        process.kill()
        process.communicate(timeout=30)


def mint(folder: Path) -> str:
    command = [
        sys.executable,
        "-m",
        "retinue",
        "token",
        "mint",
        "--data-dir",
        str(folder / "data"),
        "--subject",
        "ada",
        "--allow",
        "count.*",
    ]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.strip()


def test_a_system_that_is_killed_and_started_again_is_talked_to_on_with_the_same_token(face: Face, folder: Path) -> None:
    with served(folder) as (process, url):
        token = mint(folder)

        async def test(client: Any) -> None:
            counter = client.ref("/user/counter")
            assert await counter.ask(Add(2)) == 2
            assert await counter.ask(Add(3)) == 5
            got = []
            with pytest.raises(rt.StreamClosed, match="broke off"):
                async with client.ref("/user/ticking").stream(Ticks(1000)) as ticks:
                    async for tick in ticks:
                        got.append(tick)
                        if tick == 3:
                            process.send_signal(signal.SIGKILL)
            assert got[:4] == [0, 1, 2, 3]
            process.wait(30)
            with pytest.raises(rt.GatewayError) as caught:
                await counter.ask(Add(1))
            assert caught.value.reason == "unreachable"
            assert caught.value.delivered is False
            with served(folder, int(url.rpartition(":")[2])):
                assert await counter.ask(Add(7)) == 7  # what was in memory is gone, and what was asked before is not asked again

        face.talk(url, test, token=token)


def test_a_system_that_is_told_to_end_ends_its_streams_with_an_error(face: Face, folder: Path) -> None:
    with served(folder) as (process, url):

        async def test(client: Any) -> None:
            with pytest.raises((rt.SystemClosed, rt.StreamClosed)):
                async with client.ref("/user/ticking").stream(Ticks(10_000)) as ticks:
                    async for tick in ticks:
                        if tick == 1:
                            process.terminate()
            assert process.wait(30) is not None

        face.talk(url, test, token=mint(folder))
