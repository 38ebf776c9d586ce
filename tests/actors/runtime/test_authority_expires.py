"""A context that expires: whatever it started ends with it, waiting or running, and nothing begins under it afterwards."""

from __future__ import annotations

import logging
import math
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

import retinue as rt
from core_authority import Touch, Vault, error_of, tie_clock
from core_hosts import conserved, reasons
from core_puppet import Call, Do, DoShielded, Pour, Puppet, nothing, state_of
from retinue.actors.runtime.deadlines import Deadlines


async def forever(_: Any) -> None:
    await trio.sleep_forever()


def pause(seconds: float) -> Any:
    async def script(_: Any) -> None:
        await trio.sleep(seconds)

    return script


async def test_before_the_deadline_all_is_well_and_after_it_nothing_begins(turn_system: rt.ActorSystem, autojump_clock: MockClock) -> None:
    async with turn_system as system:
        tie_clock(system)
        vault, puppet = await system.spawn(Vault), await system.spawn(Puppet)
        ada = system.authority.mint("ada", ["**", rt.expires(seconds=5)])
        assert await vault.ask(Touch(), context=ada) == "ada"
        await trio.sleep(4.9)
        assert await vault.ask(Touch(), context=ada) == "ada"
        await trio.sleep(0.2)
        error = await error_of(vault.ask(Touch(), context=ada))
        assert isinstance(error, rt.Expired)
        assert (error.reason, error.operation, error.path, error.subject) == ("expired", "vault.touch", vault.path, "ada")
        open_to_all = await error_of(puppet.ask(Call(nothing), context=ada))
        assert isinstance(open_to_all, rt.Expired), "an open handler asks for no operation, but for an authority that has not ended"
        assert conserved(system)


async def test_a_handler_that_is_suspended_is_cancelled_when_its_authority_expires(
    turn_system: rt.ActorSystem, autojump_clock: MockClock
) -> None:
    async with turn_system as system:
        tie_clock(system)
        puppet = await system.spawn(Puppet)
        ada = system.authority.mint("ada", ["**", rt.expires(seconds=5)])
        began = trio.current_time()
        with pytest.raises(rt.AskTimeout, match="before its authority expired") as caught:
            await puppet.ask(Do(forever), context=ada, timeout=60)
        assert trio.current_time() - began == pytest.approx(5, abs=0.01)
        assert caught.value.begun is True
        assert isinstance(caught.value.__cause__, rt.Expired)
        assert await puppet.ask(Call(nothing)) is None, "it was cancelled: the actor is free"
        assert conserved(system)


async def test_a_shorter_time_out_is_a_time_out_and_no_expiry(turn_system: rt.ActorSystem, autojump_clock: MockClock) -> None:
    async with turn_system as system:
        tie_clock(system)
        puppet = await system.spawn(Puppet)
        ada = system.authority.mint("ada", ["**", rt.expires(seconds=5)])
        with pytest.raises(rt.AskTimeout) as caught:
            await puppet.ask(Do(forever), context=ada, timeout=1)
        assert caught.value.__cause__ is None
        assert "authority" not in str(caught.value)


async def test_a_request_that_still_waits_is_withdrawn_and_was_not_carried_out(
    turn_system: rt.ActorSystem, autojump_clock: MockClock
) -> None:
    async with turn_system as system:
        tie_clock(system)
        puppet = await system.spawn(Puppet)
        ada = system.authority.mint("ada", ["**", rt.expires(seconds=5)])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(error_of, puppet.ask(Do(pause(20))))
            await wait_all_tasks_blocked()
            began = trio.current_time()
            error = await error_of(puppet.ask(Call(lambda actor: actor.log.append("done")), context=ada))
            assert isinstance(error, rt.Expired)
            assert "was not carried out" in str(error)
            assert trio.current_time() - began == pytest.approx(5, abs=0.01)
        assert await state_of(puppet) == []
        assert reasons(system) == {"expired": 1}
        assert conserved(system)


