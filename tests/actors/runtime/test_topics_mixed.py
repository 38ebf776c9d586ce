"""Two topics, mail, stashing, notices and failures at one actor, in random order: each topic's messages come in their order, and what is missing was told exactly."""

from __future__ import annotations

import logging
import random
from typing import Any

import pytest
import trio

import retinue as rt
from core_hosts import conserved
from topic_actors import Other, Price, plain_system

FIRST, SECOND = rt.Topic("first", Price), rt.Topic("second", Price)
APART = 1_000_000

MAILBOXES = [
    rt.Mailbox.bounded(1),
    rt.Mailbox.bounded(3),
    rt.Mailbox.bounded(3, overflow="drop_oldest"),
    rt.Mailbox.priority(lambda _: 0, 5),
    rt.Mailbox.unbounded(),
]


@rt.message
class Mail(rt.Message):
    pass


class Restless(rt.Actor):
    """Suspends, fails and stashes as the dice say; notes the prices that it gets, and how many it missed."""

    def __init__(self, log: list[Any], dice: random.Random) -> None:
        self.log = log
        self.dice = dice

    @rt.handler
    async def price(self, message: Price) -> None:
        if self.dice.random() < 0.3:
            await trio.lowlevel.checkpoint()
        self.log.append(message.number)
        if self.dice.random() < 0.05:
            raise ValueError

    @rt.handler
    def lag(self, message: rt.Lagged) -> None:
        self.log.append((message.topic, message.missed))

    @rt.handler
    def mail(self, _: Mail) -> None:
        if self.dice.random() < 0.2:
            self.ctx.stash()
        elif self.dice.random() < 0.3:
            self.ctx.unstash_all()

    @rt.handler
    def other(self, _: Other) -> None:
        self.ctx.unstash_all()

    @rt.handler
    def ended(self, _: rt.Terminated) -> None: ...


class Brief(rt.Actor):
    """Is watched, and ends."""


async def play(seed: int) -> None:
    dice = random.Random(seed)
    options = {"seed": seed if dice.random() < 0.3 else None, "events": 10 if dice.random() < 0.2 else 0, "loopback": dice.random() < 0.1}
    tireless = rt.Supervision(backoff=(0, 0), intensity=(10_000, 1))
    async with plain_system(**options) as system:
        log: list[Any] = []
        ref = await system.spawn(Restless, log, dice, mailbox=dice.choice(MAILBOXES), supervision=tireless)
        published = {FIRST: 0, SECOND: APART}
        for topic in published:
            system.topics.subscribe(topic, ref, dice.randint(1, 4))
        for _ in range(120):
            what = dice.random()
            if what < 0.6:
                topic = dice.choice([FIRST, SECOND])
                system.topics.publish(topic, Price(published[topic]))
                published[topic] += 1
            elif what < 0.75:
                ref.tell(Mail())
            elif what < 0.8:
                ref.tell(Other())
            elif what < 0.85:
                brief = await system.spawn(Brief)
                system._kernel.watch(brief._cell, ref._cell)
                await brief.stop()
            else:
                await trio.lowlevel.checkpoint()
            assert conserved(system)
        await system.wait_quiet()
        assert conserved(system)
        for topic, begin in ((FIRST, 0), (SECOND, APART)):
            due = begin
            for entry in log:
                if entry.__class__ is tuple:
                    due += entry[1] if entry[0] == topic.name else 0
                elif begin <= entry < begin + APART:
                    assert entry == due
                    due += 1
            assert due == published[topic]


@pytest.mark.parametrize("seeds", [range(8), pytest.param(range(8, 308), marks=pytest.mark.slow)], ids=["few", "many"])
def test_each_topic_keeps_its_order_and_tells_what_is_missing(seeds: range, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL + 1)
    for seed in seeds:
        trio.run(play, seed)
