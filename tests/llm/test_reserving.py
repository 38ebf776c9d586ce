"""What deployments charge to the budgets of whoever asks: the worst case before, what it took after, once each."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import trio

import retinue as rt
from metered_models import Metered, balance_of, quiet
from openai_loopback import completion, loopback
from retinue import llm
from retinue.actors.llm.reserving import LEAST_ANSWER, MOST_ANSWER, prompt_tokens

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


# -- how much ------------------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("left", "asked", "expected"),
    [
        (1_000, None, 1_000 - PROMPT),
        (LEAST_ANSWER + PROMPT, None, LEAST_ANSWER),
        (10_000 + PROMPT, None, LEAST_ANSWER),
        (4 * 6_000 + PROMPT, None, 6_000),
        (1_000_000, None, MOST_ANSWER),
        (1_000, 100, 100),
        (40_000, 30_000, 30_000),
        (1_000, 5_000, 1_000 - PROMPT),
        (PROMPT + 1, None, 1),
    ],
)
async def test_an_answer_may_have_a_fourth_of_what_is_left_but_not_less_than_4096_tokens_where_they_are_there(
    left: int, asked: int | None, expected: int
) -> None:
    async with rt.ActorSystem() as system:
        seen: list[int] = []

        def say(request: llm.Complete) -> str:
            assert request.max_tokens is not None
            seen.append(request.max_tokens)
            return "hi"

        model = await system.spawn(llm.Scripted, say, name="scripted")
        await model.ask(llm.Complete.of("hello", max_tokens=asked), context=ada(system, tokens=left))
        assert seen == [expected]


async def test_a_prompt_that_leaves_no_token_for_an_answer_is_not_sent() -> None:
    async with rt.ActorSystem() as system:
        model = await system.spawn(llm.Scripted, [], name="model")
        who = ada(system, tokens=PROMPT)
        with pytest.raises(rt.BudgetExceeded, match=rf"{PROMPT + 1} wanted, {PROMPT} left.*added by mint\(\)") as caught:
            await model.ask(HELLO, context=who)
        assert (caught.value.resource, caught.value.account, caught.value.subject) == ("tokens", who.accounts[0].id, "ada")
        with pytest.raises(rt.BudgetExceeded):
            await read(model, who)
        assert (await quiet(system, who)).spent.tokens == 0


async def test_nothing_is_changed_where_nothing_is_limited() -> None:
    async with rt.ActorSystem() as system:
        seen: list[Any] = []
        model = await system.spawn(llm.Scripted, lambda request: seen.append(request) or "hi", name="model")
        await model.ask(HELLO)
        await model.ask(HELLO, context=system.authority.mint("eve", ["**"]))
        who = ada(system, calls=10)  # there is an account, and no limit on tokens
        await model.ask(HELLO, context=who)
        assert [one.max_tokens for one in seen] == [None] * 3
        assert (await quiet(system, who)).spent.tokens > PROMPT


def test_a_prompt_is_estimated_with_all_that_is_sent() -> None:
    bare = prompt_tokens(HELLO)
    call = llm.ToolCall("1", "look_up", '{"what": "lighthouses"}')
    assert prompt_tokens(llm.Complete.of("hello", tools=(llm.ToolSpec("look_up", "Looks up what it is told."),))) > bare + 15
    assert prompt_tokens(llm.Complete.of("hello", output=llm.OutputSpec("answer", '{"type": "object", "properties": {}}'))) > bare + 10
    assert prompt_tokens(llm.Complete((llm.ChatMessage("assistant", "", (call,)),))) > 15
    assert prompt_tokens(llm.Complete((llm.ChatMessage("assistant", "", reasoning="a" * 300),))) > 100
    assert prompt_tokens(llm.Complete.of("語" * 100)) > prompt_tokens(llm.Complete.of("a" * 100)) + 60


# -- what it took --------------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("streamed", [False, True], ids=["asked", "streamed"])
@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        (llm.Usage(1, 30, 20), 50),
        (llm.Usage(1, 30, None), 1_000),
        (llm.Usage(1), 1_000),
        (llm.Usage(1, 3_000, 1), 1_000),
        (llm.Usage(1, -500, 1), 1_000),
        (llm.Usage(1, 2**80, 1), 1_000),
        (llm.Usage(1, 1.5, 1), 1_000),  # type: ignore[arg-type]
        (llm.Usage(1, 30, 20, cost_micro_usd=-5), 50),
    ],
    ids=["known", "half", "unknown", "more than there was", "below zero", "far too much", "no whole number", "a cost below zero"],
)
async def test_it_is_settled_by_the_models_usage_and_by_the_worst_case_where_it_says_nothing(
    usage: llm.Usage, tokens: int, streamed: bool
) -> None:
    class Model(llm.Deployment):
        async def complete_once(self, request: llm.Complete) -> llm.Completion:
            return llm.Completion("hi", "m", usage, "stop")

    async with rt.ActorSystem() as system:
        model = await system.spawn(Model, name="model")
        who = ada(system, tokens=1_000)
        await (read(model, who) if streamed else model.ask(HELLO, context=who))
        assert (await quiet(system, who)).spent.tokens == tokens


async def test_the_lines_of_a_script_are_charged_by_their_length() -> None:
    async with rt.ActorSystem() as system:
        model = await system.spawn(llm.Scripted, "a" * 300, name="model")
        who = ada(system, tokens=10_000)
        await model.ask(HELLO, context=who)
        assert (await quiet(system, who)).spent.tokens == PROMPT + 101


@pytest.mark.parametrize(("act", "answer"), [("fail", None), ("break", 25 // 3 + 1)])
@pytest.mark.parametrize("streamed", [False, True], ids=["asked", "streamed"])
async def test_what_fails_is_charged_as_far_as_it_came(act: str, answer: int | None, streamed: bool) -> None:
    async with rt.ActorSystem() as system:
        model = await system.spawn(Metered, lambda _: act, name="model")
        who = ada(system, tokens=1_000)
        with pytest.raises(llm.ModelFailed):
            await (read(model, who) if streamed else model.ask(HELLO, context=who))
        assert (await quiet(system, who)).spent.tokens == (0 if answer is None else PROMPT + answer)


@pytest.mark.parametrize(
    ("error", "is_taken"),
    [
        (llm.RateLimited("slowly", status=429), False),
        (llm.QuotaExceeded("no money", status=402), False),
        (llm.KeyRefused("who", status=401), False),
        (llm.ModelFailed("down", status=503), False),
        (llm.WrongEndpoint("a web page"), False),
        (llm.ScriptEnded("no more"), False),
        (llm.ModelTimeout("no first token"), True),
        (llm.ModelUnreachable("broke"), True),
        (llm.EmptyReply("nothing"), True),
        (llm.StreamTruncated("half"), True),
        (ZeroDivisionError(), False),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
async def test_a_request_that_the_model_may_have_read_is_charged_and_no_other(error: Exception, is_taken: bool) -> None:
    class Model(llm.Deployment):
        async def complete_once(self, request: llm.Complete) -> llm.Completion:
            raise error

    async with rt.ActorSystem() as system:
        model = await system.spawn(Model, name="model")
        who = ada(system, tokens=1_000)
        with pytest.raises((llm.ModelError, ZeroDivisionError, rt.RetinueError)):
            await model.ask(HELLO, context=who)
        assert (await quiet(system, who)).spent.tokens == (PROMPT if is_taken else 0)


async def test_what_had_been_said_when_it_broke_off_is_known_from_the_error() -> None:
    class Model(llm.Deployment):
        async def complete_once(self, request: llm.Complete) -> llm.Completion:
            raise llm.StreamTruncated("half", partial=llm.Completion("a" * 60, "m"))

    async with rt.ActorSystem() as system:
        model = await system.spawn(Model, name="model")
        who = ada(system, tokens=1_000)
        with pytest.raises(llm.StreamTruncated):
            await model.ask(HELLO, context=who)
        assert (await quiet(system, who)).spent.tokens == PROMPT + 21


async def test_a_stream_that_is_left_in_its_middle_is_charged_as_far_as_it_came() -> None:
    async with rt.ActorSystem() as system:
        model = await system.spawn(Metered, lambda _: "hang", name="model")
        who = ada(system, tokens=1_000)
        assert len(await read(model, who, most=2)) == 2
        assert PROMPT + 1 <= (await quiet(system, who)).spent.tokens <= PROMPT + 25 // 3 + 1


@pytest.mark.parametrize("act", ["hang", "hush"])
async def test_an_ask_that_is_cancelled_is_charged_for_what_the_model_had_read_and_said(act: str) -> None:
    async with rt.ActorSystem() as system:
        model = await system.spawn(Metered, lambda _: act, name="model")
        who = ada(system, tokens=1_000)
        with trio.move_on_after(0.05):
            await model.ask(HELLO, context=who)
        assert (await quiet(system, who)).spent.tokens == PROMPT + (25 // 3 + 1 if act == "hang" else 0)


async def test_a_deployment_that_is_stopped_in_the_middle_of_its_work_leaves_nothing_reserved() -> None:
    async with rt.ActorSystem() as system, trio.open_nursery() as nursery:
        model = await system.spawn(Metered, lambda _: "hang", name="model")
        who = ada(system, tokens=1_000)

        async def ask() -> None:
            with pytest.raises(rt.ActorStopped):
                await model.ask(HELLO, context=who)

        nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
        assert (await balance_of(system, who)).reserved.tokens == 1_000
        await model.stop(grace=0)
        assert (await quiet(system, who)).spent.tokens == PROMPT + 25 // 3 + 1


# -- attempts ------------------------------------------------------------------------------------------------------------------------------------------


class Hasty(llm.Retries):
    """Does not wait between attempts."""

    def wait(self, retry: int, asked: float | None) -> float:
        return 0.001


def answers(*acts: Any) -> Callable[[Any], Any]:
    left = list(acts)
    return lambda _: left.pop(0)


BUSY = (503, {"retry-after-ms": "1"}, b"{}")
WELL = completion("hi", usage={"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10})


@pytest.mark.parametrize("streamed", [False, True], ids=["asked", "streamed"])
@pytest.mark.parametrize(
    ("acts", "tokens"),
    [((WELL,), 10), ((BUSY, WELL), 10), ((None, WELL), PROMPT + 10), ((None, None, BUSY, WELL), 2 * PROMPT + 10)],
    ids=["at once", "refused first", "broke first", "broke twice"],
)
async def test_each_attempt_that_may_have_been_charged_is_charged(acts: tuple[Any, ...], tokens: int, streamed: bool) -> None:
    with loopback(answers(*acts)) as server:
        async with rt.ActorSystem() as system:
            model = await system.spawn(llm.OpenAICompatible, model="m", base_url=server.url, retries=Hasty(3), proxies=False, name="model")
            who = ada(system, tokens=1_000, cost_usd="1")  # on this machine it costs nothing
            await (read(model, who) if streamed else model.ask(HELLO, context=who))
            balance = await quiet(system, who)
            assert (balance.spent.tokens, balance.spent.cost_micro_usd) == (tokens, 0)
            capped = [one.json["max_tokens"] for one in server.asked]
            assert capped == sorted(capped, reverse=True)
            assert len(set(capped)) == 1 + acts.count(None)  # less is left after each that was charged


async def test_an_attempt_that_the_budget_does_not_bear_any_more_is_not_made() -> None:
    with loopback(answers(None, WELL)) as server:
        async with rt.ActorSystem() as system:
            model = await system.spawn(llm.OpenAICompatible, model="m", base_url=server.url, retries=Hasty(3), proxies=False, name="model")
            who = ada(system, tokens=PROMPT + 5)
            with pytest.raises(rt.BudgetExceeded):
                await model.ask(HELLO, context=who)
            assert len(server.asked) == 1
            assert (await quiet(system, who)).spent.tokens == PROMPT


class Patient(llm.Retries):
    """Waits for as long as an endpoint may ask for."""

    def wait(self, retry: int, asked: float | None) -> float:
        return 30.0


@pytest.mark.parametrize("streamed", [False, True], ids=["asked", "streamed"])
@pytest.mark.parametrize(("act", "taken"), [(BUSY, 0), (None, PROMPT)], ids=["refused", "broke"])
async def test_nothing_is_held_while_an_endpoint_lets_wait_for_the_next_attempt(act: Any, taken: int, streamed: bool) -> None:
    with loopback(answers(act, WELL)) as server:
        async with rt.ActorSystem() as system:
            model = await system.spawn(
                llm.OpenAICompatible, model="m", base_url=server.url, retries=Patient(3), proxies=False, name="model"
            )
            who = ada(system, tokens=1_000)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(partial(read, model, who) if streamed else partial(model.ask, HELLO, context=who))
                with trio.fail_after(10):
                    while not server.asked:
                        await trio.sleep(0.005)
                    await model.ask(HELLO, context=who)  # all that was left was reserved for the first, which waits now
                nursery.cancel_scope.cancel()
            balance = await quiet(system, who)
            assert (balance.spent.tokens, balance.reserved.tokens) == (taken + 10, 0)


async def test_an_endpoint_that_cannot_be_connected_to_costs_nothing() -> None:
    async with rt.ActorSystem() as system:
        model = await system.spawn(
            llm.OpenAICompatible, model="m", base_url="http://127.0.0.1:9/v1", retries=0, proxies=False, name="model"
        )
        who = ada(system, tokens=1_000)
        with pytest.raises(llm.ModelUnreachable):
            await model.ask(HELLO, context=who)
        assert (await quiet(system, who)).spent.tokens == 0


# -- once each -----------------------------------------------------------------------------------------------------------------------------------------


async def _pooled(system: rt.ActorSystem, member: rt.Ref[Any]) -> rt.Ref[Any]:
    return await system.spawn_pool(Metered, lambda _: 5, pool=rt.Pool.elastic(2), name="pooled")


async def _agent(system: rt.ActorSystem, member: rt.Ref[Any]) -> rt.Ref[Any]:
    return await system.spawn(rt.Agent, model=member, name="agent")


ARRANGEMENTS: dict[str, Any] = {
    "alone": lambda system, member: system.spawn(llm.Scripted, llm.Completion("hi", "m", llm.Usage(1, PROMPT, 5)), name="alone"),
    "workers": lambda system, member: _itself(member),
    "failover": lambda system, member: system.spawn(llm.Failover, [member], name="failover"),
    "pool": lambda system, member: system.spawn(llm.Pool, [member], name="pool"),
    "failover of pools": lambda system, member: _two(system, member),
    "pool of actors": _pooled,
}


async def _itself(member: rt.Ref[Any]) -> rt.Ref[Any]:
    return member


async def _two(system: rt.ActorSystem, member: rt.Ref[Any]) -> rt.Ref[Any]:
    pool = await system.spawn(llm.Pool, [member], name="inner")
    return await system.spawn(llm.Failover, [pool], name="outer")


@pytest.mark.parametrize("streamed", [False, True], ids=["asked", "streamed"])
@pytest.mark.parametrize("arrangement", ARRANGEMENTS)
async def test_one_request_is_one_call_and_charged_once_however_deployments_are_arranged(arrangement: str, streamed: bool) -> None:
    async with rt.ActorSystem() as system:
        member = await system.spawn(Metered, lambda _: 5, name="member")
        model = await ARRANGEMENTS[arrangement](system, member)
        who = ada(system, tokens=1_000, calls=3)
        for number in range(1, 4):
            await (read(model, who) if streamed else model.ask(HELLO, context=who))
            balance = await quiet(system, who)
            assert (balance.spent.calls, balance.spent.tokens) == (number, number * (PROMPT + 5))
        with pytest.raises(rt.BudgetExceeded) as caught:
            await (read(model, who) if streamed else model.ask(HELLO, context=who))
        assert caught.value.resource == "calls"


async def test_each_member_of_a_failover_that_was_asked_is_a_call_and_charges_for_itself() -> None:
    async with rt.ActorSystem() as system:
        broken = await system.spawn(Metered, lambda _: "break", name="broken")
        well = await system.spawn(Metered, lambda _: 5, name="well")
        model = await system.spawn(llm.Failover, [broken, well], name="model")
        who = ada(system, tokens=1_000, calls=10)
        await model.ask(HELLO, context=who)
        balance = await quiet(system, who)
        assert (balance.spent.calls, balance.spent.tokens) == (2, 2 * PROMPT + 9 + 5)


async def test_a_deployment_that_asks_another_one_says_so_and_is_not_charged_for_it() -> None:
    class Polite(llm.Deployment):
        charges = False

        def __init__(self, model: rt.Ref[Any]) -> None:
            super().__init__()
            self.model = model

        async def complete_once(self, request: llm.Complete) -> llm.Completion:
            return await self.model.ask(request)  # type: ignore[no-any-return]

    async with rt.ActorSystem() as system:
        member = await system.spawn(Metered, lambda _: 5, name="member")
        model = await system.spawn(Polite, member, name="model")
        who = ada(system, tokens=1_000, calls=10)
        await model.ask(HELLO, context=who)
        balance = await quiet(system, who)
        assert (balance.spent.calls, balance.spent.tokens) == (1, PROMPT + 5)


async def test_the_deployments_own_grant_is_charged_too() -> None:
    async with rt.ActorSystem() as system:
        model = await system.spawn(Metered, lambda _: 5, name="model", grant=["**", rt.limit(tokens=100)])
        for _ in range(6):
            await model.ask(HELLO)
        with pytest.raises(rt.BudgetExceeded):
            for _ in range(20):
                await model.ask(HELLO)


# -- many at once --------------------------------------------------------------------------------------------------------------------------------------


async def test_who_asks_beside_others_waits_for_what_they_have_reserved_and_nobody_is_refused() -> None:
    async with rt.ActorSystem() as system:
        model = await system.spawn(Metered, lambda _: 20, seconds=0.01, name="model")
        who = ada(system, tokens=20 * (PROMPT + 20))
        asked = 0

        async def ask() -> None:
            nonlocal asked
            await model.ask(HELLO, context=who)
            asked += 1

        async with trio.open_nursery() as nursery:
            for _ in range(20):
                nursery.start_soon(ask)
        assert asked == 20
        assert (await quiet(system, who)).remaining.tokens == 0


async def test_requests_that_say_how_long_their_answers_may_be_go_on_at_once() -> None:
    async with rt.ActorSystem() as system:
        model = await system.spawn(Metered, lambda _: 20, seconds=0.01, name="model")
        who = ada(system, tokens=8 * (PROMPT + 20))
        request = llm.Complete.of("hello", max_tokens=20)
        async with trio.open_nursery() as nursery:
            for _ in range(8):
                nursery.start_soon(partial(model.ask, request, context=who))
            await trio.testing.wait_all_tasks_blocked(0.001)
            assert (await balance_of(system, who)).remaining.tokens == 0
        assert (await quiet(system, who)).spent.tokens == 8 * (PROMPT + 20)


async def test_who_waits_is_served_in_the_order_of_coming_and_gives_up_when_its_time_is_over() -> None:
    async with rt.ActorSystem() as system:
        told: list[str] = []
        go = trio.Event()

        class Model(llm.Deployment):
            async def complete_once(self, request: llm.Complete) -> llm.Completion:
                told.append(request.messages[-1].content)
                await go.wait()
                return llm.Completion("hi", "m", llm.Usage(1, 10, 1), "stop")

        model = await system.spawn(Model, 64, name="model")
        who = ada(system, tokens=1_000)

        async def ask(word: str) -> None:
            await model.ask(llm.Complete.of(word), context=who)

        async with trio.open_nursery() as nursery:
            for word in "abcde":
                nursery.start_soon(ask, word)
                await trio.testing.wait_all_tasks_blocked(0.001)
            assert told == ["a"]
            with pytest.raises(rt.AskTimeout):
                await model.ask(llm.Complete.of("hasty"), context=who, timeout=0.02)
            go.set()
        assert told == list("abcde")
        assert (await quiet(system, who)).spent.tokens == 55


async def test_who_waits_is_refused_when_the_others_have_spent_it() -> None:
    async with rt.ActorSystem() as system:
        model = await system.spawn(Metered, lambda _: 10_000, seconds=0.02, name="model")
        who = ada(system, tokens=200)
        found: list[str] = []

        async def ask() -> None:
            try:
                await model.ask(HELLO, context=who)
                found.append("answered")
            except rt.BudgetExceeded as error:
                found.append(error.resource)

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(ask)
        assert sorted(found) == ["answered", "tokens", "tokens"]
        assert (await quiet(system, who)).spent.tokens == 200


async def test_what_a_program_has_reserved_itself_is_not_waited_for() -> None:
    async with rt.ActorSystem() as system:
        model = await system.spawn(Metered, lambda _: 5, name="model")
        who = ada(system, tokens=1_000)
        held = await system.budgets.reserve(who, tokens=1_000)
        with pytest.raises(rt.BudgetExceeded):
            await model.ask(HELLO, context=who)
        await system.budgets.release(held)
        await model.ask(HELLO, context=who)


async def test_a_context_that_is_revoked_while_it_waits_gets_nothing() -> None:
    async with rt.ActorSystem() as system, trio.open_nursery() as nursery:
        go = trio.Event()

        class Model(llm.Deployment):
            async def complete_once(self, request: llm.Complete) -> llm.Completion:
                await go.wait()
                return llm.Completion("hi", "m", llm.Usage(1, 10, 1), "stop")

        model = await system.spawn(Model, 64, name="model")
        who = ada(system, tokens=1_000)
        narrowed = who.narrow(rt.allow("model.complete"))
        ended: list[str] = []

        async def ask() -> None:
            try:
                await model.ask(HELLO, context=narrowed)
            except rt.Denied as error:
                ended.append(type(error).__name__)

        nursery.start_soon(partial(model.ask, HELLO, context=who))
        await trio.testing.wait_all_tasks_blocked(0.001)
        nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked(0.001)
        system.authority.revoke(narrowed)
        go.set()
        with trio.fail_after(5):
            while not ended:
                await trio.sleep(0.001)
        assert ended == ["Revoked"]
        assert (await quiet(system, who)).spent.tokens == 11
