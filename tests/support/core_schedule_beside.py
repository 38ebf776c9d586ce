"""What random schedules (`core_schedule`) do beside plain mail: timers, topics, services, pools, groups and virtual actors."""

from __future__ import annotations

import math
import random
from collections.abc import Awaitable, Callable
from typing import Any

import trio

import retinue as rt
from core_schedule_world import Planned, Quick, Work, World

TOPICS: tuple[rt.Topic[Any], ...] = (
    rt.Topic("works", Work),
    rt.Topic("quicks", Quick),
    rt.Topic("guarded", Quick, publish="stress.publish"),
)
SERVICE = rt.ServiceKey("everybody", rt.Actor)
KEYS = ("a", "b", "c/d")
MOMENTS = (0, 0.1, 1)


def options_of_a_spawn(
    dice: random.Random, strategies: tuple[Any, ...] = ("one_for_one", "one_for_one", "one_for_all", "rest_for_one")
) -> dict[str, Any]:
    """A mailbox, a supervision, a grant."""
    capacity = dice.choice((1, 2, 3, 1024))
    mailbox = dice.choice(
        (
            None,
            rt.Mailbox.bounded(capacity, overflow=dice.choice(("reject", "drop_oldest", "drop_newest", "wait"))),
            rt.Mailbox.unbounded(),
            rt.Mailbox.priority(lambda message: message.number % 3, capacity),
            rt.Mailbox.conflate(lambda message: message.number % 2 or None, capacity),
        )
    )
    on: dict[type[BaseException], Any] = {}
    if dice.random() < 0.5:
        on[Planned] = dice.choice(("resume", "restart", "stop", "escalate"))
    supervision = rt.Supervision(
        restart=dice.choice(("transient", "permanent", "temporary")),
        on=on,
        backoff=dice.choice(((0, 0), (0.1, 1))),
        intensity=dice.choice(((1, 10), (5, 60))),
        strategy=dice.choice(strategies),
    )
    return {"mailbox": mailbox, "supervision": supervision, "grant": dice.choice((None, None, None, ["stress.**"], ["**"], []))}


def pool_of(dice: random.Random) -> rt.Pool:
    """A pool of any kind."""
    size = dice.choice((1, 2, 3))
    return dice.choice(
        (
            rt.Pool.round_robin(size),
            rt.Pool.least_loaded(size),
            rt.Pool.consistent_hash(size, key=lambda message: message.number % 5),
            rt.Pool.broadcast(size),
            rt.Pool.work_pulling(size, retries=dice.choice((0, 1, 3))),
        )
    )


# -- what waits --------------------------------------------------------------------------------------------------------------------------------------------


async def spawn_pool(world: World, dice: random.Random, actor: Any, depth: int) -> None:
    spawner = world.system if actor is None else actor.ctx
    with trio.move_on_after(dice.choice((0, 0.1, math.inf, math.inf, math.inf))):
        ref = await spawner.spawn_pool(dice.choice(world.classes), world, pool=pool_of(dice), **options_of_a_spawn(dice))
        world.refs.append(ref)
        world.fronts.add(ref)


async def spawn_group(world: World, dice: random.Random, actor: Any, depth: int) -> None:
    spawner = world.system if actor is None else actor.ctx
    members: Any = SERVICE if dice.random() < 0.4 else [dice.choice(world.refs) for _ in range(dice.randint(1, 3))]
    pool = dice.choice((rt.Pool.round_robin(), rt.Pool.least_loaded(), rt.Pool.consistent_hash(key=lambda message: message.number % 5)))
    ref = await spawner.spawn_group(members, pool=pool, cls=rt.Actor if members is not SERVICE else dice.choice(world.classes))
    world.refs.append(ref)
    world.fronts.add(ref)


async def spawn_virtual(world: World, dice: random.Random, actor: Any, depth: int) -> None:
    spawner = world.system if actor is None else actor.ctx
    options = options_of_a_spawn(dice, ("one_for_one",))
    region = await spawner.spawn_virtual(
        world.session, world, idle=dice.choice((0.2, 1, math.inf)), capacity=dice.choice((1, 2, 10)), **options
    )
    world.regions.append(region)
    world.refs.extend(region[key] for key in KEYS)


async def passivate(world: World, dice: random.Random, actor: Any, depth: int) -> None:
    if not world.regions:
        return
    region, key = dice.choice(world.regions), dice.choice(KEYS)
    if dice.random() < 0.1:
        with world.waiting(f"stop {region}"):
            await region.stop(grace=dice.choice((None, 0, 0.2)))
        return
    with world.waiting(f"passivate {region.path} {key}"):
        await region.passivate(key, grace=dice.choice((None, 0, 0.2, 1)))


async def report(world: World, dice: random.Random, actor: Any, depth: int) -> None:
    topics = world.system.topics if actor is None else actor.ctx.topics
    topic = dice.choice(TOPICS)
    message = world.message(dice, depth + 1, (topic.message,))
    with world.waiting(f"report {topic.name} {message}"), trio.move_on_after(dice.choice((0, 0.1, math.inf, math.inf))):
        found = await topics.publish_and_report(topic, message, timeout=dice.choice((0, 0.1, 1, 5)))
        world.budget -= len(found.outcomes)


async def listen(world: World, dice: random.Random, actor: Any, depth: int) -> None:
    if actor is not None:
        return
    with trio.move_on_after(dice.choice((0, 0.3, 1, 2))):
        async with world.system.topics.listen(dice.choice(TOPICS), capacity=dice.choice((1, 3, 256))) as items:
            async for item in items:
                if isinstance(item, rt.Lagged) and item.missed < 1:
                    world.faults.append(f"a listener lagged by {item.missed}")
                if dice.random() < 0.3:
                    await trio.sleep(dice.choice(MOMENTS))


