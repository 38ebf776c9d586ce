"""Tables of what was measured: for the terminal as they come, and in Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.harness import Spread, ratios, spread
from benchmarks.results import Row, facts_list, joined, marked
from benchmarks.runtime.latency import LATENCY_HOW, LATENCY_TITLE, LatencyResult
from benchmarks.runtime.measures import Target
from benchmarks.runtime.suite import OURS, IdleResult, MeasureResult

__all__ = ["idle_table", "latency_table", "markdown", "measure_table", "verdict"]


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _times(value: float) -> str:
    if value >= 100:
        return f"{value:,.0f}×"
    return f"{value:.1f}×" if value >= 10 else f"{value:.2f}×"


def _ratio(figures: Spread) -> str:
    return f"{_times(figures.median)} ({_times(figures.low)} – {_times(figures.high)})"


def verdict(target: Target, ratio: float) -> str:
    """A word on a ratio: reached, stretch reached, or not reached and by how far."""
    wanted = f"≥ {target.at_least:.3g}×"
    if target.stretch is not None:
        wanted += f", stretch ≥ {target.stretch:.3g}×"
        if ratio >= target.stretch:
            return f"{wanted}: stretch reached"
    return f"{wanted}: reached" if ratio >= target.at_least else f"{wanted}: NOT reached"


def _ours_by(label: str, result: MeasureResult) -> Spread | None:
    if label == OURS or OURS not in result.timed:
        return None
    return spread(ratios(result.timed[OURS].rates, result.timed[label].rates))


def measure_table(result: MeasureResult) -> list[Row]:
    """Header first; a row a contender: rate, ratio to ours, target."""
    targets = {target.against: target for target in result.measure.targets}
    rows: list[Row] = [("who", f"{result.measure.unit} a second (quartiles)", "retinue is faster by (quartiles)", "target")]
    for label, timed in result.timed.items():
        rate = spread(timed.rates)
        ratio = _ours_by(label, result)
        rows.append(
            (
                label + (f": {result.notes[label]}" if label in result.notes else ""),
                f"{_figure(rate.median)} ({_figure(rate.low)} – {_figure(rate.high)})",
                "" if ratio is None else _ratio(ratio),
                verdict(targets[label], ratio.median) if ratio is not None and label in targets else "",
            )
        )
    return rows


def _limit(value: float, limit: int | None, unit: str) -> list[str]:
    return [] if limit is None else [f"≤ {limit:,} {unit}: {'reached' if value <= limit else 'NOT reached'}"]


def idle_table(results: Sequence[IdleResult]) -> list[Row]:
    """Header first; a row a result."""
    rows: list[Row] = [("idle actors", "how", "bytes an actor", "whole process, MB", "target")]
    for result in results:
        idle = result.idle
        targets = _limit(result.bytes_each, idle.bytes_each, "bytes")
        targets += _limit(result.total / 1e6, None if idle.total is None else idle.total // 1_000_000, "MB")
        how = "allocated (tracemalloc)" if idle.traced else "resident"
        total = "" if idle.traced else f"{result.total / 1e6:,.0f}"
        rows.append((f"{idle.contender}, {idle.count:,}", how, _figure(result.bytes_each), total, "; ".join(targets)))
    return rows


def latency_table(result: LatencyResult) -> list[Row]:
    """Header first; a row a contender."""
    rows: list[Row] = [("who", "median, ms (quartiles)", "99th of 100, ms (quartiles)", "retinue's is lower by (quartiles)", "target")]
    for name, late in result.late.items():
        lower = result.lower.get(name)
        said = "" if lower is None else "≥ 1×: reached" if lower.median >= 1 else "≥ 1×: NOT reached"
        rows.append((name, _spread(result.median[name]), _spread(late), "" if lower is None else _ratio(lower), said))
    return rows


def _spread(figures: Spread) -> str:
    return f"{_figure(figures.median)} ({_figure(figures.low)} – {_figure(figures.high)})"


def markdown(
    facts: Mapping[str, str],
    method: str,
    measures: Sequence[MeasureResult],
    idle: Sequence[IdleResult],
    latency: LatencyResult | None = None,
) -> str:
    """This command's part of RESULTS.md."""
    parts = ["# Results", "Written by `python -m benchmarks runtime --write`. The machine and the method:", facts_list(facts), method]
    for result in measures:
        parts += [f"## {result.measure.title}", result.measure.how, marked(measure_table(result))]
    if latency is not None:
        parts += [f"## {LATENCY_TITLE}", LATENCY_HOW, marked(latency_table(latency))]
    if idle:
        parts += [
            "## Memory of idle actors",
            "Each row in a fresh process: what it grew by while they were made, by their number.",
            marked(idle_table(idle)),
        ]
    return joined(parts)
