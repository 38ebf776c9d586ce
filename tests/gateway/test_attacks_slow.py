"""Clients that are slow on purpose, that go in the middle, that send much at once: cut in time, the others served meanwhile, each request answered in its turn."""

from __future__ import annotations

import json
import socket
import struct
from functools import partial

import pytest
import trio

from gateway_raw import Raw, Reply, Target, ask_body, attacked, case

BODY = ask_body()
HEAD = ("POST /v1/ask HTTP/1.1", "Content-Type: application/json")

SHORT = {"header_timeout": 0.4, "body_timeout": 0.4, "keep_alive": 0.6, "write_timeout": 0.5}
"""Bounds in seconds that a test can wait for."""

SLACK = 15.0
"""Seconds that a cut may come later than its bound, on a machine that is busy."""


async def drip(client: Raw, data: bytes, every: float = 0.05) -> int:
    """Sends a byte at a time until the server has closed; returns how many it took."""
    for number in range(len(data)):
        if not await client.send(data[number : number + 1]):
            return number
        await trio.sleep(every)
    return len(data)


async def cut_in_time(client: Raw, data: bytes, bound: float) -> list[Reply]:
    """Drips the data, and reads what is answered until the server closes, which must be within the bound (in seconds)."""
    began = trio.current_time()
    replies = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(drip, client, data)
        while (reply := await client.reply()) is not None:
            replies.append(reply)
        nursery.cancel_scope.cancel()
    assert trio.current_time() - began <= bound + SLACK
    return replies


async def test_a_head_that_comes_in_drops_is_cut_and_others_are_served_meanwhile(tmp_path):
    async with attacked(tmp_path, **SHORT) as target, target.client() as client, trio.open_nursery() as nursery:
        nursery.start_soon(serve_meanwhile, target)
        replies = await cut_in_time(client, target.head("POST /v1/ask HTTP/1.1", "X-Long: " + "a" * 1_000), SHORT["header_timeout"])
        assert all(reply.status in (400, 408) and reply.error for reply in replies)


async def serve_meanwhile(target: Target) -> None:
    for _ in range(4):
        await trio.sleep(0.1)
        await target.still_serves()


async def test_a_connection_that_says_nothing_is_closed(tmp_path):
    async with attacked(tmp_path, **SHORT) as target:
        async with target.client() as client:
            with trio.fail_after(SHORT["keep_alive"] + SLACK):
                assert await client.closed() == b""
        async with target.client() as client:
            await client.send(target.post("/v1/ask", BODY))
            reply = await client.reply()
            assert reply is not None and reply.status == 200
            with trio.fail_after(SHORT["keep_alive"] + SLACK):
                assert await client.closed() == b""


@pytest.mark.slow
async def test_a_body_that_comes_in_drops_is_told_so_and_cut(tmp_path):
    async with attacked(tmp_path, **SHORT) as target:
        long = ask_body("a" * 1_000)
        ways = {
            "a length": target.head(*HEAD, f"Content-Length: {len(long)}"),
            "chunks": target.head(*HEAD, "Transfer-Encoding: chunked"),
        }
        for name, head in ways.items():
            with case(name, target):
                async with target.client() as client:
                    await client.send(head + b"\r\n")
                    drops = long if name == "a length" else b"".join(b"1\r\n%c\r\n" % byte for byte in long)
                    replies = await cut_in_time(
                        client, drops, SHORT["body_timeout"] + 2.0
                    )  # the answer, and then a time in which it can be read
                    assert [reply.status for reply in replies] in ([408], []), replies
                    assert all(reply.error["type"] for reply in replies)


async def test_a_body_that_never_begins_is_told_so_and_cut(tmp_path):
    async with attacked(tmp_path, **SHORT) as target, target.client() as client:
        await client.send(target.head(*HEAD, "Content-Length: 100") + b"\r\n")
        reply = await client.reply()
        assert reply is not None and reply.status == 408 and reply.error["reason"] == "timeout"
        assert target.seen == []


async def test_a_hundred_that_drip_keep_nobody_out(tmp_path):
    async with attacked(tmp_path, **{**SHORT, "header_timeout": 2.0, "body_timeout": 5.0}) as target, trio.open_nursery() as nursery:

        async def one() -> None:
            async with target.client() as client:
                await drip(client, target.head("POST /v1/ask HTTP/1.1"), 0.1)

        for _ in range(100):
            nursery.start_soon(one)
        await trio.sleep(0.3)
        for _ in range(5):
            await target.still_serves()
        nursery.cancel_scope.cancel()


async def test_connections_beyond_the_bound_are_told_so_and_there_is_room_again(tmp_path):
    async with attacked(tmp_path, max_connections=8, **SHORT) as target, trio.open_nursery() as nursery:
        opened = trio.Event()
        count = 0

        async def idle() -> None:
            nonlocal count
            async with target.client() as client:
                await client.send(target.post("/v1/ask", BODY))
                assert await client.reply() is not None
                await client.send(b"POST /v1/ask HTTP/1.1\r\n")
                count += 1
                if count == 8:
                    opened.set()
                await client.closed()

        for _ in range(8):
            nursery.start_soon(idle)
        await opened.wait()
        await trio.sleep(0.05)
        reply = await target.once(target.post("/v1/ask", BODY))
        assert reply is None or (reply.status == 503 and reply.error["reason"] == "rate"), reply
        await trio.sleep(SHORT["header_timeout"] + 0.75)
        await target.still_serves()


