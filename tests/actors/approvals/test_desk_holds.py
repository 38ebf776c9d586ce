"""What keeps the desk from deciding, or from being asked: a folder that is locked, keys that are gone, hooks that never come back, very many at once."""

from __future__ import annotations

import collections
import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

import retinue as rt
from approval_bank import Bank, Pay, alice_of, outcome, request_for, system_on
from retinue.actors.approvals import office as offices
from retinue.actors.approvals.office import Office
from retinue.capabilities.consent import Consent, Question
from retinue.security import approval_keys, private_files


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


async def test_a_folder_that_another_process_locks_keeps_nobody_from_rejecting_and_the_system_from_ending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(private_files, "PATIENCE", 2.5)
    async with system_on(tmp_path) as system:
        bank = await system.spawn(Bank, [], name="bank")
        alice = alice_of(system)
        requests = [await request_for(bank, Pay("ACME", amount), alice) for amount in (1, 2)]
        with locked(tmp_path):
            found: list[Any] = []
            async with trio.open_nursery() as nursery:

                async def approve() -> None:
                    found.append(await outcome(system.approvals.approve(requests[0].id, reviewer="bob")))

                nursery.start_soon(approve)
                await trio.sleep(0.05)
                with trio.fail_after(2.4):
                    await system.approvals.reject(requests[1].id, reviewer="bob")
                assert found == []
            assert isinstance(found[0], rt.KeyFileError) and "lock" in str(found[0])
            with trio.move_on_after(0.2) as scope:
                await system.approvals.approve(requests[0].id, reviewer="bob")
            assert scope.cancelled_caught
            began = trio.current_time()
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(approve)
                    await trio.sleep(0.05)
                    scope.cancel()
    assert trio.current_time() - began < 20


@pytest.mark.parametrize("function", [approval_keys.open_signing, approval_keys.rotate])
def test_a_key_that_is_locked_is_not_waited_for_without_end(function: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private_files, "PATIENCE", 0.1)
    approval_keys.open_signing(tmp_path)
    with locked(tmp_path), pytest.raises(rt.KeyFileError, match="lock"):
        function(tmp_path)
    function(tmp_path)


@pytest.mark.parametrize("kind", ["token", "standing"])
async def test_what_is_signed_with_a_key_that_was_taken_away_meanwhile_is_not_spent(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    effects: list[Any] = []
    async with system_on(tmp_path) as system:
        bank = await system.spawn(Bank, effects, name="bank")
        alice = alice_of(system)
        tokens = []
        if kind == "token":
            request = await request_for(bank, Pay("ACME", 40), alice)
            tokens.append(await system.approvals.approve(request.id, reviewer="bob"))
        else:
            await system.approvals.always_allow("payments.send", reviewer="bob", subject="alice", expires_seconds=60, open=True)
        spend = Office.spend

        async def rotated(self: Office, question: Question, consent: Consent) -> None:
            approval_keys.rotate(tmp_path, keep=0)
            await spend(self, question, consent)

        monkeypatch.setattr(Office, "spend", rotated)
        denied = await outcome(bank.ask(Pay("ACME", 40), context=alice, approvals=tokens))
        assert isinstance(denied, rt.Denied) and denied.reason == "approval"
        assert denied.__cause__.reason == "unknown_key"  # type: ignore[union-attr]
        assert effects == []
        assert (await system.approvals.statistics()).spent == 0


async def test_hooks_that_never_come_back_keep_nobody_from_the_person(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offices, "MAX_REVIEWERS", 3)
    over = threading.Event()
    asked: list[str] = []

    def reviewer(request: rt.ApprovalRequest) -> Any:
        asked.append(request.id)
        over.wait(20)

    try:
        async with system_on(reviewer=reviewer, reviewer_timeout=2) as system:
            bank = await system.spawn(Bank, [], name="bank")
            alice = alice_of(system)
            async with trio.open_nursery() as nursery:
                for amount in range(3):
                    nursery.start_soon(request_for, bank, Pay("ACME", amount), alice)
            with trio.fail_after(1.9):  # nobody waits for a hook that was not asked
                await request_for(bank, Pay("ACME", 3), alice)
            assert len(asked) == 3
            over.set()  # they come back, late
            with trio.fail_after(60):
                while len(asked) < 4:
                    await request_for(bank, Pay("ACME", 100 + len(asked)), alice)
                    await trio.sleep(0.01)
            assert len(await system.approvals.pending()) >= 5
    finally:
        over.set()


@pytest.mark.slow
async def test_very_many_at_once_are_each_told_what_holds_and_the_desk_goes_on(tmp_path: Path) -> None:
    counts: collections.Counter[str] = collections.Counter()
    async with system_on(tmp_path) as system:
        banks = [await system.spawn(Bank, [], name=f"bank{number}") for number in range(1_400)]
        alice = alice_of(system)

        async def ask(number: int) -> None:
            error = await outcome(banks[number].ask(Pay("ACME", number), context=alice, timeout=60))
            counts[f"{type(error).__name__} {getattr(error, 'reason', '')}"] += 1

        async with trio.open_nursery() as nursery:
            for number in range(1_400):
                nursery.start_soon(ask, number)
            while not (waiting := await system.approvals.find(limit=1)):
                await trio.sleep(0.01)
            first = waiting[0]
            await system.approvals.reject(first.id, reviewer="bob")
        assert set(counts) <= {"ApprovalRequired ", "Denied approval", "Denied rejected"}, counts
        assert counts["ApprovalRequired "] >= 1_000
