"""Answers of a type: a letter goes in, an object comes out, checked field by field.

Shows: `output=` with an attrs class; an answer that does not fit, which the model is told and mends; a union, for "there is nothing to
extract"; usage.
Run:   python examples/structured_output.py           (a script stands in for the model)
       python examples/structured_output.py --live    (the endpoint that OPENAI_BASE_URL, OPENAI_API_KEY and RETINUE_MODEL name; it may cost money)
"""

import sys
from datetime import date
from typing import Literal

import attrs

import retinue as rt
from retinue import llm

LETTERS = [
    "Dear all, please find attached our invoice 2041 over 1,250.00 euros, due on the 15th of January 2027. ACME Ltd",
    "Lunch on Friday?",
]
SCRIPT = [
    llm.tool_calls(("final_result", {"value": {"number": "2041", "total": "1,250 euros", "currency": "euro", "due": "2027-01-15"}})),
    llm.tool_calls(("final_result", {"value": {"number": "2041", "total": 1250.0, "currency": "EUR", "due": "2027-01-15"}})),
    llm.tool_calls(("final_result", {"value": {"reason": "an invitation"}})),
]


@attrs.frozen
class Invoice:
    """An invoice.

    Attributes:
        number: As it is written.
        total: In units of the currency.
        currency: Its code.
        due: The day until which it is to be paid.
    """

    number: str
    total: float
    currency: Literal["EUR", "USD"]
    due: date


@attrs.frozen
class NoInvoice:
    """The letter is no invoice.

    Attributes:
        reason: What it is instead, in a few words.
    """

    reason: str


async def choose(system: rt.ActorSystem) -> rt.Ref[llm.Deployment]:
    """The model to use: a script, unless a real one is asked for."""
    if "--live" not in sys.argv[1:]:
        return await system.spawn(llm.Scripted, SCRIPT, name="model")
    choice = llm.from_env(live=True)
    print(f"asking {choice}; this may cost money")
    return await choice.spawn(system)


async def main() -> None:
    async with rt.ActorSystem("office") as system:
        model = await choose(system)
        clerk = await system.spawn(rt.Agent, model=model, output=Invoice | NoInvoice, instructions="Read the letter.", name="clerk")
        for number, letter in enumerate(LETTERS):
            session = f"letter {number}"  # a memory of its own for each letter
            reply = await clerk.ask(rt.AgentMessage(letter, session=session))
            if isinstance(reply.formatted, Invoice):
                print(f"{reply.formatted.total:.2f} {reply.formatted.currency} to be paid by {reply.formatted.due:%d %B %Y}")
            print(reply.formatted)
            memory = await clerk.ask(rt.GetMemory(session=session))
            for step in memory.steps:
                if not step.ok:
                    print("  the model was told:", step.text.replace("\n", "\n    "))


if __name__ == "__main__":
    rt.run(main)
