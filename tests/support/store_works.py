"""A small database of notes, and works on it: what the tests of the store share, in this process and in others (`python store_works.py ORDER …`)."""

from __future__ import annotations

import sqlite3
import sys
import time
from pathlib import Path

import trio

import retinue as rt
from retinue.actors.store.errors import StoreUnavailable
from retinue.actors.store.schema import Schema
from retinue.actors.store.session import Session
from retinue.actors.store.store import Store
from retinue.actors.store.work import Work


def make_notes(database):
    database["notes"].create({"id": int, "text": str, "tag": str}, pk="id", not_null={"text"})
    database["notes"].create_index(["text"], unique=True)


NOTES = Schema("notes", (make_notes,))


@rt.message(name="notes/Add@1")
class Add(Work[int]):
    text: str

    def run(self, database):
        return database["notes"].insert({"text": self.text}).last_pk


@rt.message(name="notes/AddFull@1")
class AddFull(Add):
    full = True


@rt.message(name="notes/Count@1")
class Count(Work[int]):
    reads = True

    def run(self, database):
        return database["notes"].count


@rt.message(name="notes/Texts@1")
class Texts(Work[list[str]]):
    reads = True

    def run(self, database):
        return [text for (text,) in database.conn.execute("SELECT text FROM notes ORDER BY id")]


@rt.message(name="notes/Big@1")
class Big(Work[int]):
    size: int

    def run(self, database):
        return database["notes"].insert({"text": f"{time.time_ns()} " + "x" * self.size}).last_pk


@rt.message(name="notes/Slow@1")
class Slow(Work[str]):
    seconds: float
    text: str

    def run(self, database):
        database["notes"].insert({"text": self.text})
        time.sleep(self.seconds)
        return self.text


def texts_in(path: Path) -> list[str]:
    """What any other program finds in the file."""
    connection = sqlite3.connect(path)
    try:
        return [text for (text,) in connection.execute("SELECT text FROM notes ORDER BY id")]
    finally:
        connection.close()


def say(*words: object) -> None:
    print(*words, flush=True)


async def write_for_ever(path: str) -> None:
    """Says each text once its commit was acknowledged, until it is killed."""
    async with rt.ActorSystem("writer") as system:
        store = await system.spawn(Store, path, NOTES)
        last = await store.ask(Count())

        async def one(start: int) -> None:
            number = start
            while True:
                text = f"{number}"
                await store.ask(AddFull(text) if number % 3 else Add(text))
                say(text)
                number += 8

        async with trio.open_nursery() as nursery:
            for lane in range(8):
                nursery.start_soon(one, last * 100 + lane)


async def write_some(path: str, name: str, count: int) -> None:
    async with rt.ActorSystem("writer") as system:
        store = await system.spawn(Store, path, NOTES)
        say("ready")
        sys.stdin.readline()
        async with trio.open_nursery() as nursery:
            for number in range(count):
                nursery.start_soon(store.ask, Add(f"{name} {number}"))
    say("done")


def hold(path: str) -> None:
    """Holds the write lock until something is read from stdin."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    say("held")
    sys.stdin.readline()
    connection.execute("ROLLBACK")
    say("released")


def limited(path: str, bytes_: int) -> None:
    """Writes until the limit on file sizes stops it, then without the limit."""
    import resource

    with Session(path, NOTES) as session:
        session.do(Add("first"))
        resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_, resource.RLIM_INFINITY))
        try:
            for number in range(10_000):
                session.do(Big(20_000))
                say("big", number)
        except StoreUnavailable as error:
            say("refused", error.reason)
        say("count", session.do(Count()))
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        session.do(Add("last"))
        say("last", session.do(Count()))


if __name__ == "__main__":
    order, place, *more = sys.argv[1:]
    if order == "write_for_ever":
        trio.run(write_for_ever, place)
    elif order == "write_some":
        trio.run(write_some, place, more[0], int(more[1]))
    elif order == "hold":
        hold(place)
    elif order == "limited":
        limited(place, int(more[0]))
