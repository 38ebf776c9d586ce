"""A seed repeats a run whatever the machine's speed is: nothing that decides an order looks at the machine's clock, at addresses or at hashes."""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
import trio

import retinue as rt
from retinue.testing import VirtualClock, deterministic

NOISE = random.SystemRandom()


@rt.message
class Hop(rt.Message):
    left: int = 0


@rt.message
class Work(rt.Request[int]):
    number: int = 0


def work() -> None:
    """As long as it takes: several milliseconds now and then, and another time for each run."""
    end = time.perf_counter() + NOISE.choice((0, 0, 0.00005, 0.0003, 0.003))
    while time.perf_counter() < end:
        pass


class Member(rt.Actor):
    def __init__(self, number: int, log: list[object], peers: list[rt.Ref[Member]]) -> None:
        self.number, self.log, self.peers = number, log, peers

    @rt.handler
    def hop(self, message: Hop) -> None:
        work()
        self.log.append((self.number, message.left))
        if message.left % 7 == 6:
            self.ctx.timers.once("again", Hop(0), after=0.01)
        if message.left:
            self.peers[(self.number * 7 + message.left) % len(self.peers)].tell(Hop(message.left - 1))
        if message.left % 11 == 10:
            raise ValueError("now and then")

    @rt.handler
    async def work(self, message: Work) -> int:
        work()
        self.log.append((self.number, "begins", message.number))
        await trio.lowlevel.checkpoint()
        if message.number % 3 == 0:
            await trio.sleep(0.01)
        work()
        self.log.append((self.number, "ends", message.number))
        return message.number


async def play(seed: int | None, log: list[object]) -> None:
    async with rt.ActorSystem(seed=seed) as system:
        peers: list[rt.Ref[Member]] = []
        for number in range(8):
            patient = rt.Supervision(intensity=(1000, 60.0), backoff=(0.05, 1.0))
            peers.append(await system.spawn(Member, number, log, peers, supervision=patient))
        pool = await system.spawn_pool(Member, 99, log, peers, pool=rt.Pool.work_pulling(3))
        for peer in peers[:4]:
            peer.tell(Hop(24))

        async def ask(asker: int) -> None:
            for number in range(8):
                work()
                target = pool if number % 2 else peers[(asker * 3 + number) % len(peers)]
                await target.ask(Work(number))
                log.append(("asked", asker, number))

        async with trio.open_nursery() as nursery:
            for asker in range(5):
                nursery.start_soon(ask, asker)
        await trio.sleep(60)


def order(seed: int, *, own: bool) -> str:
    log: list[object] = []
    with deterministic(seed):
        trio.run(play, seed if own else None, log, clock=VirtualClock())
    assert len(log) > 200
    return hashlib.sha256(repr(log).encode()).hexdigest()


@pytest.mark.parametrize("own", [True, False], ids=["a seed of the system's own", "the run's seed alone"])
def test_real_work_of_uneven_length_changes_nothing_in_the_order(own):
    assert len({order(7, own=own) for _ in range(3)}) == 1
    assert len({order(seed, own=own) for seed in (7, 8)}) == 2


@pytest.mark.slow
def test_the_order_is_the_same_in_every_process_and_with_every_hash_seed():
    script = "import test_seeds_repeat as t; print(t.order(3, own=True))"
    path = os.pathsep.join([str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", script],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": seed},
        )
        for seed in ("1", "2")
    ]
    said = [process.communicate(timeout=120)[0] for process in processes]
    assert len(set(said)) == 1 and len(said[0]) > 60


def test_where_turns_are_counted_a_busy_system_still_breathes():
    """Two actors that keep each other busy for ever leave the loop its look at what else there is."""

    class Ball(rt.Actor):
        @rt.handler
        def hop(self, message: Hop) -> None:
            self.ctx.sender.tell(message) if self.ctx.sender is not None else self.other.tell(message)

        other: rt.Ref[Ball]

    async def main(seed: int | None) -> None:
        async with rt.ActorSystem(seed=seed, grace=0) as system:
            one, other = await system.spawn(Ball), await system.spawn(Ball)
            one._cell.actor.other = other  # type: ignore[attr-defined]
            one.tell(Hop())
            with trio.move_on_after(0.05) as scope:
                await trio.sleep_forever()
            assert scope.cancelled_caught
            with trio.move_on_after(0.05) as scope:
                while True:
                    await system.spawn(Ball)
            assert scope.cancelled_caught

    for seed in (1, None):
        with deterministic(1):
            trio.run(main, seed)
