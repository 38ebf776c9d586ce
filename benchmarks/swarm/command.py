"""`python -m benchmarks swarm`."""

from __future__ import annotations

import logging
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import click

from benchmarks import machine
from benchmarks.agents.apart import Apart
from benchmarks.harness import Block, BrokenBlock, Timed, gc_policy, interleave, ratios, spread
from benchmarks.results import RESULTS, Row, facts_list, joined, marked, plain, put_part
from benchmarks.swarm.bare import Bare, make_bare
from benchmarks.swarm.contenders import OURS, SWARMS
from benchmarks.swarm.sessions import CALLS, LONGEST, MEMBERS, SwarmSessions, measure_swarm_sessions
from benchmarks.swarm.traced import BARE, CONTENDERS, OFF, UNITS
from benchmarks.swarm.walk import AGENTS

__all__ = ["sessions_table", "swarm", "swarm_table", "traced_table"]

PARTS = ("ring", "star", "tracing", "sessions")

MESSAGES: Mapping[str, int] = {"ring": 20, "star": 100}
"""In one block, so that five rounds of the ring are a hundred messages to a hundred agents: a lap of a peer's takes seconds."""

CALLS_OF: Mapping[str, int] = {"ring": AGENTS, "star": 2}
"""Model calls of a message."""

ROUNDS_OF_A_PROCESS = 3
"""Then tracing is measured in fresh ones: two that run the same code differ by some percent, for as long as they live, by where things lie in memory."""

LOADS = "benchmarks.swarm.contenders"

METHOD = """Each contender runs in a process of its own, which waits while others run. In each round each runs one block, in an order that rotates; ratios are formed within a
round, between neighbours in time, and medians over the rounds are given, with quartiles. A full garbage collection precedes each block, and the thresholds are raised
for everybody alike. Each block checks what it did, and an error ends the run."""

_WORK = """Each message is a new conversation, one after the other: AutoGen's agents are told to forget the last one, and so are ours in the first row, which is in the time; all others begin with an empty history.
Models take no time: each framework's own interface for them is implemented by a function that checks which agent asks, in which order, and that what it is told holds this message's number and no
other. What agents are told differs: a member of Retinue's swarm hears the others' words, line by line, as one message; AutoGen's get each other's messages; the other two share one history with all calls in it."""

HOWS: Mapping[str, str] = {
    "ring": f"""{AGENTS} agents, each of whom hands over to the next, and the last answers: {CALLS_OF["ring"]} model calls a message, {AGENTS - 1} handoffs. {{block}} messages a block, {{rounds}} rounds. {_WORK} A ring
is hard on whoever goes through the whole history at each step: that grows with its square.""",
    "star": f"""{AGENTS} agents, the first of whom has {AGENTS - 1} handoffs to choose from and takes another one with each message; that one answers: {CALLS_OF["star"]} model calls a message. {{block}} messages a
block, {{rounds}} rounds. The rest is as with the ring. Retinue forgets by asking each of the {AGENTS} members, which is most of its time in the first row.""",
}

TRACED = f"""The turn of the agents' benchmark (two completions, a call of a tool; here each in a session of its own, which stays), and a plain ask of an actor, one after the other, in blocks of about
{{seconds:g}} s, {{rounds}} rounds, with fresh processes after each {ROUNDS_OF_A_PROCESS}. The system's end, which flushes what was traced, is in the time, and all spans must be in the file: four a turn, one an ask. "{OFF}" is a system without `tracing=`. "{BARE}" is
a copy of the package, made for this run, in which the {{places}} places that ask whether there is a tracer say no at compile time. Contents are not exported."""