async def test_a_request_that_waits_for_room_ends_with_its_authority(turn_system: rt.ActorSystem, autojump_clock: MockClock) -> None:
    async with turn_system as system:
        tie_clock(system)
        puppet = await system.spawn(Puppet, mailbox=rt.Mailbox.bounded(1))
        ada = system.authority.mint("ada", ["**", rt.expires(seconds=5)])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(error_of, puppet.ask(Do(pause(20))))
            await wait_all_tasks_blocked()
            puppet.tell(Call(nothing))
            assert isinstance(await error_of(puppet.ask(Call(nothing), context=ada)), rt.Expired)
        assert reasons(system) == {"expired": 1}
        assert conserved(system)


async def test_a_told_message_that_waited_too_long_is_an_expired_dead_letter(
    turn_system: rt.ActorSystem, autojump_clock: MockClock
) -> None:
    async with turn_system as system:
        tie_clock(system)
        puppet = await system.spawn(Puppet)
        ada = system.authority.mint("ada", ["**", rt.expires(seconds=5)])
        async with trio.open_nursery() as nursery:
            nursery.start_soon(error_of, puppet.ask(Do(pause(20))))
            await wait_all_tasks_blocked()
            assert puppet.tell(Call(lambda actor: actor.log.append("done")), context=ada)
        assert await state_of(puppet) == []
        assert reasons(system) == {"expired": 1}
        (letter,) = system.dead_letters.recent
        assert isinstance(letter.error, rt.Expired)
        assert conserved(system)


