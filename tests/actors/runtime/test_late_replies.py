"""Contract point 2: reply slots are used once and belong to one incarnation; an answer that nobody waits for is a dead letter."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

import retinue as rt
from core_actors import Boom, Break, Double, Hold, HoldShielded, Leave
from core_hosts import Host, conserved, reasons
from core_latch import Latch


class Keeper(rt.Actor):
    """Keeps each question, to be answered by the test."""

    def __init__(self, kept: list[Any]) -> None:
        self.kept = kept

    @rt.handler
    def double(self, _: Double) -> int:
        self.kept.append(self.ctx.defer())
        return 0

    @rt.handler
    def fail(self, message: Break) -> int:
        raise Boom(message.text)

    @rt.handler
    def leave(self, _: Leave) -> None:
        self.ctx.stop()


async def ask_and_keep(ref: rt.Ref[Keeper], outcomes: list[Any], timeout: float | None = None) -> None:
    try:
        outcomes.append(await ref.ask(Double(1), timeout=timeout))
    except rt.RetinueError as error:
        outcomes.append(error)


async def test_a_late_reply_is_a_dead_letter(loop_host: Host, autojump_clock: MockClock) -> None:
    async with loop_host.system() as system:
        kept: list[Any] = []
        ref = await system.spawn(Keeper, kept, name="keeper")
        with pytest.raises(rt.AskTimeout):
            await ref.ask(Double(1), timeout=1)
        assert kept[0].reply(42) is False
        letter = system.dead_letters.recent[-1]
        assert (letter.reason, letter.message, letter.target) == ("late_reply", 42, "/user/keeper")
        assert conserved(system)  # a late reply is no message


async def test_a_reply_slot_is_used_once(loop_host: Host) -> None:
    async with loop_host.system() as system:
        kept: list[Any] = []
        outcomes: list[Any] = []
        ref = await system.spawn(Keeper, kept)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask_and_keep, ref, outcomes)
            await trio.testing.wait_all_tasks_blocked()
            assert kept[0].reply(1) is True
            assert kept[0].reply(2) is False
            assert kept[0].fail(Boom("too late")) is False
        assert outcomes == [1]
        assert reasons(system) == {"late_reply": 2}


async def test_an_answer_that_comes_after_the_asker_was_cancelled_is_a_dead_letter(loop_host: Host) -> None:
    async with loop_host.system() as system:
        kept: list[Any] = []
        ref = await system.spawn(Keeper, kept)
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ref.ask, Double(1))
                await trio.testing.wait_all_tasks_blocked()
                scope.cancel()
        assert kept[0].reply(1) is False
        assert reasons(system) == {"late_reply": 1}
        assert conserved(system)


async def test_a_restart_fails_the_questions_that_the_old_incarnation_kept(loop_host: Host) -> None:
    async with loop_host.system() as system:
        kept: list[Any] = []
        outcomes: list[Any] = []
        ref = await system.spawn(Keeper, kept, name="keeper")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask_and_keep, ref, outcomes)
            await trio.testing.wait_all_tasks_blocked()
            ref.tell(Break())
        assert isinstance(outcomes[0], rt.ActorStopped)
        assert "restarted before it answered" in str(outcomes[0])
        assert kept[0].reply(1) is False  # bound to the incarnation that took it
        assert ref.alive
        assert conserved(system)


async def test_a_stop_fails_the_questions_that_were_kept(loop_host: Host) -> None:
    async with loop_host.system() as system:
        kept: list[Any] = []
        outcomes: list[Any] = []
        ref = await system.spawn(Keeper, kept)
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(ask_and_keep, ref, outcomes)
            await trio.testing.wait_all_tasks_blocked()
            ref.tell(Leave())
        assert [type(outcome) for outcome in outcomes] == [rt.ActorStopped] * 3
        assert conserved(system)


async def test_the_end_of_the_system_resolves_the_questions_that_were_kept(loop_host: Host) -> None:
    kept: list[Any] = []
    outcomes: list[Any] = []
    async with trio.open_nursery() as nursery:
        async with loop_host.system() as system:
            ref = await system.spawn(Keeper, kept)
            nursery.start_soon(ask_and_keep, ref, outcomes)
            await trio.testing.wait_all_tasks_blocked()
    assert [type(outcome) for outcome in outcomes] == [rt.ActorStopped]
    assert conserved(system)


async def test_a_late_answer_of_a_shielded_handler_keeps_the_actors_state(loop_host: Host, autojump_clock: MockClock) -> None:
    async with loop_host.system() as system:
        latch = Latch()
        ref = await system.spawn(loop_host.holder, None, latch)
        with pytest.raises(rt.AskTimeout):
            await ref.ask(HoldShielded(5), timeout=1)
        latch.open()
        await system.wait_quiet()
        assert reasons(system) == {"late_reply": 1}
        assert system.dead_letters.recent[-1].message == 5
        actor = system.actors()[0]
        assert (actor.failures, actor.handled) == (0, 1)


async def test_a_late_error_is_supervised_like_any_other(loop_host: Host, autojump_clock: MockClock) -> None:
    class Late(rt.Actor):
        @rt.handler(shield=True)
        async def hold(self, _: Hold) -> int:
            await trio.sleep(10)
            raise Boom("nobody hears it")

    async with loop_host.system() as system:
        ref = await system.spawn(Late)
        with pytest.raises(rt.AskTimeout):
            await ref.ask(Hold(), timeout=1)
        await system.wait_quiet(timeout=60)
        assert system.actors()[0].failures == 1
        assert conserved(system)
