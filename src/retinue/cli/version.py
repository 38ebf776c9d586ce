"""`retinue version`."""

from __future__ import annotations

import click

__all__ = ["version"]


@click.command()
def version() -> None:
    """Print the version of Retinue and of the Python that runs it."""
    import platform

    import retinue

    click.echo(f"retinue {retinue.__version__} (Python {platform.python_version()})")
