"""A counter: the smallest useful actor. It handles one message at a time, so its state needs no lock.

Shows: messages, an actor with two handlers, spawn, tell, ask, and the system's counts.
Run:   python examples/counter.py
"""

import trio

import retinue as rt


@rt.message
class Add(rt.Message):
    """Add to the count. A plain message: nobody waits for an answer."""

    amount: int = 1


@rt.message
class Get(rt.Request[int]):
    """Ask for the count; the answer is an int, for type checkers too."""


class Counter(rt.Actor):
    """Counts."""

    def __init__(self, start: int = 0) -> None:
        self.count = start

    @rt.handler
    def add(self, message: Add) -> None:
        self.count += message.amount

    @rt.handler
    def get(self, message: Get) -> int:
        return self.count


async def add_many(counter: rt.Ref[Counter], times: int) -> None:
    for _ in range(times):
        receipt = counter.tell(Add())  # puts the message into the mailbox and goes on at once
        assert receipt.accepted
        await trio.lowlevel.checkpoint()  # let the other tasks run in between


async def main() -> None:
    async with rt.ActorSystem("counting") as system:
        counter = await system.spawn(Counter, name="counter")
        async with trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(add_many, counter, 100)
        print(f"{counter.path} has counted to {await counter.ask(Get())}")

        counts = system.statistics()
        print(f"sent {counts.sent} = handled {counts.handled} + dead letters {counts.dead_letters} + queued {counts.queued}")


if __name__ == "__main__":
    rt.run(main)
