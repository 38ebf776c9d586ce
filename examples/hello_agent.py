"""The smallest agent: a model, a sentence, an answer. No async, no key.

Shows: an agent in four lines, and that it remembers what was said to it.
Run:   python examples/hello_agent.py           (a script stands in for the model)
       python examples/hello_agent.py --live    (the endpoint that OPENAI_BASE_URL, OPENAI_API_KEY and RETINUE_MODEL name; it may cost money)
"""

import sys

from retinue import Agent, GetMemory, llm
from retinue.sync import ActorSystem


def choose() -> llm.Choice:
    """The model to use: a script, unless a real one is asked for."""
    if "--live" not in sys.argv[1:]:
        return llm.model("scripted:Hello, Ada!")  # "openai:gpt-4.1" and "local:smollm2" are models, too
    choice = llm.from_env(live=True)
    print(f"asking {choice}; this may cost money")
    return choice


def main() -> None:
    with ActorSystem() as system:
        agent = system.spawn(Agent, model=choose(), instructions="Be brief.", name="agent")
        print(agent.ask("Say hello to Ada").content)

        for message in agent.ask(GetMemory()).messages:
            print(f"  {message.sender}: {message.content}")


if __name__ == "__main__":
    main()
