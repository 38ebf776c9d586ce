"""Forty pages to read, three readers, and pages that no reader survives: a work-pulling pool goes on.

Each reader takes the next page when it is free. A page that is torn kills whoever reads it, with the whole actor: it ends for good, and another one takes its place
after a moment. `retries=2` hands the page to two more readers; then it is given up, and its sender hears why. What waits is never lost with a reader, for it waits
at the pool.

Shows: `spawn_pool`, `rt.Pool.work_pulling`, back-pressure from one bounded mailbox, replacements, retries, and counts that add up.
Run:   python examples/workers_that_die.py
"""

import trio

import retinue as rt

TORN = {7, 23}


@rt.message
class Page(rt.Request[int]):
    """Read a page, and say how many words it has."""

    number: int


class TornPage(Exception):
    """There is no reading it."""


class Reader(rt.Actor):
    """Reads pages; dies of a torn one."""

    @rt.handler
    async def read(self, message: Page) -> int:
        await trio.sleep(0.01)
        if message.number in TORN:
            raise TornPage(f"page {message.number} is torn")
        return 100 + message.number


async def main() -> None:
    async with rt.ActorSystem("library") as system:
        readers = await system.spawn_pool(
            Reader,
            pool=rt.Pool.work_pulling(3, retries=2),
            name="readers",
            mailbox=rt.Mailbox.bounded(5),
            supervision=rt.Supervision(restart="temporary"),  # whoever fails is gone
        )
        words: dict[int, int] = {}
        given_up: dict[int, str] = {}

        async def read(number: int) -> None:
            try:
                words[number] = await readers.ask(Page(number))  # waits for room, too: forty ask, and five may wait
            except TornPage as torn:
                given_up[number] = str(torn)

        async with trio.open_nursery() as nursery:
            for number in range(40):
                nursery.start_soon(read, number)

        counts = system.statistics()
        print(f"{sum(words.values())} words on {len(words)} pages; given up: {', '.join(given_up[number] for number in sorted(given_up))}")
        print(f"{counts.stopped} readers died")
        print(f"sent {counts.sent}, handled {counts.handled}, lost {counts.dead_letters + counts.queued}")


if __name__ == "__main__":
    rt.run(main)
