"""An agent with tools: it calls two functions at once, makes a mistake, is told, and mends it.

Shows: typed functions as tools; calls that run at the same time; arguments that do not fit, which are an answer for the model and run
nothing; a caller who may use one tool and not the other; what memory holds.
Run:   python examples/weather_tools.py           (a script stands in for the model)
       python examples/weather_tools.py --live    (the endpoint that OPENAI_BASE_URL, OPENAI_API_KEY and RETINUE_MODEL name; it may cost money)
"""

import sys

import retinue as rt
from retinue import llm

FORECASTS = {"Oslo": [-3, -5, 0], "Rome": [14, 16, 15]}
QUESTION = "Is Rome warmer than Oslo tomorrow? Tell Bob."
SCRIPT = [
    llm.tool_calls(("forecast", {"city": "Oslo"}), ("forecast", {"city": "Rome", "days": "a few"})),  # "a few" is no int: the model is told
    llm.tool_calls(("forecast", {"city": "Rome", "days": 2})),
    llm.tool_calls(("send_postcard", {"to": "Bob", "text": "Come to Rome!"})),  # ada may not: the model is told that, too
    "Yes: 14 degrees in Rome, -3 in Oslo. I may not send postcards.",
]


def forecast(city: str, days: int = 1) -> str:
    """The weather of the next days.

    Args:
        city: Name of the city.
        days: How many days, 1 to 3.
    """
    if city not in FORECASTS:
        raise LookupError(f"no forecast for {city!r}; there are {', '.join(FORECASTS)}")
    return f"{city}: {', '.join(f'{degrees} degrees' for degrees in FORECASTS[city][:days])}"


async def send_postcard(to: str, text: str) -> str:
    """Send a postcard.

    Args:
        to: Whom.
        text: What to write.
    """
    return f"sent to {to}: {text}"


async def choose(system: rt.ActorSystem) -> rt.Ref[llm.Deployment]:
    """The model to use: a script, unless a real one is asked for."""
    if "--live" not in sys.argv[1:]:
        return await system.spawn(llm.Scripted, SCRIPT, name="model")
    choice = llm.from_env(live=True)
    print(f"asking {choice}; this may cost money")
    return await choice.spawn(system)


async def main() -> None:
    async with rt.ActorSystem("weather") as system:
        agent = await system.spawn(rt.Agent, model=await choose(system), tools=[forecast, send_postcard], name="agent")
        ada = system.authority.mint("ada", ["model.complete", "tool.forecast"])  # and not tool.send_postcard
        reply = await agent.ask(QUESTION, context=ada)

        memory = await agent.ask(rt.GetMemory(), context=ada)
        for step in memory.steps:
            for call in step.calls:
                print(f"  calls {call.name} {call.arguments}")
            if step.kind == "tool_result":
                print("  ->" if step.ok else "  not carried out:", step.text.replace("\n", "\n     "))
        print(reply.content)


if __name__ == "__main__":
    rt.run(main)
