"""A plain script: no `async` anywhere, and an actor that owns a SQLite file.

Shows: `retinue.sync`, pykka futures for what should not block, and a blocking actor: it has a thread of its own in which it may block, and
since it handles one message at a time its database connection needs no lock.
Run:   python examples/blocking_script.py
"""

import tempfile
from pathlib import Path

import pykka
import sqlite_utils

import retinue as rt
from retinue.sync import ActorSystem


@rt.message
class Save(rt.Request[int]):
    """Save a note; the answer is its number."""

    text: str


@rt.message
class Search(rt.Request[list[str]]):
    """Ask for the notes with that word."""

    word: str


class Notebook(rt.Actor, blocking=True):
    """Keeps notes in a SQLite file. Constructor, hooks and handlers all run in this actor's own thread."""

    def __init__(self, path: Path) -> None:
        self.database = sqlite_utils.Database(path)
        self.notes = self.database["notes"]

    def on_start(self) -> None:
        self.notes.create({"id": int, "text": str}, pk="id", if_not_exists=True)

    def on_stop(self, reason: str) -> None:
        self.database.close()
        print(f"the file is closed ({reason})")

    @rt.handler
    def save(self, message: Save) -> int:
        return self.notes.insert({"text": message.text}).last_pk

    @rt.handler
    def search(self, message: Search) -> list[str]:
        return [row["text"] for row in self.notes.rows_where("text like ?", [f"%{message.word}%"], order_by="id")]


class Shouter(rt.Actor):
    """An ordinary actor, which asks the notebook and awaits its answer."""

    def __init__(self, notebook: rt.Ref[Notebook]) -> None:
        self.notebook = notebook

    @rt.handler
    async def search(self, message: Search) -> list[str]:
        return [text.upper() for text in await self.notebook.ask(message)]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "notes.db"
        with ActorSystem("notes") as system:
            notebook = system.spawn(Notebook, path, name="notebook")
            print("first note:", notebook.ask(Save("Buy pears.")))

            futures = [notebook.ask(Save(text), block=False) for text in ("Sell apples.", "Buy plums.", "Eat.")]
            print("three more:", pykka.get_all(futures, timeout=10))

            found = notebook.ask(Search("Buy"), block=False)
            print("how many things to buy:", found.map(len).get(timeout=10))

            shouter = system.spawn(Shouter, notebook, name="shouter")
            print(shouter.ask(Search("Buy")))

        with ActorSystem("notes-again") as system:  # another system, the same file
            print("still there:", system.spawn(Notebook, path).ask(Search("Eat")))


if __name__ == "__main__":
    main()
