"""Where a command's token comes from: an option, a file, the environment or standard input."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

__all__ = ["VARIABLE", "token_of", "token_options"]

F = TypeVar("F", bound=Callable[..., Any])

VARIABLE = "RETINUE_TOKEN"
_LONGEST = 65_538


def token_options(command: F) -> F:
    """Adds `--token` and `--token-file`."""
    command = click.option(
        "--token-file",
        type=click.Path(path_type=Path, dir_okay=False),
        help="A file of mode 600 with the token, as `retinue token mint --out FILE` writes it. Better than --token, which other users of this machine can see.",
    )(command)
    return click.option("--token", metavar="TOKEN", help=f"The token; '-' reads it from standard input. Default: what is in ${VARIABLE}.")(
        command
    )


def token_of(token: str | None, token_file: Path | None) -> str:
    """The token's text. Raises UsageError where there is none, or two; and ClickException for a file that cannot be used."""
    from retinue.client.bearer import TokenFile, check_token
    from retinue.security.errors import AuthorityError

    if token is not None and token_file is not None:
        raise click.UsageError("give --token or --token-file, not both")
    try:
        if token_file is not None:
            return TokenFile(token_file).read()
        if token == "-":  # noqa: S105 - no token
            return check_token(sys.stdin.read(_LONGEST))
        found = os.environ.get(VARIABLE) if token is None else token
        if found is None:
            raise click.UsageError(
                f"a token is needed: --token-file FILE, or ${VARIABLE}. `retinue token mint --out FILE` makes one, on the system's machine"
            )
        return check_token(found)
    except AuthorityError as error:
        raise click.ClickException(str(error)) from None
