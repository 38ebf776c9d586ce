"""A file that is taken away, cannot be written, is held by somebody else or does not fit: refused with the reason, and it works again when that is over."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trio

import retinue as rt
import store_works
from odd_disks import disk_of, without_rights
from retinue.actors.store.errors import StoreUnavailable
from retinue.actors.store.session import Session
from retinue.actors.store.store import Statistics, Store
from store_works import NOTES, Add, AddFull, Big, Count, Texts, texts_in

PROGRAM = store_works.__file__


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 400 KiB."""
    with disk_of(tmp_path / "disk", 400) as place:
        yield place


def refusal(function: Callable[[], object]) -> str:
    try:
        return f"done: {function()}"
    except StoreUnavailable as error:
        return error.reason


def once(path: Path, text: str) -> int:
    with Session(path, NOTES) as session:
        return session.do(Add(text))


# -- taken away ------------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffixes", [("",), ("", "-wal", "-shm")], ids=["the file", "all of it"])
async def test_a_file_that_was_removed_while_open_is_noticed_and_nothing_is_acknowledged_into_it(
    tmp_path: Path, suffixes: tuple[str, ...]
) -> None:
    path = tmp_path / "notes.db"
    async with rt.ActorSystem() as system:
        store = await system.spawn(Store, path, NOTES)
        await store.ask(Add("old"))
        for suffix in suffixes:
            os.unlink(f"{path}{suffix}")  # noqa: PTH108 - a moment
        with pytest.raises(StoreUnavailable, match="removed or replaced") as caught:
            await store.ask(AddFull("lost"))
        assert caught.value.reason == "gone"
        await store.ask(Add("new"))
        texts = await store.ask(Texts())
        assert "lost" not in texts and texts[-1] == "new"
        if len(suffixes) == 1:  # the log had it still
            assert texts == ["old", "new"]
        assert (await store.ask(Statistics())).opened == 2
    assert texts_in(path) == texts


