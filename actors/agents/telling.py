"""What is said besides of an error that goes through a run: from which member it came, what would be right, and in the log where it was raised."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from retinue.actors.tools.rendering import error_text
from retinue.capabilities.places import level_of, raised_through

__all__ = ["advise", "log_failure", "note", "of_function"]

_log = logging.getLogger("retinue.agents")

MOST_NOTES: Final = 64
"""Notes of one error: teams within each other add one each; an error that somebody keeps and raises again and again is not to grow for ever."""

LINES: Final = 8
"""Calls that are logged of what led to an error, the innermost ones."""

ASYNCIO: Final = 'The system runs on trio, under retinue.aio, too: write trio.sleep for asyncio.sleep. A function that needs asyncio is a tool, with @rt.tool(loop="asyncio")'

GATHER: Final = "; members are asked at the same time by run.gather and run.together"

_NO_ASYNCIO: Final = ("no running event loop", "There is no current event loop")
_NOT_TRIO: Final = "trio.run received unrecognized yield message"


def note(error: BaseException, text: str) -> None:
    """Adds a note to an error, once."""
    notes = getattr(error, "__notes__", ())
    if text not in notes and len(notes) < MOST_NOTES:
        error.add_note(text)


@contextmanager
def of_function(what: str) -> Iterator[None]:
    """What an author's function raises within it says of which option it is."""
    try:
        yield
    except Exception as error:
        note(error, f"raised in {what}")
        raise


def advise(error: Exception, *, of_team: bool = False) -> None:
    """Says what would be right where an error comes of asyncio, used in what a run calls.

    Args:
        error: The error, which is changed.
        of_team: Whether it is a team's run.
    """
    kind, text = type(error), str(error)
    advice = f"{ASYNCIO}{GATHER if of_team else ''}."
    if kind is RuntimeError and any(words in text for words in _NO_ASYNCIO) and ASYNCIO not in text:
        error.args = (f"{text.rstrip('.')}. {advice}",)
    elif kind is TypeError and _NOT_TRIO in text:
        note(error, advice)


def log_failure(where: str, who: str, error: Exception, what: str) -> None:
    """Logs a failure of which nobody else gets the error itself: one of ours at INFO, any other at WARNING and with the lines that led to it.

    Args:
        where: The path of the team or the agent.
        who: Who has failed.
        error: How.
        what: What becomes of that.
    """
    level = level_of(error)
    if not _log.isEnabledFor(level):
        return
    lines = "" if level == logging.INFO else f":\n{raised_through(error, LINES)}"
    _log.log(level, "%s: %s failed (%s), and %s%s", where, who, error_text(error), what, lines)
