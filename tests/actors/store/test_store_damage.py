"""Damaged files: moved aside with the reason, unchanged; what can be read of them goes on."""

from __future__ import annotations

import logging
import os
import random
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import retinue as rt
from retinue.actors.store import recovery as recovery_module
from retinue.actors.store.database import open_database
from retinue.actors.store.errors import StoreUnavailable
from retinue.actors.store.schema import Schema
from retinue.actors.store.session import Session
from retinue.actors.store.store import Statistics, Store
from store_works import NOTES, Add, Count, Texts

PAGE = 4096


def two_tables(database):
    database["notes"].create({"id": int, "text": str}, pk="id")
    database["spent"].create({"jti": str, "at": int}, pk="jti")
    database["pairs"].create({"a": str, "b": int}, pk=("a", "b"))
    database.conn.execute("CREATE TABLE keyed (k TEXT PRIMARY KEY, v TEXT) WITHOUT ROWID")
    database.conn.execute("CREATE TABLE seen (id INTEGER PRIMARY KEY)")
    database.conn.execute("CREATE TRIGGER note_seen AFTER INSERT ON notes BEGIN INSERT INTO seen (id) VALUES (NULL); END")


TABLES = Schema("tables", (two_tables,))


def filled(path: Path, rows: int = 2_000) -> None:
    """A file of some hundred pages, all of it in the file itself."""
    database = open_database(path, TABLES)
    with database.atomic():
        database["notes"].insert_all({"id": number, "text": f"note {number} " + "n" * 100} for number in range(1, rows + 1))
        database["spent"].insert_all({"jti": f"jti-{number:06}-{'j' * 40}", "at": number} for number in range(rows))
        database["pairs"].insert_all({"a": f"a{number}", "b": number} for number in range(50))
        database["keyed"].insert_all({"k": f"k{number:05}", "v": "v" * 50} for number in range(500))
    database.close()
    assert not Path(f"{path}-wal").exists()


def pages_of(path: Path, table: str) -> list[int]:
    """The numbers of a table's leaf pages, from the first on."""
    connection = sqlite3.connect(path)
    try:
        try:
            found = connection.execute("SELECT pageno FROM dbstat WHERE name = ? AND pagetype = 'leaf' ORDER BY path", (table,)).fetchall()
        except sqlite3.OperationalError:
            pytest.skip("this SQLite was built without dbstat")
        return [number for (number,) in found]
    finally:
        connection.close()


