"""Contract point 2: an ask always resolves, with a value or one typed error."""

from __future__ import annotations

import math
import traceback

import pytest
import trio
import trio.testing
from trio.testing import MockClock

import retinue as rt
from core_actors import Answer, Boom, Break, Declared, Double, Forbidden, Hold, Note, Notes, Plain, Refuse, Unknown
from core_hosts import Host, conserved, reasons
from core_latch import Latch
from steady_ids import steady


@rt.message
class Sensitive(rt.Request[int]):
    pass


class Careful(rt.Actor):
    @rt.handler(requires="core.sensitive", approval=True)
    def sensitive(self, _: Sensitive) -> int:
        raise AssertionError("nobody consented")


async def test_an_ask_returns_what_the_handler_returned(host: Host) -> None:
    async with host.system() as system:
        ref = await system.spawn(host.plain)
        assert await ref.ask(Double(21)) == 42
        assert conserved(system)


async def test_a_plain_message_can_be_asked_too(host: Host) -> None:
    async with host.system() as system:
        ref = await system.spawn(host.plain)
        assert await ref.ask(Note(1)) is None


async def test_the_handlers_own_exception_reaches_the_asker(host: Host) -> None:
    async with host.system() as system:
        ref = await system.spawn(host.plain)
        with pytest.raises(Boom, match=r"^very$") as caught:
            await ref.ask(Break("very"))
        assert "raise Boom(message.text)" in "".join(traceback.format_exception(caught.value))
        assert conserved(system)


async def test_an_unknown_message_raises_when_the_ask_is_awaited(host: Host) -> None:
    async with host.system() as system:
        ref = await system.spawn(host.plain, name="picky")
        call = ref.ask(Unknown())  # nothing yet
        with pytest.raises(rt.Unhandled, match="/user/picky"):
            await call
        for wrong in (Note, 5, None, "text", object()):
            with pytest.raises(TypeError, match="/user/picky"):
                await ref.ask(wrong)  # type: ignore[call-overload]
        assert system.statistics().sent == 0


async def test_asking_a_stopped_actor_fails_at_once(host: Host) -> None:
    async with host.system() as system:
        ref = await system.spawn(host.plain, name="gone")
        await ref.stop()
        with pytest.raises(rt.ActorStopped, match=r"/user/gone .*Double"):
            await ref.ask(Double(1), timeout=math.inf)
        assert reasons(system) == {"stopped": 1}
        assert conserved(system)


async def test_the_error_of_an_actor_that_failed_for_good_is_chained(host: Host) -> None:
    async with host.system() as system:
        ref = await system.spawn(host.plain, supervision=rt.Supervision(restart="temporary"))
        with pytest.raises(Boom) as caught:
            await ref.ask(Break("the reason"))
        with pytest.raises(rt.ActorStopped, match="Boom: the reason") as later:
            await ref.ask(Double(1))
        assert later.value.__cause__ is caught.value


async def test_an_actor_that_stops_with_questions_waiting_answers_them_with_actor_stopped(host: Host) -> None:
    async with host.system() as system:
        latch = Latch()
        ref = await system.spawn(host.holder, None, latch)
        ref.tell(Hold(0))
        await latch.until(entered=1)
        errors: list[Exception] = []

        async def asker() -> None:
            with pytest.raises(rt.ActorStopped) as caught:
                await ref.ask(Double(1))
            errors.append(caught.value)

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(asker)
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(ref.stop)
            await trio.testing.wait_all_tasks_blocked()
            latch.open()
        assert len(errors) == 3
        assert reasons(system) == {"stopped": 3}
        assert conserved(system)


async def test_a_declared_exception_is_an_answer(host: Host) -> None:
    async with host.system() as system:
        ref = await system.spawn(host.plain)
        ref.tell(Note(1))
        with pytest.raises(Answer, match="as declared"):
            await ref.ask(Declared())
        assert await ref.ask(Notes()) == [1]  # the same incarnation


async def test_a_reject_is_an_answer_with_its_reason(host: Host) -> None:
    async with host.system() as system:
        ref = await system.spawn(host.plain)
        ref.tell(Note(1))
        with pytest.raises(rt.Reject) as caught:
            await ref.ask(Refuse("closed on sundays"))
        assert caught.value.reason == "closed on sundays"
        assert await ref.ask(Notes()) == [1]


async def test_a_refused_operation_is_denied_and_the_actor_keeps_its_state(host: Host) -> None:
    async with host.system() as system:
        ref = await system.spawn(host.plain, grant=["core.other"], name="limited")
        ref.tell(Note(1))
        with pytest.raises(rt.Denied, match=r"core\.forbidden") as caught:
            await ref.ask(Forbidden())
        assert (caught.value.operation, caught.value.path) == ("core.forbidden", "/user/limited")
        assert await ref.ask(Notes()) == [1]
        assert reasons(system) == {}  # it was taken up and answered
        assert conserved(system)


async def test_a_refused_tell_is_a_dead_letter(host: Host) -> None:
    async with host.system() as system:
        ref = await system.spawn(host.plain, grant=[])
        assert ref.tell(Forbidden()).accepted  # the gate stands before the handler, not before the mailbox
        assert await ref.ask(Double(1)) == 2
        assert reasons(system) == {"denied": 1}
        assert conserved(system)


async def test_a_message_that_needs_a_persons_consent_is_refused_without_it(loop_host: Host) -> None:
    async with loop_host.system() as system:
        ref = await system.spawn(Careful)
        with pytest.raises(rt.ApprovalRequired, match="Sensitive"):
            await ref.ask(Sensitive())
        assert system.actors()[0].failures == 0


