"""Random schedules for a system of actors: everything that actors and their users may do, in an order that a seed decides. (Beside mail: `core_schedule_beside`.)

Each message carries a number; what its handler does is drawn from dice that the seed and that number make. A budget of messages and short sleeps bound a
schedule. `play` checks the promises that hold in any schedule: conservation at every moment when one can look, one message at a time, no open ask after the stop.
"""

from __future__ import annotations

import logging
import math
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, TypeAlias

import trio
import trio.testing

import retinue as rt
from core_schedule_beside import BESIDE_INSIDE, BESIDE_NOW, BESIDE_OUTSIDE, OneAtATime, no_longer_needed, options_of_a_spawn, over
from core_schedule_world import DONE, Declared, Flow, Guarded, Planned, Quick, Work, World

Around: TypeAlias = Callable[[rt.ActorSystem, random.Random], AbstractContextManager[Any]]


class Player(rt.Actor):
    """Does what the dice say, and notices when two of its handlers run at once."""

    def __init__(self, world: World) -> None:
        self.world = world

    async def on_start(self) -> None:
        dice = self.world.dice()
        if dice.random() < 0.2:
            await trio.sleep(dice.choice((0, 0.1, 1)))
        if dice.random() < 0.07:
            raise Planned("in on_start")

    async def on_stop(self, reason: str) -> None:
        dice = self.world.dice()
        if dice.random() < 0.2:
            await trio.sleep(dice.choice((0, 0.1, 1)))
        if dice.random() < 0.05:
            raise Planned("in on_stop")
        if dice.random() < 0.2 and self.world.budget > 0:
            dice.choice(self.world.refs).tell(self.world.message(dice, 9))

    @contextmanager
    def alone(self) -> Iterator[None]:
        busy, path = self.world.busy, self.ctx.path
        if path in busy:
            self.world.faults.append(f"two handlers of {path} at once")
        busy.add(path)
        no_longer_needed(self.world, self)
        try:
            yield
        finally:
            busy.discard(path)

    @rt.handler(raises=Declared)
    async def work(self, message: Work | Guarded) -> int:
        with self.alone():
            dice = self.world.dice()
            for _ in range(dice.randint(0, 3)):
                await act(self.world, dice, self, message.depth)
        return message.number

    @rt.handler(requires="stress.quick", raises=Declared)
    def quick(self, message: Quick) -> int:
        with self.alone():
            dice = self.world.dice()
            for _ in range(dice.randint(0, 2)):
                act_now(self.world, dice, self, message)
        return message.number

    @rt.handler
    async def flow(self, message: Flow) -> AsyncIterator[int]:
        with self.alone():
            dice = self.world.dice()
            for number in range(dice.randint(0, 5)):
                yield number
                await act(self.world, dice, self, message.depth + 1)

    @rt.handler
    def ended(self, _: rt.Terminated | rt.Lagged | rt.Listing) -> None:
        with self.alone():
            act_now(self.world, self.world.dice(), self, None)


class Shielded(Player):
    """Its asks go on when their askers leave."""

    @rt.handler(shield=True, raises=Declared)
    async def work(self, message: Work | Guarded) -> int:
        return await super().work(message)


class Resident(Player):
    """Has a loop of its own that sends it mail."""

    async def run(self) -> None:
        dice = self.world.dice()
        for _ in range(dice.randint(0, 3)):
            await trio.sleep(dice.choice((0, 0.1, 1)))
            if self.world.budget > 0:
                self.ctx.ref.tell(self.world.message(dice, 2))
        if dice.random() < 0.2:
            raise Planned("in the resident loop")


class Plain(rt.Actor):
    """No hooks, so that it is spawned and ended the fast way."""

    def __init__(self, world: World) -> None:
        self.world = world

    alone = Player.alone
    quick = Player.quick
    work = Player.work
    flow = Player.flow


class Session(OneAtATime, Player):
    """Stands for a key."""


World.classes = (Player, Player, Shielded, Resident, Plain)
World.session = Session


# -- what may happen in an async handler, a background task, or outside ------------------------------------------------------------------------------


async def ask(world: World, dice: random.Random, actor: Any, depth: int) -> None:
    ref, message = dice.choice(world.refs), world.message(dice, depth + 1)
    options: dict[str, Any] = {"detached": True} if dice.random() < 0.15 else {}
    if dice.random() < 0.4:
        options["timeout"] = dice.choice((0, 0.1, 1, 3))
    with world.waiting(f"ask {ref.path} {message} {options}"):
        await ref.ask(message, **options)