@pytest.mark.parametrize("suffix", ["-wal", "-shm"])
def test_a_log_that_was_removed_while_open_is_noticed_and_loses_nothing(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / "notes.db"
    with Session(path, NOTES) as session:
        session.do(Add("old"))
        Path(f"{path}{suffix}").unlink()
        with pytest.raises(StoreUnavailable) as caught:
            session.do(Add("lost"))
        assert caught.value.reason == "gone"
        session.do(Add("new"))
        assert session.do(Texts()) == ["old", "new"]


def test_a_file_that_was_replaced_while_open_is_noticed_and_the_log_of_the_old_one_is_kept_out_of_the_new(tmp_path: Path) -> None:
    path, other = tmp_path / "notes.db", tmp_path / "backup.db"
    with Session(other, NOTES) as session:
        session.run([Add(f"backup {number} " + "b" * 300) for number in range(200)])
        backed = session.do(Texts())
    with Session(path, NOTES) as session:
        session.run([Add(f"old {number} " + "o" * 300) for number in range(100)])
        log = Path(f"{path}-wal").read_bytes()
        assert len(log) > 10_000
        other.replace(path)
        with pytest.raises(StoreUnavailable) as caught:
            session.do(Add("lost"))
        assert caught.value.reason == "gone"
        session.do(Add("new"))
        assert session.do(Texts()) == [*backed, "new"]
        assert session.open().conn.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        assert session.open().recoveries() == ()
    (kept,) = tmp_path.glob("notes.db.damaged-*-wal")
    assert kept.read_bytes() == log
    assert "was replaced" in Path(str(kept).removesuffix("-wal") + ".reason.txt").read_text(encoding="utf-8")


def test_a_file_that_is_removed_while_a_commit_goes_on_is_not_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "notes.db"

    class Vandal(Add):
        def run(self, database):
            path.unlink()
            return super().run(database)

    vandal = rt.message(name="notes/Vandal@1")(Vandal)
    with Session(path, NOTES) as session:
        session.do(Add("old"))
        with pytest.raises(StoreUnavailable) as caught:
            session.do(vandal("lost"))
        assert caught.value.reason == "gone" and "what was written went with it" in str(caught.value)


def test_a_file_that_another_process_found_damaged_and_mended_is_noticed_and_used_from_then_on(tmp_path: Path) -> None:
    path = tmp_path / "notes.db"
    with Session(path, NOTES) as session:
        session.do(Add("old"))
        session.open().conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        with path.open("r+b") as file:
            file.write(b"no header any more")
        with Session(path, NOTES) as other:
            assert other.do(Count()) == 0
            other.do(Add("from the other"))
            assert other.open().recovered is not None
        with pytest.raises(StoreUnavailable) as caught:
            session.do(Add("lost"))
        assert caught.value.reason == "gone"
        session.do(Add("new"))
        assert session.do(Texts()) == ["from the other", "new"]


def test_a_file_that_was_removed_between_two_sessions_is_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "notes.db"
    with Session(path, NOTES) as session:
        session.do(Add("old"))
    path.unlink()
    with Session(path, NOTES) as session:
        assert session.do(Count()) == 0
        assert session.open().recovered is None


# -- cannot be written -----------------------------------------------------------------------------------------------------------------------------


def test_a_read_only_file_is_read_and_refuses_writes_and_takes_them_once_it_may(tmp_path: Path) -> None:
    path = tmp_path / "notes.db"
    with Session(path, NOTES) as session:
        session.do(Add("old"))
    path.chmod(0o444)

    def scene() -> str:
        with Session(path, NOTES) as session:
            first = refusal(lambda: session.do(Add("refused")))
            read = refusal(lambda: session.do(Texts()))
            return f"{first}, {read}"

    assert without_rights(scene) == "read_only, done: ['old']"
    for file in tmp_path.iterdir():  # SQLite gave those beside the database its mode
        file.chmod(0o600)
    assert without_rights(lambda: refusal(lambda: once(path, "new"))) == "done: 2"


def test_a_folder_that_cannot_be_written_refuses_a_new_file(tmp_path: Path) -> None:
    path = tmp_path / "notes.db"
    tmp_path.chmod(0o555)
    assert without_rights(lambda: refusal(lambda: once(path, "refused"))) == "read_only"
    tmp_path.chmod(0o700)
    assert without_rights(lambda: refusal(lambda: once(path, "first"))) == "done: 1"


def test_a_file_that_becomes_read_only_while_a_store_uses_it_is_refused_and_then_works_again(tmp_path: Path) -> None:
    path = tmp_path / "notes.db"
    with Session(path, NOTES) as session:
        session.do(Add("old"))
        session.open().conn.execute("PRAGMA query_only = ON")  # SQLite then says what it says of a file that cannot be written
        with pytest.raises(StoreUnavailable) as caught:
            session.do(Add("refused"))
        assert caught.value.reason == "read_only"
        session.do(Add("new"))
        assert session.do(Texts()) == ["old", "new"]


# -- does not fit ----------------------------------------------------------------------------------------------------------------------------------


async def test_a_full_disk_refuses_what_does_not_fit_reads_on_and_works_again_when_there_is_room(small_disk: Path) -> None:
    path, ballast = small_disk / "notes.db", small_disk / "ballast"
    async with rt.ActorSystem() as system:
        store = await system.spawn(Store, path, NOTES)
        await store.ask(AddFull("old"))
        with ballast.open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4096))
            except OSError:
                pass
        for _ in range(3):
            with pytest.raises(StoreUnavailable) as caught:
                await store.ask(Big(100_000))
            assert caught.value.reason == "full_disk"
        assert await store.ask(Texts()) == ["old"]
        ballast.unlink()
        await store.ask(AddFull("new"))
        assert await store.ask(Texts()) == ["old", "new"]
    assert texts_in(path) == ["old", "new"]


async def test_on_a_full_disk_nothing_of_a_batch_is_half_done(small_disk: Path) -> None:
    path = small_disk / "notes.db"
    got: list[str] = []
    refused: list[str] = []

    async def one(store, number: int) -> None:
        try:
            await store.ask(Add(f"{number} " + "x" * 500))
            got.append(f"{number} " + "x" * 500)
        except StoreUnavailable as error:
            refused.append(error.reason)

    async with rt.ActorSystem() as system:
        store = await system.spawn(Store, path, NOTES)
        for round_ in range(12):
            async with trio.open_nursery() as nursery:
                for number in range(40):
                    nursery.start_soon(one, store, 100 * round_ + number)
        assert 0 < len(got) < 480 and set(refused) == {"full_disk"}
        assert sorted(await store.ask(Texts())) == sorted(got)


