"""`retinue doctor`: what is installed, and what would be used."""

from __future__ import annotations

from pathlib import Path

import click

from retinue.cli.output import say

__all__ = ["doctor"]


@click.command()
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path),
    help="The data folder to look at, and to look for weights in, as demo and models do; default: the platform's own.",
)
@click.option(
    "--module", "modules", multiple=True, metavar="MODULE", help="List this module's handlers that are open to all. May be repeated."
)
def doctor(data_dir: Path | None, modules: tuple[str, ...]) -> None:
    """Show what is installed, and what would be used.

    Versions of Retinue's dependencies and extras; the endpoint and the model that --live would use (of the key only whether it is set),
    the model that is used without, and whether its weights are on this machine; whether the tokenizer's data is; the data folder; and with
    --module the handlers that need no permission. Opens no connection and writes nothing. Ends with exit code 1 where something needed is
    missing or cannot be used.
    """
    import os
    from itertools import chain

    from retinue.cli import checkup
    from retinue.cli.targets import import_target

    folder = data_dir or checkup.default_data_folder(os.environ, Path.home())
    findings = chain(
        checkup.interpreter(),
        checkup.dependencies(),
        checkup.endpoint(os.environ),
        checkup.embedded_model(os.environ, data_dir),
        checkup.tokenizer(),
        checkup.data_folder(folder.absolute()),
        *(checkup.open_handlers(import_target(name)) for name in modules),
    )
    broken = 0
    for finding in findings:
        say(f"{'!!' if finding.broken else '  '} {finding.what}: {finding.text}")
        broken += finding.broken
    if broken:
        raise click.ClickException(f"{broken} of these must be mended (marked !!)")
