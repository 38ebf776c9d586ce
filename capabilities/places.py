"""Where in a program something was raised, for logs. What an exception says is left out: it may quote anything."""

from __future__ import annotations

import traceback
from pathlib import Path
from types import TracebackType
from typing import Any

__all__ = ["raised_at", "raised_through"]

_traceback_of: Any = BaseException.__dict__["__traceback__"]  # an exception's class may say something else of itself


def raised_at(error: BaseException) -> str:
    """The file's name and the line that raised it, as in "shop.py:12"; "somewhere" where nothing is known."""
    last: TracebackType | None = _traceback_of.__get__(error)
    if last is None:
        return "somewhere"
    while last.tb_next is not None:
        last = last.tb_next
    return f"{Path(last.tb_frame.f_code.co_filename).name}:{last.tb_lineno}"


def raised_through(error: BaseException, most: int = 20) -> str:
    """The lines that led to it, the last of them as in a traceback.

    Args:
        error: What was raised.
        most: How many calls are shown, the innermost ones.
    """
    return "".join(traceback.format_tb(_traceback_of.__get__(error), -most)).rstrip("\n")
