"""An older file in the place of the one that was used last: from a backup, while the system runs or while it does not, or without its log. Nothing is done twice."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import signal
import sqlite3
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

import retinue as rt
from approval_bank import Bank, Pay, alice_of, outcome, request_for, system_on
from retinue.actors.approvals import witness
from retinue.actors.approvals.offline import ApprovalsFile
from retinue.actors.approvals.tables import FILE, SCHEMA
from retinue.actors.approvals.witness import Renew, Witness, check_witness, count_use, read_witness, write_witness
from retinue.actors.store.errors import StoreUnavailable
from retinue.actors.store.session import Session
from retinue.actors.store.work import Work
from retinue.mailbox.messages import message

ACME = Pay("ACME", 40)


def back_up(folder: Path, to: Path) -> None:
    with contextlib.closing(sqlite3.connect(folder / FILE)) as source, contextlib.closing(sqlite3.connect(to)) as target:
        source.backup(target)


def put_back(folder: Path, backup: Path) -> None:
    for path in folder.glob(f"{FILE}*"):
        path.unlink(missing_ok=True)  # a desk that looks takes its -wal and -shm away itself
    shutil.copy2(backup, folder / FILE)


def overwrite(folder: Path, backup: Path) -> None:
    fresh = folder / "fresh"
    shutil.copy2(backup, fresh)
    fresh.rename(folder / FILE)


def remove_the_witness_too(folder: Path, backup: Path) -> None:
    (folder / witness.FILE).unlink()
    put_back(folder, backup)


def remove_the_log(folder: Path, _: Path) -> None:
    for suffix in ("-wal", "-shm"):
        (folder / f"{FILE}{suffix}").unlink(missing_ok=True)


@pytest.mark.parametrize("replace", [put_back, overwrite, remove_the_witness_too])
@pytest.mark.parametrize("running", [True, False], ids=["running", "ended"])
async def test_a_backup_that_is_put_back_makes_nothing_good_again(
    replace: Callable[[Path, Path], None], running: bool, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    effects: list[Any] = []
    backup = tmp_path_factory.mktemp("backup") / FILE
    async with system_on(tmp_path) as system:
        bank, alice = await system.spawn(Bank, effects, name="bank"), alice_of(system)
        request = await request_for(bank, ACME, alice)
        token = await system.approvals.approve(request.id, reviewer="bob")
        always = await system.approvals.always_allow("payments.send", reviewer="bob", subject="alice", expires_seconds=9_999, open=True)
        back_up(tmp_path, backup)
        assert await bank.ask(ACME, context=alice, approvals=[token]) == "paid 40 to ACME"
        await system.approvals.withdraw(always.id, reviewer="bob")
        if running:
            replace(tmp_path, backup)
            await nothing_is_good(system, bank, alice, token)
    if not running:
        replace(tmp_path, backup)
        async with system_on(tmp_path) as system:
            bank, alice = await system.spawn(Bank, effects, name="bank"), alice_of(system)
            await nothing_is_good(system, bank, alice, token)
    assert len(effects) == 1 or effects[1:] == [("ACME", 41, effects[-1][2])]


async def nothing_is_good(system: rt.ActorSystem, bank: Any, alice: rt.SecurityContext, token: str) -> None:
    for _ in range(4):
        refused = await outcome(bank.ask(ACME, context=alice, approvals=[token]))
        assert isinstance(refused, rt.Denied | rt.ApprovalRequired), refused
        await trio.sleep(0.05)
    assert isinstance(await outcome(bank.ask(Pay("MALLORY", 1), context=alice)), rt.ApprovalRequired)
    assert await system.approvals.standing() == ()
    # What is approved from now on is good.
    request = await request_for(bank, Pay("ACME", 41), alice)
    fresh = await system.approvals.approve(request.id, reviewer="bob")
    assert await bank.ask(Pay("ACME", 41), context=alice, approvals=[fresh]) == "paid 41 to ACME"


async def test_where_the_witness_was_put_back_too_a_running_system_still_knows(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    effects: list[Any] = []
    backup = tmp_path_factory.mktemp("backup")
    async with system_on(tmp_path) as system:
        bank, alice = await system.spawn(Bank, effects, name="bank"), alice_of(system)
        request = await request_for(bank, ACME, alice)
        token = await system.approvals.approve(request.id, reviewer="bob")
        always = await system.approvals.always_allow("payments.odd", reviewer="bob", subject="alice", expires_seconds=9_999, open=True)
        back_up(tmp_path, backup / FILE)
        shutil.copy2(tmp_path / witness.FILE, backup)
        await bank.ask(ACME, context=alice, approvals=[token])
        await system.approvals.withdraw(always.id, reviewer="bob")
        shutil.copy2(backup / witness.FILE, tmp_path)
        put_back(tmp_path, backup / FILE)
        for _ in range(4):
            assert isinstance(await outcome(bank.ask(ACME, context=alice, approvals=[token])), rt.Denied | rt.ApprovalRequired)
        assert await system.approvals.standing() == ()
    assert len(effects) == 1


DIES = """
import os, sqlite3, sys, signal, retinue as rt
from approval_bank import Bank, Pay, alice_of, request_for, system_on
from pathlib import Path

