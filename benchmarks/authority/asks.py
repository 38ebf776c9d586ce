"""Asks with the gate off, and with ever more to decide. Each block makes a system of its own, and the actor must have counted what was asked."""

# No `from __future__ import annotations` here: what users type is measured, and so are the annotations as they type them.

from collections.abc import Callable
from typing import Any

import trio

import retinue as rt
from benchmarks.harness import Block, BrokenBlock, Timer
from retinue.capabilities.policy import Verdict

__all__ = ["inline", "queued"]


@rt.message
class Read(rt.Request[int]):
    path: str
    amount: int
    mode: str = "text"


class Open(rt.Actor):
    """Asks nobody."""

    def __init__(self) -> None:
        self.total = 0

    @rt.handler
    def read(self, message: Read) -> int:
        self.total += message.amount
        return self.total


class Gated(rt.Actor):
    """Requires an operation."""

    def __init__(self) -> None:
        self.total = 0

    @rt.handler(requires="bench.read")
    def read(self, message: Read) -> int:
        self.total += message.amount
        return self.total


class Risky(rt.Actor):
    """Requires an operation whose every use is recorded."""

    def __init__(self) -> None:
        self.total = 0

    @rt.handler(requires="bench.read", risk="L2")
    def read(self, message: Read) -> int:
        self.total += message.amount
        return self.total


class Nod:
    """A policy that has no objection."""

    name = "nod"
    operations = ("bench.**",)

    def decide(self, call: Any) -> Any:
        return Verdict.allow() if call.arguments["amount"] else Verdict.refuse("nothing to read")


def _path() -> Any:
    return rt.where("bench.read", path=rt.within("reports/"))


def _more() -> Any:
    return rt.where("bench.read", amount=rt.at_most(100), mode=rt.one_of("text", "binary"))


def _run(actor: type[rt.Actor], count: int, *, detached: bool, **options: Any) -> float:
    async def main() -> float:
        async with rt.ActorSystem("bench", **options) as system:
            ref: Any = await system.spawn(actor)
            total = await ref.ask(Read("reports/q3.txt", 1), detached=detached)
            with Timer() as timer:
                for _ in range(count):
                    total = await ref.ask(Read("reports/q3.txt", 1), detached=detached)
            if total != count + 1:
                raise BrokenBlock(f"{actor.__name__} was asked {total} of {count + 1} times")
            return timer.seconds

    return trio.run(main)


def _blocks(*, detached: bool) -> dict[str, Block]:
    names = ["bench.**"]

    def block(actor: type[rt.Actor], options: Callable[[], dict[str, Any]]) -> Block:
        return Block(lambda count: _run(actor, count, detached=detached, **options()))

    return {
        "no gate": block(Open, lambda: {"permissions": names}),
        "static permission": block(Gated, lambda: {"permissions": names}),
        "path constraint": block(Gated, lambda: {"permissions": [*names, _path()]}),
        "two more constraints": block(Gated, lambda: {"permissions": [*names, _path(), _more()]}),
        "one sync policy": block(Gated, lambda: {"permissions": names, "policies": [Nod()]}),
        "audited": block(Risky, lambda: {"permissions": names}),
    }


def inline() -> dict[str, Block]:
    """In the asker's own task."""
    return _blocks(detached=False)


def queued() -> dict[str, Block]:
    """Through mailbox, ready queue and worker."""
    return _blocks(detached=True)
