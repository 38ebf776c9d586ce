"""An actor that asks a language model: a librarian who answers questions about books, with a model behind a ref.

Shows: a model as an actor, `Complete` and `Completion`, an operation of its own (`requires=`), what an actor is granted, and a model's
error as an answer. No model is needed: `llm.Scripted` says what it is told to say. In its place `llm.from_env().spawn(system)` takes the
endpoint or the small model that is set up on this machine; nothing else changes.
Run:   python examples/model_actor.py
"""

import retinue as rt
from retinue import llm


@rt.message(timeout=600)
class Recommend(rt.Request[str]):
    """Ask for a book about a topic. A model may take its time, so this request may too."""

    topic: str


class Librarian(rt.Actor):
    """Recommends books, with a model's help."""

    def __init__(self, model: rt.Ref[llm.Deployment]) -> None:
        self.model = model

    @rt.handler(requires="library.ask", raises=llm.ModelError)  # a model's error is an answer, no reason to restart
    async def recommend(self, message: Recommend) -> str:
        question = llm.Complete.of(f"One book about {message.topic}?", system="You are a librarian. Be brief.", max_tokens=60)
        answer = await self.model.ask(question)  # goes out under the authority of whoever asked us
        return f"{answer.text} (says {answer.model})"


def script(request: llm.Complete) -> str:
    """Stand in for a model: look at the question, and say something about it."""
    question = request.messages[-1].content
    if "lighthouses" in question:
        return "To the Lighthouse, by Virginia Woolf."
    raise llm.ModelFailed("the model is tired", status=503)


async def main() -> None:
    async with rt.ActorSystem("library") as system:
        model = await system.spawn(llm.Scripted, script, name="model")
        librarian = await system.spawn(Librarian, model, grant=["library.ask", "model.complete"], name="librarian")
        mute = await system.spawn(Librarian, model, grant=["library.ask"], name="mute")  # may be asked, may not ask the model

        reader = system.authority.mint("reader", ["library.ask", "model.complete"])
        print(await librarian.ask(Recommend("lighthouses"), context=reader))

        try:
            await librarian.ask(Recommend("tax law"), context=reader)
        except llm.ModelError as error:
            print(f"{type(error).__name__}: {error}")

        child = reader.narrow(rt.deny("model.**"))  # whoever asks lends no authority that it lacks
        for asked, context in ((librarian, child), (mute, reader)):
            try:
                await asked.ask(Recommend("lighthouses"), context=context)
            except rt.Denied as error:
                print(f"{asked.path}: {error.operation} is denied at {error.path}")


if __name__ == "__main__":
    rt.run(main)
