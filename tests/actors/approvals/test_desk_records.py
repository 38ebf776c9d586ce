"""What the audit says about decisions: each once, by whom it was, also after a restart; and a row of a consent stands for the consent that was signed, and no other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio

import retinue as rt
from approval_bank import Bank, Pay, alice_of, request_for
from retinue.actors.approvals import desk as desks
from retinue.actors.approvals.offline import ApprovalsFile
from retinue.actors.approvals.standing_rows import StandingReader, standing_row
from retinue.actors.approvals.works_asking import Mark
from retinue.security.approval_keys import SigningKey
from retinue.security.standing import StandingConsent, sign_standing


def system_at(folder: Path) -> rt.ActorSystem:
    return rt.ActorSystem("bank", data_dir=folder, block_warning=float("inf"))


async def decisions(system: rt.ActorSystem) -> list[tuple[str, str]]:
    await system.approvals.pending()
    await trio.sleep(0.3)
    import json

    lines = (Path(system.approvals._office.folder or "") / "audit.jsonl").read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    return [(one["reason"], one["detail"]) for one in records if one.get("kind") == "approval"]


@pytest.mark.parametrize("killed", [False, True], ids=["ended", "killed before it was marked"])
async def test_a_decision_is_recorded_once_however_often_the_system_starts(
    killed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with system_at(tmp_path) as system:
        if killed:  # what has happened is not dealt with before the end
            monkeypatch.setattr(desks, "Mark", lambda name, number=0: Mark(name))
        bank, alice = await system.spawn(Bank, [], name="bank"), alice_of(system)
        first, second = [await request_for(bank, Pay("ACME", amount), alice) for amount in (1, 2)]
        await system.approvals.approve(first.id, reviewer="bob", asserted=False)
        await system.approvals.reject(second.id, reviewer="bob")
        before = await decisions(system)
        assert [reason for reason, _ in before] == ["approved", "rejected"]
        assert "asserted" not in before[0][1] and "asserted" in before[1][1]
    monkeypatch.undo()
    for _ in range(2):
        async with system_at(tmp_path) as system:
            assert await decisions(system) == before


async def test_a_decision_of_another_process_is_recorded_once_too_and_is_asserted_where_it_was(tmp_path: Path) -> None:
    async with system_at(tmp_path) as system:
        bank, alice = await system.spawn(Bank, [], name="bank"), alice_of(system)
        request = await request_for(bank, Pay("ACME", 1), alice)
        await system.approvals.pending()
    with ApprovalsFile(tmp_path) as file:
        file.approve(request.id, reviewer="bob")
    for _ in range(2):
        async with system_at(tmp_path) as system:
            ((reason, detail),) = await decisions(system)
            assert reason == "approved" and "in another process" in detail and "(asserted)" in detail


async def test_what_another_system_was_shown_a_proof_for_is_not_recorded_as_asserted(tmp_path: Path) -> None:
    async with system_at(tmp_path) as system, system_at(tmp_path) as other:
        bank, alice = await system.spawn(Bank, [], name="bank"), alice_of(system)
        request = await request_for(bank, Pay("ACME", 1), alice)
        await decisions(system)
        await other.approvals.approve(request.id, reviewer="bob", asserted=False)
        with trio.fail_after(10):
            while not (found := await decisions(system)):
                system.approvals._office.kernel.household.note(system.approvals._office._poke)
        assert "in another process" in found[0][1] and "asserted" not in found[0][1]


def test_a_row_is_believed_only_under_the_id_that_was_signed() -> None:
    key = SigningKey.ephemeral()
    consent = StandingConsent.new("payments.*", approver="bob", now_ms=1, lifetime_ms=1_000, subject="alice", open=True)
    row: dict[str, Any] = standing_row(consent, sign_standing(key, consent))
    reader = StandingReader()
    assert reader.read(row, key.verifying) == consent
    assert reader.kid_of(consent) == key.kid
    assert reader.read({**row, "id": "aps_another"}, key.verifying) is None
