"""The bare gate, contexts, and a thousand of them against a thousand operations."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from typing import Any

import attrs

import retinue as rt
from benchmarks.harness import Block, BrokenBlock, Timer
from benchmarks.machine import resident_bytes
from retinue.capabilities.gate import Gate
from retinue.capabilities.policy import Verdict
from retinue.security.authority import Authority

__all__ = ["Square", "contexts", "gate", "repeated", "square"]


@rt.message
class Read(rt.Request[str]):
    path: str
    amount: int = 1


def repeated(action: Callable[[], object], expected: object = None) -> Block:
    """A block of one action again and again. Where something is expected, the action must give it, or its like."""

    def run(count: int) -> float:
        numbers = range(count)
        with Timer() as timer:
            for _ in numbers:
                action()
        if expected is not None and action() != expected:
            raise BrokenBlock(f"{action()!r}, not {expected!r}")
        return timer.seconds

    return Block(run)


class Nod:
    """A policy that has no objection."""

    name = "nod"
    operations = ("fs.**",)

    def decide(self, call: Any) -> Any:
        return Verdict.allow() if call.arguments["amount"] else Verdict.refuse("nothing to read")


def gate() -> dict[str, Block]:
    """`permits` and `admit`."""
    authority = Authority()
    door, asking = Gate(authority), Gate(authority, policies=[Nod()])
    plain = authority.mint("bench", ["fs.*"])
    inside = plain.narrow(rt.where("fs.read", path=rt.within("reports/")))
    message, arguments = Read("reports/2026/q3.txt"), {"path": "reports/2026/q3.txt", "amount": 1}

    def admit(through: Gate, context: rt.SecurityContext) -> Callable[[], object]:
        return lambda: through.admit(context, None, "fs.read", message, path="/user/files", message_type=Read).message

    return {
        "permits, by name": repeated(lambda: plain.permissions.permits("fs.read"), True),
        "permits, not permitted": repeated(lambda: plain.permissions.permits("net.get"), False),
        "permits, path constraint": repeated(lambda: inside.allows("fs.read", arguments), True),
        "admit, by name": repeated(admit(door, plain), message),
        "admit, path constraint": repeated(admit(door, inside), message),
        "admit, with a deadline": repeated(admit(door, plain.narrow(rt.expires(seconds=86_400))), message),
        "admit, a call of a budget": repeated(admit(door, plain.narrow(rt.limit(calls=10**12))), message),
        "admit, one sync policy": repeated(admit(asking, plain), message),
    }


def contexts() -> dict[str, Block]:
    """Narrowing, meeting, minting."""
    authority = Authority()
    context = authority.mint("bench", ["fs.*", "net.*"])
    grant = authority.root.narrow(rt.allow("fs.**"))
    return {
        "mint": repeated(lambda: authority.mint("bench", ["fs.*", "net.*"])),
        'narrow(allow("fs.read"))': repeated(lambda: context.narrow(rt.allow("fs.read"))),
        "narrow(expires(seconds=60))": repeated(lambda: context.narrow(rt.expires(seconds=60))),
        "narrow with a path constraint": repeated(lambda: context.narrow(rt.where("fs.read", path=rt.within("reports/")))),
        "met with a grant, again": repeated(lambda: context._meet(grant), context._meet(grant)),
    }


@attrs.frozen
class Square:
    """Contexts × operations: microseconds a decision, the first time and when all were asked before.

    Attributes:
        contexts: How many, no two with equal layers.
        operations: How many.
        cold: The first time.
        warm: Afterwards, the median of three passes.
        permitted: The share that is permitted.
        kept: The share of decisions that is still remembered at the end, so that asking again would be a hit.
        bytes_each: What the process grew by, by the number of decisions.
    """

    contexts: int
    operations: int
    cold: float
    warm: float
    permitted: float
    kept: float
    bytes_each: float


def square(size: int = 1000) -> Square:
    """Each context decides on each operation, in a random order, four times over."""
    authority = Authority()
    made = [authority.mint(f"u{number}", [f"service{number}.*", f"area{number % 10}.**", "shared.*"]) for number in range(size)]
    operations = [f"area{number % 20}.part{number}.read" for number in range(size)]
    pairs = [(context.permissions, operation) for context in made for operation in operations]
    random.Random(0).shuffle(pairs)
    before = resident_bytes()
    passes = []
    for _ in range(4):
        began = time.perf_counter()
        permitted = sum([permissions.permits(operation) for permissions, operation in pairs])
        passes.append((time.perf_counter() - began) / len(pairs) * 1e6)
    expected = sum(number % 10 == other % 20 for number in range(size) for other in range(size))
    if permitted != expected:
        raise BrokenBlock(f"{permitted} of {len(pairs)} were permitted, not {expected}")
    grown = (resident_bytes() - before) / len(pairs)
    kept = sum(operation in context.permissions._decisions for context in made for operation in operations)
    return Square(size, size, passes[0], statistics.median(passes[1:]), permitted / len(pairs), kept / len(pairs), grown)
