"""For tests of approvals: a bank whose payments wait for a person, and the ways to ask it, decide, and look at what was done."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import retinue as rt
from retinue.security.audit import AuditLog


@rt.message(name="approvals-test/Pay@1")
class Pay(rt.Request[str]):
    """A payment, which needs a person's consent."""

    to: str
    amount: int


@rt.message(name="approvals-test/Odd@1")
class Odd(rt.Request[str]):
    """A message with a field of any type."""

    value: Any = None


class Bank(rt.Actor):
    """Notes each effect in the given list, or as a line of the given file."""

    def __init__(self, effects: list[Any]) -> None:
        self.effects = effects

    @rt.handler(requires="payments.send", approval=True)
    async def pay(self, message: Pay) -> str:
        approval = self.ctx.approval
        self.effects.append((message.to, message.amount, None if approval is None else approval.jti))
        return f"paid {message.amount} to {message.to}"

    @rt.handler(requires="payments.odd", approval=True)
    async def odd(self, message: Odd) -> str:
        self.effects.append(message.value)
        return "done"


def system_on(folder: Path | None = None, **options: Any) -> rt.ActorSystem:
    """A system whose approvals are in the folder, and whose audit is its own: several such may share the folder."""
    return rt.ActorSystem("bank", data_dir=folder, audit=AuditLog(), block_warning=float("inf"), **options)


def alice_of(system: rt.ActorSystem, **options: Any) -> rt.SecurityContext:
    """A context that permits payments, of alice."""
    return system.authority.mint(**{"subject": "alice", "permissions": ["payments.**"], **options})


async def outcome(asking: Any) -> Any:
    """The error that asking raises, else the answer."""
    try:
        return await asking
    except rt.RetinueError as error:
        return error


async def request_for(bank: rt.Ref[Any], message: Any, context: rt.SecurityContext, **options: Any) -> rt.ApprovalRequest:
    """Asks, and gives the request for a person's consent that comes of it."""
    found = await outcome(bank.ask(message, context=context, **options))
    assert isinstance(found, rt.ApprovalRequired), found
    return found.request


def move_clock(system: rt.ActorSystem, seconds: float) -> None:
    """Sets the authority's clock `seconds` from the real one. It may go back, as no real one of a process does."""
    clock = system.authority._clock
    clock._latest = 0
    clock._clock = lambda: time.time_ns() // 1_000_000 + round(seconds * 1_000)
