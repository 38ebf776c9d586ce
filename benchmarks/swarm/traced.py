"""What tracing costs: an agent's turn and a plain ask, in a system that traces, or does not, or cannot."""

from __future__ import annotations

import json
import sqlite3
import tempfile
from collections.abc import Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Final, Literal

import attrs
import trio

import retinue as rt
from benchmarks.agents.errand import ANSWER, ARGUMENTS, INSTRUCTIONS, QUESTION, TOOL, Tally
from benchmarks.harness import Block, BrokenBlock, Contender, Timer
from retinue import llm

__all__ = ["BARE", "CONTENDERS", "OFF", "UNITS", "Way", "check_spans"]

BARE: Final = "no tracing in the code"
OFF: Final = "off"

SPANS: Final = {"turn": 4, "ask": 1}
"""A turn: the run, its two completions and its call; what hands on makes none. An ask: the handler."""

UNITS: Final = {"turn": "turns of an agent", "ask": "plain asks"}

AGENT: Final = "weatherman"


@attrs.frozen
class Way:
    """How a system traces.

    Attributes:
        place: "sqlite", "jsonl", or "" for nowhere.
        share: Of the traces that are kept.
        note: For the table.
    """

    place: Literal["sqlite", "jsonl", ""] = ""
    share: float = 1.0
    note: str = ""

    def tracing(self, folder: Path) -> rt.Tracing | None:
        """What the system is given."""
        if self.place == "sqlite":
            return rt.Tracing(sqlite=folder / "traces.sqlite3", sample=self.share, keep=100_000_000)
        return rt.Tracing(jsonl=folder / "traces.jsonl", sample=self.share) if self.place == "jsonl" else None


@rt.message
class Ping(rt.Request[int]):
    """Asks for the number back."""

    number: int


class Echo(rt.Actor):
    """Answers with what it was asked."""

    @rt.handler
    async def ping(self, message: Ping) -> int:
        """The number."""
        return message.number


def check_spans(way: Way, folder: Path, measure: str, done: int) -> None:
    """All spans of so many turns or asks must be in the file: whoever loses them is no figure. Of a share, not more."""
    if not way.place:
        return
    due = SPANS[measure] * done
    if way.place == "sqlite":
        with closing(sqlite3.connect(folder / "traces.sqlite3")) as file:
            rows = [(name, parent) for name, parent in file.execute("SELECT name, parent_id FROM spans")]
    else:
        said = [json.loads(line) for line in (folder / "traces.jsonl").read_text(encoding="utf-8").splitlines()]
        rows = [(span["name"], span["parent_id"]) for span in said]
    mine = [name for name, _ in rows if name == "Ping" or name.startswith(("invoke_agent ", "chat ", "execute_tool "))]
    if len(mine) != due if way.share == 1.0 else len(mine) > due * min(1.0, 10 * way.share) + 20 * SPANS[measure]:
        raise BrokenBlock(f"{way.place}, a share of {way.share:g}: {len(mine)} spans for {done} {UNITS[measure]}, where {due} would be all")


def run(way: Way, measure: str, count: int) -> float:
    """So many turns or asks, one after the other. The system's end, which flushes what was traced, is in the time."""
    with tempfile.TemporaryDirectory(prefix="traced-") as name:
        folder = Path(name)
        seconds = trio.run(_turns if measure == "turn" else _asks, way.tracing(folder), count)
        check_spans(way, folder, measure, count + 1)
    return seconds


async def _turns(tracing: rt.Tracing | None, count: int) -> float:
    tally = Tally()
    called = llm.tool_calls((TOOL, ARGUMENTS))

    def model(request: llm.Complete) -> str | llm.Completion:
        tally.completions += 1
        return ANSWER if request.messages[-1].role == "tool" else called

    async def get_weather(city: str, days: int = 1) -> str:
        """Forecast for a city.

        Args:
            city: Name of the city.
            days: How many days ahead.
        """
        return await tally.forecast(city, days)

    answers: list[str] = []
    timer = Timer()
    async with rt.ActorSystem("bench", tracing=tracing) as system:
        ref = await system.spawn(llm.Scripted, model, name="model")
        agent = await system.spawn(rt.Agent, model=ref, tools=[get_weather], instructions=INSTRUCTIONS, name=AGENT)

        async def turn(number: int) -> None:
            answers.append((await agent.ask(rt.AgentMessage(QUESTION, session=f"s{number}"))).content)

        await turn(count)
        timer.start()
        for number in range(count):
            await turn(number)
    timer.stop()
    tally.check("retinue", count + 1, answers)
    return timer.seconds


async def _asks(tracing: rt.Tracing | None, count: int) -> float:
    right = 0
    timer = Timer()
    async with rt.ActorSystem("bench", tracing=tracing) as system:
        echo = await system.spawn(Echo, name="echo")
        await echo.ask(Ping(0))
        timer.start()
        for number in range(count):
            right += await echo.ask(Ping(number)) == number
    timer.stop()
    if right != count:
        raise BrokenBlock(f"{count} asks had {right} right answers")
    return timer.seconds


_WAYS: Mapping[str, Way] = {
    BARE: Way(note="a copy of the package in which nothing asks whether there is a tracer"),
    OFF: Way(note="as it is without `tracing=`"),
    "SQLite, 1 %": Way("sqlite", 0.01, "`sample=0.01`"),
    "JSONL": Way("jsonl", note="each span a line"),
    "SQLite": Way("sqlite", note="each span a row"),
}

CONTENDERS: Mapping[str, Contender] = {
    name: Contender(name, rt.__file__ or "", {measure: Block(partial(run, way, measure), note=way.note) for measure in SPANS})
    for name, way in _WAYS.items()
}
