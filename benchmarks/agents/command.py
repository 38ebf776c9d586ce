"""`python -m benchmarks agents`."""

from __future__ import annotations

import importlib
import logging
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack

import click

from benchmarks import machine
from benchmarks.agents.apart import Apart
from benchmarks.agents.sessions import CONNECTIONS, SessionsResult, measure_sessions
from benchmarks.agents.tokens import BARE, PIECES, TokensResult, measure_tokens
from benchmarks.harness import Block, Contender, Timed, gc_policy, interleave, ratios, spread
from benchmarks.results import RESULTS, Row, facts_list, joined, marked, plain, put_part

__all__ = ["CONTENDERS", "FASTER", "OURS", "agents", "load", "sessions_table", "tokens_table", "turns_table"]

FASTER = 10.0
"""So many times the turns a second of the best peer is what ours is to have at least."""

OURS = "retinue"

CONTENDERS: Mapping[str, str] = {
    OURS: "benchmarks.agents.ours:CONTENDER",
    "pydantic-ai": "benchmarks.agents.pydantic_ai_peer:CONTENDER",
    "openai-agents": "benchmarks.agents.openai_agents_peer:CONTENDER",
    "autogen-agentchat": "benchmarks.agents.autogen_chat_peer:CONTENDER",
}
"""Name → where it is defined, ours first."""

PARTS = ("turns", "sessions", "tokens")

METHOD = """In each of {rounds} rounds every row of a table runs one block of about {seconds:g} s, in an order that rotates; ratios are formed within a
round, between neighbours in time, and medians over the rounds are given, with quartiles. A full garbage collection precedes each block, and the thresholds are raised
for everybody alike. Each block checks what it did: so many answers, the right ones, so many calls of the tool, so many completions, and an error ends the run."""

TURNS = """A turn is a question, a completion that calls a tool, the tool (an `async def`), a completion with its result, an answer: two completions and a call. The model takes
no time: each framework's own interface for models is implemented by a function that answers at once. Each framework is in a process of its own, so that nobody's imports, heap
and caches are in another's way; it sleeps while others run their blocks. One turn after the other, each in a conversation of its own (ours and
AutoGen's agents are told to forget, which is in the time), after a first one that is not timed. In Retinue agent, session, tool and model are actors with a mailbox each; every message carries a security context
and passes the gate, and what a turn has said is kept for the session."""

SESSIONS = f"""All sessions of one agent are begun at once, and each has two turns, the first with a tool call: three requests over HTTP to an endpoint in a process of its own, at most
{CONNECTIONS} at once. Each session speaks of its number, and must hear it again; the endpoint sees to it that no request speaks of two sessions or has another history than its
own. "peak" is what the process has grown by at most, "kept" what it had grown by when all sessions were over, with five messages remembered of each."""

