"""`python -m benchmarks border`."""

from __future__ import annotations

import logging
import statistics
import sys
from collections.abc import Mapping, Sequence

import click

from benchmarks import machine
from benchmarks.border.asks import SERVERS, AsksResult, measure_asks
from benchmarks.border.redeem import BASE, Redeeming, RedeemResult, blocks
from benchmarks.border.streams import ITEMS, StreamsResult, measure_streams
from benchmarks.harness import interleave, ratios, spread
from benchmarks.results import RESULTS, Row, facts_list, joined, marked, plain, put_part

__all__ = ["SHARE", "asks_table", "border", "redeem_table", "streams_table"]

SHARE = 0.60
"""Of the asks a second that bare starlette gives, with all clients, the gateway is to give so much at least."""

STEADY = 2.0
"""Seconds between two items of a steady stream."""

PARTS = ("redeem", "asks", "streams")

METHOD = """In each of {rounds} rounds every row of a table runs one block of about {seconds:g} s, in an order that rotates; ratios are formed within a round, between
neighbours in time, and medians over the rounds are given, with quartiles. Each block checks what it did: every request is answered, every answer counted, every
item comes once and in order, nothing is redeemed twice, and an error ends the run. The servers run in processes of their own; the clients, raw sockets in one other
process, do as little as they can, and share the machine's {cores} cores with them."""

REDEEM = """A payment of an actor whose handler has `approval=True` is asked for with its approval token, on a system with a data folder: the token is verified, the spent-set's
row is on the disk (WAL, `synchronous=FULL`) before the handler runs, and its outcome is noted after. Requests and approvals were made before. "32 at once" are asks of
32 actors, whose redemptions share commits. The base is Python's `sqlite3` alone, one INSERT a transaction, in the same kind of folder."""

ASKS = """POST /v1/ask over keep-alive connections, each client with one request on its way. The gateway checks the host, opens the token, reads JSON strictly, makes a typed message of it, asks
the actor under the token's context through the gate, and answers. The bare app parses the same JSON, computes the same and answers the same, without a token or a
check. "CPU" is the time that the server's process has had for an ask, by the system's account: unlike the rate it does not contain the clients."""

