"""Contract point 4, what runs beside the messages: start_soon, pipe_to_self, and the loop of a resident actor."""

from __future__ import annotations

import contextvars
import math
from typing import Any

import pytest
import trio
from trio.testing import MockClock

import retinue as rt
from core_actors import Note
from core_hosts import conserved, reasons
from core_puppet import Call, Do, Puppet, nothing, state_of


def make(**options: Any) -> rt.ActorSystem:
    return rt.ActorSystem("tasks", block_warning=math.inf, **options)


def fail(_: Any) -> None:
    raise ValueError("restart me")


async def sleep_one(_: Any) -> str:
    await trio.sleep(1)
    return "slept"


@rt.message
class Got(rt.Message):
    value: Any


class Collector(Puppet):
    """Logs what it is sent."""

    @rt.handler
    def got(self, message: Got) -> None:
        self.log.append(message.value)


# -- start_soon --------------------------------------------------------------------------------------------------------------------------------------------


async def test_a_task_runs_beside_the_handlers(autojump_clock: MockClock) -> None:
    async with make() as system:
        ref = await system.spawn(Puppet)

        def start(actor: Puppet) -> None:
            async def tick() -> None:
                for number in range(3):
                    await trio.sleep(1)
                    actor.ctx.ref.tell(Call(lambda it, number=number: it.log.append(number)))

            actor.ctx.start_soon(tick)

        await ref.ask(Call(start))
        await ref.ask(Call(nothing))  # the actor is free
        await trio.sleep(3.5)
        assert await state_of(ref) == [0, 1, 2]
        assert conserved(system)


async def test_a_task_gets_its_arguments_and_tells_when_it_is_done(autojump_clock: MockClock) -> None:
    async with make() as system:
        ref = await system.spawn(Puppet)
        done: list[Any] = []

        async def work(*arguments: Any) -> None:
            await trio.sleep(1)
            done.append(arguments)

        task = await ref.ask(Call(lambda actor: actor.ctx.start_soon(work, 1, "two", name="some work")))
        assert task.name == "some work" and not task.done
        await task.wait()
        assert task.done and done == [(1, "two")]
        await task.wait()  # again, at once


async def test_a_task_can_be_cancelled(autojump_clock: MockClock) -> None:
    async with make() as system:
        ref = await system.spawn(Puppet)
        task = await ref.ask(Call(lambda actor: actor.ctx.start_soon(trio.sleep_forever)))
        task.cancel()
        await task.wait()
        assert task.done
        assert [actor.failures for actor in system.actors()] == [0]


async def test_a_failed_task_fails_its_actor(autojump_clock: MockClock, caplog: pytest.LogCaptureFixture) -> None:
    async with make() as system:
        ref = await system.spawn(Puppet, name="owner")

        async def work() -> None:
            await trio.sleep(1)
            raise ValueError("in the task")

        await ref.ask(Call(lambda actor: (actor.log.append("lost"), actor.ctx.start_soon(work, name="some work"))))
        await trio.sleep(2)
        assert await state_of(ref) == []  # restarted
        assert [(actor.failures, actor.restarts) for actor in system.actors()] == [(1, 1)]
        (record,) = [record for record in caplog.records if "some work" in record.getMessage()]
        assert record.levelname == "ERROR" and "/user/owner" in record.getMessage() and record.exc_info


async def test_a_task_ends_with_a_restart(autojump_clock: MockClock) -> None:
    async with make() as system:
        ref = await system.spawn(Puppet)
        ended: list[str] = []

        async def work() -> None:
            try:
                await trio.sleep_forever()
            finally:
                ended.append("ended")

        await ref.ask(Call(lambda actor: actor.ctx.start_soon(work)))
        await trio.testing.wait_all_tasks_blocked()
        ref.tell(Call(fail))
        await ref.ask(Call(nothing))
        assert ended == ["ended"]


async def test_a_task_ends_with_its_actor_and_before_its_on_stop(autojump_clock: MockClock) -> None:
    log: list[str] = []

    class Owner(Puppet):
        def on_stop(self, reason: str) -> None:
            log.append(f"on_stop {reason}")

    async def work() -> None:
        try:
            await trio.sleep_forever()
        finally:
            log.append("task")

    async with make() as system:
        ref = await system.spawn(Owner)
        await ref.ask(Call(lambda actor: actor.ctx.start_soon(work)))
        await trio.testing.wait_all_tasks_blocked()
        await ref.stop()
    assert log == ["task", "on_stop stopped"]


