"""A tree of agents under one budget: a paper has desks, desks have reporters, reporters have a tool, and all of them draw on one account.

Shows: a limit on calls, and one on tokens, given once, at the top; planning, tools and delegates that work at the same time, all of which
count; that the account is never overdrawn, not by one call, and not for a moment; who was refused, and that the others' work is used; a desk
with a limit of its own within it.
Run:   python examples/tree_under_one_budget.py           (a script stands in for the models)
       python examples/tree_under_one_budget.py --live    (the endpoint that OPENAI_BASE_URL, OPENAI_API_KEY and RETINUE_MODEL name; it may cost money)
"""

import sys
import textwrap
from typing import Any

import trio

import retinue as rt
from retinue import llm

DESKS = {"science": ["stars", "tides", "moss"], "culture": ["opera", "chess", "film"], "sport": ["rowing", "judo", "golf"]}
SPORT = rt.TreeLimits(calls=7)  # a limit of one desk's own, whatever the paper has left
AT_ONCE = 2  # desks that work at the same time, and reporters of each of them


def script(request: llm.Complete) -> llm.Completion:
    """What the models would say: a plan, a call of the tool, a sentence. Each time it takes 20 tokens to read and 30 to write."""
    last = request.messages[-1]
    used = llm.Usage(1, 20, 30)
    if last.content.startswith("Plan"):
        return llm.Completion("short pieces", "script", used, "stop")
    if last.role == "tool":
        return llm.Completion(f"{last.content} is news.", "script", used, "stop")
    call = llm.ToolCall("", "look_up", f'{{"what": "{last.content.split()[-1]}"}}')
    return llm.Completion("", "script", used, "tool_calls", (call,))


def look_up(what: str) -> str:
    """Look something up.

    Args:
        what: What.
    """
    return what


class Planned(rt.Team):
    """Plans with a model, has all its members work on the plan at the same time, and puts together what came of it.

    Args:
        members: As for every team.
        model: What it plans with.
    """

    def __init__(self, members: rt.Members, *, model: rt.Ref[llm.Deployment], **options: Any) -> None:
        super().__init__(members, **options)
        self.model = model

    async def forward(self, run: rt.TeamRun) -> str:
        plan = await run.complete(self.model, llm.Complete.of(f"Plan: {run.message.content}", max_tokens=30))
        names = run.members
        found = await run.gather([(name, f"{plan.text}: {name}") for name in names], at_once=AT_ONCE, errors="return")
        lines = []
        for name, answer in zip(names, found, strict=True):
            said = answer.content if isinstance(answer, rt.AgentMessage) else f"refused, no {why(answer)} left"
            lines.append(f"{name}:\n{textwrap.indent(said, '  ')}" if "\n" in said else f"{name}: {said}")
        return "\n".join(lines)


def why(error: BaseException) -> str:
    """What somebody had not enough of."""
    if isinstance(error, rt.BudgetExceeded):
        return error.resource
    if isinstance(error, rt.RunLimitReached):
        return error.limit
    raise error


async def watch(system: rt.ActorSystem, context: rt.SecurityContext, seen: list[int]) -> None:
    """Looks at the account again and again: what is spent and what is reserved are never more than there is."""
    while True:
        (balance,) = await system.budgets.balance(context)
        assert balance.spent.calls + balance.reserved.calls <= balance.caps.calls, balance
        assert balance.spent.tokens + balance.reserved.tokens <= balance.caps.tokens, balance
        seen.append(balance.spent.calls)
        await trio.sleep(0.001)


async def publish(system: rt.ActorSystem, paper: rt.Ref[Planned], reader: str, **limits: int) -> None:
    """One paper under one budget, and what the ledger says in the end."""
    print(f"{reader} has {', '.join(f'{most} {what}' for what, most in limits.items())}:")
    context = system.authority.mint(reader, ["model.complete", "tool.*", rt.limit(**limits)])
    async with trio.open_nursery() as nursery:
        seen: list[int] = []
        nursery.start_soon(watch, system, context, seen)
        answer = await paper.ask("today's paper", context=context)
        nursery.cancel_scope.cancel()
    print(textwrap.indent(str(answer.content), "  "))
    (balance,) = await system.budgets.balance(context)
    assert len(seen) > 1
    for what, most in limits.items():
        print(f"=> {getattr(balance.spent, what)} of {most} {what} are spent, {getattr(balance.reserved, what)} reserved")


async def choose(system: rt.ActorSystem) -> rt.Ref[llm.Deployment]:
    """The model of all: a script, unless a real one is asked for."""
    if "--live" not in sys.argv[1:]:
        return await system.spawn(llm.Scripted, script, seconds=0.01, name="model")
    choice = llm.from_env(live=True)
    print(f"asking {choice}; this may cost money")
    return await choice.spawn(system)


async def main() -> None:
    async with rt.ActorSystem("press") as system:
        model = await choose(system)
        reporter = rt.Agent.spec(model=model, tools=[look_up], max_tokens=30)
        desks = {
            name: Planned.spec(dict.fromkeys(beats, reporter), model=model, limits=SPORT if name == "sport" else None)
            for name, beats in DESKS.items()
        }
        paper = await system.spawn(Planned, desks, model=model, name="paper")
        await publish(system, paper, "ada", calls=1_000)
        await publish(system, paper, "bob", calls=20)
        await publish(system, paper, "cem", tokens=700)


if __name__ == "__main__":
    rt.run(main)
