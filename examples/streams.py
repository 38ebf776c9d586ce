"""A stream: one request, many answers, and never more work than the reader wants.

Shows: a handler that yields, the window that holds it back (backpressure), leaving early (which cancels the handler), and how an error of
the handler ends a stream.
Run:   python examples/streams.py
"""

from collections.abc import AsyncIterator

import trio

import retinue as rt


class TooBig(Exception):
    """The search has reached its limit."""


@rt.message
class Primes(rt.Stream[int]):
    """Ask for the prime numbers from `start` on, below `limit`."""

    start: int
    limit: int


@rt.message
class Found(rt.Request[int]):
    """Ask how many primes were found so far."""


class Searcher(rt.Actor):
    """Finds primes, one after the other."""

    def __init__(self) -> None:
        self.found = 0

    @rt.handler(raises=TooBig)
    async def primes(self, message: Primes) -> AsyncIterator[int]:
        try:
            for number in range(message.start, message.limit):
                if all(number % divisor for divisor in range(2, int(number**0.5) + 1)):
                    self.found += 1
                    yield number  # waits here when the reader is a whole window behind
            raise TooBig(f"no further than {message.limit}")
        finally:
            print("the search is over")  # also when the reader has left

    @rt.handler
    def how_many(self, message: Found) -> int:
        return self.found


async def main() -> None:
    async with rt.ActorSystem("numbers") as system:
        searcher = await system.spawn(Searcher, name="searcher")

        print("A slow reader:")
        async with searcher.stream(Primes(2, 1_000_000_000), window=4) as primes:
            async for prime in primes:
                await trio.sleep(0.01)
                print(f"  read {prime}")
                if prime > 20:
                    break  # enough: leaving the block cancels the handler
        found = await searcher.ask(Found())
        print(f"The reader took 9 primes, and the searcher has found {found}, at most 9 and the window of 4: {found <= 13}")

        print("To the end:")
        try:
            async with searcher.stream(Primes(90, 100)) as primes:
                async for prime in primes:
                    print(f"  read {prime}")
        except TooBig as error:
            print(f"The stream ended with TooBig: {error}")

        print("With a deadline:")
        try:
            async with searcher.stream(Primes(2, 1_000_000_000), timeout=0.1) as primes:
                async for _ in primes:
                    await trio.sleep(0.02)
        except rt.AskTimeout:
            print("The stream ended with AskTimeout: the deadline is for the whole stream")


if __name__ == "__main__":
    rt.run(main)
