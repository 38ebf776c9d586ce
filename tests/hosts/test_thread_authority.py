"""Authority in the thread of a blocking actor: the same rules, though its handler cannot be cancelled."""

from __future__ import annotations

import threading
import time
from typing import Any

import attrs
import pytest
import trio

import retinue as rt
from core_authority import error_of
from core_hosts import conserved, reasons
from core_puppet import Call as Script
from core_puppet import Do, Puppet
from quiet_threads import PATIENCE, open_after, until


@rt.message
class Call(rt.Request[Any]):
    """Call a function with the actor."""

    function: Any
    amount: int = 0


class Blocking(rt.Actor, blocking=True):
    """A gated handler, an open one and one of high risk, each in the thread."""

    internal_operations = ("disk.write",)

    def __init__(self) -> None:
        self.log: list[Any] = []

    @rt.handler(requires="disk.call")
    def gated(self, message: Call) -> Any:
        self.log.append(message.amount)
        return message.function(self)

    @rt.handler(requires="disk.risky", risk="L3", raises=ValueError)
    def risky(self, message: Script) -> Any:
        return message.script(self)


class Disk(rt.Actor):
    @rt.handler(requires="disk.write")
    def write(self, message: Script) -> Any:
        return message.script(self)


def nothing(_: Any) -> None:
    pass


async def test_what_the_gate_looked_at_is_what_the_thread_gets() -> None:
    @rt.policy(operations=["disk.call"])
    def capped(call: rt.PolicyCall) -> rt.Verdict:
        return rt.Verdict.rewrite(attrs.evolve(call.message, amount=min(call.arguments["amount"], 5)))

    async with rt.ActorSystem(policies=[capped]) as system:
        blocking = await system.spawn(Blocking)
        for amount in (3, 70):
            await blocking.ask(Call(nothing, amount))
        assert await blocking.ask(Call(lambda actor: list(actor.log))) == [3, 5, 0]


async def test_an_asynchronous_policy_is_waited_for_before_the_thread_gets_it() -> None:
    gate = trio.Event()
    where: list[int] = []

    @rt.policy(operations=["disk.call"])
    async def held(_: rt.PolicyCall) -> rt.Verdict:
        where.append(threading.get_ident())
        await gate.wait()
        return rt.Verdict.allow()

    async with rt.ActorSystem(policies=[held], policy_timeout=PATIENCE) as system:
        blocking = await system.spawn(Blocking)
        ran: list[int] = []
        with pytest.raises(rt.AskTimeout):
            await blocking.ask(Call(lambda _: ran.append(0)), timeout=0.05)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(blocking.ask, Call(lambda _: ran.append(threading.get_ident())))
            await until(lambda: len(where) == 2)
            assert ran == []
            gate.set()
        assert where == [threading.get_ident()] * 2
        assert len(ran) == 1
        assert ran[0] != threading.get_ident()
        assert conserved(system)


async def test_a_policy_that_says_no_keeps_the_thread_free() -> None:
    @rt.policy(operations=["disk.call"])
    async def never(_: rt.PolicyCall) -> rt.Verdict:
        return rt.Verdict.refuse("no")

    async with rt.ActorSystem(policies=[never]) as system:
        blocking = await system.spawn(Blocking)
        assert isinstance(await error_of(blocking.ask(Call(nothing))), rt.Denied)
        blocking.tell(Call(nothing))
        await system.wait_quiet()
        assert reasons(system) == {"denied": 1}
        assert await blocking.ask(Script(lambda actor: actor.log)) == []


async def test_a_thread_is_not_waited_for_when_its_authority_expires() -> None:
    async with rt.ActorSystem() as system:
        blocking, disk = await system.spawn(Blocking), await system.spawn(Disk)
        ada = system.authority.mint("ada", ["disk.**", rt.expires(seconds=0.2)])
        gate = open_after(PATIENCE)
        seen: list[Any] = []

        def script(actor: Any) -> None:
            gate.wait(PATIENCE)
            try:
                actor.ctx.ask(disk, Script(nothing))
            except rt.RetinueError as error:
                seen.append(error)
            seen.append(actor.ctx.security.allows("disk.write"))

        with pytest.raises(rt.AskTimeout, match="goes on in its actor's thread") as caught:
            await blocking.ask(Call(script), context=ada)
        assert isinstance(caught.value.__cause__, rt.Expired)
        gate.set()
        await system.wait_quiet(timeout=PATIENCE)
        error, allowed = seen
        assert isinstance(error, rt.Expired)
        assert allowed is False
        assert conserved(system)


async def test_a_thread_whose_authority_is_revoked_gets_nothing_more_done() -> None:
    async with rt.ActorSystem() as system:
        blocking, disk = await system.spawn(Blocking), await system.spawn(Disk)
        ada = system.authority.mint("ada", ["disk.**"])
        before, revoked = open_after(PATIENCE), open_after(PATIENCE)
        found: list[Any] = []

        def script(actor: Any) -> str:
            actor.ctx.ask(disk, Script(nothing))
            before.set()
            revoked.wait(PATIENCE)
            with pytest.raises(rt.Revoked):
                actor.ctx.ask(disk, Script(nothing))
            disk.tell(Script(lambda _: found.append("told")))
            return "done"

        async def ask() -> None:
            found.append(await blocking.ask(Call(script), context=ada))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await until(before.is_set)
            system.authority.revoke(ada)
            revoked.set()
        await system.wait_quiet()
        assert found == ["done"]
        assert reasons(system) == {"denied": 1}


