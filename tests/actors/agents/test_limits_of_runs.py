"""Limits: looked at before each call, settled after it, and never a success."""

from __future__ import annotations

from typing import Any

import pytest

import retinue as rt
from agent_players import agent_system, calls, read, results, said_to
from retinue import llm


async def note() -> str:
    """Notes."""
    return "noted"


def costing(text: str, *, prompt: int | None = 10, answer: int | None = 5, cost: int | None = None) -> llm.Completion:
    return llm.Completion(text, "m", llm.Usage(1, prompt, answer, cost_micro_usd=cost), "stop")


def calling(**usage: Any) -> llm.Completion:
    one = calls("note")
    return llm.Completion(
        "", "m", llm.Usage(1, usage.get("prompt", 10), usage.get("answer", 5), cost_micro_usd=usage.get("cost")), None, one.tool_calls
    )


async def reached(agent: Any, message: Any = "go", **options: Any) -> rt.RunLimitReached:
    with pytest.raises(rt.RunLimitReached) as caught:
        await agent.ask(message, **options)
    return caught.value


async def test_more_model_calls_than_are_allowed_stop_the_run_and_what_it_did_is_kept_as_a_valid_history() -> None:
    told: list[llm.Complete] = []
    async with agent_system([calls("note")] * 3 + said_to(told, "ok"), tools=[note], limits=rt.RunLimits(model_calls=3)) as (_, agent):
        error = await reached(agent)
        assert (error.limit, error.usage.requests) == ("model_calls", 3) and "RunLimits(model_calls=" in str(error)
        memory = await agent.ask(rt.GetMemory())
        assert len(results(memory)) == 3 and memory.messages[-1].partial
        await agent.ask("go on")
    assert [each.role for each in told[0].messages] == ["user", *["assistant", "tool"] * 3, "user"]


async def test_more_tool_calls_than_are_allowed_are_not_carried_out_and_each_has_a_result() -> None:
    ran: list[int] = []

    async def count() -> str:
        """Counts."""
        ran.append(1)
        return "counted"

    async with agent_system([calls("count", "count", "count")], tools=[count], limits=rt.RunLimits(tool_calls=2)) as (_, agent):
        assert (await reached(agent)).limit == "tool_calls" and ran == []
        assert [(step.ok, "tool_calls" in step.text) for step in results(await agent.ask(rt.GetMemory()))] == [(False, True)] * 3


async def test_bad_calls_of_all_kinds_have_one_budget() -> None:
    script = [calls("nothing"), llm.tool_calls(("note", "{")), calls("nothing")]
    async with agent_system(script, tools=[note], limits=rt.RunLimits(bad_calls=2)) as (_, agent):
        assert (await reached(agent)).limit == "bad_calls"


async def test_tokens_are_reserved_before_a_call_so_that_the_answer_can_be_no_longer_than_what_is_left() -> None:
    told: list[llm.Complete] = []
    async with agent_system(
        said_to(told, calling(prompt=400, answer=100), costing("done")), tools=[note], limits=rt.RunLimits(tokens=1000)
    ) as (_, agent):
        await agent.ask("go")
    assert told[0].max_tokens is not None and 900 < told[0].max_tokens < 1000
    assert told[1].max_tokens is not None and 400 < told[1].max_tokens < 500


async def test_a_prompt_that_is_more_than_the_tokens_that_are_left_is_never_sent() -> None:
    told: list[llm.Complete] = []
    async with agent_system(said_to(told, "never"), limits=rt.RunLimits(tokens=1000)) as (_, agent):
        assert (await reached(agent, "word " * 2000)).limit == "tokens"
        assert told == [] and (await agent.ask(rt.GetMemory())).items == ()


async def test_a_prompt_in_a_script_of_which_each_character_is_a_token_is_not_taken_for_a_short_one() -> None:
    async with agent_system(["never"], limits=rt.RunLimits(tokens=500)) as (_, agent):
        with pytest.raises(rt.RunLimitReached, match="tokens"):
            await agent.ask("世" * 600)


async def test_under_a_limit_of_tokens_a_model_that_does_not_count_them_is_not_asked_again() -> None:
    async with agent_system([calls("note"), "never"], tools=[note], limits=rt.RunLimits(tokens=10_000)) as (_, agent):
        error = await reached(agent)
        assert error.limit == "tokens" and "does not say how many" in str(error)


async def test_the_cost_is_added_up_and_stops_the_run() -> None:
    script = [calling(cost=400), calling(cost=400), costing("never", cost=400)]
    async with agent_system(script, tools=[note], limits=rt.RunLimits(cost_micro_usd=1000)) as (_, agent):
        error = await reached(agent)
        assert (error.limit, error.usage.cost_micro_usd) == ("cost_micro_usd", 800)


async def test_under_a_limit_of_cost_a_model_of_unknown_price_is_refused_and_unknown_is_never_nothing() -> None:
    async with agent_system([calling(), costing("never")], tools=[note], limits=rt.RunLimits(cost_micro_usd=1000)) as (_, agent):
        error = await reached(agent)
        assert error.limit == "cost_micro_usd" and "price=llm.Price(" in str(error) and error.usage.cost_micro_usd is None
        assert "cannot keep its limit" in str(error) and "Give more" not in str(error)


