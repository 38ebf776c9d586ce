"""The border command: its arithmetic on made-up figures, that its clients see what goes wrong, and that it runs."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from housekeeping import ROOT


@pytest.fixture(autouse=True)
def _benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))


def asks(clients, ours, theirs):
    from benchmarks.border.asks import AsksResult
    from benchmarks.harness import Timed

    timed = {"gateway": Timed(10, ours), "starlette": Timed(10, theirs)}
    return AsksResult(clients, timed, {"gateway": (300.0,), "starlette": (200.0,)})


@pytest.mark.parametrize(("ours", "said"), [(60.0, "reached"), (59.9, "NOT reached"), (120.0, "reached")])
def test_the_gateway_is_judged_with_the_most_clients_and_exactly_at_its_bound(ours, said):
    from benchmarks.border.command import asks_table

    rows = asks_table([asks(1, (10.0,), (100.0,)), asks(16, (ours,), (100.0,))])
    assert [row[1] for row in rows[1:]] == ["1", "1", "16", "16"]
    assert [row[-1] for row in rows[1:]] == ["", "", f"≥ 60%: {said}", ""]


def test_shares_are_formed_within_a_round():
    from benchmarks.border.command import asks_table

    rows = asks_table([asks(16, (70.0, 7.0, 700.0), (100.0, 10.0, 1000.0))])
    assert rows[1][3] == "70% (70% – 70%)"


def test_redemptions_are_told_with_their_latencies():
    from benchmarks.border.command import redeem_table
    from benchmarks.border.redeem import BASE, RedeemResult
    from benchmarks.harness import Timed

    result = RedeemResult({BASE: Timed(4, (200.0,)), "redeem": Timed(4, (50.0,))}, {BASE: [0.005], "redeem": [0.01, 0.02, 0.03]})
    [_, base, redeemed] = redeem_table(result)
    assert base == (BASE, "200 (200 – 200)", "", "5", "5")
    assert redeemed[:4] == ("redeem", "50 (50 – 50)", "25% (25% – 25%)", "20")


# -- the clients ---------------------------------------------------------------------------------------------------------------------------------------


@contextmanager
def answering(*answers: bytes) -> Iterator[int]:
    """A server that answers one request after the other with these, whatever they are, on one connection, and then closes."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            for answer in answers:
                if connection.recv(65536):
                    connection.sendall(answer)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        thread.join(10)
        listener.close()


def told(number: int, status: str = "200 OK") -> bytes:
    body = json.dumps({"reply": number}).encode()
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def test_a_fleet_counts_what_is_answered():
    from benchmarks.border.fleet import Fleet

    with answering(told(1), told(2), told(3)) as port:
        fleet = Fleet(port, b"x", 1)
        assert fleet.run(3) > 0
        fleet.close()


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ((told(1), told(3)), "counted from 1 to 3"),
        ((told(1), told(1)), "counted from 1 to 1"),
        ((told(1), told(2, "500 No")), "status 500"),
        ((told(1), told(2) + b"x"), "more came"),
        ((told(1), b"HTTP/1.1 200 OK\r\n\r\n"), "without a length"),
        ((told(1), told(2)[:-1]), "closed in the middle"),
    ],
)
def test_a_fleet_breaks_at_an_answer_that_is_lost_or_wrong(answers, said):
    from benchmarks.border.fleet import Fleet
    from benchmarks.harness import BrokenBlock

    with answering(*answers) as port:
        fleet = Fleet(port, b"x", 1)
        with pytest.raises(BrokenBlock, match=said):
            fleet.run(2)
        fleet.close()


HEAD = b"HTTP/1.1 200 \r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def test_a_stream_is_read_whatever_pieces_it_comes_in():
    from benchmarks.border.fleet import Connection
    from benchmarks.border.streams import _Stream

    data = (
        HEAD
        + chunk(b": here\n\n")
        + chunk(b"event: item\ndata: 5\n\nevent: it")
        + chunk(b"em\ndata: 7\n\n")
        + chunk(b"event: end\ndata: {}\n\n")
    )
    for size in (1, 7, len(data)):
        with answering(*(data[start : start + size] for start in range(0, len(data), size))) as port:
            stream = _Stream(Connection(port))
            while not stream.ended:
                stream.connection.send(b"x")
                stream.read()
            assert stream.stamps == [5, 7]
            stream.connection.close()


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ((HEAD + chunk(b"event: error\ndata: {}\n\n"),), "ended badly"),
        ((b"HTTP/1.1 403 \r\n\r\n",), "no stream"),
        ((HEAD + chunk(b"event: item\ndata: 5\n\n"),), "cut after 1 items"),
    ],
)
def test_a_stream_that_ends_in_another_way_breaks_the_run(answers, said):
    from benchmarks.border.fleet import Connection
    from benchmarks.border.streams import _Stream
    from benchmarks.harness import BrokenBlock

    with answering(*answers) as port:
        stream = _Stream(Connection(port))
        stream.connection.send(b"x")
        with pytest.raises(BrokenBlock, match=said):
            while not stream.ended:
                stream.read()
        stream.connection.close()


# -- the command ---------------------------------------------------------------------------------------------------------------------------------------


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks", "border", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False, stdin=subprocess.DEVNULL)


def test_results_of_a_part_are_never_written():
    from benchmarks.border.command import border
    from click.testing import CliRunner

    for arguments in (["--only", "redeem", "--write"], ["--quick", "--write"]):
        done = CliRunner().invoke(border, arguments)
        assert done.exit_code == 2
        assert "--write is for a whole run" in done.output


@pytest.mark.slow
@pytest.mark.parametrize(
    ("part", "rows"),
    [
        ("redeem", ["bare SQLite", "redeem, one at a time", "redeem, 32 at once"]),
        ("asks", ["retinue's gateway", "bare starlette"]),
        ("streams", ["steady, 20 streams", "burst, 20 streams"]),
    ],
)
def test_the_command_line_measures_and_prints_tables(part, rows):
    done = run("--quick", "--only", part)
    assert done.returncode == 0, done.stderr
    for row in rows:
        assert row in done.stdout
