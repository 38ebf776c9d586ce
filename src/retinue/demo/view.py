"""How the swarm looks on a terminal: a table of its actors, the last things said, the counts. Pure: from a snapshot to what rich draws."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
from rich import box
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from retinue.actors.runtime.statistics import ActorStatistics, SystemStatistics
from retinue.demo.swarm import Article, Line

__all__ = ["Snapshot", "as_text", "clean", "render", "render_article"]

MEMBERS = ("writer", "researcher", "critic", "model", "chronicle")
COLOURS = {"writer": "green", "researcher": "cyan", "critic": "magenta", "model": "yellow", "chronicle": "bright_black"}

_SHOWN_LINES = 8
_WIDEST_BAR = 12


@attrs.frozen
class Snapshot:
    """A moment of the swarm.

    Attributes:
        topic: What it works on.
        model: The model, for people.
        seconds: How long it has been at work.
        actors: The actors' counts.
        system: The system's counts.
        lines: What was said so far.
    """

    topic: str
    model: str
    seconds: float
    actors: Sequence[ActorStatistics]
    system: SystemStatistics
    lines: Sequence[Line]


def clean(text: str) -> str:
    """Make foreign text safe to show: no control characters (a model's text must not steer the terminal), no runs of white space."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())


def as_text(line: Line) -> str:
    """A line for where there is no terminal."""
    return f"{line.speaker} -> {line.listener}: {clean(line.text)}"


def render(snapshot: Snapshot) -> RenderableType:
    """Draw a snapshot: what is below an actor counts as part of it."""
    system = snapshot.system
    counts = Text(
        f"{snapshot.seconds:.0f} s   sent {system.sent} = handled {system.handled} + queued {system.queued} + dead letters {system.dead_letters}",
        style="bright_black",
    )
    return Group(_title(snapshot), _actors(snapshot.actors), _lines(snapshot.lines), counts)


def render_article(article: Article) -> RenderableType:
    """Draw what the swarm made."""
    return Panel(Text(clean(article.text)), title=Text(clean(article.topic), style="bold"), border_style="green", padding=(1, 2))


def _title(snapshot: Snapshot) -> Text:
    return Text.assemble(
        ("Topic: ", "bright_black"), (clean(snapshot.topic), "bold"), ("   Model: ", "bright_black"), clean(snapshot.model)
    )


def _actors(actors: Sequence[ActorStatistics]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, expand=True, pad_edge=False)
    table.add_column("actor", min_width=12)
    table.add_column("state", min_width=8)
    table.add_column("mailbox", min_width=_WIDEST_BAR + 3)
    for heading in ("handled", "failures"):
        table.add_column(heading, justify="right")
    families: dict[str, list[ActorStatistics]] = {}
    for actor in actors:
        families.setdefault(_name(actor), []).append(actor)
    for name in sorted(families, key=_place):
        family = families[name]
        waiting, failures = sum(map(_waiting, family)), sum(actor.failures for actor in family)
        state = "running" if any(actor.state == "running" for actor in family) else family[0].state
        table.add_row(
            Text(name, style=COLOURS.get(name, "")),
            Text(state, style="bold" if state == "running" else "bright_black"),
            Text(f"{waiting:>2} {'█' * min(waiting, _WIDEST_BAR)}", style="yellow" if waiting else "bright_black"),
            str(sum(actor.handled for actor in family)),
            Text(str(failures), style="bold red" if failures else "bright_black"),
        )
    return table


def _lines(lines: Sequence[Line]) -> Panel:
    shown = list(lines[-_SHOWN_LINES:])
    table = Table.grid(padding=(0, 1), expand=True)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    for line in shown:
        head = Text.assemble(
            (line.speaker, COLOURS.get(line.speaker, "")), (" → ", "bright_black"), (line.listener, COLOURS.get(line.listener, ""))
        )
        table.add_row(head, Text(clean(line.text)))
    for _ in range(_SHOWN_LINES - len(shown)):
        table.add_row("", "")  # the picture keeps its height
    return Panel(table, title="messages", title_align="left", border_style="bright_black")


def _waiting(actor: ActorStatistics) -> int:
    """How many messages wait, without the one in progress."""
    return max(0, actor.queued - (actor.state == "running"))


def _name(actor: ActorStatistics) -> str:
    """Whose it is: an agent's sessions and its desk are the agent's."""
    return actor.path.removeprefix("/user/").partition("/")[0]


def _place(name: str) -> tuple[int, str]:
    return (MEMBERS.index(name) if name in MEMBERS else len(MEMBERS), name)