STREAMS = f"""Each stream is an actor of its own behind POST /v1/stream, and gives {ITEMS} items. All are open before the first item. "delay" is from the handler's `yield` to the client's
read. "steady": a stream has an item every {STEADY:g} s, one stream after the other; "burst": all give their items at once, so the delay is that of a queue."""


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def _figure(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _spread(figures: Sequence[float]) -> str:
    made = spread(figures)
    return f"{_figure(made.median)} ({_figure(made.low)} – {_figure(made.high)})"


def _share(figures: Sequence[float]) -> str:
    made = spread(figures)
    return f"{made.median:.0%} ({made.low:.0%} – {made.high:.0%})"


def redeem_table(result: RedeemResult) -> list[Row]:
    """Header first; a row a way."""
    rows: list[Row] = [("what", "a second (quartiles)", "of the base's rate (quartiles)", "latency, ms: median", "99th of 100")]
    for label, timed in result.timed.items():
        share = "" if label == BASE else _share(ratios(timed.rates, result.timed[BASE].rates))
        latencies = result.latencies[label]
        late = statistics.quantiles(latencies, n=100, method="inclusive")[98] if len(latencies) > 1 else latencies[0]
        rows.append((label, _spread(timed.rates), share, _figure(statistics.median(latencies) * 1e3), _figure(late * 1e3)))
    return rows


def verdict(share: float) -> str:
    """Whether it was reached."""
    return f"≥ {SHARE:.0%}: {'reached' if share >= SHARE else 'NOT reached'}"


def asks_table(results: Sequence[AsksResult]) -> list[Row]:
    """Header first; a row a server and number of clients. Judged with the most clients: there the server is busy all the time."""
    rows: list[Row] = [
        ("who", "clients", "asks a second (quartiles)", "of bare starlette's (quartiles)", "CPU, µs an ask (quartiles)", "target")
    ]
    most = max(result.clients for result in results)
    for result in results:
        for name, timed in result.timed.items():
            shares = [] if name == "starlette" else ratios(timed.rates, result.timed["starlette"].rates)
            target = verdict(spread(shares).median) if shares and result.clients == most else ""
            shown = _share(shares) if shares else ""
            rows.append((SERVERS[name], f"{result.clients}", _spread(timed.rates), shown, _spread(result.cpu[name]), target))
    return rows


def streams_table(results: Sequence[StreamsResult]) -> list[Row]:
    """Header first; a row a way."""
    rows: list[Row] = [
        (
            "what",
            "opened, ms a stream",
            "memory, KB a stream",
            "items",
            "items a second",
            "delay, ms: median",
            "99th of 100",
            "CPU, µs an item",
        )
    ]
    rows += [
        (
            f"{result.name}, {result.streams:,} streams",
            _figure(result.open_ms),
            _figure(result.bytes_each / 1e3),
            f"{result.items:,}",
            _figure(result.items_a_second),
            *(_figure(delay) for delay in result.delays_ms),
            _figure(result.cpu_micros),
        )
        for result in results
    ]
    return rows


def _split(_: click.Context, __: click.Parameter, value: str) -> list[str]:
    names = [name.strip() for name in value.split(",") if name.strip()]
    for name in names:
        if name not in PARTS:
            raise click.BadParameter(f"{name!r} is none of {', '.join(PARTS)}")
    return names or list(PARTS)


def _redeem(rounds: int, seconds: float) -> RedeemResult:
    seen = Redeeming()
    timed = interleave(blocks(seen), rounds=rounds, seconds=seconds, progress=lambda label: _progress(f"redeem: {label}"))
    return RedeemResult(timed, seen.latencies)


@click.command()
@click.option("--quick", is_flag=True, help="A first look: 1 short round, 20 streams. Not to be quoted.")
@click.option("--only", default="", callback=_split, help=f"Only these, by comma: {', '.join(PARTS)}.")
@click.option("--rounds", type=click.IntRange(1), default=None, help="Rounds. Default 15 (quick: 1).")
@click.option("--seconds", type=click.FloatRange(0.001), default=None, help="About how long a block lasts. Default 0.5 (quick: 0.02).")
@click.option("--streams", type=click.IntRange(2), default=None, help="How many streams at once. Default 1,000 (quick: 20).")
@click.option("--write", is_flag=True, help="Write this command's part of benchmarks/RESULTS.md.")
def border(quick: bool, only: list[str], rounds: int | None, seconds: float | None, streams: int | None, write: bool) -> None:
    """What the border costs: approvals redeemed, asks through the gateway beside bare starlette, many streams."""
    if write and (quick or len(only) < len(PARTS)):
        raise click.UsageError("--write is for a whole run: results of --quick or --only are not to be quoted")
    logging.getLogger("retinue").addHandler(logging.NullHandler())
    logging.getLogger("retinue").propagate = False
    rounds = rounds or (1 if quick else 15)
    seconds = seconds or (0.02 if quick else 0.5)
    streams = streams or (20 if quick else 1000)
    facts = machine.describe(["retinue", "trio", "starlette", "hypercorn", "h11", "cryptography"])
    for name, fact in facts.items():
        click.echo(f"{name}: {fact}")
    tables: dict[str, tuple[str, list[Row]]] = {}

    def show(title: str, how: str, rows: list[Row]) -> None:
        _progress("")
        tables[title] = how, rows
        click.echo(f"\n{title}\n{plain(rows)}")

    if "redeem" in only:
        show("approvals redeemed", REDEEM, redeem_table(_redeem(rounds, seconds)))
    if "asks" in only:
        show("asks through the gateway", ASKS, asks_table(measure_asks(rounds=rounds, seconds=seconds, progress=_progress)))
    if "streams" in only:
        ways = (("steady", 0.1 if quick else STEADY), ("burst", 0.0))
        results = [measure_streams(name, streams=streams, every=every, progress=_progress) for name, every in ways]
        show("streams at once", STREAMS, streams_table(results))
    if write:
        put_part(_part(facts, METHOD.format(rounds=rounds, seconds=seconds, cores=machine.cores()), tables))
        click.echo(f"\nwritten: {RESULTS.name}")


def _part(facts: Mapping[str, str], method: str, tables: Mapping[str, tuple[str, list[Row]]]) -> str:
    parts = ["# Border", "Written by `python -m benchmarks border --write`. The machine and the method:", facts_list(facts), method]
    for title, (how, rows) in tables.items():
        parts += [f"## {title}", how, marked(rows)]
    return joined(parts)
