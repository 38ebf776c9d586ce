"""`retinue runs`: the runs that were recorded, one a line."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from retinue.cli.output import say

if TYPE_CHECKING:
    from retinue.viewing.reading import TraceFile
    from retinue.viewing.summary import Summary

__all__ = ["fitting", "folder_option", "json_option", "opened", "runs", "states_of", "terminal_width"]

F = TypeVar("F", bound=Callable[..., Any])

LAST: Final = 20
"""Runs that are listed where nothing else is said."""

_PLAIN: Final = str.maketrans(
    {"→": "->", "≥": ">=", "µ": "u", "…": "...", "·": "*", "✗": "!", "├": "|", "└": "`", "│": "|", "─": "-", "█": "#", "▏": "|"}
)

WIDEST: Final = 60
"""Characters of what a run began with."""


def folder_option(command: F) -> F:
    """Adds `--data-dir`."""
    return click.option(
        "--data-dir",
        type=click.Path(file_okay=False, path_type=Path),
        default=".retinue",
        show_default=True,
        help="The system's folder: traces.sqlite3 is in it.",
    )(command)


def json_option(command: F) -> F:
    """Adds `--json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)


@contextmanager
def opened(data_dir: Path) -> Iterator[TraceFile]:
    """The folder's recorded runs. Raises ClickException for whatever is wrong with them."""
    from retinue.viewing.errors import TraceFileError
    from retinue.viewing.reading import TraceFile
    from retinue.viewing.text import harmless

    try:
        with TraceFile(data_dir) as file:
            yield file
    except TraceFileError as error:
        raise click.ClickException(harmless(str(error))) from None


def fitting(text: str) -> str:
    """The text with plain signs, and escapes, in the place of what the output's encoding lacks."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(_PLAIN).encode(encoding, "backslashreplace").decode(encoding)
    return text


def terminal_width() -> int:
    """Columns to print in: the terminal's, or 120 where there is none."""
    import shutil

    return shutil.get_terminal_size((120, 24)).columns


def states_of(data_dir: Path, summary: Summary) -> Mapping[str, str]:
    """What has become of the requests that a run waited for."""
    from retinue.viewing.consents import states_of as found

    return found(data_dir, [one.request for one in summary.approvals])


@click.command()
@folder_option
@click.option("--last", type=click.IntRange(min=0), default=LAST, show_default=True, help="How many, the latest; 0 for all.")
@click.option("--all", "everything", is_flag=True, help="Those of messages alone, too: without an agent, a model or a tool.")
@json_option
def runs(data_dir: Path, last: int, everything: bool, as_json: bool) -> None:
    """List the runs that were recorded, the latest last.

    A line has the run's id, when it began, what it began with, how it went, how long it took, and what it took: model calls, tool calls, tokens in and out, cost.
    "?" stands for what is not known, "≥" before what is known in part. `retinue show ID` shows one.
    """
    from retinue.viewing.data import summary_data
    from retinue.viewing.summary import summed

    with opened(data_dir) as file:
        found = []
        latest, left_out = file.latest(last, plain=everything)
        for trace_id in reversed(latest):
            summary = summed(file.read(trace_id, said=False))
            states = states_of(data_dir, summary)
            if as_json:
                found.append(summary_data(summary, states))
            else:
                say(fitting(_line(summary, states)))
                found.append({})
    if as_json:
        say(json.dumps(found, indent=1))
    elif not found:
        click.echo("no run was recorded yet", err=True)
    if left_out:
        click.echo(f"and {left_out:,} of messages alone: --all lists them", err=True)


def _line(summary: Summary, states: Mapping[str, str]) -> str:
    from retinue.viewing.text import harmless
    from retinue.viewing.words import cost, counted, given_up, length, moment, pending, title, tokens

    waiting = pending(summary, states)
    waits = "waits" if waiting else "given up" if given_up(summary, states) else "decided"
    status = {"ok": "ok", "error": "failed", "waits": waits, "unfinished": "not ended"}[summary.status]
    what = harmless(title(summary)[:WIDEST]) + ("…" if len(title(summary)) > WIDEST else "")
    parts = [f"{harmless(summary.trace.short)}  {moment(summary.started_ns)}  {status:<9}  {length(summary.duration_ns):>9}  {what}"]
    if summary.models.calls:
        parts.append(f"{counted(summary.models.calls, 'model call')}, {tokens(summary.models)} tokens, {cost(summary.models)}")
    if summary.tools.calls:
        parts.append(counted(summary.tools.calls, "tool call"))
    if summary.errors:
        parts.append(counted(summary.errors, "error"))
    if waiting:
        parts.append(f"waits for {', '.join(map(harmless, waiting))}")
    return "  ".join(parts)
