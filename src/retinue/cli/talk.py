"""`retinue ask`, `send`, `stream` and `ps`: a shell that talks to a running system, through its gateway."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import attrs
import click

from retinue.cli.bearing import token_of, token_options
from retinue.cli.outcomes import failed, harmless, needs_consent, shown, tell
from retinue.cli.output import say
from retinue.cli.talk_runs import MESSAGE, RESUME, EventPrinter, answer_of, fields_of, gone_on_with, how_to_resume, is_text, parked_told

if TYPE_CHECKING:
    from retinue.client.blocking import Connection
    from retinue.client.exchange import Exchange
    from retinue.client.session import Session

__all__ = ["ask", "ps", "send", "stream"]


class Seconds(click.FloatRange):
    """A number of seconds. (NaN is below no bound, and above none.)"""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number. Fails for what is none."""
        seconds = super().convert(value, param, ctx)
        if math.isnan(seconds):
            self.fail(f"{value!r} is no number of seconds", param, ctx)
        return seconds


F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

_TIMEOUT = 30.0
_RUN_TIMEOUT = 600.0  # what an agent's message has by itself


def _message(command: F) -> F:
    for option in (
        click.option("--approval", "approvals", multiple=True, metavar="APPROVAL", help="An approval to redeem. May be repeated."),
        click.argument("arguments", metavar="[KEY=VALUE]...", nargs=-1),
        click.argument("name", metavar="TYPE"),
        click.argument("path", metavar="PATH"),
    ):
        command = option(command)
    return command


def _gateway(command: F) -> F:
    for option in (
        click.option("--plain", is_flag=True, help="Let http lead to another machine, where whoever is between reads the token."),
        click.option("--json", "as_json", is_flag=True, help="Print JSON, errors too."),
        token_options,
        click.argument("url", metavar="URL"),
    ):
        command = option(command)
    return command


def _timeout(command: F) -> F:
    help_ = f"Seconds until there must be an answer.  [default: {_TIMEOUT:g}; for a text to an agent {_RUN_TIMEOUT:g}]"
    return click.option("--timeout", type=Seconds(0), help=help_)(command)


def _wait_approval(command: F) -> F:
    return click.option(
        "--wait-approval",
        type=Seconds(0),
        metavar="SECONDS",
        help="Where a person has to consent: wait so long for it, and ask again (an agent's run: go on).",
    )(command)


@click.command()
@_gateway
@_message
@_timeout
@click.option("--detached", is_flag=True, help="Let the handler go on when this command ends before it has answered.")
@_wait_approval
def ask(
    url: str,
    path: str,
    name: str,
    arguments: tuple[str, ...],
    token: str | None,
    token_file: Path | None,
    approvals: tuple[str, ...],
    timeout: float | None,
    wait_approval: float | None,
    detached: bool,
    as_json: bool,
    plain: bool,
) -> None:
    """Ask an actor, and print its reply.

    URL is what `retinue serve` prints, PATH the actor's (/user/shop), TYPE the name of a message (shop/Price@1). KEY=VALUE is a field of it, text or JSON as the
    message has it; KEY:=JSON is JSON; KEY=@FILE the content of a file, KEY=@- of standard input; A.B=VALUE a field of a field, KEY[]=VALUE an item of a list.

    An agent takes a text in the place of TYPE: retinue ask URL /user/agent "What is the weather?"; session=NAME names the conversation. The content of its answer
    is printed.

    A text is printed as it is, another reply as JSON. Exit codes: 0 answered, 1 refused or failed, 2 wrong usage, 3 a person has to consent (the ids of the
    requests are printed), 124 no answer in time.
    """
    from retinue.security.errors import ApprovalRequired

    with (
        _talk(url, token, token_file, timeout or _TIMEOUT, plain=plain, as_json=as_json) as talk,
        parked_told("ask", url, path, as_json=as_json),
    ):
        sent, kind = talk.encoded(path, name, arguments, ("request", "message"))
        seconds = _seconds(timeout, kind)
        send = partial(talk.ask, path, timeout=seconds, detached=detached)
        try:
            try:
                reply = send(sent, approvals=approvals)
            except ApprovalRequired as required:
                if wait_approval is None or not required.requests:
                    raise
                if required.run is not None:
                    reply = gone_on_with(required, wait_approval, talk.wait, partial(send, approvals=()))
                else:  # consent that is not enough once it is there will not be enough later
                    reply = send(sent, approvals=[*approvals, *talk.consents(required, wait_approval)])
        except ApprovalRequired as required:
            raise needs_consent(required, _how_to_go_on("ask", url, path, name, wait_approval, required.run), as_json=as_json) from None
    say(answer_of(reply, as_json=as_json) if kind == "text" else shown(reply, as_json=as_json))