async def test_the_handler_of_a_told_message_is_cancelled_too(
    turn_system: rt.ActorSystem, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with turn_system as system:
        tie_clock(system)
        puppet = await system.spawn(Puppet)
        ada = system.authority.mint("ada", ["**", rt.expires(seconds=5)])
        with caplog.at_level(logging.ERROR):
            puppet.tell(Do(forever), context=ada)
            began = trio.current_time()
            await system.wait_quiet()
        assert trio.current_time() - began == pytest.approx(5, abs=0.01)
        assert reasons(system) == {"expired": 1}
        assert caplog.records == [], "no failure of the actor"
        assert await state_of(puppet) == []
        assert system.statistics().deadlines == 0
        assert conserved(system)


async def test_a_shielded_handler_goes_on_and_what_it_sends_is_refused(turn_system: rt.ActorSystem, autojump_clock: MockClock) -> None:
    async with turn_system as system:
        tie_clock(system)
        log: list[Any] = []
        puppet, vault = await system.spawn(Puppet), await system.spawn(Vault)
        ada = system.authority.mint("ada", ["**", rt.expires(seconds=5)])

        async def script(_: Any) -> None:
            await trio.sleep(8)
            log.append(type(await error_of(vault.ask(Touch()))))

        puppet.tell(DoShielded(script), context=ada)
        await system.wait_quiet()
        bob = system.authority.mint("bob", ["**", rt.expires(seconds=5)])
        with pytest.raises(rt.AskTimeout):
            await puppet.ask(DoShielded(script), context=bob)
        await system.wait_quiet()
        assert log == [rt.Expired, rt.Expired]


async def test_a_detached_request_ends_with_its_authority(turn_system: rt.ActorSystem, autojump_clock: MockClock) -> None:
    async with turn_system as system:
        tie_clock(system)
        log: list[str] = []
        puppet = await system.spawn(Puppet)
        ada = system.authority.mint("ada", ["**", rt.expires(seconds=5)])

        async def script(_: Any) -> None:
            try:
                await trio.sleep_forever()
            except trio.Cancelled:
                log.append("cancelled")
                raise

        with pytest.raises(rt.AskTimeout):
            await puppet.ask(Do(script), context=ada, detached=True, timeout=1)
        assert log == []
        await trio.sleep(5)
        assert log == ["cancelled"]
        assert conserved(system)


async def test_a_stream_ends_with_its_authority(turn_system: rt.ActorSystem, autojump_clock: MockClock) -> None:
    async with turn_system as system:
        tie_clock(system)
        puppet = await system.spawn(Puppet)
        ada = system.authority.mint("ada", ["**", rt.expires(seconds=5)])

        async def script(_: Any) -> Any:
            number = 0
            while True:
                yield number
                number += 1
                await trio.sleep(2)

        got = []
        with pytest.raises(rt.AskTimeout) as caught:
            async with puppet.stream(Pour(script), context=ada) as items:
                async for item in items:
                    got.append(item)
        assert got == [0, 1, 2]
        assert isinstance(caught.value.__cause__, rt.Expired)
        await system.wait_quiet()
        assert conserved(system)


async def test_a_deferred_answer_is_due_before_the_authority_expires(turn_system: rt.ActorSystem, autojump_clock: MockClock) -> None:
    async with turn_system as system:
        tie_clock(system)
        puppet = await system.spawn(Puppet)
        ada = system.authority.mint("ada", ["**", rt.expires(seconds=5)])
        began = trio.current_time()
        with pytest.raises(rt.AskTimeout, match="had been deferred"):
            await puppet.ask(Call(lambda actor: actor.log.append(actor.ctx.defer())), context=ada)
        assert trio.current_time() - began == pytest.approx(5, abs=0.01)
        (deferred,) = await state_of(puppet)
        assert deferred.reply(1) is False


async def test_a_forward_under_a_context_that_ends_sooner_ends_sooner(turn_system: rt.ActorSystem, autojump_clock: MockClock) -> None:
    async with turn_system as system:
        tie_clock(system)
        front, back = await system.spawn(Puppet), await system.spawn(Puppet)
        ada = system.authority.mint("ada", ["**", rt.expires(seconds=50)])

        def forward(actor: Any) -> None:
            actor.ctx.forward(back, Do(forever), context=actor.ctx.security.narrow(rt.expires(seconds=2)))

        began = trio.current_time()
        with pytest.raises(rt.AskTimeout):
            await front.ask(Call(forward), context=ada)
        assert trio.current_time() - began == pytest.approx(2, abs=0.01)
        assert await back.ask(Call(nothing)) is None
        assert conserved(system)


async def test_the_grants_end_is_an_end_too(turn_system: rt.ActorSystem, autojump_clock: MockClock) -> None:
    async with turn_system as system:
        tie_clock(system)
        puppet = await system.spawn(Puppet, grant=["**", rt.expires(seconds=3)])
        began = trio.current_time()
        with pytest.raises(rt.AskTimeout):
            await puppet.ask(Do(forever))
        assert trio.current_time() - began == pytest.approx(3, abs=0.01)
        assert isinstance(await error_of(puppet.ask(Call(nothing))), rt.Expired)


async def test_a_background_task_outlives_its_authority_and_gets_nothing_done(
    turn_system: rt.ActorSystem, autojump_clock: MockClock
) -> None:
    async with turn_system as system:
        tie_clock(system)
        puppet, vault = await system.spawn(Puppet), await system.spawn(Vault)
        ada = system.authority.mint("ada", ["**", rt.expires(seconds=5)])
        found: list[Any] = []

        def start(actor: Any) -> None:
            async def work() -> None:
                found.append(await error_of(vault.ask(Touch())))
                await trio.sleep(6)
                found.append(await error_of(vault.ask(Touch())))
                found.append(bool(vault.tell(Touch())))
                found.append(await error_of(actor.ctx.spawn(Puppet)))

            actor.ctx.start_soon(work)

        await puppet.ask(Call(start), context=ada)
        await trio.sleep(10)
        assert [one if isinstance(one, str | bool) else type(one) for one in found] == ["ada", rt.Expired, True, rt.Expired]
        assert set(reasons(system)) == {"expired"}
        assert conserved(system)


async def test_what_is_piped_after_the_deadline_is_refused(turn_system: rt.ActorSystem, autojump_clock: MockClock) -> None:
    async with turn_system as system:
        tie_clock(system)
        puppet = await system.spawn(Puppet)
        ada = system.authority.mint("ada", ["**", rt.expires(seconds=5)])

        def start(actor: Any) -> None:
            actor.ctx.pipe_to_self(pause(6)(actor), then=lambda _: Call(lambda it: it.log.append("piped")))

        await puppet.ask(Call(start), context=ada)
        await trio.sleep(10)
        assert await state_of(puppet) == []
        assert reasons(system) == {"expired": 1}


async def test_a_stashed_message_may_expire_in_the_stash(turn_system: rt.ActorSystem, autojump_clock: MockClock) -> None:
    async with turn_system as system:
        tie_clock(system)

        @rt.message
        class Later(rt.Request[str]):
            pass

        class Stasher(rt.Actor):
            def __init__(self) -> None:
                self.open = False

            @rt.handler
            def later(self, _: Later) -> str:
                if not self.open:
                    self.ctx.stash()
                return "late"

            @rt.handler
            def call(self, message: Call) -> Any:
                self.open = True
                return message.script(self)

        stasher = await system.spawn(Stasher)
        ada = system.authority.mint("ada", ["**", rt.expires(seconds=5)])
        stasher.tell(Later(), context=ada)
        error = await error_of(stasher.ask(Later(), context=ada))
        assert isinstance(error, rt.Expired)
        await stasher.ask(Call(lambda actor: actor.ctx.unstash_all()))
        await system.wait_quiet()
        assert reasons(system) == {"expired": 2}
        assert conserved(system)


async def test_the_deadline_that_a_handler_sees_is_the_nearer_one(turn_system: rt.ActorSystem, autojump_clock: MockClock) -> None:
    async with turn_system as system:
        tie_clock(system)
        puppet = await system.spawn(Puppet)
        ada = system.authority.mint("ada", ["**", rt.expires(seconds=5)])
        now = trio.current_time()
        assert await puppet.ask(Call(lambda actor: actor.ctx.deadline), context=ada) == pytest.approx(now + 5, abs=0.01)
        assert await puppet.ask(Call(lambda actor: actor.ctx.deadline), context=ada, timeout=2) == pytest.approx(now + 2, abs=0.01)
        puppet.tell(Call(lambda actor: actor.log.append(actor.ctx.deadline)), context=ada)
        puppet.tell(Call(lambda actor: actor.log.append(actor.ctx.deadline)))
        first, second = await state_of(puppet)
        assert first == pytest.approx(now + 5, abs=0.01)
        assert second is None


async def test_a_clock_that_fails_ends_what_expires_and_nothing_else(turn_system: rt.ActorSystem, autojump_clock: MockClock) -> None:
    async with turn_system as system:
        tie_clock(system)
        vault, puppet = await system.spawn(Vault), await system.spawn(Puppet)
        ada = system.authority.mint("ada", ["**", rt.expires(seconds=5)])

        def broken() -> int:
            raise OSError("no clock")

        system.authority._clock._clock = broken
        for ask in (
            vault.ask(Touch(), context=ada),
            puppet.ask(Do(forever), context=ada),
            puppet.ask(Call(nothing), context=ada, detached=True),
        ):
            assert isinstance(await error_of(ask), rt.Denied | rt.AskTimeout)
        assert await vault.ask(Touch()) == "root"
        assert await puppet.ask(Call(nothing)) is None
        assert conserved(system)


async def test_no_deadline_is_armed_for_what_does_not_expire(
    turn_system: rt.ActorSystem, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    armed: list[float] = []
    add = Deadlines.add
    monkeypatch.setattr(Deadlines, "add", lambda self, when, callback: armed.append(when) or add(self, when, callback))
    async with turn_system as system:
        puppet = await system.spawn(Puppet)
        puppet.tell(Do(pause(1)), context=system.authority.mint("ada", ["**", rt.limit(calls=5, depth=3)]))
        await system.wait_quiet()
        assert armed == []
        await puppet.ask(Do(pause(1)), timeout=math.inf)
        assert armed == []