async def test_an_ask_without_time_to_wait_is_answered_by_an_actor_that_is_free(host: Host) -> None:
    async with host.system() as system:
        ref = await system.spawn(host.plain)
        try:
            answer = await ref.ask(Double(4), timeout=0)
        except rt.AskTimeout:
            assert host.name != "loop"  # where the asker runs the handler itself, no time passes; else it was taken in, and it is a race
        else:
            assert answer == 8
        await system.wait_quiet()
        assert system.statistics().sent == 1
        assert conserved(system)


async def test_an_ask_without_time_to_wait_is_withdrawn_from_a_busy_actor(host: Host) -> None:
    async with host.system() as system:
        latch = Latch()
        ref = await system.spawn(host.holder, None, latch)
        ref.tell(Hold(0))
        await latch.until(entered=1)
        with pytest.raises(rt.AskTimeout, match="was withdrawn"):
            await ref.ask(Note(4), timeout=0)
        latch.open()
        assert await ref.ask(Notes()) == [0]
        assert reasons(system) == {"expired": 1}
        assert conserved(system)


@pytest.mark.parametrize("timeout", [-1, -0.001, -math.inf, math.nan, "5", True, object()], ids=steady)
async def test_a_time_out_that_is_no_number_of_seconds_is_refused_at_once(loop_host: Host, timeout: object) -> None:
    async with loop_host.system() as system:
        ref = await system.spawn(loop_host.plain)
        with pytest.raises(rt.DefinitionError, match=r"timeout=.*give seconds, 0 or more, or math\.inf"):
            await ref.ask(Double(1), timeout=timeout)  # type: ignore[arg-type]
        with pytest.raises(rt.DefinitionError, match=r"timeout="):
            await ref.send(Note(1), timeout=timeout)  # type: ignore[arg-type]
        with pytest.raises(rt.DefinitionError, match=r"timeout="):
            ref.stream(Note(1), timeout=timeout)  # type: ignore[arg-type]
        with pytest.raises(rt.DefinitionError, match=r"timeout="):
            await ref.stop(grace=timeout)  # type: ignore[arg-type]
        assert ref.alive
        assert system.statistics().sent == 0


async def test_every_one_of_many_askers_gets_its_own_answer(host: Host) -> None:
    async with host.system() as system:
        ref = await system.spawn(host.plain)
        answers: dict[int, int] = {}

        async def asker(number: int) -> None:
            answers[number] = await ref.ask(Double(number))

        async with trio.open_nursery() as nursery:
            for number in range(200):
                nursery.start_soon(asker, number)
        assert answers == {number: 2 * number for number in range(200)}
        assert conserved(system)


async def test_no_deadline_and_no_slot_is_left_of_an_ask_that_was_answered(host: Host) -> None:
    async with host.system() as system:
        latch = Latch()
        ref = await system.spawn(host.holder, None, latch)
        async with trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(ref.ask, Hold(number))
            await latch.until(entered=1)
            await trio.testing.wait_all_tasks_blocked()
            assert system.statistics().deadlines == 20
            latch.open()
        assert system.statistics().deadlines == 0


class Relay(rt.Actor):
    """Asks the next one, down a chain."""

    def __init__(self, following: rt.Ref[Relay] | None) -> None:
        self.following = following

    @rt.handler
    async def double(self, message: Double) -> int:
        return 2 * message.number if self.following is None else await self.following.ask(message)

    @rt.handler
    async def fail(self, message: Break) -> int:
        if self.following is None:
            raise Boom(message.text)
        return await self.following.ask(message)


async def test_a_chain_of_asks_may_be_longer_than_handlers_run_inside_each_other(loop_host: Host) -> None:
    async with loop_host.system() as system:
        ref: rt.Ref[Relay] | None = None
        for _ in range(100):
            ref = await system.spawn(Relay, ref)
        assert ref is not None
        assert await ref.ask(Double(3)) == 6
        with pytest.raises(Boom, match="at the end"):
            await ref.ask(Break("at the end"))
        assert conserved(system)


async def test_a_plain_handler_can_be_asked_by_an_actor_on_any_host(host: Host) -> None:
    async with host.system() as system:
        last = await system.spawn(host.plain)
        relay = await system.spawn(Relay, last)
        assert await relay.ask(Double(3)) == 6
        with pytest.raises(Boom):
            await relay.ask(Break())


async def test_an_answer_may_be_any_python_object_inside_one_process() -> None:
    async with rt.ActorSystem() as system:
        thing = object()

        @rt.message
        class Fetch(rt.Request[object]):
            pass

        class Shelf(rt.Actor):
            @rt.handler
            def fetch(self, _: Fetch) -> object:
                return thing

        assert await (await system.spawn(Shelf)).ask(Fetch()) is thing


async def test_an_exception_group_from_a_handler_reaches_the_asker_whole(loop_host: Host) -> None:
    class Split(Plain):
        @rt.handler
        async def fail(self, _: Break) -> int:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.raise_one)
                nursery.start_soon(self.raise_one)
            return 0

        async def raise_one(self) -> None:
            raise Boom

    async with loop_host.system() as system:
        ref = await system.spawn(Split)
        with pytest.raises(ExceptionGroup) as caught:
            await ref.ask(Break())
        assert [type(leaf) for leaf in caught.value.exceptions] == [Boom, Boom]
        assert await ref.ask(Notes()) == []


async def test_a_handler_that_raises_stop_iteration_does_not_break_the_runtime(loop_host: Host, autojump_clock: MockClock) -> None:
    class Odd(Plain):
        @rt.handler
        def fail(self, _: Break) -> int:
            raise StopIteration(5)

    async with loop_host.system() as system:
        ref = await system.spawn(Odd)
        with pytest.raises((RuntimeError, StopIteration)):
            await ref.ask(Break())
        ref.tell(Break())
        assert await ref.ask(Double(1), timeout=math.inf) == 2
        assert conserved(system)
