"""The file of spans, opened to read alone, also while a system writes it."""

from __future__ import annotations

import os
import sqlite3
import stat
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, final

import attrs

from retinue.viewing.errors import TraceFileError
from retinue.viewing.spans import COLUMNS, MOST_ATTRIBUTE_CHARACTERS, Span, span_of_row

__all__ = ["FILE", "MOST_SPANS", "SCHEMA", "Trace", "TraceFile", "opened_to_read"]

FILE: Final = "traces.sqlite3"
"""The file's name in a system's folder."""

SCHEMA: Final = 1
"""The version of the table that is known here: the file's `user_version`."""

MOST_SPANS: Final = 100_000
"""Spans of one run that are read, the first."""

BUSY_TIMEOUT: Final = 5.0
"""Seconds to wait for a writer that holds the file."""

SHORTEST: Final = 8
"""Characters of a run's id that are shown at least."""

HOW: Final = (
    "Record runs with `retinue run --data-dir FOLDER --trace …`, or in a program with rt.ActorSystem(data_dir=…, tracing=rt.Tracing())"
)

_TEXT_COLUMNS: Final = ("attributes", "events")

_WITHOUT_WORDS: Final = (
    "CASE WHEN length({0}) > 2000 AND json_valid({0}) THEN json_remove({0}, '$.\"gen_ai.input.messages\"', '$.\"gen_ai.output.messages\"',"
    " '$.\"gen_ai.tool.call.arguments\"', '$.\"gen_ai.tool.call.result\"') ELSE {0} END"
)


@attrs.frozen
class Trace:
    """One recorded run.

    Attributes:
        trace_id: Its id: 32 hexadecimal digits.
        short: As much of the id as no other run of the file begins with, eight characters at least.
        spans: Its spans, by the time of their start.
        left_out: How many more there are than were read.
    """

    trace_id: str
    short: str
    spans: tuple[Span, ...]
    left_out: int = 0


