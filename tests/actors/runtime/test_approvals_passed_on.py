"""`self.ctx.approvals` and `self.ctx.decision`: consents in the hands of actors that must not see them; and consents at the workers of pools."""

from __future__ import annotations

import copy
import json
import math
import pickle
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

import retinue as rt
from approval_bank import Bank, Pay
from approval_values import binding, request
from core_authority import error_of
from core_hosts import conserved
from retinue.actors.runtime.actor import handlers_of
from retinue.testing import BehaviorTest


@rt.message
class Order(rt.Request[str]):
    """Have something paid; `how` says by what consent."""

    how: str
    what: Any = None
    wait: float = 0.0


class Clerk(rt.Actor):
    """Has things paid by a bank, with consents that are not its own."""

    kept: Any = None

    def __init__(self, bank: rt.Ref[Any]) -> None:
        self.bank = bank
        self.seen: list[Any] = []

    @rt.handler
    async def order(self, message: Order) -> str:
        pay = Pay("ACME", 5)
        if message.how == "carried":
            self.seen.append(self.ctx.approvals)
            return await self.bank.ask(pay, approvals=self.ctx.approvals)
        if message.how == "sent":
            await self.bank.send(pay, approvals=self.ctx.approvals)
            return str(self.bank.tell(pay, approvals=self.ctx.approvals).accepted)
        if message.how == "not carried":
            return await self.bank.ask(pay)
        if message.how == "kept":
            type(self).kept = self.ctx.approvals
            return str(len(self.ctx.approvals))
        if message.how == "look":
            decision = await self.ctx.decision(message.what, wait=message.wait)
            assert decision.request.token is None
            return f"{decision.request.status} {len(decision.approvals)} {decision.request.note}".strip()
        decision = await self.ctx.decision(message.what, wait=message.wait)
        paid = Pay(**decision.request.arguments)
        return await self.bank.ask(paid, approvals=self.ctx.approvals + decision.approvals)


def make(**options: Any) -> rt.ActorSystem:
    return rt.ActorSystem("passed", block_warning=math.inf, **options)


async def request_of(system: rt.ActorSystem, clerk: rt.Ref[Any], **options: Any) -> rt.ApprovalRequest:
    required = await error_of(clerk.ask(Order("not carried"), **options))
    assert isinstance(required, rt.ApprovalRequired), required
    return required.request


# -- what came with the message -----------------------------------------------------------------------------------------------------------------------------


async def test_what_came_with_a_message_is_passed_on_and_only_where_it_is_said() -> None:
    async with make() as system:
        effects: list[Any] = []
        bank = await system.spawn(Bank, effects, name="bank")
        clerk = await system.spawn(Clerk, bank, name="clerk")
        request = await request_of(system, clerk)
        token = await system.approvals.approve(request.id, reviewer="bob")
        assert isinstance(await error_of(clerk.ask(Order("not carried"), approvals=[token])), rt.ApprovalRequired)
        assert await clerk.ask(Order("carried"), approvals=[token]) == "paid 5 to ACME"
        assert (await error_of(clerk.ask(Order("carried"), approvals=[token]))).reason == "spent"
        assert len(effects) == 1


async def test_tell_and_send_pass_it_on_too() -> None:
    async with make() as system:
        effects: list[Any] = []
        clerk = await system.spawn(Clerk, await system.spawn(Bank, effects))
        token = await system.approvals.approve((await request_of(system, clerk)).id, reviewer="bob")
        assert await clerk.ask(Order("sent"), approvals=[token]) == "True"
        await system.wait_quiet()
        assert len(effects) == 1  # the second one found it spent
        assert conserved(system)


async def test_nobody_looks_into_it_copies_it_or_takes_it_away() -> None:
    async with make() as system:
        clerk = await system.spawn(Clerk, await system.spawn(Bank, []), name="clerk")
        assert await clerk.ask(Order("kept"), approvals=["secret one", "secret two"]) == "2"
        kept = Clerk.kept
        assert repr(kept) == "<2 approvals to pass on>" and len(kept) == 2
        assert "secret" not in repr(kept) + str(kept) + f"{kept}"
        for look in (list, iter, lambda one: one[0], json.dumps, pickle.dumps, copy.copy, copy.deepcopy, vars, "".join):
            with pytest.raises((TypeError, rt.RetinueError)) as caught:
                look(kept)
            assert "secret" not in str(caught.value)
        with pytest.raises(rt.DefinitionError, match="never made by hand"):
            rt.CarriedApprovals()
        with pytest.raises(rt.DefinitionError, match="for the handlers of the actor that got them"):
            await clerk.ask(Order("kept"), approvals=kept)
        other = await system.spawn(Thief, clerk)
        with pytest.raises(rt.DefinitionError, match="for the handlers of the actor that got them"):
            await other.ask(Order("kept"))