async def test_labels_go_into_the_thread_and_out_of_it() -> None:
    async with rt.ActorSystem() as system:
        blocking, source, front = await system.spawn(Blocking), await system.spawn(Puppet), await system.spawn(Puppet)

        def touch(actor: Any) -> None:
            actor.ctx.taint("web")

        def ask_it(actor: Any) -> Any:
            before = set(actor.ctx.labels)
            actor.ctx.ask(source, Script(touch))
            return before, set(actor.ctx.labels), actor.ctx.ask(source, Script(lambda it: set(it.ctx.labels)))

        def taint(actor: Any) -> Any:
            actor.ctx.taint("mail")

        async def asker(actor: Any) -> Any:
            found = await blocking.ask(Call(ask_it))
            between = set(actor.ctx.labels)
            await blocking.ask(Call(taint))
            return found, between, set(actor.ctx.labels)

        found, between, after = await front.ask(Do(asker))
        assert found == (set(), {"web"}, {"web"})
        assert between == {"web"}
        assert after == {"web", "mail"}
        told: list[Any] = []
        blocking.tell(Call(lambda actor: (actor.ctx.taint("file"), source.tell(Script(lambda it: told.append(set(it.ctx.labels)))))))
        await system.wait_quiet()
        assert told == [{"file"}]


async def test_the_thread_takes_its_actors_own_authority_in_its_turn_alone() -> None:
    async with rt.ActorSystem() as system:
        disk = await system.spawn(Disk)
        blocking = await system.spawn(Blocking, grant=["disk.**"])
        ada = system.authority.mint("ada", ["disk.call"])
        kept: list[Any] = []

        def write(actor: Any) -> str:
            own = actor.ctx.own_authority("disk.write")
            kept.append(own)
            with pytest.raises(rt.Denied):
                actor.ctx.ask(disk, Script(nothing))
            return str(actor.ctx.ask(disk, Script(lambda it: it.ctx.security.subject), context=own))

        def later(actor: Any) -> None:
            with pytest.raises(rt.Denied) as caught:
                actor.ctx.ask(disk, Script(nothing), context=kept[0])
            assert caught.value.reason == "lineage"

        assert await blocking.ask(Call(write), context=ada) == "root"
        await blocking.ask(Call(later), context=ada)
        (entry,) = await system.audit.entries(kind="amplification")
        assert entry.operation == "disk.write"


async def test_in_the_thread_nothing_is_minted_sealed_or_revoked() -> None:
    async with rt.ActorSystem() as system:
        blocking = await system.spawn(Blocking)
        ada = system.authority.mint("ada", ["**"])

        def script(_: Any) -> None:
            for deed in (
                lambda: system.authority.mint("x", []),
                lambda: system.authority.revoke(ada),
                lambda: system.sealer(rt.KeyRing.generate()),
            ):
                with pytest.raises(rt.Denied):
                    deed()

        await blocking.ask(Call(script))
        assert not system.authority.is_revoked(ada)


async def test_the_thread_spends_the_budget_of_its_message() -> None:
    async with rt.ActorSystem() as system:
        blocking = await system.spawn(Blocking)
        ada = system.authority.mint("ada", ["**", rt.limit(tokens=10)])

        def script(actor: Any) -> None:
            reservation = actor.ctx.budget.reserve(tokens=8)
            with pytest.raises(rt.BudgetExceeded):
                actor.ctx.budget.reserve(tokens=3)
            actor.ctx.budget.settle(reservation, tokens=4)

        await blocking.ask(Call(script), context=ada)
        assert (await system.budgets.balance(ada))[0].spent.tokens == 4


async def test_what_the_thread_did_is_on_record_with_how_it_ended() -> None:
    async with rt.ActorSystem() as system:
        blocking = await system.spawn(Blocking)

        def fail(_: Any) -> None:
            raise ValueError("secret")

        await blocking.ask(Script(nothing))
        with pytest.raises(ValueError, match="secret"):
            await blocking.ask(Script(fail))
        entries = await system.audit.entries(operation="disk.risky")
        assert [(entry.kind, entry.reason) for entry in entries] == [
            ("decision", ""),
            ("outcome", "succeeded"),
            ("decision", ""),
            ("outcome", "failed"),
        ]
        assert "secret" not in "".join(entry.line for entry in entries)


async def test_a_kept_verdict_of_a_blocking_actor_does_not_outlive_a_revocation_from_its_thread() -> None:
    """Revoked in a thread that is nobody's turn, while the actor works message by message."""
    async with rt.ActorSystem() as system:
        blocking = await system.spawn(Blocking)
        ada = system.authority.mint("ada", ["disk.**"])
        for _ in range(3):
            await blocking.ask(Call(nothing), context=ada)
        await trio.to_thread.run_sync(system.authority.revoke, ada)
        assert isinstance(await error_of(blocking.ask(Call(nothing), context=ada)), rt.Revoked)


async def test_an_authority_that_expires_in_the_queue_of_a_busy_thread_is_refused() -> None:
    async with rt.ActorSystem() as system:
        blocking = await system.spawn(Blocking)
        ada = system.authority.mint("ada", ["disk.**", rt.expires(seconds=0.1)])
        blocking.tell(Call(lambda _: time.sleep(0.3)))
        blocking.tell(Call(lambda actor: actor.log.append("told")), context=ada)
        assert isinstance(await error_of(blocking.ask(Call(lambda actor: actor.log.append("asked")), context=ada)), rt.Expired)
        await system.wait_quiet()
        assert await blocking.ask(Script(lambda actor: list(actor.log))) == [0]
        assert reasons(system) == {"expired": 2}
        assert conserved(system)
