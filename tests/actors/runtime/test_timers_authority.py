"""The authority of ticks: that of the turn that set the timer, or less, and none once it has ended."""

from __future__ import annotations

import math
from typing import Any

import pytest
import trio
from trio.testing import MockClock

import retinue as rt
from core_authority import tie_clock
from core_hosts import conserved, reasons
from core_puppet import Call, Do, Puppet
from retinue.testing import wait_idle


@rt.message
class Pay(rt.Message):
    amount: int


class Payer(Puppet):
    """Pays by timer: `setting(actor)` is run under whatever authority asks for it."""

    internal_operations = ("till.pay",)

    def __init__(self, seen: list[Any] | None = None) -> None:
        super().__init__()
        self.seen = seen if seen is not None else []

    @rt.handler(requires="till.pay")
    def pay(self, message: Pay) -> None:
        self.seen.append((message.amount, self.ctx.security.subject))


def make(**options: Any) -> rt.ActorSystem:
    return rt.ActorSystem("till", block_warning=math.inf, **options)


def start(amount: int = 1, **options: Any) -> Call:
    return Call(lambda actor: actor.ctx.timers.every("pay", Pay(amount), 1, **options))


async def refusals(system: rt.ActorSystem) -> list[str | None]:
    return [entry.operation for entry in await system.audit.entries(allowed=False)]


async def test_a_tick_is_under_the_context_of_the_message_that_set_its_timer_and_no_other(autojump_clock: MockClock) -> None:
    seen: list[Any] = []
    async with make() as system:
        ref = await system.spawn(Payer, seen)
        narrow = system.authority.mint("ada", ["till.pay"]).narrow(rt.where("till.pay", amount=rt.at_most(5)))
        await ref.ask(start(5), context=narrow)
        await trio.sleep(1.5)
        await ref.ask(start(6), context=narrow)
        await trio.sleep(1.2)
        await ref.ask(Call(lambda actor: actor.ctx.timers.cancel_all()))  # under the root's
        await ref.ask(start(7))
        await trio.sleep(1.5)
        assert seen == [(5, "ada"), (7, system.authority.root.subject)]
        assert reasons(system) == {"denied": 1}
        assert await refusals(system) == ["till.pay"]
        assert conserved(system)


async def test_a_tick_is_narrowed_by_the_actors_grant(autojump_clock: MockClock) -> None:
    seen: list[Any] = []
    async with make() as system:
        ref = await system.spawn(Payer, seen, grant=["till.pay", rt.where("till.pay", amount=rt.at_most(5))])
        await ref.ask(start(6))
        await trio.sleep(1.5)
        assert (seen, reasons(system)) == ([], {"denied": 1})
        await ref.ask(start(5))
        await trio.sleep(1.5)
        assert [amount for amount, _ in seen] == [5]
        assert conserved(system)


async def test_a_timer_may_be_given_less_and_never_more(autojump_clock: MockClock) -> None:
    seen: list[Any] = []
    errors: list[rt.Denied] = []

    def given(actor: Payer, contexts: list[Any]) -> None:
        for context in contexts:
            try:
                actor.ctx.timers.once("x", Pay(1), 1, context=context)
            except rt.Denied as error:
                errors.append(error)

    async with make() as system, make() as elsewhere:
        ref = await system.spawn(Payer, seen)
        ada = system.authority.mint("ada", ["till.**"])
        revoked = ada.narrow("till.pay")
        others = [system.authority.root, system.authority.mint("ada", ["till.**"]), elsewhere.authority.root]
        await ref.ask(Call(lambda actor: given(actor, [*others, actor.ctx.own_authority("till.pay")])), context=ada)
        assert [error.reason for error in errors] == ["lineage", "lineage", "forged", "lineage"]
        assert system.statistics().timers == 0
        system.authority.revoke(revoked)
        await ref.ask(Call(lambda actor: given(actor, [revoked])), context=ada)
        assert isinstance(errors[-1], rt.Revoked)
        await ref.ask(Call(lambda actor: given(actor, [ada.narrow(rt.where("till.pay", amount=rt.at_most(0)))])), context=ada)
        await trio.sleep(2)
        assert (seen, reasons(system)) == ([], {"denied": 1})
        await ref.ask(Call(lambda actor: given(actor, [ada.narrow("till.pay")])), context=ada)
        await trio.sleep(2)
        assert seen == [(1, "ada")]
        assert conserved(system)


