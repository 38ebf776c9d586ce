"""A store's works: answered after the commit, many in one, each for itself."""

from __future__ import annotations

import math
import threading
from pathlib import Path

import pytest
import trio

import retinue as rt
from quiet_threads import until
from retinue.actors.store.errors import StoreUnavailable
from retinue.actors.store.schema import Schema
from retinue.actors.store.store import BATCH, WAITING, Statistics, Store
from retinue.actors.store.work import Work
from store_works import NOTES, Add, AddFull, Count, Slow, Texts, texts_in


@rt.message(name="notes/Fails@1")
class Fails(Work[None]):
    text: str

    def run(self, database):
        database["notes"].insert({"text": self.text})
        raise LookupError("not today")


@rt.message(name="notes/Exits@1")
class Exits(Work[None]):
    def run(self, database):
        database["notes"].insert({"text": "never"})
        raise SystemExit(3)


@rt.message(name="notes/Peek@1")
class Peek(Work[list[int]]):
    def run(self, database):
        return [database.conn.execute("PRAGMA synchronous").fetchone()[0], database.conn.execute("PRAGMA foreign_keys").fetchone()[0]]


@rt.message(name="notes/PeekFull@1")
class PeekFull(Peek):
    full = True


@rt.message(name="notes/Sneaky@1")
class Sneaky(Work[None]):
    sql: str

    def run(self, database):
        database["notes"].insert({"text": "sneaky"})
        database.conn.execute(self.sql)


@rt.message(name="notes/SaysItReads@1")
class SaysItReads(Work[None]):
    reads = True

    def run(self, database):
        database["notes"].insert({"text": "written"})


async def test_an_answer_comes_after_the_commit_and_others_see_what_was_written(tmp_path: Path) -> None:
    async with rt.ActorSystem() as system:
        store = await system.spawn(Store, tmp_path / "notes.db", NOTES)
        assert await store.ask(Add("one")) == 1
        assert texts_in(tmp_path / "notes.db") == ["one"]
        assert await store.ask(AddFull("two")) == 2
        assert await store.ask(Texts()) == ["one", "two"]
    assert texts_in(tmp_path / "notes.db") == ["one", "two"]


async def test_a_thousand_works_at_once_take_a_handful_of_commits(tmp_path: Path) -> None:
    async with rt.ActorSystem() as system:
        store = await system.spawn(Store, tmp_path / "notes.db", NOTES)
        async with trio.open_nursery() as nursery:
            for number in range(1_000):
                nursery.start_soon(store.ask, AddFull(str(number)))
        statistics = await store.ask(Statistics())
        assert await store.ask(Count()) == 1_000
        assert statistics.works == 1_000 and statistics.failed == 0 and statistics.waiting == 0
        assert 1_000 // BATCH < statistics.commits <= 20
        assert statistics.full_commits == statistics.commits
        assert 1 < statistics.largest <= BATCH
    assert sorted(map(int, texts_in(tmp_path / "notes.db"))) == list(range(1_000))


async def test_a_work_that_fails_harms_nobody_else_in_its_batch(tmp_path: Path) -> None:
    got: dict[str, object] = {}

    async def ask(store, work, name: str) -> None:
        try:
            got[name] = await store.ask(work)
        except Exception as error:
            got[name] = error

    async with rt.ActorSystem() as system:
        store = await system.spawn(Store, tmp_path / "notes.db", NOTES)
        await store.ask(Add("taken"))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(store.ask, Slow(0.1, "slow"))  # the others gather behind it
            await until(lambda: system.statistics() is not None)
            for name, work in {
                "good": Add("good"),
                "fails": Fails("undone"),
                "taken": Add("taken"),
                "exits": Exits(),
                "better": Add("better"),
            }.items():
                nursery.start_soon(ask, store, work, name)
        assert isinstance(got["good"], int) and isinstance(got["better"], int)
        assert isinstance(got["fails"], LookupError)
        assert type(got["taken"]).__name__ == "IntegrityError"
        assert isinstance(got["exits"], StoreUnavailable) and "SystemExit" in str(got["exits"])
        assert sorted(await store.ask(Texts())) == ["better", "good", "slow", "taken"]
        statistics = await store.ask(Statistics())
        assert statistics.failed == 3
        assert statistics.commits <= 4  # with the one that made the schema's first row, the slow one, and the batch


async def test_full_is_asked_for_by_one_and_given_to_the_whole_batch_only(tmp_path: Path) -> None:
    async with rt.ActorSystem() as system:
        store = await system.spawn(Store, tmp_path / "notes.db", NOTES)
        assert await store.ask(Peek()) == [1, 1]
        assert await store.ask(PeekFull()) == [2, 1]
        assert await store.ask(Peek()) == [1, 1]
        statistics = await store.ask(Statistics())
        assert (statistics.commits, statistics.full_commits) == (3, 1)


@pytest.mark.parametrize("sql", ["COMMIT", "ROLLBACK", "END", "BEGIN", "commit /* */"])
async def test_a_work_cannot_end_the_transaction_it_shares(tmp_path: Path, sql: str) -> None:
    async with rt.ActorSystem() as system:
        store = await system.spawn(Store, tmp_path / "notes.db", NOTES)
        await store.ask(Add("before"))  # the store's own COMMIT is known to the connection by now
        with pytest.raises(rt.DefinitionError, match="begins or ends a transaction"):
            await store.ask(Sneaky(sql))
        await store.ask(Add("after"))
        assert await store.ask(Texts()) == ["before", "after"]


