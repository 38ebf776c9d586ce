"""The command line: `python -m benchmarks runtime|agents|authority|border|savina|swarm|agentdojo|mutants [--help]`."""

from __future__ import annotations

import cProfile
import logging
import pstats
import sys

import click

from benchmarks import machine, report
from benchmarks.agentdojo.command import agentdojo
from benchmarks.agents.command import agents
from benchmarks.authority.command import authority
from benchmarks.border.command import border
from benchmarks.harness import calibrate, gc_policy
from benchmarks.mutants.command import mutants
from benchmarks.results import RESULTS, plain, put_part
from benchmarks.runtime.latency import LATENCY_TITLE, LatencyResult, latency_results
from benchmarks.runtime.measures import MEASURES
from benchmarks.runtime.suite import CONTENDERS, OURS, IdleResult, MeasureResult, block_of, idle_results, load, measure_results
from benchmarks.savina.command import savina
from benchmarks.swarm.command import swarm

NAMES = [measure.name for measure in MEASURES] + ["latency", "idle"]

METHOD = """Ratios compare neighbours in time: in each of {rounds} rounds every contender runs one block of about {seconds:g} s, all in one process, in an order
that rotates; a ratio is formed within a round, and the median over the rounds is given with its quartiles. Setting up and tearing down are not
timed. Garbage collection is on, {gc} thresholds for everybody, and a full collection precedes each block. Every message is allocated anew. Every message of
Retinue carries a security context and passes the gate (each handler has `requires=`), and after each block its counts must add up and the actors
must have counted what was sent, else the run fails; the peers' totals are checked alike. Targets are judged by the median."""


def _split(_: click.Context, parameter: click.Parameter, value: str) -> list[str]:
    known = NAMES if parameter.name == "only" else list(CONTENDERS)
    names = [name.strip() for name in value.split(",") if name.strip()]
    for name in names:
        if name not in known:
            raise click.BadParameter(f"{name!r} is none of {', '.join(known)}")
    return names


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


@click.group()
def main() -> None:
    """How fast it is beside its peers, what it refuses, and whether its tests would notice if it did not."""


@main.command()
@click.option("--quick", is_flag=True, help="A first look: 3 short rounds, no million of actors. Not to be quoted.")
@click.option("--only", default="", callback=_split, help=f"Only these, by comma: {', '.join(NAMES)}.")
@click.option(
    "--with", "names", default=",".join(CONTENDERS), callback=_split, help=f"Only these contenders, by comma: {', '.join(CONTENDERS)}."
)
@click.option("--rounds", type=click.IntRange(1), default=None, help="Rounds. Default 15 (quick: 3).")
@click.option("--seconds", type=click.FloatRange(0.001), default=None, help="About how long a block lasts. Default 0.1 (quick: 0.03).")
@click.option(
    "--gc",
    "policy",
    type=click.Choice(["default", "tuned"]),
    default="default",
    show_default=True,
    help="Collector's thresholds, for all alike.",
)
@click.option("--write", is_flag=True, help="Write benchmarks/RESULTS.md.")
@click.option(
    "--profile",
    type=click.Choice([measure.name for measure in MEASURES]),
    default=None,
    help="Only ours, under cProfile: where the time goes.",
)
def runtime(
    quick: bool, only: list[str], names: list[str], rounds: int | None, seconds: float | None, policy: str, write: bool, profile: str | None
) -> None:
    """The actor core: ask, tell, spawn, memory and more."""
    # Asks that were withdrawn are dead letters, and thousands of them are the point here.
    logging.getLogger("retinue").addHandler(logging.NullHandler())
    logging.getLogger("retinue").propagate = False
    if profile is not None:
        _profile(profile)
        return
    if write and (quick or only):
        raise click.UsageError("--write is for a whole run: results of --quick or --only are not to be quoted")
    rounds = rounds or (3 if quick else 15)
    seconds = seconds or (0.03 if quick else 0.1)
    facts = machine.describe(["retinue", "trio", "pykka", "autogen-core"])
    for name, fact in facts.items():
        click.echo(f"{name}: {fact}")
    contenders, absent = load(names)
    for name, reason in absent.items():
        click.echo(f"without {name}: {reason}")
    measures: list[MeasureResult] = []
    idle: list[IdleResult] = []
    with gc_policy(policy):
        for result in measure_results(contenders, only=only, rounds=rounds, seconds=seconds, progress=_progress):
            measures.append(result)
            _progress("")
            click.echo(f"\n{result.measure.title}\n{plain(report.measure_table(result))}")
    latency: LatencyResult | None = None
    if not only or "latency" in only:
        latency = latency_results(
            [contender.name for contender in contenders], rounds=rounds, probes=50 if quick else 200, progress=_progress
        )
        _progress("")
        click.echo(f"\n{LATENCY_TITLE}\n{plain(report.latency_table(latency))}")
    if not only or "idle" in only:
        loaded = [contender.name for contender in contenders]
        idle.extend(idle_results(loaded, largest=100_000 if quick else None, progress=_progress))
        _progress("")
        click.echo(f"\nMemory of idle actors\n{plain(report.idle_table(idle))}")
    if write:
        method = METHOD.format(rounds=rounds, seconds=seconds, gc="CPython's default" if policy == "default" else "raised")
        put_part(report.markdown(facts, method, measures, idle, latency))
        click.echo(f"\nwritten: {RESULTS.name}")


def _profile(name: str) -> None:
    [contender], _ = load([OURS])
    block = block_of(contender, name)
    if block is None:
        raise click.UsageError(f"{contender.name} has no {name}")
    count = calibrate(block, 1.0)
    click.echo(f"{name}: {count / block.run(count):,.0f} a second without the profiler, {count:,} of them")
    profiler = cProfile.Profile()
    profiler.enable()
    block.run(count)
    profiler.disable()
    pstats.Stats(profiler).sort_stats("tottime").print_stats(30)


main.add_command(agents)
main.add_command(authority)
main.add_command(border)
main.add_command(savina)
main.add_command(swarm)
main.add_command(agentdojo)
main.add_command(mutants)

if __name__ == "__main__":
    main(prog_name="python -m benchmarks")
