"""Every message is in exactly one place while workers die in all ways, and everybody who asks hears something."""

from __future__ import annotations

import math
import random
from functools import partial
from typing import Any

import pytest
import trio
from trio.testing import MockClock

import retinue as rt
from core_hosts import conserved
from pool_actors import POOLS, Declared, Fault, Job, Ledger, PoolWorker, Quick, workers_of

FAST = 2
SEEDS = [*range(FAST), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(FAST, 20))]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", [*POOLS, "broadcast"])
def test_nothing_is_lost_and_nobody_waits_for_ever_while_workers_die(kind: str, seed: int) -> None:
    dice = random.Random(seed)
    asked: list[object] = []
    wanted = 0

    async def main() -> None:
        nonlocal wanted
        mailbox = dice.choice([None, rt.Mailbox.bounded(3), rt.Mailbox.bounded(2, overflow="drop_oldest"), rt.Mailbox.priority(urgency, 4)])
        supervision = dice.choice([None, rt.Supervision(restart="temporary"), rt.Supervision(intensity=(2, 5))])
        pool_of = {
            **POOLS,
            "broadcast": rt.Pool.broadcast,
            "work_pulling": lambda size: rt.Pool.work_pulling(size, retries=dice.randrange(3)),
        }
        async with rt.ActorSystem("stress", block_warning=math.inf, seed=dice.choice([None, seed])) as system:
            pool = await system.spawn_pool(
                PoolWorker, Ledger(), pool=pool_of[kind](dice.randint(1, 4)), mailbox=mailbox, supervision=supervision, name="pool"
            )
            async with trio.open_nursery() as nursery:

                async def ask(message: Any, timeout: float) -> None:
                    try:
                        asked.append(await pool.ask(message, timeout=timeout))
                    except (rt.RetinueError, Fault, Declared) as error:
                        asked.append(error)

                async def send(message: Any, timeout: float) -> None:
                    try:
                        await pool.send(message, timeout=timeout)
                    except rt.MailboxFull:
                        pass

                for number in range(150):
                    message = Job(
                        number,
                        seconds=dice.choice([0, 0, 0.1, 1]),
                        key=dice.randrange(5),
                        urgency=dice.randrange(3),
                        work=dice.choice(["done", "done", "done", "fail", "leave", "stash", "declare"]),
                    )
                    what = dice.randrange(10)
                    if what < 3:
                        wanted += 1
                        nursery.start_soon(ask, message, dice.choice([0.5, 5, 60]))
                    elif what < 5:
                        nursery.start_soon(send, message, dice.choice([0.5, 5]))
                    elif what == 5:
                        await trio.sleep(dice.choice([0.01, 0.3, 2]))
                    elif what == 6 and (alive := workers_of(system, pool)):
                        nursery.start_soon(partial(dice.choice(alive).stop, grace=dice.choice([0, 0.2])))
                    elif what == 7:
                        await trio.testing.wait_all_tasks_blocked()
                        assert conserved(system), number
                    elif what == 8 and (alive := workers_of(system, pool)):
                        dice.choice(alive).tell(message)
                    else:
                        pool.tell(message)
            await trio.sleep(5_000)  # replacements are delayed up to 36 s each
            assert conserved(system)
            assert len(workers_of(system, pool)) == sum(one.path.startswith("/user/pool/") for one in system.actors())
            if kind != "broadcast":
                assert await pool.ask(Quick(key=0), timeout=5_000) is not None
            await pool.stop()
        assert conserved(system) and system.statistics().queued == 0

    trio.run(main, clock=MockClock(autojump_threshold=0))
    assert len(asked) == wanted


def urgency(message: Any) -> int:
    return getattr(message, "urgency", 9)