class Thief(rt.Actor):
    def __init__(self, to: rt.Ref[Any]) -> None:
        self.to = to

    @rt.handler
    async def steal(self, message: Order) -> Any:
        return await self.to.ask(message, approvals=Clerk.kept)


async def test_there_are_none_where_none_came_and_too_many_are_too_many() -> None:
    async with make() as system:
        clerk = await system.spawn(Clerk, await system.spawn(Bank, []), name="clerk")
        assert await clerk.ask(Order("kept")) == "0"

        class Greedy(rt.Actor):
            @rt.handler
            async def order(self, message: Order) -> str:
                mine = self.ctx.approvals
                assert len(mine + mine) == len(mine)
                with pytest.raises(TypeError):
                    mine + ["token"]  # noqa: RUF005
                return str(len(mine))

        assert await (await system.spawn(Greedy)).ask(Order(""), approvals=[f"t{number}" for number in range(16)]) == "16"


# -- what was decided ----------------------------------------------------------------------------------------------------------------------------------------


async def test_what_was_decided_is_looked_at_and_its_consent_passed_on(turn_system: rt.ActorSystem) -> None:
    async with turn_system as system:
        effects: list[Any] = []
        clerk = await system.spawn(Clerk, await system.spawn(Bank, effects, name="bank"), name="clerk")
        request = await request_of(system, clerk)
        assert await clerk.ask(Order("look", request.id)) == "pending 0"
        await system.approvals.approve(request.id, reviewer="bob", note="fine")
        assert await clerk.ask(Order("look", request.id)) == "approved 1 fine"
        assert await clerk.ask(Order("decided", request.id)) == "paid 5 to ACME"
        assert await clerk.ask(Order("look", request.id)) == "approved 0 fine"  # used up
        assert len(effects) == 1
        await system.wait_quiet()
        assert conserved(system)


async def test_a_rejection_has_the_reviewers_words_and_no_consent() -> None:
    async with make() as system:
        clerk = await system.spawn(Clerk, await system.spawn(Bank, []), name="clerk")
        request = await request_of(system, clerk)
        await system.approvals.respond(request.id, "take the cheaper one", reviewer="bob")
        assert await clerk.ask(Order("look", request.id)) == "rejected 0 take the cheaper one"


async def test_an_edited_request_leads_to_the_one_in_its_place() -> None:
    async with make() as system:
        effects: list[Any] = []
        clerk = await system.spawn(Clerk, await system.spawn(Bank, effects, name="bank"), name="clerk")
        request = await request_of(system, clerk)
        edited = await system.approvals.edit(request.id, {"amount": 3}, reviewer="bob")
        assert await clerk.ask(Order("look", request.id)) == "pending 0"
        await system.approvals.approve(edited.id, reviewer="bob")
        assert await clerk.ask(Order("decided", request.id)) == "paid 3 to ACME"


async def test_waiting_ends_with_the_decision_the_time_or_the_deadline() -> None:
    async with make() as system:
        clerk = await system.spawn(Clerk, await system.spawn(Bank, []), name="clerk")
        request = await request_of(system, clerk)
        assert await clerk.ask(Order("look", request.id, 0.05)) == "pending 0"
        with pytest.raises(rt.AskTimeout):
            await clerk.ask(Order("look", request.id, math.inf), timeout=0.1)
        found: list[str] = []

        async def look() -> None:
            found.append(await clerk.ask(Order("look", request.id, math.inf)))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(look)
            await trio.sleep(0.05)
            edited = await system.approvals.edit(request.id, {"amount": 3}, reviewer="bob")
            await trio.sleep(0.05)
            assert found == []
            await system.approvals.approve(edited.id, reviewer="bob")
        assert found == ["approved 1"]


