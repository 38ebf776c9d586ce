"""Printing: a stream that takes nothing is one sentence."""

from __future__ import annotations

import errno
import os
import sys

import click

__all__ = ["say"]


def say(text: str) -> None:
    """Print a line. Raises ClickException where it cannot be written: to a full disk, say. (Click itself ends quietly at a closed pipe.)"""
    try:
        click.echo(text)
    except OSError as error:
        if error.errno == errno.EPIPE:
            raise
        _discard_stdout()
        raise click.ClickException(f"the output cannot be written: {error.strerror or error}") from None


def _discard_stdout() -> None:
    """Python would try once more at its end to write what is left, and end with a traceback."""
    try:
        descriptor = os.open(os.devnull, os.O_WRONLY)
        os.dup2(descriptor, sys.stdout.fileno())
        os.close(descriptor)
    except (OSError, ValueError):
        pass  # it has no descriptor: nothing is left over
