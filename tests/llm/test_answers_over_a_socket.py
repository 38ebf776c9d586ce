"""The answers of the table once more, over a real connection that brings them in small pieces."""

from __future__ import annotations

import json

import pytest
import trio

from retinue import llm
from torture_cases import CASES

PIECE = 37  # bytes


async def serve(stream, case):
    asked = b""
    while b"\r\n\r\n" not in asked:
        asked += await stream.receive_some(65536)
    head, _, body = asked.partition(b"\r\n\r\n")
    left = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0]) - len(body)
    while left > 0:
        left -= len(await stream.receive_some(65536))
    await stream.send_all(f"HTTP/1.1 200 OK\r\ncontent-type: {case.content_type}\r\nconnection: close\r\n\r\n".encode())
    for start in range(0, len(case.sent), PIECE):
        await stream.send_all(case.sent[start : start + PIECE])
    await stream.aclose()


@pytest.mark.slow
async def test_every_answer_is_read_over_a_connection():
    wrong = []
    for case in CASES:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.serve_listeners, lambda stream, case=case: serve(stream, case), [listener])
            url = f"http://127.0.0.1:{listener.socket.getsockname()[1]}/v1"
            async with llm.Endpoint(model="m", base_url=url, profile=case.profile, retries=0, proxies=False) as endpoint:
                try:
                    found = await endpoint.complete(llm.Complete.of("x"))
                    calls = [(call.name, json.loads(call.arguments)) for call in found.tool_calls]
                    right = case.error is None and case.text in (None, found.text) and calls == (case.calls or [])
                except llm.ModelError as error:
                    found, right = error, type(error) is case.error
            if not right:
                wrong.append((case.name, found))
            nursery.cancel_scope.cancel()
    assert wrong == []
