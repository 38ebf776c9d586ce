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
    from retinue.actors.testing.checks import assert_conserved, assert_no_dead_letters, assert_quiet, wait_idle
    from retinue.actors.testing.clock import VirtualClock
    from retinue.actors.testing.errors import Killed
    from retinue.actors.testing.faults import FaultRule, Faults, InjectedFault
    from retinue.actors.testing.probe import Probe, Received
    from retinue.actors.testing.scheduling import deterministic

__all__ = [
    "FaultRule",
    "Faults",
    "InjectedFault",
    "Killed",
    "Probe",
    "Received",
    "VirtualClock",
    "assert_conserved",
    "assert_no_dead_letters",
    "assert_quiet",
    "deterministic",
    "wait_idle",
]

_HOMES = {
    "FaultRule": "retinue.actors.testing.faults",
    "Faults": "retinue.actors.testing.faults",
    "InjectedFault": "retinue.actors.testing.faults",
    "Killed": "retinue.actors.testing.errors",
    "Probe": "retinue.actors.testing.probe",
    "Received": "retinue.actors.testing.probe",
    "VirtualClock": "retinue.actors.testing.clock",
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
