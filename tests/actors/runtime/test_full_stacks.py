"""Whatever is done at whatever depth of calls: it is refused with a RecursionError and changes nothing, or it is done. The books balance, everybody is woken, and the
system ends.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Iterator
from itertools import count
from typing import Any

import pykka
import pytest
import trio

import retinue as rt
from core_errands import PATIENCE, Do, Item, Ping

DEPTHS = 110
"""Places on the stack at which a thing is tried: from the fullest one to those that have room for everything."""


class Plain(rt.Actor):
    @rt.handler
    def item(self, message: Item) -> None:
        """Takes it."""

    @rt.handler
    def ping(self, message: Ping) -> int:
        return 1


class Slow(rt.Actor):
    async def on_start(self) -> None:
        await trio.lowlevel.checkpoint()

    @rt.handler
    async def item(self, message: Item) -> None:
        await trio.lowlevel.checkpoint()

    @rt.handler
    async def ping(self, message: Ping) -> int:
        await trio.lowlevel.checkpoint()
        return 1


class Climber(rt.Actor):
    @rt.handler
    def item(self, message: Item) -> None:
        """Takes it."""

    @rt.handler
    async def do(self, message: Do) -> Any:
        return await message.what(self)


class HandsOn(rt.Actor):
    def __init__(self, to: rt.Ref[Any]) -> None:
        self.to = to

    @rt.handler(raises=Exception)
    def item(self, message: Item) -> None:
        self.ctx.forward(self.to, message)

    @rt.handler(raises=Exception)
    def ping(self, message: Ping) -> Any:
        self.ctx.forward(self.to, message)


TOPIC = rt.Topic("full_stacks", Item)
KEY = rt.ServiceKey("climbers", Climber)
NARROW = rt.Mailbox.bounded(3)


@pytest.fixture(autouse=True)
def a_low_ceiling() -> Iterator[None]:
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(400)  # so that each test goes there quickly
    yield
    sys.setrecursionlimit(before)


def _number(message: Any) -> int:
    return int(message.number)


async def _group(system: rt.ActorSystem) -> Any:
    return await system.spawn_group([await system.spawn(Plain) for _ in range(3)], pool=rt.Pool.round_robin())


async def _region(system: rt.ActorSystem, *keys: str, capacity: int = 10_000) -> Any:
    region = await system.spawn_virtual(Plain, name="region", capacity=capacity)
    for key in keys:
        region[key].tell(Item())
    await system.wait_quiet()
    return region


async def _stopped(system: rt.ActorSystem) -> Any:
    ref = await system.spawn(Plain)
    await ref.stop()
    return ref


class Old(pykka.ThreadingActor):
    def on_receive(self, message: Any) -> Any:
        return 1


def _adopted(system: rt.ActorSystem) -> Awaitable[Any]:
    return system.adopt(Old.start(), messages=(Item, Ping), stop=True)


def _front(cls: type[rt.Actor]) -> Callable[[rt.ActorSystem], Awaitable[Any]]:
    async def made(system: rt.ActorSystem) -> Any:
        return await system.spawn(HandsOn, await system.spawn(cls))

    return made


def _pool(pool: rt.Pool, mailbox: rt.Mailbox | None = NARROW) -> Callable[[rt.ActorSystem], Awaitable[Any]]:
    return lambda system: system.spawn_pool(Plain, pool=pool, mailbox=mailbox)


def _actor(cls: type[rt.Actor] = Plain, mailbox: rt.Mailbox | None = None) -> Callable[[rt.ActorSystem], Awaitable[Any]]:
    return lambda system: system.spawn(cls, mailbox=mailbox)


TARGETS: dict[str, Callable[[rt.ActorSystem], Awaitable[Any]]] = {
    "plain": _actor(),
    "slow": _actor(Slow),
    "bounded": _actor(mailbox=NARROW),
    "drop_oldest": _actor(mailbox=rt.Mailbox.bounded(3, overflow="drop_oldest")),
    "drop_newest": _actor(mailbox=rt.Mailbox.bounded(3, overflow="drop_newest")),
    "front": _front(Plain),
    "front_of_slow": _front(Slow),
    "priority": _actor(mailbox=rt.Mailbox.priority(_number, capacity=5)),
    "conflate": _actor(mailbox=rt.Mailbox.conflate(lambda message: message.number % 2, capacity=5)),
    "round_robin": _pool(rt.Pool.round_robin(3)),
    "least_loaded": _pool(rt.Pool.least_loaded(3)),
    "consistent_hash": _pool(rt.Pool.consistent_hash(3, key=_number)),
    "broadcast": _pool(rt.Pool.broadcast(3)),
    "work_pulling": _pool(rt.Pool.work_pulling(3), None),
    "pulling_by_priority": _pool(rt.Pool.work_pulling(3), rt.Mailbox.priority(_number, capacity=50)),
    "group": _group,
    "virtual_active": lambda system: _region(system, "a"),
    "virtual_dormant": _region,
    "virtual_full": lambda system: _region(system, *"bcdef", capacity=5),
    "adopted": _adopted,
    "stopped": _stopped,
}


def _ref(target: Any, kind: str, number: object) -> rt.Ref[Any]:
    if not kind.startswith("virtual"):
        ref: rt.Ref[Any] = target
        return ref
    found: rt.Ref[Any] = target["a" if kind == "virtual_active" else f"key-{number}"]
    return found


async def at_every_depth(outcomes: list[object], step: Callable[[int], Any]) -> None:
    """Calls `step`, plain or async, with a little more room on the stack each time."""
    numbers = count()

    async def climb() -> None:
        try:
            await climb()
        except RecursionError:
            pass
        number = next(numbers)
        if number < DEPTHS:
            try:
                done = step(number)
                outcomes.append(await done if hasattr(done, "__await__") else done)
            except (RecursionError, rt.MailboxFull, rt.ActorStopped, rt.Unhandled) as error:
                outcomes.append(type(error))

    await climb()


async def _is_sound(system: rt.ActorSystem) -> None:
    with trio.fail_after(PATIENCE):
        await trio.sleep(0.01)
        await system.wait_quiet()
        counts = system.statistics()
        assert (counts.queued, counts.sent) == (0, counts.handled + counts.dead_letters)
        with pytest.raises(rt.AskTimeout):  # deadlines are kept
            await (await system.spawn(Climber)).ask(Do(_for_ever), timeout=0.01)


async def _for_ever(_: Climber) -> None:
    await trio.sleep_forever()


async def _still_answers(target: Any, kind: str) -> None:
    with trio.fail_after(PATIENCE):
        if kind not in ("stopped", "broadcast"):
            for number in range(3):
                assert await _ref(target, kind, f"later-{number}").ask(Ping()) == 1
        if kind != "stopped":
            await target.stop()


@pytest.mark.parametrize("where", ["in a turn", pytest.param("outside", marks=pytest.mark.slow)])
@pytest.mark.parametrize("how", ["tell", "ask", "send"])
@pytest.mark.parametrize("kind", TARGETS)
async def test_what_is_sent_from_a_full_stack_is_sent_or_not(kind: str, how: str, where: str) -> None:
    async with rt.ActorSystem("full") as system:
        target = await TARGETS[kind](system)
        outcomes: list[object] = []

        def step(number: int) -> Any:
            ref = _ref(target, kind, number)
            if how == "tell":
                return ref.tell(Item(number)).reason
            return ref.ask(Ping(number)) if how == "ask" else ref.send(Item(number), timeout=5)

        with trio.fail_after(PATIENCE):
            if where == "outside":
                await at_every_depth(outcomes, step)
            else:
                await (await system.spawn(Climber)).ask(Do(lambda _: at_every_depth(outcomes, step)))
        assert len(outcomes) > DEPTHS - 10  # a few of the fullest could not even be noted
        assert outcomes[0] is RecursionError
        assert outcomes[-1] is not RecursionError
        await _is_sound(system)
        await _still_answers(target, kind)


DOINGS: dict[str, Callable[[Climber, int], Any]] = {
    "publish": lambda me, number: me.ctx.topics.publish(TOPIC, Item(number)).subscribers,
    "once": lambda me, number: me.ctx.timers.once(number % 5, Item(number), 0.001 * (DEPTHS - number)),
    "every": lambda me, number: me.ctx.timers.every(number % 5, Item(number), 60, first=0.001 * (DEPTHS - number)),
    "cancel": lambda me, number: (me.ctx.timers.once("one", Item(), 5), me.ctx.timers.cancel_all()),
    "subscribe": lambda me, number: (me.ctx.topics.subscribe(TOPIC, 2), me.ctx.topics.unsubscribe(TOPIC)),
    "register": lambda me, number: (me.ctx.receptionist.register(KEY), me.ctx.receptionist.unregister(KEY)),
    "start_soon": lambda me, number: me.ctx.start_soon(trio.lowlevel.checkpoint) and None,
    "spawn": lambda me, number: me.ctx.spawn(Plain),
    "spawn_slow": lambda me, number: me.ctx.spawn(Slow),
    "spawn_pool": lambda me, number: me.ctx.spawn_pool(Plain, pool=rt.Pool.work_pulling(1)),
}


@pytest.mark.parametrize("what", DOINGS)
async def test_what_an_actor_does_on_a_full_stack_is_done_or_not(what: str) -> None:
    async with rt.ActorSystem("full") as system:
        for _ in range(3):
            system.topics.subscribe(TOPIC, await system.spawn(Plain), 4)
        climber = await system.spawn(Climber)
        outcomes: list[object] = []
        with trio.fail_after(PATIENCE):
            await climber.ask(Do(lambda me: at_every_depth(outcomes, lambda number: DOINGS[what](me, number))))
        assert outcomes[0] is RecursionError
        assert outcomes[-1] is not RecursionError
        await _is_sound(system)
        with trio.fail_after(PATIENCE):
            await climber.stop()
        assert system.statistics().timers == 0
