"""The selector: who speaks is chosen by a model or a function, by exact names, and a choice of nobody is never somebody's turn."""

from __future__ import annotations

import json
from typing import Any

import pytest
import trio

import retinue as rt
from agent_players import Hanging, read
from pattern_players import Cast, cast, echo, parked, speakers
from retinue import llm


def pick(name: str) -> llm.Completion:
    return llm.tool_calls(("speaks_next", {"member": name}))


async def chosen(play: Cast, *choices: Any, until: Any = None, names: tuple[str, ...] = ("a", "b", "c"), **options: Any) -> Any:
    members = {name: await play.agent(name, echo(name), description=f"is {name}") for name in names}
    return await play.system.spawn(
        rt.Selector,
        members,
        model=await play.model("chooser", *choices),
        until=rt.MaxMessages(len(choices)) if until is None else until,
        name="team",
        **options,
    )


async def test_a_model_chooses_by_exact_names_and_is_told_who_is_there_and_what_was_said() -> None:
    async with cast() as play:
        team = await chosen(play, pick("b"), pick("a"), pick("c"), instructions="Be fair.")
        assert speakers(await team.ask("begin")) == ["b", "a", "c"]
        first, second = play.told["chooser"][:2]
        assert "Be fair." in first.messages[0].content and "- a: is a" in first.messages[0].content and first.messages[1].content == "begin"
        assert json.loads(first.tools[0].parameters)["properties"]["member"]["enum"] == ["a", "b", "c"]
        assert json.loads(second.tools[0].parameters)["properties"]["member"]["enum"] == ["a", "c"]  # not who has just spoken
        assert second.messages[1].content == "begin\n\nb: b(begin)" and first.tool_choice == first.tools[0].name


async def test_one_name_within_another_is_not_that_one() -> None:
    """A substring match gave the work of `finance_eu` to `finance`."""
    async with cast() as play:
        team = await chosen(play, pick("finance_eu"), "finance", names=("finance", "finance_eu"), allow_repeats=True)
        assert speakers(await team.ask("go")) == ["finance_eu", "finance"]


@pytest.mark.parametrize(
    "answer",
    [
        "I think b should speak",
        "B",
        "b or c",
        "",
        pick("d"),
        llm.tool_calls(("speaks_next", "{")),
        '{"member": ["b"]}',
        llm.tool_calls(("other", {"x": "b"})),
    ],
    ids=range(8),
)
async def test_an_answer_that_names_nobody_is_asked_for_once_more_and_then_it_is_an_error_and_nobodys_turn(answer: Any) -> None:
    """AutoGen falls back to whoever has spoken before, and nobody is told."""
    answer = answer or llm.Completion("", "m", finish_reason="stop", reasoning="hm")
    async with cast() as play:
        team = await chosen(play, answer, pick("b"), until=rt.MaxMessages(1))
        assert speakers(await team.ask("go")) == ["b"]
        assert "names nobody" in play.told["chooser"][1].messages[-1].content
    async with cast() as play:
        team = await chosen(play, answer, answer)
        with pytest.raises(rt.RoutingFailed, match="named nobody, twice"):
            await team.ask("go")
        assert not any(play.told.get(name) for name in "abc") and (await team.ask(rt.GetMemory())).items == ()


async def test_where_only_one_may_speak_no_model_is_asked() -> None:
    async with cast() as play:
        team = await chosen(play, pick("a"), until=rt.MaxMessages(4), names=("a", "b"))
        assert speakers(await team.ask("go")) == ["a", "b", "a", "b"] and len(play.told["chooser"]) == 1


async def test_a_function_chooses_and_none_ends_the_talk() -> None:
    seen: list[Any] = []

    async def choose(said: Any, names: Any) -> str | None:
        seen.append(([message.content for message in said], names))
        return names[-1] if len(said) < 3 else None

    async with cast() as play:
        team = await play.system.spawn(rt.Selector, await play.agents(a=echo("a"), b=echo("b")), choose=choose)
        answer = await team.ask("go")
        assert (speakers(answer), answer.extra["ended_by"]) == (["b", "a"], "choose")
        assert seen[0] == (["go"], ("a", "b")) and seen[1] == (["go", "b(go)"], ("a",))


@pytest.mark.parametrize(
    ("given", "told"),
    [("writr", "did you mean 'writer'"), (3, "gave 3"), (True, "gave True"), (None, "nobody")],
    ids=["near", "number", "true", "none"],
)
async def test_a_function_that_names_nobody_is_a_typed_error(given: Any, told: str) -> None:
    async with cast() as play:
        team = await play.system.spawn(rt.Selector, await play.agents(writer=echo("w"), critic=echo("c")), choose=lambda *_: given)
        with pytest.raises(rt.RoutingFailed, match=told):
            await team.ask("go")


async def test_who_is_paused_cannot_be_chosen() -> None:
    async with cast() as play:
        team = await chosen(play, pick("b"), pick("c"), until=rt.MaxMessages(1))
        await team.ask(rt.PauseMember("b"))
        assert speakers(await team.ask("go")) == ["c"]
        for name in "ac":
            await team.ask(rt.PauseMember(name))
        with pytest.raises(rt.RoutingFailed, match="paused"):
            await team.ask("go")