def test_a_recovery_that_the_full_disk_cuts_off_is_finished_when_there_is_room(small_disk: Path) -> None:
    path, ballast = small_disk / "notes.db", small_disk / "ballast"
    with Session(path, NOTES) as session:
        session.run([Add(f"{number} " + "x" * 200) for number in range(200)])
    with path.open("r+b") as file:
        file.seek(path.stat().st_size - 4096)
        file.write(b"y" * 4096)
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            pass
    with Session(path, NOTES) as session:
        for _ in range(2):
            with pytest.raises(StoreUnavailable) as caught:
                session.do(Count())
            assert caught.value.reason == "full_disk"
        ballast.unlink()
        assert 150 < session.do(Count()) <= 200
        assert len(session.open().recoveries()) == 1
        session.do(Add("new"))


def test_a_database_that_may_not_grow_is_full(tmp_path: Path) -> None:
    with Session(tmp_path / "notes.db", NOTES) as session:
        session.do(Add("old"))
        session.open().conn.execute("PRAGMA max_page_count = 8")
        outcomes = session.run([Add("fits"), Big(200_000), Add("fits too")])
        assert outcomes[0].error is None and outcomes[2].error is None
        assert isinstance(outcomes[1].error, StoreUnavailable) and outcomes[1].error.reason == "full_disk"
        assert session.do(Texts()) == ["old", "fits", "fits too"]


def test_a_limit_on_the_size_of_files_refuses_and_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, PROGRAM, "limited", str(tmp_path / "notes.db"), "300000"], capture_output=True, text=True, timeout=60, check=False
    )
    lines = done.stdout.splitlines()
    assert done.returncode == 0, done.stderr
    written = sum(line.startswith("big") for line in lines)
    assert written > 3
    (refused,) = (line.split()[1] for line in lines if line.startswith("refused"))
    assert refused in {"unknown", "full_disk", "failed"}
    count = int(next(line for line in lines if line.startswith("count")).split()[1])
    assert count == written + 1 or (refused == "unknown" and count == written + 2)
    assert len(texts_in(tmp_path / "notes.db")) == count + 1


# -- held by another process -----------------------------------------------------------------------------------------------------------------------


def holding(path: Path) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, PROGRAM, "hold", str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


async def test_a_lock_that_is_held_too_long_refuses_writes_not_reads_and_works_again_when_it_is_let_go(tmp_path: Path) -> None:
    path = tmp_path / "notes.db"
    async with rt.ActorSystem() as system:
        store = await system.spawn(Store, path, NOTES, busy_timeout=0.2)
        await store.ask(Add("old"))
        holder = holding(path)
        with holder:
            assert holder.stdin is not None and holder.stdout is not None
            assert await trio.to_thread.run_sync(holder.stdout.readline) == "held\n"
            with pytest.raises(StoreUnavailable, match="another process holds") as caught:
                await store.ask(Add("refused"))
            assert caught.value.reason == "locked"
            assert await store.ask(Texts()) == ["old"]
            holder.stdin.write("\n")
            holder.stdin.flush()
            assert await trio.to_thread.run_sync(holder.stdout.readline) == "released\n"
        await store.ask(Add("new"))
        assert await store.ask(Texts()) == ["old", "new"]
        assert (await store.ask(Statistics())).opened == 1, "a lock is no reason to connect anew"


def test_a_lock_that_is_let_go_in_time_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "notes.db"
    with Session(path, NOTES, busy_timeout=10) as session:
        session.do(Add("old"))
        other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        other.execute("BEGIN IMMEDIATE")
        import threading

        timer = threading.Timer(0.3, lambda: other.execute("ROLLBACK"))
        timer.start()
        session.do(Add("new"))
        timer.join()
        other.close()
        assert session.do(Texts()) == ["old", "new"]


def test_a_folder_whose_lock_is_held_is_locked(tmp_path: Path) -> None:
    from retinue.actors.store.files import folder_lock

    with Session(tmp_path / "notes.db", NOTES, busy_timeout=0.05) as session:
        with folder_lock(tmp_path, 1):
            assert refusal(lambda: session.do(Count())) == "locked"
        assert refusal(lambda: session.do(Count())) == "done: 0"
