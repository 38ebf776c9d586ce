"""One budget over a tree of agents: whatever is delegated, streamed, left, retried, cancelled or broken off, it is never exceeded by one, and it is exact."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from functools import partial
from typing import Any

import attrs
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

import retinue as rt
from agent_players import agent_system, calls, read
from metered_models import Metered, balance_of, quiet
from retinue import llm
from retinue.actors.llm.reserving import prompt_tokens

PRICE = llm.Price("2", "8")


class Fan(rt.Team):
    """Asks all its members at once, and does not mind who fails."""

    async def forward(self, run: rt.TeamRun) -> str:
        found = await run.gather([(name, run.message.content) for name in run.members], errors="return")
        return " ".join("failed" if isinstance(one, Exception) else "answered" for one in found)


def act_of(request: llm.Complete) -> int | str:
    """The last word of what was said last: a number of tokens, or a word of `Metered`'s."""
    word = next(each.content for each in reversed(request.messages) if each.role in ("user", "system")).split()[-1]
    return int(word) if word.isdigit() else word if word in ("fail", "break", "hang", "hush") else 5


def leaf(model: Any, act: object) -> Any:
    return rt.Agent.spec(model=model, limits=rt.RunLimits(seconds=0.05 if act in ("hang", "hush") else 5.0))


# -- the limits of a run -------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "odd",
    [
        {"calls": -1},
        {"calls": 1.0},
        {"calls": True},
        {"tokens": "9"},
        {"tokens": 2**63},
        {"cost_usd": 0.5},
        {"cost_usd": "a lot"},
        {"cost_usd": "-1"},
        {"seconds": 0},
        {"seconds": "1"},
        {"seconds": float("nan")},
        {"seconds": float("inf")},
        {"seconds": True},
    ],
    ids=str,
)
def test_limits_that_cannot_be_are_refused_where_they_are_made(odd: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=rf"TreeLimits\({next(iter(odd))}"):
        rt.TreeLimits(**odd)


def test_limits_are_what_narrows_a_context() -> None:
    assert rt.TreeLimits().restrictions() == ()
    limits = rt.TreeLimits(calls=3, tokens=100, cost_usd="0.50", seconds=2)
    assert repr(limits.restrictions()) == "(limit(calls=3, tokens=100, cost_usd='0.5'), expires(seconds=2))"
    assert rt.TreeLimits(cost_usd=2).cost_usd == "2"


async def test_what_is_neither_kind_of_limits_is_told_to_whoever_asks() -> None:
    async with agent_system("hi") as (_, agent):
        with pytest.raises(rt.BadInput, match="TreeLimits"):
            await agent.ask(rt.Run("go", limits=7))


@rt.tool(requires="notes.write")
def note(text: str) -> str:
    """Writes down.

    Args:
        text: What.
    """
    return text


@pytest.mark.parametrize("streamed", [False, True], ids=["asked", "streamed"])
@pytest.mark.parametrize(
    ("limits", "limit", "asked"),
    [
        (rt.TreeLimits(calls=4), "tree.calls", 2),
        (rt.TreeLimits(calls=5), "tree.calls", 3),
        (rt.TreeLimits(tokens=600), "tree.tokens", None),
        (rt.TreeLimits(cost_usd="0.002"), "tree.cost_usd", None),
        (rt.TreeLimits(calls=0), "tree.calls", 0),
    ],
    ids=["after a call of a tool", "after a call of the model", "tokens", "cost", "none at all"],
)
async def test_a_single_agents_run_ends_at_the_limit_of_its_tree_with_a_valid_memory(
    limits: rt.TreeLimits, limit: str, asked: int | None, streamed: bool
) -> None:
    told: list[llm.Complete] = []

    def again(request: llm.Complete) -> llm.Completion:
        told.append(request)
        reply = llm.tool_calls(("note", {"text": str(len(told))}))
        return attrs.evolve(reply, usage=llm.Usage(1, prompt_tokens(request), 20))

    async with rt.ActorSystem() as system:
        model = await system.spawn(llm.Scripted, again, price=PRICE, name="model")
        agent = await system.spawn(rt.Agent, model=model, tools=[note], name="agent")
        if streamed:
            [*_, error] = await read(agent, rt.Run("go", limits=limits))
            assert isinstance(error, rt.RunLimitReached)
        else:
            with pytest.raises(rt.RunLimitReached, match="TreeLimits") as caught:
                await agent.ask(rt.Run("go", limits=limits))
            error = caught.value
        assert error.limit == limit
        assert isinstance(error.__cause__, rt.BudgetExceeded)
        assert asked is None or len(told) == asked
        assert len(told) < 15
        memory = await agent.ask(rt.GetMemory())
        wanted = [call.id for step in memory.steps for call in step.calls]
        assert [step.call_id for step in memory.steps if step.kind == "tool_result"] == wanted
        model_again = await system.spawn(llm.Scripted, "done", name="well")
        del model_again
        with pytest.raises(rt.RunLimitReached) as caught:  # another run has limits of its own, and the session is well
            await agent.ask(rt.Run("more", limits=rt.TreeLimits(calls=3)))
        assert caught.value.usage is not None


