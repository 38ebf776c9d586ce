"""Crowds: who has no token takes no place of who has one, who leaves is noticed whatever it has sent, and who takes nothing is kept nothing."""

from __future__ import annotations

import errno
import json
import logging
import resource
import socket
import subprocess
import sys
from pathlib import Path
from typing import Self

import attrs
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

import retinue as rt
import retinue.gateway.connections
import retinue.gateway.serving
import retinue.gateway.wires
from gateway_raw import ask_body, attacked
from gateway_shop import Open, Shop, call, open_shop
from retinue.gateway.bounds import Bounds
from retinue.gateway.refusals import Refusals
from retinue.gateway.serving import Server
from retinue.gateway.unsent import Unsent

BODY = ask_body()


# -- places --------------------------------------------------------------------------------------------------------------------------------------------


async def test_connections_without_a_token_make_room(tmp_path):
    async with attacked(tmp_path, max_connections=8) as target, trio.open_nursery() as nursery:
        ways = {
            "says nothing": b"",
            "a part of a line": b"POST /v1",
            "a part of a head": target.head("POST /v1/ask HTTP/1.1"),
            "no token": target.get("/v1/actors", token=None),
            "a wrong token": target.get("/v1/actors", token="rt1.0.x." + "A" * 43),
            "another host": b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        }
        for name, data in ways.items():
            for _ in range(12):
                stream = await trio.open_tcp_stream("127.0.0.1", target.port)
                nursery.start_soon(hold, stream, data)
            await trio.sleep(0.05)
            assert len(target.gateway._server.connections) <= 8, name
            for _ in range(3):
                await target.still_serves()
        nursery.cancel_scope.cancel()


async def hold(stream: trio.SocketStream, data: bytes) -> None:
    async with stream:
        with trio.CancelScope():
            try:
                await stream.send_all(data)
                while await stream.receive_some():
                    pass
            except trio.BrokenResourceError:
                pass
            await trio.sleep_forever()


async def test_connections_whose_token_was_accepted_make_none(tmp_path):
    async with attacked(tmp_path, max_connections=4) as target:
        async with target.client() as one, target.client() as two, target.client() as three, target.client() as four:
            for client in (one, two, three, four):
                await client.send(target.post("/v1/ask", BODY))
                assert (await client.reply()) is not None
            for _ in range(3):
                reply = await target.once(target.get("/v1/openapi.json"))
                assert reply is not None and reply.status == 503 and reply.error["reason"] == "rate"
            for client in (one, two, three, four):
                await client.send(target.post("/v1/ask", BODY))
                reply = await client.reply()
                assert reply is not None and reply.status == 200
        while target.gateway._server.connections:
            await trio.sleep(0.01)


async def test_who_shows_no_token_keeps_no_connection(tmp_path):
    async with attacked(tmp_path) as target:
        bad = {
            "no token": target.get("/v1/actors", token=None),
            "a wrong one": target.get("/v1/actors", token="rt1.0.x." + "A" * 43),
            "another host": target.get("/v1/actors").replace(b"Host: 127.0.0.1", b"Host: evil"),
            "a foreign page": target.get("/v1/actors", "Origin: http://evil.example"),
        }
        for name, request in bad.items():
            async with target.client() as client:
                await client.send(request + target.post("/v1/ask", BODY))
                reply = await client.reply()
                assert reply is not None and reply.status in (401, 421) and reply.headers["connection"] == "close", name
                assert await client.closed(patience=2) == b""
            async with target.client() as client:
                await client.send(target.post("/v1/ask", BODY) + request + target.post("/v1/ask", BODY))
                replies = [await client.reply() for _ in range(3)]
                assert [reply.status for reply in replies if reply] in ([200, 401, 200], [200, 421, 200]), name


async def test_a_connection_waits_long_only_for_who_has_shown_a_token(tmp_path, monkeypatch):
    monkeypatch.setattr(retinue.gateway.connections, "NEWCOMER", 0.2)
    async with attacked(tmp_path, keep_alive=3.0) as target, target.client() as known, target.client() as unknown:
        await known.send(target.post("/v1/ask", BODY))
        assert await known.reply() is not None
        await unknown.send(target.get("/v1/actors", token=None).replace(b"HTTP/1.1", b"HTTP/1.1", 1))
        assert await unknown.reply() is not None
        await unknown.closed(patience=2)
        await trio.sleep(0.6)
        await known.send(target.post("/v1/ask", BODY))
        assert await known.reply() is not None


async def test_a_method_in_lower_case_is_none(tmp_path):
    async with attacked(tmp_path) as target:
        for method in ("get", "Get", "post", "gET"):
            async with target.client() as client:
                await client.send(target.head(f"{method} /v1/openapi.json HTTP/1.1") + b"\r\n")
                reply = await client.reply()
                assert reply is not None and reply.status == 400, method


# -- files ---------------------------------------------------------------------------------------------------------------------------------------------


