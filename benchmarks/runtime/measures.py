"""What is measured, against whom, and what is to be reached."""

from __future__ import annotations

import attrs

__all__ = ["IDLE", "MEASURES", "Idle", "Measure", "Target"]


@attrs.frozen
class Target:
    """Ours must be at least so many times the peer's.

    Attributes:
        against: A contender's name, or "retinue:MEASURE" for another measure of our own.
        at_least: The ratio to reach.
        stretch: A ratio to be proud of, or None.
    """

    against: str
    at_least: float
    stretch: float | None = None


@attrs.frozen
class Measure:
    """One question.

    Attributes:
        name: For `--only`.
        title: For tables.
        unit: What is counted, a second.
        how: What exactly is done and timed.
        targets: What ours has to reach.
    """

    name: str
    title: str
    unit: str
    how: str
    targets: tuple[Target, ...] = ()


@attrs.frozen
class Idle:
    """How much memory an idle actor takes: so many are made in a fresh process.

    Attributes:
        contender: Whose actors.
        count: How many.
        traced: Count the allocations (tracemalloc) instead of the resident memory.
        bytes_each: At most so many bytes an actor, or None.
        total: At most so many bytes for the whole process, interpreter and imports included, or None.
    """

    contender: str
    count: int
    traced: bool = False
    bytes_each: int | None = None
    total: int | None = None


MEASURES = (
    Measure(
        "ask",
        "ask, plain handler",
        "asks",
        "One asker asks one idle actor again and again: a message is made, the actor adds its number to a total and answers with the total.",
        (Target("pykka", 15, 25), Target("pykka-one-core", 15, 25), Target("autogen-core", 100)),
    ),
    Measure(
        "ask_queued",
        "ask, plain handler, through the queue",
        "asks",
        "The same, but ours may not take the short way: `detached=True` sends it through mailbox, ready queue and a worker task.",
    ),
    Measure(
        "ask_async",
        "ask, async handler that does not block",
        "asks",
        "The same with an `async def` handler that never suspends. Where a peer has one kind of handler only, that one.",
        (Target("pykka", 5), Target("pykka-one-core", 5)),
    ),
    Measure(
        "ask_inside",
        "ask from inside a handler",
        "asks",
        "An actor's handler asks another actor: as the first measure, but every message of ours is stamped with the context of the turn (minted, and narrower).",
    ),
    Measure(
        "tell",
        "tell",
        "messages",
        "Bursts of 1,000 messages to one actor, each burst followed by an ask that returns when all were handled. The draining is timed too.",
        (Target("pykka", 1.5), Target("pykka-one-core", 1.5)),
    ),
    Measure(
        "spawn",
        "spawn",
        "actors",
        "Actors are made one after the other, until each can take a message. Stopping them is not timed.",
        (Target("pykka", 40), Target("pykka-one-core", 40)),
    ),
    Measure(
        "spawn_ask",
        "spawn and first answer",
        "actors",
        "Each new actor is asked once before the next is made. AutoGen-core's documented way to make an agent is its first message, so its target is here.",
        (Target("autogen-core", 50),),
    ),
    Measure(
        "fan_out",
        "fan-out to 10,000",
        "messages",
        "One message to each of 10,000 actors that exist already, until the last has handled its own (pykka and AutoGen-core: 1,000 actors).",
        (Target("retinue:tell", 1 / 3),),
    ),
    Measure(
        "thread_host",
        "thread-host round trip",
        "round trips",
        "One asker asks an actor that lives in a thread of its own and may block.",
    ),
    Measure(
        "flood",
        "flood from 8 threads",
        "messages",
        "Eight threads tell one actor at once, until all is handled. Ours through the blocking twin, into an unbounded mailbox.",
    ),
    Measure(
        "cancel",
        "10,000 asks cancelled",
        "asks",
        "10,000 asks wait at once, on 100 actors whose handlers never return; timed from the cancellation to the end of the last asker.",
    ),
    Measure(
        "crash_storm",
        "crash storm: 1 % failing",
        "messages",
        "Bursts of 1,000 messages to 10 actors; one of a hundred makes its handler raise. The failure is logged with its traceback (to nobody), the actor begins anew with "
        "its mail kept. Checked: what was handled, how often they began, and the dead letters.",
        (Target("pykka", 1), Target("trio", 1)),
    ),
    Measure(
        "slow_subscriber",
        "a topic with one slow in 100",
        "deliveries",
        "A topic has 100 subscribers, of whom one takes 50 ms a message. Bursts of 100 messages are published; timed until the 99 others have had each burst, which must be "
        "all of it, while the slow one misses some, counted.",
        (Target("pykka", 1), Target("trio", 1)),
    ),
    Measure(
        "wake_one",
        "10,000 idle actors, one woken",
        "asks",
        "10,000 actors are idle, and one after the other, far apart, is asked once: the reciprocal is the latency of waking an actor that has been idle.",
        (Target("pykka", 1), Target("trio", 1)),
    ),
)

IDLE = (
    Idle("retinue", 10_000, bytes_each=700),
    Idle("trio", 10_000),
    Idle("retinue", 100_000, bytes_each=700),
    Idle("retinue", 100_000, traced=True),
    Idle("retinue", 1_000_000, bytes_each=700, total=700_000_000),
    Idle("trio", 100_000),
    Idle("autogen-core", 10_000),
    Idle("pykka", 1_000),
    Idle("floor", 100_000),
)
