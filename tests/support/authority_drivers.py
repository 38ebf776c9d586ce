"""What drives the systems of the derivation machine: the task that entered one in a loop of its own, and the blocking twin."""

from __future__ import annotations

import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from functools import partial
from typing import Any

import trio
import trio.testing

import retinue as rt
import retinue.sync
from authority_model import Want
from authority_players import OPTIONS, PLAYERS, SUPERVISION, Holder, driven, grant_of
from authority_world import Turn, World

PATIENCE = 5000
"""Rounds of 2 ms in which threads may come to rest."""
WAITING = 4
"""Rounds after which a thread that waits for an answer is taken to go on waiting."""


class Loop:
    """A system in a loop in a thread of its own; what the machine wants done is done by the task that entered the system, or a child of it."""

    def __init__(self, **options: Any) -> None:
        self._options = {**OPTIONS, **options}
        self._started: Future[World] = Future()
        self._clock = trio.testing.MockClock()
        self.holder: Any = None
        self._send: Any = None
        self._token: Any = None
        self._thread = threading.Thread(target=partial(trio.run, self._main, clock=self._clock))
        self._thread.start()
        self.world = self._started.result(30)

    async def _main(self) -> None:
        self._send, receive = trio.open_memory_channel[Any](100)
        self._token = trio.lowlevel.current_trio_token()
        try:
            async with rt.ActorSystem("machine", **self._options) as system, trio.open_nursery() as nursery:
                world = World(system)
                world.begin()
                world.delay = 1.0
                self.holder = Holder(world)
                self._started.set_result(world)
                async for work, done in receive:
                    try:
                        await work(nursery)
                        await quiet(world)
                        done.set_result(None)
                    except BaseException as error:
                        done.set_exception(error)
                nursery.cancel_scope.cancel()
                await system.stop(grace=0)
        except BaseException as error:
            if not self._started.done():
                self._started.set_exception(error)
            raise

    def run(self, work: Callable[[Any], Awaitable[Any]]) -> None:
        """Runs it in the task that entered the system, and waits for a quiet moment."""
        done: Future[None] = Future()
        self._token.run_sync_soon(self._send.send_nowait, (work, done))
        done.result(60)

    async def jump(self) -> None:
        """The timers that are set by now come due."""
        self._clock.jump(1.5)

    def close(self) -> None:
        self._token.run_sync_soon(self._send.close)
        self._thread.join(30)
        assert not self._thread.is_alive()


async def quiet(world: World) -> None:
    """Waits for a moment when nothing moves, and looks at the record then."""
    problem, waited = None, 0
    for _ in range(PATIENCE):
        await trio.testing.wait_all_tasks_blocked()
        threads = world.threads()
        waited = waited + 1 if threads == "waiting" else 0
        problem = world.problem()
        if world.faults or (problem is None and (not threads or waited == WAITING)):
            return
        await trio.to_thread.run_sync(time.sleep, 0.002)
    world.fault(problem or "an actor in a thread does not come to rest")


class TwinHolder(Holder):
    """Whoever holds a twin, in the twin's manner: nothing is awaited."""

    def __init__(self, world: World, system: retinue.sync.ActorSystem) -> None:
        super().__init__(world)
        self._system = system
        self._waiting: dict[int, int] = {}

    def _ref(self, ref: Any) -> Any:
        return retinue.sync.Ref(ref, self._system._twin)

    async def ask(self, ref: Any, message: Any, **keywords: Any) -> Any:
        here = threading.get_ident()
        self._waiting[here] = message.mark
        try:
            return self._ref(ref).ask(message, **keywords)
        finally:
            del self._waiting[here]

    def doing(self, thread: threading.Thread) -> int | None:
        """As `World.outside` asks."""
        return self._waiting.get(thread.ident or 0, 0) if thread.is_alive() else None

    async def send(self, ref: Any, message: Any, **keywords: Any) -> Any:
        return self._ref(ref).send(message, **keywords)

    def tell(self, ref: Any, message: Any, **keywords: Any) -> Any:
        return self._ref(ref).tell(message, **keywords)

    def _run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """In the system's loop, as the twin does it."""
        return retinue.sync._run(self._system._twin, partial(function, *arguments))

    async def born(self, turn: Turn, wants: list[Want], make: Any, seat: Any) -> None:
        self._run(super().born, turn, wants, make, seat)

    async def settle(self, closed: list[Want], adopted: list[Want]) -> None:
        self._run(super().settle, closed, adopted)

    async def publish(self, *arguments: Any) -> None:
        self._run(super().publish, *arguments)

    async def passivate(self, which: int, key: str) -> None:
        self._run(super().passivate, which, key)

    async def made(self, kind: str, wants: list[Want]) -> Any:
        return self._system.spawn(PLAYERS[kind], self.world, grant=grant_of(wants), supervision=SUPERVISION).core


class Threads:
    """Stands for a nursery: what is started goes into a thread of its own."""

    def __init__(self, holder: TwinHolder) -> None:
        self._threads: list[threading.Thread] = []
        self._holder = holder

    def start_soon(self, function: Callable[..., Any], *arguments: Any) -> None:
        thread = threading.Thread(target=lambda: driven(function(*arguments)))
        self._threads.append(thread)
        thread.start()
        self._holder.world.outside.append(partial(self._holder.doing, thread))

    def join(self) -> None:
        for thread in self._threads:
            thread.join(30)
            assert not thread.is_alive()


class Twin:
    """A system behind `retinue.sync`; whoever asks blocks a thread."""

    def __init__(self, **options: Any) -> None:
        self._system = retinue.sync.ActorSystem("machine", **{**OPTIONS, **options})
        self._system.__enter__()
        self.world = World(self._system._twin.core)
        self.world.begin()
        self.holder = TwinHolder(self.world, self._system)
        self._threads = Threads(self.holder)

    def run(self, work: Callable[[Any], Awaitable[Any]]) -> None:
        """As `Loop.run`."""
        driven(work(self._threads))
        retinue.sync._run(self._system._twin, partial(quiet, self.world))

    async def jump(self) -> None:
        """The timers tick at once here."""

    def close(self) -> None:
        self._system.stop(grace=0)
        self._system.__exit__(None, None, None)
        self._threads.join()
