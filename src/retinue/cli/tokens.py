"""`retinue token`: make, narrow, look at and revoke sealed tokens."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import attrs
import click

from retinue.cli.bearing import token_of, token_options
from retinue.cli.output import say
from retinue.cli.restricting import Restrictions, restriction_options, seconds_of

if TYPE_CHECKING:
    from retinue.security.keys import KeyFile
    from retinue.security.seal import Sealer

__all__ = ["token"]

F = TypeVar("F", bound=Callable[..., Any])

KEYS: Final = "tokens.key"
REVOKED: Final = "revoked.jsonl"

NOTHING_SAID: Final = "limit()"
"""How a block is shown that takes nothing away."""


def _folder(command: F) -> F:
    return click.option(
        "--data-dir",
        type=click.Path(file_okay=False, path_type=Path),
        default=".retinue",
        show_default=True,
        help="The system's folder, which has the key.",
    )(command)


def _out(command: F) -> F:
    return click.option(
        "--out",
        type=click.Path(path_type=Path, dir_okay=False),
        help="Write the token into this file, of mode 600, instead of printing it; one that is there is replaced.",
    )(command)


@click.group()
def token() -> None:
    """Make, narrow, look at and revoke sealed tokens.

    Who has a token has its authority, as long as it lasts: keep it in a file of mode 600 (--out), for other users of this machine can see what is typed.
    """


@token.command()
@_folder
@click.option("--subject", required=True, metavar="NAME", help="Whom the token speaks for.")
@restriction_options
@click.option(
    "--expires",
    "seconds",
    default="1h",
    show_default=True,
    callback=seconds_of,
    metavar="TIME",
    help="How long it lasts: 90s, 15m, 1h, 7d.",
)
@click.option("--audience", metavar="NAME", help="The system that alone may take it. Default: whichever has the key.")
@click.option("--tenant", metavar="NAME", help="The customer or organisation.")
@click.option("--project", metavar="NAME", help="The project.")
@click.option("--session", metavar="NAME", help="The session.")
@_out
def mint(
    data_dir: Path,
    subject: str,
    restrictions: Restrictions,
    seconds: float,
    audience: str | None,
    tenant: str | None,
    project: str | None,
    session: str | None,
    out: Path | None,
) -> None:
    """Make a token for a system, with the key in its folder, and print it.

    It permits nothing that the system itself may not do. Where there is no key yet, it is made, with the folder, as `retinue serve` does; that is told.
    """
    from retinue.security.authority import Authority
    from retinue.security.seal import Sealer

    if restrictions.patterns is None:
        raise click.UsageError("say what it permits: --allow PATTERN, such as --allow 'shop.*' (or --allow '**' for everything)")
    with _refusals():
        authority = Authority()
        context = authority.mint(subject, restrictions.permissions, tenant=tenant, project=project, session=session)
        sealer = Sealer(authority, _own_keys(data_dir))  # last: what was mistyped makes no key
        _give(sealer.seal(context, expires_seconds=seconds, audience=audience), out)


@token.command()
@token_options
@restriction_options
@click.option(
    "--expires",
    "seconds",
    callback=seconds_of,
    metavar="TIME",
    help="How long it lasts from now on: 90s, 15m, 1h. Never longer than before.",
)
@click.option("--audience", metavar="NAME", help="The system that alone may take it.")
@_out
def narrow(
    token: str | None,
    token_file: Path | None,
    restrictions: Restrictions,
    seconds: float | None,
    audience: str | None,
    out: Path | None,
) -> None:
    """Make a token that permits less out of another, and print it. Takes no key, and does not check whether the other is genuine.

    It permits what the other does and what is said here: nothing said here adds to it.
    """
    from retinue.security import restrictions as made
    from retinue.security.seal import attenuate

    given = list(restrictions.others)
    if restrictions.patterns is not None:
        given.insert(0, made.allow(*restrictions.patterns))
    if seconds is not None:
        given.append(made.expires(seconds=seconds))
    if not given and audience is None:
        raise click.UsageError("say what it shall permit less: --allow, --deny, --where, --expires, --audience …")
    with _refusals():
        _give(attenuate(token_of(token, token_file), *given, audience=audience), out)


@token.command()
@token_options
@click.option(
    "--data-dir", type=click.Path(file_okay=False, path_type=Path), help="The folder of the system: check the token with the key there."
)
@click.option(
    "--audience", metavar="NAME", help="With --data-dir: who the system is (`retinue serve --audience`), as the folder does not know it."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def inspect(token: str | None, token_file: Path | None, data_dir: Path | None, audience: str | None, as_json: bool) -> None:
    """Print what a token says.

    Anybody can write such a text, so without --data-dir nothing of it is verified. With it, the exit code is 1 where the system would refuse the token. Of a
    token for one audience that is known only with --audience; without it, the state says so.
    """
    from retinue.security.seal import inspect as look

    if audience is not None and data_dir is None:
        raise click.UsageError("--audience goes with --data-dir")
    with _refusals():
        text = token_of(token, token_file)
        info = look(text)
        refused = None if data_dir is None else _refusal(data_dir, text, info.audiences, audience)
    if data_dir is None:
        state = "unverified"
    elif refused is not None:
        state = f"refused: {refused}"
    elif info.audiences and audience is None:
        state = "genuine, for one audience alone; the folder does not say whether its system is that (--audience NAME checks it)"
    else:
        state = "genuine"
    if as_json:
        say(json.dumps({"state": state, **attrs.asdict(info), "audiences": sorted(info.audiences)}))
    else:
        for line in _lines(info, state):
            say(line)
    if refused is not None:
        raise SystemExit(1)


@token.command()
@_folder
@click.argument("token_or_id", metavar="[TOKEN|ID]", required=False)
@token_options
@click.option(
    "--only-this", is_flag=True, help="Revoke only what was narrowed from this very token, itself included; not what it was narrowed from."
)
def revoke(data_dir: Path, token_or_id: str | None, token: str | None, token_file: Path | None, only_this: bool) -> None:
    """Refuse a token, and all that was narrowed from its root, from now on. A running system with this folder sees it at once.

    Give the token, or an id that `retinue token inspect` shows. What has been opened from it already ends with the next request.
    """
    with _refusals():
        if token_or_id is None or token is not None or token_file is not None:
            if token_or_id is not None:
                raise click.UsageError("give the token in one way")
            token_or_id = token_of(token, token_file)
        elif token_or_id == "-":  # noqa: S105 - no token
            token_or_id = token_of("-", None)
        _sealer(data_dir).revoke_token(token_or_id, only_this=only_this)
    say("revoked")


def _keys(folder: Path) -> KeyFile:
    """The key file of a folder. Raises ClickException where the folder is not there."""
    from retinue.security.keys import KeyFile

    if not folder.is_dir():
        raise click.ClickException(f"there is no folder {folder}: name the one that the system was started with (retinue serve --data-dir)")
    keys = KeyFile(folder / KEYS)
    keys.ring()
    return keys


def _own_keys(folder: Path) -> KeyFile:
    """The same for who mints: what is missing is made, so that it does not matter whether the system or its first token comes first. It is told, since a
    key in a mistyped folder fits no system.
    """
    from retinue.security.keys import KeyFile

    keys = KeyFile(folder / KEYS)
    missing = not keys.path.exists()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise click.ClickException(f"the folder {folder} cannot be made: {error.strerror}") from None
    keys.open()
    if missing:
        click.echo(f"made {keys.path}, a new key: the token is for the system that is started with --data-dir {folder}", err=True)
    return keys


def _sealer(folder: Path) -> Sealer:
    from retinue.security.authority import Authority
    from retinue.security.seal import Sealer

    return Sealer(Authority(), _keys(folder), revocations=folder / REVOKED)


def _refusal(folder: Path, text: str, audiences: frozenset[str], audience: str | None) -> str | None:
    """Why the system of a folder would refuse a token; None where it would not. With no audience given: where it would not be for its audience."""
    from retinue.security.errors import TokenError

    if audience is None and len(audiences) == 1:
        audience = next(iter(audiences))
    try:
        _sealer(folder).unseal(text, audience=audience)
    except TokenError as error:
        return str(error)
    return None


def _give(text: str, out: Path | None) -> None:
    if out is None:
        say(text)
        return
    from retinue.security.private_files import locked_folder, replace_private

    try:
        if os.path.lexists(out) and not stat.S_ISREG(out.lstat().st_mode):
            raise click.ClickException(f"{out} is a link, a device or a folder, and no file that may be replaced: name another one")
        with locked_folder(out):
            replace_private(out, text.encode("ascii") + b"\n")
    except OSError as error:
        raise click.ClickException(f"{out} cannot be written: {error.strerror}") from None


def _lines(info: Any, state: str) -> Iterator[str]:
    from retinue.security.limits import UNLIMITED, moment
    from retinue.security.visible import visible

    yield f"state: {state}"
    for name in ("subject", "tenant", "project", "session"):
        value = getattr(info, name)
        if value is not None:
            yield f"{name}: {visible(value)}"
    if info.audiences:
        yield f"audience: {', '.join(map(visible, sorted(info.audiences)))}"
    yield f"sealed: {moment(info.issued_ms)}"
    yield f"ends: {'never' if info.expires_ms >= UNLIMITED else moment(info.expires_ms)}"
    yield f"key: {visible(info.kid)}"
    for number, (block_id, restriction) in enumerate(zip(info.ids, info.restrictions, strict=True)):
        if number == 0:
            yield f"permits: {visible(restriction)}  (id {block_id})"
        elif restriction == NOTHING_SAID:
            yield f"and then: the same{', for its audience' if info.audiences else ''}  (id {block_id})"
        else:
            yield f"and then only: {visible(restriction)}  (id {block_id})"


@contextmanager
def _refusals() -> Iterator[None]:
    """What authority refuses ends the command with a sentence."""
    from retinue.security.errors import AuthorityError, DefinitionError

    try:
        yield
    except (AuthorityError, DefinitionError) as error:
        raise click.ClickException(str(error)) from None
