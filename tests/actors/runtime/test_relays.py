"""A request that was handed on to an idle actor goes on in its asker's own task."""

from __future__ import annotations

import math
from typing import Any

import pytest
import trio
import trio.lowlevel
from trio.testing import MockClock, wait_all_tasks_blocked

import retinue as rt
from core_authority import tie_clock
from core_hosts import conserved, reasons
from core_puppet import Do, Puppet
from retinue.actors.runtime import lifecycle


@rt.message(timeout=60)
class Where(rt.Request[str]):
    """Says in which task it is handled."""

    seconds: float = 0.0
    how: str = ""


class Worker(rt.Actor):
    seen: list[str]

    def __init__(self) -> None:
        self.seen = []

    @rt.handler(raises=ArithmeticError)
    async def where(self, message: Where) -> str:
        self.seen.append("begun")
        if message.how == "declared":
            raise ArithmeticError("declared")
        if message.how == "fail":
            raise ValueError("broken")
        if message.how == "taint":
            self.ctx.taint("web")
        if message.seconds:
            try:
                await trio.sleep(message.seconds)
            except trio.Cancelled:
                self.seen.append("cancelled")
                raise
        if message.how == "fail late":
            raise ValueError("broken")
        self.seen.append("done")
        return f"{trio.lowlevel.current_task().name} by {self.ctx.path}"


class Front(rt.Actor):
    def __init__(self, to: Any) -> None:
        self.to = to

    @rt.handler(raises=ArithmeticError)
    def where(self, message: Where) -> Any:
        to = self.to["key"] if isinstance(self.to, rt.Virtual) else self.to
        self.ctx.forward(to, message)
        if message.how == "raise":
            raise ArithmeticError("after all")
        if message.how == "tell too":
            to.tell(Where())
        return "ignored"


def make(**options: Any) -> rt.ActorSystem:
    return rt.ActorSystem("relays", block_warning=math.inf, **options)


def mine() -> str:
    return trio.lowlevel.current_task().name


async def pair(system: rt.ActorSystem) -> tuple[rt.Ref[Any], rt.Ref[Any]]:
    worker = await system.spawn(Worker, name="worker")
    return await system.spawn(Front, worker, name="front"), worker


async def test_it_goes_on_in_the_askers_task_where_the_target_is_idle() -> None:
    async with make() as system:
        front, _ = await pair(system)
        second = await system.spawn(Front, front, name="second")
        for ask in (front, second, front):
            assert await ask.ask(Where()) == f"{mine()} by /user/worker"
        await system.wait_quiet()
        assert conserved(system) and system.statistics().queued == 0


async def test_a_virtual_actor_that_has_an_instance_is_one() -> None:
    async with make() as system:
        region = await system.spawn_virtual(Worker, name="workers")
        front = await system.spawn(Front, region, name="front")
        await front.ask(Where())
        assert (await front.ask(Where())).startswith(f"{mine()} by /user/workers/")
        assert conserved(system)


async def test_a_busy_target_is_waited_for_and_the_front_is_free(autojump_clock: MockClock) -> None:
    async with make() as system:
        front, _ = await pair(system)
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(front.ask, Where(1.0))
            await wait_all_tasks_blocked()
            assert {one.path: one.state for one in system.actors()} == {"/user/worker": "running", "/user/front": "idle"}
        assert trio.current_time() == 3 and conserved(system)


@pytest.mark.parametrize(("how", "error"), [("declared", ArithmeticError), ("fail", ValueError), ("fail late", ValueError)])
async def test_its_errors_are_the_askers_and_its_failures_its_own(how: str, error: type[Exception], autojump_clock: MockClock) -> None:
    async with make() as system:
        front, _ = await pair(system)
        puppet = await system.spawn(Puppet, name="puppet")

        async def ask(_: Any) -> None:
            await front.ask(Where(0.5 if "late" in how else 0.0, how))

        for _ in range(2):
            with pytest.raises(error):
                await front.ask(Where(0.5 if "late" in how else 0.0, how))
        with pytest.raises(error):
            await puppet.ask(Do(ask))
        failures = {one.path: one.failures for one in system.actors()}
        assert failures == {"/user/front": 0, "/user/worker": 0 if how == "declared" else 3, "/user/puppet": 0}
        await trio.sleep(10)
        assert (await front.ask(Where())).endswith("/user/worker") and conserved(system)