TOKENS = f"""An answer of {PIECES:,} pieces, each in an event and a chunk of its own, read from an endpoint in a process of its own. The base reads the bytes with httpx and does nothing with
them: no JSON, no UTF-8. "over the base" is the processor time of this process for a token, less the base's of the same round."""


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def _figure(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _spread(figures: Sequence[float]) -> str:
    made = spread(figures)
    return f"{_figure(made.median)} ({_figure(made.low)} – {_figure(made.high)})"


def _times(figures: Sequence[float]) -> str:
    made = spread(figures)
    return f"{made.median:.1f}× ({made.low:.1f}× – {made.high:.1f}×)"


def load(names: Iterable[str]) -> tuple[list[Contender], dict[str, str]]:
    """The contenders that can be imported, and why the others could not. Ours is never skipped: its error is raised."""
    loaded, absent = [], {}
    for name in names:
        try:
            module, _, attribute = CONTENDERS[name].partition(":")
            loaded.append(getattr(importlib.import_module(module), attribute))
        except ImportError as error:
            if name == OURS:
                raise
            absent[name] = f"{error} (peers come with the extra `bench`: pip install '.[bench]')"
    return loaded, absent


def turns_table(timed: Mapping[str, Timed], notes: Mapping[str, str]) -> list[Row]:
    """Header first; a row a contender. Judged against the peer that is the fastest in the median."""
    rows: list[Row] = [("who", "turns a second (quartiles)", "µs a turn", "retinue is faster by (quartiles)", "target")]
    peers = [name for name in timed if name != OURS]
    best = max(peers, key=lambda name: spread(timed[name].rates).median) if peers else None
    for name, one in timed.items():
        faster = [] if name == OURS or OURS not in timed else ratios(timed[OURS].rates, one.rates)
        target = ""
        if faster and name == best:
            target = f"the best peer, ≥ {FASTER:g}×: {'reached' if spread(faster).median >= FASTER else 'NOT reached'}"
        shown = name + (f": {notes[name]}" if notes.get(name) else "")
        rows.append((shown, _spread(one.rates), _figure(1e6 / spread(one.rates).median), _times(faster) if faster else "", target))
    return rows


def sessions_table(results: Sequence[SessionsResult]) -> list[Row]:
    """Header first; a row a number of sessions."""
    rows: list[Row] = [
        (
            "sessions at once",
            "turns",
            "requests",
            "seconds",
            "requests a second",
            "CPU, µs a request",
            "peak, KB a session",
            "kept, KB a session",
        )
    ]
    rows += [
        (
            f"{result.sessions:,}",
            f"{result.turns:,}",
            f"{result.requests:,}",
            _figure(result.seconds),
            _figure(result.requests / result.seconds),
            _figure(result.cpu_micros),
            _figure(result.peak_each / 1e3),
            _figure(result.kept_each / 1e3),
        )
        for result in results
    ]
    return rows


def tokens_table(result: TokensResult) -> list[Row]:
    """Header first; a row a way."""
    rows: list[Row] = [("who reads", "tokens a second (quartiles)", "CPU, µs a token (quartiles)", "over the base, µs a token (quartiles)")]
    for way, timed in result.timed.items():
        over = [] if way == BARE else [ours - base for ours, base in zip(result.cpu[way], result.cpu[BARE], strict=True)]
        rows.append((way, _spread(timed.rates), _spread(result.cpu[way]), _spread(over) if over else ""))
    return rows


def _split(_: click.Context, __: click.Parameter, value: str) -> list[str]:
    names = [name.strip() for name in value.split(",") if name.strip()]
    for name in names:
        if name not in PARTS:
            raise click.BadParameter(f"{name!r} is none of {', '.join(PARTS)}")
    return names or list(PARTS)


@click.command()
@click.option("--quick", is_flag=True, help="A first look: 1 short round, 50 sessions. Not to be quoted.")
@click.option("--only", default="", callback=_split, help=f"Only these, by comma: {', '.join(PARTS)}.")
@click.option("--rounds", type=click.IntRange(1), default=None, help="Rounds. Default 15 (quick: 1).")
@click.option("--seconds", type=click.FloatRange(0.001), default=None, help="About how long a block lasts. Default 0.3 (quick: 0.02).")
@click.option("--sessions", type=click.IntRange(1), default=None, help="How many sessions at once. Default 10,000 (quick: 50).")
@click.option("--write", is_flag=True, help="Write this command's part of benchmarks/RESULTS.md.")
def agents(quick: bool, only: list[str], rounds: int | None, seconds: float | None, sessions: int | None, write: bool) -> None:
    """Agents: turns a second beside peers, many sessions at once, what a streamed token costs."""
    if write and (quick or len(only) < len(PARTS)):
        raise click.UsageError("--write is for a whole run: results of --quick or --only are not to be quoted")
    logging.getLogger("retinue").addHandler(logging.NullHandler())
    logging.getLogger("retinue").propagate = False
    rounds = rounds or (1 if quick else 15)
    seconds = seconds or (0.02 if quick else 0.3)
    facts = machine.describe(["retinue", "trio", "httpx", "pydantic-ai-slim", "openai-agents", "autogen-agentchat"])
    for name, fact in facts.items():
        click.echo(f"{name}: {fact}")
    tables: dict[str, tuple[str, list[Row]]] = {}

    def show(title: str, how: str, rows: list[Row]) -> None:
        _progress("")
        tables[title] = how, rows
        click.echo(f"\n{title}\n{plain(rows)}")

    with gc_policy("tuned"):
        if "turns" in only:
            timed, notes = _measure_turns(rounds, seconds)
            show("turns of an agent", TURNS, turns_table(timed, notes))
        if "sessions" in only:
            show(
                "sessions at once", SESSIONS, sessions_table([measure_sessions(sessions or (50 if quick else 10_000), progress=_progress)])
            )
        if "tokens" in only:
            show("streamed tokens", TOKENS, tokens_table(measure_tokens(rounds=rounds, seconds=seconds, progress=_progress)))
    if write:
        put_part(_part(facts, METHOD.format(rounds=rounds, seconds=seconds), tables))
        click.echo(f"\nwritten: {RESULTS.name}")


def _measure_turns(rounds: int, seconds: float) -> tuple[dict[str, Timed], dict[str, str]]:
    """Every contender in a process of its own, block by block in turns; figures and notes by name."""
    with ExitStack() as stack:
        blocks: dict[str, Block] = {}
        for name in CONTENDERS:
            _progress(f"turns: {name} starts")
            contender = stack.enter_context(Apart(name, "turn"))
            if contender.missing:
                click.echo(f"without {name}: {contender.missing}")
            else:
                blocks[name] = contender.block
        timed = interleave(blocks, rounds=rounds, seconds=seconds, progress=lambda name: _progress(f"turns: {name}"))
    return timed, {name: block.note for name, block in blocks.items()}


def _part(facts: Mapping[str, str], method: str, tables: Mapping[str, tuple[str, list[Row]]]) -> str:
    parts = ["# Agents", "Written by `python -m benchmarks agents --write`. The machine and the method:", facts_list(facts), method]
    for title, (how, rows) in tables.items():
        parts += [f"## {title}", how, marked(rows)]
    return joined(parts)
