"""What the runtime has logged as an error while a test ran: an actor's failures, and what went wrong at its end."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

__all__ = ["LOGGER", "LoggedErrors", "logged_errors"]

LOGGER: Final = "retinue"
MOST_KEPT: Final = 100


class LoggedErrors(logging.Handler):
    """Keeps the first hundred.

    Args:
        expected: Classes of errors that are expected, and left out.
    """

    def __init__(self, expected: tuple[type[BaseException], ...] = ()) -> None:
        super().__init__(logging.ERROR)
        self._expected = expected
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keeps one, without the error's text, which the log itself has."""
        error = record.exc_info[1] if record.exc_info else None
        if len(self.lines) >= MOST_KEPT or (error is not None and isinstance(error, self._expected)):
            return
        self.lines.append(f"logged as an error: {record.getMessage()}{f' ({type(error).__qualname__})' if error is not None else ''}")


@contextmanager
def logged_errors(expected: tuple[type[BaseException], ...] = ()) -> Iterator[LoggedErrors]:
    """Keeps them in a block."""
    handler = LoggedErrors(expected)
    logger = logging.getLogger(LOGGER)
    logger.addHandler(handler)
    try:
        yield handler
    finally:
        logger.removeHandler(handler)
