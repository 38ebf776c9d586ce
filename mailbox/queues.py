"""Mailboxes: how much mail an actor may have waiting, in which order it is taken, and what happens when there is no room.

A `Mailbox` is a description, given at spawn. Plain bounded and unbounded ones need no object of their own (the runtime keeps the first message in the
actor's cell and the rest in a deque); priority and conflating ones bring a queue made by `Mailbox.make_queue`.
"""

from __future__ import annotations

import heapq
import logging
import math
from collections.abc import Callable, Hashable
from typing import Any, Generic, Literal, Protocol, TypeVar, get_args

import attrs

from retinue.security.errors import DefinitionError
from retinue.security.spelling import names_the_nearest

__all__ = ["DEFAULT_CAPACITY", "ConflatingQueue", "Mailbox", "Overflow", "PriorityQueue", "Queue"]

DEFAULT_CAPACITY = 1024
"""Messages that may wait in an actor's mailbox unless its spawn says otherwise."""

Overflow = Literal["reject", "drop_oldest", "drop_newest", "wait"]
Q = TypeVar("Q")

_log = logging.getLogger("retinue.mailbox")


class Queue(Protocol[Q]):
    """What the runtime needs of a mailbox that is not a plain first-in, first-out one."""

    def push(self, item: Q, message: Any, *, alone: bool = False) -> Q | None:
        """Takes an item in; returns the item that it replaced (a conflating queue), if any. `alone`: it replaces nothing and is never replaced."""
        ...

    def pop(self) -> Q:
        """The next item. Raises IndexError when empty."""
        ...

    def replaces(self, message: Any) -> bool:
        """Whether pushing the message would replace one that waits, and so take no room."""
        ...

    def remove(self, unwanted: Callable[[Q], bool]) -> None:
        """Takes out all items that are unwanted."""
        ...

    def __len__(self) -> int: ...

    def items(self) -> list[Q]:
        """All items, in the order they would be taken."""
        ...


class _Entry(Generic[Q]):
    """An item of a priority queue. Only placing it may raise; later on, keys that cannot be compared count as equal."""

    __slots__ = ("item", "key", "number", "queue")

    def __init__(self, key: Any, number: int, item: Q, queue: PriorityQueue[Q]) -> None:
        self.key = key
        self.number = number
        self.item = item
        self.queue = queue

    def __lt__(self, other: _Entry[Q]) -> bool:
        try:
            return self.number < other.number if self.key == other.key else bool(self.key < other.key)
        except BaseException as error:
            if self.queue.placing is self:
                raise
            self.queue.puzzled(error)
            return self.number < other.number


class PriorityQueue(Generic[Q]):
    """Smallest key first; equal keys in the order they came. The key is read when the message arrives, the choice is made when it is taken.

    A key that cannot be compared with those it meets on its way in makes `push` raise. Where that shows only later, the two count as equal.
    """

    __slots__ = ("_count", "_heap", "_key", "_told", "placing")

    def __init__(self, key: Callable[[Any], Any]) -> None:
        self._key = key
        self._heap: list[_Entry[Q]] = []
        self._count = 0
        self._told = False
        self.placing: _Entry[Q] | None = None

    def push(self, item: Q, message: Any, *, alone: bool = False) -> Q | None:  # noqa: ARG002 - nothing is ever replaced here
        """Takes an item in. Raises what its key does, and what comparing the key raises; it is not taken in then."""
        self._count += 1
        self.placing = entry = _Entry(self._key(message), self._count, item, self)
        try:
            heapq.heappush(self._heap, entry)
        except BaseException:  # keys that cannot be compared: heapq leaves the entry in the heap
            self.placing = None
            self._heap = [kept for kept in self._heap if kept is not entry]
            heapq.heapify(self._heap)
            raise
        finally:
            self.placing = None
        return None

    def puzzled(self, error: BaseException) -> None:
        """Two keys that wait here cannot be compared: says so, once."""
        if not self._told:
            self._told = True
            _log.error(
                "keys of a priority mailbox cannot be compared (%s): such messages are taken in the order they came; give keys that all compare with each other",
                type(error).__qualname__,
            )

    def replaces(self, message: Any) -> bool:  # noqa: ARG002 - nothing is ever replaced here
        """Never."""
        return False

    def remove(self, unwanted: Callable[[Q], bool]) -> None:
        """Takes out all items that are unwanted."""
        self._heap = [entry for entry in self._heap if not unwanted(entry.item)]
        heapq.heapify(self._heap)

    def pop(self) -> Q:
        """The item with the smallest key."""
        return heapq.heappop(self._heap).item

    def __len__(self) -> int:
        return len(self._heap)

    def items(self) -> list[Q]:
        """All items, in the order they would be taken."""
        return [entry.item for entry in sorted(self._heap)]