async def ask_and_leave(world: World, dice: random.Random, actor: Any, depth: int) -> None:
    with trio.move_on_after(dice.choice((0, 0.1, 0.5, 1))):
        await ask(world, dice, actor, depth)


async def race(world: World, dice: random.Random, actor: Any, depth: int) -> None:
    async with trio.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(ask, world, world.dice(), actor, depth)
        if dice.random() < 0.5:
            await trio.sleep(dice.choice((0, 0.1, 1)))
            nursery.cancel_scope.cancel()


async def send(world: World, dice: random.Random, actor: Any, depth: int) -> None:
    ref, message = dice.choice(world.refs), world.message(dice, depth + 1)
    with world.waiting(f"send {ref.path} {message}"), trio.move_on_after(dice.choice((0, 0.1, 1, math.inf))):
        await ref.send(message, timeout=dice.choice((0, 0.1, 1, 5)))


async def stream(world: World, dice: random.Random, actor: Any, depth: int) -> None:
    ref, message = dice.choice(world.refs), world.message(dice, depth + 1, (Flow,))
    left = dice.randint(1, 6)
    with trio.move_on_after(dice.choice((0.1, 1, math.inf, math.inf))):
        async with ref.stream(message, window=dice.choice((1, 2, 8)), timeout=dice.choice((None, 0.5, 3))) as items:
            while left:
                left -= 1
                with world.waiting(f"stream {ref.path} {message}"):
                    if await anext(items, None) is None:
                        break
                if dice.random() < 0.3:
                    await trio.sleep(dice.choice((0, 0.1, 1)))


async def sleep(world: World, dice: random.Random, actor: Any, depth: int) -> None:
    await trio.sleep(dice.choice((0, 0, 0.1, 0.3, 1)))


async def shielded_sleep(world: World, dice: random.Random, actor: Any, depth: int) -> None:
    with trio.CancelScope(shield=True):
        await trio.sleep(dice.choice((0, 0.1, 0.5)))


async def stop(world: World, dice: random.Random, actor: Any, depth: int) -> None:
    ref = dice.choice(world.refs)
    with world.waiting(f"stop {ref.path}"):
        await ref.stop(grace=dice.choice((None, 0, 0.2, 1)))


async def spawn(world: World, dice: random.Random, actor: Any, depth: int) -> None:
    spawner = world.system if actor is None else actor.ctx
    cls = dice.choice(world.classes)
    with trio.move_on_after(dice.choice((0, 0.1, math.inf, math.inf, math.inf))):
        world.refs.append(await spawner.spawn(cls, world, **options_of_a_spawn(dice)))


async def watch(world: World, dice: random.Random, actor: Any, depth: int) -> None:
    ref = dice.choice(world.refs)
    found = await world.system.watch(ref) if actor is None else actor.ctx.watch(ref)
    if dice.random() < 0.5:
        with trio.move_on_after(dice.choice((0, 0.1, 1))):
            if (await found.wait()).ref != ref or (ref.alive and not isinstance(ref, rt.VirtualRef)):
                world.faults.append(f"{ref.path} was said to have ended")


async def tell(world: World, dice: random.Random, actor: Any, depth: int) -> None:
    dice.choice(world.refs).tell(world.message(dice, depth + 1))


async def look(world: World, dice: random.Random, actor: Any, depth: int) -> None:
    world.look()


async def fail(world: World, dice: random.Random, actor: Any, depth: int) -> None:
    raise dice.choice(
        (Planned("on purpose"), Declared("on purpose"), rt.Reject("on purpose"), ExceptionGroup("both", [Planned("a"), Planned("b")]))
    )


OUTSIDE: dict[Callable[..., Awaitable[None]], int] = {
    ask: 10, ask_and_leave: 6, race: 3, send: 4, stream: 5, sleep: 5, stop: 2, spawn: 3, watch: 3, tell: 10, look: 5, **BESIDE_OUTSIDE,
}  # fmt: skip
INSIDE = {**OUTSIDE, **BESIDE_INSIDE, sleep: 9, shielded_sleep: 1, fail: 4, stop: 1}


