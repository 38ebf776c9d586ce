"""From memory to the model's messages: valid histories, stable prefixes, and no template changes."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import retinue as rt
from agent_players import agent_system, said_to
from retinue import llm
from retinue.actors.agents.aggregators import continued, repairs

CALL = llm.ToolCall("c1", "read", "{}")
OTHER = llm.ToolCall("c2", "write", "{}")


def made(*items: Any, aggregator: Any = rt.default_aggregator, **options: Any) -> list[llm.ChatMessage]:
    found: list[llm.ChatMessage] = aggregator(rt.Conversation(items, "agent", **options))
    return found


def short(messages: list[llm.ChatMessage]) -> list[tuple[str, str]]:
    return [(message.role, message.content) for message in messages]


def user(text: Any, sender: str = "user") -> rt.AgentMessage:
    return rt.AgentMessage(text, sender=sender)


def agent(text: Any, **options: Any) -> rt.AgentMessage:
    return rt.AgentMessage(text, sender="agent", **options)


def result(call: llm.ToolCall, text: str = "done") -> rt.Step:
    return rt.Step("tool_result", text, call_id=call.id, tool=call.name)


def test_instructions_are_the_system_and_only_own_messages_the_assistant() -> None:
    assert short(made(user("a"), agent("b"), user("c", "critic"), instructions="Be brief.")) == [
        ("system", "Be brief."),
        ("user", "a"),
        ("assistant", "b"),
        ("user", "c"),
    ]
    assert short(made(user("a"))) == [("user", "a")]


def test_messages_of_others_that_follow_each_other_become_one_joined_by_a_blank_line() -> None:
    assert short(made(user("a"), user("b", "critic"), agent("c"), user("d"))) == [("user", "a\n\nb"), ("assistant", "c"), ("user", "d")]


@attrs.frozen
class Point:
    x: int


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ({"a": "é"}, '{"a": "é"}'),
        ([1, 2], "[1, 2]"),
        ([{"type": "text", "text": "hi"}, {"type": "image_url", "image_url": {}}, "there"], "hi\n[image_url]\nthere"),
        (Point(1), '{"x": 1}'),
        (b"abc", "[3 bytes]"),
        (None, ""),
        ({1}, "[1]"),
        (3.5, "3.5"),
    ],
)
def test_content_that_is_no_text_is_written_as_text(content: Any, text: str) -> None:
    """Lagent A13.12: a TypeError."""
    assert short(made(user("see"), user(content))) == [("user", f"see\n\n{text}")]


def test_tool_calls_and_results_are_what_they_are_in_call_order() -> None:
    step = rt.Step("tool_calls", "Let me see.", calls=(CALL, OTHER), reasoning="hm")
    found = made(user("a"), step, result(OTHER, "w"), result(CALL, "r"), agent("b"))
    assert found[1] == llm.ChatMessage("assistant", "Let me see.", (CALL, OTHER), reasoning="hm")
    assert found[2:4] == [llm.ChatMessage("tool", "r", (), "c1", "read"), llm.ChatMessage("tool", "w", (), "c2", "write")]


@pytest.mark.parametrize(("error", "words"), [("cancelled", "was cancelled"), ("denied", "not permitted"), (None, "no result is known")])
def test_a_call_without_a_result_is_given_one_with_the_true_reason(error: str | None, words: str) -> None:
    step = rt.Step("tool_calls", calls=(CALL, OTHER), error=error)
    found = made(user("a"), step, result(CALL), user("b"))
    assert found[3].tool_call_id == "c2" and words in found[3].content and "success" not in found[3].content
    assert len(repairs((step, result(CALL), user("b")))) == 1


def test_a_result_without_a_call_is_left_out_and_told_of() -> None:
    """LightAgent B4: an orphan was sent, and the endpoint refused everything after it."""
    items = (user("a"), result(CALL), agent("b"), rt.Step("tool_calls", calls=(CALL,)), result(CALL), result(OTHER))
    assert [message.role for message in made(*items)] == ["user", "assistant", "assistant", "tool"]
    assert len(repairs(items)) == 2


def test_ids_that_an_endpoint_uses_in_every_reply_anew_are_kept_apart() -> None:
    step = rt.Step("tool_calls", calls=(CALL,))
    assert [message.content for message in made(step, result(CALL, "1"), step, result(CALL, "2"))] == ["", "1", "", "2"]


def test_an_attempt_and_what_was_said_about_it_are_both_shown() -> None:
    """Lagent A13.13: the model saw an error for a reply that it could not see."""
    found = made(user("a"), rt.Step("attempt", "{bad", ok=False), rt.Step("correction", "That is no JSON."), agent("b"))
    assert short(found) == [("user", "a"), ("assistant", "{bad"), ("user", "That is no JSON."), ("assistant", "b")]


def test_with_a_parser_calls_and_results_are_texts() -> None:
    parser = rt.PluginParser("Use plugins.")
    found = made(user("a"), rt.Step("tool_calls", "raw text", calls=(CALL,)), result(CALL, "r"), parser=parser, instructions="Be brief.")
    assert short(found) == [
        ("system", "Be brief.\n\nUse plugins."),
        ("user", "a"),
        ("assistant", "raw text"),
        ("user", "Result of read:\nr"),
    ]


ITEMS = st.lists(
    st.one_of(
        st.builds(user, st.text(max_size=5), st.sampled_from(["user", "critic"])),
        st.builds(agent, st.text(max_size=5)),
        st.builds(
            lambda calls: rt.Step("tool_calls", calls=calls), st.lists(st.sampled_from([CALL, OTHER]), unique=True, max_size=2).map(tuple)
        ),
        st.builds(result, st.sampled_from([CALL, OTHER])),
        st.builds(lambda text: rt.Step("attempt", text), st.text(max_size=3)),
        st.builds(lambda text: rt.Step("correction", text), st.text(max_size=3)),
    ),
    max_size=12,
)


def check_valid(messages: list[llm.ChatMessage]) -> None:
    """An endpoint takes it: each call has one result right behind, in order, each result a call; users' turns are one."""
    index = 0
    while index < len(messages):
        message = messages[index]
        assert message.role != "tool"
        index += 1
        for call in message.tool_calls:
            assert messages[index].tool_call_id == call.id
            index += 1
    roles = [message.role for message in messages]
    assert not any(left == right == "user" for left, right in itertools.pairwise(roles))


