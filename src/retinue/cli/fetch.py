"""Fetching weights with a progress bar: what `retinue models pull` and the first `retinue demo` show."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from retinue.actors.llm.pull import Phase, pull_weights
from retinue.actors.llm.weights import Weights

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["fetch_weights"]

_WORDS: dict[Phase, str] = {
    "waiting": "waiting for another fetch to end",
    "downloading": "downloading",
    "unpacking": "unpacking",
    "checking": "checking what is there",
}


def fetch_weights(weights: Weights, folder: Path, console: Console) -> Path:
    """Fetch weights and return their path: with a bar on a terminal, with a plain line a phase elsewhere.

    Raises WeightsError where that fails; see `pull_weights`.
    """
    if console.is_terminal:
        return _with_bar(weights, folder, console)
    shown: set[Phase] = set()

    def tell(phase: Phase, _done: int, total: int) -> None:
        if phase not in shown:
            shown.add(phase)
            console.print(_line(weights, phase, total), markup=False, highlight=False, soft_wrap=True)

    return pull_weights(weights, folder, progress=tell)


def _line(weights: Weights, phase: Phase, total: int) -> str:
    size = f" ({total / 1e6:,.0f} MB)" if total else ""
    return f"{weights.title}: {_WORDS[phase]}{size}"


def _with_bar(weights: Weights, folder: Path, console: Console) -> Path:
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as bars:
        task = bars.add_task(weights.title, total=None)
        last: Phase | None = None

        def show(phase: Phase, done: int, total: int) -> None:
            nonlocal last
            if phase != last:
                bars.reset(task, total=total or None, description=f"{weights.title}: {_WORDS[phase]}")
                last = phase
            bars.update(task, completed=done)

        return pull_weights(weights, folder, progress=show)
