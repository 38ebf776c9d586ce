"""How what was spent ended reaches the real desk: also where it was not run, where the file is busy in that moment, and where nobody said so at all."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path
from typing import Any

import pytest
import trio

import retinue as rt
from approval_bank import Bank, Pay, alice_of, outcome, request_for, system_on
from quiet_threads import until
from retinue.actors.approvals import office as offices
from retinue.actors.approvals.office import Office
from retinue.actors.approvals.works_spending import Spend
from retinue.actors.store.errors import StoreUnavailable
from retinue.actors.store.store import Store
from retinue.capabilities.consent import Consent, Question


def outcomes(folder: Path) -> list[Any]:
    with contextlib.closing(sqlite3.connect(folder / "approvals.db")) as database, database:
        return [row[0] for row in database.execute("SELECT outcome FROM spent")]


async def noted(folder: Path, expected: list[Any], seconds: float = 5) -> None:
    with trio.fail_after(seconds):
        while outcomes(folder) != expected:
            await trio.sleep(0.02)


async def approved(system: rt.ActorSystem, bank: Any, alice: rt.SecurityContext, amount: int = 40) -> str:
    request = await request_for(bank, Pay("ACME", amount), alice)
    return await system.approvals.approve(request.id, reviewer="bob")


class Impatient(Store):
    def __init__(self, path: Path, schema: Any) -> None:
        super().__init__(path, schema, busy_timeout=0.2)


@pytest.mark.parametrize("how", ["cancelled", "revoked", "withdrawn by its asker"])
async def test_what_was_spent_and_not_run_is_noted_as_that(how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    effects: list[Any] = []
    spent = Office.spend
    scope, now = trio.CancelScope(), trio.Event()
    async with system_on(tmp_path) as system:
        bank = await system.spawn(Bank, effects, name="bank")
        alice = alice_of(system)

        async def spend(self: Office, question: Question, consent: Consent) -> None:
            await spent(self, question, consent)
            now.set()
            if how == "revoked":
                await trio.sleep(0.05)
            else:
                scope.cancel()

        async def revoke() -> None:
            await now.wait()
            system.authority.revoke(alice)

        token = await approved(system, bank, alice)
        monkeypatch.setattr(Office, "spend", spend)
        async with trio.open_nursery() as nursery:
            if how == "revoked":
                nursery.start_soon(revoke)
            with scope:
                if how == "withdrawn by its asker":
                    await bank.ask(Pay("ACME", 40), context=alice, approvals=[token], timeout=20)
                else:
                    error = await outcome(bank.ask(Pay("ACME", 40), context=alice, approvals=[token]))
                    assert isinstance(error, rt.Revoked)
        await noted(tmp_path, ["not run"])
        assert await system.approvals.indeterminate() == ()
    assert effects == []


async def test_an_outcome_that_finds_the_file_busy_is_noted_when_it_is_not_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    holder = sqlite3.connect(tmp_path / "other", isolation_level=None)
    monkeypatch.setattr(offices, "Store", Impatient)

    class Holding(Bank):
        @rt.handler(requires="payments.send", approval=True)
        async def pay(self, message: Pay) -> str:
            nonlocal holder
            holder.close()
            holder = sqlite3.connect(tmp_path / "approvals.db", isolation_level=None)
            holder.execute("BEGIN IMMEDIATE")
            return "paid"

    async with system_on(tmp_path) as system:
        bank = await system.spawn(Holding, [], name="bank")
        alice = alice_of(system)
        token = await approved(system, bank, alice)
        assert await bank.ask(Pay("ACME", 40), context=alice, approvals=[token]) == "paid"
        office = system.approvals._office
        await trio.sleep(0.5)
        assert list(office.owed.values()) == ["succeeded"]
        holder.close()
        await noted(tmp_path, ["succeeded"], 15)
        await until(lambda: not office.owed and not office.running)  # the row is there a moment before the desk has its answer


@pytest.mark.parametrize("after", [True, False], ids=["after its commit", "before it"])
async def test_a_spending_that_fails_leaves_nothing_that_seems_to_be_in_progress(
    after: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    effects: list[Any] = []
    async with system_on(tmp_path) as system:
        bank = await system.spawn(Bank, effects, name="bank")
        alice = alice_of(system)
        token = await approved(system, bank, alice)
        office = system.approvals._office
        asked = Office._ask_store

        async def fails(self: Office, work: Any) -> Any:
            if isinstance(work, Spend):
                if after:
                    await asked(self, work)
                raise StoreUnavailable("nobody knows", reason="unknown")
            return await asked(self, work)

        monkeypatch.setattr(Office, "_ask_store", fails)
        denied = await outcome(bank.ask(Pay("ACME", 40), context=alice, approvals=[token]))
        assert isinstance(denied, rt.Denied) and denied.reason == "store"
        assert effects == [] and not office.running and not office.owed
        assert None not in outcomes(tmp_path) and len(outcomes(tmp_path)) == after


async def test_what_this_process_has_spent_and_is_not_doing_is_found_though_it_lives(tmp_path: Path) -> None:
    async with system_on(tmp_path) as system:
        bank = await system.spawn(Bank, [], name="bank")
        alice = alice_of(system)
        token = await approved(system, bank, alice)
        await bank.ask(Pay("ACME", 40), context=alice, approvals=[token])
        await noted(tmp_path, ["succeeded"])
        office = system.approvals._office
        with contextlib.closing(sqlite3.connect(tmp_path / "approvals.db")) as database, database:
            database.execute("UPDATE spent SET outcome = NULL")  # as if it had been lost for whatever reason
            jti = [one[0] for one in database.execute("SELECT jti FROM spent")]
        office.running.update(jti)
        from retinue.actors.approvals.works_spending import Tidy

        async def tidy() -> Any:
            store = await office.store()
            return await store.ask(Tidy(office.now_ms, "", office.owner, (*office.running, *office.owed)))

        assert await system._kernel.consult(tidy) == ()
        office.running.clear()
        assert [row["jti"] for row in await system._kernel.consult(tidy)] == jti
        assert [one.jti for one in await system.approvals.indeterminate()] == jti
