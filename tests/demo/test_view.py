"""What is drawn: from a snapshot, within the terminal's width, and no foreign text steers the terminal."""

from __future__ import annotations

import io

import attrs
import pytest
from rich.console import Console

from retinue.actors.runtime.statistics import ActorStatistics, SystemStatistics
from retinue.demo.swarm import Article, Line
from retinue.demo.view import Snapshot, as_text, clean, render, render_article

EVIL = "one\x1b[2J\x1b]0;title\x07\r\n\ttwo\u202ethree\x9b31m"


def counts(cls, **values):
    """Statistics with the given values, and zero for all that the view does not look at."""
    return cls(**{field.name: 0 for field in attrs.fields(cls)} | values)


def actor(path, state="idle", queued=0, handled=0, failures=0):
    return counts(ActorStatistics, path=path, state=state, queued=queued, handled=handled, failures=failures)


SYSTEM = counts(SystemStatistics, name="demo", sent=9, handled=5, dead_letters=1, queued=3)
SNAPSHOT = Snapshot(
    topic="tea",
    model="a script",
    seconds=12.3,
    actors=[
        actor("/user/model", "running", queued=4, handled=2),
        actor("/user/odd", failures=7),
        actor("/user/writer", "running", queued=1),
    ],
    system=SYSTEM,
    lines=[Line("writer", "model", f"line {number}") for number in range(20)],
)


def drawn(renderable, width=80):
    console = Console(width=width, force_terminal=False, record=True, file=io.StringIO())
    console.print(renderable)
    return console.export_text()


def test_the_picture_shows_actors_mailboxes_messages_and_counts():
    text = drawn(render(SNAPSHOT))
    rows = {line.split()[0]: line.split() for line in text.splitlines() if line.split()}
    assert rows["model"] == ["model", "running", "3", "███", "2", "0"]  # the one in progress does not wait
    assert rows["writer"] == ["writer", "running", "0", "0", "0"]
    assert rows["odd"][-1] == "7"
    assert text.index("writer  ") < text.index("model  ") < text.index("odd  ")
    assert "line 19" in text
    assert "line 11" not in text
    assert "sent 9 = handled 5 + queued 3 + dead letters 1" in text
    assert "12 s" in text


def test_an_agents_sessions_and_its_desk_are_one_row_with_the_agent():
    family = [
        actor("/user/writer", "idle", handled=2),
        actor("/user/writer/sessions/desk-0:root", "running", queued=3, handled=1),
        actor("/user/writer/desk", "running", queued=2, failures=1),
    ]
    text = drawn(render(attrs.evolve(SNAPSHOT, actors=family)))
    assert [line.split() for line in text.splitlines() if line.split()[:1] == ["writer"]] == [["writer", "running", "3", "███", "3", "1"]]


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_the_picture_keeps_within_the_terminal(width):
    assert all(len(line) <= width for line in drawn(render(SNAPSHOT), width).splitlines())


def test_the_picture_keeps_its_height_while_lines_come():
    heights = {len(drawn(render(attrs.evolve(SNAPSHOT, lines=SNAPSHOT.lines[:count]))).splitlines()) for count in (0, 1, 8, 20)}
    assert len(heights) == 1


def test_foreign_text_neither_steers_the_terminal_nor_is_read_as_markup():
    snapshot = attrs.evolve(SNAPSHOT, topic=EVIL, model=EVIL, lines=[Line("model", "writer", f"[bold red]{EVIL}")])
    article = Article(EVIL, (), "", "", f"[blink]{EVIL}")
    for renderable in (render(snapshot), render_article(article)):
        text = drawn(renderable, 200)
        assert all(letter.isprintable() or letter == "\n" for letter in text)
    assert "[bold red]one" in drawn(render(snapshot), 200)
    assert as_text(Line("model", "writer", EVIL)).isprintable()


def test_clean_leaves_ordinary_text_alone():
    assert clean("Grüße, 世界 😀!") == "Grüße, 世界 😀!"
    assert clean(EVIL) == "one [2J ]0;title two three 31m"


def test_the_article_is_shown_with_its_topic():
    text = drawn(render_article(Article("tea", (), "", "", "All about tea.")))
    assert "All about tea." in text
    assert " tea " in text.splitlines()[0]