async def act(world: World, dice: random.Random, actor: Any, depth: int) -> None:
    """One deed. Errors that are no surprise are let through now and then, else they end here."""
    table = OUTSIDE if actor is None else INSIDE
    deed = dice.choices(list(table), list(table.values()))[0]
    if world.budget <= 0 or depth > 4:
        deed = sleep
    elif actor is not None and dice.random() < 0.35:
        return act_now(world, dice, actor, None)
    try:
        await deed(world, dice, actor, depth)
        DONE[deed.__name__] += 1
    except* (rt.RetinueError, Planned, Declared) as errors:
        if deed is fail or (actor is not None and dice.random() < 0.2):
            raise one_of(errors) from None


def one_of(error: BaseExceptionGroup[Any]) -> BaseException:
    """`except*` wraps a single error; what was a group stays one."""
    return error.exceptions[0] if len(error.exceptions) == 1 else error


# -- what may happen in a plain handler ------------------------------------------------------------------------------------------------------------------


def act_now(world: World, dice: random.Random, actor: Any, message: Any) -> None:
    """One deed that does not wait."""
    deed = dice.choice(
        ("tell", "fail", "defer", "defer", "forward", "stash", "stash", "unstash", "stop", "task", "pipe", "answer", "answer", *BESIDES)
    )
    if world.budget <= 0 and deed in ("tell", "forward", "task", "pipe", "timer", "publish"):
        return
    try:
        DEEDS[deed](world, dice, actor, message)
        DONE[f"{deed} at once"] += 1
    except (rt.DefinitionError, rt.MailboxFull, rt.AskCycle, rt.NoContext):
        pass  # an answer that was taken away before, a stash that is full, a ring, an actor that is stopping


def tell_now(world: World, dice: random.Random, actor: Any, message: Any) -> None:
    dice.choice(world.refs).tell(world.message(dice, 3))


def fail_now(world: World, dice: random.Random, actor: Any, message: Any) -> None:
    if dice.random() < 0.5:
        raise dice.choice((Planned("at once"), Declared("at once"), rt.Reject("at once")))


def defer_now(world: World, dice: random.Random, actor: Any, message: Any) -> None:
    slot = actor.ctx.defer()
    how = dice.choice(("task", "somebody", "never", "now"))
    if how == "now":
        slot.reply(0)
    elif how == "somebody":
        world.slots.append(slot)
    elif how == "task":

        async def answer() -> None:
            await trio.sleep(dice.choice((0, 0.1, 1)))
            slot.reply(0)

        actor.ctx.start_soon(answer)


def forward_now(world: World, dice: random.Random, actor: Any, message: Any) -> None:
    actor.ctx.forward(dice.choice(world.refs), world.message(dice, 3))


def stash_now(world: World, dice: random.Random, actor: Any, message: Any) -> None:
    if message is not None and message.number not in world.stashed:
        world.stashed.add(message.number)
        actor.ctx.stash()


def unstash_now(world: World, dice: random.Random, actor: Any, message: Any) -> None:
    actor.ctx.unstash_all()


def stop_now(world: World, dice: random.Random, actor: Any, message: Any) -> None:
    if dice.random() < 0.3:
        actor.ctx.stop()


def task_now(world: World, dice: random.Random, actor: Any, message: Any) -> None:
    actor.ctx.start_soon(act, world, world.dice(), actor, 3)


def pipe_now(world: World, dice: random.Random, actor: Any, message: Any) -> None:
    ref = dice.choice(world.refs)
    following = world.message(dice, 4)
    catch = (lambda _: following) if dice.random() < 0.7 else None
    actor.ctx.pipe_to_self(ref.ask(world.message(dice, 3), timeout=1), then=lambda _: following, catch=catch)


def answer_now(world: World, dice: random.Random, actor: Any, message: Any) -> None:
    if world.slots:
        slot = world.slots.pop(dice.randrange(len(world.slots)))
        if dice.random() < 0.7:
            slot.reply(0)
        else:
            slot.fail(Declared("deferred"))


BESIDES = ("timer", "timer", "publish", "subscribe", "services")
DEEDS: dict[str, Callable[[World, random.Random, Any, Any], None]] = {
    "tell": tell_now, "fail": fail_now, "defer": defer_now, "forward": forward_now, "stash": stash_now, "unstash": unstash_now, "stop": stop_now,
    "task": task_now, "pipe": pipe_now, "answer": answer_now, **BESIDE_NOW,
}  # fmt: skip


