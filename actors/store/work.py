"""What a store is asked to do: a message that is its own operation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from retinue.mailbox.messages import Request, message

if TYPE_CHECKING:
    from sqlite_utils import Database

__all__ = ["Work"]

R_co = TypeVar("R_co", covariant=True)


@message
class Work(Request[R_co]):
    """One piece of work on a store's database: derive from it, name it, give it fields of plain data and a `run`.

        @message(name="notes/Add@1")
        class Add(Work[int]):
            text: str

            def run(self, database):
                return database["notes"].insert({"text": self.text}).last_pk

    `run` is called in the store's thread, in a transaction that it does not end, together with other works. What it returns is the answer, given after the commit;
    what it raises undoes what it did, and nothing else. It may be run again where the transaction has to be, so it changes the database only.

    Attributes:
        full: The answer comes after the commit was forced to the disk (`PRAGMA synchronous = FULL`). False (default): after the commit was handed to the operating
            system, which a crash of the process does not undo, and a loss of power may.
        reads: It only reads. It then goes on where nothing can be written, and sees what the works before it have committed; what it tries to write is refused.
    """

    full: ClassVar[bool] = False
    reads: ClassVar[bool] = False

    def run(self, database: Database) -> R_co:
        """Does the work. Called by the store, never by others."""
        raise NotImplementedError(f"{type(self).__qualname__} has no `def run(self, database)`")

    @staticmethod
    def after_commit(database: Any) -> None:
        """Called by the store with the database after the commit, in its thread, before any of the works with the same one is answered: once for all of a commit.

        What it raises leaves them with a StoreUnavailable ("unknown"): what they did is written. Nothing, by default.
        """
