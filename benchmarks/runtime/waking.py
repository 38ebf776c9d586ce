"""Ten thousand idle actors, of whom one at a time is woken: how long it takes from the ask to the answer."""

from collections.abc import Mapping

import pykka
import trio
import trio.testing

import retinue as rt
from benchmarks.harness import Block, BrokenBlock, Timer
from benchmarks.runtime import ours as our_actors
from benchmarks.runtime import pykka_peer, trio_peer

__all__ = ["BLOCKS"]

IDLE = 10_000
THREADS = 1_000
STRIDE = 7_919
"""A prime, so that those that are woken lie far from each other."""


def _check(total: int, count: int) -> None:
    if total != count:
        raise BrokenBlock(f"{total} of {count} were woken")


def ours(count: int) -> float:
    async def main() -> float:
        async with rt.ActorSystem("waking", permissions=["bench.**"]) as system:
            refs = [await system.spawn(our_actors.Counter) for _ in range(IDLE)]
            total = 0
            with Timer() as timer:
                for number in range(count):
                    total += await refs[number * STRIDE % IDLE].ask(
                        our_actors.Add(1), detached=True
                    )  # by the queue and a worker, not in the asker's task
            expected = sum(1 + number // IDLE for number in range(count))
            _check(total, expected)
        return timer.seconds

    return trio.run(main)


def with_pykka(count: int) -> float:
    refs: list[pykka.ActorRef[pykka_peer.Counter]] = [pykka_peer.Counter.start() for _ in range(THREADS)]
    total = 0
    with Timer() as timer:
        for number in range(count):
            total += refs[number * STRIDE % THREADS].ask(pykka_peer.Add(1))
    _check(total, sum(1 + number // THREADS for number in range(count)))
    for stopping in [ref.stop(block=False) for ref in refs]:
        stopping.get(timeout=60)
    return timer.seconds


def with_trio(count: int) -> float:
    async def main() -> float:
        async with trio.open_nursery() as nursery:
            servers = [trio_peer.Counter() for _ in range(IDLE)]
            for server in servers:
                nursery.start_soon(server.serve)
            await trio.testing.wait_all_tasks_blocked()
            total = 0
            with Timer() as timer:
                for number in range(count):
                    total += await trio_peer.request(servers[number * STRIDE % IDLE], trio_peer.Add(1))
            _check(total, sum(1 + number // IDLE for number in range(count)))
            nursery.cancel_scope.cancel()
        return timer.seconds

    return trio.run(main)


BLOCKS: Mapping[str, Block] = {
    "retinue": Block(ours, most=20_000, note="`detached=True`: by the queue and a worker, not in the asker's own task"),
    "pykka": Block(with_pykka, most=5_000, note="1,000 threads"),
    "trio": Block(with_trio, most=20_000),
}