async def test_no_more_connections_are_taken_than_the_process_has_files_for(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(retinue.gateway.serving, "files_left", lambda: 52)
    with caplog.at_level(logging.WARNING, "retinue.gateway"):
        async with open_shop(tmp_path) as shop:
            assert shop.gateway._server.most == 20
    assert [record.levelname for record in caplog.records if "20 connections instead of 2048" in record.getMessage()] == ["WARNING"]


def test_the_files_that_are_left_are_counted():
    before = retinue.gateway.serving.files_left()
    assert 0 < before <= resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    with socket.socket(), socket.socket():
        assert retinue.gateway.serving.files_left() == before - 2


async def test_no_room_for_a_connection_is_said_once_a_second(caplog, autojump_clock):
    class Full:
        tries = 0

        async def accept(self) -> object:
            self.tries += 1
            raise OSError(errno.EMFILE, "Too many open files")

        async def aclose(self) -> None:
            pass

        async def __aenter__(self) -> Self:
            return self

        async def __aexit__(self, *_: object) -> None:
            pass

    full = Full()
    server = Server(lambda *_: None, Bounds(), Refusals(None), lambda: None)
    with caplog.at_level(logging.ERROR, "retinue.gateway"), trio.move_on_after(4.95):
        async with trio.open_nursery() as nursery:
            await server._accept(full, nursery)  # type: ignore[arg-type]
    said = [record for record in caplog.records if "no connection can be taken" in record.getMessage()]
    assert 40 < full.tries < 60 and len(said) == 5 and not any(record.exc_info for record in said)


@pytest.mark.slow
def test_a_server_with_few_files_serves_and_says_little(tmp_path):
    program = """
import resource, socket, sys
import trio
sys.path[:0] = sys.argv[1:3]
resource.setrlimit(resource.RLIMIT_NOFILE, (96, 96))
from pathlib import Path
from gateway_raw import attacked
async def main():
    async with attacked(Path(sys.argv[3])) as target, trio.open_nursery() as nursery:
        held = []
        for _ in range(8):
            held.append(await trio.open_tcp_stream("127.0.0.1", target.port))
        await target.still_serves()
        assert target.gateway._server.most < 60
        for stream in held:
            await stream.aclose()
trio.run(main)
"""
    support = Path(__file__).parent.parent / "support"
    done = subprocess.run(
        [sys.executable, "-c", program, str(support), str(tmp_path), str(tmp_path / "data")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    assert done.stderr.count("\n") <= 3


# -- leaving -------------------------------------------------------------------------------------------------------------------------------------------


def request(shop: Open, name: str, to: str = "/user/shop", /, **body: object) -> bytes:
    data = json.dumps(call(name, to, more={"timeout": 30}, **body)).encode()
    head = f"POST /v1/ask HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {shop.token}\r\nContent-Type: application/json\r\n"
    return head.encode("ascii") + b"Content-Length: %d\r\n\r\n" % len(data) + data


@pytest.mark.parametrize(
    "behind", [b"", b"G", b"\r\n", "more", "many"], ids=["nothing", "a byte", "an empty line", "a request", "requests"]
)
async def test_who_leaves_is_noticed_whatever_it_has_sent_already(tmp_path, behind, monkeypatch):
    monkeypatch.setattr(retinue.gateway.connections, "LEAVING", 0.2)
    async with open_shop(tmp_path) as shop:
        price = request(shop, "Price", item="tea")
        data = price if behind == "more" else price * 40 if behind == "many" else behind
        for way in ("close", "half"):
            stream = await trio.open_tcp_stream("127.0.0.1", shop.port)
            await stream.send_all(request(shop, "Slow", seconds=20) + data)
            await shop.until(lambda: len(shop.begun) == 1)
            if way == "close":
                await stream.aclose()
            else:
                await stream.send_eof()
            await shop.until(lambda: shop.done == ["cancelled"], seconds=4)
            await shop.until(lambda: not shop.gateway._server.connections, seconds=4)
            assert len(shop.begun) == 1, "what stood behind it was not done"
            await stream.aclose()
            shop.begun.clear()
            shop.done.clear()


async def test_who_sends_more_and_more_behind_a_request_is_cut_off(tmp_path):
    async with open_shop(tmp_path) as shop:
        stream = await trio.open_tcp_stream("127.0.0.1", shop.port)
        await stream.send_all(request(shop, "Slow", seconds=20))
        with trio.fail_after(15), pytest.raises(trio.BrokenResourceError):
            while True:
                await stream.send_all(request(shop, "Price", item="tea") * 100)
        await shop.until(lambda: shop.done == ["cancelled"])
        await stream.aclose()


async def test_several_requests_at_once_and_a_half_close_are_answered_if_it_does_not_take_long(tmp_path):
    async with open_shop(tmp_path) as shop:
        stream = await trio.open_tcp_stream("127.0.0.1", shop.port)
        await stream.send_all(
            request(shop, "Price", item="tea") * 3 + request(shop, "Slow", seconds=0.1) + request(shop, "Price", item="tea")
        )
        await stream.send_eof()
        answer = b""
        while part := await stream.receive_some():
            answer += part
        assert answer.count(b'{"reply":3}') >= 3
        assert b'{"reply":"slept"}' in answer
        await stream.aclose()


# -- what nobody takes ---------------------------------------------------------------------------------------------------------------------------------


@attrs.define(eq=False)
class Slow:
    owner: str
    moved: float
    cut: bool = False

    def abort(self) -> None:
        self.cut = True


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 60), st.booleans()), max_size=40))
def test_no_more_is_kept_than_may_be_and_the_slowest_are_cut(sends):
    unsent = Unsent(Bounds(max_unsent=100, max_unsent_per_token=50))
    open_now: list[tuple[Slow, str, int]] = []
    for number, (owner, size, ends) in enumerate(sends):
        taker = Slow(owner, float(number))
        open_now.append((taker, unsent.begin(taker, size), size))
        if ends:
            done = open_now.pop(0)
            unsent.end(done[0], done[1])
        open_now = [each for each in open_now if not each[0].cut]
        assert unsent.total == sum(size for _, _, size in open_now)
        for name in "abc":
            mine = [size for _, owner, size in open_now if owner == name]
            assert sum(mine) <= 50 or len(mine) == 1
        assert unsent.total <= 100 or len(open_now) == 1
    for taker, owner, _ in open_now:
        unsent.end(taker, owner)
    assert unsent.total == 0 and not unsent._of_token


