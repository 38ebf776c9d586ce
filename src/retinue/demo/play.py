"""Running the swarm while somebody watches: on a terminal as a picture that changes, elsewhere as plain lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import attrs
import trio
from rich.console import Console
from rich.live import Live

import retinue as rt
from retinue.actors.llm.choose import Choice
from retinue.demo.prompts import Manner
from retinue.demo.swarm import Article, Compose, Line, Since, Swarm
from retinue.demo.view import Snapshot, as_text, clean, render, render_article

__all__ = ["Played", "manner_for", "play", "show_result"]

_FRAME = 0.1  # seconds between two pictures


@attrs.frozen
class Played:
    """What came of it.

    Attributes:
        article: What the swarm made.
        completions: How many answers the model gave.
        tokens: How many tokens they took; None where the endpoint does not count.
        seconds: How long the swarm worked.
    """

    article: Article
    completions: int
    tokens: int | None
    seconds: float


def manner_for(choice: Choice) -> Manner:
    """How to ask the chosen model: the embedded one shortly and repeatably, an endpoint with room to think."""
    return Manner(generosity=25) if choice.kind == "endpoint" else Manner(temperature=0.3, seed=1)


async def play(system: rt.ActorSystem, choice: Choice, topic: str, console: Console) -> Played:
    """Start the swarm in a system, show it at work until it has its article, and return that.

    Raises whatever the swarm's work raises, a `ModelError` above all.
    """
    swarm = await Swarm.start(system, choice, manner_for(choice))
    began = trio.current_time()
    lines: list[Line] = []
    outcome: list[Article | Exception] = []

    def snapshot() -> Snapshot:
        return Snapshot(topic, str(choice), trio.current_time() - began, system.actors(), system.statistics(), lines)

    with _screen(console) as screen:

        async def follow(*, wait: bool) -> None:
            seen = len(lines)
            fresh = await swarm.chronicle.ask(Since(seen, wait=wait))
            fresh = fresh[len(lines) - seen :]  # less what the other follower was told meanwhile
            lines.extend(fresh)
            screen.tell(fresh)

        async def follow_on() -> None:
            while True:
                await follow(wait=True)

        async def draw() -> None:
            while True:
                screen.draw(snapshot)
                await trio.sleep(_FRAME)

        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(follow_on)
                nursery.start_soon(draw)
                try:
                    outcome.append(await swarm.writer.ask(Compose(topic)))
                except Exception as error:  # raised below, outside the nursery, as it is
                    outcome.append(error)
                await follow(wait=False)  # what was said last
                nursery.cancel_scope.cancel()
        except BaseExceptionGroup as group:  # of who watches: a pipe that was closed, say
            raise _first(group) from None
        screen.draw(snapshot)
    article = outcome[0]
    if isinstance(article, Exception):
        raise article
    answers = [line for line in lines if line.speaker == "model"]
    counted = [line.tokens for line in answers if line.tokens is not None]
    return Played(article, len(answers), sum(counted) if len(counted) == len(answers) else None, trio.current_time() - began)


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def show_result(played: Played, console: Console) -> None:
    """Print the article, and what it took."""
    tokens = "" if played.tokens is None else f", {played.tokens} tokens"
    took = f"{played.completions} completions{tokens}, {played.seconds:.1f} s"
    if console.is_terminal:
        console.print(render_article(played.article))
        console.print(took, style="bright_black", highlight=False)
    else:
        for text in ("", clean(played.article.text), "", took):
            _print(console, text)


class _Plain:
    """For where there is no terminal: each line once, without control characters."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def tell(self, fresh: tuple[Line, ...]) -> None:
        for line in fresh:
            _print(self._console, as_text(line))

    def draw(self, snapshot: Callable[[], Snapshot]) -> None:
        """Nothing: only what is new is told."""


class _Picture:
    """For a terminal: a picture that changes."""

    def __init__(self, live: Live) -> None:
        self._live = live

    def tell(self, fresh: tuple[Line, ...]) -> None:
        """Nothing: the next picture has it."""

    def draw(self, snapshot: Callable[[], Snapshot]) -> None:
        self._live.update(render(snapshot()), refresh=True)


@contextmanager
def _screen(console: Console) -> Iterator[_Plain | _Picture]:
    if console.is_terminal:
        with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
            yield _Picture(live)
    else:
        yield _Plain(console)


def _print(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, emoji=False, soft_wrap=True)
