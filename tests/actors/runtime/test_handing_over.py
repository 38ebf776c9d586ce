"""Contract point 4, what an actor hands over: forward and defer."""

from __future__ import annotations

import math
from typing import Any

import pytest
import trio
from trio.testing import MockClock

import retinue as rt
from core_hosts import conserved, reasons
from core_puppet import Call, Do, Puppet, nothing, state_of
from retinue.actors.runtime import stepping


@pytest.fixture(params=["inline", "by workers", "seeded"])
def system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> rt.ActorSystem:
    if request.param == "by workers":
        monkeypatch.setattr(stepping, "supported", lambda: False)
    return rt.ActorSystem("hands", block_warning=math.inf, seed=4 if request.param == "seeded" else None)


def hand_over(ref: rt.Ref[Any], message: Any) -> Call:
    return Call(lambda actor: actor.ctx.forward(ref, message))


async def sleep_one(_: Any) -> str:
    await trio.sleep(1)
    return "slept"


# -- forward -----------------------------------------------------------------------------------------------------------------------------------------------


async def test_the_target_of_a_forward_answers_the_original_asker(system: rt.ActorSystem) -> None:
    async with system:
        front, back = await system.spawn(Puppet), await system.spawn(Puppet)
        assert await front.ask(hand_over(back, Call(lambda _: "from the back"))) == "from the back"
        assert conserved(system)


async def test_a_forwarding_actor_is_free_at_once(system: rt.ActorSystem, autojump_clock: MockClock) -> None:
    async with system, trio.open_nursery() as nursery:
        front, back = await system.spawn(Puppet), await system.spawn(Puppet)
        nursery.start_soon(front.ask, hand_over(back, Do(sleep_one)))
        await trio.testing.wait_all_tasks_blocked()
        await front.ask(Call(nothing))
        assert trio.current_time() == 0


async def test_a_request_goes_through_many_hands(system: rt.ActorSystem) -> None:
    async with system:
        refs = [await system.spawn(Puppet) for _ in range(50)]
        message: Any = Call(lambda _: "at last")
        for ref in refs:
            message = hand_over(ref, message)
        assert await refs[-1].ask(message) == "at last"
        assert conserved(system)


async def test_the_targets_error_reaches_the_original_asker_and_fails_the_target_alone(system: rt.ActorSystem) -> None:
    def fail(_: Any) -> None:
        raise ValueError("in the back")

    async with system:
        front, back = await system.spawn(Puppet, name="front"), await system.spawn(Puppet, name="back")
        with pytest.raises(ValueError, match="in the back"):
            await front.ask(hand_over(back, Call(fail)))
        assert {actor.path: actor.failures for actor in system.actors()} == {"/user/front": 0, "/user/back": 1}


async def test_the_sender_of_a_forwarded_request_is_the_original_asker(system: rt.ActorSystem) -> None:
    async with system:
        asker, front, back = [await system.spawn(Puppet) for _ in range(3)]

        async def ask_front(_: Any) -> Any:
            return await front.ask(hand_over(back, Call(lambda actor: actor.ctx.sender)))

        assert await asker.ask(Do(ask_front)) == asker
        assert await front.ask(hand_over(back, Call(lambda actor: actor.ctx.sender))) is None


async def test_a_forward_keeps_the_original_deadline(system: rt.ActorSystem, autojump_clock: MockClock) -> None:
    async with system:
        front, back = await system.spawn(Puppet), await system.spawn(Puppet)

        async def forward_later(actor: Any) -> None:
            await trio.sleep(1)
            actor.ctx.forward(back, Do(sleep_one))

        with pytest.raises(rt.AskTimeout, match="/user/"):
            await front.ask(Do(forward_later), timeout=1.5)
        assert trio.current_time() == 1.5
        await system.wait_quiet()
        assert trio.current_time() == 1.5  # the target was cancelled
        assert conserved(system)


async def test_a_cancelled_asker_cancels_the_target_of_the_forward(system: rt.ActorSystem, autojump_clock: MockClock) -> None:
    async with system:
        front, back = await system.spawn(Puppet), await system.spawn(Puppet)
        with trio.move_on_after(0.5):
            await front.ask(hand_over(back, Do(sleep_one)))
        await system.wait_quiet()
        assert trio.current_time() == 0.5
        assert [actor.failures for actor in system.actors()] == [0, 0]
        assert conserved(system)


