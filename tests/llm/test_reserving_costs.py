"""What deployments charge in money: the worst case by the price, and what an answer cost."""

from __future__ import annotations

from typing import Any

import pytest
import trio

import retinue as rt
from metered_models import Metered, quiet
from retinue import llm
from retinue.actors.llm.reserving import prompt_tokens

HELLO = llm.Complete.of("hello")
PROMPT = prompt_tokens(HELLO)


def ada(system: rt.ActorSystem, **limits: Any) -> Any:
    return system.authority.mint("ada", ["**", rt.limit(**limits)])


async def read(model: rt.Ref[Any], context: Any, most: int = 100, request: llm.Complete = HELLO) -> list[llm.ModelEvent]:
    found: list[llm.ModelEvent] = []
    async with model.stream(request.as_stream(), context=context) as events:
        async for event in events:
            found.append(event)
            if len(found) == most:
                break
    return found


PRICE = llm.Price("2", "8")  # dollars for a million tokens, and so millionths for one


async def test_a_cost_is_reserved_by_the_price_and_caps_the_answer() -> None:
    async with rt.ActorSystem() as system:
        model = await system.spawn(Metered, lambda _: 10_000, price=PRICE, name="model")
        who = ada(system, cost_usd="0.001")
        await model.ask(HELLO, context=who)
        most = (1_000 - 2 * PROMPT) // 8
        balance = await quiet(system, who)
        assert balance.spent.cost_micro_usd == 2 * PROMPT + 8 * most <= 1_000
        with pytest.raises(rt.BudgetExceeded) as caught:
            await model.ask(HELLO, context=who)
        assert caught.value.resource == "cost"
        assert (await quiet(system, who)).spent.cost_micro_usd == balance.spent.cost_micro_usd


async def test_the_dearest_answer_of_many_at_once_never_costs_more_than_there_is() -> None:
    async with rt.ActorSystem() as system:
        model = await system.spawn(Metered, lambda _: 10_000, price=PRICE, seconds=0.01, name="model")
        who = ada(system, cost_usd="0.5", tokens=50_000)

        async def ask() -> None:
            try:
                await model.ask(HELLO, context=who)
            except rt.BudgetExceeded:
                pass

        async with trio.open_nursery() as nursery:
            for _ in range(30):
                nursery.start_soon(ask)
        balance = await quiet(system, who)
        assert 400_000 < balance.spent.cost_micro_usd <= 500_000 or balance.spent.tokens > 49_000


@pytest.mark.parametrize("streamed", [False, True], ids=["asked", "streamed"])
async def test_a_model_whose_price_is_not_known_is_refused_where_cost_is_limited(streamed: bool) -> None:
    async with rt.ActorSystem() as system:
        model = await system.spawn(Metered, lambda _: 5, name="model")
        who = ada(system, cost_usd="1")
        with pytest.raises(rt.BudgetExceeded, match=r"not known.*llm\.Price") as caught:
            await (read(model, who) if streamed else model.ask(HELLO, context=who))
        assert (caught.value.resource, caught.value.subject) == ("cost", "ada")
        await model.ask(HELLO, context=ada(system, tokens=1_000))


async def test_an_answer_that_says_its_own_cost_is_settled_by_it() -> None:
    line = llm.Completion("hi", "m", llm.Usage(1, 10, 10, cost_micro_usd=77), "stop")
    async with rt.ActorSystem() as system:
        model = await system.spawn(llm.Scripted, line, price=PRICE, name="model")
        who = ada(system, cost_usd="1")
        await model.ask(HELLO, context=who)
        assert (await quiet(system, who)).spent.cost_micro_usd == 77


