"""The templates of guardrails, and what they refuse to be made of."""

from __future__ import annotations

import re
from typing import Any

import attrs
import pytest

from retinue.security.choices import Block, Continue, Replace, choice_of
from retinue.security.errors import DefinitionError
from retinue.security.guardrail_templates import high_risk_parameter, output_redaction, privacy_input, sensitive_tool_confirmation
from retinue.security.guardrails import Guarded, Guardrail, guardrail
from retinue.security.text_filter import filter_text


def judged(one: Guardrail, **arguments: Any) -> bool:
    """Whether a call of the tool `send` is blocked."""
    assert one.check is not None
    return isinstance(one.check(Guarded("tool", tool="send", arguments=arguments)), Block)


@pytest.mark.parametrize(
    ("answer", "choice"),
    [
        (None, Continue()), (True, Continue()), (Continue(), Continue()), (False, Block()), ("no", Block("no")), (Block("x"), Block("x")), (Replace(0), Replace(0)),
        (Replace(None), Replace(None)), (0, None), (1, None), ([], None), ({}, None), ({"allowed": False}, None), ({"allowed": True}, None), (b"", None), (0.0, None),
        (Continue, None),
    ],
)  # fmt: skip
def test_the_decisions_are_a_closed_set(answer: object, choice: object) -> None:
    assert choice_of(answer) == choice


def test_personal_data_at_the_input_is_replaced_or_blocks() -> None:
    found = privacy_input()
    assert (found.stage, found.replacement) == ("input", "[redacted]")
    text = "I am ada@corp.example, 123-45-6789, card 4111 1111 1111 1111, password: hunter22"
    assert filter_text(text, found.detectors, found.replacement) == "I am [redacted], [redacted], card [redacted], password: [redacted]"
    assert privacy_input(action="block").replacement is None


def test_only_the_kinds_that_were_asked_for_are_looked_for() -> None:
    text = "ada@corp.example 123-45-6789"
    assert filter_text(text, privacy_input(kinds=["email"]).detectors, "#") == "# 123-45-6789"
    assert filter_text(text, privacy_input(kinds="ssn").detectors, "#") == "ada@corp.example #"


def test_keys_tokens_and_patterns_at_the_output_are_replaced() -> None:
    found = output_redaction([r"ACME-\d+", re.compile("geheim", re.IGNORECASE)])
    jwt = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc"
    text = f"ACME-77, GEHEIM, sk-abcdefghijklmnop, ghp_{'a' * 36}, {jwt}"
    assert filter_text(text, found.detectors, "#") == "#, #, #, #, #.abc"


def test_one_pattern_may_stand_alone() -> None:
    assert filter_text("ab", output_redaction("b", keys=False, kinds=()).detectors, "#") == "a#"


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: privacy_input(action="hide"), "redact"),  # type: ignore[arg-type]
        (lambda: privacy_input(kinds=["ssn", "face"]), "face"),
        (lambda: output_redaction(kinds=(), keys=False), "nothing to look for"),
        (lambda: output_redaction(replacement=None), "replacement"),  # type: ignore[arg-type]
        (lambda: output_redaction(["(a+)+"]), "split in several ways"),
        (lambda: sensitive_tool_confirmation([]), "no names"),
        (lambda: sensitive_tool_confirmation([3]), "no names"),  # type: ignore[list-item]
        (lambda: high_risk_parameter({}), "give rules"),
        (lambda: high_risk_parameter({"amount": 3}), "amount"),  # type: ignore[dict-item]
        (lambda: high_risk_parameter({"mode": "force"}), "set of values"),
        (lambda: guardrail("inputs"), "no stage"),  # type: ignore[arg-type]
        (lambda: guardrail("input", timeout=0), "time-out|timeout"),
    ],
)
def test_what_is_no_guardrail_is_refused_where_it_is_made(make: Any, why: str) -> None:
    with pytest.raises(DefinitionError, match=why):
        make()


def test_a_single_name_of_a_tool_is_that_name_and_not_its_letters() -> None:
    assert sensitive_tool_confirmation("send").confirm == {"send"}


def test_parameters_of_high_risk_are_found_by_function_expression_and_value() -> None:
    one = high_risk_parameter({"amount": lambda value: value > 100, "send.path": re.compile("/etc"), "mode": {"force"}, "other.to": {"x"}})
    assert not judged(one, amount=100, path="/tmp", mode="soft", to="x")
    assert judged(one, amount=101)
    assert judged(one, path="a/etc/b")
    assert judged(one, mode="force")


def test_they_are_found_at_any_depth() -> None:
    @attrs.frozen
    class Transfer:
        amount: int

    one = high_risk_parameter({"amount": lambda value: value > 100})
    assert judged(one, transfer={"legs": [{"amount": 99_999}]})
    assert judged(one, transfer=Transfer(101))
    assert not judged(one, transfer=Transfer(99))


def test_a_block_names_the_parameter_and_not_its_value() -> None:
    one = high_risk_parameter({"amount": {99_999}})
    assert one.check is not None
    block = one.check(Guarded("tool", tool="send", arguments={"amount": 99_999}))
    assert "amount" in block.reason and "99" not in block.reason


def test_a_rule_that_gives_anything_but_false_blocks() -> None:
    assert judged(high_risk_parameter({"amount": lambda _: None}), amount=1)  # type: ignore[dict-item,return-value]