@click.command()
@_gateway
@_message
@click.option("--wait", type=Seconds(0), metavar="SECONDS", help="Wait so long for room in a full mailbox; default: not at all.")
def send(
    url: str,
    path: str,
    name: str,
    arguments: tuple[str, ...],
    token: str | None,
    token_file: Path | None,
    approvals: tuple[str, ...],
    wait: float | None,
    as_json: bool,
    plain: bool,
) -> None:
    """Send a message to an actor, and wait for no answer.

    Arguments as for `retinue ask`. Prints "accepted" once it waits in the mailbox: what becomes of it then, nobody is told. What is certain to be refused is
    refused before. Exit codes: 0 accepted, 1 refused or not accepted (the reason is printed), 2 wrong usage, 3 a person has to consent.
    """
    from retinue.security.errors import ApprovalRequired

    with _talk(url, token, token_file, _TIMEOUT, plain=plain, as_json=as_json) as talk:
        encoded, _ = talk.encoded(path, name, arguments, ("request", "message"))
        try:
            receipt = talk.carry_out(talk.session.tell_encoded(path, encoded, approvals, wait))
        except ApprovalRequired as required:
            raise needs_consent(required, _how_to_go_on("send", url, path, name, 0), as_json=as_json) from None
    if as_json:
        say(json.dumps({"accepted": receipt.accepted, "reason": receipt.reason}))
    elif receipt:
        say("accepted")
    else:
        tell(f"Error: not accepted: {receipt.reason}")
    if not receipt:
        raise SystemExit(1)


@click.command()
@_gateway
@_message
@click.option("--timeout", type=Seconds(0), help="Seconds that the whole stream may take. Default: as long as the system allows.")
@_wait_approval
def stream(
    url: str,
    path: str,
    name: str,
    arguments: tuple[str, ...],
    token: str | None,
    token_file: Path | None,
    approvals: tuple[str, ...],
    timeout: float | None,
    wait_approval: float | None,
    as_json: bool,
    plain: bool,
) -> None:
    """Ask an actor for a stream, and print its items, one a line, as they come.

    Arguments and exit codes as for `retinue ask`. Of an agent that is given a text, the words of the answer are printed as they come, and its tool calls to
    standard error.
    """
    from retinue.security.errors import ApprovalRequired

    with _talk(url, token, token_file, _TIMEOUT, plain=plain, as_json=as_json) as talk, parked_told("stream", url, path, as_json=as_json):
        sent, kind = talk.encoded(path, name, arguments, ("stream",))
        seconds = math.inf if timeout is None else timeout
        printer = EventPrinter() if kind == "text" and not as_json else None
        show = printer.show if printer is not None else lambda item: say(shown(item, as_json=as_json))
        read = partial(talk.stream, path, timeout=seconds, show=show)
        try:
            try:
                read(sent, approvals=approvals)
            except ApprovalRequired as required:
                if wait_approval is None or required.run is None:
                    raise
                if printer is not None:
                    printer.end()
                gone_on_with(required, wait_approval, talk.wait, partial(read, approvals=()))
        except ApprovalRequired as required:
            if printer is not None:
                printer.end()
            raise needs_consent(required, _how_to_go_on("stream", url, path, name, 0, required.run), as_json=as_json) from None


@click.command()
@_gateway
def ps(url: str, token: str | None, token_file: Path | None, as_json: bool, plain: bool) -> None:
    """List the living actors of a running system. Takes the operation system.inspect."""
    with _talk(url, token, token_file, _TIMEOUT, plain=plain, as_json=as_json) as talk:
        actors = talk.carry_out(talk.session.actors())
    if as_json:
        say(json.dumps([attrs.asdict(actor) for actor in actors]))
        return
    rows = [("PATH", "CLASS", "STATE", "WAITING", "MESSAGES")]
    rows += [(actor.path, actor.cls, actor.state, str(actor.depth), " ".join(actor.messages)) for actor in actors]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for row in rows:
        cells = [text.ljust(width) for text, width in zip(row, widths, strict=False)]
        say(shown("  ".join([*cells, row[-1]]).rstrip()))


