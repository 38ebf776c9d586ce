"""Migrations: each once, whole or not at all, from every version before; and files that are not this schema's."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from sqlite_utils import Database

import retinue as rt
from retinue.actors.store import schema as schemas
from retinue.actors.store.database import open_database
from retinue.actors.store.errors import StoreUnavailable
from retinue.actors.store.schema import Schema, check_schema

ran: list[str] = []


def first(database):
    ran.append("first")
    database["people"].create({"id": int, "name": str}, pk="id")
    database["people"].insert({"name": "Ada"})


def second(database):
    ran.append("second")
    database["people"].add_column("born", int)
    database["people"].transform(types={"name": str}, not_null={"name"})
    database["people"].update(1, {"born": 1815})


def third(database):
    ran.append("third")
    database["things"].create({"id": int, "owner": int}, pk="id", foreign_keys=[("owner", "people", "id")])
    database["things"].insert_all([{"owner": 1}, {"owner": 1}])


STEPS = (first, second, third)


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    ran.clear()


def version(path: Path) -> int:
    connection = sqlite3.connect(path)
    try:
        return connection.execute("PRAGMA user_version").fetchone()[0]
    finally:
        connection.close()


@pytest.mark.parametrize("known", [0, 1, 2, 3])
def test_every_earlier_version_is_brought_up_to_date_with_each_step_once(tmp_path: Path, known: int) -> None:
    path = tmp_path / "people.db"
    open_database(path, Schema("people", STEPS[:known])).close()
    assert version(path) == known
    database = open_database(path, Schema("people", STEPS))
    assert ran == ["first", "second", "third"]
    assert list(database["people"].rows) == [{"id": 1, "name": "Ada", "born": 1815}]
    assert database["things"].count == 2
    database.close()
    open_database(path, Schema("people", STEPS)).close()
    assert ran == ["first", "second", "third"]
    assert version(path) == 3


def test_a_step_that_fails_leaves_the_version_before_it(tmp_path: Path) -> None:
    def fails(database):
        database["halves"].create({"id": int}, pk="id")
        database["people"].insert({"name": "Nobody"})
        raise ValueError("half way")

    path = tmp_path / "people.db"
    with pytest.raises(StoreUnavailable, match="step 2 of the schema 'people' failed with ValueError: half way") as caught:
        open_database(path, Schema("people", (first, fails, third)))
    assert caught.value.reason == "failed"
    assert version(path) == 1
    database = open_database(path, Schema("people", STEPS))
    assert database.table_names() == ["people", "things"]
    assert database["people"].count == 1
    database.close()


def test_a_step_that_ends_its_transaction_is_refused(tmp_path: Path) -> None:
    def commits(database):
        database.conn.execute("COMMIT")

    with pytest.raises(StoreUnavailable, match="ended the transaction"):
        open_database(tmp_path / "people.db", Schema("people", (commits,)))


def test_a_file_of_a_later_version_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "people.db"
    open_database(path, Schema("people", STEPS)).close()
    before = path.read_bytes()
    with pytest.raises(StoreUnavailable, match="of version 3, and this program knows 2") as caught:
        open_database(path, Schema("people", STEPS[:2]))
    assert caught.value.reason == "newer"
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["people.db"]


def test_a_file_of_another_schema_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "people.db"
    open_database(path, Schema("people", STEPS)).close()
    before = path.read_bytes()
    with pytest.raises(StoreUnavailable, match="application_id") as caught:
        open_database(path, Schema("animals", STEPS))
    assert caught.value.reason == "foreign"
    assert path.read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1


def test_somebody_elses_database_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "photos.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE photos (id INTEGER PRIMARY KEY)")
    connection.commit()
    assert connection.execute("PRAGMA journal_mode").fetchone()[0] == "delete"
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreUnavailable) as caught:
        open_database(path, Schema("people", STEPS))
    assert caught.value.reason == "foreign"
    assert path.read_bytes() == before


def test_an_empty_file_is_taken_for_a_new_database(tmp_path: Path) -> None:
    path = tmp_path / "people.db"
    path.touch()
    database = open_database(path, Schema("people", STEPS))
    assert database.recovered is None
    assert database["people"].count == 1
    database.close()


def test_many_at_once_bring_one_file_up_to_date_once(tmp_path: Path) -> None:
    path = tmp_path / "people.db"
    errors: list[BaseException] = []
    together = threading.Barrier(8)

    def opens() -> None:
        try:
            together.wait()
            open_database(path, Schema("people", STEPS), busy_timeout=20).close()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=opens) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert ran == ["first", "second", "third"]


def test_how_a_database_is_set_up(tmp_path: Path) -> None:
    path = tmp_path / "people.db"
    database = open_database(path, Schema("people", STEPS), busy_timeout=2.5)
    values = {
        name: database.conn.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("journal_mode", "foreign_keys", "busy_timeout", "synchronous")
    }
    assert values == {"journal_mode": "wal", "foreign_keys": 1, "busy_timeout": 2500, "synchronous": 1}
    for suffix in ("", "-wal", "-shm"):
        assert Path(f"{path}{suffix}").stat().st_mode & 0o777 == 0o600
    database.close()


@pytest.mark.parametrize("steps", [("CREATE TABLE x (y)",), (None,)])
def test_a_step_is_a_function(steps) -> None:
    with pytest.raises(rt.DefinitionError, match="function"):
        Schema("people", steps)


@pytest.mark.parametrize("name", ["", "x" * 65, 7])
def test_a_schema_has_a_name(name) -> None:
    with pytest.raises(rt.DefinitionError, match="1 to 64"):
        Schema(name, ())


def test_a_first_step_that_comes_between_two_looks_at_a_file_makes_it_no_strangers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "people.db"
    schema = Schema("people", STEPS)
    mine = Database(sqlite3.connect(path, isolation_level=None))
    looked = schemas.number

    def then_another_process(database: Any, pragma: str) -> int:
        found = looked(database, pragma)
        if database is mine and not path.with_suffix(".made").exists():
            path.with_suffix(".made").touch()
            with suppress(StoreUnavailable):  # who looks has it locked for the moment
                open_database(path, schema, busy_timeout=0.05).close()
        return found

    monkeypatch.setattr(schemas, "number", then_another_process)
    assert check_schema(mine, schema) == -1
    assert path.with_suffix(".made").exists()
    open_database(path, schema).close()
    assert check_schema(mine, schema) == schema.version
    mine.conn.close()
