"""Many sessions of one agent at once, against an endpoint in another process: what they cost, and that none sees another's."""

from __future__ import annotations

import gc
import time
from typing import Final

import attrs
import trio

import retinue as rt
from benchmarks.agents.server import TOOL
from benchmarks.agents.serving import Serving
from benchmarks.harness import BrokenBlock, Progress
from benchmarks.machine import resident_bytes
from retinue import llm

__all__ = ["CONNECTIONS", "SessionsResult", "measure_sessions"]

CONNECTIONS: Final = 256
"""Requests that are with the endpoint at once; the other sessions wait for their turn."""

PATIENCE: Final = 3600.0
"""Seconds that a session may take: they all are begun at once, and the last is served last."""


@attrs.frozen
class SessionsResult:
    """What so many sessions took.

    Attributes:
        sessions: How many, all begun at once.
        turns: In all: two a session, the first with a tool call, so five messages are remembered.
        requests: That the endpoint has had.
        seconds: From the first to the last.
        peak_each: What the process grew by at most, by the sessions, in bytes.
        kept_each: And what stayed when all had ended, with every session remembered.
        cpu_micros: Microseconds of processor time a request, of this process: agent, tools, client.
        most_open: Connections at once, at the most.
    """

    sessions: int
    turns: int
    requests: int
    seconds: float
    peak_each: float
    kept_each: float
    cpu_micros: float
    most_open: int


def measure_sessions(sessions: int, *, progress: Progress) -> SessionsResult:
    """Each session says its number in two turns, and must hear it again; the endpoint watches what each request speaks of."""
    with Serving() as server:
        made = trio.run(_measure, server.url, sessions, progress)
    if server.last["bleeds"] or server.last["requests"] != made.requests:
        raise BrokenBlock(f"{made.requests} requests were due, and the endpoint counted {server.last}")
    return attrs.evolve(made, most_open=server.last["most_open"])


async def _measure(url: str, sessions: int, progress: Progress) -> SessionsResult:
    calls = 0
    peak = 0
    ended = 0

    async def look_up(number: int) -> str:
        """Look a number up.

        Args:
            number: The session's number.
        """
        nonlocal calls
        calls += 1
        return f"It is session {number}."

    async def session(number: int) -> None:
        nonlocal ended
        for turn, roles in ((1, "uat"), (2, "uatau")):
            asked = rt.AgentMessage(f"This is session {number}, turn {turn}.", session=f"s{number}")
            said = (await agent.ask(asked, timeout=PATIENCE)).content
            if said != f"I am session {number}, {roles}":
                raise BrokenBlock(f"session {number} heard in turn {turn}: {said!r}")
        ended += 1

    async def watch() -> None:
        nonlocal peak
        while True:
            peak = max(peak, resident_bytes())
            progress(f"sessions: {ended:,} of {sessions:,} have ended")
            await trio.sleep(0.1)

    async with rt.ActorSystem("bench") as system:
        model = await system.spawn(
            llm.OpenAICompatible, model="loopback", base_url=url, concurrency=CONNECTIONS, proxies=False, name="model"
        )
        agent = await system.spawn(rt.Agent, model=model, tools=[rt.tool(look_up, name=TOOL)], name="agent")
        await session(sessions)  # what is loaded and compiled once is nobody's
        gc.collect()
        before = resident_bytes()
        cpu, began = time.process_time(), time.perf_counter()
        async with trio.open_nursery() as watching:
            watching.start_soon(watch)
            async with trio.open_nursery() as nursery:
                for number in range(sessions):
                    nursery.start_soon(session, number)
            watching.cancel_scope.cancel()
        seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
        gc.collect()
        kept = resident_bytes()
    if calls != sessions + 1:
        raise BrokenBlock(f"the tool was called {calls} times by {sessions + 1} sessions")
    requests = 3 * (sessions + 1)
    return SessionsResult(
        sessions, 2 * sessions, requests, seconds, (peak - before) / sessions, (kept - before) / sessions, cpu * 1e6 / (3 * sessions), 0
    )