@settings(max_examples=15)
@given(ITEMS)
def test_whatever_memory_holds_the_history_is_one_that_an_endpoint_takes(items: list[Any]) -> None:
    before = copy.deepcopy(items)
    check_valid(made(*items))
    assert items == before


@settings(max_examples=12)
@given(ITEMS, st.lists(st.tuples(st.text(min_size=1, max_size=4), st.text(min_size=1, max_size=4)), max_size=3))
def test_what_was_sent_for_a_conversation_is_the_beginning_of_what_is_sent_for_its_continuation(
    items: list[Any], examples: list[tuple[str, str]]
) -> None:
    whole = [*items, agent("an answer")]
    for aggregator in (rt.default_aggregator, rt.few_shot(examples), rt.tool_aggregator()):
        first = made(*whole, aggregator=aggregator, instructions="Be brief.")
        second = made(*whole, user("more"), agent("b"), aggregator=aggregator, instructions="Be brief.")
        assert second[: len(first)] == first


@settings(max_examples=20)
@given(ITEMS, st.lists(st.integers(0, 12), max_size=5), st.booleans())
def test_going_on_from_what_was_made_before_gives_what_the_whole_gives(items: list[Any], places: list[int], in_text: bool) -> None:
    parser = rt.PluginParser("Plug.") if in_text else None
    whole = tuple(items)
    last = None
    for place in [*sorted(places), len(whole)]:
        conversation = rt.Conversation(whole[:place], "agent", "Be brief.", parser)
        messages, last = continued(conversation, last)
        assert list(messages) == rt.default_aggregator(conversation)


def test_what_was_made_of_another_conversation_is_not_used() -> None:
    _, last = continued(rt.Conversation((user("a"), agent("b")), "agent"))
    for conversation in (
        rt.Conversation((user("a"), agent("b")), "agent"),
        rt.Conversation((user("x"),), "agent"),
        rt.Conversation((), "agent"),
    ):
        assert list(continued(conversation, last)[0]) == rt.default_aggregator(conversation)
    items = (user("a"), agent("b"))
    _, last = continued(rt.Conversation(items, "agent"))
    assert short(list(continued(rt.Conversation(items, "critic"), last)[0])) == [("user", "a\n\nb")]


