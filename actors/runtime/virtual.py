"""Virtual actors, as in Orleans: one addresses them by a key, and they are there when they are needed. `Virtual` is the public face of a region of them."""

from __future__ import annotations

import copy
import inspect
from typing import TYPE_CHECKING, Any, Final, Generic, NoReturn, TypeVar

from trio.lowlevel import checkpoint

from retinue.actors.runtime import derivation, lifecycle
from retinue.actors.runtime.actor import Actor, check_arguments, ready_class
from retinue.actors.runtime.asking import check_timeout
from retinue.actors.runtime.cell import DEAD, IDLE, Spec
from retinue.actors.runtime.current import current
from retinue.actors.runtime.supervision import Supervision
from retinue.actors.runtime.virtual_refs import VirtualRef
from retinue.actors.runtime.virtual_regions import Home, Region
from retinue.actors.runtime.watch import StopReason
from retinue.mailbox.queues import Mailbox
from retinue.security.errors import DefinitionError

if TYPE_CHECKING:
    from retinue.actors.runtime.cell import Cell
    from retinue.actors.runtime.kernel import Kernel
    from retinue.actors.runtime.ref import Ref

__all__ = ["CAPACITY", "IDLE_TIME", "MAX_CAPACITY", "Virtual", "address_in", "spawn_virtual"]

A = TypeVar("A", bound="Actor")
A_co = TypeVar("A_co", covariant=True)

IDLE_TIME: Final = 900.0
"""Seconds without use after which an instance is passivated: 15 minutes."""

CAPACITY: Final = 10_000
"""Instances that a region has at the same time, at most, unless it is told otherwise."""

MAX_CAPACITY: Final = 1_000_000

_TAKEN: Final = ("idle", "capacity")


class Virtual(Generic[A_co]):
    """The virtual actors of one kind: `sessions = await system.spawn_virtual(Session, name="sessions")`, and `sessions["alice"]` is the ref of one of them.

    It may be given to other actors, in messages too. Whoever has it can address every key, and nothing more than by a ref is permitted by that.
    """

    __slots__ = ("_region",)
    _region: Region
    __immutable__ = True

    def __init__(self, *_: object) -> None:
        raise DefinitionError("virtual actors are made by `await system.spawn_virtual(…)`, or self.ctx.spawn_virtual, never by hand")

    @property
    def path(self) -> str:
        """The region's address: `/user/sessions`; that of the key "alice" is `/user/sessions/alice`."""
        return self._region.cell.path

    @property
    def alive(self) -> bool:
        """Whether messages are taken: True until `stop`, the end of the actor that spawned it, or that of the system."""
        return self._region.open

    @property
    def idle(self) -> float:
        """Seconds without use after which an instance is passivated."""
        return self._region.seats.idle

    @property
    def capacity(self) -> int:
        """Instances that there may be at the same time."""
        return self._region.seats.capacity

    def __repr__(self) -> str:
        region = self._region
        return f"<Virtual {self.path} ({region.spec.cls.__name__}{'' if region.open else ', stopped'})>"

    def __copy__(self) -> Virtual[A_co]:
        return self

    def __deepcopy__(self, _: object) -> Virtual[A_co]:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{self!r} belongs to a running system and cannot be pickled; send its path")

    def __getitem__(self, key: str) -> VirtualRef[A_co]:
        """The ref of a key's actor; from any thread. It makes no instance: the first message does.

        Args:
            key: A str of 1 to 512 characters, whichever they are.

        Raises:
            DefinitionError: It is no such key.
        """
        region = self._region
        seat = region.seats.by_key.get(key) if key.__class__ is str else None
        return region.ref(key) if seat is None else seat.cell.ref  # type: ignore[return-value]

    def __iter__(self) -> NoReturn:
        raise TypeError(f"the keys of {self!r} have no end; active() gives those that have an instance")

    def ref(self, key: str) -> VirtualRef[A_co]:
        """As `sessions[key]`."""
        return self[key]

    def active(self) -> tuple[str, ...]:
        """The keys that have an instance at this moment, the least recently used first. Those whose instance begins or ends are among them."""
        return tuple(self._region.seats.by_key)

    async def passivate(self, key: str, *, grace: float | None = None) -> bool:
        """Ends the instance of a key, if there is one, after the message in progress, and waits until it has ended. What waits then is for a new instance.

        Args:
            key: The key.
            grace: Seconds that the message in progress may take before it is cancelled; default: the system's (5 s).

        Returns:
            Whether there was an instance. (Called by the instance itself, it returns at once, and the end comes after the current message.)

        Raises:
            Denied: The caller is neither the instance itself, nor who spawned the region, nor the system's holder, and its context does not permit `actor.stop`.
        """
        region, kernel = self._region, self._region.kernel
        if grace is not None:
            check_timeout(grace)
        ref = self[key]
        kernel.check_thread("passivate", ref)
        turn = derivation.acting(kernel)
        own = turn is not None and turn.cell is ref._cell
        if turn is not None and not own and turn.cell is not region.cell.parent:
            await kernel.door.admit_stop(turn, ref._cell)
        cell = ref._cell
        if cell.state == DEAD or not region.open:
            return False
        watch = kernel.watch(cell)
        lifecycle.request_stop(cell, StopReason.PASSIVATED, None, grace)
        if not own:
            await watch.wait()
        return True

    async def stop(self, *, grace: float | None = None) -> None:
        """Stops all instances and the region with them, and waits until they have ended. Its keys take no messages any more: senders get `ActorStopped`.

        Args:
            grace: As for `Ref.stop`.

        Raises:
            Denied: As `Ref.stop`.
        """
        await self._region.cell.ref.stop(grace=grace)


