"""What a token has opened ends with the token: streams and watches, a few seconds after it was revoked or has expired."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator

import pytest
import trio

import retinue as rt
import retinue.gateway.events
from gateway_raw import Target, attacked
from retinue.security.authority import Authority
from retinue.security.keys import KeyFile
from retinue.security.seal import Sealer


@rt.message(name="ticker/Tick@1")
class Tick(rt.Stream[int]):
    every: float


class Ticker(rt.Actor):
    """Gives items without end; `ended` is set when a reader has left."""

    def __init__(self, ended: list[str]) -> None:
        self.ended = ended

    @rt.handler(requires="ticker.tick")
    async def tick(self, message: Tick) -> AsyncIterator[int]:
        try:
            while True:
                yield 1
                await trio.sleep(message.every)
        finally:
            self.ended.append("tick")


def revoke_here(target: Target, token: str) -> None:
    target.sealer.revoke_token(token)


def revoke_elsewhere(target: Target, token: str) -> None:
    """As another process does, with the same folder."""
    folder = target.system.data_dir
    assert folder is not None
    Sealer(Authority(), KeyFile(folder / "tokens.key"), revocations=folder / "revoked.jsonl").revoke_token(token)


def expire(target: Target, token: str) -> None:
    target.system.authority._clock._clock = lambda: time.time_ns() // 10**6 + 7_200_000


def requests(target: Target, token: str) -> dict[str, bytes]:
    call = {"to": "/user/ticker", "message": {"type": "ticker/Tick@1", "body": {"every": 0.05}}, "timeout": 100}
    quiet = {"to": "/user/quiet", "message": {"type": "ticker/Tick@1", "body": {"every": 1000.0}}, "timeout": 100}
    return {
        "items": target.post("/v1/stream", json.dumps(call).encode(), token=token),
        "silence": target.post("/v1/stream", json.dumps(quiet).encode(), token=token),
        "watch": target.get("/v1/watch?path=/user/probe", token=token),
    }


@pytest.mark.parametrize(
    ("end", "reason"), [(revoke_here, "revoked"), (revoke_elsewhere, "revoked"), (expire, "expired")], ids=["here", "elsewhere", "expired"]
)
async def test_what_a_token_has_opened_ends_with_it(end, reason, tmp_path, monkeypatch):
    monkeypatch.setattr(retinue.gateway.events, "RECHECK", 0.3)
    async with attacked(tmp_path) as target:
        ended: list[str] = []
        for name in ("ticker", "quiet"):
            await target.system.spawn(Ticker, ended, name=name)
        token = target.sealer.seal(target.system.authority.mint("bob", ["**"]), expires_seconds=3600)
        told = {}

        async def read(name: str, request: bytes, task_status: trio.TaskStatus[None]) -> None:
            async with target.client() as client:
                await client.send(request)
                task_status.started()
                reply = await client.reply()
                assert reply is not None and reply.status == 200, reply
                last = reply.body.strip().split(b"\n\n")[-1].split(b"\n")
                told[name] = last[0], json.loads(last[1].removeprefix(b"data: "))

        async with trio.open_nursery() as nursery:
            for name, request in requests(target, token).items():
                await nursery.start(read, name, request)
            while target.gateway.streams < 3:
                await trio.sleep(0.01)
            with trio.fail_after(15):
                end(target, token)
                while target.gateway.streams:
                    await trio.sleep(0.01)
        for name, (event, data) in told.items():
            if (name, reason) == ("watch", "revoked") or name == "watch" or reason == "revoked":
                assert event == b"event: error" and data["error"]["type"] == "TokenError" and data["error"]["reason"] == reason, (
                    name,
                    data,
                )
        assert told.keys() == {"items", "silence", "watch"}
        assert ended == ["tick", "tick"], "the handlers have ended, too"
        target.gateway.refusals.flush(everything=True)
        entries = await target.system.audit.entries(allowed=False)
        assert any(entry.reason == "token" and entry.subject == "bob" for entry in entries)
        target.token = target.sealer.seal(target.system.authority.mint("ada", ["probe.*"]))  # the other one has expired as well
