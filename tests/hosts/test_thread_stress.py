"""Blocking actors in a crowd: whatever happens to them, every ask is resolved and every message is in one place."""

from __future__ import annotations

import random
import threading
import time
from typing import Any

import pytest
import trio

import retinue as rt
from retinue.sync import ActorSystem


class Boom(Exception):
    """A failure."""


@rt.message
class Work(rt.Request[int]):
    """Do something for a while, perhaps ask others, perhaps fail."""

    seed: int
    others: tuple[rt.Ref[Any], ...] = ()


class Worker(rt.Actor, blocking=True):
    @rt.handler
    def work(self, message: Work) -> int:
        dice = random.Random(message.seed)
        time.sleep(dice.random() * 0.002)
        if message.others and dice.random() < 0.5:
            try:
                return self.ctx.ask(dice.choice(message.others), Work(message.seed + 1, message.others), timeout=dice.random() * 0.05)
            except (rt.AskCycle, rt.AskTimeout, rt.ActorStopped, rt.MailboxFull):
                return -1
        if dice.random() < 0.1:
            raise Boom
        if dice.random() < 0.1:
            self.ctx.system.statistics()
            self.ctx.ref.tell(Work(message.seed + 2))
        return message.seed


class Mixed(rt.Actor):
    @rt.handler
    async def work(self, message: Work) -> int:
        dice = random.Random(message.seed)
        await trio.sleep(dice.random() * 0.001)
        if message.others and dice.random() < 0.5:
            try:
                return await dice.choice(message.others).ask(Work(message.seed + 1, message.others), timeout=dice.random() * 0.05)
            except (rt.AskCycle, rt.AskTimeout, rt.ActorStopped, rt.MailboxFull):
                return -1
        return message.seed


EXPECTED = (Boom, rt.AskTimeout, rt.ActorStopped, rt.MailboxFull, rt.AskCycle, rt.AskCancelled, rt.SystemClosed)


@pytest.mark.parametrize("seed", range(8))
def test_every_ask_is_resolved_and_nothing_is_lost(seed: int) -> None:
    dice = random.Random(seed)
    unexpected: list[BaseException] = []
    resolved: list[int] = []
    supervision = rt.Supervision(backoff=(0, 0.001), intensity=(1000, 1))
    with ActorSystem("crowd", grace=0.5) as system:
        kinds = [Worker, Worker, Worker, Mixed, Mixed]
        refs = [system.spawn(kind, mailbox=rt.Mailbox.bounded(dice.choice([1, 4, 64])), supervision=supervision) for kind in kinds]
        cores = tuple(ref.core for ref in refs)

        def drive(start: int) -> None:
            mine = random.Random(start)
            for number in range(40):
                ref, message = mine.choice(refs), Work(start * 1000 + number, cores if mine.random() < 0.5 else ())
                try:
                    if mine.random() < 0.2:
                        ref.tell(message)
                    else:
                        ref.ask(message, timeout=mine.choice([0.001, 0.02, 0.1]))
                    resolved.append(1)
                except EXPECTED:
                    resolved.append(1)
                except BaseException as error:
                    unexpected.append(error)

        threads = [threading.Thread(target=drive, args=(start,)) for start in range(seed * 10, seed * 10 + 4)]
        for thread in threads:
            thread.start()
        if dice.random() < 0.5:
            refs[0].stop(grace=0.01)
        for thread in threads:
            thread.join()
    counts = system.statistics()
    assert unexpected == []
    assert len(resolved) == 160
    assert (counts.queued, counts.actors, counts.leaked_threads) == (0, 0, 0)
    assert counts.sent == counts.handled + counts.dead_letters, counts
