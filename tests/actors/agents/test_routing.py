"""Who answers a message: rules of whole words, and a model that chooses among exact names."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import retinue as rt
from retinue import llm

TEAM = {"billing": "Invoices and refunds", "support": "All else"}


def said(text: Any, **fields: Any) -> rt.AgentMessage:
    return rt.AgentMessage(text, **fields)


def first(rules: rt.Rules, message: rt.AgentMessage) -> str | None:
    return next(rules.fitting(message), None)


# -- rules -----------------------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("I want a REFUND, now", "billing"),
        ("refunds", "triage"),
        ("prefund", "triage"),
        ("refund_eu", "triage"),
        ("(refund)", "billing"),
        ("Book  a\n flight please", "travel"),
        ("book a flightless bird", "triage"),
        ("我要退款", "money"),
        ("ﬁnance", "finance"),
        ("finance_eu", "finance_eu"),
        ([{"type": "text", "text": "a refund"}], "billing"),
        ({"topic": "refund"}, "billing"),
    ],
    ids=["case", "plural", "prefix", "suffix", "brackets", "blanks", "whole", "no blanks", "ligature", "longer", "parts", "data"],
)
def test_a_rule_fits_where_the_message_holds_its_words_whole(text: Any, name: str) -> None:
    rules = rt.Rules(
        ("refund", "billing"),
        ("book a flight", "travel"),
        ("退款", "money"),
        ("finance", "finance"),
        ("finance_eu", "finance_eu"),
        default="triage",
    )
    assert first(rules, said(text)) == name


def test_rules_are_asked_in_their_order_and_functions_may_be_rules() -> None:
    rules = rt.Rules((lambda message: message.sender == "boss", "desk"), ("refund", "billing"), ("refund", "support"))
    assert list(rules.fitting(said("a refund", sender="boss"))) == ["desk", "billing", "support"]
    assert list(rules.fitting(said("a refund"))) == ["billing", "support"]
    assert list(rules.fitting(said("hello"))) == []
    assert rules.names == ("desk", "billing", "support")


def test_a_rule_that_fails_or_gives_no_answer_is_an_error_that_says_which() -> None:
    with pytest.raises(rt.RoutingFailed, match="rule 1 of the swarm, to 'a', has failed: ZeroDivisionError"):
        first(rt.Rules((lambda _: 1 / 0, "a")), said("x"))  # type: ignore[arg-type, return-value]
    with pytest.raises(rt.RoutingFailed, match="has given a str"):
        first(rt.Rules((lambda _: "a", "a")), said("x"))  # type: ignore[arg-type, return-value]


@pytest.mark.parametrize(
    ("rules", "default", "why"),
    [
        (("refund",), None, "rule 1 is 'refund'"),
        ((("refund", 3),), None, "give a pair"),
        ((("", "billing"),), None, "give 1 to 200 characters"),
        (((" ", "billing"),), None, "give 1 to 200 characters"),
        ((("ok", "a"), (3, "billing")), None, "rule 2 begins with a int"),
        ((), 3, "default"),
    ],
    ids=["no pair", "no name", "empty", "blank", "number", "default"],
)
def test_what_is_no_rule_is_refused(rules: Any, default: Any, why: str) -> None:
    with pytest.raises(rt.DefinitionError, match=why):
        rt.Rules(*rules, default=default)


@given(st.text(min_size=1, max_size=20), st.text(max_size=40))
def test_words_are_found_between_blanks_whatever_they_are(words: str, text: str) -> None:
    if words.split():
        message = rt.AgentMessage(f"{text} {words} {text}")
        assert list(rt.Rules((words, "billing")).fitting(message)) == ["billing"]


# -- a model -----------------------------------------------------------------------------------------------------------------------------------------------


def answering(*answers: llm.Completion | str) -> tuple[Callable[[llm.Complete], Any], list[llm.Complete]]:
    asked: list[llm.Complete] = []
    left = list(answers)

    async def complete(request: llm.Complete) -> llm.Completion:
        asked.append(request)
        answer = left.pop(0)
        return llm.Completion(answer, "test") if isinstance(answer, str) else answer

    return complete, asked


def route(name: Any) -> llm.Completion:
    return llm.tool_calls(("route", {"member": name}))


async def test_the_model_is_asked_for_an_exact_name_of_the_team() -> None:
    complete, asked = answering(route("support"))
    router = rt.ModelRouter("scripted:x", "Money is billing's.")
    assert await router.choose(complete, said("My money!"), TEAM, active="billing", before="user: hello") == "support"
    (request,) = asked
    assert request.tool_choice == "route" and request.temperature == 0.0 and request.max_tokens == 200
    assert json.loads(request.tools[0].parameters)["properties"]["member"]["enum"] == ["billing", "support"]
    system, user = request.messages
    for part in ("Money is billing's.", "- billing: Invoices and refunds", "- support: All else", "The conversation is with billing"):
        assert part in system.content
    assert user.content == "What was said before:\nuser: hello\n\nThe message:\nMy money!"


@pytest.mark.parametrize(
    "answer",
    [route("support"), "support", " support\n", '{"member": "support"}', '"support"', llm.tool_calls(("route", '"support"'))],
    ids=["call", "word", "blanks", "object", "quoted", "bare"],
)
async def test_a_name_is_taken_from_a_call_or_from_a_text_that_is_nothing_else(answer: Any) -> None:
    complete, asked = answering(answer)
    assert await rt.ModelRouter("scripted:x").choose(complete, said("?"), TEAM) == "support"
    assert len(asked) == 1


WRONG = [
    "finance",
    "I transfer to support",
    "Support",
    "",
    "[" * 50_000,
    route("Billing"),
    route(3),
    llm.tool_calls(("route", "{")),
    llm.tool_calls(("route", {})),
]


@pytest.mark.parametrize("answer", WRONG, ids=[f"wrong{number}" for number in range(len(WRONG))])
async def test_an_answer_that_names_nobody_is_asked_for_once_more_and_then_it_is_an_error(answer: Any) -> None:
    complete, asked = answering(answer, route("billing"))
    assert await rt.ModelRouter("scripted:x").choose(complete, said("?"), TEAM) == "billing"
    assert len(asked) == 2 and "exactly one of these names: billing, support" in asked[1].messages[-1].content
    assert [message.role for message in asked[1].messages[2:]] in (["assistant", "user"], ["assistant", "tool"])
    complete, asked = answering(answer, answer)
    with pytest.raises(rt.RoutingFailed, match="has named nobody, twice.*billing, support") as caught:
        await rt.ModelRouter("scripted:x").choose(complete, said("?"), TEAM)
    assert len(asked) == 2 and len(caught.value.answer) <= 300


async def test_a_name_within_another_is_not_mistaken_for_it() -> None:
    team = {"finance": "", "finance_eu": ""}
    complete, _ = answering("finance_eu")
    assert await rt.ModelRouter("scripted:x").choose(complete, said("?"), team) == "finance_eu"
    complete, _ = answering("transfer to finance_eu", "finance")
    assert await rt.ModelRouter("scripted:x").choose(complete, said("?"), team) == "finance"


async def test_a_very_long_message_is_shown_from_both_its_ends() -> None:
    complete, asked = answering("billing")
    await rt.ModelRouter("scripted:x").choose(complete, said("a" * 100_000 + "z"), TEAM)
    shown = asked[0].messages[1].content
    assert len(shown) < 21_000 and shown.startswith("aaa") and shown.endswith("az")


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"model": 3}, "model"),
        ({"model": "scripted:x", "instructions": 3}, "instructions"),
        ({"model": "scripted:x", "max_tokens": 0}, "max_tokens"),
    ],
    ids=["model", "instructions", "max_tokens"],
)
def test_what_is_no_router_is_refused(fields: dict[str, Any], why: str) -> None:
    with pytest.raises(rt.DefinitionError, match=f"ModelRouter\\({why}"):
        rt.ModelRouter(**fields)