async def test_a_run_has_so_many_seconds_for_itself_and_all_that_it_asks() -> None:
    async with rt.ActorSystem() as system:
        model = await system.spawn(Metered, lambda _: "hush", name="model")
        agent = await system.spawn(rt.Agent, model=model, name="agent")
        with pytest.raises(rt.RunLimitReached) as caught:
            await agent.ask(rt.Run("go", limits=rt.TreeLimits(seconds=0.1)))
        assert caught.value.limit == "tree.seconds"


async def test_a_limit_that_is_not_the_trees_own_stays_what_it_is() -> None:
    async with rt.ActorSystem() as system:
        model = await system.spawn(Metered, act_of, name="model")
        agent = await system.spawn(rt.Agent, model=model, name="agent")
        ada = system.authority.mint("ada", ["**", rt.limit(tokens=1)])
        with pytest.raises(rt.BudgetExceeded):
            await agent.ask(rt.Run("say 5", limits=rt.TreeLimits(tokens=1_000)), context=ada)
        eve = system.authority.mint("eve", ["**"])
        with pytest.raises(rt.RunLimitReached) as caught:
            await agent.ask(rt.Run("say 5", limits=rt.RunLimits(tokens=1)), context=eve)
        assert caught.value.limit == "tokens"


async def test_a_parked_run_goes_on_with_what_was_left_of_its_tree() -> None:
    @rt.tool(requires="notes.write", approval=True)
    def write(text: str) -> str:
        """Writes down.

        Args:
            text: What.
        """
        return text

    script = [llm.tool_calls(("write", {"text": str(number)})) for number in range(9)]
    async with agent_system(script, tools=[write]) as (system, agent):
        question: rt.ApprovalRequired | None = None
        request: Any = rt.Run("go", limits=rt.TreeLimits(calls=5))
        approvals: tuple[str, ...] = ()
        decided = 0
        while True:
            try:
                await agent.ask(request, approvals=approvals)
            except rt.ApprovalRequired as required:
                question = required
            except rt.RunLimitReached as reached:
                limit = reached.limit
                break
            assert question is not None
            assert question.run is not None
            [asked] = question.requests
            approvals = (await system.approvals.approve(asked.id, reviewer="boss"),)
            request = rt.Resume(question.run)
            decided += 1
        assert (limit, decided) == ("tree.calls", 2)  # the model, the tool, the model, the tool, the model: nobody is asked about the next


# -- a team ------------------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("given_by", ["team", "run"])
async def test_a_team_ends_at_the_limit_of_its_tree_and_what_members_had_answered_stays(given_by: str) -> None:
    limits = rt.TreeLimits(calls=2)
    async with rt.ActorSystem() as system:
        model = await system.spawn(Metered, act_of, name="model")
        spec = rt.Agent.spec(model=model)
        team = await system.spawn(rt.Sequential, [spec, spec, spec], name="team", **({"limits": limits} if given_by == "team" else {}))
        with pytest.raises(rt.RunLimitReached) as caught:
            await team.ask("say 5" if given_by == "team" else rt.Run("say 5", limits=limits))
        assert caught.value.limit == "tree.calls"
        memories = [(await team.ask(rt.GetMemory(path=name))).messages for name in ("0", "1", "2")]
        assert [len(one) for one in memories] == [2, 2, 0]
        assert (await team.ask(rt.GetMemory())).messages == ()


@pytest.mark.parametrize("budget", [3, 5, 9, 16])
async def test_delegates_at_once_never_make_one_call_more_than_there_are(budget: int) -> None:
    """Others' trees of delegates made 4 calls of 3, 8 of 5 and 16 of 9."""
    async with rt.ActorSystem() as system:
        model = await system.spawn(Metered, act_of, seconds=0.005, name="model")
        team = await system.spawn(Fan, {f"d{number}": leaf(model, 5) for number in range(20)}, name="team")
        ada = system.authority.mint("ada", ["**", rt.limit(calls=budget)])
        answer = await team.ask("say 5", context=ada)
        assert answer.content.count("answered") == budget
        metered: Any = model._cell.actor
        assert metered.begun == budget
        balance = await quiet(system, ada)
        assert (balance.spent.calls, balance.remaining.calls) == (budget, 0)


