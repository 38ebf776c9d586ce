"""A process that asks a bank whose approvals are in a folder, to be killed at a given point. Run: python approval_process.py FOLDER EFFECTS COMMAND …

    ask AMOUNT [POINT]             asks without a token; prints the request's id
    approve ID [POINT]             approves as bob; prints the token
    redeem AMOUNT TOKEN [POINT]    asks with a token; prints the answer or the error's reason
    race AMOUNT TOKEN COUNT        two systems on the folder, COUNT asks with the token in each, at once; prints how many were done

Effects are lines appended to the file EFFECTS, on the disk before the handler goes on.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import trio

import retinue as rt
from approval_bank import Pay, alice_of, outcome, system_on
from retinue.actors.approvals.office import Office
from retinue.actors.approvals.works_asking import Ask, Decide
from retinue.actors.approvals.works_spending import NoteOutcome, Spend

WORKS = {"request": Ask, "approve": Decide, "spend": Spend, "outcome": NoteOutcome}
"""A point is "before", "in" or "after" one of these (in: done, not committed), or "before effect" or "after effect"."""

TAKES = {"ask": 1, "approve": 1, "redeem": 2, "race": 3}
"""How many arguments a command has before the point."""

point = ""


def reached(here: str) -> None:
    """Dies here, as by a power cut to this process, where it is the point."""
    if here == point:
        os.kill(os.getpid(), signal.SIGKILL)


class FileBank(rt.Actor):
    """Writes its effects to a file."""

    def __init__(self, effects: Path) -> None:
        self.effects = effects

    @rt.handler(requires="payments.send", approval=True)
    async def pay(self, message: Pay) -> str:
        reached("before effect")
        with self.effects.open("a", encoding="utf-8") as file:
            file.write(f"{message.to} {message.amount}\n")
            file.flush()
            os.fsync(file.fileno())
        reached("after effect")
        return "paid"


def arm() -> None:
    """Sets the traps. The store runs a work in its thread and answers when it is committed; both is left as it is."""
    for name, work in WORKS.items():
        run = work.run

        def trapped(self: Any, database: Any, run: Any = run, name: str = name) -> Any:
            reached(f"before {name}")
            found = run(self, database)
            reached(f"in {name}")
            return found

        work.run = trapped  # type: ignore[method-assign]
    for method, name in (("spend", "spend"), ("note_outcome", "outcome"), ("_request", "request")):
        real = getattr(Office, method)

        async def after(self: Any, *arguments: Any, real: Any = real, name: str = name) -> Any:
            found = await real(self, *arguments)
            reached(f"after {name}")
            return found

        setattr(Office, method, after)


async def main(folder: Path, effects: Path, command: str, *arguments: str) -> None:
    """Does one command."""
    global point  # noqa: PLW0603 - of this process
    point = "".join(arguments[TAKES[command] :])
    if command == "race":
        await race(folder, effects, int(arguments[0]), arguments[1], int(arguments[2]))
        return
    async with system_on(folder) as system:
        bank = await system.spawn(FileBank, effects, name="bank")
        if command == "approve":
            token = await system.approvals.approve(arguments[0], reviewer="bob")
            reached("after approve")
            print(token, flush=True)
            return
        tokens = [] if command == "ask" else [arguments[1]]
        found = await outcome(bank.ask(Pay("ACME", int(arguments[0])), context=alice_of(system), approvals=tokens))
        if isinstance(found, rt.ApprovalRequired):
            print(found.request.id, flush=True)
        else:
            print(found if isinstance(found, str) else getattr(found, "reason", type(found).__name__), flush=True)


async def race(folder: Path, effects: Path, amount: int, token: str, count: int) -> None:
    """Says "ready", and goes when a line comes in."""
    done: list[Any] = []

    async def ask(bank: rt.Ref[Any], context: rt.SecurityContext) -> None:
        done.append(await outcome(bank.ask(Pay("ACME", amount), context=context, approvals=[token])))

    async with system_on(folder) as first, system_on(folder) as second:
        banks = [(system, await system.spawn(FileBank, effects, name="bank")) for system in (first, second)]
        for system, _ in banks:
            await system.approvals.pending()
        print("ready", flush=True)
        await trio.to_thread.run_sync(sys.stdin.readline)
        async with trio.open_nursery() as nursery:
            for system, bank in banks:
                context = alice_of(system)
                for _ in range(count):
                    nursery.start_soon(ask, bank, context)
    print(done.count("paid"), sum(isinstance(one, rt.Denied) and one.reason == "spent" for one in done), len(done), flush=True)


if __name__ == "__main__":
    arm()
    trio.run(main, Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:])
