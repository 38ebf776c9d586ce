"""Fact B8 of the seed turned round: where the desk's file cannot be used (a full disk, read-only, deleted, replaced, locked), the call is refused with a typed error
and nothing is run; once that is mended, it works again.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

import retinue as rt
from approval_bank import Bank, Pay, alice_of, outcome, request_for, system_on
from odd_disks import disk_of, without_rights
from retinue.actors.approvals.tables import FILE
from retinue.actors.approvals.works_asking import Ask
from retinue.actors.approvals.works_spending import NoteOutcome, Spend


def store_refusal(found: Any) -> str:
    """The reason of the StoreUnavailable behind a refusal."""
    assert isinstance(found, rt.Denied) and found.reason == "store", found
    assert isinstance(found.__cause__, rt.StoreUnavailable)
    return found.__cause__.reason


class Counter:
    """A system with a bank on a folder."""

    def __init__(self, folder: Path, system: rt.ActorSystem, bank: rt.Ref[Bank], effects: list[Any]) -> None:
        self.folder = folder
        self.path = folder / FILE
        self.system = system
        self.bank = bank
        self.effects = effects
        self.alice = alice_of(system)

    async def pay(self, amount: int, *tokens: str) -> Any:
        return await outcome(self.bank.ask(Pay("ACME", amount), context=self.alice, approvals=tokens))

    async def approved(self, amount: int) -> str:
        request = await request_for(self.bank, Pay("ACME", amount), self.alice)
        return await self.system.approvals.approve(request.id, reviewer="bob")


def remove(path: Path, *suffixes: str) -> None:
    for suffix in suffixes:
        Path(f"{path}{suffix}").unlink()


async def found_new(counter: Counter, token: str) -> rt.ApprovalRequired:
    """What asking with the token gives when the file is another. Whoever looks first finds it gone, the asker or the desk, which looks now and then."""
    found = await counter.pay(40, token)
    if not isinstance(found, rt.ApprovalRequired):
        assert store_refusal(found) == "gone"
        found = await counter.pay(40, token)
    assert isinstance(found, rt.ApprovalRequired) and counter.effects == []
    return found


async def at_counter(folder: Path, use: Callable[[Counter], Any]) -> None:
    effects: list[Any] = []
    async with system_on(folder) as system:
        await use(Counter(folder, system, await system.spawn(Bank, effects, name="bank"), effects))


async def test_a_deleted_file_refuses_and_a_new_one_knows_no_old_approval(tmp_path: Path) -> None:
    async def use(counter: Counter) -> None:
        token = await counter.approved(40)
        remove(counter.path, "", "-wal", "-shm")
        again = await found_new(counter, token)
        assert await counter.pay(40, await counter.system.approvals.approve(again.request.id, reviewer="bob")) == "paid 40 to ACME"

    await at_counter(tmp_path, use)


async def test_a_file_that_was_put_back_from_a_copy_is_taken_for_what_it_is(tmp_path: Path) -> None:
    async def use(counter: Counter) -> None:
        await counter.approved(1)
        connection = sqlite3.connect(counter.path)
        connection.execute("VACUUM INTO ?", (str(tmp_path / "copy.db"),))
        connection.close()
        token = await counter.approved(40)
        (tmp_path / "copy.db").rename(counter.path)
        remove(counter.path, "-wal", "-shm")
        again = await found_new(counter, token)  # the copy has no such request
        assert await counter.system.approvals.pending() == (again.request,)

    await at_counter(tmp_path, use)


async def test_a_file_of_something_else_is_left_alone_and_refuses(tmp_path: Path) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / FILE)) as other, other:
        other.execute("CREATE TABLE things (a)")
    other.close()

    async def use(counter: Counter) -> None:
        for _ in range(2):
            assert store_refusal(await counter.pay(40)) == "foreign"
        with pytest.raises(rt.StoreUnavailable):
            await counter.system.approvals.pending()
        remove(counter.path, "")
        assert isinstance(await counter.pay(40), rt.ApprovalRequired)
        assert counter.effects == []

    await at_counter(tmp_path, use)


async def test_a_folder_that_cannot_be_made_refuses(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file", encoding="utf-8")

    async def use(counter: Counter) -> None:
        store_refusal(await counter.pay(40))
        (tmp_path / "taken").unlink()
        assert isinstance(await counter.pay(40), rt.ApprovalRequired)
        assert counter.effects == []

    await at_counter(tmp_path / "taken", use)


@pytest.mark.slow
async def test_a_file_that_another_process_holds_refuses_until_it_lets_go(tmp_path: Path) -> None:
    async def use(counter: Counter) -> None:
        token = await counter.approved(40)
        holder = sqlite3.connect(counter.path, isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        assert store_refusal(await counter.pay(40, token)) == "locked"
        assert counter.effects == []
        holder.execute("ROLLBACK")
        holder.close()
        assert await counter.pay(40, token) == "paid 40 to ACME"

    await at_counter(tmp_path, use)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 600 KiB."""
    with disk_of(tmp_path / "disk", 600) as place:
        yield place


