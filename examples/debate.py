"""A debate: three agents answer one question, read each other, and answer again; a judge decides in one team, a vote in another.

Shows: rounds in which nobody hears the others at first, told while they go on; a vote that needs no call of a model, and ends as soon as all
agree; a vote without a winner, which is an error and not somebody's answer.
Run:   python examples/debate.py           (a script stands in for the models)
       python examples/debate.py --live    (the endpoint that OPENAI_BASE_URL, OPENAI_API_KEY and RETINUE_MODEL name; it may cost money)
"""

import sys
from collections.abc import Callable
from typing import Any

import retinue as rt
from retinue import llm

QUESTION = "A bat and a ball cost 1.10 euros together. The bat costs 1 euro more than the ball. What does the ball cost? The price alone."
ISLAND = "Which one thing would you take to an island? The thing alone."

CHARACTERS = {
    "hasty": "You answer at once, and mend it when somebody shows you why.",
    "careful": "You set up the equation first.",
    "sceptic": "You check every answer by adding it up again.",
    "judge": "You decide, and say why in one sentence.",
}

ANSWERS = {  # what each debater's model says, by what it is told; the second question is one of taste
    "hasty": ["10 cents", "5 cents"],
    "careful": ["5 cents", "5 cents"],
    "sceptic": ["5 cents", "5 cents"],
}
TASTES = {"hasty": "a lamp", "careful": "a ladder", "sceptic": "a lantern"}


def script(name: str) -> Callable[[llm.Complete], str]:
    """What a debater's model would say."""

    def says(request: llm.Complete) -> str:
        told = request.messages[-1].content
        if any(ISLAND in message.content for message in request.messages):
            return TASTES[name]
        return ANSWERS[name][1 if "5 cents" in told else 0]

    return says


def judge(request: llm.Complete) -> str:
    """What the judge's model would say of the last answers."""
    return (
        "5 cents: then the bat costs 1.05, and together they cost 1.10." if "5 cents" in request.messages[-1].content else "I cannot tell."
    )


async def debaters(system: rt.ActorSystem) -> dict[str, rt.AgentSpec]:
    """The three and the judge; scripts stand in for their models, unless a real one is asked for."""
    if "--live" in sys.argv[1:]:
        choice = llm.from_env(live=True)
        print(f"asking {choice}; this may cost money")
        models: dict[str, Any] = dict.fromkeys(CHARACTERS, choice)
    else:
        models = {name: await system.spawn(llm.Scripted, judge if name == "judge" else script(name)) for name in CHARACTERS}
    return {name: rt.Agent.spec(model=models[name], instructions=character) for name, character in CHARACTERS.items()}


async def told(team: rt.Ref[Any], question: str, session: str) -> None:
    """Print the debate while it goes on."""
    said: dict[str, int] = {}
    async with team.stream(rt.AgentMessage(question, session=session)) as events:
        async for envelope in events:
            path, event = rt.innermost(envelope)
            match event:
                case rt.RunEnd(message) if path:
                    said[path[0]] = said.get(path[0], 0) + 1
                    print(f"  {path[0]}, {said[path[0]]}: {message.content}")
                case rt.RunEnd(message):
                    made = message.extra or {}
                    print(
                        f"=> {message.content} [{made['ended_by']}, rounds: {made['rounds']}{', votes: ' + str(made['votes']) if 'votes' in made else ''}]"
                    )


async def main() -> None:
    async with rt.ActorSystem("debate") as system:
        members = await debaters(system)
        judged = await system.spawn(rt.Debate, members, judge="judge", rounds=2, name="judged")
        del members["judge"]
        voting = await system.spawn(rt.Debate, members, vote=True, rounds=3, name="voting")

        print("with a judge:")
        await told(judged, QUESTION, "bat")
        print("by vote:")
        await told(voting, QUESTION, "bat")
        print("by vote, on a matter of taste:")
        try:
            await told(voting, ISLAND, "island")
        except rt.VoteUndecided as undecided:
            print(f"=> nobody has won: {', '.join(answer for answer, _ in undecided.votes)}")


if __name__ == "__main__":
    rt.run(main)