async def subscribe_somebody(world: World, dice: random.Random, actor: Any, depth: int) -> None:
    if actor is not None:
        subscribe(world, dice, actor, None)
        return
    ref, topic = dice.choice(world.refs), dice.choice(TOPICS)
    if dice.random() < 0.8:
        world.system.topics.subscribe(topic, ref, dice.choice((1, 2, 5, 256)))
    else:
        world.system.topics.unsubscribe(topic, ref)


async def register_somebody(world: World, dice: random.Random, actor: Any, depth: int) -> None:
    if actor is not None:
        services(world, dice, actor, None)
    elif dice.random() < 0.7:
        world.system.receptionist.register(SERVICE, dice.choice(world.refs))
    else:
        world.system.receptionist.unregister(SERVICE, dice.choice(world.refs))


async def publish_outside(world: World, dice: random.Random, actor: Any, depth: int) -> None:
    topics = world.system.topics if actor is None else actor.ctx.topics
    topic = dice.choice(TOPICS)
    for _ in range(dice.choice((1, 1, 1, 4))):
        world.budget -= topics.publish(topic, world.message(dice, depth + 1, (topic.message,))).subscribers


async def burst(world: World, dice: random.Random, actor: Any, depth: int) -> None:
    ref = dice.choice(world.refs)
    for _ in range(dice.choice((2, 5, 8))):
        ref.tell(world.message(dice, depth + 2))


Deeds = dict[Callable[[World, random.Random, Any, int], Awaitable[None]], int]

BESIDE_OUTSIDE: Deeds = {
    spawn_pool: 3, spawn_group: 2, spawn_virtual: 2, passivate: 3, report: 2, listen: 1, subscribe_somebody: 4, register_somebody: 2, publish_outside: 4, burst: 4,
}  # fmt: skip
BESIDE_INSIDE: Deeds = {**BESIDE_OUTSIDE, listen: 0, spawn_pool: 1, spawn_virtual: 1, spawn_group: 1}


# -- what does not -----------------------------------------------------------------------------------------------------------------------------------------


def timer(world: World, dice: random.Random, actor: Any, message: Any) -> None:
    timers, key, how = actor.ctx.timers, dice.choice("ab"), dice.choice(("once", "once", "every", "every", "cancel", "all"))
    if how == "once":
        timers.once(key, world.message(dice, 3), dice.choice(MOMENTS))
    elif how == "every":
        timers.every(key, world.message(dice, 3), dice.choice((0.05, 0.3, 1)), first=dice.choice((None, 0, 2)))
    elif how == "cancel":
        if timers.cancel(key) is (key in timers) is True:
            world.faults.append(f"{actor.ctx.path} has a timer that it has cancelled")
    else:
        timers.cancel_all()
        if len(timers):
            world.faults.append(f"{actor.ctx.path} has timers that it has cancelled")


def publish(world: World, dice: random.Random, actor: Any, message: Any) -> None:
    topic = dice.choice(TOPICS)
    world.budget -= actor.ctx.topics.publish(topic, world.message(dice, 3, (topic.message,))).subscribers


def subscribe(world: World, dice: random.Random, actor: Any, message: Any) -> None:
    topic = dice.choice(TOPICS)
    if dice.random() < 0.8:
        found = actor.ctx.topics.subscribe(topic, dice.choice((1, 2, 5, 256)))
        if dice.random() < 0.1:
            found.close()
    else:
        actor.ctx.topics.unsubscribe(topic)


def services(world: World, dice: random.Random, actor: Any, message: Any) -> None:
    receptionist = actor.ctx.receptionist
    how = dice.choice(("register", "unregister", "find", "subscribe", "unsubscribe"))
    if how == "find":
        if not all(
            ref.alive or isinstance(ref, rt.VirtualRef) for ref in receptionist.find(SERVICE)
        ):  # one whose region ends lives a little longer
            world.faults.append("somebody who has ended was found")
    else:
        getattr(receptionist, how)(SERVICE)


BESIDE_NOW: dict[str, Callable[[World, random.Random, Any, Any], None]] = {
    "timer": timer,
    "publish": publish,
    "subscribe": subscribe,
    "services": services,
}


# -- what must hold then -----------------------------------------------------------------------------------------------------------------------------------


def began(world: World, path: str) -> None:
    """A virtual actor has an instance."""
    if path in world.living:
        world.faults.append(f"two instances of {path} at once")
    world.living.add(path)


def over(world: World) -> None:
    """Nothing of all this is left once the system has stopped."""
    counts = world.system.statistics()
    if counts.timers or counts.deadlines:
        world.faults.append(f"left after the stop: {counts}")
    active = [region.active() for region in world.regions]
    if any(active) or world.living:
        world.faults.append(f"virtual actors are there after the stop: {active}, {world.living}")


def no_longer_needed(world: World, actor: Any) -> None:
    """A message is being handled; a tick counts as one that was sent, and once the budget is spent there are no more."""
    if actor.ctx.sender is actor.ctx.ref:
        world.budget -= 1
    if world.budget <= 0:
        actor.ctx.timers.cancel_all()


class OneAtATime:
    """For classes of virtual actors: notes when there are two of one key."""

    world: World
    ctx: Any

    async def on_start(self) -> None:
        began(self.world, self.ctx.path)
        try:
            await super().on_start()  # type: ignore[misc]
        except BaseException:
            self.world.living.discard(self.ctx.path)
            raise

    async def on_stop(self, reason: str) -> None:
        try:
            await super().on_stop(reason)  # type: ignore[misc]
        finally:
            self.world.living.discard(self.ctx.path)
