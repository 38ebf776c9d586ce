"""The pure-Python floor: what a message costs when nobody waits, nothing is supervised, and no one asks who sent it.

Allocate a frozen message and an envelope, append it to a deque, pop it, dispatch it by its type to a method. Nothing in Python that does
what an actor system must do can be faster; the distance to it is the price of the contract.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

import attrs

from benchmarks.harness import Block, BrokenBlock, Contender, Timer
from benchmarks.runtime.meter import Meter


@attrs.frozen
class Add:
    amount: int


class Envelope:
    __slots__ = ("message", "sender")

    def __init__(self, message: Any, sender: object) -> None:
        self.message = message
        self.sender = sender


class Counter:
    __slots__ = ("total",)

    def __init__(self) -> None:
        self.total = 0

    def add(self, message: Add) -> int:
        self.total += message.amount
        return self.total


HANDLERS: dict[type, Callable[[Counter, Any], int]] = {Add: Counter.add}


def _check(total: int, count: int) -> None:
    if total != count:
        raise BrokenBlock(f"the floor handled {total} of {count} messages")


def ask(count: int) -> float:
    actor, box = Counter(), deque[Envelope]()
    append, pop, handlers = box.append, box.popleft, HANDLERS
    with Timer() as timer:
        for _ in range(count):
            append(Envelope(Add(1), None))
            message = pop().message
            handlers[type(message)](actor, message)
    _check(actor.total, count)
    return timer.seconds


def tell(count: int) -> float:
    actor, box = Counter(), deque[Envelope]()
    append, pop, handlers = box.append, box.popleft, HANDLERS
    with Timer() as timer:
        for _ in range(count // 1000):
            for _ in range(1000):
                append(Envelope(Add(1), None))
            while box:
                message = pop().message
                handlers[type(message)](actor, message)
    _check(actor.total, count)
    return timer.seconds


def spawn(count: int) -> float:
    names: dict[str, tuple[Counter, deque[Envelope]]] = {}
    with Timer() as timer:
        for number in range(count):
            names[f"counter-{number}"] = (Counter(), deque())
    _check(len(names), count)
    return timer.seconds


def fan_out(count: int) -> float:
    actors = [(Counter(), deque[Envelope]()) for _ in range(10_000)]
    handlers = HANDLERS
    with Timer() as timer:
        for _ in range(count // 10_000):
            for _, box in actors:
                box.append(Envelope(Add(1), None))
            for actor, box in actors:
                message = box.popleft().message
                handlers[type(message)](actor, message)
    _check(sum(actor.total for actor, _ in actors), count)
    return timer.seconds


def thread_host(count: int) -> float:
    requests: queue.SimpleQueue[Add | None] = queue.SimpleQueue()
    answers: queue.SimpleQueue[int] = queue.SimpleQueue()
    actor = Counter()

    def serve() -> None:
        while (message := requests.get()) is not None:
            answers.put(actor.add(message))

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    with Timer() as timer:
        for _ in range(count):
            requests.put(Add(1))
            answers.get()
    requests.put(None)
    thread.join()
    _check(actor.total, count)
    return timer.seconds


def idle(count: int, meter: Meter) -> None:
    """Not an actor at all: an instance with one attribute, and its name in a dictionary."""
    names: dict[str, Any] = {}
    with meter:
        for number in range(count):
            names[f"counter-{number}"] = Counter()
    _check(len(names), count)


CONTENDER = Contender(
    "floor",
    "pure Python",
    {
        "ask": Block(ask),
        "ask_queued": Block(ask),
        "ask_async": Block(ask),
        "ask_inside": Block(ask),
        "tell": Block(tell, step=1000),
        "spawn": Block(spawn, most=50_000),
        "fan_out": Block(fan_out, step=10_000),
        "thread_host": Block(thread_host, note="two SimpleQueues between two threads"),
    },
)
