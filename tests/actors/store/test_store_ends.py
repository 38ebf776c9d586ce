"""How a store ends and begins again: whoever waits gets the answer or a typed error, and nobody waits for ever."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
import trio

import retinue as rt
from quiet_threads import our_threads, until
from retinue.actors.runtime.errors import Unanswered
from retinue.actors.store import session as session_module
from retinue.actors.store.errors import StoreUnavailable
from retinue.actors.store.store import Statistics, Store, Writer
from retinue.actors.store.work import Work
from store_works import NOTES, Add, Count, Slow, Texts, texts_in

gate = threading.Event()


@rt.message(name="notes/Held@1")
class Held(Work[str]):
    text: str

    def run(self, database):
        database["notes"].insert({"text": self.text})
        assert gate.wait(30)
        return self.text


@pytest.fixture(autouse=True)
def _gate() -> None:
    gate.clear()


async def gathered(store, count: int, nursery) -> dict[str, object]:
    """Asks so many works behind one that is slow; what came of each is filled in."""
    got: dict[str, object] = {}

    async def one(text: str) -> None:
        try:
            got[text] = await store.ask(Add(text))
        except rt.RetinueError as error:
            got[text] = error

    async def slow() -> None:
        try:
            got["slow"] = await store.ask(Slow(0.3, "slow"))
        except rt.RetinueError as error:
            got["slow"] = error

    nursery.start_soon(slow)
    await trio.sleep(0.1)
    for number in range(count):
        nursery.start_soon(one, str(number))
    await trio.testing.wait_all_tasks_blocked()
    return got


@pytest.mark.parametrize("how", ["stop", "stop at once", "system"])
async def test_at_a_stop_each_waiting_work_is_answered_or_refused(tmp_path: Path, how: str) -> None:
    path = tmp_path / "notes.db"
    with trio.fail_after(20):
        async with trio.open_nursery() as nursery, rt.ActorSystem() as system:
            store = await system.spawn(Store, path, NOTES)
            got = await gathered(store, 600, nursery)
            if how == "stop":
                await store.stop()
            elif how == "stop at once":
                await store.stop(grace=0)
            else:
                await system.stop()
    assert len(got) == 601
    there = texts_in(path)
    for text, outcome in got.items():
        if isinstance(outcome, StoreUnavailable):
            assert outcome.reason in {"closed", "unknown"}
            assert outcome.reason == "unknown" or text not in there
        elif isinstance(outcome, Unanswered):
            continue
        else:
            assert text in there
    assert len(there) == len(set(there))


async def test_a_thread_that_does_not_come_back_at_a_stop_leaves_the_outcome_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from retinue.actors.hosts import thread

    monkeypatch.setattr(thread, "JOIN_TIMEOUT", 0.05)
    got: list[BaseException] = []

    async def held(store) -> None:
        try:
            await store.ask(Held("held"))
        except rt.RetinueError as error:
            got.append(error)

    with trio.fail_after(20):
        async with rt.ActorSystem() as system:
            store = await system.spawn(Store, tmp_path / "notes.db", NOTES)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(held, store)
                await trio.sleep(0.1)
                await store.stop(grace=0)
        gate.set()
        await until(lambda: not our_threads())
    (error,) = got
    assert isinstance(error, Unanswered) or (isinstance(error, StoreUnavailable) and error.reason == "unknown")
    assert getattr(error, "begun", True) is not False


async def test_a_writer_that_fails_is_restarted_and_opens_the_file_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "notes.db"
    async with rt.ActorSystem() as system:
        store = await system.spawn(Store, path, NOTES)
        await store.ask(Add("old"))
        with monkeypatch.context() as patch:

            def fails(*_: object, **__: object) -> None:
                raise MemoryError("no memory left")

            patch.setattr(session_module.Session, "_commit", fails)
            with pytest.raises(StoreUnavailable) as caught:
                await store.ask(Add("lost"))
        assert caught.value.reason == "unknown"
        assert isinstance(caught.value.__cause__, MemoryError)
        await store.ask(Add("new"))
        assert await store.ask(Texts()) == ["old", "new"]
        assert (await store.ask(Statistics())).opened >= 2
        assert store.alive


async def test_a_store_whose_file_cannot_be_used_at_first_works_once_it_can(tmp_path: Path) -> None:
    folder = tmp_path / "later"
    async with rt.ActorSystem() as system:
        store = await system.spawn(Store, folder / "notes.db", NOTES)
        for _ in range(3):
            with pytest.raises(StoreUnavailable, match="Make it first"):
                await store.ask(Add("refused"))
        folder.mkdir()
        await store.ask(Add("first"))
        assert await store.ask(Texts()) == ["first"]


async def test_a_store_goes_on_with_the_file_of_the_one_before_it(tmp_path: Path) -> None:
    path = tmp_path / "notes.db"
    for count in range(3):
        async with rt.ActorSystem() as system:
            store = await system.spawn(Store, path, NOTES)
            assert await store.ask(Count()) == count
            await store.ask(Add(str(count)))
    assert os.listdir(tmp_path) == ["notes.db"], "it was closed in good order"  # noqa: PTH208


async def test_a_stop_leaves_no_thread_and_no_lock(tmp_path: Path) -> None:
    path = tmp_path / "notes.db"
    async with rt.ActorSystem() as system:
        store = await system.spawn(Store, path, NOTES)
        await store.ask(Add("one"))
        await store.stop()
        await until(lambda: not any("writer" in thread.name for thread in threading.enumerate()))
        again = await system.spawn(Store, path, NOTES)
        await again.ask(Add("two"))
        with pytest.raises(rt.ActorStopped):
            await store.ask(Add("three"))
        assert await again.ask(Texts()) == ["one", "two"]


def test_the_writer_is_a_blocking_actor() -> None:
    assert Writer.blocking
    assert not Store.blocking
