"""Approvals redeemed on a real file: one at a time, and many at once, which share their commits."""

# No `from __future__ import annotations` here: what users type is measured, and so are the annotations as they type them.

import sqlite3
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import trio

import retinue as rt
from benchmarks.harness import Block, BrokenBlock, Timed, Timer

__all__ = ["AT_ONCE", "BASE", "RedeemResult", "Redeeming", "blocks"]

AT_ONCE = 32
BASE = "bare SQLite: INSERT, synchronous=FULL"


@rt.message(name="bench/Pay@1")
class Pay(rt.Request[int]):
    to: str
    amount: int


class Bank(rt.Actor):
    def __init__(self) -> None:
        self.total = 0

    @rt.handler(requires="payments.send", approval=True)
    def pay(self, message: Pay) -> int:
        self.total += message.amount
        return self.total


@attrs.define
class Redeeming:
    """Latencies that were seen on the way, in seconds, by label."""

    latencies: dict[str, list[float]] = attrs.field(factory=dict)


@attrs.frozen
class RedeemResult:
    """What was timed, and the latencies of single redemptions in seconds, by label."""

    timed: dict[str, Timed]
    latencies: dict[str, list[float]]


def _bare(count: int, latencies: list[float]) -> float:
    """What a spent-set costs at least: one row a transaction, on the disk when it returns."""
    with tempfile.TemporaryDirectory() as folder:
        database = sqlite3.connect(Path(folder) / "spent.db", isolation_level=None)
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("PRAGMA synchronous=FULL")
        database.execute("CREATE TABLE spent (jti TEXT PRIMARY KEY, at INTEGER NOT NULL) WITHOUT ROWID")
        with Timer() as timer:
            for number in range(count):
                began = time.perf_counter()
                database.execute("BEGIN IMMEDIATE")
                database.execute("INSERT INTO spent VALUES (?, ?)", (f"jti-{number}", number))
                database.execute("COMMIT")
                latencies.append(time.perf_counter() - began)
        [kept] = database.execute("SELECT count(*) FROM spent").fetchone()
        database.close()
    if kept != count:
        raise BrokenBlock(f"{kept} of {count} rows")
    return timer.seconds


async def _approved(system: rt.ActorSystem, refs: list[Any], payer: rt.SecurityContext, count: int) -> list[tuple[Any, Pay, str]]:
    """So many payments with their tokens, of which none is spent."""
    calls = []
    for number in range(count):
        ref, message = refs[number % len(refs)], Pay(f"payee {number}", 1)
        try:
            await ref.ask(message, context=payer)
        except rt.ApprovalRequired as required:
            calls.append((ref, message, required.request.id))
        else:
            raise BrokenBlock("a payment without an approval was made")
    approvals: Any = system.approvals
    return [(ref, message, await approvals.approve(request, reviewer="a person")) for ref, message, request in calls]


def _redeem(count: int, at_once: int, latencies: list[float]) -> float:
    async def main() -> float:
        with tempfile.TemporaryDirectory() as folder:
            async with rt.ActorSystem("bench", data_dir=folder) as system:
                # A turn waits for its own redemption, so as many actors as there are asks on their way.
                refs: list[Any] = [await system.spawn(Bank, name=f"bank-{number}") for number in range(at_once)]
                payer = system.authority.mint("payer", ["payments.send"])
                calls = await _approved(system, refs, payer, count)
                paid: dict[Any, int] = {}

                async def pay(mine: list[tuple[Any, Pay, str]]) -> None:
                    for ref, message, token in mine:
                        began = time.perf_counter()
                        paid[ref.path] = await ref.ask(message, context=payer, approvals=[token])
                        latencies.append(time.perf_counter() - began)

                with Timer() as timer:
                    async with trio.open_nursery() as nursery:
                        for number in range(at_once):
                            nursery.start_soon(pay, calls[number::at_once])
                if sum(paid.values()) != count:
                    raise BrokenBlock(f"{sum(paid.values())} of {count} payments were made")
                ref, message, token = calls[0]
                try:
                    await ref.ask(message, context=payer, approvals=[token])
                except (rt.Denied, rt.ApprovalRequired):
                    return timer.seconds
                raise BrokenBlock("a token was redeemed twice")

    return trio.run(main)


def blocks(seen: Redeeming) -> dict[str, Block]:
    """Label → block."""

    def block(label: str, run: Callable[[int, list[float]], float], step: int = 1) -> Block:
        latencies = seen.latencies.setdefault(label, [])
        return Block(lambda count: run(count, latencies), step=step, most=512)

    return {
        label: block(label, run, step)
        for label, run, step in (
            (BASE, _bare, 1),
            ("redeem, one at a time", lambda count, latencies: _redeem(count, 1, latencies), 1),
            (f"redeem, {AT_ONCE} at once", lambda count, latencies: _redeem(count, AT_ONCE, latencies), AT_ONCE),
        )
    }
