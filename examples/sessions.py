"""Sessions as virtual actors: one for each guest, there when somebody writes to it, gone when nobody does, and kept in an SQLite file.

Nobody spawns a session. A hundred messages at once to a guest who is not there make one. There are never more than fifty in memory, however many guests come; who has
been idle for a moment is passivated. And whoever comes back, later or on the next day, finds all that was written down.

Shows: `spawn_virtual`, `self.ctx.key`, `idle` and `capacity`, passivation, a store.
Run:   python examples/sessions.py            two days, in a file that is removed again
       python examples/sessions.py FILE       one day; run it again, and it is the next
"""

import sys
import tempfile
from pathlib import Path

import trio
from sqlite_utils import Database

import retinue as rt


def make_visits(database: Database) -> None:
    database.table("visits").create({"guest": str, "count": int}, pk="guest")


GUESTS = rt.Schema("guests", (make_visits,))


@rt.message(name="guests/Load@1")
class Load(rt.Work[int]):
    """How often a guest was here."""

    guest: str
    reads = True

    def run(self, database: Database) -> int:
        found = database.execute("select count from visits where guest = ?", [self.guest]).fetchone()
        return found[0] if found else 0


@rt.message(name="guests/Save@1")
class Save(rt.Work[None]):
    """Write it down."""

    guest: str
    count: int

    def run(self, database: Database) -> None:
        database.table("visits").upsert({"guest": self.guest, "count": self.count}, pk="guest")


@rt.message
class Visit(rt.Request[int]):
    """Come in; the answer is which visit this is."""


class Session(rt.Actor):
    """One guest. What it knows is in memory while the guest is around, and in the file at any time."""

    def __init__(self, store: rt.Ref[rt.Store]) -> None:
        self.store = store
        self.visits = 0

    @property
    def guest(self) -> str:
        return self.ctx.key or ""

    async def on_start(self) -> None:
        self.visits = await self.store.ask(Load(self.guest))

    @rt.handler
    async def visit(self, _: Visit) -> int:
        self.visits += 1
        await self.store.ask(Save(self.guest, self.visits))  # before the answer: what was answered survives a crash
        return self.visits


async def day(path: Path) -> None:
    async with rt.ActorSystem("salon") as system:
        store = await system.spawn(rt.Store, path, GUESTS, name="store")
        sessions = await system.spawn_virtual(Session, store, name="sessions", idle=0.3, capacity=50)
        ada = sessions["ada"]  # nobody is there yet

        async with trio.open_nursery() as nursery:
            for _ in range(100):
                nursery.start_soon(ada.ask, Visit())
        print(f"a hundred messages at once: {len(sessions.active())} session; next comes visit {await ada.ask(Visit())}")

        gone = await (await system.watch(ada)).wait()  # nobody writes to her for a moment
        print(f"ada is {gone.reason}; when she comes back, it is visit {await ada.ask(Visit())}")

        most = 0
        for number in range(200):
            await sessions[f"guest {number}"].ask(Visit())
            most = max(most, len(sessions.active()))
        print(f"two hundred guests, never more than 50 sessions at the same time: {most <= 50}")


async def main() -> None:
    if len(sys.argv) > 1:
        await day(Path(sys.argv[1]))
        return
    with tempfile.TemporaryDirectory() as folder:
        for number in (1, 2):
            print(f"-- day {number}")
            await day(Path(folder) / "guests.db")


if __name__ == "__main__":
    rt.run(main)
