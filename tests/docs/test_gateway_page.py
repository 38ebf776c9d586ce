"""The commands of the page about the gateway, one after the other, in a shell of their own: serve, mint, ask, and an HTTP client that is not ours."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import trio

import retinue as rt
from housekeeping import ROOT
from retinue.gateway import Gateway
from snippets import commands, snippets

PAGE = ROOT / "docs" / "gateway.md"
SHELL = [
    command for snippet in snippets(PAGE, PAGE.read_text(encoding="utf-8")) if snippet.language == "sh" for command, _ in commands(snippet)
]


@rt.message(name="page/Pay@1")
class Pay(rt.Request[None]):
    cents: int


def command(beginning: str) -> list[str]:
    (found,) = [line for line in SHELL if line.startswith(beginning)]
    return shlex.split(found.removesuffix("&"))


def environment() -> dict[str, str]:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    return {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}


def run_beside(beginning: str, folder: Path) -> str:
    """Runs a command of the page, and returns what it printed."""
    done = subprocess.run(
        command(beginning), cwd=folder, env=environment(), capture_output=True, text=True, encoding="utf-8", check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(name="url")
def _url(tmp_path: Path) -> Iterator[str]:
    """Where the page's `retinue serve` listens, on a free port in the place of its own; the page's token was made before."""
    assert [line.split()[1] for line in SHELL[:3]] == ["token", "serve", "ask"]
    run_beside("retinue token mint ", tmp_path)
    serve = command("retinue serve ")
    serve[serve.index("--port") + 1] = "0"
    server = subprocess.Popen(serve, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, text=True, encoding="utf-8")
    assert server.stdout is not None
    try:
        yield re.sub(r".*(http://\S+)\n", r"\1", server.stdout.readline())
    finally:
        server.terminate()
        assert server.wait(30) == 0
        server.stdout.close()


@pytest.mark.slow
def test_the_commands_of_the_page_work_one_after_the_other(url: str, tmp_path: Path) -> None:
    def run(beginning: str) -> str:
        words = [word.replace("http://127.0.0.1:8420", url) for word in command(beginning)]
        done = subprocess.run(
            words, cwd=tmp_path, env=environment(), capture_output=True, text=True, encoding="utf-8", check=False, timeout=60
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    assert (tmp_path / "ada.token").stat().st_mode & 0o777 == 0o600
    assert run("retinue ask ") == "300"

    words = command("curl -s http://127.0.0.1:8420/v1/ask")  # its request, made without curl, which is not on every machine
    headers = dict(words[index + 1].split(": ", 1) for index, word in enumerate(words) if word == "-H")
    assert headers["Authorization"] == "Bearer $(cat ada.token)"
    headers["Authorization"] = f"Bearer {(tmp_path / 'ada.token').read_text(encoding='ascii').strip()}"
    (address,) = [word for word in words if word.startswith("http://")]
    body = words[words.index("-d") + 1]
    answer = httpx.post(address.replace("http://127.0.0.1:8420", url), headers=headers, content=body, trust_env=False)
    assert (answer.status_code, answer.json()) == (200, {"reply": 300})
    assert f"`{json.dumps(answer.json())}`" in PAGE.read_text(encoding="utf-8")


async def test_the_edit_of_the_page_is_taken(tmp_path: Path) -> None:
    class Bank(rt.Actor):
        @rt.handler(requires="payments.send", approval=True)
        def pay(self, message: Pay) -> None:
            pass

    words = command("curl -s http://127.0.0.1:8420/v1/approvals")
    address, body = words[2], words[words.index("-d") + 1]
    async with rt.ActorSystem("bank", data_dir=tmp_path) as system, trio.open_nursery() as nursery:
        await system.spawn(Bank, name="bank")
        url = await nursery.start(Gateway(system).serve)
        ada, bob = (
            system.sealer().seal(system.authority.mint(who, [what])) for who, what in (("ada", "payments.*"), ("bob", "approvals.*"))
        )
        async with rt.connect(url, token=ada) as client:
            with pytest.raises(rt.ApprovalRequired) as required:
                await client.ref("/user/bank").ask(Pay(500))
        address = address.replace("http://127.0.0.1:8420", url).replace("$id", required.value.request.id)
        headers = {"Authorization": f"Bearer {bob}", "Content-Type": "application/json"}
        async with httpx.AsyncClient(trust_env=False) as curl:
            edited = (await curl.post(address, headers=headers, content=body)).json()["request"]
        assert edited["arguments"] == json.loads(body)["arguments"] and edited["edit_of"] == required.value.request.id
        page = PAGE.read_text(encoding="utf-8").partition("### A request as JSON")[2].partition("###")[0]
        assert [name for name in edited if f"`{name}`" not in page] == []
        nursery.cancel_scope.cancel()