async def test_the_deadline_and_a_cancelled_asker_reach_it(autojump_clock: MockClock) -> None:
    async with make() as system:
        front, worker = await pair(system)
        with pytest.raises(rt.AskTimeout):
            await front.ask(Where(10), timeout=2)
        with trio.move_on_after(1):
            await front.ask(Where(10))
        assert trio.current_time() == 3
        seen = worker._cell.actor.seen
        assert seen == ["begun", "cancelled"] * 2
        assert (await front.ask(Where())).startswith(mine())
        assert conserved(system)


async def test_the_target_that_is_stopped_meanwhile_is_cut_off(autojump_clock: MockClock) -> None:
    async with make() as system:
        front, worker = await pair(system)
        found: list[str] = []

        async def ask() -> None:
            try:
                await front.ask(Where(100))
            except rt.ActorStopped as error:
                found.append(str(error))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await wait_all_tasks_blocked()
            await worker.stop(grace=1)
        assert len(found) == 1 and "was stopped while it handled Where" in found[0] and trio.current_time() == 1
        with pytest.raises(rt.ActorStopped):
            await front.ask(Where())
        assert conserved(system)


async def test_a_front_that_raises_after_all_has_the_last_word_and_the_target_has_its_message() -> None:
    async with make() as system:
        front, worker = await pair(system)
        with pytest.raises(ArithmeticError, match="after all"):
            await front.ask(Where(how="raise"))
        await system.wait_quiet()
        assert worker._cell.actor.seen == ["begun", "done"]
        assert reasons(system) == {"late_reply": 1} and conserved(system)


async def test_what_the_front_sends_besides_comes_after(autojump_clock: MockClock) -> None:
    async with make() as system:
        front, worker = await pair(system)
        assert (await front.ask(Where(how="tell too"))).endswith("/user/worker")
        await system.wait_quiet()
        assert worker._cell.actor.seen == ["begun", "done"] * 2 and conserved(system)


async def test_labels_and_rings_are_as_ever(autojump_clock: MockClock) -> None:
    class Asking(Worker):
        @rt.handler
        async def where(self, message: Where) -> str:
            return str(await asker_of_all.ask(Do(nothing), timeout=5))

    async def nothing(_: Any) -> str:
        return "done"

    async with make() as system:
        front, _ = await pair(system)
        asker_of_all = await system.spawn(Puppet, name="asker")

        async def labelled(actor: Any) -> list[str]:
            await front.ask(Where(how="taint"))
            return sorted(actor.ctx.labels)

        assert await asker_of_all.ask(Do(labelled)) == ["web"]
        ring = await system.spawn(Front, await system.spawn(Asking), name="ring")

        async def closes(_: Any) -> None:
            await ring.ask(Where())

        with pytest.raises(rt.AskCycle):
            await asker_of_all.ask(Do(closes))
        await system.wait_quiet()
        assert conserved(system)


async def test_a_loop_of_them_lets_others_in_and_can_be_cancelled() -> None:
    async with make() as system:
        front, _ = await pair(system)
        turns = 0

        async def beside() -> None:
            nonlocal turns
            while True:
                turns += 1
                await trio.lowlevel.checkpoint()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(beside)
            with trio.move_on_after(0.2) as scope:
                while True:
                    await front.ask(Where())
            nursery.cancel_scope.cancel()
        assert scope.cancelled_caught and turns > 2
        await system.wait_quiet()
        assert conserved(system)


async def test_with_a_seed_and_by_workers_it_goes_by_the_mailbox(turn_system: rt.ActorSystem) -> None:
    async with turn_system as system:
        front, _ = await pair(system)
        assert [(await front.ask(Where())).partition(" by ")[2] for _ in range(5)] == ["/user/worker"] * 5
        await system.wait_quiet()
        assert conserved(system)


async def test_the_gate_refuses_it_there_as_well() -> None:
    class Strict(rt.Actor):
        @rt.handler(requires="work.do")
        def where(self, _: Where) -> str:
            return self.ctx.security.subject

    async with make() as system:
        front = await system.spawn(Front, await system.spawn(Strict, name="strict"), name="front")
        puppet = await system.spawn(Puppet)

        async def ask(_: Any) -> Any:
            return await front.ask(Where())

        ada, eve = system.authority.mint("ada", ["work.do"]), system.authority.mint("eve", ["walk"])
        assert await puppet.ask(Do(ask), context=ada) == "ada"
        with pytest.raises(rt.Denied) as caught:
            await puppet.ask(Do(ask), context=eve)
        assert caught.value.path == "/user/strict"
        assert await front.ask(Where()) == system.authority.root.subject
        await system.wait_quiet()
        assert conserved(system)


@rt.message(timeout=2)
class Hurried(rt.Request[str]):
    """Is handed on as a message with more time."""

    seconds: float = 0.0


