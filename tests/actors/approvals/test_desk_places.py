"""The folder and the files of approvals are one user's: what others can use is refused, or taken from them."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

import retinue as rt
from approval_bank import Bank, Pay, alice_of, outcome, request_for, system_on
from retinue.actors.approvals.offline import ApprovalsFile
from retinue.actors.store.errors import StoreUnavailable
from retinue.security import approval_keys


def modes(folder: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.lstat().st_mode) for path in folder.iterdir()}


async def test_a_folder_that_everybody_can_write_in_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    folder.chmod(0o777)
    async with system_on(folder) as system:
        bank = await system.spawn(Bank, [], name="bank")
        denied = await outcome(bank.ask(Pay("ACME", 40), context=alice_of(system)))
        assert isinstance(denied, rt.Denied) and denied.reason == "store" and "chmod 700" in str(denied)
        folder.chmod(0o700)
        await request_for(bank, Pay("ACME", 40), alice_of(system))
        folder.chmod(0o777)
        with pytest.raises(StoreUnavailable, match="chmod 700"), ApprovalsFile(folder) as file:
            file.find(None)


async def test_files_that_others_could_use_are_taken_from_them_and_that_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with system_on(tmp_path) as system:
        bank = await system.spawn(Bank, [], name="bank")
        request = await request_for(bank, Pay("ACME", 40), alice_of(system))
    (tmp_path / "approvals.db").chmod(0o666)
    async with system_on(tmp_path) as system:
        assert (await system.approvals.get(request.id)).status == "pending"
        assert modes(tmp_path)["approvals.db"] == 0o600
    assert "could be used by others" in caplog.text
    (tmp_path / "approvals.db").chmod(0o644)
    with ApprovalsFile(tmp_path) as file:
        assert len(file.find(None)) == 1
    assert modes(tmp_path)["approvals.db"] == 0o600


async def test_all_that_is_made_is_the_users_alone_but_for_what_is_public(tmp_path: Path) -> None:
    (tmp_path / "approvals.db").write_bytes(b"no database, but something that was one once" * 200)
    async with system_on(tmp_path) as system:
        bank, alice = await system.spawn(Bank, [], name="bank"), alice_of(system)
        request = await request_for(bank, Pay("ACME", 40), alice)
        token = await system.approvals.approve(request.id, reviewer="bob")
        await bank.ask(Pay("ACME", 40), context=alice, approvals=[token])
        found = modes(tmp_path)
        assert any(name.endswith(".reason.txt") for name in found)
        damaged = {name for name in found if name.startswith("approvals.db.damaged") and not name.endswith(".txt")}
        assert {name for name, mode in found.items() if mode & 0o077} - damaged == {"approvals.pub"}
        assert {mode & 0o022 for mode in found.values()} == {0}


@pytest.mark.parametrize("times", [1, 3])
def test_an_old_private_key_that_is_copied_back_signs_nothing(times: int, tmp_path: Path) -> None:
    old = approval_keys.open_signing(tmp_path)
    kept = (tmp_path / "approvals.key").read_bytes()
    for _ in range(times):
        approval_keys.rotate(tmp_path, keep=0)
    (tmp_path / "approvals.key").write_bytes(kept)
    with pytest.raises(rt.KeyFileError, match="taken out of trust"):
        approval_keys.open_signing(tmp_path)
    assert approval_keys.load_verifying(tmp_path).find(old.kid) is None
    (tmp_path / "approvals.key").unlink()
    fresh = approval_keys.open_signing(tmp_path)
    assert approval_keys.load_verifying(tmp_path).find(fresh.kid) is not None
    assert approval_keys.load_verifying(tmp_path).find(old.kid) is None


def test_a_key_that_is_kept_by_a_rotation_can_be_copied_back(tmp_path: Path) -> None:
    old = approval_keys.open_signing(tmp_path)
    kept = (tmp_path / "approvals.key").read_bytes()
    approval_keys.rotate(tmp_path, keep=1)
    (tmp_path / "approvals.key").write_bytes(kept)
    assert approval_keys.open_signing(tmp_path).kid == old.kid


@pytest.mark.parametrize("line", ["revoked", "revoked xyz", "revoked 0123", "revoked 0123456789ABCDEF"])
def test_a_file_of_keys_with_an_odd_line_is_malformed(line: str, tmp_path: Path) -> None:
    approval_keys.open_signing(tmp_path)
    with (tmp_path / "approvals.pub").open("a", encoding="ascii") as file:
        file.write(line + "\n")
    with pytest.raises(rt.KeyFileError, match="malformed"):
        approval_keys.load_verifying(tmp_path)


def test_a_file_that_trusts_a_revoked_key_is_malformed(tmp_path: Path) -> None:
    key = approval_keys.open_signing(tmp_path)
    with (tmp_path / "approvals.pub").open("a", encoding="ascii") as file:
        file.write(f"revoked {key.kid}\n")
    with pytest.raises(rt.KeyFileError):
        approval_keys.load_verifying(tmp_path)
