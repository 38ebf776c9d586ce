"""The testing kit: a clock that waits for threads, a probe, checks of the books, seeded order, faults, and actors tested without a loop.

    import retinue.testing as rtt

    async def test_the_till(actor_system):
        till = await actor_system.spawn(Till)
        probe = await rtt.Probe.spawn(actor_system)
        till.tell(Subscribe(probe.ref))
        assert (await probe.expect(Opened)).till == till

The fixtures `actor_system` and `virtual_clock` come with the package: pytest finds them by itself. The names are loaded when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from retinue.actors.testing.behavior import BehaviorTest
    from retinue.actors.testing.checks import assert_conserved, assert_no_dead_letters, assert_quiet, wait_idle
    from retinue.actors.testing.clock import VirtualClock
    from retinue.actors.testing.effects import (
        Asked,
        Deferred,
        Effect,
        Failed,
        Forwarded,
        Passivated,
        Published,
        Registered,
        Replied,
        Spawned,
        Started,
        Stashed,
        Stopped,
        Subscribed,
        TimerCancelled,
        TimerSet,
        Told,
        Unregistered,
        Unstashed,
        Unsubscribed,
        Watched,
    )
    from retinue.actors.testing.errors import Killed, NeedsLoop
    from retinue.actors.testing.faults import FaultRule, Faults, InjectedFault
    from retinue.actors.testing.probe import Probe, Received
    from retinue.actors.testing.scheduling import deterministic
    from retinue.actors.testing.standin_regions import StandInRegion
    from retinue.actors.testing.standins import StandIn

__all__ = [
    "Asked",
    "BehaviorTest",
    "Deferred",
    "Effect",
    "Failed",
    "FaultRule",
    "Faults",
    "Forwarded",
    "InjectedFault",
    "Killed",
    "NeedsLoop",
    "Passivated",
    "Probe",
    "Published",
    "Received",
    "Registered",
    "Replied",
    "Spawned",
    "StandIn",
    "StandInRegion",
    "Started",
    "Stashed",
    "Stopped",
    "Subscribed",
    "TimerCancelled",
    "TimerSet",
    "Told",
    "Unregistered",
    "Unstashed",
    "Unsubscribed",
    "VirtualClock",
    "Watched",
    "assert_conserved",
    "assert_no_dead_letters",
    "assert_quiet",
    "deterministic",
    "wait_idle",
]

_HOMES = {
    "Asked": "retinue.actors.testing.effects",
    "BehaviorTest": "retinue.actors.testing.behavior",
    "Deferred": "retinue.actors.testing.effects",
    "Effect": "retinue.actors.testing.effects",
    "Failed": "retinue.actors.testing.effects",
    "FaultRule": "retinue.actors.testing.faults",
    "Faults": "retinue.actors.testing.faults",
    "Forwarded": "retinue.actors.testing.effects",
    "InjectedFault": "retinue.actors.testing.faults",
    "Killed": "retinue.actors.testing.errors",
    "NeedsLoop": "retinue.actors.testing.errors",
    "Passivated": "retinue.actors.testing.effects",
    "Probe": "retinue.actors.testing.probe",
    "Published": "retinue.actors.testing.effects",
    "Received": "retinue.actors.testing.probe",
    "Registered": "retinue.actors.testing.effects",
    "Replied": "retinue.actors.testing.effects",
    "Spawned": "retinue.actors.testing.effects",
    "StandIn": "retinue.actors.testing.standins",
    "StandInRegion": "retinue.actors.testing.standin_regions",
    "Started": "retinue.actors.testing.effects",
    "Stashed": "retinue.actors.testing.effects",
    "Stopped": "retinue.actors.testing.effects",
    "Subscribed": "retinue.actors.testing.effects",
    "TimerCancelled": "retinue.actors.testing.effects",
    "TimerSet": "retinue.actors.testing.effects",
    "Told": "retinue.actors.testing.effects",
    "Unregistered": "retinue.actors.testing.effects",
    "Unstashed": "retinue.actors.testing.effects",
    "Unsubscribed": "retinue.actors.testing.effects",
    "VirtualClock": "retinue.actors.testing.clock",
    "Watched": "retinue.actors.testing.effects",
    "assert_conserved": "retinue.actors.testing.checks",
    "assert_no_dead_letters": "retinue.actors.testing.checks",
    "assert_quiet": "retinue.actors.testing.checks",
    "deterministic": "retinue.actors.testing.scheduling",
    "wait_idle": "retinue.actors.testing.checks",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