async def test_an_endpoints_price_is_that_of_the_installed_list_or_the_one_that_is_given() -> None:
    pytest.importorskip("genai_prices")
    async with rt.ActorSystem() as system:
        for number, (options, cost) in enumerate(
            (
                ({"model": "gpt-4.1"}, 1_000_000 * 2 + 1_000 * 8),
                ({"model": "no-such"}, None),
                ({"model": "no-such", "price": PRICE}, 2_008_000),
            )
        ):
            model = await system.spawn(
                llm.OpenAICompatible, base_url="https://api.openai.com/v1", api_key="k", proxies=False, name=f"m{number}", **options
            )
            deployment: Any = model._cell.actor
            tariff = await deployment.tariff(1_000_000)
            assert (None if tariff is None else tariff.cost(1_000) // 10 * 10) == cost


@pytest.mark.parametrize(
    ("price", "error"),
    [(("0.1", 0.2), TypeError), (("a", "1"), ValueError), (("-1", "1"), ValueError), (("NaN", "1"), ValueError), ((True, 1), TypeError)],
    ids=["float", "no number", "below zero", "no number at all", "bool"],
)
def test_what_is_no_price_is_refused(price: tuple[Any, Any], error: type[Exception]) -> None:
    with pytest.raises(error, match="million tokens"):
        llm.Price(*price)


async def test_what_is_no_price_is_refused_by_deployments() -> None:
    async with rt.ActorSystem() as system:
        with pytest.raises(TypeError, match=r"llm\.Price"):
            await system.spawn(llm.Scripted, "hi", price="0.5", name="model")


@pytest.mark.parametrize("streamed", [False, True])
async def test_tokens_that_no_answer_can_have_taken_at_their_price_count_as_the_worst_case(streamed: bool) -> None:
    def say(request: llm.Complete) -> llm.Completion:
        return llm.Completion("hello", "demo", llm.Usage(1, 2**62 - 1, 2**62 - 1), "stop")

    async with rt.ActorSystem() as system:
        model = await system.spawn(llm.Scripted, say, price=llm.Price("1", "4"))
        context = ada(system, tokens=50_000, cost_usd="10")
        if streamed:
            assert await read(model, context)
        else:
            assert (await model.ask(HELLO, context=context)).text == "hello"
        [balance] = await system.budgets.balance(context)
        assert balance.reserved.tokens == balance.reserved.cost_micro_usd == 0
        assert 0 < balance.spent.cost_micro_usd < 10_000_000


class Own(llm.Deployment):
    price = PRICE

    async def complete_once(self, request: llm.Complete) -> llm.Completion:
        return llm.Completion("hi", "m", llm.Usage(1, 120, 30), "stop")


def said(_request: llm.Complete) -> llm.Completion:
    return llm.Completion("hi", "m", llm.Usage(1, 120, 30), "stop")


class Said(llm.Deployment):
    price = PRICE

    def __init__(self, line: llm.Completion) -> None:
        super().__init__()
        self.line = line

    async def complete_once(self, request: llm.Complete) -> llm.Completion:
        return self.line


async def told_costs(model: rt.Ref[Any], **options: Any) -> tuple[int | None, int | None]:
    """What an answer says that it cost, whole and streamed."""
    whole = await model.ask(HELLO, **options)
    last = (await read(model, options.get("context")))[-1]
    assert isinstance(last, llm.Completed)
    return whole.usage.cost_micro_usd, last.completion.usage.cost_micro_usd


@pytest.mark.parametrize("limited", [False, True], ids=["nothing is limited", "cost is limited"])
async def test_an_answer_says_what_it_has_cost_by_the_price_that_its_deployment_was_given(limited: bool) -> None:
    async with rt.ActorSystem() as system:
        for number, model in enumerate([await system.spawn(llm.Scripted, said, price=PRICE), await system.spawn(Own)]):
            who = system.authority.mint(f"ada{number}", ["**", rt.limit(cost_usd="1")] if limited else ["**"])
            assert await told_costs(model, context=who) == (120 * 2 + 30 * 8,) * 2
            if limited:
                assert (await quiet(system, who)).spent.cost_micro_usd == 2 * (120 * 2 + 30 * 8)
        assert await told_costs(await system.spawn(llm.Scripted, said)) == (None, None)


async def test_a_text_of_a_script_with_a_price_costs_what_a_budget_is_charged_and_its_tokens_stay_unknown() -> None:
    async with rt.ActorSystem() as system:
        model = await system.spawn(llm.Scripted, "some words", price=PRICE)
        who = ada(system, cost_usd="1")
        usage = (await model.ask(HELLO, context=who)).usage
        assert usage.prompt_tokens is None
        assert 0 < usage.cost_micro_usd == (await quiet(system, who)).spent.cost_micro_usd
        assert (await model.ask(HELLO)).usage == usage


@pytest.mark.parametrize(("own", "cost"), [(77, 77), (None, None)], ids=["it says its cost", "its tokens cannot be"])
async def test_a_cost_that_an_answer_says_stays_and_none_is_made_of_impossible_tokens(own: int | None, cost: int | None) -> None:
    line = llm.Completion("hi", "m", llm.Usage(1, 10, 10 if own else -5, cost_micro_usd=own), "stop")
    async with rt.ActorSystem() as system:
        model = await system.spawn(Said, line)
        assert (await model.ask(HELLO)).usage.cost_micro_usd == cost


async def test_what_was_taken_beyond_what_was_left_is_logged_by_what_it_is(caplog: pytest.LogCaptureFixture) -> None:
    line = llm.Completion("hi", "m", llm.Usage(1, 100, 950, cost_micro_usd=1_500), "stop")
    async with rt.ActorSystem() as system:
        model = await system.spawn(Said, line)
        for limits, told in [({"tokens": 1_000}, "took 50 tokens more"), ({"cost_usd": "0.0005"}, "took 0.001 US dollars more")]:
            caplog.clear()
            await model.ask(HELLO, context=ada(system, **limits))
            assert told in caplog.text


def test_where_nothing_costs_anything_the_cost_is_nothing_also_of_unknown_tokens() -> None:
    assert llm.Price(0, 0).of(llm.Usage()) == 0
    assert llm.Price(0, 1).of(llm.Usage()) is None
    assert llm.Local.price == llm.Price(0, 0)
