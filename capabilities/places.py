"""Where in a program something was raised, for logs. What an exception says is left out: it may quote anything."""

from __future__ import annotations

import logging
import traceback
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from retinue.security.errors import RetinueError

__all__ = ["level_of", "raised_at", "raised_through", "shorten"]

# An exception's class may say something else of itself: what it is, where it was raised, and which parts it has.
_traceback_of: Any = BaseException.__dict__["__traceback__"]
_parts_of: Any = BaseExceptionGroup.__dict__["exceptions"]

_OURS = frozenset(("retinue", "trio", "outcome"))


def level_of(error: BaseException) -> int:
    """How loud a log tells of an error that is taken over, so that nobody is raised it: WARNING for what an author's own code raised, which may be a mistake
    in it that nobody would see else; INFO for the typed errors of Retinue, which those who take them over expect.
    """
    todo = [error]
    while todo:
        one = todo.pop()
        if _is(one, BaseExceptionGroup):
            todo.extend(_parts_of.__get__(one))
        elif not _is(one, RetinueError):
            return logging.WARNING
    return logging.INFO


def raised_at(error: BaseException) -> str:
    """The file's name and the line that raised it, as in "shop.py:12"; "somewhere" where nothing is known."""
    last: TracebackType | None = _traceback_of.__get__(error)
    if last is None:
        return "somewhere"
    while last.tb_next is not None:
        last = last.tb_next
    return f"{Path(last.tb_frame.f_code.co_filename).name}:{last.tb_lineno}"


def raised_through(error: BaseException, most: int = 20) -> str:
    """The lines that led to it, the last of them as in a traceback. Those of the framework's own are left out where they only led to an author's.

    Args:
        error: What was raised.
        most: How many calls are shown, the innermost ones.
    """
    calls = list(traceback.walk_tb(_traceback_of.__get__(error)))
    theirs = [number for number, (frame, _) in enumerate(calls) if not _is_ours(frame)]
    shown = [*(calls[number] for number in theirs), *calls[theirs[-1] + 1 :]] if theirs else calls
    return "".join(traceback.StackSummary.extract(shown[-most:]).format()).rstrip("\n")


def shorten(error: BaseException) -> None:
    """Leaves out of an error's traceback the lines of the framework's own that only led to an author's: those of how a message gets to its handler. Where no author's code
    is in it, and for the typed errors of Retinue, it stays as it is.
    """
    if not _is(error, Exception) or _is(error, (RetinueError, BaseExceptionGroup)):
        return
    calls: list[TracebackType] = []
    call: TracebackType | None = _traceback_of.__get__(error)
    while call is not None:
        calls.append(call)
        call = call.tb_next
    last = next((number for number in range(len(calls) - 1, -1, -1) if not _is_ours(calls[number].tb_frame)), None)
    if last is None:
        return
    made: TracebackType | None = calls[last + 1] if last + 1 < len(calls) else None
    for one in reversed(calls[: last + 1]):
        if not _is_ours(one.tb_frame):
            made = TracebackType(made, one.tb_frame, one.tb_lasti, one.tb_lineno)
    _traceback_of.__set__(error, made)


def _is(error: BaseException, kinds: type[BaseException] | tuple[type[BaseException], ...]) -> bool:
    return issubclass(type(error), kinds)


def _is_ours(frame: FrameType) -> bool:
    """Whether it is one of ours, or of what carries ours."""
    name = frame.f_globals.get("__name__")
    return isinstance(name, str) and name.partition(".")[0] in _OURS
