"""`retinue audit`: check an audit file, and read it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from retinue.cli.output import say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from retinue.security.audit_chain import AuditEntry

__all__ = ["audit"]

_FILE = click.argument("path", metavar="PATH", type=click.Path(path_type=Path, dir_okay=False))


@click.group()
def audit() -> None:
    """Check an audit file, and read it."""


@audit.command()
@_FILE
@click.option(
    "--key",
    "key_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The key file; default: audit.key for audit.jsonl and for audit.2.jsonl.",
)
@click.option("--head", metavar="NUMBER:MAC", help="A head that was kept elsewhere; without one, a cut at the end cannot be seen.")
def verify(path: Path, key_file: Path | None, head: str | None) -> None:
    """Check every record of the audit file PATH, and that none was removed, added or reordered.

    Prints how many there are, and the head (number and MAC) to keep in another place. Ends with exit code 1 where something does not fit.
    Reads only; the file may be in use meanwhile.
    """
    from retinue.security.audit_chain import AuditHead, verify_chain
    from retinue.security.audit_file import read_audit_file
    from retinue.security.errors import AuthorityError

    torn: list[int] = []
    try:
        kept = None if head is None else AuditHead.parse(head)
        path.stat()  # before the key: where neither is there, the path is what was mistyped
        key = _key_of(path, key_file or _key_beside(path))
        found = verify_chain(read_audit_file(path, on_torn=torn.append), key, head=kept)
    except AuthorityError as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"{path} cannot be read: {error.strerror}") from None
    say(f"{_counted(found.number)} fit together")
    if torn:
        say(f"after them: {torn[0]} bytes of a record that is being written, or that a killed process left")
    if kept is None:
        say("whether the end was cut off cannot be said without --head")
    say(f"head {found}")


@audit.command()
@_FILE
@click.option("--last", type=click.IntRange(min=0), default=20, show_default=True, help="How many records, the latest; 0 for all.")
@click.option("--operation", metavar="PATTERN", help="Only those of these operations, such as 'fs.*'.")
@click.option("--refused", is_flag=True, help="Only those that refused.")
@click.option("--json", "as_json", is_flag=True, help="Print them as they are stored.")
def show(path: Path, last: int, operation: str | None, refused: bool, as_json: bool) -> None:
    """Print records of the audit file PATH, oldest first, without checking them: `retinue audit verify` does that."""
    from collections import deque

    from retinue.security.audit_file import read_audit_file
    from retinue.security.errors import AuthorityError
    from retinue.security.operations import Pattern

    try:
        pattern = None if operation is None else Pattern(operation)
        wanted = (
            entry
            for entry in read_audit_file(path)
            if not (refused and entry.allowed)
            and (pattern is None or (entry.operation is not None and pattern.matches_segments(tuple(entry.operation.split(".")))))
        )
        entries: Iterator[AuditEntry] | deque[AuditEntry] = deque(wanted, maxlen=last) if last else wanted
        for entry in entries:
            say(entry.line if as_json else _shown(entry))
    except AuthorityError as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"{path} cannot be read: {error.strerror}") from None


def _key_beside(path: Path) -> Path:
    """The key file of a file of records: the second system on a folder writes `audit.2.jsonl`, with the key of the first."""
    own = path.with_suffix(".key")
    base, _, number = path.stem.rpartition(".")
    return path.with_name(f"{base}.key") if base and number.isascii() and number.isdigit() and not own.exists() else own


def _key_of(path: Path, key_file: Path) -> bytes:
    """The key that the first record fits; the current one where none does, so that what is said is what does not fit."""
    from retinue.security.audit_chain import verify_chain
    from retinue.security.audit_file import read_audit_file
    from retinue.security.errors import AuditBroken, KeyFileError
    from retinue.security.keys import KeyFile

    if not key_file.exists():
        raise KeyFileError(f"the key file {key_file} is not there. Give the one that the records of {path} were written with: --key FILE")
    ring = KeyFile(key_file).ring()
    first = list(_first(read_audit_file(path)))
    for key in ring.keys:
        try:
            verify_chain(first, key.secret)
        except AuditBroken:
            continue
        return key.secret
    return ring.current.secret


def _first(entries: Iterator[AuditEntry]) -> Iterator[AuditEntry]:
    for entry in entries:
        yield entry
        return


def _counted(number: int) -> str:
    return f"{number:,} record{'' if number == 1 else 's'}"


def _shown(entry: AuditEntry) -> str:
    """A record in one line."""
    from retinue.security.limits import moment
    from retinue.security.showing import visible

    parts = [f"{entry.number}", moment(entry.at_ms), entry.kind]
    if entry.kind in ("decision", "allowed_batch", "outcome"):
        parts.append("allowed" if entry.allowed else "refused")
    if entry.count != 1:
        parts.append(f"{entry.count}×")
    parts += filter(None, (entry.operation, entry.subject, entry.path, entry.message_type, entry.reason))
    # A subject's name must not write on the reader's terminal.
    return visible(" ".join(parts) + (f": {entry.detail}" if entry.detail else ""))
