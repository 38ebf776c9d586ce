"""Attacks on `retinue serve`, a process of its own: it lives on, serves the next one, says nothing that is secret, and its audit adds up."""

from __future__ import annotations

import json
import os
import re
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs
import pytest

import retinue as rt
from retinue.security.audit_chain import AuditEntry
from retinue.security.authority import Authority
from retinue.security.keys import KeyFile
from retinue.security.seal import Sealer

SERVED = '''
import retinue as rt

@rt.message(name="safe/Look@1")
class Look(rt.Request[int]):
    what: str

class Safe(rt.Actor):
    """Counts."""

    def __init__(self) -> None:
        self.count = 0

    @rt.handler(requires="safe.look")
    def look(self, message: Look) -> int:
        self.count += 1
        return self.count

async def main(system):
    await system.spawn(Safe, name="safe")
'''


@attrs.frozen
class Served:
    """A server's process, and how it is reached."""

    process: subprocess.Popen[str]
    port: int
    folder: Path
    token: str

    def request(self, token: str | None) -> bytes:
        body = json.dumps({"to": "/user/safe", "message": {"type": "safe/Look@1", "body": {"what": "x"}}}).encode()
        lines = ["POST /v1/ask HTTP/1.1", f"Host: 127.0.0.1:{self.port}", "Content-Type: application/json", f"Content-Length: {len(body)}"]
        lines += [] if token is None else [f"Authorization: Bearer {token}"]
        return "\r\n".join([*lines, "Connection: close", "", ""]).encode() + body

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=20)

    def once(self, data: bytes) -> bytes:
        """Sends it, and reads to the end."""
        answer = b""
        with self.connect() as connection:
            try:
                connection.sendall(data)
                while part := connection.recv(65536):
                    answer += part
            except ConnectionError:
                pass
        return answer

    def ask(self) -> int:
        """A good request's answer."""
        head, _, body = self.once(self.request(self.token)).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), (head, body)
        count = json.loads(body)["reply"]
        assert type(count) is int
        return count

    def resident(self) -> int:
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def descriptors(self) -> int:
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))


@contextmanager
def served(folder: Path) -> Iterator[Served]:
    (folder / "safe.py").write_text(SERVED, encoding="utf-8")
    command = [sys.executable, "-m", "retinue", "serve", "safe:main", "--port", "0", "--data-dir", "data"]
    with (folder / "stderr").open("w", encoding="utf-8") as errors:
        process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=errors, text=True, encoding="utf-8")
    try:
        assert process.stdout is not None
        found = re.search(r"http://127\.0\.0\.1:(\d+)", process.stdout.readline())
        assert found, (folder / "stderr").read_text(encoding="utf-8")
        authority = Authority()
        token = Sealer(authority, KeyFile(folder / "data" / "tokens.key")).seal(authority.mint("ada", ["safe.*"]))
        yield Served(process, int(found[1]), folder, token)
        assert process.poll() is None, "the server has ended"
        process.terminate()
        process.wait(30)
        told = (folder / "stderr").read_text(encoding="utf-8") + process.stdout.read()
        assert not [part for part in token.split(".")[2:] if part in told]
    finally:
        process.kill()
        process.communicate()


def refusals(folder: Path) -> int:
    """Refused tokens in the audit file, whose chain must hold."""
    done = subprocess.run(
        [sys.executable, "-m", "retinue", "audit", "verify", str(folder / "data" / "audit.jsonl")],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    entries = [
        AuditEntry.from_data(json.loads(line)) for line in (folder / "data" / "audit.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    return sum(entry.count for entry in entries if entry.reason == "token" and not entry.allowed)


@pytest.mark.slow
def test_a_server_without_free_descriptors_serves_again_when_there_are_some(tmp_path):
    with served(tmp_path) as server:
        assert server.ask() == 1
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (64, 64))
        idle = []
        for _ in range(200):
            try:
                idle.append(server.connect())
            except OSError:
                break
        time.sleep(1.0)
        assert server.process.poll() is None
        for connection in idle:
            connection.close()
        deadline = time.monotonic() + 20
        while server.descriptors() > 40:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert server.ask() == 2


@pytest.mark.slow
def test_thousands_of_bad_requests_cost_no_memory_and_few_records_and_are_all_counted(tmp_path):
    with served(tmp_path) as server:
        narrow = rt.attenuate(server.token, rt.allow("another.thing"))
        bad = [server.request(None), server.request("nonsense"), server.request(server.token[:-1] + "A" * 2), b"\0" * 100 + b"\r\n\r\n"]
        for data in bad * 100:
            server.once(data)
        before, descriptors = server.resident(), server.descriptors()
        for data in bad * 500:
            server.once(data)
        assert b"403" in server.once(server.request(narrow)).partition(b"\r\n")[0]
        assert server.ask() == 1, "nothing but this one has reached the actor"
        assert server.resident() - before < 8 * 2**20
        assert server.descriptors() <= descriptors + 2
    assert refusals(tmp_path) == 3 * 600
    records = (tmp_path / "data" / "audit.jsonl").read_text(encoding="utf-8").count("\n")
    assert records < 600, "a flood of refusals is written in few records"
