"""`retinue chat`: talk to an agent in the terminal."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

import click

from retinue.cli.outcomes import tell
from retinue.cli.recording import recorded, trace_options, tracing_of

if TYPE_CHECKING:
    from retinue.actors.llm.choose import Choice

__all__ = ["chat"]

SYSTEM: Final = "You are a helpful AI assistant."

INTERRUPTED: Final = 130
"""What a shell expects of a command that Ctrl-C ended: 128 and the signal's number."""


@click.command()
@click.argument("named", metavar="[PROVIDER:MODEL]", required=False)
@click.option("--model", "name", metavar="PROVIDER:MODEL", help="Whom to talk to: openai:gpt-4.1, ollama:llama3.2, local:smollm2 …")
@click.option(
    "--live", is_flag=True, help="Let it ask an endpoint: --model's, or that of OPENAI_BASE_URL, RETINUE_MODEL. This may cost money."
)
@click.option("--system", "instructions", metavar="TEXT", default=SYSTEM, show_default=True, help="What the agent is told to be.")
@click.option(
    "--tools",
    "files",
    multiple=True,
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A Python file with tools: its list TOOLS, or its public functions. May be repeated.",
)
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="Look for weights, and keep them, in the `models` folder of this folder, in the place of the user's cache.",
)
@trace_options
def chat(
    named: str | None,
    name: str | None,
    instructions: str,
    files: tuple[Path, ...],
    data_dir: Path | None,
    *,
    live: bool,
    trace: bool,
    trace_contents: bool,
) -> None:
    """Talk to an agent in the terminal: one with the model PROVIDER:MODEL, which is the same as --model.

    A line is a message, the answer is printed while it is made.

    /clear forgets what was said, /memory shows it, /quit (or Ctrl-D) ends; //TEXT says /TEXT. Ctrl-C stops the answer, and not the chat. Tools that need a
    person's consent ask for it here.

    Without --live no endpoint is asked: the model is the small one in this very process, where the extra `local` is installed, else a script. Without a terminal
    the lines of standard input are the messages, answers go to standard output, all else to standard error; exit code 1 where one of them failed.
    """
    if named is not None and name is not None:
        raise click.UsageError(f"two models are named, {named!r} and {name!r}: leave one out")
    name = name if named is None else named
    _prepare_streams()
    import retinue as rt
    from retinue.cli.chatting import Chat
    from retinue.sync import ActorSystem

    try:
        tools = [tool for file in files for tool in tools_of_file(file)]
        choice = _choose(name, live=live, data_dir=data_dir)
        tracing = tracing_of(trace, trace_contents, data_dir)
        with recorded(tracing, data_dir), ActorSystem("chat", tracing=tracing) as system:
            manner: dict[str, Any] = {"temperature": 0.3, "seed": 1} if choice.kind == "local" else {}
            agent = system.spawn(rt.Agent, model=choice, tools=tools, instructions=instructions, name="agent", **manner)
            failures = Chat(system, agent, counts_cost=choice.kind == "endpoint").run()
    except rt.RetinueError as error:
        raise click.ClickException(_for_a_shell(str(error))) from None
    except OSError as error:
        raise click.ClickException(f"what the agent says cannot be written: {error.strerror or error}") from None
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None
    if failures and not sys.stdin.isatty():
        raise SystemExit(1)


def _for_a_shell(text: str) -> str:
    """The text without what only a program can do."""
    return text.replace(", or give api_key=", "").replace(", or give base_url=", "")


def _prepare_streams() -> None:
    """A model's words may have letters that the terminal's encoding lacks; what is piped in is UTF-8."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    if isinstance(sys.stdin, io.TextIOWrapper):
        if sys.stdin.isatty():
            sys.stdin.reconfigure(errors="replace")
        else:
            sys.stdin.reconfigure(encoding="utf-8", errors="replace")


def _choose(name: str | None, *, live: bool, data_dir: Path | None) -> Choice:
    """Choose the model and say which it is. Raises ModelError, UsageError for an endpoint without --live."""
    from retinue.actors.llm.choose import from_env
    from retinue.actors.llm.naming import model

    choice = from_env(live=live, data_dir=data_dir) if name is None else model(name, data_dir=data_dir)
    if choice.kind == "endpoint":
        if not live:
            raise click.UsageError(f"{choice} is an endpoint, whose use may cost money: add --live to ask it")
        tell(f"Endpoint: {choice.address}\nModel: {choice.model}\nIts use may cost money.")
    elif choice.kind == "local":
        choice = _with_weights(choice, data_dir)
        tell(f"Model: {choice}. It is very small: expect charm rather than facts.")
    elif name is None:
        tell("Model: a script. The extra `local` is not installed; for a real model: pip install 'retinue[local]', or --live.")
    else:
        tell(f"Model: {choice}")
    return choice


def _with_weights(choice: Choice, data_dir: Path | None) -> Choice:
    if choice.weights is not None:
        return choice
    import attrs
    from rich.console import Console

    from retinue.actors.llm.weights import SMOLLM2, models_folder
    from retinue.cli.fetch import fetch_weights

    return attrs.evolve(choice, weights=fetch_weights(SMOLLM2, models_folder(data_dir), Console(stderr=True)))


def tools_of_file(path: Path) -> list[Any]:
    """The tools of a Python file: those of its list TOOLS, else each tool and public function that is defined there.

    Raises:
        ClickException: The file cannot be executed, or has none.
    """
    module = _executed(path)
    listed = getattr(module, "TOOLS", None)
    if listed is not None:
        if isinstance(listed, str) or not isinstance(listed, list | tuple):
            raise click.ClickException(f"{path}: TOOLS is a {type(listed).__name__}: give a list of functions and tools")
        return list(listed)
    found = [value for name, value in vars(module).items() if not name.startswith("_") and _is_own_tool(value, module)]
    if not found:
        raise click.ClickException(f"{path} has no tool: write a function with typed parameters and a docstring, or a list TOOLS")
    return found


def _executed(path: Path) -> ModuleType:
    from importlib.util import module_from_spec, spec_from_file_location

    name = f"retinue_chat_tools_{path.stem}"
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise click.ClickException(f"{path} is no Python file: its name ends with .py")
    module = module_from_spec(spec)
    sys.modules[name] = module  # data classes look themselves up there
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise click.ClickException(f"{path} cannot be executed: {type(error).__name__}: {error}") from None
    return module


def _is_own_tool(value: Any, module: ModuleType) -> bool:
    from inspect import isfunction

    from retinue.capabilities.tool_class import Tool

    function = value.function if isinstance(value, Tool) else value
    return isfunction(function) and function.__module__ == module.__name__
