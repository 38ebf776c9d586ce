"""Asks through the gateway beside the same work through a bare starlette app: both on hypercorn, both over keep-alive connections."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from benchmarks.border.fleet import Fleet, post
from benchmarks.border.serving import Serving
from benchmarks.harness import Block, BrokenBlock, Progress, Timed, interleave

__all__ = ["CLIENTS", "SERVERS", "AsksResult", "measure_asks"]

SERVERS = {"gateway": "retinue's gateway", "starlette": "bare starlette on hypercorn"}
CLIENTS = (1, 16)

MESSAGE = {"to": "/user/shop", "message": {"type": "bench/Price@1", "body": {"item": "tea", "amount": 1}}}


@attrs.frozen
class AsksResult:
    """What so many clients got.

    Attributes:
        clients: How many.
        timed: Server → asks a second, a figure a round.
        cpu: Server → microseconds of its process for one ask, a figure a round.
    """

    clients: int
    timed: Mapping[str, Timed]
    cpu: Mapping[str, tuple[float, ...]]


def measure_asks(*, rounds: int, seconds: float, progress: Progress) -> list[AsksResult]:
    """Both servers run all the time; their blocks take turns."""
    results = []
    with Serving("gateway") as gateway, Serving("starlette") as bare:
        servers = {"gateway": gateway, "starlette": bare}
        sent = dict.fromkeys(servers, 0)
        for clients in CLIENTS:
            cpu: dict[str, list[float]] = {name: [] for name in servers}
            fleets = {
                name: Fleet(server.port, post("/v1/ask", server.port, MESSAGE, token=server.token or None), clients)
                for name, server in servers.items()
            }

            def block(
                name: str,
                fleets: Mapping[str, Fleet] = fleets,
                cpu: Mapping[str, list[float]] = cpu,
                servers: Mapping[str, Serving] = servers,
            ) -> Block:
                def run(count: int) -> float:
                    before = servers[name].cpu_seconds()
                    taken = fleets[name].run(count)
                    cpu[name].append((servers[name].cpu_seconds() - before) * 1e6 / count)
                    sent[name] += count
                    return taken

                return Block(run)

            timed = interleave(
                {name: block(name) for name in servers},
                rounds=rounds,
                seconds=seconds,
                progress=lambda name, clients=clients: progress(f"asks, {clients} clients: {name}"),  # type: ignore[misc]
            )
            for fleet in fleets.values():
                fleet.close()
            results.append(AsksResult(clients, timed, {name: tuple(cpu[name][-rounds:]) for name in servers}))
    for name, server in servers.items():
        if server.last["handled"] != sent[name]:
            raise BrokenBlock(f"{name}: {sent[name]} requests were answered, and {server.last['handled']} were handled")
    return results
