"""The command line: `retinue`, or `python -m retinue`.

`main` is the whole command. A command's module is imported when the command is run or its own help is asked for, never for
`retinue --help`: see `retinue.cli.group`.
"""

from __future__ import annotations

from retinue.cli.group import main

__all__ = ["main"]
