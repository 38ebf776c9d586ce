"""A session as in a notebook: asyncio, cells, and classes that are written again.

Shows: `retinue.aio`, `asyncio.gather`, a stream, a question that is given up, and what to do once a class was changed. The cells stand in one
function here. In Jupyter each `await` works as it stands; `await system.__aenter__()` does there what `async with` does here.
Run:   python examples/asyncio_notebook.py
"""

import asyncio
from collections.abc import AsyncIterator

import trio

import retinue as rt
from retinue import aio


async def session(system: aio.ActorSystem) -> None:
    # In [1]: a first version. Handlers run on trio, in the system's own thread: in them it is trio.sleep, not asyncio.sleep.

    @rt.message
    class Translate(rt.Request[str]):
        """Ask for a word in another language."""

        word: str

    class Translator(rt.Actor):
        """Knows three words of French."""

        @rt.handler
        async def translate(self, message: Translate) -> str:
            await trio.sleep(0.01)
            return {"cat": "chat", "dog": "chien", "bird": "oiseau"}.get(message.word, "?")

    translator = await system.spawn(Translator, name="translator")
    print("In [1]:", await translator.ask(Translate("cat")))

    # In [2]: many questions at once. The answers come in the order of the questions.

    print("In [2]:", await asyncio.gather(*(translator.ask(Translate(word)) for word in ("dog", "bird", "fish"))))

    # In [3]: the message is written again, with a field more. The actor that runs takes the class that it was written for.

    @rt.message
    class Translate(rt.Request[str]):
        """Ask for a word in another language."""

        word: str
        language: str = "French"

    try:
        await translator.ask(Translate("cat", "German"))
    except rt.Unhandled as error:
        print("In [3]:", str(error).partition(". ")[2])

    # In [4]: so the actor is written and spawned again, too.

    @rt.message
    class Words(rt.Stream[str]):
        """Ask for all words."""

    class Translator(rt.Actor):
        """Knows two languages."""

        def __init__(self) -> None:
            self.words = {"French": {"cat": "chat", "dog": "chien"}, "German": {"cat": "Katze", "dog": "Hund"}}

        @rt.handler
        async def translate(self, message: Translate) -> str:
            await trio.sleep(5 if message.language == "Latin" else 0.01)  # long thoughts
            return self.words[message.language][message.word]

        @rt.handler
        async def list_words(self, message: Words) -> AsyncIterator[str]:
            for language, words in self.words.items():
                for word, translation in words.items():
                    yield f"{word} is {translation} in {language}"

    await translator.stop()
    translator = await system.spawn(Translator, name="translator")
    print("In [4]:", await translator.ask(Translate("cat", "German")))

    # In [5]: a stream.

    async with translator.stream(Words()) as words:
        async for line in words:
            print("In [5]:", line)

    # In [6]: asyncio's own time-out. It cancels the handler too, so the translator is free again at once.

    try:
        await asyncio.wait_for(translator.ask(Translate("cat", "Latin")), timeout=0.1)
    except TimeoutError:
        print("In [6]: given up;", await translator.ask(Translate("dog"), timeout=2))


async def main() -> None:
    async with aio.ActorSystem("notebook") as system:
        await session(system)


if __name__ == "__main__":
    asyncio.run(main())