def test_it_is_the_one_that_has_taken_nothing_for_longest_and_of_the_token_that_has_most():
    unsent = Unsent(Bounds(max_unsent=100, max_unsent_per_token=80))
    a, b, c, d = Slow("ada", 3.0), Slow("ada", 1.0), Slow("ada", 2.0), Slow("bob", 0.0)
    for taker in (a, b, c):
        unsent.begin(taker, 25)
    unsent.begin(d, 30)
    assert [each.cut for each in (a, b, c, d)] == [False, True, False, False]
    unsent.begin(Slow("ada", 4.0), 40)
    assert [each.cut for each in (a, b, c, d)] == [False, True, True, False]


async def test_slow_readers_of_one_token_are_cut_and_others_are_served(tmp_path):
    async with open_shop(tmp_path, max_unsent_per_token=10 * 70_000, max_unsent=20 * 70_000) as shop, trio.open_nursery() as nursery:
        bob = shop.mint("bob", "shop.read")
        for number in range(30):
            await shop.system.spawn(Shop, [], [], name=f"shop{number}")

        async def slow(number: int) -> None:
            stream = await trio.open_tcp_stream("127.0.0.1", shop.port)
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            async with stream:
                await stream.send_all(request(shop, "Bytes", f"/user/shop{number}").replace(b"/v1/ask", b"/v1/stream"))
                while True:
                    await trio.sleep(0.5)
                    try:
                        if not await stream.receive_some(1):
                            break
                    except trio.BrokenResourceError:
                        break

        for number in range(30):
            nursery.start_soon(slow, number)
        server = shop.gateway._server
        assert server is not None
        most = 0
        with trio.fail_after(20):
            while shop.gateway.streams > 12 or not most:
                await trio.sleep(0.02)
                most = max(most, server.unsent.total)
        assert most <= 10 * 70_000
        answer = await shop.client.post("/v1/ask", json=call("Large", size=300_000), headers={"Authorization": f"Bearer {bob}"})
        assert answer.status_code == 200 and len(answer.content) > 300_000
        nursery.cancel_scope.cancel()


async def test_an_item_has_a_bound_of_its_own(tmp_path):
    async with open_shop(tmp_path, max_item=1_000) as shop:
        answer = await shop.client.post("/v1/stream", json=call("Bytes"))
        assert answer.status_code == 500 and answer.json()["error"]["type"] == "RemoteError"
        assert (await shop.client.post("/v1/ask", json=call("Large", size=5_000))).status_code == 200


# -- many actors ---------------------------------------------------------------------------------------------------------------------------------------


class Parent(rt.Actor):
    async def on_start(self) -> None:
        for number in range(4):
            await self.ctx.spawn(Leaf, name=f"leaf{number}")


class Leaf(rt.Actor):
    pass


async def test_of_many_actors_so_many_are_looked_at_as_are_listed(tmp_path, monkeypatch):
    async with open_shop(tmp_path, permissions=("**",)) as shop:
        for number in range(20):
            await shop.system.spawn(Parent, name=f"parent{number}")
        everybody = {actor.path for actor in shop.system.actors()}
        listed = [actor["path"] for actor in (await shop.client.get("/v1/actors")).json()["actors"]]
        assert set(listed) == everybody and len(listed) == 101
        assert all(path.count("/") == 2 or path.rpartition("/")[0] in listed[: listed.index(path)] for path in listed)
        monkeypatch.setattr(retinue.gateway.wires, "MOST_LISTED", 7)
        with monkeypatch.context() as patch:
            patch.setattr(type(shop.system._kernel), "cells", lambda self: pytest.fail("all of them were looked at"))
            few = [actor["path"] for actor in (await shop.client.get("/v1/actors")).json()["actors"]]
        assert few == listed[:7]