async def test_a_task_does_not_keep_the_system_from_being_quiet_or_from_stopping(autojump_clock: MockClock) -> None:
    async with make() as system:
        ref = await system.spawn(Puppet)
        await ref.ask(Call(lambda actor: actor.ctx.start_soon(trio.sleep_forever)))
        await system.wait_quiet()
    assert trio.current_time() == 0


async def test_a_task_has_no_deadline_of_the_message_that_started_it(autojump_clock: MockClock) -> None:
    async with make() as system:
        ref, other = await system.spawn(Collector), await system.spawn(Puppet)

        def start(actor: Puppet) -> None:
            async def ask_later() -> None:
                await trio.sleep(5)
                actor.ctx.ref.tell(Got(await other.ask(Do(sleep_one))))

            actor.ctx.start_soon(ask_later)

        await ref.ask(Call(start), timeout=1)
        await trio.sleep(10)
        assert await state_of(ref) == ["slept"]


async def test_a_stopping_actor_starts_no_more_tasks(autojump_clock: MockClock) -> None:
    async with make() as system:
        ref = await system.spawn(Puppet)

        def stop_and_start(actor: Puppet) -> str:
            actor.ctx.stop()
            try:
                actor.ctx.start_soon(trio.sleep_forever)
            except rt.RetinueError as error:
                return str(error)
            return "started"

        assert "stopping" in await ref.ask(Call(stop_and_start))


async def test_a_task_may_stop_its_actor(autojump_clock: MockClock) -> None:
    async with make() as system:
        ref = await system.spawn(Puppet)

        def start(actor: Puppet) -> None:
            async def stop() -> None:
                await trio.sleep(1)
                actor.ctx.stop()
                await trio.sleep_forever()

            actor.ctx.start_soon(stop)

        watch = await system.watch(ref)
        await ref.ask(Call(start))
        assert (await watch.wait()).reason == "stopped"
        assert trio.current_time() == 1


async def test_a_system_exit_in_a_task_ends_the_system(autojump_clock: MockClock) -> None:
    async def leave() -> None:
        raise SystemExit(4)

    with pytest.raises(SystemExit) as caught:
        async with make() as system:
            ref = await system.spawn(Puppet)
            await ref.ask(Call(lambda actor: actor.ctx.start_soon(leave)))
            await trio.sleep_forever()
    assert caught.value.code == 4


# -- pipe_to_self ------------------------------------------------------------------------------------------------------------------------------------------


async def test_the_outcome_of_a_pipe_comes_as_a_message(autojump_clock: MockClock) -> None:
    async with make() as system:
        ref, other = await system.spawn(Collector), await system.spawn(Puppet)
        await ref.ask(Call(lambda actor: actor.ctx.pipe_to_self(other.ask(Do(sleep_one)), then=Got)))
        assert await state_of(ref) == []  # the actor is free meanwhile
        await trio.sleep(2)
        assert await state_of(ref) == ["slept"]
        assert conserved(system)


async def test_a_value_that_is_a_message_needs_no_wrapping() -> None:
    async def make_message() -> Got:
        return Got("as it is")

    async with make() as system:
        ref = await system.spawn(Collector)
        await ref.ask(Call(lambda actor: actor.ctx.pipe_to_self(make_message())))
        await trio.testing.wait_all_tasks_blocked()
        assert await state_of(ref) == ["as it is"]


async def test_an_error_of_a_pipe_comes_as_a_message_where_somebody_makes_one(autojump_clock: MockClock) -> None:
    async with make() as system:
        ref, other = await system.spawn(Collector), await system.spawn(Puppet)
        pipe = Call(lambda actor: actor.ctx.pipe_to_self(other.ask(Call(fail)), then=Got, catch=lambda error: Got(type(error).__name__)))
        await ref.ask(pipe)
        await trio.sleep(1)
        assert await state_of(ref) == ["ValueError"]


async def test_an_error_of_a_pipe_that_nobody_catches_fails_the_actor(autojump_clock: MockClock) -> None:
    async with make() as system:
        ref = await system.spawn(Collector)

        async def bad() -> None:
            raise ValueError("nobody catches it")

        await ref.ask(Call(lambda actor: (actor.log.append("lost"), actor.ctx.pipe_to_self(bad()))))
        await trio.sleep(1)
        assert await state_of(ref) == []
        assert [actor.failures for actor in system.actors()] == [1]


async def test_a_pipe_that_the_actor_does_not_outlive_is_closed() -> None:
    async with make() as system:
        ref = await system.spawn(Collector)

        def stop_and_pipe(actor: Any) -> None:
            actor.ctx.stop()
            with pytest.raises(rt.RetinueError):
                actor.ctx.pipe_to_self(ref.ask(Call(nothing)))

        await ref.ask(Call(stop_and_pipe))  # a coroutine that is never awaited would be a warning, and so an error here