def test_examples_stand_between_instructions_and_conversation_and_are_never_changed() -> None:
    """Lagent A13.1: text of one session leaked into another by the template."""
    shots = [{"role": "user", "content": "TPL"}]
    aggregator = rt.few_shot(shots)
    assert short(made(user("q1"), aggregator=aggregator, instructions="S")) == [("system", "S"), ("user", "TPL"), ("user", "q1")]
    assert short(made(user("q2"), aggregator=aggregator, instructions="S")) == [("system", "S"), ("user", "TPL"), ("user", "q2")]
    assert shots == [{"role": "user", "content": "TPL"}]
    pairs = rt.few_shot([("2 + 2", "4"), llm.ChatMessage("user", "5 + 5")])
    assert short(made(aggregator=pairs)) == [("user", "2 + 2"), ("assistant", "4"), ("user", "5 + 5")]
    shots[0]["content"] = "changed"
    assert made(aggregator=aggregator)[0].content == "TPL"


@pytest.mark.parametrize("example", [3, "ab", ("a",), {"role": "user"}, {"role": "queen", "content": "x"}, (1, 2)])
def test_what_is_no_example_is_refused_where_it_is_given(example: Any) -> None:
    with pytest.raises(rt.DefinitionError, match="no example"):
        rt.few_shot([example])


def test_the_tool_aggregator_knows_users_the_environment_and_the_parsers_own_form() -> None:
    parser = rt.MixedToolParser([rt.InterpreterParser("Code."), rt.PluginParser("Plugins.")])
    aggregator = rt.tool_aggregator(
        environment_begin="<env>",
        environment_end="</env>",
        few_shot=[
            [
                {"role": "user", "content": "2 + 2?"},
                {"role": "thought", "content": "Compute. "},
                {"role": "tool", "content": "2 + 2", "name": "interpreter"},
                {"role": "environment", "content": "4"},
                {"role": "assistant", "content": "4"},
            ]
        ],
    )
    loose = 'Hm. <|action_start|><|plugin|>\n{"name": "a"}'
    found = made(
        user("q"), rt.Step("tool_calls", loose, calls=(CALL,)), result(CALL, "r"), user("from elsewhere", "critic"), agent("end"),
        aggregator=aggregator, parser=parser, instructions="S",
    )  # fmt: skip
    assert short(found) == [
        ("system", "S"),
        ("system", "Code."),
        ("system", "Plugins."),
        ("user", "2 + 2?"),
        ("assistant", "Compute. <|action_start|><|interpreter|>\n2 + 2<|action_end|>\n"),
        ("user", "<env>4</env>"),
        ("assistant", "4"),
        ("user", "q"),
        ("assistant", loose + "<|action_end|>\n"),
        ("user", "<env>r</env>"),
        ("user", "<env>from elsewhere</env>"),
        ("assistant", "end"),
    ]
    assert [message.name for message in found[1:3]] == ["interpreter", "plugin"]


def test_a_reply_that_cannot_be_parsed_stays_as_it_was_beside_what_was_said_about_it() -> None:
    broken = "<|action_start|><|plugin|>\n{oops"
    found = made(rt.Step("attempt", broken), rt.Step("correction", "no"), aggregator=rt.tool_aggregator(), parser=rt.PluginParser())
    assert short(found) == [("assistant", broken), ("user", "no")]


@pytest.mark.parametrize(
    ("options", "why"),
    [({"environment_role": "environment"}, "environment_role"), ({"few_shot": [[{"role": "queen", "content": "x"}]]}, "queen")],
)
def test_a_role_that_no_endpoint_knows_is_refused(options: Any, why: str) -> None:
    with pytest.raises(rt.DefinitionError, match=why):
        rt.tool_aggregator(**options)


async def test_what_memory_does_not_hold_any_more_is_not_sent_to_the_model_again() -> None:
    told: list[llm.Complete] = []
    one, two, three = said_to(told, "one", "two", "three")
    script = [one, llm.ModelFailed("down", status=503), two, three]
    async with agent_system(script) as (_, agent):
        message = rt.AgentMessage("and now?")
        await agent.ask("my password is hunter2")
        with pytest.raises(llm.ModelFailed):
            await agent.ask(message)
        state = await agent.ask(rt.GetState())
        state["memory"][0]["content"] = "[redacted]"
        await agent.ask(rt.ClearMemory())
        await agent.ask(rt.LoadState(state))
        await agent.ask(message)
        assert [each.content for each in told[-1].messages] == ["[redacted]", "one", "and now?"]
        await agent.ask(rt.ClearMemory())
        await agent.ask(message)
        assert [each.content for each in told[-1].messages] == ["and now?"]
