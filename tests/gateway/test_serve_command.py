"""`retinue serve`, as a process of its own: what it prints, how it ends, and what it refuses."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

SHOP = """
import time
import trio
import retinue as rt

@rt.message(name="shop/Price@1")
class Price(rt.Request[int]):
    item: str

@rt.message(name="shop/Wait@1")
class Wait(rt.Request[str]):
    seconds: float

@rt.message(name="shop/Block@1")
class Block(rt.Request[str]):
    pass

@rt.message(name="shop/Tick@1")
class Tick(rt.Stream[int]):
    pass

class Shop(rt.Actor):
    @rt.handler(requires="shop.read")
    def price(self, message: Price) -> int:
        return {"tea": 3}[message.item]

    @rt.handler(requires="shop.read")
    async def wait(self, message: Wait) -> str:
        await trio.sleep(message.seconds)
        return "waited"

    @rt.handler(requires="shop.read")
    def block(self, message: Block) -> str:
        print("blocks", flush=True)
        time.sleep(1000)
        return ""

    @rt.handler(requires="shop.read")
    async def tick(self, message: Tick):
        number = 0
        while True:
            yield number
            number += 1
            await trio.sleep(0.05)

async def main(system):
    await system.spawn(Shop, name="shop")

async def goes_on(system):
    await main(system)
    await trio.sleep_forever()

def plain(system):
    system.spawn(Shop, name="shop")

def plain_goes_on(system):
    plain(system)
    while True:
        time.sleep(1)

async def breaks(system):
    raise ValueError("no tea today")

def plain_breaks(system):
    raise ValueError("no tea today")

async def no_system():
    pass
"""

BODY = {"to": "/user/shop", "message": {"type": "shop/Price@1", "body": {"item": "tea"}}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(textwrap.dedent(SHOP), encoding="utf-8")
    return tmp_path


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "retinue", "serve", *arguments]


@contextmanager
def serving(folder: Path, function: str, *more: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server, and its URL."""
    process = subprocess.Popen(
        command(f"shop:{function}", "--port", "0", "--data-dir", "data", *more),
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.fullmatch(r"listening on (http://127\.0\.0\.1:\d+)\n", line)
        assert found, (line, process.stderr.read() if process.poll() is not None and process.stderr else "")
        yield process, found[1]
    finally:
        process.kill()
        process.communicate()


def token_of(folder: Path) -> dict[str, str]:
    """A token that is made as `retinue token mint` makes one: with the folder's key, in another process than the server's."""
    from retinue.security.authority import Authority
    from retinue.security.seal import Sealer

    authority = Authority()
    token = Sealer(authority, folder / "data" / "tokens.key").seal(authority.mint("ada", ["shop.read"]))
    return {"Authorization": f"Bearer {token}"}


@pytest.mark.parametrize(
    ("function", "number", "code"),
    [
        ("main", signal.SIGTERM, 0),
        pytest.param("main", signal.SIGINT, 130, marks=pytest.mark.slow),
        pytest.param("plain", signal.SIGTERM, 0, marks=pytest.mark.slow),
        pytest.param("plain", signal.SIGINT, 130, marks=pytest.mark.slow),
    ],
)
def test_a_signal_ends_it_in_good_order(folder: Path, function: str, number: int, code: int) -> None:
    with serving(folder, function) as (process, url):
        assert httpx.post(f"{url}/v1/ask", json=BODY, headers=token_of(folder), trust_env=False).json() == {"reply": 3}
        assert httpx.post(f"{url}/v1/ask", json=BODY, trust_env=False).status_code == 401
        process.send_signal(number)
        assert process.wait(20) == code
        assert process.stderr is not None and process.stderr.read() == ""


@pytest.mark.slow
def test_a_function_that_goes_on_is_served_all_the_same_and_ended_with_the_server(folder: Path) -> None:
    with serving(folder, "goes_on") as (process, url):
        assert httpx.post(f"{url}/v1/ask", json=BODY, headers=token_of(folder), trust_env=False).json() == {"reply": 3}
        process.terminate()
        assert process.wait(20) == 0


@pytest.mark.slow
def test_an_ask_in_progress_is_answered_and_a_stream_gets_its_last_event(folder: Path) -> None:
    with (
        serving(folder, "main") as (process, url),
        httpx.Client(base_url=url, headers=token_of(folder), timeout=20, trust_env=False) as client,
    ):
        with client.stream("POST", "/v1/stream", json={"to": "/user/shop", "message": {"type": "shop/Tick@1", "body": {}}}) as ticks:
            parts = ticks.iter_text()
            assert "event: item" in next(parts)
            slow = socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])))
            body = b'{"to":"/user/shop","message":{"type":"shop/Wait@1","body":{"seconds":1.0}}}'
            head = f"POST /v1/ask HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
            slow.sendall(head.encode("ascii") + f"Authorization: {client.headers['Authorization']}\r\n\r\n".encode("ascii") + body)
            time.sleep(0.3)
            process.terminate()
            rest = "".join(parts)
        assert rest.rpartition("event: ")[2].startswith("error\ndata: ") and '"type":"SystemClosed"' in rest
        with slow:
            slow.settimeout(10)
            answer = b""
            while part := slow.recv(65536):
                answer += part
        assert answer.startswith(b"HTTP/1.1 200") and answer.endswith(b'{"reply":"waited"}')
        assert process.wait(20) == 0