async def test_a_forward_to_a_stopped_actor_tells_the_asker(system: rt.ActorSystem) -> None:
    async with system:
        front, back = await system.spawn(Puppet), await system.spawn(Puppet, name="back")
        await back.stop()
        with pytest.raises(rt.ActorStopped, match="/user/back"):
            await front.ask(hand_over(back, Call(nothing)))
        assert reasons(system) == {"stopped": 1}
        assert conserved(system)


async def test_a_forward_waits_for_room_and_is_refused_at_the_deadline(system: rt.ActorSystem, autojump_clock: MockClock) -> None:
    async with system:
        front, back = await system.spawn(Puppet), await system.spawn(Puppet, mailbox=rt.Mailbox.bounded(1))
        for timeout, expected in ((0.5, rt.MailboxFull), (1.5, None)):
            back.tell(Do(sleep_one))
            await trio.testing.wait_all_tasks_blocked()
            back.tell(Call(nothing))
            if expected is None:
                assert await front.ask(hand_over(back, Call(lambda _: "in the end")), timeout=timeout) == "in the end"
            else:
                with pytest.raises(expected):
                    await front.ask(hand_over(back, Call(nothing)), timeout=timeout)
            await system.wait_quiet()
        assert conserved(system)


async def test_a_told_message_is_simply_told_on(system: rt.ActorSystem) -> None:
    async with system:
        front, back = await system.spawn(Puppet), await system.spawn(Puppet)
        front.tell(hand_over(back, Call(lambda actor: actor.log.append("arrived"))))
        await system.wait_quiet()
        assert await state_of(back) == ["arrived"]
        assert conserved(system)


async def test_a_wrong_message_is_not_forwarded_and_the_request_is_not_lost(system: rt.ActorSystem) -> None:
    async with system:
        front, back = await system.spawn(Puppet), await system.spawn(Puppet)

        def try_to(actor: Any) -> str:
            with pytest.raises(rt.Unhandled):
                actor.ctx.forward(back, "no message")
            return "answered myself"

        assert await front.ask(Call(try_to)) == "answered myself"


async def test_what_a_handler_returns_or_raises_after_a_forward_does_not_reach_the_asker_twice(
    system: rt.ActorSystem, autojump_clock: MockClock
) -> None:
    async with system:
        front, back = await system.spawn(Puppet), await system.spawn(Puppet)

        def forward_and_return(actor: Any) -> str:
            actor.ctx.forward(back, Do(sleep_one))
            return "not this"

        assert await front.ask(Call(forward_and_return)) == "slept"

        def forward_and_fail(actor: Any) -> None:
            actor.ctx.forward(back, Do(sleep_one))
            raise ValueError("changed my mind")

        with pytest.raises(ValueError, match="changed my mind"):
            await front.ask(Call(forward_and_fail))
        await system.wait_quiet()
        assert reasons(system) in ({"late_reply": 1}, {})
        assert conserved(system)


# -- defer ---------------------------------------------------------------------------------------------------------------------------------------------------


async def test_a_deferred_answer_arrives_when_it_is_given(system: rt.ActorSystem, autojump_clock: MockClock) -> None:
    async with system, trio.open_nursery() as nursery:
        ref = await system.spawn(Puppet)
        answers: list[Any] = []

        async def ask() -> None:
            answers.append(await ref.ask(Call(lambda actor: actor.log.append(actor.ctx.defer()))))

        nursery.start_soon(ask)
        await trio.sleep(1)
        assert answers == []
        (slot,) = await state_of(ref)  # the actor is free meanwhile
        assert slot.reply("at last") is True
        await trio.testing.wait_all_tasks_blocked()
        assert answers == ["at last"]
        assert conserved(system)


async def test_a_deferred_answer_may_be_an_error(system: rt.ActorSystem) -> None:
    def defer_and_fail(actor: Any) -> None:
        assert actor.ctx.defer().fail(KeyError("nothing there")) is True

    async with system:
        ref = await system.spawn(Puppet)
        with pytest.raises(KeyError, match="nothing there"):
            await ref.ask(Call(defer_and_fail))
        assert [actor.failures for actor in system.actors()] == [0]
        assert conserved(system)