async def test_a_full_disk_refuses_and_keeps_the_approval_for_when_there_is_room(small_disk: Path) -> None:
    async def use(counter: Counter) -> None:
        token = await counter.approved(40)
        ballast = small_disk / "ballast"
        with ballast.open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4_096))
            except OSError:
                pass
        reasons = []
        for amount in range(41, 200):
            found = await counter.pay(amount)  # each makes a request, until there is no room for one
            if isinstance(found, rt.Denied):
                reasons.append(store_refusal(found))
                break
        assert reasons == ["full_disk"]
        assert store_refusal(await counter.pay(40, token)) == "full_disk"
        assert counter.effects == []
        ballast.unlink()
        assert await counter.pay(40, token) == "paid 40 to ACME"
        found = await counter.pay(40, token)
        assert isinstance(found, rt.Denied) and found.reason == "spent" and len(counter.effects) == 1

    await at_counter(small_disk, use)


def test_a_file_that_is_read_only_refuses_and_works_again_when_it_may_be_written(tmp_path: Path) -> None:
    token = ""

    async def approve(counter: Counter) -> None:
        nonlocal token
        token = await counter.approved(40)

    trio.run(at_counter, tmp_path, approve)
    files = [path for path in tmp_path.iterdir() if path.is_file()]
    for path in files:
        path.chmod(0o444)
    tmp_path.chmod(0o555)

    def scene() -> str:
        found: list[str] = []

        async def use(counter: Counter) -> None:
            found.append(store_refusal(await counter.pay(41)))
            found.append(str(counter.effects))

        trio.run(at_counter, tmp_path, use)
        return " ".join(found)

    assert without_rights(scene) == "read_only []"
    tmp_path.chmod(0o755)
    for path in files:
        path.chmod(0o644 if path.suffix == ".pub" else 0o600)

    async def redeem(counter: Counter) -> None:
        assert await counter.pay(40, token) == "paid 40 to ACME"

    trio.run(at_counter, tmp_path, redeem)


@pytest.mark.parametrize("work", [Ask, Spend], ids=lambda work: work.__name__)
async def test_a_store_that_fails_in_any_other_way_refuses_and_recovers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, work: type[Any]
) -> None:
    async def use(counter: Counter) -> None:
        token = await counter.approved(40)
        with monkeypatch.context() as broken:

            def run(self: Any, database: Any) -> Any:
                raise RuntimeError("a fault of ours")

            broken.setattr(work, "run", run)
            found = await counter.pay(*((41,) if work is Ask else (40, token)))
            assert isinstance(found, rt.Denied) and "a fault of ours" not in str(found)
            assert counter.effects == []
        assert await counter.pay(40, token) == "paid 40 to ACME"

    await at_counter(tmp_path, use)


async def test_an_outcome_that_cannot_be_noted_changes_no_answer_and_is_unknown_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(self: Any, database: Any) -> Any:
        raise sqlite3.OperationalError("a fault of ours")

    async def use(counter: Counter) -> None:
        monkeypatch.setattr(NoteOutcome, "run", run)
        assert await counter.pay(40, await counter.approved(40)) == "paid 40 to ACME"
        assert len(counter.effects) == 1

    await at_counter(tmp_path, use)
    monkeypatch.undo()

    async def look(counter: Counter) -> None:
        (left,) = await counter.system.approvals.indeterminate()
        assert left.operation == "payments.send"

    await at_counter(tmp_path, look)


async def test_whoever_watches_goes_on_with_the_file_that_took_the_place(tmp_path: Path) -> None:
    async def use(counter: Counter) -> None:
        for amount in range(3):
            await counter.approved(amount)
        watching = counter.system.approvals.watch(after=5)
        assert (await watching.__anext__()).kind == "approved"
        remove(counter.path, "", "-wal", "-shm")
        async with trio.open_nursery() as nursery:

            async def see() -> None:
                try:
                    event = await watching.__anext__()
                except rt.StoreUnavailable:  # it may be the one who finds the file gone, and may go on
                    event = await watching.__anext__()
                assert (event.number, event.kind) in ((1, "requested"), (2, "requested"), (3, "approved"))

            nursery.start_soon(see)
            await trio.sleep(0.6)
            await found_new(counter, "")
            await trio.sleep(0.6)
            found = await counter.pay(41)
            assert isinstance(found, rt.ApprovalRequired)
            await counter.system.approvals.approve(found.request.id, reviewer="bob")

    with trio.fail_after(30):
        await at_counter(tmp_path, use)
