"""The end of an adopted pykka actor, and of its stand-in: whichever comes first, every asker and watcher is told."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from typing import Any

import pykka
import pytest
import trio
from trio.testing import MockClock

import retinue as rt
from core_authority import error_of
from core_hosts import conserved, reasons
from pykka_program import MESSAGES, Balance, Deposit, Do, Till, waits_for
from quiet_threads import PATIENCE, open_after, until
from retinue.actors.hosts import adopted


@pytest.fixture(autouse=True)
def _the_program_ends() -> Iterator[None]:
    yield
    pykka.ActorRegistry.stop_all(timeout=PATIENCE)


def raises(error: BaseException) -> Do:
    def fail(_: Any) -> None:
        raise error

    return Do(fail)


async def test_its_end_is_the_end_of_its_stand_in() -> None:
    actor = Till.start()
    async with rt.ActorSystem() as system:
        till = await system.adopt(actor, messages=MESSAGES, name="till")
        watch = await system.watch(till)
        actor.stop()
        with trio.fail_after(PATIENCE):
            terminated = await watch.wait()
        assert (terminated.ref, terminated.reason) == (till, rt.StopReason.STOPPED)
        stopped = await error_of(till.ask(Balance()))
        assert isinstance(stopped, rt.ActorStopped) and stopped.begun is False
        assert till.tell(Deposit(1)).reason == "stopped"
        assert conserved(system)
        again = await system.adopt(Till.start(), messages=MESSAGES, name="till")  # the name is free
        assert await again.ask(Balance()) == 0


async def test_actors_that_watch_it_are_told() -> None:
    class Guard(rt.Actor):
        def __init__(self, till: rt.Ref[Any], seen: list[Any]) -> None:
            self.till, self.seen = till, seen

        def on_start(self) -> None:
            self.ctx.watch(self.till)

        @rt.handler
        def ended(self, message: rt.Terminated) -> None:
            self.seen.append(message.ref.path)

    actor, seen = Till.start(), list[Any]()
    async with rt.ActorSystem() as system:
        till = await system.adopt(actor, messages=MESSAGES, name="till")
        await system.spawn(Guard, till, seen)
        actor.stop()
        await until(lambda: seen)
        assert seen == ["/user/till"]


async def test_a_dead_one_is_not_adopted() -> None:
    actor = Till.start()
    actor.stop()
    async with rt.ActorSystem() as system:
        error = await error_of(system.adopt(actor, messages=MESSAGES))
        assert isinstance(error, rt.ActorStopped) and error.begun is False
        assert "ended already" in str(error)
        assert system.actors() == []


async def test_one_that_ends_while_it_is_adopted_is_not_adopted_either(monkeypatch: pytest.MonkeyPatch) -> None:
    actor = Till.start()
    async with rt.ActorSystem() as system:
        whole = system._kernel.spawn  # it is alive when the call is checked

        async def late(*arguments: Any) -> Any:
            actor.stop()
            return await whole(*arguments)

        monkeypatch.setattr(system._kernel, "spawn", late)
        error = await error_of(system.adopt(actor, messages=MESSAGES))
        assert isinstance(error, rt.ActorStopped) and error.begun is False
        assert system.actors() == []


async def test_a_system_exit_in_one_ends_all_pykka_actors_and_the_system_lives() -> None:
    class Echo(rt.Actor):
        @rt.handler
        def echo(self, message: Deposit) -> int:
            return message.cents

    async with rt.ActorSystem() as system:
        tills = [await system.adopt(Till.start(), messages=MESSAGES) for _ in range(3)]
        watches = [await system.watch(till) for till in tills]
        echo = await system.spawn(Echo)
        error = await error_of(tills[0].ask(raises(SystemExit(3))))
        assert isinstance(error, rt.ActorStopped) and error.begun is None  # pykka answers nobody then
        with trio.fail_after(PATIENCE):
            assert [(await watch.wait()).reason for watch in watches] == ["stopped"] * 3
        assert await echo.ask(Deposit(1)) == 1
        assert [actor.path for actor in system.actors()] == [echo.path]
        assert conserved(system)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), GeneratorExit(), BaseException("odd")], ids=lambda error: type(error).__name__)
async def test_no_other_odd_exit_reaches_the_loop_either(error: BaseException) -> None:
    async with rt.ActorSystem() as system:
        till = await system.adopt(Till.start(), messages=MESSAGES)
        assert isinstance(await error_of(till.ask(raises(error))), rt.ActorStopped)
        assert conserved(system)


async def test_a_stop_of_its_own_lets_the_answer_through_and_refuses_what_waits() -> None:
    gate = open_after(PATIENCE)

    def leave(till: Till) -> str:
        till.stop()
        gate.wait(PATIENCE)
        return "bye"

    async with rt.ActorSystem() as system:
        till = await system.adopt(Till.start(), messages=MESSAGES)
        answers: list[Any] = []

        async def ask(message: Any) -> None:
            try:
                answers.append(await till.ask(message))
            except rt.ActorStopped as stopped:
                answers.append(stopped.begun)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, Do(leave))
            await until(lambda: adopted.working(system._kernel))
            for _ in range(3):
                nursery.start_soon(ask, Balance())
            await until(lambda: till._cell.waiting() == 3)
            gate.set()
        assert answers.count(False) == 3 and "bye" in answers  # whether by pykka, which had one in its inbox, or by the stand-in
        assert conserved(system)


async def test_one_that_is_stopped_from_elsewhere_in_the_middle_of_a_request_answers_it_first() -> None:
    gate = open_after(PATIENCE)
    actor = Till.start()
    async with rt.ActorSystem() as system:
        till = await system.adopt(actor, messages=MESSAGES)
        async with trio.open_nursery() as nursery:
            answers: list[Any] = []

            async def ask() -> None:
                answers.append(await till.ask(waits_for(gate)))

            nursery.start_soon(ask)
            await until(lambda: adopted.working(system._kernel))
            actor.stop(block=False)
            gate.set()
        assert answers == [True]
        with trio.fail_after(PATIENCE):
            await (await system.watch(till)).wait()


async def test_what_is_put_into_the_inbox_of_an_actor_that_has_left_it_is_answered_all_the_same() -> None:
    actor = Till.start()
    actor.stop()
    actor.actor_stopped = (
        threading.Event()
    )  # pykka's own hole, as wide as we like: it still looks alive, and nobody reads its inbox any more
    async with rt.ActorSystem() as system:
        till = await system.adopt(actor, messages=MESSAGES)
        error: list[Any] = []

        async def ask() -> None:
            error.append(await error_of(till.ask(Balance())))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await until(lambda: adopted.working(system._kernel))
            actor.actor_stopped.set()
        assert isinstance(error[0], rt.ActorStopped) and error[0].begun in (None, False)
        assert conserved(system)


async def test_a_failure_in_pykkas_own_hooks_is_an_end_like_any() -> None:
    class Fragile(Till):
        def on_start(self) -> None:
            raise OSError("no disk")

    actor = Fragile.start()
    async with rt.ActorSystem() as system:
        await until(lambda: not actor.is_alive())
        assert isinstance(await error_of(system.adopt(actor, messages=MESSAGES)), rt.ActorStopped)


async def test_the_end_of_the_stand_in_leaves_the_pykka_actor_alone() -> None:
    actor = Till.start()
    async with rt.ActorSystem() as system:
        till = await system.adopt(actor, messages=MESSAGES)
        await till.ask(Deposit(4))
        await till.stop()
        assert actor.is_alive()
        assert actor.ask(Balance()) == 4
        again = await system.adopt(actor, messages=MESSAGES)
        assert await again.ask(Balance()) == 4
    assert actor.ask(Balance()) == 4


async def test_with_stop_the_pykka_actor_ends_with_it() -> None:
    actor = Till.start()
    async with rt.ActorSystem() as system:
        till = await system.adopt(actor, messages=MESSAGES, stop=True)
        await till.stop()
        assert not actor.is_alive()
    other = Till.start()
    async with rt.ActorSystem() as system:
        await system.adopt(other, messages=MESSAGES, stop=True)
    assert not other.is_alive()


async def test_one_that_does_not_end_is_not_waited_for_long(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(adopted, "STOP_TIMEOUT", 0.05)
    gate = open_after(PATIENCE)
    actor = Till.start()
    async with rt.ActorSystem() as system:
        till = await system.adopt(actor, messages=MESSAGES, stop=True)
        assert isinstance(await error_of(till.ask(waits_for(gate), timeout=0.02)), rt.AskTimeout)
        await till.stop(grace=0.0)
    assert actor.is_alive()
    assert [record.message for record in caplog.records if record.name == "retinue.hosts"] == [
        f"{till.path}: its pykka actor {actor} has not ended within 0.05 s"
    ]
    gate.set()


async def test_an_answer_that_outlives_its_stand_in_is_a_late_reply() -> None:
    gate = open_after(PATIENCE)
    actor = Till.start()
    async with rt.ActorSystem(grace=0.02) as system:
        till = await system.adopt(actor, messages=MESSAGES)
        error: list[Any] = []

        async def ask() -> None:
            error.append(await error_of(till.ask(waits_for(gate))))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await until(lambda: adopted.working(system._kernel))
            await till.stop(grace=0.0)
        assert isinstance(error[0], rt.ActorStopped) and error[0].begun
        gate.set()
        await until(lambda: reasons(system).get("late_reply"))
        assert conserved(system)


async def test_what_fails_after_nobody_waits_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    gate = open_after(PATIENCE)

    def late(_: Any) -> None:
        gate.wait(PATIENCE)
        raise LookupError("late")

    async with rt.ActorSystem() as system:
        till = await system.adopt(Till.start(), messages=MESSAGES)
        till.tell(Do(late))
        await until(lambda: adopted.working(system._kernel))
        await till.stop(grace=0.0)
        gate.set()
        await until(lambda: any("given up has failed" in record.message for record in caplog.records))
        assert reasons(system) == {"cancelled": 1}


async def test_the_stand_in_may_be_restarted_and_goes_on_with_the_same_actor() -> None:
    async with rt.ActorSystem() as system:
        till = await system.adopt(Till.start(), messages=MESSAGES, supervision=rt.Supervision())
        await till.ask(Deposit(6))
        with pytest.raises(ValueError):
            await till.ask(raises(ValueError()))
        assert await till.ask(Balance()) == 6
        (counts,) = system.actors()
        assert counts.restarts == 1


async def test_supervision_may_end_the_stand_in() -> None:
    actor = Till.start()
    async with rt.ActorSystem() as system:
        till = await system.adopt(actor, messages=MESSAGES, supervision=rt.Supervision(on={ValueError: "stop"}))
        watch = await system.watch(till)
        with pytest.raises(ValueError):
            await till.ask(raises(ValueError()))
        assert (await watch.wait()).reason == rt.StopReason.FAILED
        assert actor.ask(Balance()) == 0


async def test_the_thread_that_looks_lives_only_while_there_is_something_to_look_at() -> None:
    def lookers() -> list[str]:
        return [thread.name for thread in threading.enumerate() if thread.name.endswith(" pykka")]

    async with rt.ActorSystem("shop") as system:
        first, second = [await system.adopt(Till.start(), messages=MESSAGES) for _ in range(2)]
        assert lookers() == ["retinue shop pykka"]
        await first.stop()
        assert lookers() == ["retinue shop pykka"]
        await second.stop()
        assert lookers() == []
        await system.adopt(Till.start(), messages=MESSAGES)
        assert lookers() == ["retinue shop pykka"]
    assert lookers() == []


async def test_a_system_that_is_abandoned_leaves_no_thread() -> None:
    with pytest.raises(SystemExit):
        async with rt.ActorSystem(grace=0.0) as system:
            await system.adopt(Till.start(), messages=MESSAGES)
            raise SystemExit(4)


async def test_where_no_thread_can_be_had_nothing_is_adopted(monkeypatch: pytest.MonkeyPatch) -> None:
    async with rt.ActorSystem() as system:
        actor = Till.start()

        def fail(self: threading.Thread) -> None:
            raise RuntimeError("can't start new thread")

        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", fail)
            with pytest.raises(RuntimeError, match="new thread"):
                await system.adopt(actor, messages=MESSAGES)
        assert system.actors() == []
        assert await (await system.adopt(actor, messages=MESSAGES)).ask(Balance()) == 0


def test_the_time_of_a_loop_that_jumps_does_not_matter_to_the_look() -> None:
    async def main() -> float:
        actor = Till.start()
        async with rt.ActorSystem() as system:
            till = await system.adopt(actor, messages=MESSAGES)
            before = trio.current_time()
            await trio.sleep(3600)
            assert actor.is_alive()
            actor.stop()
            watch = await system.watch(till)
            await watch.wait()
            return trio.current_time() - before

    assert trio.run(main, clock=MockClock(autojump_threshold=0)) == 3600


async def test_nothing_of_the_pykka_actor_is_held_after_its_end() -> None:
    async with rt.ActorSystem() as system:
        actor = Till.start()
        held = sys.getrefcount(actor)
        till = await system.adopt(actor, messages=MESSAGES)
        await till.ask(Deposit(1))
        await till.stop()
        await trio.testing.wait_all_tasks_blocked()
        assert sys.getrefcount(actor) <= held + 1