async def test_who_has_left_takes_nobodys_place(tmp_path):
    async with attacked(tmp_path, max_connections=4) as target:
        for number in range(40):
            async with target.client() as client:
                if number % 2:
                    await client.send(target.post("/v1/ask", BODY))
                    reply = await client.reply()
                    assert reply is not None and reply.status == 200, (number, reply)
                elif number % 3 == 0:
                    await client.send(target.head(*HEAD))
            with trio.fail_after(30):
                while target.gateway._server.connections:
                    await trio.sleep(0.005)
        assert len(target.seen) == 20


# -- gone in the middle --------------------------------------------------------------------------------------------------------------------------------


def reset(client: Raw) -> None:
    """Ends the connection with a TCP reset."""
    client.stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


async def test_a_request_that_is_cut_off_reaches_nobody(tmp_path):
    async with attacked(tmp_path) as target:
        whole = target.post("/v1/ask", BODY)
        head = whole.index(b"\r\n\r\n") + 4
        chunks = target.head(*HEAD, "Transfer-Encoding: chunked") + b"\r\n%x\r\n" % len(BODY) + BODY + b"\r\n"
        cuts = {
            "at once": b"",
            "in the line": whole[:10],
            "in the token": whole[: whole.index(b"Bearer ") + 40],
            "before the empty line": whole[: head - 2],
            "before the body": whole[:head],
            "in the body": whole[:-10],
            "before the last byte": whole[:-1],
            "in a chunk": chunks[:-20],
            "before the last chunk": chunks,
            "in the last chunk": chunks + b"0\r\n",
        }
        for name, data in cuts.items():
            for way in ("half", "whole", "reset"):
                with case((name, way), target):
                    async with target.client() as client:
                        await client.send(data)
                        if way == "half":
                            await client.half_close()
                            reply = await client.reply()
                            assert reply is None or (400 <= reply.status < 500 and reply.error), reply
                            await client.closed()
                        elif way == "reset":
                            reset(client)
            await trio.sleep(0.02)
        assert target.seen == []


async def test_a_length_that_is_longer_than_the_body_waits_for_the_rest_and_no_longer(tmp_path):
    async with attacked(tmp_path, **SHORT) as target, target.client() as client:
        await client.send(target.head(*HEAD, f"Content-Length: {len(BODY) + 1}") + b"\r\n" + BODY)
        reply = await client.reply()
        assert reply is not None and reply.status == 408
        assert target.seen == []


async def test_a_length_that_is_shorter_than_the_body_takes_the_rest_for_no_body(tmp_path):
    async with attacked(tmp_path, **SHORT) as target, target.client() as client:
        await client.send(target.head(*HEAD, f"Content-Length: {len(BODY) - 1}") + b"\r\n" + BODY)
        reply = await client.reply()
        assert reply is not None and reply.status == 400
        reply = await client.reply()  # "}" begins no request
        assert reply is None or (reply.status in (400, 408) and reply.error)
        assert target.seen == []


# -- many at once --------------------------------------------------------------------------------------------------------------------------------------


async def test_requests_in_a_row_are_answered_in_their_order(tmp_path):
    async with attacked(tmp_path) as target, target.client() as client:
        good = target.post("/v1/ask", BODY)
        await client.send(good * 20)
        for number in range(1, 21):
            reply = await client.reply()
            assert reply is not None and reply.json() == {"reply": number}


async def test_a_bad_one_among_requests_in_a_row_takes_nobody_elses_answer(tmp_path):
    async with attacked(tmp_path) as target, target.client() as client:
        good = target.post("/v1/ask", BODY)
        bad = [
            target.post("/v1/ask", b"{"),
            target.get("/v1/nowhere"),
            target.get("/v1/ask"),
            target.get("/v1/actors", token=None),
            target.get("/v1/actors", "Origin: http://evil.example"),
            target.post("/v1/ask", BODY, token=None),  # its body is not read, so this is the last one
        ]
        await client.send(b"".join(good + one for one in bad) + good)
        told = []
        while (reply := await client.reply()) is not None:
            told.append(reply.status)
        assert told == [200, 400, 200, 404, 200, 405, 200, 401, 200, 421, 200, 401]
        assert len(target.seen) == 6


