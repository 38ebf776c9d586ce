"""The schema of a database file: its name, and the steps that lead from an empty file to its tables, each taken once."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Iterable
from typing import Any

import attrs
from sqlite_utils import Database

from retinue.actors.store.errors import StoreUnavailable
from retinue.actors.store.failures import unavailable
from retinue.security.errors import DefinitionError

__all__ = ["Migration", "Schema", "check_schema", "migrate", "number"]

Migration = Callable[[Database], Any]
"""A step: changes the tables, through sqlite-utils or in SQL. It runs in a transaction that is not its own to end."""


def _steps(steps: Iterable[Migration]) -> tuple[Migration, ...]:
    return tuple(steps)


@attrs.frozen
class Schema:
    """What a file holds.

    The file carries a number that is made from the name (`PRAGMA application_id`), so that no other file is taken for it, and how many of the steps were taken
    (`PRAGMA user_version`). Steps are only ever added at the end; one that has been released is never changed.

    Attributes:
        name: What the file is for, "approvals" for example: 1 to 64 characters.
        migrations: The steps, in order.
    """

    name: str
    migrations: tuple[Migration, ...] = attrs.field(converter=_steps)

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.name, str) or not 1 <= len(self.name) <= 64:
            raise DefinitionError(f"Schema(name={self.name!r}): the name is a text of 1 to 64 characters")
        for step in self.migrations:
            if not callable(step):
                raise DefinitionError(f"Schema({self.name!r}): each migration is a function of the database, not {step!r}")

    @property
    def version(self) -> int:
        """How many steps there are."""
        return len(self.migrations)

    @property
    def application_id(self) -> int:
        """The number that files of this schema carry."""
        return int.from_bytes(hashlib.sha256(b"retinue/store/" + self.name.encode("utf-8", "surrogatepass")).digest()[:4], "big") >> 1 or 1


def migrate(database: Database, schema: Schema, *, until: int | None = None) -> int:
    """Takes the steps that the file has not taken yet, each in a transaction of its own: one that fails leaves the file as it was before it.

    Args:
        database: The file, with no transaction open.
        schema: Whose steps.
        until: Stop at this version; default all of them.

    Returns:
        How many steps were taken.

    Raises:
        StoreUnavailable: "newer" or "foreign" for a file that is not of this schema, "failed" where a step raised, and what else hinders a commit.
    """
    taken = 0
    last = schema.version if until is None else until
    if check_schema(database, schema) >= last:  # the usual case, and one that a file may be read-only in
        return 0
    while _step(database, schema, last):
        taken += 1
    return taken


def check_schema(database: Database, schema: Schema) -> int:
    """The file's version, where it is of this schema; -1 for a file with nothing in it, which is of any.

    Raises:
        StoreUnavailable: "newer" or "foreign".
    """
    version, application, tables = _seen(database)
    if application != schema.application_id:
        if application or version or tables:
            raise StoreUnavailable(
                f"the file is a database of something else than {schema.name!r} (its application_id is {application}, and not {schema.application_id}): "
                "it was left as it is. Name another file.",
                reason="foreign",
            )
        return -1  # even without a step there is something to be written: whose file it is
    if version > schema.version:
        raise StoreUnavailable(
            f"the file's schema {schema.name!r} is of version {version}, and this program knows {schema.version}: it was left as it is. "
            "Install the version of the program that wrote it, or a later one.",
            reason="newer",
        )
    return version


def _seen(database: Database) -> tuple[int, int, int]:
    """The file's version, its application's number and how many tables and indexes it has, of one and the same moment: another process may be writing its first step."""
    connection = database.conn
    alone = not connection.in_transaction
    if alone:
        connection.execute("BEGIN")
    try:
        tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        return number(database, "user_version"), number(database, "application_id"), int(tables)
    finally:
        if alone:
            _roll_back(connection)


def number(database: Database, pragma: str) -> int:
    """The value of a pragma that is a number."""
    return int(database.conn.execute(f"PRAGMA {pragma}").fetchone()[0])


def _step(database: Database, schema: Schema, last: int) -> bool:
    """Takes one step; says whether there was one to take. Another process may be at it too, so what the file has is looked at under the lock."""
    connection = database.conn
    try:
        connection.execute("BEGIN IMMEDIATE")
        known = check_schema(database, schema)
        if known >= last:
            connection.execute("ROLLBACK")
            return False
        version = max(known, 0)
        if known < 0:
            connection.execute(f"PRAGMA application_id = {schema.application_id}")
        if version < last:
            schema.migrations[version](database)
            if not connection.in_transaction:
                raise DefinitionError("it has ended the transaction that it runs in; leave that to the store")
            connection.execute(f"PRAGMA user_version = {version + 1}")
        connection.execute("COMMIT")
    except StoreUnavailable:
        _roll_back(connection)
        raise
    except Exception as error:
        _roll_back(connection)
        if isinstance(error, sqlite3.Error):
            refused = unavailable(error, "the schema could not be brought up to date")
            if refused is not None:
                raise refused from error
        raise StoreUnavailable(
            f"step {max(number(database, 'user_version'), 0) + 1} of the schema {schema.name!r} failed with {type(error).__name__}: {error}. "
            "The file is as it was before this step.",
            reason="failed",
        ) from error
    return True


def _roll_back(connection: sqlite3.Connection) -> None:
    if connection.in_transaction:
        connection.execute("ROLLBACK")
