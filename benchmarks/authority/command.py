"""`python -m benchmarks authority`."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping, Sequence

import attrs
import click

from benchmarks import machine
from benchmarks.authority.decisions import Square, square
from benchmarks.authority.groups import GROUPS, Group, Target, blocks_of
from benchmarks.harness import Spread, Timed, gc_policy, interleave, spread
from benchmarks.results import RESULTS, Row, facts_list, joined, marked, plain, put_part

__all__ = ["Result", "authority", "table"]

METHOD = """In each of {rounds} rounds every row of a table runs one block of about {seconds:g} s, in one process, in an order that rotates; what is added to
the first row is formed within a round, between neighbours in time, and medians over the rounds are given, with quartiles. Setting up and
tearing down are not timed; garbage collection is on, {gc} thresholds, and a full collection precedes each block. Each block checks what it did."""


@attrs.frozen
class Result:
    """A group, what was timed, and notes by label."""

    group: Group
    timed: Mapping[str, Timed]
    notes: Mapping[str, str]


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def _micros(figures: Spread) -> str:
    return f"{_figure(figures.median)} ({_figure(figures.low)} – {_figure(figures.high)})"


def _figure(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _added(label: str, result: Result) -> tuple[Spread, Spread] | None:
    """What a row costs more than the base: microseconds, and as a share."""
    base = result.group.base
    if base is None or label == base:
        return None
    pairs = list(zip(result.timed[label].rates, result.timed[base].rates, strict=True))
    return spread([1e6 / mine - 1e6 / theirs for mine, theirs in pairs]), spread([theirs / mine - 1 for mine, theirs in pairs])


def verdict(target: Target, micros: float, added: float | None, share: float | None) -> str:
    """Whether it was reached."""
    got = {"microseconds": micros, "added microseconds": added, "added share": share}[target.of]
    return f"{target.text}: {'reached' if got is not None and got <= target.at_most else 'NOT reached'}"


def table(result: Result) -> list[Row]:
    """Header first; a row a label."""
    compared = result.group.base is not None
    head = ("what", "µs (quartiles)", *((f"more than “{result.group.base}”, µs", "share") if compared else ()), "target")
    rows: list[Row] = [head]
    for label, timed in result.timed.items():
        micros = spread([1e6 / rate for rate in timed.rates])
        added = _added(label, result)
        target = result.group.targets.get(label)
        said = "" if target is None else verdict(target, micros.median, *(part.median for part in added) if added else (None, None))
        note = f" ({result.notes[label]})" if label in result.notes else ""
        more = () if not compared else ("", "") if added is None else (_micros(added[0]), f"{added[1].median:+.1%}")
        rows.append((label + note, _micros(micros), *more, said))
    return rows


def square_table(made: Square) -> list[Row]:
    """Contexts against operations."""
    return [
        ("contexts × operations", "first time, µs", "again, µs", "permitted", "remembered", "bytes a decision"),
        (
            f"{made.contexts:,} × {made.operations:,}",
            _figure(made.cold),
            _figure(made.warm),
            f"{made.permitted:.0%}",
            f"{made.kept:.0%}",
            _figure(made.bytes_each),
        ),
    ]


SQUARE = "A thousand contexts, no two with the same layers, each asked about a thousand operations by name, in random order: the first time, and again."


def _split(_: click.Context, __: click.Parameter, value: str) -> list[str]:
    known = [*(group.name for group in GROUPS), "square"]
    names = [name.strip() for name in value.split(",") if name.strip()]
    for name in names:
        if name not in known:
            raise click.BadParameter(f"{name!r} is none of {', '.join(known)}")
    return names


@click.command()
@click.option("--only", default="", callback=_split, help=f"Only these, by comma: {', '.join(group.name for group in GROUPS)}, square.")
@click.option("--rounds", type=click.IntRange(1), default=15, show_default=True, help="Rounds.")
@click.option("--seconds", type=click.FloatRange(0.001), default=0.1, show_default=True, help="About how long a block lasts.")
@click.option("--gc", "policy", type=click.Choice(["default", "tuned"]), default="tuned", show_default=True, help="Collector's thresholds.")
@click.option("--size", type=click.IntRange(2), default=1000, show_default=True, help="So many contexts against so many operations.")
@click.option("--write", is_flag=True, help="Write this command's part of benchmarks/RESULTS.md.")
def authority(only: list[str], rounds: int, seconds: float, policy: str, size: int, write: bool) -> None:
    """What authority costs: asks, decisions, contexts, tokens, records; biscuit-python beside the tokens."""
    if write and only:
        raise click.UsageError("--write is for a whole run: results of --only are not to be quoted")
    logging.getLogger("retinue").addHandler(logging.NullHandler())
    logging.getLogger("retinue").propagate = False
    facts = machine.describe(["retinue", "trio", "biscuit-python"])
    for name, fact in facts.items():
        click.echo(f"{name}: {fact}")
    results: list[Result] = []
    with gc_policy(policy):
        for group in GROUPS:
            if only and group.name not in only:
                continue
            blocks = blocks_of(group)
            timed = interleave(
                blocks,
                rounds=rounds,
                seconds=seconds,
                progress=lambda label, name=group.name: _progress(f"{name}: {label}"),  # type: ignore[misc]
            )
            results.append(Result(group, timed, {label: block.note for label, block in blocks.items() if block.note}))
            _progress("")
            click.echo(f"\n{group.title}\n{plain(table(results[-1]))}")
        _progress("contexts × operations")
        made = square(size) if not only or "square" in only else None
        _progress("")
    if made is not None:
        click.echo(f"\ncontexts × operations\n{plain(square_table(made))}")
    if write and made is not None:
        method = METHOD.format(rounds=rounds, seconds=seconds, gc="raised" if policy == "tuned" else "CPython's default")
        put_part(_part(facts, method, results, made))
        click.echo(f"\nwritten: {RESULTS.name}")


def _part(facts: Mapping[str, str], method: str, results: Sequence[Result], made: Square) -> str:
    parts = ["# Authority", "Written by `python -m benchmarks authority --write`. The machine and the method:", facts_list(facts), method]
    for result in results:
        parts += [f"## {result.group.title}", result.group.how, marked(table(result))]
    return joined([*parts, "## contexts × operations", SQUARE, marked(square_table(made))])