def overwrite(path: Path, page: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek((page - 1) * PAGE)
        file.write(content)


def aside(folder: Path) -> list[Path]:
    return sorted(
        path for path in folder.iterdir() if ".damaged-" in path.name and not path.name.endswith((".txt", "-wal", "-shm", ".part"))
    )


def noise(seed: int, size: int = PAGE) -> bytes:
    return random.Random(seed).randbytes(size)


def ids(database) -> set[int]:
    return {number for (number,) in database.conn.execute("SELECT id FROM notes")}


@pytest.mark.parametrize(
    ("what", "content"),
    [
        ("a text", b"Dear diary,\ntoday I was no database.\n" * 300),
        ("noise", noise(1, 50_000)),
        ("zeros", bytes(50_000)),
        ("a few bytes", b"SQLite form"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_no_database_is_moved_aside_unchanged_and_a_new_one_begins(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, what: str, content: bytes
) -> None:
    path = tmp_path / "notes.db"
    path.write_bytes(content)
    database = open_database(path, NOTES)
    (moved,) = aside(tmp_path)
    assert moved.read_bytes() == content
    reason = Path(f"{moved}.reason.txt").read_text(encoding="utf-8")
    assert "not a database" in reason and "nothing" in reason
    assert database.recovered is not None
    assert database.recovered.moved_to == moved.name and not database.recovered.complete
    assert database["notes"].count == 0
    assert database.recoveries() == (database.recovered,)
    database.close()
    assert "could not be used" in caplog.text and moved.name in caplog.text
    again = open_database(path, NOTES)
    assert again.recovered is None
    assert len(again.recoveries()) == 1
    again.close()
    assert path.stat().st_mode & 0o777 == 0o600


def test_rows_before_and_after_a_damage_in_the_middle_survive(tmp_path: Path) -> None:
    path = tmp_path / "tables.db"
    filled(path)
    leaves = pages_of(path, "notes")
    overwrite(path, leaves[len(leaves) // 2], noise(2))
    database = open_database(path, TABLES)
    found = ids(database)
    assert {1, 2, 3, 1_998, 1_999, 2_000} <= found
    assert 1_900 <= len(found) < 2_000
    assert database["spent"].count == 2_000 and database["pairs"].count == 50 and database["keyed"].count == 500
    assert database["seen"].count == 2_000, "the trigger did not fire again"
    assert database.recovered is not None and not database.recovered.complete
    assert dict(database.recovered.saved) == {"notes": len(found), "spent": 2_000, "pairs": 50, "keyed": 500, "seen": 2_000}
    assert database.conn.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    database["notes"].insert({"id": 5_000, "text": "and on"})
    assert database["seen"].count == 2_001, "and fires for what is new"
    database.close()


def test_rows_between_two_damages_survive(tmp_path: Path) -> None:
    path = tmp_path / "tables.db"
    filled(path, 5_000)
    leaves = pages_of(path, "notes")
    for share in (0.0, 0.2, 0.21, 0.5, 0.8, 1.0):
        overwrite(path, leaves[min(int(len(leaves) * share), len(leaves) - 1)], noise(int(share * 100)))
    database = open_database(path, TABLES)
    found = ids(database)
    per_leaf = 5_000 / len(leaves)
    assert len(found) >= 5_000 - 6 * 2 * per_leaf
    database.close()


def test_a_damaged_index_costs_no_row(tmp_path: Path) -> None:
    path = tmp_path / "tables.db"
    filled(path)
    leaves = pages_of(path, "sqlite_autoindex_spent_1")
    overwrite(path, leaves[3], noise(4))
    database = open_database(path, TABLES)
    assert database["spent"].count == 2_000
    assert len({jti for (jti,) in database.conn.execute("SELECT jti FROM spent")}) == 2_000
    assert database.recovered is not None and database.recovered.complete
    database.close()


@pytest.mark.parametrize("share", [0.9, 0.5, 0.1])
def test_of_a_file_that_was_cut_off_what_is_before_the_cut_survives(tmp_path: Path, share: float) -> None:
    path = tmp_path / "tables.db"
    filled(path)
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.truncate(int(size * share))
    database = open_database(path, TABLES)
    assert database.recovered is not None and not database.recovered.complete
    total = sum(database.recovered.saved.values())
    assert 0 < total < 6_550
    assert total > 6_550 * share * 0.3
    database.close()


def test_a_damaged_first_page_loses_everything_but_the_file(tmp_path: Path) -> None:
    path = tmp_path / "tables.db"
    filled(path)
    overwrite(path, 1, noise(5))
    database = open_database(path, TABLES)
    assert database["notes"].count == 0
    assert len(aside(tmp_path)) == 1 and aside(tmp_path)[0].stat().st_size > 300_000
    database.close()


def test_damage_that_is_met_while_the_file_is_open_is_mended_at_the_next_work(tmp_path: Path) -> None:
    path = tmp_path / "notes.db"
    with Session(path, NOTES) as session:
        for number in range(300):
            session.do(Add(f"{number} " + "x" * 200))
        session.open().conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        leaves = pages_of(path, "notes")
        session.open().conn.execute("PRAGMA cache_size = 1")
        for page in leaves[2:5]:
            overwrite(path, page, noise(page))
        with pytest.raises(StoreUnavailable, match="moved aside"):
            session.do(Texts())
        left = session.do(Count())
        assert 200 < left < 300
        session.do(Add("and on"))
        assert session.do(Count()) == left + 1
        assert len(session.counts.recoveries) == 1
    assert len(aside(tmp_path)) == 1


async def test_a_store_goes_on_with_what_could_be_read_and_tells(tmp_path: Path) -> None:
    path = tmp_path / "notes.db"
    with Session(path, NOTES) as session:
        session.run([Add(f"{number} " + "x" * 200) for number in range(256)])
    leaves = pages_of(path, "notes")
    overwrite(path, leaves[3], noise(3))
    async with rt.ActorSystem() as system:
        store = await system.spawn(Store, path, NOTES)
        assert 200 < await store.ask(Count()) < 256
        await store.ask(Add("and on"))
        (recovery,) = (await store.ask(Statistics())).recoveries
        assert recovery.saved["notes"] == await store.ask(Count()) - 1


@pytest.mark.parametrize("gone", [False, True], ids=["emptied", "removed"])
def test_a_file_that_was_emptied_or_removed_is_read_from_its_log(tmp_path: Path, gone: bool) -> None:
    path = tmp_path / "notes.db"
    database = open_database(path, NOTES)
    database["notes"].insert({"text": "in the log"})
    log = Path(f"{path}-wal").read_bytes()
    database.close()
    if gone:
        path.unlink()
    else:
        path.write_bytes(b"")
    Path(f"{path}-wal").write_bytes(log)
    again = open_database(path, NOTES)
    assert again.recovered is not None
    assert [row["text"] for row in again["notes"].rows] == ["in the log"]
    assert [file.read_bytes() for file in tmp_path.glob("*damaged*-wal")] == [log]
    (told,) = (file.read_text(encoding="utf-8") for file in tmp_path.glob("*.reason.txt"))
    moved = again.recovered.moved_to
    if gone:
        assert f"notes.db-wal left behind: that was moved to {moved}-wal" in told and "taken away" in told and f"to {moved} " not in told
    else:
        assert f"notes.db was damaged and moved to {moved} at" in told
    assert not list(tmp_path.glob("*scratch*"))
    again.close()


def test_a_log_without_its_file_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "notes.db"
    Path(f"{path}-wal").write_bytes(b"x" * 5_000)
    database = open_database(path, NOTES)
    assert database.recovered is not None and "gone" in database.recovered.reason
    assert [p.read_bytes() for p in tmp_path.glob("*damaged*-wal")] == [b"x" * 5_000]
    database.close()


def test_what_was_only_in_the_log_survives_damage_to_the_file(tmp_path: Path) -> None:
    path = tmp_path / "tables.db"
    filled(path)
    leaves = pages_of(path, "spent")
    script = (
        "import os, sys\nfrom retinue.actors.store.database import open_database\nsys.path.insert(0, sys.argv[2])\nfrom test_store_damage import TABLES\n"
        "d = open_database(sys.argv[1], TABLES)\nd['notes'].insert({'id': 9999, 'text': 'only in the log'})\nos._exit(0)\n"
    )
    support = Path(__file__).parents[2] / "support"
    subprocess.run(
        [sys.executable, "-c", script, str(path), str(Path(__file__).parent)],
        check=True,
        env={**os.environ, "PYTHONPATH": str(support)},
        timeout=60,
    )
    assert Path(f"{path}-wal").stat().st_size > 0
    overwrite(path, leaves[5], noise(5))
    database = open_database(path, TABLES)
    assert database["notes"].get(9_999)["text"] == "only in the log"
    assert database["notes"].count == 2_001 and 1_900 < database["spent"].count < 2_000
    database.close()


def test_an_earlier_version_of_the_schema_is_salvaged_and_then_brought_up_to_date(tmp_path: Path) -> None:
    def later(database):
        database["spent"].add_column("outcome", str, not_null_default="unknown")
        database["more"].create({"id": int}, pk="id")

    path = tmp_path / "tables.db"
    filled(path)
    overwrite(path, pages_of(path, "notes")[4], noise(6))
    database = open_database(path, Schema("tables", (two_tables, later)))
    assert database["spent"].count == 2_000
    assert {row["outcome"] for row in database["spent"].rows} == {"unknown"}
    assert database.conn.execute("PRAGMA user_version").fetchone()[0] == 2
    database.close()


def test_earlier_recoveries_are_remembered_in_the_next(tmp_path: Path) -> None:
    path = tmp_path / "tables.db"
    filled(path)
    for round_ in range(3):
        overwrite(path, pages_of(path, "notes")[3 + round_], noise(7 + round_))
        open_database(path, TABLES).close()
    database = open_database(path, TABLES)
    assert len(database.recoveries()) == 3
    assert [r.moved_to for r in database.recoveries()] == [p.name for p in sorted(aside(tmp_path), key=lambda p: p.stat().st_ctime_ns)]
    database.close()
    assert len(aside(tmp_path)) == 3


@pytest.mark.parametrize("stage", ["salvage", "migrate", "told", "before_moving"])
def test_a_recovery_that_is_cut_off_is_taken_up_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: str) -> None:
    path = tmp_path / "tables.db"
    filled(path)
    overwrite(path, pages_of(path, "notes")[4], noise(8))

    class Killed(BaseException):
        pass

    def die(*_: object, **__: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        if stage == "before_moving":
            patch.setattr(Path, "rename", die)
        else:
            patch.setattr(recovery_module, {"salvage": "salvage", "migrate": "migrate", "told": "_told"}[stage], die)
        with pytest.raises(Killed):
            open_database(path, TABLES)
    database = open_database(path, TABLES)
    assert database["spent"].count == 2_000 and 1_900 < database["notes"].count < 2_000
    assert len(database.recoveries()) == 1
    assert not list(tmp_path.glob(".*mended*"))
    database.close()


def test_many_who_find_the_same_damage_mend_it_once(tmp_path: Path) -> None:
    path = tmp_path / "tables.db"
    filled(path)
    overwrite(path, pages_of(path, "notes")[4], noise(9))
    together = threading.Barrier(4)
    counts: list[object] = []

    def opens() -> None:
        together.wait()
        try:
            database = open_database(path, TABLES, busy_timeout=30)
            counts.append(database["spent"].count)
            database.close()
        except BaseException as error:
            counts.append(error)

    threads = [threading.Thread(target=opens) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts == [2_000] * 4
    assert len(aside(tmp_path)) == 1


@pytest.mark.parametrize("kind", ["folder", "link", "dangling link", "pipe"])
def test_what_cannot_be_a_database_file_is_refused_and_not_touched(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "notes.db"
    if kind == "folder":
        path.mkdir()
    elif kind == "link":
        (tmp_path / "other.db").touch()
        path.symlink_to(tmp_path / "other.db")
    elif kind == "dangling link":
        path.symlink_to(tmp_path / "nowhere.db")
    else:
        os.mkfifo(path)
    before = sorted(file.name for file in tmp_path.iterdir())
    with pytest.raises(StoreUnavailable, match="Name the file itself"):
        open_database(path, NOTES)
    assert sorted(file.name for file in tmp_path.iterdir()) == before


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="nowhere"):
        open_database(tmp_path / "nowhere" / "notes.db", NOTES)


def test_sqlite_utils_opens_the_file(tmp_path: Path) -> None:
    path = tmp_path / "tables.db"
    filled(path, 10)
    done = subprocess.run(
        [sys.executable, "-m", "sqlite_utils", "tables", str(path), "--counts"], capture_output=True, text=True, timeout=60, check=True
    )
    assert '"table": "notes", "count": 10' in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_whatever_is_damaged_the_store_opens_and_the_damaged_file_is_kept(
    tmp_path: Path, seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    dice = random.Random(seed)
    path = tmp_path / "tables.db"
    filled(path)
    size = path.stat().st_size
    with path.open("r+b") as file:
        for _ in range(dice.randint(1, 6)):
            file.seek(dice.randrange(size))
            file.write(dice.randbytes(dice.choice([1, 8, 100, PAGE, 3 * PAGE])))
        if dice.random() < 0.3:
            file.truncate(dice.randrange(size))
    damaged = path.read_bytes()
    try:
        database = open_database(path, TABLES)
    except StoreUnavailable as error:
        assert error.reason in {"foreign", "newer"}, error  # noqa: PT017 - the header itself may be hit, and then says so
        assert path.read_bytes() == damaged
        return
    if database.recovered is not None:
        assert aside(tmp_path)[0].read_bytes() == damaged
        assert database.conn.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    database["spent"].insert({"jti": "new", "at": 1})
    database.close()