@attrs.frozen
class Talk:
    """One command's talk with a gateway."""

    session: Session
    connection: Connection
    as_json: bool

    def carry_out(self, exchange: Exchange[T]) -> T:
        """One request and its answer."""
        return self.connection.carry_out(self.session, exchange)

    def encoded(self, path: str, name: str, arguments: Sequence[str], kinds: tuple[str, ...]) -> tuple[bytes, str]:
        """The JSON of the message that was typed, and its kind: "text" where an agent answers with a text. Raises UsageError."""
        from retinue.cli.arguments import body_of
        from retinue.client.address import check_path
        from retinue.mailbox.wire_json import render
        from retinue.security.errors import DefinitionError

        try:
            description = self._described(check_path(path))
        except DefinitionError as error:
            raise click.UsageError(str(error)) from None
        messages = description.get("x-retinue-messages", {})
        if is_text(name, messages):
            body = body_of(description, MESSAGE, ["content:=null", *fields_of(arguments)]) | {"content": name}
            return render({"type": MESSAGE, "body": body}, self.session.wire.limits), "text"
        if name not in messages:
            self._check_there(path, name, messages)
            raise click.ClickException(f"the system does not describe {name!r} of {path}")
        kind = messages[name].get("kind")
        streamed = "stream" in kinds and "items" in messages[name]
        if kind not in kinds and not streamed:
            command = "stream" if kind == "stream" else "ask"
            raise click.UsageError(f"{name} is a {kind}: use `retinue {command}`")
        return render(
            {"type": name, "body": body_of(description, name, arguments)}, self.session.wire.limits
        ), "text" if name == RESUME else kind

    def _described(self, path: str | None = None) -> dict[str, Any]:
        from retinue.cli.descriptions import check_description

        description = self.carry_out(self.session.describe(path))
        check_description(description)
        return description

    def _check_there(self, path: str, name: str, messages: dict[str, Any]) -> None:
        """Ends the command for a message that the system did not describe: there is none of that name, or no such actor, or (the system says that) the token
        does not permit it.
        """
        from retinue.cli.arguments import nearest
        from retinue.mailbox.errors import GatewayError, WireError

        try:
            self.carry_out(self.session.describe(path, name))
        except WireError as error:
            if error.problem != "unknown_type":
                raise
            raise click.UsageError(f"{path} takes no {name!r}{nearest(name, messages)}") from None
        except GatewayError as error:
            if error.reason != "not_found":
                raise
            described = self._described().get("x-retinue-actors", {})
            raise click.ClickException(f"{error}{nearest(path, described)}") from None

    def ask(self, path: str, encoded: bytes, *, timeout: float, approvals: Sequence[str], detached: bool) -> Any:
        """The JSON of a reply."""
        return self.carry_out(self.session.ask_encoded(path, encoded, timeout, approvals, lambda value: value, detached=detached))

    def stream(self, path: str, encoded: bytes, *, timeout: float, approvals: Sequence[str], show: Callable[[Any], object]) -> None:
        """Shows the JSON of each item of a stream."""
        from retinue.client.blocking import RemoteStream

        opening = self.session.stream_encoded(path, encoded, timeout, 32, approvals, lambda value: value)
        with RemoteStream(self.session, self.connection, opening) as items:
            for item in items:
                show(item)

    def consents(self, required: Any, seconds: float) -> list[str]:
        """Waits for all the consents that are missing."""
        return [self.wait(request.id, seconds) for request in required.requests]

    def wait(self, request_id: str, seconds: float) -> str:
        """Waits for one consent. Raises ApprovalError where it is refused, AskTimeout."""
        from retinue.client.blocking import RemoteApprovals

        if not self.as_json:
            tell(f"waiting for a person's consent: {request_id}")
        return RemoteApprovals(self.session, self.connection).wait(request_id, timeout=seconds)


@contextmanager
def _talk(url: str, token: str | None, token_file: Path | None, timeout: float, *, plain: bool, as_json: bool) -> Iterator[Talk]:
    """An open connection; what the system or the gateway refuses ends the command."""
    text = token_of(token, token_file)
    from retinue.client.blocking import Connection
    from retinue.client.failures import tls_of
    from retinue.client.session import CONNECT_TIMEOUT, MAX_ANSWER, Session
    from retinue.security.errors import RetinueError

    connection: Connection | None = None
    try:
        session = Session(url, token=text, timeout=timeout, connect_timeout=CONNECT_TIMEOUT, plain=plain, max_answer=MAX_ANSWER, wire=None)
        connection = Connection(session.address.origin, tls_of(None, encrypted=session.address.tls))
        connection.open()
        yield Talk(session, connection, as_json)
    except RetinueError as error:
        raise failed(error, as_json=as_json) from None
    except click.ClickException as error:
        vars(error)["message"] = harmless(error.message)  # names that a server gave may stand in it
        raise
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    finally:
        if connection is not None:
            connection.close()


def _seconds(timeout: float | None, kind: str) -> float:
    """Seconds until there must be an answer."""
    return timeout if timeout is not None else _RUN_TIMEOUT if kind == "text" else _TIMEOUT


def _how_to_go_on(command: str, url: str, path: str, name: str, waited: float | None, run: str | None = None) -> list[str]:
    if run is not None:
        return how_to_resume(command, url, path, run)
    again = " ".join(map(shlex.quote, (url, path, name)))
    how = [
        "Approve it, on the system's machine: retinue approvals approve ID --data-dir DIR",
        f"and send it again with the approval that this prints: retinue {command} {again} … --approval APPROVAL",
    ]
    return how if waited is not None else [*how, "(or let it wait for the person: --wait-approval SECONDS)"]
