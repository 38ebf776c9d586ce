"""Good requests with something changed at random: whatever comes of it, what is answered with 200 and what reached the actor is the same number."""

from __future__ import annotations

import random

import pytest
import trio

from gateway_raw import Target, ask_body, attacked

BODY = ask_body()
PIECES = (
    b"\r\n",
    b"\n",
    b"\r",
    b"\0",
    b" ",
    b"\t",
    b":",
    b",",
    b";",
    b'"',
    b"{}",
    b"0\r\n\r\n",
    b"5\r\nabcde\r\n",
    b"\xff",
    b"\xc3\xa9",
    b"Content-Length: 5\r\n",
    b"Content-Length: 0\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Connection: close\r\n",
    b"Connection: keep-alive\r\n",
    b"Expect: 100-continue\r\n",
    b"Host: evil.example\r\n",
    b"Upgrade: h2c\r\n",
    b"HTTP/1.0",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
)


def originals(target: Target) -> list[bytes]:
    good = target.post("/v1/ask", BODY)
    chunks = b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)
    chunked = target.head("POST /v1/ask HTTP/1.1", "Content-Type: application/json", "Transfer-Encoding: chunked") + b"\r\n" + chunks
    return [good, chunked, good + chunked, target.get("/v1/openapi.json") + good]


def mutated(data: bytes, chance: random.Random) -> bytes:
    for _ in range(chance.choice((1, 1, 1, 2, 3, 8))):
        at = chance.randrange(len(data) + 1)
        to = min(len(data), at + chance.choice((1, 1, 2, 5, 20, 200)))
        match chance.randrange(6):
            case 0:
                data = data[:at] + data[to:]
            case 1:
                data = data[:at] + chance.choice(PIECES) + data[at:]
            case 2:
                data = data[:at] + chance.choice(PIECES) + data[to:]
            case 3:
                data = data[:to] + data[at:]
            case 4:
                data = data[:at] + bytes([chance.randrange(256)]) + data[at + 1 :]
            case _:
                lines = data.split(b"\r\n")
                first, second = chance.randrange(len(lines)), chance.randrange(len(lines))
                lines[first], lines[second] = lines[second], lines[first]
                data = b"\r\n".join(lines)
    return data


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
async def test_a_mutated_request_is_answered_with_200_as_often_as_it_reaches_the_actor(seed, tmp_path):
    chance = random.Random(seed)
    bounds = {"header_timeout": 0.3, "body_timeout": 0.3, "keep_alive": 0.3}
    async with attacked(tmp_path, **bounds) as target, trio.open_nursery() as nursery:
        limit = trio.CapacityLimiter(50)
        known = originals(target)
        statuses: dict[int, int] = {}

        async def one(data: bytes) -> None:
            async with limit, target.client() as client:
                await client.send(data)
                while (reply := await client.reply(patience=30)) is not None:
                    statuses[reply.status] = statuses.get(reply.status, 0) + 1
                    if reply.status >= 400:
                        assert reply.error, data
                    elif reply.body.startswith(b'{"reply"'):
                        statuses[0] = statuses.get(0, 0) + 1

        async def all_of_them() -> None:
            async with trio.open_nursery() as each:
                for _ in range(600):
                    each.start_soon(one, mutated(chance.choice(known), chance))

        await all_of_them()
        nursery.cancel_scope.cancel()
        assert statuses[0] == len(target.seen) > 50
        assert statuses[400] > 50 and statuses.get(500, 0) == 0, statuses
