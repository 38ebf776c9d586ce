"""Functions that teams are given: one that cannot be called as it will be is named where it is given, with what it is called with, and nothing has begun then."""

from __future__ import annotations

import functools
from typing import Any

import pytest

import retinue as rt
from team_players import Echo, Made

SPEC = rt.Agent.spec(model="scripted:hi")


def nothing() -> Any:
    return None


def two(one: Any, other: Any) -> Any:
    return None


def three(one: Any, other: Any, third: Any = "a secret") -> Any:
    return None


class Callable:
    def __call__(self) -> Any:
        return None


WRONG = {
    "combine": (rt.Parallel, {"members": [SPEC], "combine": nothing}, r"Parallel\(combine=…\).*nothing\(\).*with the answers by name"),
    "object": (rt.Parallel, {"members": [SPEC], "combine": Callable()}, r"Parallel\(combine=…\).*the function Callable\(\)"),
    "reducer": (rt.MapReduce, {"mapper": SPEC, "reducer": two}, r"MapReduce\(reducer=…\).*two\(one, other\).*with the results in order"),
    "split": (rt.MapReduce, {"mapper": SPEC, "reducer": SPEC, "split": nothing}, r"MapReduce\(split=…\).*with the message"),
    "choose": (rt.Selector, {"members": [SPEC], "choose": lambda said: None}, r"Selector\(choose=…\).*with what was said and the names"),
    "vote": (rt.Debate, {"members": [SPEC, SPEC], "vote": three}, r"Debate\(vote=…\).*three\(one, other, third\).*with an answer"),
    "hook": (rt.Swarm, {"members": [SPEC], "hooks": [rt.hook("on_handoff")(nothing)]}, r"the hook 'nothing' at on_handoff.*with a context"),
}


@pytest.mark.parametrize("which", WRONG)
async def test_a_function_that_cannot_be_called_as_it_will_be_is_refused_to_the_spawner(which: str) -> None:
    kind, options, told = WRONG[which]
    async with rt.ActorSystem("slips") as system:
        with pytest.raises(rt.DefinitionError, match=told) as caught:
            await system.spawn(kind, **options)
    assert "let it take" in str(caught.value) and "secret" not in str(caught.value)


async def test_a_function_that_a_decorator_gives_more_arguments_is_called_as_the_decorator_takes_them() -> None:
    def with_a_sign(function: Any) -> Any:
        @functools.wraps(function)
        def wrapper(*given: Any) -> Any:
            return function("!", *given)

        return wrapper

    @with_a_sign
    def shout(sign: str, answers: Any) -> str:
        return "".join(f"{answer.text}{sign}" for answer in answers.values())

    async with rt.ActorSystem("slips") as system:
        assert (await (await system.spawn(rt.Parallel, [SPEC], combine=shout)).ask("x")).content == "hi!"


def test_conditions_and_rules_are_looked_at_where_they_are_made() -> None:
    with pytest.raises(rt.DefinitionError, match=r"When\(…\) is given the function nothing\(\), and calls it with the talk"):
        rt.When(nothing)
    with pytest.raises(rt.DefinitionError, match=r"Rules: rule 2 is given the function two\(one, other\), and calls it with the message"):
        rt.Rules(("x", "a"), (two, "a"))


@pytest.mark.parametrize("function", [two, lambda one: one, functools.partial(two, 1)], ids=["two", "lambda", "partial"])
async def test_what_a_run_is_to_decide_or_to_do_at_once_takes_no_arguments(function: Any) -> None:
    asked: list[Any] = []

    async def forward(run: rt.TeamRun) -> Any:
        if run.message.content == "decide":
            return await run.decide(function)
        return await run.together([functools.partial(run.ask, "0", "x"), function])

    async with rt.ActorSystem("slips") as system:
        team = await system.spawn(Made, [await system.spawn(Echo, asked)], forward, name="team")
        for content in ("decide", "together"):
            with pytest.raises(
                rt.BadInput, match=rf"/user/team: run\.{content}.*calls it with nothing.*give (a function|functions) without arguments"
            ):
                await team.ask(content)
        assert not asked


async def test_a_type_error_of_a_functions_own_stays_what_it_is() -> None:
    def decides() -> Any:
        return two(1)  # type: ignore[call-arg]

    async def forward(run: rt.TeamRun) -> Any:
        return await run.decide(decides)

    async with rt.ActorSystem("slips") as system:
        team = await system.spawn(Made, [SPEC], forward)
        with pytest.raises(TypeError, match="missing 1 required positional argument") as caught:
            await team.ask("x")
        assert not isinstance(caught.value, rt.RetinueError)


async def test_functions_that_take_more_by_default_or_do_not_say_what_they_take_are_fine() -> None:
    async with rt.ActorSystem("slips") as system:
        team = await system.spawn(rt.Parallel, [SPEC], combine=lambda answers, sep=" ": sep.join(each.content for each in answers.values()))
        assert (await team.ask("x")).content == "hi"
        assert (await (await system.spawn(rt.Parallel, [SPEC], combine=str)).ask("x")).content
        assert (await (await system.spawn(rt.Parallel, [SPEC], combine=lambda *answers: "y")).ask("x")).content == "y"


@pytest.mark.parametrize("option", ["instructions", "aggregator"])
async def test_an_agents_own_functions_are_looked_at_too(option: str) -> None:
    async with rt.ActorSystem("slips") as system:
        with pytest.raises(
            rt.DefinitionError, match=rf"Agent\({option}=…\) is given the function two\(one, other\), and calls it with the conversation"
        ):
            await system.spawn(rt.Agent, model="scripted:hi", **{option: two})
