"""An answer in the terminal while it is made: thoughts, tool calls, and the text piece by piece.

Shows: the typed events of a run, in the order in which things happen; the one end of a stream; leaving early, which stops the model and
keeps what was said.
Run:   python examples/streaming_to_the_terminal.py           (a script stands in for the model)
       python examples/streaming_to_the_terminal.py --live    (the endpoint that OPENAI_BASE_URL, OPENAI_API_KEY and RETINUE_MODEL name; it may cost money)
"""

import sys

import retinue as rt
from retinue import llm

SCRIPT = [
    llm.tool_calls(("look_up", {"word": "retinue"}), reasoning="I had better look that up."),
    "A retinue is the people who go with somebody important.",
    "Once upon a time there was a queen, and her retinue was so long that nobody had ever seen its end.",
]


def look_up(word: str) -> str:
    """Look a word up.

    Args:
        word: The word.
    """
    return f"{word}: a body of people who travel with somebody important"


async def choose(system: rt.ActorSystem) -> rt.Ref[llm.Deployment]:
    """The model to use: a script, unless a real one is asked for."""
    if "--live" not in sys.argv[1:]:
        return await system.spawn(llm.Scripted, SCRIPT, name="model")
    choice = llm.from_env(live=True)
    print(f"asking {choice}; this may cost money")
    return await choice.spawn(system)


async def show(agent: rt.Ref[rt.Agent], question: str, most: int = sys.maxsize) -> None:
    """Print what the agent does; leave after so many characters of its answer."""
    shown = 0
    async with agent.stream(question, window=1) as events:  # the run is one event ahead of the reader at most
        async for event in events:
            match event:
                case rt.ReasoningDelta(text):
                    print(f"({text})", flush=True)
                case rt.ToolStarted(_, name, arguments):
                    print(f"[{name} {arguments}]", flush=True)
                case rt.ToolFinished(_, _, ok, text):
                    print(f"[{'->' if ok else 'failed:'} {text}]", flush=True)
                case rt.TextDelta(text):
                    print(text, end="", flush=True)
                    shown += len(text)
                case rt.Notice(kind, text):
                    print(f"[{kind}: {text}]", flush=True)
                case rt.RunEnd(message):
                    print(f"\n[{message.usage.requests if message.usage else 0} requests to the model]")
            if shown > most:
                print(" …")
                return  # leaving the block ends the run: the model and the tools are stopped


async def main() -> None:
    async with rt.ActorSystem("terminal") as system:
        agent = await system.spawn(rt.Agent, model=await choose(system), tools=[look_up], name="agent")
        await show(agent, "What is a retinue?")
        await show(agent, "Tell me a story.", most=40)
        memory = await agent.ask(rt.GetMemory())
        last = memory.messages[-1]
        print(f"remembered: {last.content!r}, partial={last.partial}")


if __name__ == "__main__":
    rt.run(main)