async def test_delegates_at_once_use_up_a_budget_of_tokens_to_the_last_and_not_one_more() -> None:
    async with rt.ActorSystem() as system:
        model = await system.spawn(Metered, act_of, seconds=0.005, name="model")
        team = await system.spawn(Fan, {f"d{number}": leaf(model, 10) for number in range(20)}, name="team")
        prompt = prompt_tokens(llm.Complete.of("say 10"))
        ada = system.authority.mint(
            "ada", ["**", rt.limit(tokens=9 * (prompt + 10) + prompt)]
        )  # for nine; the tenth has no token for its answer
        answer = await team.ask("say 10", context=ada)
        assert answer.content.count("answered") == 9
        assert (await quiet(system, ada)).spent.tokens == 9 * (prompt + 10)


async def test_planning_and_routing_are_calls_and_are_charged() -> None:
    class Planner(rt.Team):
        def __init__(self, model: Any, members: Any) -> None:
            super().__init__(members)
            self.model = model

        async def forward(self, run: rt.TeamRun) -> Any:
            plan = await run.complete(self.model, llm.Complete.of("plan 7"))
            assert plan.text
            return await run.ask("one", run.message)

    async with rt.ActorSystem() as system:
        model = await system.spawn(Metered, act_of, name="model")
        team = await system.spawn(Planner, model, {"one": leaf(model, 5)}, name="team")
        ada = system.authority.mint("ada", ["**", rt.limit(calls=3, tokens=1_000)])
        await team.ask("say 5", context=ada)
        metered: Any = model._cell.actor
        balance = await quiet(system, ada)
        assert (balance.spent.calls, balance.spent.tokens) == (2, metered.taken)
        with pytest.raises(rt.BudgetExceeded):
            await team.ask("say 5", context=ada)
        assert metered.begun == 3
        assert (await quiet(system, ada)).spent.tokens == metered.taken


async def test_a_member_that_is_stopped_in_the_middle_of_its_call_gives_back_what_it_had_reserved() -> None:
    async with rt.ActorSystem() as system, trio.open_nursery() as nursery:
        model = await system.spawn(Metered, act_of, name="model")
        member = await system.spawn(rt.Agent, model=model, name="member")
        team = await system.spawn(Fan, {"one": member}, name="team")
        ada = system.authority.mint("ada", ["**", rt.limit(tokens=1_000)])
        nursery.start_soon(partial(team.ask, "please hang", context=ada))
        metered: Any = model._cell.actor
        with trio.fail_after(5):
            while not metered.begun:
                await trio.sleep(0.001)
        assert (await balance_of(system, ada)).reserved.tokens == 1_000
        await member.stop(grace=0)
        balance = await quiet(system, ada)
        assert balance.spent.tokens == metered.taken < 100


async def test_a_team_that_is_cancelled_stops_its_members_calls_and_leaves_nothing_reserved() -> None:
    async with rt.ActorSystem() as system, trio.open_nursery() as nursery:
        model = await system.spawn(Metered, act_of, name="model")
        team = await system.spawn(Fan, {"a": rt.Agent.spec(model=model), "b": rt.Agent.spec(model=model)}, name="team")
        ada = system.authority.mint("ada", ["**", rt.limit(tokens=1_000)])

        async def ask() -> None:
            with pytest.raises(rt.RunCancelled):
                await team.ask("please hang", context=ada)

        nursery.start_soon(ask)
        metered: Any = model._cell.actor
        with trio.fail_after(5):
            while not metered.begun:
                await trio.sleep(0.001)
        assert await team.ask(rt.Cancel(), context=ada)
        balance = await quiet(system, ada)
        assert metered.at_it == 0
        assert metered.begun == 1  # the other one waited for what this one had reserved
        assert balance.spent.tokens == metered.taken


# -- faults of others --------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("streamed", [False, True], ids=["asked", "streamed"])
async def test_a_budget_of_tokens_stops_a_run_of_many_calls(streamed: bool) -> None:
    """LightAgent: with a limit of 500 tokens there were 6 calls and 5,002 tokens, of which 2 were counted; streams were never counted."""

    def again(request: llm.Complete) -> llm.Completion:
        return attrs.evolve(calls("note"), usage=llm.Usage(1, prompt_tokens(request), 120))

    async with agent_system(again, tools=[note], limits=rt.RunLimits(repeated_calls=None, bad_calls=None)) as (system, agent):
        ada = system.authority.mint("ada", ["**", rt.limit(tokens=500)])
        if streamed:
            [*_, error] = await read(agent, "go", context=ada)
        else:
            with pytest.raises(rt.BudgetExceeded) as caught:
                await agent.ask("go", context=ada)
            error = caught.value
        assert isinstance(error, rt.BudgetExceeded)
        balance = await quiet(system, ada)
        assert 200 < balance.spent.tokens <= 500


