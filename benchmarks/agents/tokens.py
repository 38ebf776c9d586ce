"""What a streamed token costs: the same bytes read by bare httpx, by the client, and by an agent's stream."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import attrs
import httpx
import trio

import retinue as rt
from benchmarks.agents.serving import Serving
from benchmarks.harness import Block, BrokenBlock, Progress, Timed, Timer, interleave
from retinue import llm

__all__ = ["BARE", "PIECES", "TokensResult", "measure_tokens"]

PIECES: Final = 2_000
"""Tokens of one answer."""

BARE: Final = "bare httpx: reads the bytes"
_ASKED: Final = f"TOKENS {PIECES}"


@attrs.frozen
class TokensResult:
    """What was measured.

    Attributes:
        timed: Way → tokens a second, a figure a round.
        cpu: Way → microseconds of this process's processor time for a token, a figure a round.
    """

    timed: Mapping[str, Timed]
    cpu: Mapping[str, tuple[float, ...]]


def _expected(pieces: int) -> int:
    return sum(len(f"token{index % 1000:03} ") for index in range(pieces))


def _check(way: str, answers: int, letters: int, pieces: int) -> None:
    if letters != answers * _expected(PIECES) or pieces != answers * PIECES:
        raise BrokenBlock(f"{way}: {answers} answers had {pieces} pieces of {letters} letters")


async def _bare(url: str, answers: int, timer: Timer) -> None:
    body = {"model": "loopback", "stream": True, "messages": [{"role": "user", "content": _ASKED}]}
    size = 0
    async with httpx.AsyncClient(trust_env=False, verify=False) as client:
        await _read(client, url, body)
        with timer:
            for _ in range(answers):
                size += await _read(client, url, body)
    if size < answers * _expected(PIECES):
        raise BrokenBlock(f"bare httpx has read {size} bytes of {answers} answers")


async def _read(client: httpx.AsyncClient, url: str, body: object) -> int:
    size = 0
    async with client.stream("POST", f"{url}/chat/completions", json=body) as answer:
        async for chunk in answer.aiter_raw():
            size += len(chunk)
    return size


async def _endpoint(url: str, answers: int, timer: Timer) -> None:
    request = llm.Complete.of(_ASKED)
    letters = pieces = 0
    async with llm.Endpoint(model="loopback", base_url=url, proxies=False) as endpoint:
        await endpoint.complete(request)
        with timer:
            for _ in range(answers):
                async for event in endpoint.stream(request):
                    if type(event) is llm.TextDelta:
                        letters += len(event.text)
                        pieces += 1
    _check("the client", answers, letters, pieces)


async def _deployment(url: str, answers: int, timer: Timer) -> None:
    letters = pieces = 0
    async with rt.ActorSystem("bench") as system:
        model = await system.spawn(llm.OpenAICompatible, model="loopback", base_url=url, proxies=False, name="model")
        await model.ask(llm.Complete.of(_ASKED))
        with timer:
            for _ in range(answers):
                async with model.stream(llm.CompleteStream.of(_ASKED)) as events:
                    async for event in events:
                        if type(event) is llm.TextDelta:
                            letters += len(event.text)
                            pieces += 1
    _check("the deployment", answers, letters, pieces)


async def _agent(url: str, answers: int, timer: Timer) -> None:
    letters = pieces = 0
    async with rt.ActorSystem("bench") as system:
        model = await system.spawn(llm.OpenAICompatible, model="loopback", base_url=url, proxies=False, name="model")
        agent = await system.spawn(rt.Agent, model=model, name="agent")
        await agent.ask(_ASKED)
        with timer:
            for number in range(answers):
                async with agent.stream(rt.AgentMessage(_ASKED, session=f"s{number}")) as events:
                    async for event in events:
                        if type(event) is llm.TextDelta:
                            letters += len(event.text)
                            pieces += 1
    _check("the agent", answers, letters, pieces)


_WAYS: Mapping[str, Callable[[str, int, Timer], Awaitable[None]]] = {
    BARE: _bare,
    "llm.Endpoint: typed events": _endpoint,
    "a deployment's stream, through the gate": _deployment,
    "an agent's stream": _agent,
}


def measure_tokens(*, rounds: int, seconds: float, progress: Progress) -> TokensResult:
    """All ways read from one endpoint, block by block in turns."""
    with Serving() as server:
        cpu: dict[str, list[float]] = {way: [] for way in _WAYS}

        def block(way: str) -> Block:
            def run(count: int) -> float:
                timer = Timer()
                trio.run(_WAYS[way], server.url, count // PIECES, timer)
                cpu[way].append(timer.cpu_seconds * 1e6 / count)
                return timer.seconds

            return Block(run, step=PIECES)

        timed = interleave(
            {way: block(way) for way in _WAYS}, rounds=rounds, seconds=seconds, progress=lambda way: progress(f"tokens: {way}")
        )
    return TokensResult(timed, {way: tuple(figures[-rounds:]) for way, figures in cpu.items()})