async def test_what_stands_behind_a_malformed_request_is_not_read(tmp_path):
    async with attacked(tmp_path) as target:
        good = target.post("/v1/ask", BODY)
        for name, bad in {
            "no request": b"nonsense\r\n\r\n",
            "length and chunks": target.head(*HEAD, "Content-Length: 6", "Transfer-Encoding: chunked") + b"\r\n0\r\n\r\nG",
            "a bad chunk": target.head(*HEAD, "Transfer-Encoding: chunked") + b"\r\nzz\r\n",
            "two lengths": target.head(*HEAD, "Content-Length: 0", f"Content-Length: {len(good)}") + b"\r\n",
        }.items():
            async with target.client() as client:
                before = len(target.seen)
                await client.send(good + bad + good)
                await client.half_close()
                first = await client.reply()
                assert first is not None and first.status == 200, name
                last = await client.reply()
                assert last is None or (400 <= last.status < 500 and last.error), (name, last)
                assert await client.closed() == b"", name
                assert len(target.seen) == before + 1, name


async def test_a_request_that_says_it_is_the_last_is_the_last(tmp_path):
    async with attacked(tmp_path) as target:
        last = target.post("/v1/ask", BODY, "Connection: close")
        old = last.replace(b"HTTP/1.1", b"HTTP/1.0", 1)
        for request in (last, old):
            before = len(target.seen)
            async with target.client() as client:
                await client.send(request + target.post("/v1/ask", BODY) * 3)
                reply = await client.reply()
                assert reply is not None and reply.json() == {"reply": before + 1}
                assert await client.closed() == b""
            assert len(target.seen) == before + 1


async def test_a_request_inside_a_body_is_a_body(tmp_path):
    async with attacked(tmp_path) as target:
        inner = target.post("/v1/ask", BODY)
        for outer in (
            target.post("/v1/ask", inner),
            target.post("/v1/ask", b"\r\n" * 4 + inner),
            target.head("GET /v1/nowhere HTTP/1.1", f"Content-Length: {len(inner)}") + b"\r\n" + inner,
            target.head("GET /v1/openapi.json HTTP/1.1", f"Content-Length: {len(inner)}") + b"\r\n" + inner,
        ):
            async with target.client() as client:
                await client.send(outer)
                reply = await client.reply()
                assert reply is not None
                await client.half_close()
                assert await client.closed() == b""
        assert target.seen == []


async def test_a_request_behind_a_stream_waits_for_its_end(tmp_path):
    async with attacked(tmp_path) as target, target.client() as client:
        call = {"to": "/user/probe", "message": {"type": "probe/Count@1", "body": {"to": 3}}}
        await client.send(target.post("/v1/stream", json.dumps(call).encode()) + target.post("/v1/ask", BODY))
        reply = await client.reply()
        assert reply is not None and reply.status == 200 and reply.body.count(b"event: item") == 3 and b"event: end" in reply.body
        reply = await client.reply()
        assert reply is not None and reply.json() == {"reply": 2}


# -- takes nothing -------------------------------------------------------------------------------------------------------------------------------------


async def test_who_takes_nothing_of_a_stream_is_cut_and_the_handler_ends(tmp_path):
    async with attacked(tmp_path, **SHORT) as target, target.client() as client:
        call = {"to": "/user/probe", "message": {"type": "probe/Count@1", "body": {"to": 10**9}}}
        client.stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        await client.send(target.post("/v1/stream", json.dumps(call).encode()))
        with trio.fail_after(20):
            while not target.gateway.streams:
                await trio.sleep(0.02)
            while target.gateway.streams:
                await trio.sleep(0.05)
        await target.still_serves()  # the actor is free again


async def test_who_takes_nothing_of_many_answers_is_cut(tmp_path):
    async with attacked(tmp_path, **SHORT) as target, target.client() as client:
        client.stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        asking = target.get("/v1/openapi.json")
        with trio.fail_after(20):
            while await sent_soon(client, asking * 200):
                pass
            before = len(target.seen)
            await target.still_serves()
            assert len(target.seen) == before + 1


async def sent_soon(client: Raw, data: bytes) -> bool:
    with trio.move_on_after(3):
        return await client.send(data)
    return False


@pytest.mark.slow
async def test_two_thousand_clients_that_do_all_of_this_at_once_leave_nothing_behind(tmp_path):
    async with attacked(tmp_path, **{**SHORT, "header_timeout": 1.0, "body_timeout": 3.0}) as target:
        whole = target.post("/v1/ask", BODY)
        limit = trio.CapacityLimiter(200)

        async def bad(number: int) -> None:
            async with limit, target.client() as client:
                if number % 5 == 0:
                    await drip(client, whole[:-1], 0.02)
                elif number % 5 == 1:
                    await client.send(whole[: number % len(whole)])
                    reset(client)
                elif number % 5 == 2:
                    await client.send(b"\0" * number + b"\r\n\r\n")
                elif number % 5 == 3:
                    await client.send(target.head(*HEAD, "Content-Length: 1000000") + b"\r\n" + bytes(number))
                else:
                    await client.send(target.post("/v1/ask", BODY, token=None))
                    await client.reply(patience=30)

        async def good() -> None:
            for _ in range(100):
                await target.still_serves(patience=60)  # it has its turn among two hundred others, on whatever machine this is

        async with trio.open_nursery() as nursery:
            nursery.start_soon(good)
            for number in range(2_000):
                nursery.start_soon(partial(bad, number))
        assert len(target.seen) == 100