async def test_a_limit_of_cost_is_kept_by_the_price_that_the_model_was_given() -> None:
    async with rt.ActorSystem() as system:
        lines = [calling(prompt=100, answer=10)] * 5
        model = await system.spawn(llm.Scripted, lines, price=llm.Price("1", "10"), name="model")
        agent = await system.spawn(rt.Agent, model=model, tools=[note], limits=rt.RunLimits(cost_micro_usd=500), name="agent")
        error = await reached(agent)
        assert (error.limit, error.usage.cost_micro_usd) == ("cost_micro_usd", 400) and "Give more with RunLimits" in str(error)


async def test_a_run_can_ask_for_less_than_the_agent_allows_and_never_for_more() -> None:
    async with agent_system([calls("note")] * 10, tools=[note], limits=rt.RunLimits(model_calls=3)) as (_, agent):
        assert (await reached(agent, rt.Run("go", limits=rt.RunLimits(model_calls=1)))).usage.requests == 1
        assert (await reached(agent, rt.Run("go", limits=rt.RunLimits(model_calls=50)))).usage.requests == 3


async def test_streams_have_the_same_limits() -> None:
    async with agent_system([calls("note")] * 3, tools=[note], limits=rt.RunLimits(model_calls=2)) as (_, agent):
        error = (await read(agent, "go"))[-1]
        assert isinstance(error, rt.RunLimitReached) and error.limit == "model_calls"
        assert len(results(await agent.ask(rt.GetMemory()))) == 2


async def test_seconds_are_the_whole_runs_the_waiting_for_tools_included(autojump_clock: Any) -> None:
    import trio

    async def slow() -> str:
        """Slow."""
        await trio.sleep(7)
        return "slow"

    async with agent_system([calls("slow")] * 3, tools=[slow], limits=rt.RunLimits(seconds=10)) as (_, agent):
        began = trio.current_time()
        error = await reached(agent)
        assert error.limit == "seconds" and trio.current_time() - began == pytest.approx(10, abs=0.5)
        memory = await agent.ask(rt.GetMemory())
        assert [step.ok for step in results(memory)] == [True, False]


async def test_what_the_authority_may_spend_is_reserved_and_settled() -> None:
    async with agent_system([costing("one", prompt=100, answer=50), costing("two", prompt=100, answer=50)]) as (system, agent):
        ada = system.authority.mint("ada", ["**", rt.limit(tokens=400)])
        await agent.ask("hi", context=ada)
        [balance] = await system.budgets.balance(ada)
        assert (balance.spent.tokens, balance.reserved.tokens) == (150, 0)
        with pytest.raises(rt.BudgetExceeded):
            await agent.ask("word " * 1000, context=ada)
        [balance] = await system.budgets.balance(ada)
        assert (balance.spent.tokens, balance.reserved.tokens) == (150, 0)


async def test_a_failed_call_gives_back_what_was_reserved_for_it() -> None:
    async with agent_system([llm.ModelFailed("no", status=503), costing("one", prompt=100, answer=50)]) as (system, agent):
        ada = system.authority.mint("ada", ["**", rt.limit(tokens=400)])
        with pytest.raises(llm.ModelFailed):
            await agent.ask("hi", context=ada)
        [balance] = await system.budgets.balance(ada)
        assert (balance.spent.tokens, balance.reserved.tokens) == (0, 0)


@pytest.mark.parametrize(
    "bad",
    [{"model_calls": 0}, {"tokens": -1}, {"seconds": "1"}, {"tool_calls": True}, {"seconds": float("inf")}, {"seconds": float("nan")}],
)
def test_limits_that_are_none_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="RunLimits"):
        rt.RunLimits(**bad)


async def test_the_same_call_with_the_same_result_is_not_run_for_ever_and_the_model_is_told() -> None:
    ran: list[int] = []

    async def same(what: str) -> str:
        """The same.

        Args:
            what: What.
        """
        ran.append(1)
        return "same"

    script = [llm.tool_calls(("same", '{"what": "x"}')), llm.tool_calls(("same", '{ "what":"x" }'))] * 5
    async with agent_system(script, tools=[same]) as (_, agent):
        events = await read(agent, "go")
        steps = results(await agent.ask(rt.GetMemory()))
    assert isinstance(events[-1], rt.RunLimitReached) and events[-1].limit == "repeated_calls"
    assert len(ran) == 3 and "with these very arguments" in steps[3].text and not steps[3].ok
    assert any(isinstance(event, rt.Notice) and event.kind == "loop" for event in events)


async def test_a_call_that_gives_something_else_each_time_may_be_repeated() -> None:
    left = iter(range(20))

    async def poll() -> str:
        """Polls."""
        return str(next(left))

    async with agent_system([*[calls("poll")] * 10, "done"], tools=[poll]) as (_, agent):
        assert (await agent.ask("go")).content == "done"