@pytest.mark.parametrize("whose", ["message", "grant"])
@pytest.mark.parametrize("how", ["expired", "revoked"])
async def test_a_timer_ends_with_its_authority_and_with_one_refusal_on_record(how: str, whose: str, autojump_clock: MockClock) -> None:
    seen: list[Any] = []
    async with make() as system:
        tie_clock(system)
        context = system.authority.mint("ada", ["**", rt.expires(seconds=2.5)] if how == "expired" else ["**"])
        parent = await system.spawn(Puppet)

        async def spawn(actor: Any) -> Any:
            return await actor.ctx.spawn(Payer, seen)

        ref = await parent.ask(Do(spawn), **({"context": context} if whose == "grant" else {}))
        await ref.ask(start(), **({"context": context} if whose == "message" else {}))
        await trio.sleep(2.2)
        if how == "revoked":
            system.authority.revoke(context)
        await trio.sleep(10)
        assert len(seen) == 2
        assert system.statistics().timers == 0
        assert system.statistics().dead_letters == 1
        assert len(await refusals(system)) == 1
        assert conserved(system)


async def test_a_timer_whose_authority_ends_while_a_tick_waits_ends_with_that_tick(autojump_clock: MockClock) -> None:
    seen: list[Any] = []

    async def busy(_: Any) -> None:
        await trio.sleep(5)

    async with make() as system:
        ref = await system.spawn(Payer, seen)
        ada = system.authority.mint("ada", ["**"])
        await ref.ask(start(), context=ada)
        ref.tell(Do(busy))
        await trio.sleep(1.5)
        system.authority.revoke(ada)
        await trio.sleep(10)
        assert seen == []
        assert system.statistics().timers == 0
        assert reasons(system) == {"denied": 1}
        assert len(await refusals(system)) == 1
        assert conserved(system)


async def test_neither_deadline_nor_approvals_nor_the_asker_go_with_a_timer(autojump_clock: MockClock) -> None:
    looks: list[Any] = []

    def look(actor: Any) -> None:
        looks.append((actor.ctx.deadline, actor.ctx.approval, actor.ctx.sender == actor.ctx.ref))

    async with make() as system:
        ref = await system.spawn(Payer)
        await ref.ask(Call(lambda actor: actor.ctx.timers.once("x", Call(look), 5)), timeout=1, approvals=["token"])
        await trio.sleep(6)
        assert looks == [(None, None, True)]


async def test_ticks_that_are_refused_are_dead_letters_and_nobody_waits_for_them_for_ever(autojump_clock: MockClock) -> None:
    """Row 13 of the reference: a guard dropped a message, and whoever waited for the end of all work waited for ever."""
    async with make() as system:
        ref = await system.spawn(Payer, grant=[])
        await ref.ask(Call(lambda actor: actor.ctx.timers.once("pay", Pay(1), 1)))
        await wait_idle(system, timers=True, timeout=5)
        assert trio.current_time() >= 1, "an armed timer is work that is still to come"
        assert reasons(system) == {"denied": 1}
        await ref.ask(start())
        await wait_idle(system, timers=True, timeout=5)  # a timer ends with the first tick that is refused
        assert reasons(system) == {"denied": 2}
        await ref.ask(Call(lambda actor: actor.ctx.timers.every("fine", Call(lambda _: None), 1)))
        await system.wait_quiet(timeout=0.1)
        await wait_idle(system, timeout=0.1)
        with pytest.raises(AssertionError, match="timers are armed"):
            await wait_idle(system, timers=True, timeout=2)
        await ref.ask(Call(lambda actor: actor.ctx.timers.cancel_all()))
        await wait_idle(system, timers=True, timeout=0.1)
        assert conserved(system)


async def test_labels_that_a_turn_had_are_on_its_ticks(autojump_clock: MockClock) -> None:
    looks: list[Any] = []

    def begin(actor: Any) -> None:
        actor.ctx.timers.once("before", Call(lambda actor: looks.append(actor.ctx.labels)), 1)
        actor.ctx.taint("web")
        actor.ctx.timers.once("after", Call(lambda actor: looks.append(actor.ctx.labels)), 2)

    async with make() as system:
        ref = await system.spawn(Payer)
        await ref.ask(Call(begin))
        await trio.sleep(3)
        assert looks == [frozenset(), frozenset({"web"})]


async def test_the_systems_own_actors_have_timers_that_are_nobody_elses_mail(autojump_clock: MockClock) -> None:
    class Own(Puppet):
        def on_start(self) -> None:
            self.ctx.timers.every("t", Call(lambda actor: seen.append(actor.ctx.path)), 1)

    seen: list[str] = []
    async with make() as system:
        await system._kernel.system_actor(Own, name="own")
        await trio.sleep(2.5)
        assert seen == ["/system/own"] * 2
        counts = system.statistics()
        assert (counts.sent, counts.handled, counts.queued, counts.timers) == (0, 0, 0, 1)
    assert system.statistics().timers == 0
