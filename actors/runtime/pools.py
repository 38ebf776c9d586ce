"""Pools: several workers behind one address. What a `Pool` says, and how its front and workers are made; what they do stands in `fronts` and those that derive from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypedDict, TypeVar

import attrs
import trio
from trio.lowlevel import enable_ki_protection

from retinue.actors.runtime import derivation, lifecycle
from retinue.actors.runtime.asks import StartSlot
from retinue.actors.runtime.broadcasting import Broadcast, BroadcastWorker
from retinue.actors.runtime.cell import DEAD, Cell, Spec
from retinue.actors.runtime.current import Delivery, current, make_delivery
from retinue.actors.runtime.cycles import add_wait, drop_wait
from retinue.actors.runtime.elastic import Elastic
from retinue.actors.runtime.errors import ActorStopped
from retinue.actors.runtime.fronts import Front, Place, Worker
from retinue.actors.runtime.names import cell_of, tie
from retinue.actors.runtime.pulling import Puller, WorkPulling
from retinue.actors.runtime.receptionist import ServiceKey
from retinue.actors.runtime.routing import ConsistentHash, LeastLoaded, RoundRobin, Router
from retinue.actors.runtime.view import may_address
from retinue.actors.runtime.watch import StopReason
from retinue.mailbox.queues import Mailbox
from retinue.security.errors import DefinitionError
from retinue.security.spelling import names_the_nearest

if TYPE_CHECKING:
    from retinue.actors.runtime.kernel import Kernel
    from retinue.actors.runtime.ref import Ref
    from retinue.actors.runtime.supervision import Supervision

__all__ = ["MAX_WORKERS", "GroupOptions", "Pool", "spawn_group", "spawn_pool"]

A = TypeVar("A")

MAX_WORKERS: Final = 1024
"""Workers that a pool may have."""

MAX_LEVELS: Final = 8
"""Groups and pools that may be members of one another, in a row."""

SIZE: Final = 4
"""Workers, where nobody says how many."""

ELASTIC_SIZE: Final = 64
"""Workers that an elastic pool may come to have, where nobody says how many."""

UNDO_TIMEOUT: Final = 30.0
"""Seconds that a spawn that has failed waits for the end of the workers that had started."""

Kind = Literal["round_robin", "least_loaded", "consistent_hash", "broadcast", "work_pulling", "elastic"]

_FRONTS: Final[dict[str, type[Front]]] = {
    "round_robin": RoundRobin,
    "least_loaded": LeastLoaded,
    "consistent_hash": ConsistentHash,
    "broadcast": Broadcast,
    "work_pulling": WorkPulling,
    "elastic": Elastic,
}
_WORKERS: Final[dict[str, type[Cell]]] = {"broadcast": BroadcastWorker, "work_pulling": Puller, "elastic": Puller}
_PULLING: Final = frozenset({"work_pulling", "elastic"})


@names_the_nearest
@attrs.frozen(eq=False)
class Pool:
    """A description of a pool, given to `spawn_pool` and `spawn_group`; make one with one of its methods.

    Attributes:
        kind: "round_robin", "least_loaded", "consistent_hash", "broadcast", "work_pulling" or "elastic".
        size: How many workers, 1 to 1,024; of an elastic pool how many at most. Default 4. (A group has as many as it has members.)
        key: Of a consistent-hash pool: what is read from each message.
        retries: Of a work-pulling pool: how many more workers get a message that one has failed on, or has ended with.
    """

    kind: Kind
    size: int = SIZE
    key: Callable[[Any], Any] | None = None
    retries: int = 0

    def __attrs_post_init__(self) -> None:
        if self.kind not in _FRONTS:
            raise DefinitionError(f"Pool(kind={self.kind!r}) is unknown; choose one of {', '.join(_FRONTS)}")
        for name, value, low, high in (("size", self.size, 1, MAX_WORKERS), ("retries", self.retries, 0, 1_000)):
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
                raise DefinitionError(f"Pool({name}={value!r}): give a whole number from {low:,} to {high:,}")
        if (self.kind == "consistent_hash") is not callable(self.key):
            raise DefinitionError(
                "rt.Pool.consistent_hash(size, key=…) needs a function that reads the key from a message, and no other pool has one"
            )
        if self.retries and self.kind != "work_pulling":
            raise DefinitionError("only a work-pulling pool has retries: rt.Pool.work_pulling(size, retries=…)")

    @classmethod
    def round_robin(cls, size: int = SIZE) -> Pool:
        """Each worker in turn gets a message, at the moment that it is sent. One that is being restarted, or is full, is passed over."""
        return cls("round_robin", size)

    @classmethod
    def least_loaded(cls, size: int = SIZE) -> Pool:
        """The worker with the fewest messages, waiting and in progress, gets the next one, at the moment that it is sent. It looks at each worker
        until it finds an idle one.
        """
        return cls("least_loaded", size)

    @classmethod
    def consistent_hash(cls, size: int = SIZE, *, key: Callable[[Any], Any]) -> Pool:
        """Messages with the same key go to the same place, in every process, also after its worker was replaced.

        Args:
            size: How many workers. One more or less moves only its share of the keys.
            key: Reads the key from a message: text, bytes, a whole number, None, or a tuple of these.
        """
        return cls("consistent_hash", size, key)

    @classmethod
    def broadcast(cls, size: int = SIZE) -> Pool:
        """Every worker gets a copy of each message. It can be told, not asked: there would be no one answer."""
        return cls("broadcast", size)

    @classmethod
    def work_pulling(cls, size: int = SIZE, *, retries: int = 0) -> Pool:
        """Messages wait in one mailbox, and each worker takes the next one when it is free: for work that takes its time.

        Args:
            size: How many workers.
            retries: How many more times a message is handed out after its worker failed on it, or ended with it, 0 to 1,000. Default 0: the asker gets the
                error at once. (A message may have been carried out in part, or altogether, before it is tried again.)
        """
        return cls("work_pulling", size, None, retries)

    @classmethod
    def elastic(cls, size: int = ELASTIC_SIZE) -> Pool:
        """As `work_pulling`, with one worker at first: another one is hired when a message waits and nobody is free, and stays. For bounds on how much goes on at the
        same time, which are far above what mostly goes on.

        Args:
            size: How many workers at most. Default: 64.
        """
        return cls("elastic", size)


class GroupOptions(TypedDict, Generic[A], total=False):
    """What `spawn_group` takes beside members and pool; see `retinue.ActorSystem.spawn_group`."""

    cls: type[A] | None
    name: str | None
    grant: Sequence[Any] | None


@enable_ki_protection
async def spawn_pool(
    kernel: Kernel,
    parent: Cell,
    cls: object,
    arguments: tuple[Any, ...],
    keywords: dict[str, Any],
    pool: object,
    name: str | None,
    grant: Any,
    mailbox: Mailbox | None,
    supervision: Supervision | None,
) -> Ref[Any]:
    """Makes a front with its workers, and returns once all have started. Raises what the start of one of them raises; nothing is left of them then."""
    kernel.breaths += 1
    if not kernel.breaths & 63:
        await kernel.breathe(trio.lowlevel.checkpoint)
    if not isinstance(pool, Pool):
        raise DefinitionError(
            f"pool={pool!r}: give rt.Pool.round_robin(4), .least_loaded(4), .consistent_hash(4, key=…), .broadcast(4), .work_pulling(4) or .elastic(64)"
        )
    kernel.check_room()
    turn = current()
    security = derivation.child_grant(kernel, turn, parent, grant)
    base = kernel.spec(cls, supervision, mailbox)
    pulls = pool.kind in _PULLING
    handlers = base.handlers
    if pulls:  # a worker is never busy without the scheduler, which sees to it that it looks for more
        handlers = {message: handler.by_worker() for message, handler in handlers.items()}
    front = kernel.make_cell(
        parent,
        _alike(base, _FRONTS[pool.kind], handlers, base.mailbox if pulls else _plain(base.mailbox)),
        name,
        security,
        (arguments, keywords) if arguments or keywords else None,
    )
    assert isinstance(front, Front)
    staff = _alike(base, _WORKERS.get(pool.kind, Worker), handlers, Mailbox() if pulls else base.mailbox)
    staff.notice, staff.private = base.notice, base.private
    front.furnish(staff)
    _set_up(front, pool)
    try:
        await _start_all(front, 1 if isinstance(front, Elastic) else pool.size, turn)
    except BaseException as error:
        if front.state != DEAD:
            with trio.CancelScope(deadline=trio.current_time() + UNDO_TIMEOUT, shield=True):
                watch = kernel.watch(front)
                lifecycle.request_stop(front, StopReason.START_FAILED, error, 0.0)
                await watch.wait()
        raise
    return front.ref


def _alike(base: Spec, kind: type[Cell], handlers: Any, mailbox: Mailbox) -> Spec:
    made = Spec(base.cls, handlers, base.supervision, mailbox)
    made.kind = kind
    return made


def _plain(mailbox: Mailbox) -> Mailbox:
    """How mail waits at a front that has nobody to hand it to: in the order that it came."""
    return Mailbox(mailbox.capacity, mailbox.overflow)


def _set_up(front: Front, pool: Pool) -> None:
    if isinstance(front, ConsistentHash):
        assert pool.key is not None
        front.key = pool.key
    elif isinstance(front, WorkPulling):
        front.retries = pool.retries
        if isinstance(front, Elastic):
            front.most = pool.size


async def _start_all(front: Front, size: int, turn: Any) -> None:
    """Starts the workers side by side, and waits for them one after the other."""
    kernel = front.kernel
    in_turn = turn.__class__ is Delivery
    starts: list[tuple[Place, Delivery]] = []
    for number in range(size):
        place = Place(str(number))
        cell = front.hire(place)
        front.places.append(place)
        start = make_delivery(cell, None, None, front.grant, None, turn if in_turn else None)
        start.slot = StartSlot(kernel, start)
        cell.signal(lifecycle.start, start.slot)
        starts.append((place, start))
    for place, start in starts:
        if in_turn:
            add_wait(turn, start)
        try:
            await start.slot.wait()
        finally:
            if in_turn:
                drop_wait(turn, start)
        place.since = trio.current_time()
        front.employ(place)


async def spawn_group(kernel: Kernel, parent: Cell, members: object, cls: object, pool: object, name: str | None, grant: Any) -> Ref[Any]:
    """Makes a front before actors that live already: those of the refs, or those that offer a service."""
    kernel.breaths += 1
    if not kernel.breaths & 63:
        await kernel.breathe(trio.lowlevel.checkpoint)
    if not isinstance(pool, Pool) or pool.kind in ("broadcast", *_PULLING):
        raise DefinitionError(
            "a group takes pool=rt.Pool.round_robin(), .least_loaded() or .consistent_hash(key=…). Actors that live already pull no work, so spawn_pool makes those "
            "that do; and a topic tells many"
        )
    key = members if isinstance(members, ServiceKey) else None
    cells = _cells_of(kernel, members) if key is None else []
    base = kernel.spec((key.cls if key is not None else cells[0].spec.cls) if cls is None else cls, None, None)
    for cell in cells:
        if not issubclass(cell.spec.cls, base.cls):
            raise DefinitionError(
                f"{cell.path} is a {cell.spec.cls.__qualname__}, and the members of the group are of {base.cls.__qualname__}"
            )
        if cell.closed if cell.spec.region is None else not cell.spec.region.open:
            raise ActorStopped(f"{cell.path} has stopped and cannot be in a group", path=cell.path, begun=False)
    level = 1 + max((cell.level for cell in cells if isinstance(cell, Router)), default=0)
    if level > MAX_LEVELS:
        raise DefinitionError(
            f"there would be {level} groups and pools in a row, each a member of the next, and no more than {MAX_LEVELS} are: let the group have the members themselves"
        )
    security = derivation.child_grant(kernel, current(), parent, grant)
    front = kernel.make_cell(parent, _alike(base, _FRONTS[pool.kind], base.handlers, _plain(base.mailbox)), name, security, None)
    assert isinstance(front, Front)
    front.furnish(None)
    front.lasting = key is not None
    if isinstance(front, Router):
        front.level = level
    _set_up(front, pool)
    for cell in cells:
        front.join(cell, cell.spec.region)
    if key is not None:
        Roster(front, key).begin()
    return front.ref


def _cells_of(kernel: Kernel, members: object) -> list[Cell]:
    if not isinstance(members, Iterable) or isinstance(members, str | bytes):
        raise DefinitionError(f"spawn_group takes the refs of its members, or an rt.ServiceKey, not {members!r}")
    cells = list(dict.fromkeys(cell_of(member, kernel) for member in members))
    if not cells:
        raise DefinitionError(
            "spawn_group was given no refs: a group of refs has at least one member (one of an rt.ServiceKey may wait for its first)"
        )
    return cells


def _is_group(cell: Cell) -> bool:
    """Whether it could come to be a member of itself, by way of a service."""
    return isinstance(cell, Front) and cell.staff is None


class Roster:
    """Keeps the members of a group those who are registered for a service, as far as the group may address them."""

    __slots__ = ("_front", "key")

    def __init__(self, front: Front, key: ServiceKey[Any]) -> None:
        self._front = front
        self.key = key

    def begin(self) -> None:
        """Who is there joins, and from now on whoever comes."""
        tie(self._front, self)
        for cell in self._front.kernel.receptionist.add_listener(self):
            if self._wants(cell):
                self._front.join(cell)
        self._front.rearrange()

    def came(self, cell: Cell) -> None:
        """Somebody came."""
        if self._wants(cell):
            self._front.join(cell)
            self._front.rearrange()

    def went(self, cell: Cell) -> None:
        """Somebody went; of one that ends the front hears by itself."""
        front = self._front
        if cell.closed or front.closed:
            return
        for place in front.places:
            if place.cell is cell:
                front.leave(place)
                front.rearrange()
                return

    def _wants(self, cell: Cell) -> bool:
        front = self._front
        if front.closed or cell.closed or _is_group(cell) or not issubclass(cell.spec.cls, front.spec.cls):
            return False
        return may_address(front.grant, front, cell)

    def cut(self) -> None:
        """The group ends."""
        self._front.kernel.receptionist.forget_listener(self)