async def test_only_an_exception_can_be_the_error(system: rt.ActorSystem) -> None:
    def defer_and_fail(actor: Any) -> None:
        slot = actor.ctx.defer()
        for wrong in ("text", ValueError, None):
            with pytest.raises(rt.DefinitionError, match="exception"):
                slot.fail(wrong)
        slot.reply(1)

    async with system:
        assert await (await system.spawn(Puppet)).ask(Call(defer_and_fail)) == 1


async def test_an_answer_at_once_is_as_good_as_a_late_one(system: rt.ActorSystem) -> None:
    def answer_twice(actor: Any) -> str:
        slot = actor.ctx.defer()
        assert slot.reply("first") is True
        assert slot.reply("second") is False
        return "third"

    async with system:
        ref = await system.spawn(Puppet)
        assert await ref.ask(Call(answer_twice)) == "first"
        assert reasons(system) == {"late_reply": 1}


async def test_many_questions_are_kept_and_answered_in_any_order(system: rt.ActorSystem) -> None:
    async with system, trio.open_nursery() as nursery:
        ref = await system.spawn(Puppet)
        answers: list[int] = []

        async def ask(number: int) -> None:
            answers.append(await ref.ask(Call(lambda actor: actor.log.append((number, actor.ctx.defer())))))

        for number in range(20):
            nursery.start_soon(ask, number)
        await trio.testing.wait_all_tasks_blocked()
        kept = await state_of(ref)
        for number, slot in reversed(kept):
            slot.reply(number)
            await trio.testing.wait_all_tasks_blocked()
        assert answers == [number for number, _ in reversed(kept)]
        assert sorted(answers) == list(range(20))
        assert conserved(system)


async def test_a_slot_is_taken_once(system: rt.ActorSystem) -> None:
    def take_twice(actor: Any) -> None:
        slot = actor.ctx.defer()
        for again in (actor.ctx.defer, actor.ctx.stash, lambda: actor.ctx.forward(actor.ctx.ref, Call(nothing))):
            with pytest.raises(rt.DefinitionError, match=r"deferred|stashed"):
                again()
        slot.reply("fine")

    async with system:
        assert await (await system.spawn(Puppet)).ask(Call(take_twice)) == "fine"
        assert conserved(system)


async def test_nobody_waits_for_the_answer_to_a_told_message(system: rt.ActorSystem) -> None:
    errors: list[str] = []

    def defer(actor: Any) -> None:
        with pytest.raises(rt.DefinitionError) as caught:
            actor.ctx.defer()
        errors.append(str(caught.value))

    async with system:
        (await system.spawn(Puppet)).tell(Call(defer))
        await system.wait_quiet()
        assert "told" in errors[0]


async def test_a_deferred_answer_that_is_passed_on_in_a_message_works(system: rt.ActorSystem, autojump_clock: MockClock) -> None:
    async with system:
        front, back = await system.spawn(Puppet), await system.spawn(Puppet)

        def pass_on(actor: Any) -> None:
            slot = actor.ctx.defer()

            async def answer(_: Any) -> None:
                await trio.sleep(1)
                slot.reply("by another")

            back.tell(Do(answer))

        assert await front.ask(Call(pass_on)) == "by another"


async def test_an_async_handler_may_defer_after_it_waited(system: rt.ActorSystem, autojump_clock: MockClock) -> None:
    async with system:
        ref = await system.spawn(Puppet)

        async def defer_later(actor: Any) -> str:
            await trio.sleep(1)
            slot = actor.ctx.defer()

            async def answer() -> None:
                await trio.sleep(1)
                slot.reply("two seconds")

            actor.ctx.start_soon(answer)
            return "not this"

        assert await ref.ask(Do(defer_later)) == "two seconds"
        assert trio.current_time() == 2
        assert conserved(system)


async def test_an_asker_that_leaves_withdraws_from_a_deferred_answer(system: rt.ActorSystem, autojump_clock: MockClock) -> None:
    async with system:
        ref = await system.spawn(Puppet)
        with trio.move_on_after(1):
            await ref.ask(Call(lambda actor: actor.log.append(actor.ctx.defer())))
        (slot,) = await state_of(ref)
        assert slot.reply("too late") is False
        assert reasons(system) == {"late_reply": 1}
        assert system.statistics().deadlines == 0
        assert conserved(system)
