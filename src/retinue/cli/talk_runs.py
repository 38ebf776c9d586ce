"""What `retinue ask` and `retinue stream` know of agents: a plain text is a message for one, and a run that waits for a person is gone on with."""

from __future__ import annotations

import json
import re
import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from retinue.cli.outcomes import failed, shown, tell
from retinue.cli.output import say

if TYPE_CHECKING:
    from retinue.security.errors import ApprovalRequired

__all__ = [
    "MESSAGE",
    "RESUME",
    "EventPrinter",
    "answer_of",
    "fields_of",
    "gone_on_with",
    "how_to_resume",
    "is_text",
    "parked_told",
    "resume",
]

T = TypeVar("T")

MESSAGE: Final = "retinue/AgentMessage@1"
RESUME: Final = "retinue/Resume@1"
CANCEL: Final = "retinue/Cancel@1"

SHOWN: Final = 400
"""Characters of a tool's arguments, and of its result, that are shown."""

_NAME: Final = re.compile(r"[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+@[0-9]+|[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z0-9_]+)+:[A-Za-z0-9_.]+", re.ASCII)


def is_text(name: str, messages: Mapping[str, Any]) -> bool:
    """Whether what stands in the place of a message's name is a text for an agent: the actor is one, and it is no name."""
    return MESSAGE in messages and name not in messages and _NAME.fullmatch(name) is None


def answer_of(reply: Any, *, as_json: bool) -> str:
    """An agent's answer as a line: its content."""
    if as_json or not isinstance(reply, dict) or "content" not in reply:
        return shown(reply, as_json=as_json)
    if reply.get("partial"):
        tell("(the answer is not complete)")
    return shown(reply["content"])


def resume(run: str) -> bytes:
    """The JSON of the message that goes on with a run."""
    return json.dumps({"type": RESUME, "body": {"run": run}}).encode()


def how_to_resume(command: str, url: str, path: str, run: str) -> list[str]:
    """What to do where a run waits for a person."""
    again = " ".join(map(shlex.quote, (url, path, RESUME, f"run={run}")))
    return [
        "Approve it (or reject it), on the system's machine: retinue approvals approve ID --data-dir DIR",
        f"and go on with the run: retinue {command} {again}",
        "(or let it wait for the person: --wait-approval SECONDS)",
    ]


@contextmanager
def parked_told(command: str, url: str, path: str, *, as_json: bool) -> Iterator[None]:
    """Where a session's last run waits for a person, the command that goes on with it is said, and the one that gives it up."""
    from retinue.actors.agents.errors import RunParked

    try:
        yield
    except RunParked as parked:
        ended = failed(parked, as_json=as_json)
        if not as_json and parked.run is not None:
            up = " ".join(map(shlex.quote, (url, path, CANCEL, f"run={parked.run}")))
            for line in [*how_to_resume(command, url, path, parked.run)[:2], f"(or give it up: retinue ask {up})"]:
                tell(line)
        raise ended from None


def gone_on_with(required: ApprovalRequired, seconds: float, wait: Callable[[str, float], object], send: Callable[[bytes], T]) -> T:
    """Waits until a run's requests are decided, either way, and goes on with it, as often as it needs a person.

    Args:
        required: What the run needs.
        seconds: How long, in all, to wait for persons.
        wait: Waits for the decision about one request for so many seconds. Raises ApprovalError where it is no yes.
        send: Sends a message in place of the first one.

    Raises:
        AskTimeout: Nobody has decided in time.
        ApprovalRequired: The run waits for what was asked for already.
    """
    from retinue.security.errors import ApprovalError, ApprovalRequired

    end = time.monotonic() + seconds
    seen: set[str] = set()
    while True:
        fresh = [request.id for request in required.requests if request.id not in seen]
        if not fresh or required.run is None:
            raise required
        for request_id in fresh:
            seen.add(request_id)
            try:
                wait(request_id, max(0.0, end - time.monotonic()))
            except ApprovalError as no:
                if no.reason == "subject":
                    raise
                # The model is told what the person said.
        try:
            return send(resume(required.run))
        except ApprovalRequired as again:
            required = again


class EventPrinter:
    """Prints the events of an agent's run: its words to standard output as they come, what else happens to standard error."""

    def __init__(self) -> None:
        self._open_line = False
        self._said = False

    def show(self, item: Any) -> None:
        """One event, as JSON gives it. One that is not known is shown as it is."""
        kind = item.get("type") if isinstance(item, dict) else None
        body = item.get("body") if isinstance(item, dict) else None
        if not isinstance(body, dict):
            self.end()
            say(shown(item))
        elif kind == "TextDelta":
            text = shown(str(body.get("text", "")))
            click.echo(text, nl=False)
            self._open_line = not text.endswith("\n") if text else self._open_line
            self._said = self._said or bool(text)
        elif kind == "ToolStarted":
            self._aside(f"{body.get('name')} {body.get('arguments')}")
        elif kind == "ToolFinished":
            self._aside(f"{body.get('name')} {'->' if body.get('ok') else 'failed:'} {body.get('text')}")
        elif kind == "Notice":
            self._aside(f"{body.get('kind')}: {body.get('text')}")
        elif kind == "RunEnd":
            self.end()
            if not self._said:
                say(answer_of(body.get("message"), as_json=False))
            elif isinstance(message := body.get("message"), dict) and message.get("partial"):
                tell("(the answer is not complete)")

    def end(self) -> None:
        """Ends the line."""
        if self._open_line:
            self._open_line = False
            click.echo()

    def _aside(self, text: str) -> None:
        self.end()
        line = " ".join(text.split())
        tell(f"  · {line if len(line) <= SHOWN else line[: SHOWN - 1] + '…'}")


def fields_of(body: Sequence[str]) -> list[str]:
    """Arguments of an agent's message, beside its content. Raises UsageError for another content."""
    for argument in body:
        if re.match(r"content\W", argument):
            raise click.UsageError("the content is given twice: as a text, and as content=…")
    return list(body)
