"""How long a turn is: up to 64 light messages, but of heavy ones only so many as come to about a millisecond."""

from __future__ import annotations

import time
from itertools import groupby

import pytest
import trio

import retinue as rt
from core_hosts import conserved


@rt.message
class Burn(rt.Message):
    seconds: float


@rt.message
class Probe(rt.Message):
    pass


class Worker(rt.Actor):
    def __init__(self, log: list[str], label: str) -> None:
        self.log = log
        self.label = label

    @rt.handler
    def burn(self, message: Burn) -> None:
        self.log.append(self.label)
        until = time.perf_counter() + message.seconds
        while time.perf_counter() < until:
            pass

    @rt.handler
    async def probe(self, _: Probe) -> None:
        self.log.append(self.label)


async def run(seconds: float, *, messages: int, seed: int | None = None, mailbox: rt.Mailbox | None = None) -> list[str]:
    """A busy actor and one with a single message, and who handled what in which order."""
    log: list[str] = []
    async with rt.ActorSystem("turns", seed=seed) as system:
        busy = await system.spawn(Worker, log, "busy", mailbox=mailbox)
        quiet = await system.spawn(Worker, log, "quiet")
        for _ in range(messages):
            busy.tell(Burn(seconds))
        quiet.tell(Probe())
    assert len(log) == messages + 1
    return log


@pytest.mark.parametrize(
    "mailbox", [None, rt.Mailbox.unbounded(), rt.Mailbox.priority(lambda _: 0)], ids=["bounded", "unbounded", "priority"]
)
async def test_others_wait_for_one_heavy_message_and_not_for_all_that_wait(mailbox: rt.Mailbox | None) -> None:
    assert (await run(0.002, messages=10, mailbox=mailbox)).index("quiet") == 1


async def test_a_turn_of_light_messages_is_sixty_four_of_them_at_most() -> None:
    place = (await run(0.0, messages=200)).index("quiet")
    assert 1 <= place <= 64


async def test_with_a_seed_the_order_does_not_depend_on_how_long_a_message_takes() -> None:
    heavy = await run(0.002, messages=70, seed=7)
    light = await run(0.0, messages=70, seed=7)
    assert heavy == light
    assert [name for name, _ in groupby(heavy)] in (["busy", "quiet", "busy"], ["quiet", "busy"])


async def test_who_is_woken_while_a_heavy_actor_takes_a_breath_goes_before_its_next_message() -> None:
    log: list[str] = []
    woken_at: list[int] = []
    async with rt.ActorSystem("turns") as system:
        busy = await system.spawn(Worker, log, "busy")
        quiet = await system.spawn(Worker, log, "quiet")
        for _ in range(20):
            busy.tell(Burn(0.002))
        while log.count("busy") < 15:
            await trio.lowlevel.checkpoint()
            if len(log) > len(woken_at) * 3:
                woken_at.append(len(log))
                quiet.tell(Probe())
                assert conserved(system), "also in the middle of its work"
    assert len(woken_at) >= 5
    assert [log[place] for place in woken_at[1:]] == ["quiet"] * (len(woken_at) - 1)
