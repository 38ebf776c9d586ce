"""Audit, budgets, tokens, policies and revocation from outside the loop: both twins, and the core's own answers."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

import retinue as rt
from core_authority import Send, Touch, Vault
from quiet_threads import PATIENCE
from retinue import aio
from retinue.sync import ActorSystem
from twin_actors import Call, Worker
from twin_asyncio import under_asyncio

# -- blocking ----------------------------------------------------------------------------------------------------------------------------------------


def test_a_script_reads_the_audit_also_after_the_end() -> None:
    with ActorSystem("script") as system:
        vault = system.spawn(Vault, name="vault")
        eve = system.authority.mint("eve", [])
        with pytest.raises(rt.Denied):
            vault.ask(Touch(), context=eve)
        for _ in range(3):
            vault.ask(Touch())
        (refused,) = system.audit.entries(allowed=False)
        assert (refused.subject, refused.operation, refused.path) == ("eve", "vault.touch", "/user/vault")
        assert [entry.count for entry in system.audit.entries(kind="allowed_batch")] == [3]
        head = system.audit.head()
        assert head is not None
        assert head.number == system.audit.verify()
        vault.ask(Touch())
    after = system.audit.entries(kind="allowed_batch")
    assert [entry.count for entry in after] == [3, 1]
    statistics = system.audit.statistics()
    assert statistics is not None
    assert statistics.records == system.audit.verify()


def test_a_script_gives_a_folder_and_finds_its_tokens_again(tmp_path: Path) -> None:
    with ActorSystem("script", data_dir=tmp_path) as system:
        token = system.sealer().seal(system.authority.mint("ada", ["vault.**"]))
    with ActorSystem("script", data_dir=tmp_path) as system:
        vault = system.spawn(Vault)
        ada = system.sealer().unseal(token)
        assert vault.ask(Touch(), context=ada) == "ada"
        assert [entry.kind for entry in system.audit.entries()] == ["start", "mint", "allowed_batch"]
        assert system.audit.verify() == 5, "those of the first run are in the file, not in memory"


def test_a_script_sees_what_a_context_may_spend() -> None:
    with ActorSystem("script") as system:
        vault = system.spawn(Vault)
        ada = system.authority.mint("ada", ["vault.**", rt.limit(calls=2, tokens=10)])
        vault.ask(Touch(), context=ada)
        reservation = system.budgets.reserve(ada, tokens=7)
        (balance,) = system.budgets.balance(ada)
        assert (balance.spent.calls, balance.reserved.tokens, balance.remaining.tokens) == (1, 7, 3)
        system.budgets.settle(reservation, tokens=2)
        system.budgets.release(system.budgets.of(ada).reserve(tokens=8))
        assert system.budgets.balance(ada)[0].remaining.tokens == 8
        vault.ask(Touch(), context=ada)
        with pytest.raises(rt.BudgetExceeded):
            vault.ask(Touch(), context=ada)


def test_policies_and_a_registry_hold_for_a_script() -> None:
    @rt.policy(operations=["vault.send"])
    async def small(call: rt.PolicyCall) -> rt.Verdict:
        return rt.Verdict.allow() if call.arguments["amount"] < 10 else rt.Verdict.refuse("too much")

    registry = rt.CapabilityRegistry([rt.Capability("vault.send", risk="L2")])
    with ActorSystem("script", policies=[small], policy_timeout=2, capabilities=registry) as system:
        vault = system.spawn(Vault)
        assert vault.ask(Send("a", 1)) == "root"
        with pytest.raises(rt.Denied, match="too much"):
            vault.ask(Send("a", 10))
        with pytest.raises(rt.Denied) as caught:
            vault.ask(Touch())
        assert caught.value.reason == "unknown_operation"


def test_a_script_revokes_and_it_holds_at_once() -> None:
    with ActorSystem("script") as system:
        vault = system.spawn(Vault)
        for _ in range(20):
            ada = system.authority.mint("ada", ["vault.**"])
            assert vault.ask(Touch(), context=ada) == "ada"
            system.authority.revoke(ada)
            with pytest.raises(rt.Revoked):
                vault.ask(Touch(), context=ada)
            with pytest.raises(rt.Revoked):
                vault.tell(Touch(), context=ada)


def test_a_script_asks_under_a_context_that_expires() -> None:
    with ActorSystem("script") as system:
        vault, worker = system.spawn(Vault), system.spawn(Worker)
        ada = system.authority.mint("ada", ["**", rt.expires(seconds=0.2)])
        assert vault.ask(Touch(), context=ada) == "ada"
        with pytest.raises((rt.AskTimeout, rt.Expired)):
            worker.ask(Call(lambda _: __import__("time").sleep(0.3)), context=ada)
            vault.ask(Touch(), context=ada)


@pytest.mark.parametrize("use", ["audit", "budgets", "sealer"])
def test_in_a_handler_they_are_refused(use: str) -> None:
    uses: dict[str, Any] = {
        "audit": lambda system: system.audit.entries(),
        "budgets": lambda system: system.budgets.balance(),
        "sealer": lambda system: system.sealer(rt.KeyRing.generate()),
    }
    with ActorSystem("script") as system:
        worker = system.spawn(Worker)
        with pytest.raises((rt.WrongThread, rt.Denied)):
            worker.ask(Call(lambda _: uses[use](system)))


# -- asyncio -----------------------------------------------------------------------------------------------------------------------------------------


@under_asyncio
async def test_under_asyncio_the_audit_is_awaited() -> None:
    async with aio.ActorSystem("twin") as system:
        vault = await system.spawn(Vault)
        eve = system.authority.mint("eve", [])
        with pytest.raises(rt.Denied):
            await vault.ask(Touch(), context=eve)
        await asyncio.gather(*(vault.ask(Touch()) for _ in range(20)))
        (refused,) = await system.audit.entries(allowed=False)
        assert refused.subject == "eve"
        assert sum(entry.count for entry in await system.audit.entries(kind="allowed_batch")) == 20
        head, statistics = await system.audit.head(), await system.audit.statistics()
        assert head is not None
        assert statistics is not None
        assert head.number == statistics.records == await system.audit.verify()
    assert len(await system.audit.entries(kind="mint")) == 1


@under_asyncio
async def test_under_asyncio_budgets_and_tokens_work() -> None:
    async with aio.ActorSystem("twin") as system:
        vault = await system.spawn(Vault)
        sealer = system.sealer(rt.KeyRing.generate())
        token = rt.attenuate(sealer.seal(system.authority.mint("ada", ["vault.**"])), rt.limit(calls=1, tokens=5))
        ada = sealer.unseal(token)
        assert await vault.ask(Touch(), context=ada) == "ada"
        with pytest.raises(rt.BudgetExceeded):
            await vault.ask(Touch(), context=ada)
        reservation = await system.budgets.reserve(ada, tokens=5)
        with pytest.raises(rt.BudgetExceeded):
            await system.budgets.reserve(ada, tokens=1)
        await system.budgets.release(reservation)
        (balance,) = await system.budgets.balance(ada)
        assert (balance.spent.calls, balance.remaining.tokens) == (1, 5)


@under_asyncio
async def test_under_asyncio_a_policy_that_hangs_is_bounded_and_a_task_that_is_cancelled_ends_it() -> None:
    import trio

    waiting = threading.Semaphore(0)
    cancelled = threading.Semaphore(0)

    @rt.policy(operations=["vault.touch"])
    async def hanging(_: rt.PolicyCall) -> rt.Verdict:
        waiting.release()
        try:
            await trio.sleep_forever()
        except trio.Cancelled:
            cancelled.release()
            raise
        return rt.Verdict.allow()

    log: list[Any] = []
    async with aio.ActorSystem("twin", policies=[hanging], policy_timeout=0.2) as system:
        vault = await system.spawn(Vault, log)
        with pytest.raises(rt.Denied) as caught:
            await vault.ask(Touch())
        assert caught.value.reason == "policy"
        task = asyncio.create_task(vault.ask(Touch()))
        assert await asyncio.to_thread(waiting.acquire, timeout=PATIENCE)
        assert await asyncio.to_thread(waiting.acquire, timeout=PATIENCE)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(cancelled.acquire, timeout=PATIENCE)
        assert log == []


@under_asyncio
async def test_under_asyncio_what_was_revoked_is_refused_at_once() -> None:
    async with aio.ActorSystem("twin") as system:
        vault = await system.spawn(Vault)
        for _ in range(20):
            ada = system.authority.mint("ada", ["vault.**"])
            assert await vault.ask(Touch(), context=ada) == "ada"
            system.authority.revoke(ada)
            with pytest.raises(rt.Revoked):
                await vault.ask(Touch(), context=ada)