# -- one schedule --------------------------------------------------------------------------------------------------------------------------------------------


async def user(world: World) -> None:
    """Somebody outside of all actors."""
    dice = world.dice()
    try:
        for _ in range(dice.randint(5, 40)):
            await act(world, dice, None, 0)
    finally:
        world.users -= 1


async def play(seed: int, around: Around = lambda *_: nullcontext()) -> list[str]:
    """Plays one schedule, inside of what `around` makes of its system and its dice, and returns the promises that were broken."""
    dice = random.Random(seed)
    system = rt.ActorSystem(
        "stress",
        seed=seed if dice.random() < 0.5 else None,
        loopback=dice.random() < 0.15,
        grace=dice.choice((0, 0.5, 5)),
        events=dice.choice((0, 0, 50)),
        block_warning=math.inf,
    )
    world = World(seed, system)
    try:
        async with trio.open_nursery() as outside:
            async with system:
                for _ in range(dice.randint(2, 5)):
                    cls = dice.choice((Player, Player, Shielded, Plain))
                    try:
                        world.refs.append(await system.spawn(cls, world, **options_of_a_spawn(dice)))
                    except Planned:
                        pass
                with around(system, dice):
                    if world.refs:
                        await through(world, dice, outside)
            world.look()
            await trio.testing.wait_all_tasks_blocked()
            world.faults.extend(f"unresolved after the stop: {what}" for what in world.open.values())
            over(world)
            DONE.update(system.statistics().dead_letters_by_reason)
            if system.statistics().queued:
                world.faults.append(f"still queued: {system.statistics()}")
    except ExceptionGroup as group:
        world.faults.append(f"left the system: {group.exceptions!r}")
    return world.faults


async def through(world: World, dice: random.Random, outside: trio.Nursery) -> None:
    """Lets the users do what they do, to the end or until a moment of the schedule's choice."""
    world.users = dice.randint(1, 5)
    for _ in range(world.users):
        outside.start_soon(user, world)
    if dice.random() < 0.5:
        await trio.sleep(dice.uniform(0, 4))
        world.look()
        if dice.random() < 0.3:
            await world.system.stop(grace=dice.choice((0, 1)))
        return
    while world.users:
        await trio.sleep(1)
        world.look()
    await world.system.wait_quiet(timeout=1000)
    world.look()


class Faults(logging.Handler):
    """Collects what the runtime logs about faults of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if "fault of the runtime" in record.getMessage():
            self.found.append(self.format(record))


def played(seed: int, around: Around = lambda *_: nullcontext()) -> list[str]:
    """Plays one schedule in a trio run and a virtual time of its own; one in which everybody waits for ever is given up."""
    clock = trio.testing.MockClock(autojump_threshold=0)

    def gave_up() -> float:
        raise TimeoutError

    async def lose_patience() -> None:
        await trio.sleep(1_000_000)
        clock.current_time = gave_up  # type: ignore[method-assign]  # a shielded stop that hangs cannot be cancelled: only so does the run end

    async def main() -> list[str]:
        trio.lowlevel.spawn_system_task(lose_patience)
        return await play(seed, around)

    try:
        return trio.run(main, clock=clock)
    except trio.TrioInternalError as error:
        if not isinstance(error.__cause__, TimeoutError):
            raise
        return ["everybody waits for ever"]


def broken_by(seeds: range, around: Around = lambda *_: nullcontext()) -> dict[int, list[str]]:
    """Plays the schedules of these seeds, each in a trio run and a virtual time of its own; returns what was broken, by seed."""
    broken: dict[int, list[str]] = {}
    logger = logging.getLogger("retinue")
    propagate, logger.propagate = logger.propagate, False  # thousands of planned errors need no text
    try:
        for seed in seeds:
            handler = Faults()
            logger.addHandler(handler)
            try:
                getattr(trio._core._run, "_r", random.Random()).seed(seed)  # trio's own order of tasks, where it can be had
                random.seed(seed)  # what the runtime draws where it has no seed
                found = played(seed, around)
            finally:
                logger.removeHandler(handler)
            if found or handler.found:
                broken[seed] = [*found, *handler.found]
    finally:
        logger.propagate = propagate
    return broken
