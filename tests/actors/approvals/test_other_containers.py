"""Containers number their processes each on its own: what was interrupted in one of them is found from another, and what cannot be known is a person's to find out."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import trio

import retinue as rt
from approval_bank import Bank, Pay, alice_of, outcome, request_for, system_on
from retinue.actors.approvals.owners import FOLDER, new_owner

DIES = """
import os, sys, retinue as rt

@rt.message(name="approvals-test/Pay@1")
class Pay(rt.Request[str]):
    to: str
    amount: int

class Bank(rt.Actor):
    @rt.handler(requires="payments.send", approval=True)
    async def pay(self, message: Pay) -> str:
        os._exit(9)

async def main():
    async with rt.ActorSystem("bank", data_dir=sys.argv[1], audit=False) as system:
        bank = await system.spawn(Bank, name="bank")
        try:
            await bank.ask(Pay("ACME", 40))
        except rt.ApprovalRequired as required:
            token = await system.approvals.approve(required.request.id, reviewer="bob")
        await bank.ask(Pay("ACME", 40), approvals=[token])

rt.run(main)
"""

UNSHARE = [shutil.which("unshare") or "unshare", "--pid", "--fork", "--mount-proc"]


def containers() -> bool:
    try:
        return subprocess.run([*UNSHARE, "true"], capture_output=True, timeout=10, check=False).returncode == 0
    except OSError:
        return False


@pytest.mark.skipif(not containers(), reason="this machine lets nobody make a space of process numbers")
async def test_what_was_interrupted_in_another_container_is_found(tmp_path: Path) -> None:
    died = await trio.run_process([*UNSHARE, sys.executable, "-c", DIES, str(tmp_path)], check=False, capture_stderr=True)
    assert died.returncode == 9, died.stderr
    async with system_on(tmp_path) as system:
        (left,) = await system.approvals.indeterminate()
        assert (left.operation, left.audience) == ("payments.send", "/user/bank")
        await system.approvals.resolve(left.jti, "succeeded", reviewer="bob")
        assert await system.approvals.indeterminate() == ()


@pytest.mark.parametrize("known", [True, False], ids=["its lock is held", "nothing is known"])
async def test_what_nobody_can_know_is_listed_told_and_resolved(known: bool, tmp_path: Path) -> None:
    async with system_on(tmp_path) as system:
        bank = await system.spawn(Bank, [], name="bank")
        alice = alice_of(system)
        request = await request_for(bank, Pay("ACME", 40), alice)
        token = await system.approvals.approve(request.id, reviewer="bob")
        await bank.ask(Pay("ACME", 40), context=alice, approvals=[token])
        await system.approvals.always_allow("payments.send", reviewer="bob", subject="alice", expires_seconds=60, open=True)
        owner = system.approvals._office.owner
        elsewhere = new_owner().replace("+", "+1", 1)
        with trio.fail_after(30):  # how it ended is written beside the answer, and must not come after what is written here
            while not outcome_is_noted(tmp_path):
                await trio.sleep(0.01)
        with contextlib.closing(sqlite3.connect(tmp_path / "approvals.db")) as database, database:
            database.execute("DROP TRIGGER what_is_spent_stays_spent")
            database.execute("UPDATE spent SET outcome = NULL, owner = ?", (elsewhere,))
        if known:
            from retinue.actors.approvals.owners import _lock_of

            _lock_of(tmp_path, elsewhere).hardlink_to(_lock_of(tmp_path, owner))
        left = await system.approvals.indeterminate()
        again = await outcome(bank.ask(Pay("ACME", 40), context=alice))
        settled = await outcome(resolve(system, request.id))
        if known:
            assert left == () and again == "paid 40 to ACME" and isinstance(settled, rt.ApprovalError)
        else:
            assert len(left) == 1 and isinstance(again, rt.ApprovalRequired) and settled is None
            assert any("interrupted" in reason for reason in again.request.reasons)
            assert await system.approvals.indeterminate() == ()


def outcome_is_noted(folder: Path) -> bool:
    with contextlib.closing(sqlite3.connect(folder / "approvals.db")) as database:
        (noted,) = database.execute("SELECT outcome FROM spent").fetchone()
    return noted is not None


async def resolve(system: rt.ActorSystem, request_id: str) -> Any:
    with contextlib.closing(sqlite3.connect(Path(system.approvals._office.folder or "") / "approvals.db")) as database, database:
        (jti,) = database.execute("SELECT jti FROM spent WHERE request_id = ?", (request_id,)).fetchone()
    return await system.approvals.resolve(jti, "succeeded", reviewer="bob")


async def test_the_end_of_a_system_leaves_no_file_of_its_owner(tmp_path: Path) -> None:
    async with system_on(tmp_path) as system:
        await system.approvals.pending()
        assert len(list((tmp_path / FOLDER).iterdir())) == 1
    assert list((tmp_path / FOLDER).iterdir()) == []
