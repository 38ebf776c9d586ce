"""`retinue show`: one recorded run, as a tree, as JSON or as a web page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import click

from retinue.cli.output import say
from retinue.cli.runs import fitting, folder_option, json_option, opened, states_of, terminal_width

__all__ = ["show"]

MOST: Final = 500
"""Spans that the terminal shows where nothing else is said."""

MOST_RUNS: Final = 50
"""Runs of agents in one trace whose other traces are looked for: each is a look through the whole file."""


@click.command()
@click.argument("run", metavar="RUN")
@folder_option
@click.option(
    "--html",
    "page",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write a web page of its own, which needs no network.",
)
@click.option("--most", type=click.IntRange(min=0), default=MOST, show_default=True, help="How many spans, the first; 0 for all.")
@json_option
def show(run: str, data_dir: Path, page: Path | None, most: int, as_json: bool) -> None:
    """Show a recorded run as a tree, or as a web page: its messages, model calls, tools, hand-overs and errors, with bars of time.

    RUN is an id as `retinue runs` prints it, any beginning of one that is no other's, or "last". With --html FILE a web page with all of it is written.
    """
    if page is not None and as_json:
        raise click.UsageError("--html and --json: choose one")
    from retinue.viewing.summary import summed

    with opened(data_dir) as file:
        summary = summed(file.read(file.find(run)))
        others = {other: run_id for run_id in summary.runs[:MOST_RUNS] for other in file.others_of(run_id, summary.trace.trace_id)}
        shorts = [file.short(other) for other in others]
    states = states_of(data_dir, summary)
    if as_json:
        from retinue.viewing.data import data_of

        say(json.dumps({**data_of(summary, states), "other_traces": list(others)}))
    elif page is not None:
        from retinue.viewing.page import page_of

        _write(page, page_of(summary, states, shorts))
        click.echo(f"{page} has been written: open it in a browser", err=True)
    else:
        from retinue.viewing.text import shown

        for line in shown(summary, terminal_width(), most=most, states=states, others=shorts):
            say(fitting(line))
        if most and len(summary.trace.spans) > most:
            click.echo("--most 0 prints them all, --html FILE makes a page of them", err=True)


def _write(path: Path, text: str) -> None:
    """A page may tell what was said: its file is this user's alone."""
    from retinue.security.private_files import locked_folder, replace_private

    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise click.ClickException(f"{path} is a link or no plain file, and is left alone. Name another: --html FILE")
    try:
        with locked_folder(path):
            replace_private(path, text.encode("utf-8", "replace"))
    except OSError as error:
        raise click.ClickException(f"{path} cannot be written: {error.strerror or error}") from None