SESSIONS = f"""All sessions of one swarm of {MEMBERS + 1} agents are begun at once, and each has two messages: the desk hands over to one of {MEMBERS} members, which looks the session up (an `async def` that waits up to
{LONGEST:g} s, so that sessions overtake each other) and answers; with the second message it hands back, and the desk answers: {CALLS} model calls, one call of a tool, two handoffs a session. Models are scripted
and take no time. Each session says its number and must hear it again from whoever is due; the models see to it that no request speaks of two sessions or has another history than its own: one bleed
ends the run. "peak" is what the process has grown by at most, "kept" what it had grown by when all were over, with every session remembered by the swarm and two members."""


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def _figure(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _spread(figures: Sequence[float]) -> str:
    made = spread(figures)
    return f"{_figure(made.median)} ({_figure(made.low)} – {_figure(made.high)})"


def _times(figures: Sequence[float], digits: int = 1) -> str:
    made = spread(figures)
    return f"{made.median:.{digits}f}× ({made.low:.{digits}f}× – {made.high:.{digits}f}×)"


def swarm_table(shape: str, timed: Mapping[str, Timed], notes: Mapping[str, str]) -> list[Row]:
    """Header first; a row a contender."""
    rows: list[Row] = [("who", "messages a second (quartiles)", "µs a model call", "retinue is faster by (quartiles)")]
    for name, one in timed.items():
        faster = [] if name.startswith(OURS) or OURS not in timed else ratios(timed[OURS].rates, one.rates)
        shown = name + (f": {notes[name]}" if notes.get(name) else "")
        each = 1e6 / spread(one.rates).median / CALLS_OF[shape]
        rows.append((shown, _spread(one.rates), _figure(each), _times(faster) if faster else ""))
    return rows


def traced_table(timed: Mapping[str, Timed], notes: Mapping[str, str]) -> list[Row]:
    """Header first; a row a way to trace. Costs are those over "off", of the same round."""
    rows: list[Row] = [("tracing", "a second (quartiles)", "µs each", "takes, of the time when off (quartiles)", "µs more than off")]
    off = timed[OFF].rates
    for name, one in timed.items():
        longer = "" if name == OFF else _times(ratios(off, one.rates), 2)
        more = "" if name == OFF else _figure(spread([1e6 / rate - 1e6 / base for rate, base in zip(one.rates, off, strict=True)]).median)
        rows.append((f"{name}: {notes[name]}", _spread(one.rates), _figure(1e6 / spread(one.rates).median), longer, more))
    return rows


def sessions_table(results: Sequence[SwarmSessions]) -> list[Row]:
    """Header first; a row a number of sessions."""
    rows: list[Row] = [
        (
            "sessions at once",
            "model calls",
            "bleeds",
            "tools at once, at most",
            "seconds",
            "CPU, µs a model call",
            "peak, KB a session",
            "kept, KB a session",
        )
    ]
    rows += [
        (
            f"{one.sessions:,}",
            f"{one.calls:,}",
            "0",
            f"{one.at_once:,}",
            _figure(one.seconds),
            _figure(one.cpu_micros),
            _figure(one.peak_each / 1e3),
            _figure(one.kept_each / 1e3),
        )
        for one in results
    ]
    return rows


def _split(_: click.Context, __: click.Parameter, value: str) -> list[str]:
    names = [name.strip() for name in value.split(",") if name.strip()]
    for name in names:
        if name not in PARTS:
            raise click.BadParameter(f"{name!r} is none of {', '.join(PARTS)}")
    return names or list(PARTS)


@click.command()
@click.option("--quick", is_flag=True, help="A first look: 1 round of 1 message, short blocks, 50 sessions. Not to be quoted.")
@click.option("--only", default="", callback=_split, help=f"Only these, by comma: {', '.join(PARTS)}.")
@click.option("--rounds", type=click.IntRange(1), default=None, help="Rounds. Default 5 for ring and star, 15 for tracing (quick: 1).")
@click.option(
    "--seconds", type=click.FloatRange(0.001), default=None, help="About how long a block of tracing lasts. Default 0.5 (quick: 0.02)."
)
@click.option("--sessions", type=click.IntRange(1), default=None, help="How many sessions at once. Default 1,000 (quick: 50).")
@click.option("--write", is_flag=True, help="Write this command's part of benchmarks/RESULTS.md.")
def swarm(quick: bool, only: list[str], rounds: int | None, seconds: float | None, sessions: int | None, write: bool) -> None:
    """Swarms: 100 agents that hand over, beside peers; what tracing costs; many sessions at once."""
    if write and (quick or len(only) < len(PARTS)):
        raise click.UsageError("--write is for a whole run: results of --quick or --only are not to be quoted")
    logging.getLogger("retinue").addHandler(logging.NullHandler())
    logging.getLogger("retinue").propagate = False
    facts = machine.describe(["retinue", "trio", "autogen-agentchat", "openai-agents", "pydantic-ai-slim", "opentelemetry-sdk"])
    for name, fact in facts.items():
        click.echo(f"{name}: {fact}")
    tables: dict[str, tuple[str, list[Row]]] = {}

    def show(title: str, how: str, rows: list[Row]) -> None:
        _progress("")
        tables[title] = how, rows
        click.echo(f"\n{title}\n{plain(rows)}")

    for shape in [part for part in only if part in MESSAGES]:
        block, times = 1 if quick else MESSAGES[shape], rounds or (1 if quick else 5)
        timed, notes = _measure_swarm(shape, block, times)
        show(f"a {shape} of {AGENTS} agents", HOWS[shape].format(block=block, rounds=times), swarm_table(shape, timed, notes))
    if "tracing" in only:
        times, long = rounds or (1 if quick else 15), seconds or (0.02 if quick else 0.5)
        for measure, unit in UNITS.items():
            timed, notes, places = _measure_traced(measure, times, long)
            show(f"tracing, {unit}", TRACED.format(seconds=long, rounds=times, places=places), traced_table(timed, notes))
    if "sessions" in only:
        with gc_policy("tuned"):
            result = measure_swarm_sessions(sessions or (50 if quick else 1_000), progress=_progress)
        show("sessions of a swarm at once", SESSIONS, sessions_table([result]))
    if write:
        put_part(_part(facts, tables))
        click.echo(f"\nwritten: {RESULTS.name}")


def _measure_swarm(shape: str, messages: int, rounds: int) -> tuple[dict[str, Timed], dict[str, str]]:
    """Every contender in a process of its own, so many messages a round; figures and notes by name."""
    with ExitStack() as stack:
        blocks: dict[str, Block] = {}
        for name in SWARMS:
            _progress(f"{shape}: {name} starts")
            contender = stack.enter_context(Apart(name, shape, command=LOADS))
            if contender.missing:
                click.echo(f"without {name}: {contender.missing}")
            else:
                blocks[name] = contender.block
        labels, rates = list(blocks), {name: list[float]() for name in blocks}
        for number in range(rounds):
            shift = number % len(labels)
            for name in labels[shift:] + labels[:shift]:
                _progress(f"{shape}, round {number + 1} of {rounds}: {name}")
                rates[name].append(messages / blocks[name].run(messages))
    return {name: Timed(messages, tuple(found)) for name, found in rates.items()}, {name: block.note for name, block in blocks.items()}


def _measure_traced(measure: str, rounds: int, seconds: float) -> tuple[dict[str, Timed], dict[str, str], int]:
    """Every way to trace in processes of its own, block by block in turns; figures and notes by way, and the places that were taken out of the bare one."""
    rates: dict[str, list[float]] = {name: [] for name in CONTENDERS}
    with tempfile.TemporaryDirectory(prefix="bare-") as folder:
        bare = make_bare(Path(folder).resolve())
        for first in range(0, rounds, ROUNDS_OF_A_PROCESS):
            timed = _traced_once(measure, min(ROUNDS_OF_A_PROCESS, rounds - first), seconds, bare)
            for name, one in timed.items():
                rates[name] += one.rates
    return (
        {name: Timed(0, tuple(found)) for name, found in rates.items()},
        {name: contender.blocks[measure].note for name, contender in CONTENDERS.items()},
        bare.places,
    )


def _traced_once(measure: str, rounds: int, seconds: float, bare: Bare) -> dict[str, Timed]:
    with ExitStack() as stack:
        blocks: dict[str, Block] = {}
        for name in CONTENDERS:
            _progress(f"tracing, {measure}: {name} starts")
            environment = {"PYTHONPATH": str(bare.path)} if name == BARE else {}
            contender = stack.enter_context(Apart(name, measure, command=LOADS, environment=environment))
            copied = Path(contender.version).is_relative_to(bare.path)
            if copied != (name == BARE):
                raise BrokenBlock(f"{name!r} runs the package in {contender.version}")
            blocks[name] = contender.block
        return interleave(blocks, rounds=rounds, seconds=seconds, progress=lambda name: _progress(f"tracing, {measure}: {name}"))


def _part(facts: Mapping[str, str], tables: Mapping[str, tuple[str, list[Row]]]) -> str:
    parts = ["# Swarm", "Written by `python -m benchmarks swarm --write`. The machine and the method:", facts_list(facts), METHOD]
    for title, (how, rows) in tables.items():
        parts += [f"## {title}", how, marked(rows)]
    return joined(parts)