async def test_a_new_session_has_no_new_budget() -> None:
    async with agent_system("hi") as (system, agent):
        ada = system.authority.mint("ada", ["**", rt.limit(calls=3)])
        for number in range(3):
            await agent.ask(rt.AgentMessage("go", session=str(number)), context=ada)
        with pytest.raises(rt.BudgetExceeded):
            await agent.ask(rt.AgentMessage("go", session="another"), context=ada)


# -- the law -----------------------------------------------------------------------------------------------------------------------------------------

ACTS = st.sampled_from(["say 3", "say 30", "say 400", "fail", "break", "hang", "hush"])
TREES = st.recursive(ACTS, lambda inner: st.lists(inner, min_size=1, max_size=4), max_leaves=8)


def leaves_of(tree: Any) -> Iterable[str]:
    if isinstance(tree, str):
        yield tree
    else:
        for one in tree:
            yield from leaves_of(one)


class Told(rt.Team):
    """Tells its one member what this team was made to tell it."""

    def __init__(self, member: Any, what: str) -> None:
        super().__init__({"one": member})
        self.what = what

    async def forward(self, run: rt.TeamRun) -> rt.AgentMessage:
        return await run.ask("one", self.what)


def spec_of(tree: Any, model: Any) -> Any:
    if isinstance(tree, str):
        return Told.spec(leaf(model, tree), tree)
    return Fan.spec({f"m{number}": spec_of(one, model) for number, one in enumerate(tree)})


async def _grow(trees: list[Any], limits: dict[str, Any], leaving: list[int]) -> None:
    async with rt.ActorSystem() as system:
        model = await system.spawn(Metered, act_of, seconds=0.002, price=PRICE, name="model")
        cover = await system.spawn(llm.Failover, [model], name="cover")
        metered: Any = model._cell.actor
        ada = system.authority.mint("ada", ["**", rt.limit(**limits)])
        teams = [
            await system.spawn(Fan, {"only": spec_of(tree, cover if number % 2 else model)}, name=f"team{number}")
            for number, tree in enumerate(trees)
        ]

        async def use(number: int) -> None:
            leave = leaving[number % len(leaving)]
            try:
                if leave == 0:
                    await teams[number].ask("go", context=ada, timeout=5)
                elif leave == 1:
                    await teams[number].ask("go", context=ada, timeout=0.01)
                else:
                    async with teams[number].stream("go", context=ada, timeout=5) as events:
                        async for _ in events:
                            leave -= 1
                            if leave == 0:
                                break
            except (rt.RetinueError, TimeoutError):
                pass

        async with trio.open_nursery() as nursery:
            for number in range(len(trees)):
                nursery.start_soon(use, number)
        with trio.fail_after(5):
            await system.wait_quiet()  # what was left may not have ended yet
        balance = await quiet(system, ada)
        assert metered.at_it == 0
        assert balance.spent.tokens == metered.taken
        assert balance.spent.cost_micro_usd == metered.cost if "cost_usd" in limits else True
        if "calls" in limits:
            assert metered.begun <= balance.spent.calls <= limits["calls"]
            assert "tokens" in limits or "cost_usd" in limits or metered.begun == balance.spent.calls
        assert balance.spent.tokens <= limits.get("tokens", balance.spent.tokens)
        if "cost_usd" in limits:
            assert balance.spent.cost_micro_usd <= Decimal(limits["cost_usd"]) * 1_000_000


LIMITS = st.fixed_dictionaries(
    {},
    optional={
        "calls": st.integers(0, 12),
        "tokens": st.integers(0, 900),
        "cost_usd": st.integers(0, 5_000).map(lambda micro: f"0.{micro:06d}"),
    },
).filter(bool)


@settings(max_examples=8)
@given(st.lists(TREES, min_size=1, max_size=3), LIMITS, st.lists(st.integers(0, 4), min_size=1, max_size=3))
def test_no_tree_takes_more_than_its_budget_and_what_is_counted_is_what_the_model_saw(
    trees: list[Any], limits: dict[str, Any], leaving: list[int]
) -> None:
    rt.run(partial(_grow, trees, limits, leaving))


@pytest.mark.slow
@settings(max_examples=150)
@given(st.lists(TREES, min_size=1, max_size=5), LIMITS, st.lists(st.integers(0, 6), min_size=1, max_size=5))
def test_no_tree_of_many_does_either(trees: list[Any], limits: dict[str, Any], leaving: list[int]) -> None:
    rt.run(partial(_grow, trees, limits, leaving))