async def test_a_request_of_somebody_else_is_as_one_that_does_not_exist() -> None:
    async with make() as system:
        clerk = await system.spawn(Clerk, await system.spawn(Bank, []), name="clerk")
        ada = system.authority.mint("ada", ["**"], session="s1", tenant="t")
        request = await request_of(system, clerk, context=ada)
        await system.approvals.approve(request.id, reviewer="bob")
        others = [
            system.authority.mint("eve", ["**"], session="s1", tenant="t"),
            system.authority.mint("ada", ["**"], session="s2", tenant="t"),
            system.authority.mint("ada", ["**"], session="s1"),
            None,
        ]
        told: set[str] = set()
        for context in others:
            for wanted in (request.id, request.id[:-1] + ("a" if request.id[-1] != "a" else "b"), "", "x" * 300):
                denied = await error_of(clerk.ask(Order("look", wanted), context=context))
                assert isinstance(denied, rt.Denied) and denied.reason == "approval"
                told.add(str(denied).replace(repr(wanted[:80]), "ID").replace(repr(denied.subject), "WHO"))
        assert len(told) == 1
        assert (
            len(
                [entry for entry in await system.audit.entries(allowed=False) if entry.reason == "approval" and entry.path == "/user/clerk"]
            )
            == 16
        )
        assert await clerk.ask(Order("look", request.id), context=ada.narrow(rt.expires(seconds=60))) == "approved 1"


async def test_what_is_no_question_is_refused() -> None:
    async with make() as system:
        clerk = await system.spawn(Clerk, await system.spawn(Bank, []), name="clerk")
        for what, wait in ((5, 0.0), ("apr_x", -1), ("apr_x", math.nan), ("apr_x", "5")):
            assert isinstance(await error_of(clerk.ask(Order("look", what, wait))), rt.DefinitionError)


def test_a_played_actor_gets_the_decision_that_stands_ready() -> None:
    test: Any = BehaviorTest(Clerk, None)
    root = test.authority.root
    bound = binding(subject=root.subject, tenant=root.tenant, session=root.session)
    ready = attrs.evolve(request(binding=bound), status="approved", token="secret")
    test.decided(ready)
    assert test.ask(Order("look", ready.id)).startswith("approved 1")
    with pytest.raises(rt.Denied):
        test.ask(Order("look", "apr_unknown"))


# -- pools -----------------------------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "pool", [rt.Pool.elastic(4), rt.Pool.work_pulling(3), rt.Pool.round_robin(3), rt.Pool.least_loaded(3)], ids=lambda one: one.kind
)
async def test_a_consent_is_for_the_pool_and_any_worker_takes_it(pool: rt.Pool) -> None:
    async with make() as system:
        effects: list[Any] = []
        bank = await system.spawn_pool(Bank, effects, pool=pool, name="bank")
        clerk = await system.spawn(Clerk, bank, name="clerk")
        first = await request_of(system, clerk)
        assert first.audience == "/user/bank"
        assert (await request_of(system, clerk)).id == first.id  # by another worker, perhaps: the same request
        token = await system.approvals.approve(first.id, reviewer="bob")
        assert await clerk.ask(Order("carried"), approvals=[token]) == "paid 5 to ACME"
        second = await request_of(system, clerk)
        assert second.id != first.id
        await system.approvals.approve(second.id, reviewer="bob")
        assert await clerk.ask(Order("decided", second.id)) == "paid 5 to ACME"
        await system.approvals.always_allow(
            "payments.*", reviewer="bob", subject=None, expires_seconds=60, audience="/user/bank", open=True
        )
        assert [await bank.ask(Pay("ACME", 5)) for _ in range(6)] == ["paid 5 to ACME"] * 6
        await system.wait_quiet()
        assert conserved(system)


# -- what a handler is said to be ------------------------------------------------------------------------------------------------------------------------------


def made(digest: str, **options: Any) -> type[rt.Actor]:
    class Made(rt.Actor):
        @rt.handler(**options)
        def pay(self, message: Pay) -> str:
            return ""

    if digest:
        handlers_of(Made)[Pay].define(digest)
    return Made


def test_a_handler_is_what_it_was_said_to_be() -> None:
    def definition(digest: str, **options: Any) -> str:
        return handlers_of(made(digest, **options))[Pay].definition(Pay)

    assert definition("one", approval=True) == definition("one", approval=True) != definition("two", approval=True)
    assert definition("one", approval=True) != definition("one", approval=True, risk="L3", requires="pay")
    assert definition("") != definition("one")
    for wrong in ("", 5, None):
        with pytest.raises(rt.DefinitionError, match="takes a digest"):
            handlers_of(made(""))[Pay].define(wrong)  # type: ignore[arg-type]


async def test_a_consent_is_bound_to_what_a_handler_was_said_to_be(autojump_clock: MockClock) -> None:
    async with make() as system:
        found = []
        for digest in ("one", "one", "two"):
            ref = await system.spawn(made(digest, requires="pay", approval=True), name="made")
            required = await error_of(ref.ask(Pay("ACME", 5)))
            found.append((required.request.id, required.request.binding.definition))
            await ref.stop()
        assert found[0] == found[1] and found[2] != found[1]