@pytest.mark.slow
def test_what_hangs_is_cut_off_when_the_grace_is_over(folder: Path) -> None:
    with serving(folder, "main", "--grace", "0.3") as (process, url):
        hang = {"to": "/user/shop", "message": {"type": "shop/Wait@1", "body": {"seconds": 1000}}}
        with httpx.Client(headers=token_of(folder), timeout=20, trust_env=False) as client, pytest.raises(httpx.TransportError):
            begun = time.monotonic()
            timer = subprocess.Popen(
                [sys.executable, "-c", f"import os, signal, time; time.sleep(0.5); os.kill({process.pid}, signal.SIGTERM)"]
            )
            client.post(f"{url}/v1/ask", json=hang)
        timer.wait()
        assert process.wait(60) == 0 and time.monotonic() - begun < 60


@pytest.mark.parametrize("function", ["breaks", pytest.param("plain_breaks", marks=pytest.mark.slow)])
def test_a_function_that_fails_ends_it_with_a_short_text(folder: Path, function: str) -> None:
    done = subprocess.run(
        command(f"shop:{function}", "--port", "0", "--data-dir", "data"),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1 and done.stdout == ""
    assert re.fullmatch(rf"Error: shop:{function} raised ValueError: no tea today \(line \d+ of shop\.py\)\n", done.stderr), done.stderr


@pytest.mark.slow
def test_what_cannot_be_served_is_refused_with_the_reason(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for arguments, code, text in (
            (["shop:main", "--host", "0.0.0.0"], 2, "--allow-remote"),
            (["shop:Shop"], 2, "is a class"),
            (["shop:main", "--approval-lifetime", "400d"], 2, "366d"),
            (["shop:main", "--approval-lifetime", "0.5s"], 2, "from 1s"),
            (["shop:no_system"], 2, "one argument, the system"),
            (["shop:main", "--port", port, "--data-dir", "data"], 1, "cannot listen"),
            (["shop:plain", "--port", port, "--data-dir", "data"], 1, "cannot listen"),
        ):
            done = subprocess.run(command(*arguments), cwd=folder, capture_output=True, text=True, timeout=60, check=False)
            assert (done.returncode, text in done.stderr) == (code, True), done
            assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_two_servers_on_a_folder_have_a_file_of_records_each(folder: Path) -> None:
    with serving(folder, "main"), serving(folder, "main"):
        assert {path.name for path in (folder / "data").glob("audit*")} == {"audit.jsonl", "audit.2.jsonl", "audit.key"}


@pytest.mark.slow
def test_the_address_is_printed_at_once_into_a_pipe_and_the_folder_is_the_owners_alone(folder: Path) -> None:
    with serving(folder, "main"):
        assert oct((folder / "data").stat().st_mode & 0o777) == "0o700"
        assert oct((folder / "data" / "tokens.key").stat().st_mode & 0o777) == "0o600"


@pytest.mark.slow
def test_tokens_for_one_of_several_are_for_the_one_that_says_so(folder: Path) -> None:
    from retinue.security.seal import attenuate

    with serving(folder, "main", "--audience", "shop-a") as (_, url):
        token = token_of(folder)["Authorization"].removeprefix("Bearer ")
        for audience, code in (("shop-a", 200), ("shop-b", 401)):
            headers = {"Authorization": f"Bearer {attenuate(token, 'shop.read', audience=audience)}"}
            assert httpx.post(f"{url}/v1/ask", json=BODY, headers=headers, trust_env=False).status_code == code


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_it_at_once_even_where_a_handler_blocks_the_loop(folder: Path, number: int) -> None:
    with serving(folder, "main") as (process, url):
        body = b'{"to":"/user/shop","message":{"type":"shop/Block@1","body":{}}}'
        head = f"POST /v1/ask HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        with socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2]))) as blocked:
            blocked.sendall(f"{head}Authorization: {token_of(folder)['Authorization']}\r\n\r\n".encode("ascii") + body)
            assert process.stdout is not None and process.stdout.readline() == "blocks\n"
            process.send_signal(number)
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(0.5)
            process.send_signal(number)
            assert process.wait(10) == 128 + number
