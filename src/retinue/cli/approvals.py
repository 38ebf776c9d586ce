"""`retinue approvals`: what waits for a person, and the person's decisions. Works on the file, whether the system runs or not."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from retinue.cli.approvals_shown import data_of, harmless, in_short, is_good, state_of, tell, width
from retinue.cli.approvals_words import changed, constraints_of, length_of
from retinue.cli.output import say

if TYPE_CHECKING:
    from retinue.actors.approvals.offline import ApprovalsFile
    from retinue.security.approvals import ApprovalRequest

__all__ = ["approvals"]

F = TypeVar("F", bound=Callable[..., Any])

POLL: Final = 0.25
"""Seconds from one look into the file to the next, for `watch`."""

STATUSES: Final = ("pending", "approved", "rejected", "expired", "cancelled")

_ID = click.argument("request_id", metavar="ID")


def _folder(command: F) -> F:
    return click.option(
        "--data-dir",
        type=click.Path(file_okay=False, path_type=Path),
        default=".retinue",
        show_default=True,
        help="The system's folder: approvals.db and the keys are in it.",
    )(command)


def _json(command: F) -> F:
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)


def _reviewer(command: F) -> F:
    return click.option(
        "--reviewer", metavar="NAME", help="Who decides; default: the name of the user who runs this. Recorded as asserted."
    )(command)


def _note(command: F) -> F:
    return click.option("--note", default="", help="What to say about it, at most 4,000 characters.")(command)


@click.group()
def approvals() -> None:
    """See what waits for a person's consent, and decide.

    An ID may be cut short where what is left is unique, and its "apr_" left out. Exit codes: 0 done, 1 refused or failed, 2 wrong usage.
    """


@approvals.command("list")
@_folder
@click.option("--status", type=click.Choice(STATUSES), default="pending", show_default=True, help="Only requests of this status.")
@click.option("--all", "everything", is_flag=True, help="Requests of every status.")
@click.option(
    "--first",
    type=click.IntRange(min=0),
    help="How many: the oldest of each subject in turn, so that nobody's are hidden; 0 for all. Default: 100.",
)
@click.option("--last", type=click.IntRange(min=1), help="How many, the latest of all instead.")
@_json
def list_(data_dir: Path, status: str, everything: bool, first: int | None, last: int | None, as_json: bool) -> None:
    """Print the requests that wait, oldest first, with their arguments. Long arguments are cut: `show` has all of them.

    What was left out is counted on standard error.
    """
    if first is not None and last is not None:
        raise click.UsageError("--first and --last: choose one")
    wanted = None if everything else status
    more: tuple[tuple[str, int], ...] = ()
    with _opened(data_dir, looks=True) as file:
        if last is not None:
            found = file.find(wanted, last)
        else:
            found, more = file.choose(wanted, 100 if first is None else first or 2**31)
    if more:
        from retinue.security.visible import quoted

        whose = ", ".join(f"{count:,} for {quoted(who)}" for who, count in more[:5]) + (", …" if len(more) > 5 else "")
        click.echo(f"and {sum(count for _, count in more):,} more ({whose}): --first 0 prints all", err=True)
    if as_json:
        say(json.dumps([data_of(request) for request in found], indent=1))
        return
    for request in found:
        for line in in_short(request):
            say(line)
    if not found:
        click.echo("nothing waits" if status == "pending" and not everything else "there are none", err=True)


@approvals.command()
@_folder
@_ID
@click.option("--token", "token_alone", is_flag=True, help="Print nothing but the token, where it is approved.")
@_json
def show(data_dir: Path, request_id: str, token_alone: bool, as_json: bool) -> None:
    """Print everything about the request ID that a person needs who decides, and what has become of it.

    Exit code 1 with --token where there is none that is still good: not approved, used, expired.
    """
    with _opened(data_dir, looks=True) as file:
        request, row = file.get(request_id)
        feedback = file.feedback_of(request.id)
    if token_alone:
        if request.token is None or not is_good(request, row):
            raise click.ClickException(f"the request {request.id} has no token to use: {state_of(request, row)}")
        say(request.token)
        return
    if as_json:
        spent = {name: row[name] for name in ("spent_ms", "outcome")}
        state = state_of(request, row) if request.status == "approved" else None
        said = [{name: one[name] for name in ("at_ms", "reviewer", "text")} for one in feedback]
        say(
            json.dumps(
                {**data_of(request), **spent, "token_expires_ms": row["token_expires_ms"], "approval": state, "feedback": said}, indent=1
            )
        )
        return
    from retinue.security.limits import moment
    from retinue.security.visible import quoted, visible

    for line in request.shown(width()):
        say(line)
    if request.status == "approved":
        say(f"approval: {state_of(request, row)}")
    for one in feedback:
        say(f"feedback: {moment(one['at_ms'])} {quoted(one['reviewer'])}: {visible(one['text'])}")


@approvals.command()
@_folder
@click.argument("request_ids", metavar="ID...", nargs=-1, required=True)
@_reviewer
@_note
@click.option(
    "--expires",
    "seconds",
    callback=length_of(3_600, "1h"),
    default="1h",
    show_default=True,
    metavar="LENGTH",
    help="How long the token is good for: 3600, 90s, 15m, 1h; at most 1h.",
)
@click.option("--ask", is_flag=True, help="Show each request, and ask first.")
@_json
def approve(
    data_dir: Path, request_ids: tuple[str, ...], reviewer: str | None, note: str, seconds: float, ask: bool, as_json: bool
) -> None:
    """Approve the request ID, and print the token.

    The token alone is printed, a line for each ID; what else there is to say goes to standard error. Where several are given, each is decided on its own:
    exit code 1 where one of them could not be approved.
    """
    failed = False
    with _opened(data_dir) as file:
        for request_id in request_ids:
            try:
                if ask and not _asked(file, request_id):
                    failed = True
                    continue
                request, token = file.approve(request_id, reviewer=_who(reviewer), note=note, seconds=seconds)
            except _refusals() as error:
                if len(request_ids) == 1:
                    raise
                click.echo(f"Error: {harmless(error)}", err=True)
                failed = True
                continue
            say(json.dumps({"id": request.id, "token": token}) if as_json else token)
            click.echo(f"approved {request.id}: good for that one call, once, for {seconds:,.0f} s", err=True)
    if failed:
        raise SystemExit(1)


@approvals.command()
@_folder
@_ID
@_reviewer
@_note
def reject(data_dir: Path, request_id: str, reviewer: str | None, note: str) -> None:
    """Reject the request ID, for good."""
    _refuse(data_dir, request_id, reviewer, note, "rejected")


@approvals.command()
@_folder
@_ID
@click.argument("text")
@_reviewer
def respond(data_dir: Path, request_id: str, text: str, reviewer: str | None) -> None:
    """Reject the request ID with the answer TEXT for whoever asked."""
    _refuse(data_dir, request_id, reviewer, text, "responded")


@approvals.command()
@_folder
@_ID
@_reviewer
@_note
def cancel(data_dir: Path, request_id: str, reviewer: str | None, note: str) -> None:
    """Take the request ID back: nobody needs it any more."""
    _refuse(data_dir, request_id, reviewer, note, "cancelled")


@approvals.command()
@_folder
@_ID
@click.argument("changes", metavar="NAME=VALUE...", nargs=-1, required=True)
@_reviewer
@_note
def edit(data_dir: Path, request_id: str, changes: tuple[str, ...], reviewer: str | None, note: str) -> None:
    """Put a request with other arguments in the place of the request ID, and print its ID.

    NAME=VALUE reads VALUE as what the argument is now (a number, a text), NAME:=VALUE as JSON; each must be of the old value's type. The new request waits:
    show it, then approve it.
    """
    with _opened(data_dir) as file:
        request, _ = file.get(request_id)
        new = file.edit(request.id, changed(changes, request.arguments), reviewer=_who(reviewer), note=note)
    say(new.id)
    for line in new.shown(width()):
        click.echo(line, err=True)


@approvals.command()
@_folder
@_ID
@click.argument("text")
@_reviewer
def feedback(data_dir: Path, request_id: str, text: str, reviewer: str | None) -> None:
    """Add TEXT to the request ID, whatever has become of it."""
    with _opened(data_dir) as file:
        request = file.add_feedback(request_id, text, reviewer=_who(reviewer))
    click.echo(f"added to {request.id}", err=True)


@approvals.command()
@_folder
@click.argument("pattern")
@click.option("--subject", required=True, help="Whose calls; '*' for anybody's.")
@click.option(
    "--expires",
    "seconds",
    required=True,
    callback=length_of(366 * 86_400, "366d"),
    metavar="LENGTH",
    help="For how long: 3600, 90s, 30m, 8h, 7d; at most 366d.",
)
@click.option(
    "--where",
    "wheres",
    multiple=True,
    metavar="ARG…",
    help="What an argument must be, as for `retinue token mint`: 'to=ACME', 'to:=[\"ACME\",\"EVE\"]' (one of, JSON), 'cents<=500', 'cents>=1', "
    "'path within reports/', 'url host api.example.com', 'text max_length 500', 'bcc absent'. May be repeated.",
)
@click.option("--open", "open_arguments", is_flag=True, help="Arguments without a constraint may be anything.")
@click.option("--tenant", help="Only calls of this tenant.")
@click.option("--audience", metavar="PATH", help="Only calls to the actor of this path.")
@_reviewer
@_json
def always(
    data_dir: Path,
    pattern: str,
    subject: str,
    seconds: float,
    wheres: tuple[str, ...],
    open_arguments: bool,
    tenant: str | None,
    audience: str | None,
    reviewer: str | None,
    as_json: bool,
) -> None:
    """Consent beforehand to calls of the operations PATTERN, for a time. Prints the consent's ID.

    It answers the question for consent and nothing else: what the caller's authority does not permit stays refused. Arguments that no --where names must be
    missing or None. One of --where and --open is needed.
    """
    constraints = constraints_of(wheres, pattern)
    if not constraints and not open_arguments:
        raise click.UsageError(
            "say what the arguments must be, with --where for each ('to=ACME', 'cents<=500'); or --open: they may be anything"
        )
    with _opened(data_dir) as file:
        consent = file.always(
            pattern,
            reviewer=_who(reviewer),
            seconds=seconds,
            subject=None if subject == "*" else subject,
            tenant=tenant,
            audience=audience,
            constraints=constraints,
            open_arguments=open_arguments,
        )
    say(json.dumps(consent.to_data()) if as_json else consent.id)
    from retinue.security.showing import visible

    click.echo(visible(consent.text), err=True)


@approvals.command()
@_folder
@_json
def standing(data_dir: Path, as_json: bool) -> None:
    """Print the standing consents in force: those of `retinue approvals always`, and of `system.approvals.always_allow`."""
    from retinue.security.limits import moment
    from retinue.security.visible import quoted, visible

    with _opened(data_dir, looks=True) as file:
        found = file.standing()
    if as_json:
        say(json.dumps([consent.to_data() for consent in found], indent=1))
        return
    for consent in found:
        say(f"{consent.id}  until {moment(consent.expires_ms)}  by {quoted(consent.approver)}: {visible(consent.text)}")


@approvals.command()
@_folder
@click.argument("standing_id", metavar="ID")
@_reviewer
def withdraw(data_dir: Path, standing_id: str, reviewer: str | None) -> None:
    """Withdraw the standing consent ID: from now on it covers nothing."""
    with _opened(data_dir) as file:
        found = file.withdraw(standing_id, reviewer=_who(reviewer))
    click.echo(f"withdrawn {found}: from now on it covers nothing", err=True)


@approvals.command()
@_folder
@_json
def indeterminate(data_dir: Path, as_json: bool) -> None:
    """Print what was approved and begun, and whose process ended before it said how it went: it may have been done or not.

    It is never done again by itself. Look, and note what you found: `retinue approvals resolve`.
    """
    from retinue.security.limits import moment
    from retinue.security.visible import quoted, visible

    with _opened(data_dir, looks=True) as file:
        found = file.indeterminate()
    if as_json:
        names = ("jti", "request_id", "standing_id", "operation", "subject", "audience", "approver", "spent_ms")
        say(json.dumps([{name: row[name] for name in names} for row in found], indent=1))
        return
    for row in found:
        about = row["request_id"] or row["standing_id"]
        what = visible(f"{row['operation']} at {row['audience']}")
        say(f"{visible(row['jti'])}  {moment(row['spent_ms'])}  {what} for {quoted(row['subject'])} ({visible(str(about))})")


@approvals.command()
@_folder
@click.argument("jti", metavar="ID")
@click.argument("outcome", type=click.Choice(("succeeded", "failed", "not-run")))
@_reviewer
@_note
def resolve(data_dir: Path, jti: str, outcome: str, reviewer: str | None, note: str) -> None:
    """Note how what was interrupted ended: the approval ID is one that `retinue approvals indeterminate` prints."""
    said = outcome.replace("-", " ")
    with _opened(data_dir) as file:
        found = file.resolve(jti, said, reviewer=_who(reviewer), note=note)
    click.echo(f"resolved {found}: {said}", err=True)


@approvals.command("reset-clock")
@_folder
@_reviewer
def reset_clock(data_dir: Path, reviewer: str | None) -> None:
    """Set the file's clock back to this machine's, where another's was ahead once.

    The file keeps the latest time that something was asked, decided or used at, and whoever is behind that decides nothing. Look at this machine's clock first:
    it has to be right. All that was approved and not used, and every consent in advance, is void then and has to be given again. Start systems again that
    ran with the clock that was ahead.
    """
    from retinue.security.limits import moment

    with _opened(data_dir) as file:
        done = file.reset_clock(reviewer=_who(reviewer))
    before = "It was lost" if done.before_ms is None else f"It was at {moment(done.before_ms)}"
    say(f"the clock of the approvals in {data_dir} is at {moment(done.now_ms)}. {before}")
    say(
        f"void now: {done.approvals:,} approval{'' if done.approvals == 1 else 's'}, {done.standing:,} consent{'' if done.standing == 1 else 's'} in advance"
    )


@approvals.command()
@_folder
@_json
def watch(data_dir: Path, as_json: bool) -> None:
    """Print what waits, and then what happens, in whatever process, until Ctrl-C."""
    try:
        with _opened(data_dir, make=True, looks=True) as file:
            after, _ = file.events(-1)
            for request in file.find("pending"):
                tell(request, None, as_json)
            said = ""
            while True:
                time.sleep(POLL)
                try:
                    after, events = file.events(after)
                    said = ""
                except _unusable() as error:  # it may be usable again in a moment
                    if str(error) != said:
                        said = str(error)
                        click.echo(f"Error: {harmless(error)}", err=True)
                    continue
                for event in events:
                    tell(_new_request(file, event), event, as_json)
    except KeyboardInterrupt:
        raise SystemExit(0) from None


# -- in common ---------------------------------------------------------------------------------------------------------------------------------------


def _unusable() -> type[Exception]:
    from retinue.actors.store.errors import StoreUnavailable

    return StoreUnavailable


def _new_request(file: ApprovalsFile, event: dict[str, Any]) -> ApprovalRequest | None:
    """The request that an event tells of, where it is a new one that can be read."""
    if event["kind"] != "requested":
        return None
    try:
        return file.get(event["request_id"])[0]
    except _refusals():
        return None


def _refusals() -> tuple[type[Exception], ...]:
    from retinue.actors.store.errors import StoreUnavailable
    from retinue.security.errors import AuthorityError, DefinitionError

    return (AuthorityError, DefinitionError, StoreUnavailable)


@contextmanager
def _opened(folder: Path, *, make: bool = False, looks: bool = False) -> Iterator[ApprovalsFile]:
    """The file, whose errors are sentences and exit code 1.

    Args:
        folder: The folder of data.
        make: Whether a file is made where there is none yet; else that is an error.
        looks: Whether nothing is decided: a clock that keeps everything from being decided is a warning then.
    """
    from retinue.actors.approvals.offline import ApprovalsFile
    from retinue.actors.approvals.tables import FILE

    path = folder / FILE
    if not folder.is_dir():
        raise click.ClickException(
            f"there is no folder {folder}. Name the system's folder: --data-dir DIRECTORY, as its data_dir= or `retinue serve` has it"
        )
    if not make and not path.exists():
        raise click.ClickException(
            f"there are no approvals in {folder} yet: it has no {FILE}. A system with this data_dir= makes it when it first asks for one"
        )
    try:
        with ApprovalsFile(folder) as file:
            if looks:
                _warn(file)
            yield file
    except _refusals() as error:
        raise click.ClickException(harmless(error)) from None


def _warn(file: ApprovalsFile) -> None:
    behind = file.behind()
    if behind != 0:
        what = "has lost its clock" if behind is None else f"has seen a time that is {behind / 1000:,.0f} s ahead of this machine's clock"
        click.echo(
            f"Warning: the approvals' file {what}, so nothing can be decided or used. Set the clock; or, where it is right: retinue approvals reset-clock",
            err=True,
        )


def _refuse(folder: Path, request_id: str, reviewer: str | None, note: str, kind: str) -> None:
    with _opened(folder) as file:
        request = file.refuse(request_id, kind=kind, reviewer=_who(reviewer), note=note)
    click.echo(f"{request.status} {request.id}", err=True)


def _asked(file: ApprovalsFile, request_id: str) -> bool:
    request, _ = file.get(request_id)
    if request.status != "pending":  # there is nothing to ask about: `approve` says why
        return True
    for line in request.shown(width()):
        click.echo(line, err=True)
    return click.confirm("Approve this?", default=False, err=True)


def _who(reviewer: str | None) -> str:
    """The reviewer: as given, else the operating system's name of the user (of the process itself: an environment variable says what anybody likes)."""
    if reviewer is not None:
        return reviewer
    import os
    import pwd

    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return f"uid {os.geteuid()}"
