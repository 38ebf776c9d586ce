"""Word count: splitters count the words of lines, a reducer adds their counts up.

Shows: several workers beside each other, and backpressure: every mailbox here holds four messages, and `send` waits for room. The result
is compared with a plain count. The texts are the openings of four old novels; give a folder to count the words of other `.txt` files.
Run:   python examples/word_count.py [FOLDER]
"""

import re
import sys
from collections import Counter
from itertools import cycle
from pathlib import Path

import trio

import retinue as rt

SPLITTERS = 3
SMALL = rt.Mailbox.bounded(4)


def words_of(text: str) -> list[str]:
    return re.findall(r"[a-z]+(?:['-][a-z]+)*", text.lower())


@rt.message
class Line(rt.Message):
    """A line of a text."""

    text: str


@rt.message
class Part(rt.Message):
    """The words of a line, counted."""

    counts: dict[str, int]


@rt.message
class Finish(rt.Request[int]):
    """Ask a splitter how many lines it has done; as mail is handled in order, it has done all that it was sent before."""


@rt.message
class Total(rt.Request[dict[str, int]]):
    """Ask the reducer for the sum."""


class Reducer(rt.Actor):
    """Adds up, slower than the splitters count."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    @rt.handler
    async def add(self, message: Part) -> None:
        await trio.sleep(0.001)
        self.counts.update(message.counts)

    @rt.handler
    def total(self, message: Total) -> dict[str, int]:
        return dict(self.counts)


class Splitter(rt.Actor):
    """Counts the words of lines."""

    def __init__(self, reducer: rt.Ref[Reducer]) -> None:
        self.reducer = reducer
        self.lines = 0

    @rt.handler
    async def split(self, message: Line) -> None:
        await self.reducer.send(Part(dict(Counter(words_of(message.text)))))  # waits while the reducer's mailbox is full
        self.lines += 1

    @rt.handler
    def finish(self, message: Finish) -> int:
        return self.lines


async def count_words(system: rt.ActorSystem, files: list[Path]) -> dict[str, int]:
    reducer = await system.spawn(Reducer, name="reducer", mailbox=SMALL)
    splitters = [await system.spawn(Splitter, reducer, name=f"splitter-{number}", mailbox=SMALL) for number in range(SPLITTERS)]
    turns = cycle(splitters)
    for file in files:
        for line in file.read_text(encoding="utf-8").splitlines():
            await next(turns).send(Line(line))  # waits while that splitter's mailbox is full
    for splitter in splitters:
        print(f"{splitter.path} has done {await splitter.ask(Finish())} lines")
    return await reducer.ask(Total())


async def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "texts"
    files = sorted(folder.glob("*.txt"))
    if not files:
        sys.exit(f"there are no .txt files in {folder}")
    async with rt.ActorSystem("words") as system:
        counts = await count_words(system, files)
        print(f"messages lost: {system.statistics().dead_letters}")

    plain = Counter(words_of("\n".join(file.read_text(encoding="utf-8") for file in files)))
    print(f"{sum(counts.values())} words in {len(files)} files, the same as in a plain count: {counts == plain}")
    for word, count in plain.most_common(3):
        print(f"  {word}: {count}")


if __name__ == "__main__":
    rt.run(main)