class ConflatingQueue(Generic[Q]):
    """Only the latest message for each key waits; it keeps the place of the one that it replaced. A key of None never conflates."""

    __slots__ = ("_count", "_items", "_key")

    def __init__(self, key: Callable[[Any], Hashable]) -> None:
        self._key = key
        self._items: dict[Hashable, Q] = {}
        self._count = 0

    def push(self, item: Q, message: Any, *, alone: bool = False) -> Q | None:
        """Takes an item in; returns the one that it replaced."""
        key = None if alone else self._key(message)
        if key is None:
            self._count += 1
            key = (_UNIQUE, self._count)
        replaced = self._items.get(key)
        self._items[key] = item
        return replaced

    def replaces(self, message: Any) -> bool:
        """Whether an item with the message's key waits."""
        key = self._key(message)
        return key is not None and key in self._items

    def remove(self, unwanted: Callable[[Q], bool]) -> None:
        """Takes out all items that are unwanted."""
        self._items = {key: item for key, item in self._items.items() if not unwanted(item)}

    def pop(self) -> Q:
        """The item that came first."""
        first = next(iter(self._items.items()), None)
        if first is None:
            raise IndexError("the mailbox is empty")
        key, item = first
        try:
            del self._items[key]
        except Exception:  # a key that can be hashed no longer: those that wait stay, and are not conflated any more
            rest = list(self._items.values())[1:]
            self._items = {(_UNIQUE, -number): waiting for number, waiting in enumerate(rest, self._count)}
            self._count += len(rest)
        return item

    def __len__(self) -> int:
        return len(self._items)

    def items(self) -> list[Q]:
        """All items, in the order they would be taken."""
        return list(self._items.values())


_UNIQUE = object()


@names_the_nearest
@attrs.frozen(eq=False)
class Mailbox:
    """A description of a mailbox; make one with `bounded`, `unbounded`, `priority` or `conflate`.

    Attributes:
        capacity: Messages that may wait; `math.inf` for an unbounded one.
        overflow: What a `tell` to a full mailbox does. "reject": the new message becomes a dead letter and the receipt says so. "drop_newest": the message
            that came last before it makes room. "drop_oldest": the one that waits longest makes room. "wait": as "reject" inside the system, where a
            tell never blocks, but a script's blocking `tell` waits for room. `send` and `ask` always wait for room, whatever the policy.
        key: Of a priority or conflating mailbox: what is read from each message.
        kind: "fifo", "priority" or "conflate".
    """

    capacity: float = DEFAULT_CAPACITY
    overflow: Overflow = "reject"
    kind: Literal["fifo", "priority", "conflate"] = "fifo"
    key: Callable[[Any], Any] | None = None

    def __attrs_post_init__(self) -> None:
        capacity = self.capacity
        whole = isinstance(capacity, int) and not isinstance(capacity, bool)
        if not (capacity == math.inf or (whole and capacity >= 1)):
            raise DefinitionError(
                f"a mailbox's capacity is a whole number of messages, 1 or more, not {capacity!r}; ask for Mailbox.unbounded() if you must"
            )
        if self.overflow not in get_args(Overflow):
            raise DefinitionError(f"overflow={self.overflow!r} is unknown; choose one of {', '.join(get_args(Overflow))}")
        if self.kind != "fifo" and not callable(self.key):
            raise DefinitionError(f"a {self.kind} mailbox needs a function that reads the key from a message, not {self.key!r}")

    @classmethod
    def bounded(cls, capacity: int = DEFAULT_CAPACITY, *, overflow: Overflow = "reject") -> Mailbox:
        """First in, first out, with room for `capacity` messages (default 1,024)."""
        return cls(capacity, overflow)

    @classmethod
    def unbounded(cls) -> Mailbox:
        """First in, first out, without a limit: memory is the limit then, so it has to be asked for."""
        return cls(math.inf)

    @classmethod
    def priority(cls, key: Callable[[Any], Any], capacity: int = DEFAULT_CAPACITY) -> Mailbox:
        """The message with the smallest `key(message)` is taken first; equal keys in the order they came."""
        return cls(capacity, "reject", "priority", key)

    @classmethod
    def conflate(cls, key: Callable[[Any], Hashable], capacity: int = DEFAULT_CAPACITY) -> Mailbox:
        """Of the messages with the same `key(message)` only the latest waits; the ones it replaced are dead letters (reason "conflated").

        Requests never conflate: somebody waits for each of them.
        """
        return cls(capacity, "reject", "conflate", key)

    def make_queue(self) -> Queue[Any] | None:
        """The queue object of a mailbox that is not first in, first out, else None."""
        if self.kind == "priority":
            assert self.key is not None
            return PriorityQueue(self.key)
        if self.kind == "conflate":
            assert self.key is not None
            return ConflatingQueue(self.key)
        return None