@final
class TraceFile:
    """The recorded runs in a folder of data. It is only read.

    Args:
        folder: The system's folder.

    Raises:
        TraceFileError: Here and from every method, where the file cannot be read.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        self._connection = opened_to_read(self.path)
        try:
            self._check()
        except BaseException:
            self._connection.close()
            raise
        self._ids: list[str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._connection.close()

    def latest(self, count: int, *, plain: bool = False) -> tuple[list[str], int]:
        """The ids of the runs that began last, the latest first, and how many of the file are plain messages and left out for that.

        Args:
            count: How many at most; 0 for all.
            plain: Whether traces are among them that have messages alone: no agent, no model and no tool. Where the file has no others, they are in any case.
        """
        rows = self._all(
            "SELECT trace_id, MAX(instr(attributes, '\"gen_ai.operation.name\"') > 0) FROM spans WHERE typeof(trace_id) = 'text'"
            " GROUP BY trace_id ORDER BY MIN(started_ns) DESC, trace_id",
            (),
        )
        found = [str(row[0]) for row in rows if plain or row[1]] or [str(row[0]) for row in rows]
        return found[: count or len(found)], len(rows) - len(found)

    def find(self, beginning: str) -> str:
        """The id of the run that begins so; "last" is the one that began last (of those with an agent, a model or a tool, where there are any). Case and blanks around it do not matter.

        Raises:
            TraceFileError: There is none ("unknown", or "empty" where there is none at all), or several ("unknown").
        """
        wanted = beginning.strip().lower()
        if wanted == "last":
            latest, _ = self.latest(1)
            if not latest:
                raise TraceFileError(f"{self.path} has no run yet. {HOW}", reason="empty")
            return latest[0]
        found = [one for one in self._every() if one.lower().startswith(wanted)] if wanted else []
        exact = [one for one in found if one.lower() == wanted]
        if len(found) == 1 or len(exact) == 1:
            return (exact or found)[0]
        if found:
            raise TraceFileError(
                f"{len(found)} runs begin with {wanted[:40]!r}: {_listed([self.short(one) for one in found])}", reason="unknown"
            )
        raise self._unknown(wanted)

    def short(self, trace_id: str) -> str:
        """The shortest beginning of a run's id that is no other one's, eight characters at least."""
        every = self._every()
        place = bisect_left(every, trace_id)
        shared = max((_alike(one, trace_id) for one in every[max(0, place - 1) : place + 2] if one != trace_id), default=0)
        return trace_id[: max(SHORTEST, shared + 1)]

    def read(self, trace_id: str, *, said: bool = True) -> Trace:
        """All spans of a run.

        Args:
            trace_id: Its id.
            said: Whether with what people and models said, which is most of a file that has it, and takes most of the time.
        """
        kept = dict.fromkeys(COLUMNS, "{}")
        if not said:
            kept["attributes"] = _WITHOUT_WORDS
        limited = ", ".join(
            f"CASE WHEN length({name}) > {MOST_ATTRIBUTE_CHARACTERS} THEN 'too large' ELSE {kept[name].format(name)} END"
            if name in _TEXT_COLUMNS
            else name
            for name in COLUMNS
        )
        rows = self._all(f"SELECT {limited} FROM spans WHERE trace_id = ? ORDER BY started_ns, span_id LIMIT {MOST_SPANS}", (trace_id,))  # noqa: S608 - our own names
        left_out = 0
        if len(rows) == MOST_SPANS:
            left_out = int(self._all("SELECT COUNT(*) FROM spans WHERE trace_id = ?", (trace_id,))[0][0]) - MOST_SPANS
        return Trace(trace_id, self.short(trace_id), tuple(map(span_of_row, rows)), left_out)

    def others_of(self, run: str, trace_id: str, most: int = 10) -> list[str]:
        """The ids of other traces that belong to the same run of an agent: one that was parked goes on in a trace of its own."""
        rows = self._all(
            "SELECT trace_id, MIN(started_ns) FROM spans WHERE trace_id <> ? AND (instr(attributes, ?) > 0 OR instr(events, ?) > 0)"
            " GROUP BY trace_id ORDER BY 2 LIMIT ?",
            (trace_id, run, run, most),
        )
        return [str(row[0]) for row in rows]

    def _every(self) -> list[str]:
        """All ids, sorted: those that are most alike stand side by side."""
        if self._ids is None:
            self._ids = sorted(
                {str(row[0]) for row in self._all("SELECT DISTINCT trace_id FROM spans WHERE typeof(trace_id) = 'text'", ())}
            )
        return self._ids

    def _unknown(self, wanted: str) -> TraceFileError:
        every = self._every()
        if not every:
            return TraceFileError(f"{self.path} has no run yet. {HOW}", reason="empty")
        size = max(len(wanted), SHORTEST)
        near = get_close_matches(wanted, {one[:size].lower() for one in every}, 1) if len(every) <= 10_000 else []
        meant = (
            f"Did you mean {self.find(near[0])[:size]}?" if near and sum(one.lower().startswith(near[0]) for one in every) == 1 else None
        )
        return TraceFileError(
            f"no run in {self.path} begins with {wanted[:40]!r}. {meant or '`retinue runs` lists them; `last` is the latest'}",
            reason="unknown",
        )

    def _check(self) -> None:
        version = int(self._all("PRAGMA user_version", ())[0][0])
        if version > SCHEMA:
            raise TraceFileError(
                f"{self.path} was written by a newer Retinue (its schema is {version}, this one knows {SCHEMA}): upgrade, pip install -U retinue",
                reason="newer",
            )
        if not self._all("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'spans'", ()):
            if self._all("SELECT COUNT(*) FROM sqlite_master", ())[0][0]:
                raise TraceFileError(f"{self.path} is a database of something else: it has no table of spans. Name another folder")
            raise TraceFileError(f"{self.path} has no run yet. {HOW}", reason="empty")
        there = {str(row[1]) for row in self._all("PRAGMA table_info(spans)", ())}
        missing = [name for name in COLUMNS if name not in there]
        if missing:
            raise TraceFileError(f"{self.path} is a database of something else: its table of spans lacks {', '.join(missing)}")

    def _all(self, sql: str, values: tuple[Any, ...]) -> list[Any]:
        with _told(self.path):
            return self._connection.execute(sql, values).fetchall()


def _alike(one: str, other: str) -> int:
    """How many characters two texts begin with alike."""
    return next((at for at, (left, right) in enumerate(zip(one, other, strict=False)) if left != right), min(len(one), len(other)))


def _listed(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f", and {len(names) - 5} more" if len(names) > 5 else "")


def opened_to_read(path: Path) -> sqlite3.Connection:
    """A connection to a database that cannot write it. Raises TraceFileError."""
    try:
        status = path.stat()
    except FileNotFoundError:
        raise TraceFileError(f"there is no {path}: no run was recorded there. {HOW}", reason="missing") from None
    except OSError as error:
        raise TraceFileError(f"{path} cannot be looked at: {error.strerror}", reason="forbidden") from None
    if not stat.S_ISREG(status.st_mode):
        raise TraceFileError(f"{path} is no plain file. Name another folder: --data-dir FOLDER")
    if not os.access(path, os.R_OK):
        raise TraceFileError(
            f"{path} may not be read by this user: it is its owner's alone. Run this as the user who recorded it", reason="forbidden"
        )
    address = f"{path.absolute().as_uri()}?mode=ro"
    if not os.access(path.parent, os.W_OK) and not _has_content(path.with_name(f"{path.name}-wal")):
        address += "&immutable=1"  # SQLite could not make the index that readers and writers share, and there is no writer
    with _told(path):
        connection = sqlite3.connect(address, uri=True, timeout=BUSY_TIMEOUT, isolation_level=None)
        connection.text_factory = lambda data: data.decode("utf-8", "replace")
        try:
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.execute("PRAGMA query_only = ON")
        except BaseException:
            connection.close()
            raise
    return connection


def _has_content(path: Path) -> bool:
    try:
        return path.stat().st_size > 0
    except OSError:
        return False


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """Turns an error of SQLite into one that says what to do."""
    try:
        yield
    except sqlite3.Error as error:
        text = str(error)
        if "locked" in text or "busy" in text:
            raise TraceFileError(f"{path} is held by a writer for longer than {BUSY_TIMEOUT:g} s. Try again", reason="busy") from None
        if "unable to open" in text or "readonly" in text:
            raise TraceFileError(
                f"{path} cannot be opened ({text}). Its folder must be one that this user may write: copy the file, and {path.name}-wal with it, to another",
                reason="forbidden",
            ) from None
        raise TraceFileError(
            f"{path} cannot be read: {text}. It is damaged, or no file of runs; what is left of it may be had with: sqlite3 FILE .recover"
        ) from None
