"""`python -m benchmarks mutants`."""

from __future__ import annotations

import os
import sys
import time

import click

from benchmarks.mutants.approvals import APPROVALS
from benchmarks.mutants.beside import BESIDE
from benchmarks.mutants.borders import BORDERS
from benchmarks.mutants.consent import CONSENT
from benchmarks.mutants.desk import DESK
from benchmarks.mutants.gate import GATE
from benchmarks.mutants.many import MANY
from benchmarks.mutants.permissions import PERMISSIONS
from benchmarks.mutants.trial import BrokenMutant, trials

__all__ = ["MUTANTS", "mutants"]

MUTANTS = (*PERMISSIONS, *BORDERS, *GATE, *APPROVALS, *CONSENT, *DESK, *BESIDE, *MANY)


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


@click.command()
@click.option("--only", default="", help="Only the mutants whose name or file has this in it.")
@click.option("--jobs", type=click.IntRange(1), default=None, help="Copies at work at once. Default: one a core.")
def mutants(only: str, jobs: int | None) -> None:
    """Weakens the code in one place at a time, in a copy, and runs the tests that should notice.

    Fails where a mutant survives, or says nothing because its text is not in the code any more.
    """
    chosen = [mutant for mutant in MUTANTS if only in mutant.name or only in mutant.file]
    if not chosen:
        raise click.BadParameter(f"no mutant has {only!r} in its name or file", param_hint="--only")
    began = time.perf_counter()
    survivors = []
    try:
        for verdict in trials(chosen, jobs=jobs or os.cpu_count() or 1, progress=_progress):
            _progress("")
            by = f" by {verdict.killer}" if verdict.killer else ""
            click.echo(f"{verdict.fate:8} {verdict.seconds:5.1f} s  {verdict.mutant.name} ({verdict.mutant.file}){by}")
            if verdict.fate == "survived":
                survivors.append(verdict.mutant.name)
    except BrokenMutant as error:
        _progress("")
        raise click.ClickException(str(error)) from error
    click.echo(f"{len(chosen) - len(survivors)} of {len(chosen)} mutants died in {time.perf_counter() - began:.0f} s")
    if survivors:
        raise click.ClickException(f"survived: {'; '.join(survivors)}")
