"""`retinue version`."""

from __future__ import annotations

import click

from retinue.cli.output import say

__all__ = ["version"]


@click.command()
def version() -> None:
    """Print the version of Retinue and of the Python that runs it."""
    import platform

    import retinue

    say(f"retinue {retinue.__version__} (Python {platform.python_version()})")
