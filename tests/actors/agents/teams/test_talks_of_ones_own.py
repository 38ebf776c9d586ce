"""Conditions, turns and runs of an author's own: what is right works, plain or async, and what is not is named with what would be right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import pytest

import retinue as rt

MEMBERS = {"ann": rt.Agent.spec(model="scripted:x"), "ben": rt.Agent.spec(model="scripted:y")}


class Enough(rt.Termination):
    def met(self, talk: rt.Talk) -> bool:
        return len(talk.said) >= 4


@attrs.frozen
class Count(rt.Termination):
    least: int

    def met(self, talk: rt.Talk) -> bool:
        return len(talk.said) >= self.least


class Told(rt.Termination):
    def met(self, talk: rt.Talk) -> str | None:
        return "told enough" if len(talk.said) >= 2 else None


class Odd(rt.Termination):
    def met(self, talk: rt.Talk) -> Any:
        return len(talk.said)


class Nameless(rt.Termination):
    def meet(self, talk: rt.Talk) -> bool:
        return True


class Later(rt.Termination):
    async def met(self, talk: rt.Talk) -> bool:  # type: ignore[override]
        return True


class Alone(rt.Termination):
    def met(self) -> bool:  # type: ignore[override]
        return True


class Broken(rt.Termination):
    def met(self, talk: rt.Talk) -> bool:
        raise KeyError("lost")


ENDS = {
    "bool": (Enough(), "Enough()", 4),
    "attrs": (Count(3), "Count(least=3)", 3),
    "text": (Told(), "told enough", 2),
    "or": (rt.MaxMessages(9) | Enough(), "Enough()", 4),
    "and": (Count(2) & Enough(), "Count(least=2) & Enough()", 4),
    "mixed": (rt.MaxMessages(3) & Enough(), "MaxMessages(3) & Enough()", 4),
}


async def talk(until: Any, kind: Any = rt.RoundRobin) -> dict[str, Any]:
    async with rt.ActorSystem("talks") as system:
        team = await system.spawn(kind, MEMBERS, until=until, max_turns=12)
        answer = await team.ask("hi")
        extra: dict[str, Any] = answer.extra
        return extra


@pytest.mark.parametrize("which", ENDS)
async def test_a_condition_of_ones_own_ends_the_talk_when_it_is_true(which: str) -> None:
    until, told, turns = ENDS[which]
    extra = await talk(until)
    assert (extra["ended_by"], extra["turns"]) == (told, turns)


@pytest.mark.parametrize("until", [Odd(), Odd() | rt.MaxMessages(3), rt.MaxMessages(1) & Odd()], ids=repr)
async def test_a_condition_that_says_neither_ends_the_run_with_its_class_named(until: rt.Termination) -> None:
    with pytest.raises(rt.DefinitionError, match=r"Odd\.met gave a int: return True or False"):
        await talk(until)


@pytest.mark.parametrize(
    ("until", "told"),
    [
        (Nameless(), r"Nameless has no met: define `def met\(self, talk: rt\.Talk\) -> bool`"),
        (Nameless() | Enough(), "Nameless has no met"),
        (Later(), r"Later\.met is an async function: .*a plain function"),
        (Alone(), r"Alone\.met\(self\) is called with the talk"),
        (rt.MaxMessages, r"RoundRobin\(until=…\) is the class MaxMessages, without its brackets: give MaxMessages\(…\)"),
        (len, r"give rt\.When\(function\)"),
    ],
)
async def test_what_is_no_condition_is_refused_to_the_spawner(until: Any, told: str) -> None:
    with pytest.raises(rt.DefinitionError, match=told):
        await talk(until)


def test_a_class_that_is_joined_is_told_as_one() -> None:
    with pytest.raises(rt.DefinitionError, match=r"a condition \| the class MaxMessages"):
        Enough() | rt.MaxMessages  # type: ignore[operator]
    with pytest.raises(rt.DefinitionError, match="the class MaxMessages is no condition"):
        rt.AnyOf((rt.MaxMessages,))  # type: ignore[arg-type]


async def test_what_a_condition_raises_says_that_it_was_raised_there() -> None:
    with pytest.raises(KeyError) as caught:
        await talk(Broken() | rt.MaxMessages(3))
    assert "raised in the condition Broken" in caught.value.__notes__


class Plain(rt.GroupChat):
    def next_speaker(self, chat: rt.Chat) -> str | None:
        return chat.run.members[-1] if len(chat.said) < 2 else None


class Async(rt.GroupChat):
    async def next_speaker(self, chat: rt.Chat) -> str | None:
        return chat.run.members[-1] if len(chat.said) < 2 else None


@pytest.mark.parametrize("kind", [Plain, Async])
async def test_who_speaks_next_is_said_by_a_plain_method_or_an_async_one(kind: type[rt.GroupChat]) -> None:
    extra = await talk(None, kind)
    assert extra["said"] == [["ben", "y"], ["ben", "y"]]
    assert extra["ended_by"] == "next_speaker"


class Numbered(rt.GroupChat):
    def next_speaker(self, chat: rt.Chat) -> Any:
        return 1


class Unsaid(rt.GroupChat):
    def next_speakr(self, chat: rt.Chat) -> str | None:
        return None


class Chatless(rt.GroupChat):
    def next_speaker(self) -> str | None:  # type: ignore[override]
        return None


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (Numbered, r"Numbered\.next_speaker gave a int: return a member's name, or None"),
        (Unsaid, "Unsaid has no next_speaker: define `async def next_speaker"),
        (Chatless, r"Chatless\.next_speaker\(self\) is called with the chat"),
    ],
)
async def test_turns_that_cannot_be_taken_are_named_with_what_would_be_right(kind: type[rt.GroupChat], told: str) -> None:
    with pytest.raises(rt.DefinitionError, match=told):
        await talk(rt.MaxMessages(2), kind)


class Unawaited(rt.Team):
    async def forward(self, run: rt.TeamRun) -> Any:
        return run.ask("ann", run.message)


class Silent(rt.Team):
    async def forward(self, run: rt.TeamRun) -> Any:
        await run.ask("ann", run.message)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("kind", "told"), [(Unawaited, "write `return await run.ask"), (Silent, "returned nothing, for it ends without `return`")]
)
async def test_a_run_that_gives_no_answer_is_told_what_is_missing(kind: type[rt.Team], told: str) -> None:
    async with rt.ActorSystem("answers") as system:
        team = await system.spawn(kind, MEMBERS)
        with pytest.raises(rt.TeamError, match=told):
            await team.ask("hi")


class Runless(rt.Team):
    async def forward(self) -> str:  # type: ignore[override]
        return "x"


async def test_a_forward_that_takes_no_run_is_refused_to_the_spawner() -> None:
    async with rt.ActorSystem("answers") as system:
        with pytest.raises(rt.DefinitionError, match=r"Runless\.forward\(self\) is called with the run: .*write `async def forward"):
            await system.spawn(Runless, MEMBERS)


def broken(*given: Any) -> Any:
    raise AttributeError("no such thing")


async def broken_later(*given: Any) -> Any:
    raise AttributeError("no such thing")


TEAMS: Sequence[tuple[Any, dict[str, Any], str]] = [
    (rt.MapReduce, {"mapper": MEMBERS["ann"], "reducer": MEMBERS["ben"], "split": broken}, "MapReduce(split=…)"),
    (rt.MapReduce, {"mapper": MEMBERS["ann"], "reducer": broken_later}, "MapReduce(reducer=…)"),
    (rt.Parallel, {"members": MEMBERS, "combine": broken}, "Parallel(combine=…)"),
    (rt.Selector, {"members": MEMBERS, "choose": broken_later}, "Selector(choose=…)"),
    (rt.Debate, {"members": MEMBERS, "vote": broken}, "Debate(vote=…)"),
]


@pytest.mark.parametrize(("kind", "options", "where"), TEAMS, ids=[where for _, _, where in TEAMS])
async def test_what_an_authors_function_raises_has_a_note_that_says_which_option_it_is(
    kind: Any, options: dict[str, Any], where: str
) -> None:
    async with rt.ActorSystem("functions") as system:
        team = await system.spawn(kind, **options, name="team")
        with pytest.raises(AttributeError) as caught:
            await team.ask(rt.AgentMessage(["a", "b"]))
    assert f"raised in {where} of /user/team" in caught.value.__notes__


class Mistaken(rt.Team):
    async def forward(self, run: rt.TeamRun) -> rt.AgentMessage:
        member: Any = run.member("ann")
        return await run.ask(member, run.message)


async def test_a_member_that_is_asked_by_what_is_no_name_is_told_its_name() -> None:
    async with rt.ActorSystem("names") as system:
        team = await system.spawn(Mistaken, MEMBERS, name="team")
        with pytest.raises(rt.NoSuchMember, match="/user/team was given a Member for a member: give its name, a str such as 'ann'"):
            await team.ask("hi")


async def test_where_the_description_of_an_agent_is_given_is_said_to_who_spawns_one_with_it() -> None:
    async with rt.ActorSystem("names") as system:
        spawn: Any = system.spawn
        with pytest.raises(
            rt.DefinitionError, match=r"description= tells others what it is good for: give it to Agent\.spec\(…\), rt\.agent_tool"
        ):
            await spawn(rt.Agent, model="scripted:hi", description="Knows history.")


def test_what_is_no_event_has_no_innermost_one() -> None:
    wrong: Any = "x"
    with pytest.raises(rt.DefinitionError, match=r"innermost was given a str: give an event of agent\.stream"):
        rt.innermost(wrong)
    with pytest.raises(rt.DefinitionError, match="innermost was given a int"):
        rt.innermost(rt.FromMember("a", 1))  # type: ignore[arg-type]
