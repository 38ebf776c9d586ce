"""Regions of virtual actors in a `BehaviorTest`: each key's actor is a stand-in. One counts as active once it was sent something."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import attrs

from retinue.actors.runtime import derivation, virtual
from retinue.actors.runtime.asking import check_timeout
from retinue.actors.runtime.cell import WAITING
from retinue.actors.runtime.ref import new_cell
from retinue.actors.runtime.virtual import CAPACITY, IDLE_TIME, Virtual
from retinue.actors.runtime.virtual_keys import check_key, segment_of
from retinue.actors.runtime.virtual_refs import VirtualRef
from retinue.actors.testing.effects import Passivated
from retinue.actors.testing.standins import RecordingKernel, StandInRef
from retinue.security.errors import DefinitionError

if TYPE_CHECKING:
    from retinue.actors.runtime.cell import Cell, Spec
    from retinue.actors.runtime.ref import Ref
    from retinue.security.context import SecurityContext

__all__ = ["RecordingRegion", "StandInRegion", "StandInVirtualRef"]


def _keys(keys: Iterable[str]) -> tuple[str, ...]:
    if isinstance(keys, str):
        raise DefinitionError(f"StandInRegion(active={keys!r}): give several keys, active=[{keys!r}]")
    return tuple(map(check_key, keys))


@attrs.frozen
class StandInRegion:
    """A region of virtual actors that a constructor is to be given: `BehaviorTest(Lobby, StandInRegion("sessions"))`. It is then `test.region("sessions")`.

    Attributes:
        name: Its name: it is `/user/NAME`.
        cls: The class of its actors, where messages that it has no handler for are to be refused. Default: they take any.
        active: Keys that have an instance already.
    """

    name: str
    cls: type[Any] | None = None
    active: tuple[str, ...] = attrs.field(default=(), converter=_keys)


class StandInVirtualRef(StandInRef, VirtualRef[Any]):  # type: ignore[misc]  # final for everybody else
    """The ref of a key whose actor is a stand-in."""

    __slots__ = ("_region",)
    _region: RecordingRegion

    @property
    def alive(self) -> bool:
        """Whether its region takes messages."""
        return self._region.alive

    @property
    def active(self) -> bool:
        """Whether it was sent something since it was last passivated or stopped."""
        return self.key in self._seats

    def used(self) -> None:
        """It was sent something."""
        self._region.touch(self.key)

    def outlives(self) -> bool:
        """It is stopped, and its ref goes on."""
        self._seats.pop(self.key, None)
        return True


class RecordingRegion(Virtual[Any]):
    """A region as an actor has it in a `BehaviorTest`: `region["alice"]` is a stand-in.

    Args:
        home: The ref of the region's own cell.
        spec: What its actors share.
        idle, capacity: As for `spawn_virtual`. Nobody is passivated for them here.
    """

    __slots__ = ("_capacity", "_home", "_idle", "_refs", "_spec", "seats")

    def __init__(self, home: Ref[Any], spec: Spec, idle: float = IDLE_TIME, capacity: int = CAPACITY) -> None:
        self._home = home
        self._spec = spec
        self._idle = float(idle)
        self._capacity = capacity
        self._refs: dict[str, StandInVirtualRef] = {}
        self.seats: OrderedDict[str, Any] = OrderedDict()

    @property
    def path(self) -> str:
        """As of any region."""
        return self._home.path

    @property
    def alive(self) -> bool:
        """False once it was stopped."""
        return not self._home._cell.closed

    @property
    def idle(self) -> float:
        """What it was made with."""
        return self._idle

    @property
    def capacity(self) -> int:
        """What it was made with."""
        return self._capacity

    def __repr__(self) -> str:
        return f"<Virtual {self.path} ({self._spec.cls.__name__}{'' if self.alive else ', stopped'})>"

    def __copy__(self) -> RecordingRegion:
        return self

    def __deepcopy__(self, _: object) -> RecordingRegion:
        return self

    def __getitem__(self, key: str) -> VirtualRef[Any]:
        """The stand-in for a key, always the same."""
        found = self._refs.get(check_key(key))
        if found is None:
            found = self._refs[key] = self._make(key)
        return found

    def touch(self, key: str) -> None:
        """A key is active, and the most recently used."""
        self.seats[key] = None
        self.seats.move_to_end(key)

    def active(self) -> tuple[str, ...]:
        """The keys that were sent something, the least recently used first."""
        return tuple(self.seats)

    async def passivate(self, key: str, *, grace: float | None = None) -> bool:
        """Notes it; whether the key was active."""
        if grace is not None:
            check_timeout(grace)
        cell = self[key]._cell
        kernel, turn = _kernel(cell), derivation.acting(cell.kernel)
        if turn is not None and turn.cell is not cell and turn.cell is not self._home._cell.parent:
            await kernel.door.admit_stop(turn, cell)
        kernel.note(Passivated(cell.ref))
        return self.alive and self.seats.pop(key, self) is None

    async def stop(self, *, grace: float | None = None) -> None:
        """Notes it; no key takes messages any more."""
        await self._home.stop(grace=grace)
        self.close()

    def close(self) -> None:
        """It has been stopped."""
        self.seats.clear()
        for ref in self._refs.values():
            ref._cell.closed = True

    def _make(self, key: str) -> StandInVirtualRef:
        home = self._home._cell
        cell = new_cell(home.kernel, home, self._spec, segment_of(key), home.grant)
        ref: StandInVirtualRef = StandInVirtualRef.__new__(StandInVirtualRef)
        ref._cell, ref._seats, ref._region, ref.key = cell, self.seats, self, key
        cell.ref = ref
        cell.state = WAITING
        cell.closed = home.closed
        return ref


def make_region(
    kernel: RecordingKernel, parent: Cell, spec: Spec, name: str | None, grant: SecurityContext, active: Iterable[str] = ()
) -> RecordingRegion:
    """A region that nobody spawned."""
    region = RecordingRegion(kernel.stand_in(parent, spec, name, grant), spec)
    for key in active:
        region.touch(key)
    return region


def check_spawn(cls: type[Any], idle: float, capacity: int, supervision: Any) -> None:
    """What the real one refuses."""
    virtual._check(cls, idle, capacity, supervision)


def _kernel(cell: Cell) -> RecordingKernel:
    kernel = cell.kernel
    assert isinstance(kernel, RecordingKernel)
    return kernel