async def spawn_virtual(
    kernel: Kernel,
    parent: Cell,
    cls: type[Any],
    birth: tuple[tuple[Any, ...], dict[str, Any]],
    *,
    name: str | None,
    idle: float,
    capacity: int,
    grant: Any,
    mailbox: Mailbox | None,
    supervision: Supervision | None,
) -> Virtual[Any]:
    """Makes a region under a parent; see `ActorSystem.spawn_virtual`."""
    kernel.breaths += 1
    if not kernel.breaths & 63:
        await kernel.breathe(checkpoint)
    check_arguments(_check(cls, idle, capacity, supervision), *birth)
    security = derivation.child_grant(kernel, current(), parent, grant, 2)
    spec = copy.copy(kernel.spec(cls, supervision, mailbox))
    # Without a name the region is called after the class: /user/Session-7.
    home = type(cls.__name__, (Home,), {"__slots__": ()}) if name is None else Home
    cell = kernel.make_cell(parent, Spec(home, {}, Supervision(), Mailbox()), name, security, None)
    lifecycle.build(cell)
    region = spec.region = cell.actor.region = Region(cell, spec, birth if birth[0] or birth[1] else None, float(idle), capacity)  # type: ignore[union-attr]
    cell.state = IDLE
    if cell.control is not None or cell.head is not None:
        cell.settle()
    virtual: Virtual[Any] = Virtual.__new__(Virtual)
    virtual._region = region
    return virtual


def address_in(parent: Cell | None, segment: str) -> Ref[Any] | None:
    """The ref that the last part of a path stands for under a region's cell, whether or not there is an instance; None under any other."""
    home = parent.actor if parent is not None else None
    return home.region.at(segment) if isinstance(home, Home) else None


def _check(cls: object, idle: object, capacity: object, supervision: object) -> type[Actor]:
    actor = ready_class(cls)
    if isinstance(idle, bool) or not isinstance(idle, (int, float)) or not idle > 0:
        raise DefinitionError(f"idle={idle!r}: give seconds, more than 0, or math.inf for actors that stay until the end")
    if isinstance(capacity, bool) or not isinstance(capacity, int) or not 1 <= capacity <= MAX_CAPACITY:
        raise DefinitionError(f"capacity={capacity!r}: give how many actors may be active at the same time, from 1 to {MAX_CAPACITY:,}")
    if isinstance(supervision, Supervision) and supervision.strategy != "one_for_one":
        raise DefinitionError(f'supervision={supervision!r}: virtual actors have nothing to do with each other; use strategy="one_for_one"')
    try:
        taken = [name for name in inspect.signature(actor.__init__).parameters if name in _TAKEN]
    except ValueError:  # a constructor without a signature
        taken = []
    if taken:
        raise DefinitionError(
            f"{actor.__qualname__}.__init__ takes {', '.join(taken)}, which spawn_virtual keeps for itself; give the parameter another name"
        )
    return actor