async def test_a_talk_that_goes_on_after_a_person_has_decided_asks_the_chooser_nothing_twice() -> None:
    @rt.tool(approval=True)
    def sign() -> str:
        """Signs."""
        return "signed"

    calls: list[int] = []

    def choose(said: Any, names: Any) -> str | None:
        calls.append(len(said))
        return ["a", "b", None][len(said) - 1]

    async with cast() as play:
        members = {"a": await play.agent("a", "one"), "b": await play.agent("b", llm.tool_calls(("sign", {})), "done", tools=[sign])}
        by_model = await play.system.spawn(
            rt.Selector, members, model=await play.model("chooser", pick("a"), "b"), until=rt.TextMention("done"), allow_repeats=True
        )
        again = {"a": await play.agent("a2", "one"), "b": await play.agent("b2", llm.tool_calls(("sign", {})), "done", tools=[sign])}
        by_function = await play.system.spawn(rt.Selector, again, choose=choose)
        for team in (by_model, by_function):
            waiting = await parked(team)
            token = await play.system.approvals.approve(waiting.requests[0].id, reviewer="carol")
            assert speakers(await team.ask(rt.Resume(waiting.run or ""), approvals=[token])) == ["a", "b"]
        assert len(play.told["chooser"]) == 2 and calls == [1, 2, 3] and len(play.told["a"]) == 1


async def test_calls_that_choose_count_in_the_budget_and_in_the_tokens_of_the_talk() -> None:
    async with cast() as play:
        team = await chosen(play, lambda _: pick("a"), until=rt.MaxMessages(50), limits=rt.TreeLimits(calls=5), allow_repeats=True)
        with pytest.raises((rt.RunLimitReached, rt.BudgetExceeded)):
            await team.ask("go")
        assert len(play.told["chooser"]) + len(play.told["a"]) <= 5

    def costing(text: str = "", name: str = "") -> llm.Completion:
        return llm.Completion(text, "m", llm.Usage(1, 10, 5), "stop", pick(name).tool_calls if name else ())

    async with cast() as play:
        members = {name: await play.agent(name, lambda _: costing("x")) for name in "ab"}
        model = await play.model("chooser", lambda _: costing(name="a"))
        team = await play.system.spawn(rt.Selector, members, model=model, until=rt.TokensUsed(60), allow_repeats=True)
        answer = await team.ask("go")
        assert (answer.extra["ended_by"], answer.extra["turns"]) == ("TokensUsed(60)", 2)


async def test_an_error_of_the_model_that_chooses_is_the_runs_error_and_its_type_stays() -> None:
    async with cast() as play:
        team = await chosen(play, llm.ModelFailed("503"), until=rt.MaxMessages(2))
        with pytest.raises(llm.ModelFailed):
            await team.ask("go")


async def test_a_cancel_reaches_the_model_that_chooses() -> None:
    async with cast() as play:
        began, ended = trio.Event(), trio.Event()
        hanging = await play.system.spawn(Hanging, began, ended, name="hanging")
        team = await play.system.spawn(rt.Selector, await play.agents(a=echo("a"), b=echo("b")), model=hanging, until=rt.MaxMessages(2))
        async with trio.open_nursery() as nursery:

            async def run() -> None:
                with pytest.raises(rt.RunCancelled):
                    await team.ask("go")

            nursery.start_soon(run)
            await began.wait()
            await team.ask(rt.Cancel())
            with trio.fail_after(20):
                await ended.wait()


async def test_streamed_it_tells_the_members_words_and_nothing_of_the_choosing() -> None:
    async with cast() as play:
        events = await read(await chosen(play, pick("c"), pick("b")), "go")
    names = {path for path, _ in map(rt.innermost, events)}
    assert names == {("b",), ("c",), ()} and isinstance(events[-1], rt.RunEnd)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, "give model="),
        ({"model": "scripted:a", "choose": len}, "not both"),
        ({"model": "scripted:a"}, "say when the talk is over"),
        ({"choose": 3}, "a function of what was said"),
        ({"model": 3, "until": rt.MaxMessages(1)}, "deployment's ref"),
        ({"choose": lambda said, names: None, "instructions": 3}, "give a str"),
        ({"choose": lambda said, names: None, "max_turns": 0}, "give a whole number"),
    ],
    ids=range(7),
)
async def test_what_cannot_be_one_is_refused_to_the_spawner(options: dict[str, Any], told: str) -> None:
    async with cast() as play:
        with pytest.raises(rt.DefinitionError, match=told):
            await play.system.spawn(rt.Selector, {"a": rt.Agent.spec(model="scripted:x")}, **options)


async def test_a_talk_of_ones_own_says_who_speaks_next() -> None:
    class Twice(rt.GroupChat):
        """Each speaks twice in a row."""

        async def next_speaker(self, chat: rt.Chat) -> str | None:
            turn = len(chat.said)
            return chat.run.members[turn // 2] if turn < 2 * len(chat.run.members) else None

    async with cast() as play:
        team = await play.system.spawn(Twice, await play.agents(a=echo("a"), b=echo("b")))
        assert speakers(await team.ask("go")) == ["a", "a", "b", "b"]