class Dies(Bank):
    @rt.handler(requires="payments.send", approval=True)
    async def pay(self, message: Pay) -> str:
        os.kill(os.getpid(), signal.SIGKILL)

async def main():
    async with system_on(Path(sys.argv[1])) as system:
        bank, alice = await system.spawn(Dies, [], name="bank"), alice_of(system)
        request = await request_for(bank, Pay("ACME", 40), alice)
        token = await system.approvals.approve(request.id, reviewer="bob")
        print(token, flush=True)
        sqlite3.connect(Path(sys.argv[1]) / "approvals.db").execute("PRAGMA wal_checkpoint(passive)")
        await bank.ask(Pay("ACME", 40), context=alice, approvals=[token])

rt.run(main)
"""


async def test_after_a_kill_a_log_that_is_lost_makes_nothing_good_again(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    died = await trio.run_process(
        [sys.executable, "-c", DIES, str(tmp_path)], check=False, capture_stdout=True, capture_stderr=True, env=environment
    )
    assert died.returncode == -signal.SIGKILL, died.stderr
    remove_the_log(tmp_path, tmp_path)
    effects: list[Any] = []
    async with system_on(tmp_path) as system:
        bank, alice = await system.spawn(Bank, effects, name="bank"), alice_of(system)
        refused = await outcome(bank.ask(ACME, context=alice, approvals=[str(died.stdout, "utf-8").strip()]))
        assert isinstance(refused, rt.Denied | rt.ApprovalRequired)
        events = [event.kind for event in (await system.approvals._changes(0))[1]]
        assert "older file" in events
    assert effects == []


async def test_an_older_file_is_told_in_the_log_and_the_audit_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with system_on(tmp_path) as system:
        bank, alice = await system.spawn(Bank, [], name="bank"), alice_of(system)
        request = await request_for(bank, ACME, alice)
        token = await system.approvals.approve(request.id, reviewer="bob")
        back_up(tmp_path, tmp_path / "backup")
        await bank.ask(ACME, context=alice, approvals=[token])
    put_back(tmp_path, tmp_path / "backup")
    with caplog.at_level(logging.ERROR, "retinue.approvals"), ApprovalsFile(tmp_path) as file:
        request, row = file.get(request.id)
        assert row["void"]
        assert caplog.text.count("not the one that was used last") == 1
    async with system_on(tmp_path) as system:
        await system.approvals.pending()
        await trio.sleep(0.3)
        reasons = [entry.reason for entry in await system.audit.entries()]
        assert caplog.text.count("not the one that was used last") == 1  # the command line has dealt with it
        assert reasons.count("older file") <= 1


# -- the witness itself ------------------------------------------------------------------------------------------------------------------------------------


@message(name="older-files-test/Use@1")
class Use(Work[None]):
    after_commit = staticmethod(write_witness)

    def run(self, database: Any) -> None:
        check_witness(database)
        count_use(database)


def test_one_commit_writes_the_witness_once_whatever_is_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[int] = []
    real = os.fdatasync
    monkeypatch.setattr(os, "fdatasync", lambda descriptor: (written.append(descriptor), real(descriptor))[1])
    with Session(tmp_path / FILE, SCHEMA) as session:
        assert all(outcome.error is None for outcome in session.run([Use() for _ in range(50)]))
        assert len(written) == 2  # the first one ever has made it
        session.run([Use() for _ in range(50)])
        assert len(written) == 3
        seen = read_witness(tmp_path)
        assert seen is not None and seen.uses == 100
        assert (tmp_path / witness.FILE).stat().st_mode & 0o777 == 0o600
        session.do(Use())
        assert read_witness(tmp_path) == Witness(seen.file, 101)
        assert session.do(Renew(0)) is None


def test_where_the_witness_cannot_be_written_nothing_is_known_to_be_spent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with Session(tmp_path / FILE, SCHEMA) as session:
        session.do(Use())
        monkeypatch.setattr(os, "fdatasync", full)
        with pytest.raises(StoreUnavailable) as caught:
            session.do(Use())
        assert caught.value.reason == "unknown"
        monkeypatch.undo()
        session.do(Use())


@given(data=st.one_of(st.binary(max_size=80), st.text(alphabet="0123456789abcdef retinue-approvals-seen/1", max_size=90).map(str.encode)))
def test_a_witness_that_says_anything_else_is_nobodys(data: bytes) -> None:
    assert witness._parsed(data) in (None, Witness(0, 0))


@given(st.integers(1, 2**62), st.integers(0, 10**18))
def test_a_witness_reads_as_it_was_written(file: int, uses: int) -> None:
    written = witness._written(Witness(file, uses))
    assert witness._parsed(written) == Witness(file, uses)
    assert all(witness._parsed(written[:cut]) in (None, Witness(0, 0)) for cut in range(len(written)))


@pytest.mark.parametrize("damage", [b"", b"\0" * 71, b"retinue"])
def test_a_damaged_witness_voids_what_was_before_once(damage: bytes, tmp_path: Path) -> None:
    with Session(tmp_path / FILE, SCHEMA) as session:
        session.do(Use())
        (tmp_path / witness.FILE).write_bytes(damage)
        with pytest.raises(rt.ApprovalError) as caught:
            session.do(Use())
        assert caught.value.reason == "store"
        session.do(Renew(0))  # of a file with nothing in it, so there is nothing to tell
        session.do(Use())
        assert session.do(Renew(0)) is None


def test_several_processes_never_take_each_other_for_an_older_file(tmp_path: Path) -> None:
    failures: list[BaseException] = []

    def use() -> None:
        with Session(tmp_path / FILE, SCHEMA, busy_timeout=20) as session:
            for _ in range(30):
                try:
                    session.do(Use())
                    assert session.do(Renew(0)) is None
                except BaseException as error:
                    failures.append(error)

    threads = [threading.Thread(target=use) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    seen = read_witness(tmp_path)
    assert seen is not None and seen.uses == 120


def test_a_witness_that_somebody_locks_is_not_waited_for_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import fcntl

    monkeypatch.setattr(witness, "PATIENCE", 0.05)
    with Session(tmp_path / FILE, SCHEMA) as session:
        session.do(Use())
        with (tmp_path / witness.FILE).open("rb") as holder:
            fcntl.flock(holder, fcntl.LOCK_EX)
            with pytest.raises(StoreUnavailable):
                session.do(Use())
        session.do(Use())
