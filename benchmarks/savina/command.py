"""`python -m benchmarks savina`."""

from __future__ import annotations

import gc
import logging
import sys
from collections.abc import Mapping, Sequence

import attrs
import click

from benchmarks import machine
from benchmarks.harness import Spread, gc_policy, ratios, spread
from benchmarks.results import RESULTS, Row, facts_list, joined, marked, plain, put_part
from benchmarks.savina.suite import BENCHMARKS, EXTRA_PEERS, OURS, ProgramResult, extra_ports, program_results

__all__ = ["program_table", "savina", "summary_table"]

CONTENDERS = (OURS, "pykka", "trio", *EXTRA_PEERS)

METHOD = """Twelve programs of Savina (Imam and Sarkar, AGERE! 2014), with its parameters scaled to Python as said at each. In each of {rounds} rounds every
contender runs the whole program once, all in one process, in an order that rotates, after one run to warm up; a ratio is formed within a round, between
neighbours in time, and medians over the rounds are given, with quartiles. Actors that are there before the first message are made and ended untimed; those
that the program makes on its way are timed to their end. Where a contender cannot do as much (a thread an actor), it does less, and the rates are compared. Every
run checks its result, and in Retinue, where every message carries a context and passes the gate, that its books balance. Collector's thresholds: {gc}, for all; what
was imported is frozen.
"CPU" is the time that the process, all its threads together, was on a processor for one operation: on a machine that others use, the one figure that does not depend
on how its scheduler shares the cores between a process with many threads and a process with one.
"trio" is a task and an unbounded memory channel an actor, written by hand, without names, supervision, authority or any account of what was lost."""


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _ratio(figures: Spread) -> str:
    return f"{figures.median:.2f}× ({figures.low:.2f}× – {figures.high:.2f}×)"


def _sized(size: object) -> str:
    return ", ".join(f"{field.name} {getattr(size, field.name):,}" for field in attrs.fields(type(size)))


def verdict(result: ProgramResult) -> str:
    """Whether ours is no slower than the best of its peers."""
    margin = result.margin()
    if margin is None:
        return ""
    return f"{margin:.2f}× {result.best_peer()}, the best peer: {'reached' if margin >= 1 else 'NOT reached'}"


def program_table(result: ProgramResult) -> list[Row]:
    """Header first; a row a contender."""
    rows: list[Row] = [("who", "size", f"{result.benchmark.unit} a second (quartiles)", "retinue is faster by (quartiles)", "CPU, µs each")]
    for name, timed in result.timed.items():
        rate = spread(timed.rates)
        by = "" if name == OURS or OURS not in result.timed else _ratio(spread(ratios(result.timed[OURS].rates, timed.rates)))
        note = f": {result.benchmark.notes[name]}" if name in result.benchmark.notes else ""
        rows.append(
            (
                name + note,
                _sized(result.sizes[name]),
                f"{_figure(rate.median)} ({_figure(rate.low)} – {_figure(rate.high)})",
                by,
                _figure(1e6 * spread(result.cpu[name]).median),
            )
        )
    return rows


def summary_table(results: Sequence[ProgramResult]) -> list[Row]:
    """Header first; a row a program: ours beside the best peer."""
    rows: list[Row] = [("program", "retinue, a second", "no slower than the best peer", "least CPU among the peers, by retinue's")]
    for result in results:
        ours = result.timed.get(OURS)
        rate = "" if ours is None else f"{_figure(spread(ours.rates).median)} {result.benchmark.unit}"
        cpu = result.cpu_margin()
        rows.append((result.benchmark.title, rate, verdict(result), "" if cpu is None else f"{cpu[1]:.2f}× ({cpu[0]})"))
    return rows


def markdown(facts: Mapping[str, str], method: str, results: Sequence[ProgramResult]) -> str:
    """This command's part of RESULTS.md."""
    parts = ["# Savina", "Written by `python -m benchmarks savina --write`. The machine and the method:", facts_list(facts), method]
    parts += ["## all programs", marked(summary_table(results))]
    for result in results:
        parts += [f"## {result.benchmark.title}", result.benchmark.how, marked(program_table(result))]
    return joined(parts)


def _split(_: click.Context, parameter: click.Parameter, value: str) -> list[str]:
    known = [benchmark.name for benchmark in BENCHMARKS] if parameter.name == "only" else list(CONTENDERS)
    names = [name.strip() for name in value.split(",") if name.strip()]
    for name in names:
        if name not in known:
            raise click.BadParameter(f"{name!r} is none of {', '.join(known)}")
    return names


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


@click.command()
@click.option("--quick", is_flag=True, help="A first look: 3 rounds, a tenth of each program. Not to be quoted.")
@click.option("--only", default="", callback=_split, help=f"Only these, by comma: {', '.join(benchmark.name for benchmark in BENCHMARKS)}.")
@click.option(
    "--with", "names", default=",".join(CONTENDERS), callback=_split, help=f"Only these contenders, by comma: {', '.join(CONTENDERS)}."
)
@click.option("--rounds", type=click.IntRange(1), default=None, help="Rounds. Default 7 (quick: 3).")
@click.option("--gc", "policy", type=click.Choice(["default", "tuned"]), default="tuned", show_default=True, help="Collector's thresholds.")
@click.option("--write", is_flag=True, help="Write this part of benchmarks/RESULTS.md.")
def savina(quick: bool, only: list[str], names: list[str], rounds: int | None, policy: str, write: bool) -> None:
    """The field's benchmark: twelve programs of Savina, ours beside pykka, bare trio and others."""
    if write and (quick or only):
        raise click.UsageError("--write is for a whole run: results of --quick or --only are not to be quoted")
    logging.getLogger("retinue").addHandler(logging.NullHandler())
    logging.getLogger("retinue").propagate = False
    rounds = rounds or (3 if quick else 7)
    facts = machine.describe(["retinue", "trio", "pykka", *EXTRA_PEERS])
    for name, fact in facts.items():
        click.echo(f"{name}: {fact}")
    for peer in EXTRA_PEERS:
        if peer in names:
            try:
                extra_ports(peer)
            except ImportError as error:
                click.echo(f"without {peer}: {error} (peers come with the extra `bench`: pip install '.[bench]')")
    results: list[ProgramResult] = []
    gc.collect()
    gc.freeze()  # what the peers import (pandas is among it) is not to be looked through at each collection of anybody's
    with gc_policy(policy):
        for result in program_results(names, only=only, rounds=rounds, kind="quick" if quick else "full", progress=_progress):
            results.append(result)
            _progress("")
            click.echo(f"\n{result.benchmark.title}\n{plain(program_table(result))}\n  {verdict(result)}")
    click.echo(f"\nAll programs\n{plain(summary_table(results))}")
    if write:
        method = METHOD.format(rounds=rounds, gc="CPython's default" if policy == "default" else "raised")
        put_part(markdown(facts, method, results))
        click.echo(f"\nwritten: {RESULTS.name}")
