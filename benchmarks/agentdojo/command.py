"""`python -m benchmarks agentdojo`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from benchmarks import machine
from benchmarks.agentdojo.judgement import NOT_SHOWN, WHOLE, Totals, disagreements, outcomes, table
from benchmarks.agentdojo.plans import PLANS
from benchmarks.agentdojo.replay import SUITES, WAYS, evaluate_all
from benchmarks.agentdojo.script import DEFAULT, Absent, check
from benchmarks.results import RESULTS, facts_list, joined, marked, plain, put_part

__all__ = ["agentdojo"]

_WAYS = """Every call of AgentDojo's ground truths, {version}, is decided three times. "gate": by `Gate.admit`, without a system, the argument pins in a
policy. "layers": the same, the pins that are constraints in the context instead, as `needs_approval` layers. "actors": a planner actor sends each call as
a message to the tool's executor actor, under the context of the task; what needs consent comes back as `ApprovalRequired`, a person consents to that
operation with exactly those arguments, once, and the planner sends it again. An executor must have run exactly when the gate said so, and all counts of
the three must be equal, else the command fails."""


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


@click.command()
@click.option("--suite", "suites", multiple=True, type=click.Choice(SUITES), help="Only this suite; may be repeated. Default: all four.")
@click.option("--version", default=WHOLE, show_default=True, help="AgentDojo's version of its suites; the targets are for the default.")
@click.option("--plan", "plans", multiple=True, type=click.Choice([plan.name for plan in PLANS]), help="Only this row; may be repeated.")
@click.option("--way", "ways", multiple=True, type=click.Choice(WAYS), help="Only this way to enforce it; may be repeated.")
@click.option(
    "--script",
    type=click.Path(path_type=Path),
    default=None,
    help=f"The replay script. Default: {'/'.join(DEFAULT.parts[-3:])} beside the repository.",
)
@click.option("--jobs", type=click.IntRange(1), default=None, help="Processes. Default: one a core.")
@click.option("--write", is_flag=True, help="Write this command's part of benchmarks/RESULTS.md.")
def agentdojo(
    suites: Sequence[str], version: str, plans: Sequence[str], ways: Sequence[str], script: Path | None, jobs: int | None, write: bool
) -> None:
    """AgentDojo's tasks and injections through the gate and through actors, without a model.

    Fails where two ways to enforce the same rules counted differently, or a target is missed.
    """
    whole = not suites and not plans and not ways and version == WHOLE
    if write and not whole:
        raise click.UsageError("--write is for a whole run of the default version: a part is not to be quoted")
    try:
        check(script)
    except Absent as error:
        raise click.ClickException(str(error)) from error
    facts = machine.describe(["retinue", "agentdojo"])
    for name, fact in facts.items():
        click.echo(f"{name}: {fact}")
    totals = evaluate_all(
        [plan for plan in PLANS if not plans or plan.name in plans],
        ways or WAYS,
        [suite for suite in SUITES if not suites or suite in suites],
        version=version,
        script=script,
        jobs=jobs or os.cpu_count() or 1,
        progress=_progress,
    )
    _progress("")
    click.echo(plain(table(totals)))
    if write:
        put_part(_part(facts, version, totals))
        click.echo(f"\nwritten: {RESULTS.name}")
    click.echo(f"\n{NOT_SHOWN}\n")
    failed = [f"counts differ: {text}" for text in disagreements(totals)]
    for outcome in outcomes(totals) if whole else ():
        click.echo(f"{'reached' if outcome.reached else 'NOT reached'}: {outcome.what}: {outcome.got} (wanted: {outcome.wanted})")
        if not outcome.reached:
            failed.append(outcome.what)
    if failed:
        raise click.ClickException("; ".join(failed))
    click.echo("All ways counted the same.")


def _part(facts: dict[str, str], version: str, totals: Totals) -> str:
    rows = [f"- {plan.name}: {plan.about}" for plan in PLANS]
    targets = [
        ("target", "wanted", "got", ""),
        *((o.what, o.wanted, o.got, "reached" if o.reached else "NOT reached") for o in outcomes(totals)),
    ]
    return joined(
        [
            "# AgentDojo",
            "Written by `python -m benchmarks agentdojo --write`. The machine and the method:",
            facts_list(facts),
            _WAYS.format(version=version),
            "\n".join(rows),
            marked(table(totals)),
            NOT_SHOWN,
            marked(targets),
        ]
    )
