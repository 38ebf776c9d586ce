"""The chat of `retinue chat`: lines in, answers out; consents are asked for in between."""

from __future__ import annotations

import getpass
import sys
from typing import TYPE_CHECKING, Any, Final

import click

import retinue as rt
from retinue.cli.outcomes import failed, harmless, tell

if TYPE_CHECKING:
    from retinue.sync import ActorSystem, Ref

__all__ = ["Chat"]

LONGEST: Final = 1_000_000
"""Characters of one message."""

SHOWN: Final = 400
"""Characters of a tool's arguments, and of its result, that are shown."""

COMMANDS: Final = "/clear forgets what was said, /memory shows it, /quit ends; //TEXT says /TEXT; Ctrl-C stops an answer"


class Chat:
    """A conversation with an agent.

    Args:
        system: Where the agent lives.
        agent: The agent.
        counts_cost: Whether what each answer took is told.
    """

    def __init__(self, system: ActorSystem, agent: Ref[rt.Agent], *, counts_cost: bool) -> None:
        self._system = system
        self._agent = agent
        self._counts = counts_cost
        self._terminal = sys.stdin.isatty()
        self._plain = not sys.stdout.isatty()
        self._open_line = False
        self._parked: str | None = None
        self._failures = 0

    def run(self) -> int:
        """Talks until /quit or the end of the input. Returns how many messages failed. Raises KeyboardInterrupt for a second Ctrl-C, or one without a terminal."""
        if self._terminal:
            tell(COMMANDS)
        pressed = False
        while True:
            try:
                line = self._read("you> ")
                pressed = False
                if line is None or line in ("/quit", "/exit"):
                    break
                if line:
                    self._take(line)
            except KeyboardInterrupt:
                if pressed or not self._terminal:
                    raise
                pressed = True
                self._end_line()
                tell("(Ctrl-C once more, Ctrl-D or /quit ends the chat)")
        if self._terminal and line is None:
            click.echo()
        return self._failures

    def _take(self, line: str) -> None:
        if line.startswith("/") and not line.startswith("//"):
            self._command(line)
        elif len(line) > LONGEST:
            self._failures += 1
            tell(f"Error: the message has more than {LONGEST:,} characters, and was not sent")
        else:
            self._turn(line[1:] if line.startswith("//") else line)

    def _command(self, line: str) -> None:
        if line == "/clear":
            self._agent.ask(rt.ClearMemory())
            tell("(forgotten)")
        elif line == "/memory":
            for message in self._agent.ask(rt.GetMemory()).messages:
                self._write(f"{message.sender}: {message.content}{' …' if message.partial else ''}\n")
        elif line == "/help":
            tell(COMMANDS)
        else:
            tell(f"there is no command {line.split(maxsplit=1)[0][:40]}: {COMMANDS}")

    # -- a turn --------------------------------------------------------------------------------------------------------------------------------------

    def _turn(self, text: str) -> None:
        """Says something, and shows what comes of it; asks for consents as often as the run needs them."""
        message: rt.AgentMessage | rt.Resume = rt.AgentMessage(text)
        try:
            while True:
                try:
                    self._show(message)
                    break
                except rt.ApprovalRequired as required:
                    self._end_line()
                    self._parked = required.run
                    if not required.requests or required.run is None:
                        raise
                    for request in required.requests:
                        self._decide(request)
                    message = rt.Resume(required.run)
            self._parked = None
        except rt.RetinueError as error:
            self._end_line()
            self._failures += 1
            failed(error)
            if getattr(error, "code", "") == "model.context_overflow":
                tell("(/clear forgets what was said, and makes room)")
            self._give_up()
        except KeyboardInterrupt:
            self._end_line()
            self._give_up()
            if not self._terminal:
                raise
            tell("(stopped)")

    def _show(self, message: rt.AgentMessage | rt.Resume) -> None:
        """The events of a run, as they come. Leaving it early, by a Ctrl-C, stops the model and the tools."""
        shown = False
        with self._agent.stream(message) as events:
            for event in events:
                match event:
                    case rt.TextDelta(text=text):
                        self._write(text)
                        shown = True
                    case rt.ToolStarted(name=name, arguments=arguments):
                        self._aside(f"{name} {arguments}")
                    case rt.ToolFinished(name=name, ok=ok, text=text):
                        self._aside(f"{name} {'->' if ok else 'failed:'} {text}")
                    case rt.Notice(kind=kind, text=text):
                        self._aside(f"{kind}: {text}")
                    case rt.RunEnd(message=answer):
                        self._ended(answer, shown=shown)

    def _ended(self, answer: rt.AgentMessage, *, shown: bool) -> None:
        if not shown and answer.content:
            self._write(str(answer.content))
        self._end_line()
        usage = answer.usage
        if self._counts and usage is not None:
            tokens = "tokens unknown" if usage.total_tokens is None else f"{usage.total_tokens} tokens"
            cost = "cost unknown" if usage.cost_micro_usd is None else f"{usage.cost_micro_usd / 1e6:.6f} USD"
            tell(f"({usage.requests} request{'s' * (usage.requests != 1)}, {tokens}, {cost})")

    def _decide(self, request: Any) -> None:
        """Asks the person about one call. Nothing but a yes is one."""
        tell(f"{request.operation or request.message_type} needs your consent:")
        for line in request.shown():
            tell(f"  {line}")
        said = self._read("yes, or anything else to refuse: the model is told what you write> ")
        if said is not None and said.lower() in ("y", "yes"):
            self._system.approvals.approve(request.id, reviewer=_me())
        else:
            self._system.approvals.reject(request.id, reviewer=_me(), note=said or "")

    def _give_up(self) -> None:
        """A run that waits for a person is given up, so that the session takes the next message."""
        run, self._parked = self._parked, None
        if run is not None:
            try:
                self._agent.ask(rt.Cancel(run=run))
            except rt.RetinueError as error:
                failed(error)

    # -- lines ---------------------------------------------------------------------------------------------------------------------------------------

    def _read(self, prompt: str) -> str | None:
        """The next line, without white space around it; None at the end of the input."""
        if self._terminal and not self._plain:
            try:
                line = input(prompt)
            except EOFError:
                return None
        else:
            if self._terminal:
                click.echo(prompt, nl=False, err=True)
            line = sys.stdin.readline(LONGEST + 2)
            if not line:
                return None
            rest = line
            while len(rest) > LONGEST and not rest.endswith("\n"):  # what is too long is read to its end, and not kept
                rest = sys.stdin.readline(LONGEST + 2)
        return line.encode("utf-8", "replace").decode("utf-8").strip()

    def _write(self, text: str) -> None:
        """A piece of an answer."""
        if text:
            click.echo(text if self._plain else harmless(text), nl=False)
            self._open_line = not text.endswith("\n")

    def _aside(self, text: str) -> None:
        """What happens besides, one line of it."""
        self._end_line()
        line = " ".join(text.split())
        tell(f"  · {line if len(line) <= SHOWN else line[: SHOWN - 1] + '…'}")

    def _end_line(self) -> None:
        if self._open_line:
            self._open_line = False
            click.echo()


def _me() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return "the user"