async def test_a_work_that_only_reads_cannot_write(tmp_path: Path) -> None:
    async with rt.ActorSystem() as system:
        store = await system.spawn(Store, tmp_path / "notes.db", NOTES)
        with pytest.raises(rt.DefinitionError, match="only reads"):
            await store.ask(SaysItReads())
        assert await store.ask(Add("one")) == 1
        assert await store.ask(Texts()) == ["one"]


async def test_a_trigger_that_rolls_everything_back_takes_nobody_else_with_it(tmp_path: Path) -> None:
    def guard(database):
        database.conn.execute(
            "CREATE TRIGGER no_evil BEFORE INSERT ON notes WHEN NEW.text LIKE 'evil%' BEGIN SELECT RAISE(ROLLBACK, 'no evil'); END"
        )

    failed: list[BaseException] = []

    async def evil(store, number: int) -> None:
        try:
            await store.ask(Add(f"evil {number}"))
        except Exception as error:
            failed.append(error)

    async with rt.ActorSystem() as system:
        store = await system.spawn(Store, tmp_path / "notes.db", Schema("notes", (*NOTES.migrations, guard)))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(store.ask, Slow(0.05, "slow"))
            for number in range(20):
                nursery.start_soon(store.ask, Add(f"good {number}"))
                nursery.start_soon(evil, store, number)
        assert len(failed) == 20 and all("no evil" in str(error) for error in failed)
        assert sorted(await store.ask(Texts())) == sorted(["slow", *(f"good {number}" for number in range(20))])


async def test_what_is_beyond_the_bound_is_refused_and_what_is_within_is_done(tmp_path: Path) -> None:
    refused: list[StoreUnavailable] = []
    begun, enough = threading.Event(), threading.Event()

    @rt.message
    class Held(Work[None]):
        def run(self, _):
            begun.set()
            enough.wait(60)

    async def one(store, number: int) -> None:
        try:
            await store.ask(Add(str(number)))
        except StoreUnavailable as error:
            refused.append(error)

    async with rt.ActorSystem() as system:
        store = await system.spawn(Store, tmp_path / "notes.db", NOTES)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(store.ask, Held())
            await until(begun.is_set)
            for number in range(WAITING + 100):
                nursery.start_soon(one, store, number)
            await until(lambda: len(refused) == 100)
            enough.set()
        assert len(refused) == 100
        assert {error.reason for error in refused} == {"busy"}
        assert await store.ask(Count()) == WAITING


async def test_what_was_told_is_done_too_and_its_failure_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with rt.ActorSystem() as system:
        store = await system.spawn(Store, tmp_path / "notes.db", NOTES)
        store.tell(Add("told"))
        store.tell(Fails("undone"))
        assert await store.ask(Texts()) == ["told"]
    assert "which nobody waits for, failed" in caplog.text


async def test_one_sender_that_gives_up_fails_nobody_else_and_its_work_is_not_begun(tmp_path: Path) -> None:
    async with rt.ActorSystem() as system:
        store = await system.spawn(Store, tmp_path / "notes.db", NOTES)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(store.ask, Slow(0.3, "slow"))
            await trio.sleep(0.05)
            nursery.start_soon(store.ask, Add("patient"))
            with pytest.raises(rt.AskTimeout):
                await store.ask(Add("impatient"), timeout=0.05)
        assert await store.ask(Texts()) == ["slow", "patient"]


async def test_one_sender_whose_authority_expires_fails_nobody_else(tmp_path: Path) -> None:
    async with rt.ActorSystem() as system:
        store = await system.spawn(Store, tmp_path / "notes.db", NOTES)
        ada = system.authority.mint("ada", ["**", rt.expires(seconds=1)])
        got: list[object] = []

        async def expiring() -> None:
            try:
                got.append(await store.ask(Add("expiring"), timeout=math.inf, context=ada))
            except rt.RetinueError as error:
                got.append(error)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(store.ask, Slow(1.3, "slow"))
            await trio.sleep(0.1)
            nursery.start_soon(expiring)
            nursery.start_soon(store.ask, Add("lasting"))
        assert await store.ask(Texts()) == ["slow", "lasting"]
        assert isinstance(got[0], rt.AskTimeout) and isinstance(got[0].__cause__, rt.Expired)


async def test_a_database_in_memory_is_one_too() -> None:
    async with rt.ActorSystem() as system:
        store = await system.spawn(Store, None, NOTES)
        await store.ask(AddFull("one"))
        assert await store.ask(Texts()) == ["one"]


async def test_works_cross_the_wire_format(tmp_path: Path) -> None:
    async with rt.ActorSystem(loopback=True) as system:
        store = await system.spawn(Store, tmp_path / "notes.db", NOTES)
        await store.ask(Add("one"))
        assert await store.ask(Texts()) == ["one"]


async def test_a_store_without_a_schema_is_refused_at_its_spawn(tmp_path: Path) -> None:
    async with rt.ActorSystem() as system:
        with pytest.raises(rt.DefinitionError, match="schema"):
            await system.spawn(Store, tmp_path / "notes.db", "notes")