class Slowing(rt.Actor):
    def __init__(self, to: Any) -> None:
        self.to = to

    @rt.handler
    def hurried(self, message: Hurried) -> Any:
        self.ctx.forward(self.to, Where(message.seconds))


@pytest.mark.parametrize("busy", [False, True], ids=["idle target", "busy target"])
async def test_the_deadline_is_that_of_what_was_asked_and_not_of_what_is_handed_on(busy: bool, autojump_clock: MockClock) -> None:
    async with make() as system:
        _, worker = await pair(system)
        slowing = await system.spawn(Slowing, worker, name="slowing")
        async with trio.open_nursery() as nursery:
            if busy:
                nursery.start_soon(worker.ask, Where(1))
                await wait_all_tasks_blocked()
            with pytest.raises(rt.AskTimeout):
                await slowing.ask(Hurried(10))
        assert trio.current_time() == 2
        assert (await slowing.ask(Hurried())).endswith("/user/worker") and conserved(system)


async def test_the_end_of_the_authority_is_met_there_too(autojump_clock: MockClock) -> None:
    async with make() as system:
        front, worker = await pair(system)
        puppet = await system.spawn(Puppet)

        async def ask(_: Any) -> Any:
            return await front.ask(Where(10))

        tie_clock(system)
        ada = system.authority.mint("ada", ["**", rt.expires(seconds=3)])
        with pytest.raises((rt.AskTimeout, rt.Expired)):
            await puppet.ask(Do(ask), context=ada)
        assert trio.current_time() == pytest.approx(3, abs=0.1)
        await system.wait_quiet()
        assert worker._cell.actor.seen == ["begun", "cancelled"] and conserved(system)


async def test_a_turn_that_interrupts_itself_is_not_answered_by_what_it_returns() -> None:
    class Doubtful(rt.Actor):
        @rt.handler
        async def where(self, _: Where) -> str:
            assert self.ctx.interrupter()(rt.Reject("on second thought"))
            return "never mind"

    async with make() as system:
        front = await system.spawn(Front, await system.spawn(Doubtful, name="doubtful"), name="front")
        with pytest.raises(rt.Reject, match="on second thought"):
            await front.ask(Where())
        await system.wait_quiet()
        assert reasons(system) == {"late_reply": 1} and conserved(system)


async def test_a_target_that_its_front_stops_in_the_same_step_is_stopped_and_the_asker_hears_of_it() -> None:
    class Ending(rt.Actor):
        def __init__(self) -> None:
            self.to: Any = None

        async def on_start(self) -> None:
            self.to = await self.ctx.spawn(Worker, name="worker")

        @rt.handler
        def where(self, message: Where) -> Any:
            self.ctx.forward(self.to, message)
            lifecycle.request_stop(self.to._cell, lifecycle.StopReason.STOPPED, None, None)

    async with make() as system:
        ending = await system.spawn(Ending, name="ending")
        for _ in range(2):
            with pytest.raises(rt.ActorStopped):
                await ending.ask(Where())
        await system.wait_quiet()
        assert conserved(system)


async def test_a_front_that_is_lent_by_a_pool_hands_over_too(autojump_clock: MockClock) -> None:
    async with make() as system:
        _, worker = await pair(system)
        pool = await system.spawn_pool(Slowing, worker, pool=rt.Pool.elastic(2), name="pool")
        for _ in range(3):
            assert (await pool.ask(Hurried())).endswith("/user/worker")
        with pytest.raises(rt.AskTimeout):
            await pool.ask(Hurried(10))
        assert trio.current_time() == 2
        await system.wait_quiet()
        assert conserved(system)


async def test_a_worker_that_is_lent_again_and_again_loses_no_mail_of_its_own(autojump_clock: MockClock) -> None:
    class Diligent(rt.Actor):
        done = 0

        @rt.handler
        async def hurried(self, message: Hurried) -> str:
            if message.seconds:
                await trio.sleep(message.seconds)
            self.ctx.ref.tell(Where())
            return self.ctx.path

        @rt.handler
        def where(self, _: Where) -> str:
            Diligent.done += 1
            return ""

    async with make() as system:
        pool = await system.spawn_pool(Diligent, pool=rt.Pool.elastic(3), name="pool")
        seen = set()
        for number in range(6):
            async with trio.open_nursery() as nursery:
                for _ in range(number % 4):
                    nursery.start_soon(pool.ask, Hurried(0.5))
                await wait_all_tasks_blocked()
                seen.add(await pool.ask(Hurried()))
        await system.wait_quiet()
        assert Diligent.done == 6 + sum(number % 4 for number in range(6)) and len(seen) >= 1
        assert conserved(system) and system.statistics().queued == 0
