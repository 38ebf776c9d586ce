"""How a command that talks to a system ends: what it prints, and its exit code."""

from __future__ import annotations

import json
import sys
import unicodedata
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import click

from retinue.cli.output import say

if TYPE_CHECKING:
    from retinue.security.errors import RetinueError

__all__ = ["APPROVAL_REQUIRED", "FAILED", "TIMED_OUT", "failed", "harmless", "needs_consent", "shown", "tell"]

FAILED: Final = 1
"""The exit code where the system refused, the handler failed, or the gateway could not be asked."""

APPROVAL_REQUIRED: Final = 3
"""The exit code where a person has to consent first."""

TIMED_OUT: Final = 124
"""The exit code where there was no answer in time: what `timeout` of the shell gives."""

_TIMEOUT: Final = ("give `timeout=` in seconds", "give --timeout SECONDS")
"""What a text of the runtime says to who programs, and what it is here."""

_TURNING: Final = frozenset(map(chr, (0x61C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))))


def shown(value: Any, *, as_json: bool = False) -> str:
    """A reply as a line: a text as it is, anything else as JSON. On a terminal nothing in it moves the cursor."""
    terminal = sys.stdout.isatty()
    if isinstance(value, str) and not as_json:
        return harmless(value) if terminal else value
    return json.dumps(value, ensure_ascii=terminal)


def tell(text: str) -> None:
    """Print a line to standard error."""
    click.echo(harmless(text) if sys.stderr.isatty() else text, err=True)


def failed(error: RetinueError, *, as_json: bool = False) -> SystemExit:
    """Tell of an error, in one line, and return what ends the command with its exit code."""
    from retinue.actors.runtime.errors import Unanswered

    if as_json:
        from retinue.remote import error_to_data

        tell(json.dumps(error_to_data(error)[1]))
    else:
        kind = getattr(error, "type", None) or type(error).__name__
        tell(f"Error: {kind}: {str(error).replace(*_TIMEOUT)}")
    return SystemExit(TIMED_OUT if isinstance(error, Unanswered) and isinstance(error, TimeoutError) else FAILED)


def needs_consent(required: Any, how: Iterable[str], *, as_json: bool = False) -> SystemExit:
    """Print the ids of the requests, one a line, and to standard error what each asks and how to go on. As JSON: the error, with its requests."""
    if as_json:
        from retinue.remote import error_to_data

        say(json.dumps(error_to_data(required)[1]))
        return SystemExit(APPROVAL_REQUIRED)
    tell(f"Error: ApprovalRequired: {required}")
    for request in required.requests:
        for line in request.shown():
            tell(f"  {line}")
    for line in how:
        tell(line)
    for request in required.requests:
        say(request.id)
    return SystemExit(APPROVAL_REQUIRED)


def harmless(text: str) -> str:
    """The text with the escapes of whatever moves the cursor, or turns the direction of what follows: a system's answers may come from anywhere."""
    if text.isprintable():
        return text
    return "".join(_escaped(character) for character in text)


def _escaped(character: str) -> str:
    harmful = character in _TURNING or (unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") and character not in "\n\t")
    return character.encode("unicode_escape").decode("ascii") if harmful else character
