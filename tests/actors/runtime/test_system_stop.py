"""Contract point 11: the stop of a system."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from typing import Any

import pytest
import trio
import trio.lowlevel
from trio.testing import MockClock

import retinue as rt
from core_actors import Note
from core_hosts import conserved, reasons
from core_puppet import Call, Do, DoShielded, Pour, Puppet, nothing
from retinue.actors.runtime import outcomes


def make(**options: Any) -> rt.ActorSystem:
    return rt.ActorSystem("stops", block_warning=math.inf, **options)


class Witness(rt.Actor):
    """Writes into a list that outlives it, and can take its time to stop."""

    def __init__(self, log: list[str], *, children: int = 0, stopping: float = 0) -> None:
        self.log = log
        self.wanted = children
        self.stopping = stopping

    async def on_start(self) -> None:
        for number in range(self.wanted):
            await self.ctx.spawn(Witness, self.log, name=f"c{number}")

    @rt.handler
    async def note(self, message: Note) -> None:
        await trio.sleep(1)
        self.log.append(f"{self.ctx.path} {message.number}")

    async def on_stop(self, reason: str) -> None:
        await trio.sleep(self.stopping)
        self.log.append(f"{self.ctx.path} {reason}")


async def test_mail_that_waits_is_handled_within_the_grace(autojump_clock: MockClock) -> None:
    log: list[str] = []
    async with make() as system:
        ref = await system.spawn(Witness, log, name="w")
        for number in range(3):
            ref.tell(Note(number))
    assert log == ["/user/w 0", "/user/w 1", "/user/w 2", "/user/w system_closed"]
    assert trio.current_time() == 3
    assert conserved(system)


async def test_what_is_left_after_the_grace_is_cancelled_and_becomes_dead_letters(autojump_clock: MockClock) -> None:
    log: list[str] = []
    async with make(grace=2.5) as system:
        ref = await system.spawn(Witness, log, name="w")
        for number in range(5):
            ref.tell(Note(number))
    assert log == ["/user/w 0", "/user/w 1", "/user/w system_closed"]
    assert trio.current_time() == 2.5
    assert reasons(system) == {"cancelled": 1, "system_closed": 2}
    assert conserved(system)


async def test_the_grace_is_five_seconds_unless_somebody_says_otherwise(autojump_clock: MockClock) -> None:
    async with make() as system:
        ref = await system.spawn(Puppet)

        async def for_ever(_: Any) -> None:
            await trio.sleep_forever()

        ref.tell(Do(for_ever))
    assert trio.current_time() == 5


async def test_stop_takes_another_grace(autojump_clock: MockClock) -> None:
    async with make() as system:
        ref = await system.spawn(Puppet)

        async def for_ever(_: Any) -> None:
            await trio.sleep_forever()

        ref.tell(Do(for_ever))
        await system.stop(grace=0.5)
        assert trio.current_time() == 0.5
        assert not ref.alive
    assert trio.current_time() == 0.5


async def test_a_grace_that_is_no_number_of_seconds_is_refused() -> None:
    async with make() as system:
        for grace in (-1, math.nan, "5", True):
            with pytest.raises(rt.DefinitionError, match="grace|timeout"):
                await system.stop(grace=grace)  # type: ignore[arg-type]
        assert (await system.spawn(Puppet)).alive


async def test_a_shielded_handler_is_cancelled_after_the_grace_too(autojump_clock: MockClock) -> None:
    async with make(grace=2) as system:
        ref = await system.spawn(Puppet)

        async def for_ever(_: Any) -> None:
            await trio.sleep_forever()

        ref.tell(DoShielded(for_ever))
    assert trio.current_time() == 2
    assert reasons(system) == {"cancelled": 1}


async def test_children_stop_before_their_parents_and_the_last_started_first(autojump_clock: MockClock) -> None:
    log: list[str] = []
    async with make() as system:
        await system.spawn(Witness, log, children=2, name="first")
        await system.spawn(Witness, log, children=1, name="second")
    stops = [line.split()[0] for line in log]
    assert stops == ["/user/second/c0", "/user/second", "/user/first/c1", "/user/first/c0", "/user/first"]


async def test_every_open_ask_is_resolved(autojump_clock: MockClock) -> None:
    outcomes: dict[str, str] = {}

    async def keep(name: str, asking: Any) -> None:
        try:
            await asking
        except rt.RetinueError as error:
            outcomes[name] = type(error).__name__
        else:
            outcomes[name] = "answered"

    async def for_ever(_: Any) -> None:
        await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        async with make(grace=1) as system:
            busy = await system.spawn(Puppet, name="busy", mailbox=rt.Mailbox.bounded(1))
            deferring = await system.spawn(Puppet, name="deferring")
            nursery.start_soon(keep, "running", busy.ask(Do(for_ever), timeout=math.inf))
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(keep, "queued", busy.ask(Do(for_ever), timeout=math.inf))
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(keep, "waiting for room", busy.ask(Do(for_ever), timeout=math.inf))
            nursery.start_soon(keep, "deferred", deferring.ask(Call(lambda actor: actor.ctx.defer() and None), timeout=math.inf))
            nursery.start_soon(keep, "sending", busy.send(Call(nothing), timeout=math.inf))
            await trio.testing.wait_all_tasks_blocked()
    assert trio.current_time() == 1
    assert outcomes == {
        "running": "ActorStopped",
        "queued": "ActorStopped",
        "waiting for room": "ActorStopped",
        "deferred": "ActorStopped",
        "sending": "answered",  # with a receipt that says no
    }
    assert conserved(system)


async def test_an_open_stream_gets_its_terminal_event(autojump_clock: MockClock) -> None:
    seen: list[Any] = []

    async def one_then_nothing(_: Any) -> AsyncIterator[int]:
        yield 1
        await trio.sleep_forever()

    async def read(ref: rt.Ref[Puppet]) -> None:
        try:
            async with ref.stream(Pour(one_then_nothing), timeout=math.inf) as items:
                async for item in items:
                    seen.append(item)
        except rt.RetinueError as error:
            seen.append(type(error).__name__)

    async with trio.open_nursery() as nursery:
        async with make(grace=1) as system:
            nursery.start_soon(read, await system.spawn(Puppet))
            await trio.testing.wait_all_tasks_blocked()
    assert seen == [1, "ActorStopped"]
    assert conserved(system)


async def test_the_intake_is_closed_while_the_actors_drain(autojump_clock: MockClock) -> None:
    found: dict[str, Any] = {}

    async def knock(system: rt.ActorSystem, ref: rt.Ref[Puppet]) -> None:
        await trio.sleep(1)
        receipt = ref.tell(Call(nothing))
        found["tell"] = (receipt.accepted, receipt.reason)
        for name, asking in {
            "ask": lambda: ref.ask(Call(nothing)),
            "spawn": lambda: system.spawn(Puppet),
            "stream": lambda: ref.stream(Pour(nothing)).__aenter__(),
        }.items():
            try:
                found[name] = await asking()
            except rt.RetinueError as error:
                found[name] = type(error).__name__
        receipt = await ref.send(Call(nothing))
        found["send"] = (receipt.accepted, receipt.reason)

    async def slow(_: Any) -> None:
        await trio.sleep(3)

    async with trio.open_nursery() as nursery:
        async with make() as system:
            ref, other = await system.spawn(Puppet), await system.spawn(Puppet)
            nursery.start_soon(knock, system, other)
            ref.tell(Do(slow))
    assert found == {
        "tell": (False, "system_closed"),
        "ask": "SystemClosed",
        "spawn": "SystemClosed",
        "stream": "SystemClosed",
        "send": (False, "system_closed"),
    }
    assert conserved(system)


async def test_actors_may_still_talk_to_each_other_while_they_drain(autojump_clock: MockClock) -> None:
    answers: list[Any] = []
    async with make() as system:
        a, b = await system.spawn(Puppet), await system.spawn(Puppet)

        async def ask_later(_: Any) -> None:
            await trio.sleep(1)
            answers.append(await b.ask(Call(lambda _: "drained")))

        a.tell(Do(ask_later))
    assert answers == ["drained"]


async def test_after_the_end_the_ref_of_an_actor_says_that_the_system_is_closed() -> None:
    async with make() as system:
        ref = await system.spawn(Puppet)
    receipt = ref.tell(Call(nothing))
    assert (receipt.accepted, receipt.reason) == (False, "system_closed")
    with pytest.raises(rt.SystemClosed):
        await ref.ask(Call(nothing))
    with pytest.raises(rt.SystemClosed):
        await system.spawn(Puppet)
    assert conserved(system)
    await system.stop()  # does nothing, and raises nothing


async def test_an_error_in_the_block_leaves_it_unwrapped_and_unchanged() -> None:
    log: list[str] = []
    cause = KeyError("the cause")
    with pytest.raises(ValueError, match="mine") as caught:
        async with make() as system:
            await system.spawn(Witness, log, name="w")
            raise ValueError("mine") from cause
    assert caught.value.__cause__ is cause
    assert log == ["/user/w system_closed"]


async def test_a_group_of_errors_that_is_the_blocks_own_stays_a_group() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        async with make():
            raise ExceptionGroup("mine", [ValueError("one"), KeyError("two")])
    assert [type(error) for error in caught.value.exceptions] == [ValueError, KeyError]


async def test_a_cancelled_block_still_gets_an_orderly_stop(autojump_clock: MockClock) -> None:
    log: list[str] = []
    with trio.move_on_after(1) as scope:
        async with make() as system:
            await system.spawn(Witness, log, name="w")
            await trio.sleep_forever()
    assert scope.cancelled_caught
    assert log == ["/user/w system_closed"]
    assert trio.current_time() == 1


async def test_a_cancelled_block_does_not_wait_long_for_its_actors(autojump_clock: MockClock) -> None:
    async def for_ever(_: Any) -> None:
        await trio.sleep_forever()

    with trio.move_on_after(1):
        async with make(grace=60) as system:
            (await system.spawn(Puppet)).tell(Do(for_ever))
            await trio.sleep_forever()
    assert trio.current_time() <= 2
    assert conserved(system)


async def test_stop_inside_the_block_ends_the_actors_and_the_block_goes_on() -> None:
    async with make() as system:
        ref = await system.spawn(Puppet)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(system.stop)
            nursery.start_soon(system.stop)
        assert not ref.alive
        with pytest.raises(rt.SystemClosed):
            await system.spawn(Puppet)
        await trio.lowlevel.checkpoint()


async def test_an_actor_cannot_stop_the_system_it_runs_in() -> None:
    async with make() as system:
        ref = await system.spawn(Puppet)

        async def stop_all(_: Any) -> None:
            await system.stop()

        with pytest.raises(rt.WrongThread, match="ctx.stop"):
            await ref.ask(Do(stop_all))


async def test_a_quiet_system_stops_at_once_even_after_many_suspended_handlers(autojump_clock: MockClock) -> None:
    async def slow(_: Any) -> None:
        await trio.sleep(1)

    async with make() as system:
        refs = [await system.spawn(Puppet) for _ in range(30)]  # more than the workers that are kept
        for ref in refs:
            ref.tell(Do(slow))
        await trio.sleep(0.5)
        await system.wait_quiet()
        assert trio.current_time() == 1
        for ref in refs:
            ref.tell(Do(slow))
    assert trio.current_time() == 2
    assert reasons(system) == {}


async def test_a_restart_that_hangs_in_on_start_does_not_hang_the_stop(autojump_clock: MockClock) -> None:
    class HangsAgain(rt.Actor):
        def __init__(self, starts: list[int]) -> None:
            self.starts = starts

        async def on_start(self) -> None:
            self.starts.append(1)
            if len(self.starts) > 1:
                await trio.sleep_forever()

        @rt.handler
        def fail(self, _: Note) -> None:
            raise ValueError("restart me")

    with trio.fail_after(60):
        async with make(grace=2) as system:
            ref = await system.spawn(HangsAgain, [])
            ref.tell(Note(1))
            await trio.sleep(1)
    assert trio.current_time() == 3


async def test_an_on_stop_that_hangs_is_cut_off(autojump_clock: MockClock) -> None:
    with trio.fail_after(60):
        async with make(grace=2) as system:
            await system.spawn(Witness, [], stopping=1000)
    assert trio.current_time() <= 4


async def test_an_error_in_on_stop_is_logged_and_stops_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    class BadEnd(rt.Actor):
        def on_stop(self, reason: str) -> None:
            raise ValueError("bad end")

    log: list[str] = []
    async with make() as system:
        await system.spawn(Witness, log, name="w")
        await system.spawn(BadEnd, name="bad")
    assert log == ["/user/w system_closed"]
    assert any("/user/bad" in record.getMessage() and record.levelname == "ERROR" for record in caplog.records)


async def test_a_system_exit_in_a_handler_ends_the_system_after_everything_was_settled(autojump_clock: MockClock) -> None:
    def leave(_: Any) -> None:
        raise SystemExit(3)

    log: list[str] = []
    with pytest.raises(SystemExit) as caught:
        async with make() as system:
            await system.spawn(Witness, log, name="w")
            ref = await system.spawn(Puppet, name="leaver")
            ref.tell(Call(leave))
            await trio.sleep_forever()
    assert caught.value.code == 3
    assert log == ["/user/w system_closed"]
    assert conserved(system)


async def test_the_asker_of_a_handler_that_raises_system_exit_is_told(autojump_clock: MockClock) -> None:
    def leave(_: Any) -> None:
        raise SystemExit(3)

    errors: list[BaseException] = []
    with pytest.raises(SystemExit):
        async with make() as system:
            ref = await system.spawn(Puppet)
            try:
                await ref.ask(Call(leave))
            except rt.ActorStopped as error:
                errors.append(error)
            await trio.sleep_forever()
    assert isinstance(errors[0].__cause__, SystemExit)


async def test_a_fatal_error_stops_the_system_in_order_also_where_the_block_fails_with_a_group(autojump_clock: MockClock) -> None:
    log: list[str] = []

    async def fails_when_cancelled() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise ValueError("in the clean-up")

    with pytest.raises((SystemExit, BaseExceptionGroup)):
        async with make() as system:
            await system.spawn(Witness, log, name="w")
            ref = await system.spawn(Puppet)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(fails_when_cancelled)
                nursery.start_soon(trio.sleep_forever)
                await trio.testing.wait_all_tasks_blocked()

                def leave(_: Any) -> None:
                    raise SystemExit(3)

                ref.tell(Call(leave))
    assert log == ["/user/w system_closed"]
    assert not ref.alive


@pytest.mark.parametrize("kind", [GeneratorExit, BaseException, StopIteration, RuntimeError])
@pytest.mark.parametrize("suspends", [False, True])
@pytest.mark.parametrize("plain", [False, True])
async def test_no_other_exception_ends_more_than_its_message(
    kind: type[BaseException], suspends: bool, plain: bool, autojump_clock: MockClock
) -> None:
    async def script(_: Any) -> None:
        if suspends:
            await trio.sleep(1)
        raise kind("odd")

    def script_now(_: Any) -> None:
        raise kind("odd")

    async with make() as system:
        ref, other = await system.spawn(Puppet), await system.spawn(Puppet)
        message = Call(script_now) if plain else Do(script)
        with pytest.raises(BaseException, match=r"odd|StopIteration|GeneratorExit"):
            await ref.ask(message)
        ref.tell(message)
        await system.wait_quiet()
        assert reasons(system) == {"poison": 1}
        assert await other.ask(Call(lambda _: "fine")) == "fine"
        assert await ref.ask(Call(lambda _: "fine")) == "fine"
        assert conserved(system)


async def test_a_fault_of_the_runtime_itself_ends_the_block_with_it_and_resolves_every_ask(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    def broken(*_: Any) -> None:
        raise ZeroDivisionError("a fault")

    errors: list[str] = []

    async def keep(ref: rt.Ref[Puppet]) -> None:
        try:
            await ref.ask(Call(lambda actor: actor.ctx.defer() and None), timeout=math.inf)
        except rt.RetinueError as error:
            errors.append(type(error).__name__)

    async with trio.open_nursery() as nursery:
        with pytest.raises(ZeroDivisionError, match="a fault"):
            async with make() as system:
                nursery.start_soon(keep, await system.spawn(Puppet))
                await trio.testing.wait_all_tasks_blocked()
                monkeypatch.setattr(outcomes, "conclude_error", broken)

                def fail(_: Any) -> None:
                    raise ValueError

                (await system.spawn(Puppet)).tell(Call(fail))
                await trio.sleep_forever()
    assert errors == ["ActorStopped"]


async def test_a_system_runs_once() -> None:
    system = make()
    async with system:
        with pytest.raises(rt.SystemClosed, match="runs once"):
            await system.__aenter__()
    with pytest.raises(rt.SystemClosed, match="runs once"):
        async with system:
            pass


async def test_a_system_that_was_not_entered_says_so() -> None:
    system = make()
    for use in (lambda: system.spawn(Puppet), system.wait_quiet):
        with pytest.raises(rt.SystemClosed, match="async with"):
            await use()