async def test_a_pipe_dies_with_a_restart(autojump_clock: MockClock) -> None:
    async with make() as system:
        ref, other = await system.spawn(Collector), await system.spawn(Puppet)
        await ref.ask(Call(lambda actor: actor.ctx.pipe_to_self(other.ask(Do(sleep_one)), then=Got)))
        ref.tell(Call(fail))
        await trio.sleep(3)
        assert await state_of(ref) == []
        assert conserved(system)


# -- resident actors ---------------------------------------------------------------------------------------------------------------------------------------


class Resident(rt.Actor):
    """Owns a loop."""

    def __init__(self, log: list[str], *, fails_after: float = math.inf) -> None:
        self.log = log
        self.fails_after = fails_after

    def on_start(self) -> None:
        self.log.append("on_start")

    async def run(self) -> None:
        self.log.append("run")
        try:
            await trio.sleep(self.fails_after)
            raise ValueError("in the loop")
        finally:
            self.log.append("run ended")

    @rt.handler
    def note(self, message: Note) -> None:
        self.log.append(f"note {message.number}")

    def on_stop(self, reason: str) -> None:
        self.log.append(f"on_stop {reason}")


async def test_a_resident_loop_runs_from_the_start_to_the_end_of_the_actor(autojump_clock: MockClock) -> None:
    log: list[str] = []
    async with make() as system:
        ref = await system.spawn(Resident, log)
        await trio.testing.wait_all_tasks_blocked()
        ref.tell(Note(1))
        await trio.sleep(1)
    assert log == ["on_start", "run", "note 1", "run ended", "on_stop system_closed"]
    assert trio.current_time() == 1


async def test_a_failing_loop_restarts_the_actor(autojump_clock: MockClock) -> None:
    log: list[str] = []
    async with make() as system:
        await system.spawn(Resident, log, fails_after=1)
        await trio.sleep(1.5)
        assert log == ["on_start", "run", "run ended", "on_stop restart", "on_start", "run"]


async def test_a_loop_that_ends_by_itself_leaves_the_actor_alive() -> None:
    class Short(Puppet):
        async def run(self) -> None:
            self.log.append("ran")

    async with make() as system:
        ref = await system.spawn(Short)
        await trio.testing.wait_all_tasks_blocked()
        assert await state_of(ref) == ["ran"]


async def test_a_loop_acts_under_the_grant_and_may_ask_its_own_actor(autojump_clock: MockClock) -> None:
    class Own(Puppet):
        async def run(self) -> None:
            assert self.ctx.message is None and self.ctx.sender is None and self.ctx.deadline is None
            self.ctx.ref.tell(Call(lambda actor: actor.log.append(actor.ctx.security.allows("tasks.anything"))))
            self.log.append(await self.ctx.ref.ask(Call(lambda actor: actor.ctx.sender == actor.ctx.ref)))

    async with make() as system:
        ref = await system.spawn(Own, grant=["tasks.something"])
        await trio.sleep(1)
        assert await state_of(ref) == [False, True]


async def test_a_loop_that_floods_its_own_actor_does_not_keep_it_from_stopping() -> None:
    class Flood(Puppet):
        async def run(self) -> None:
            while True:
                await self.ctx.ref.send(Call(nothing))

    async with make(grace=1) as system:
        ref = await system.spawn(Flood)
        await trio.sleep(0.05)  # of real time: nothing is ever idle here
        await ref.stop()
        assert not ref.alive
    assert set(reasons(system)) <= {"stopped", "withdrawn"}
    assert conserved(system)


async def test_a_task_and_a_loop_can_mint_no_more_than_a_handler_also_in_a_context_of_their_own() -> None:
    found: dict[str, object] = {}

    class Forger(rt.Actor):
        def __init__(self, authority: rt.Authority) -> None:
            self.authority = authority

        def forge(self) -> object:
            try:
                return contextvars.Context().run(self.authority.mint, "eve", ["**"])
            except rt.Denied as error:
                return type(error)

        async def run(self) -> None:
            found["loop"] = self.forge()
            await trio.lowlevel.checkpoint()
            found["loop, later"] = self.forge()

        async def work(self) -> None:
            found["task"] = self.forge()
            await trio.lowlevel.checkpoint()
            found["task, later"] = self.forge()

        @rt.handler
        def start(self, message: Note) -> None:
            self.ctx.start_soon(self.work)

    async with make() as system:
        (await system.spawn(Forger, system.authority)).tell(Note(1))
        await trio.testing.wait_all_tasks_blocked()
        assert found == dict.fromkeys(("loop", "loop, later", "task", "task, later"), rt.Denied)
