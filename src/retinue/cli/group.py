"""The group of commands, each loaded when it is needed."""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module

import attrs
import click

__all__ = ["LazyCommand", "LazyGroup", "main"]


@attrs.frozen
class LazyCommand:
    """Where a command lives, and the line that `--help` shows for it without importing it.

    Attributes:
        module: The module's dotted name.
        attribute: The name of the click command in it.
        summary: One line for the list of commands.
    """

    module: str
    attribute: str
    summary: str


class LazyGroup(click.Group):
    """A click group whose commands' modules are imported on first use.

    Args:
        lazy: Command name → where it lives.
    """

    def __init__(self, *args: object, lazy: dict[str, LazyCommand], **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]  # handed through to click as they came
        self.lazy = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, in alphabetical order."""
        return sorted({*super().list_commands(ctx), *self.lazy})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command's module and return the command, or None for a name that is none."""
        lazy = self.lazy.get(cmd_name)
        if lazy is None:
            return super().get_command(ctx, cmd_name)
        command: click.Command = getattr(import_module(lazy.module), lazy.attribute)
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; a name that is none is told with the one that is like it."""
        if args and self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            near = get_close_matches(args[0], self.list_commands(ctx), 1)
            meant = f"Did you mean {near[0]!r}?" if near else f"They are: {', '.join(self.list_commands(ctx))}."
            ctx.fail(f"No such command {args[0]!r}. {meant}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands from the summaries alone."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, self.lazy[name].summary) for name in self.list_commands(ctx)])


COMMANDS = {
    "approvals": LazyCommand("retinue.cli.approvals", "approvals", "See what waits for a person's consent, and decide."),
    "ask": LazyCommand("retinue.cli.talk", "ask", "Ask an actor, and print its reply."),
    "audit": LazyCommand("retinue.cli.audit", "audit", "Check an audit file, and read it."),
    "chat": LazyCommand("retinue.cli.chat", "chat", "Talk to an agent in the terminal."),
    "demo": LazyCommand("retinue.cli.demo", "demo", "Watch a researcher, a writer and a critic work on a topic."),
    "doctor": LazyCommand("retinue.cli.doctor", "doctor", "Show what is installed, and what would be used."),
    "models": LazyCommand("retinue.cli.models", "models", "List the models, and fetch the weights of the embedded one."),
    "ps": LazyCommand("retinue.cli.talk", "ps", "List the living actors of a running system."),
    "run": LazyCommand("retinue.cli.run", "run", "Run a function, given the actor system where it takes one."),
    "runs": LazyCommand("retinue.cli.runs", "runs", "List the runs that were recorded."),
    "send": LazyCommand("retinue.cli.talk", "send", "Send a message to an actor, and wait for no answer."),
    "serve": LazyCommand("retinue.cli.serve", "serve", "Run a system that scripts in other processes talk to."),
    "show": LazyCommand("retinue.cli.show", "show", "Show a recorded run as a tree, or as a web page."),
    "stream": LazyCommand("retinue.cli.talk", "stream", "Ask an actor for a stream, and print its items."),
    "token": LazyCommand("retinue.cli.tokens", "token", "Make, narrow, look at and revoke sealed tokens."),
    "version": LazyCommand("retinue.cli.version", "version", "Print the version."),
}


@click.command(cls=LazyGroup, lazy=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Retinue: concurrent LLM agents on the actor model."""
