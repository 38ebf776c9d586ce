"""`--trace`: a command that starts a system records its runs, for `retinue runs` and `retinue show`."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

if TYPE_CHECKING:
    from retinue.actors.tracing.tracing import Tracing

__all__ = ["FOLDER", "recorded", "trace_options", "tracing_of"]

F = TypeVar("F", bound=Callable[..., Any])

FOLDER: Final = Path(".retinue")
"""Where runs are recorded without `--data-dir`: where `retinue runs` looks."""


def trace_options(command: F) -> F:
    """Adds `--trace` and `--trace-contents`."""
    command = click.option(
        "--trace-contents",
        is_flag=True,
        help="As --trace, and with what was said: prompts, answers, arguments, results. What looks like a secret is left out.",
    )(command)
    return click.option(
        "--trace", is_flag=True, help=f"Record the runs for `retinue runs` and `retinue show`, in the data folder, or in {FOLDER}."
    )(command)


def tracing_of(trace: bool, contents: bool, folder: Path | None) -> Tracing | None:
    """What a system is to record; None for nothing.

    Args:
        trace: Whether `--trace` was given.
        contents: Whether `--trace-contents` was.
        folder: The data folder, if there is one.
    """
    if not trace and not contents:
        return None
    from retinue.actors.tracing.tracing import FILE_NAME, Tracing

    return Tracing(sqlite=(folder or FOLDER).absolute() / FILE_NAME, contents=contents)


@contextmanager
def recorded(tracing: Tracing | None, folder: Path | None) -> Iterator[None]:
    """Says at the end, on standard error, how to look at what was recorded. Raises ClickException where the file cannot be used."""
    from retinue.actors.tracing.errors import TraceFileUnusable

    usable = True
    try:
        yield
    except TraceFileUnusable as error:
        usable = False
        raise click.ClickException(f"{error} (here: --data-dir FOLDER)" if tracing is not None else str(error)) from None
    finally:
        if usable and tracing is not None and isinstance(tracing.sqlite, Path) and tracing.sqlite.exists():
            where = "" if folder is None or folder == FOLDER else f" --data-dir {shlex.quote(str(folder))}"
            click.echo(f"recorded; to look at it: retinue show last{where}", err=True)
