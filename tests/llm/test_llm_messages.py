"""Requests to a model are refused where they are made, when no endpoint could take them."""

from __future__ import annotations

import pytest

from retinue.actors.llm.messages import ChatMessage, Complete, Completion
from retinue.actors.llm.replies import tidy
from retinue.mailbox.messages import message_info

HELLO = ChatMessage("user", "hello")


def test_a_list_of_messages_becomes_a_tuple_that_nobody_can_change():
    given = [HELLO]
    request = Complete(given)
    given.append(ChatMessage("user", "more"))
    assert request.messages == (HELLO,)
    assert message_info(Complete).mutable_fields == frozenset()


def test_of_puts_the_instructions_before_the_prompt():
    assert Complete.of("hello", system="Be kind.").messages == (ChatMessage("system", "Be kind."), HELLO)
    assert Complete.of("hello").messages == (HELLO,)


def test_a_completion_may_take_ten_minutes_and_is_statically_known():
    assert message_info(Complete).timeout == 600
    assert message_info(Complete).reply is Completion


@pytest.mark.parametrize(
    ("make", "kind", "expected"),
    [
        (lambda: Complete(()), ValueError, "empty"),
        (lambda: Complete("hello"), TypeError, r"Complete\.of"),
        (lambda: Complete(HELLO), TypeError, r"Complete\.of"),
        (lambda: Complete(None), TypeError, "NoneType"),
        (lambda: Complete([{"role": "user"}]), TypeError, "dict"),
        (lambda: Complete.of(5), TypeError, "int"),
        (lambda: ChatMessage("robot", "x"), ValueError, "system, user, assistant"),
        (lambda: ChatMessage([], "x"), ValueError, "system, user, assistant"),
        (lambda: Complete.of("x", max_tokens=0), ValueError, "max_tokens"),
        (lambda: Complete.of("x", max_tokens=True), TypeError, "max_tokens"),
        (lambda: Complete.of("x", max_tokens=1.5), TypeError, "max_tokens"),
        (lambda: Complete.of("x", max_tokens=10**5000), ValueError, "64 bits"),
        (lambda: Complete.of("x", seed=10**30), ValueError, "64 bits"),
        (lambda: Complete.of("x", temperature=-0.1), ValueError, "temperature"),
        (lambda: Complete.of("x", temperature=float("nan")), ValueError, "temperature"),
        (lambda: Complete.of("x", temperature=float("inf")), ValueError, "temperature"),
        (lambda: Complete.of("x", temperature="0"), TypeError, "temperature"),
        (lambda: Complete.of("x", stop="END"), TypeError, "sequence of strings"),
        (lambda: Complete.of("x", stop=(5,)), TypeError, "stop"),
    ],
)
def test_values_that_no_endpoint_takes_are_refused(make, kind, expected):
    with pytest.raises(kind, match=expected):
        make()


def test_tidy_makes_one_short_printable_line():
    assert tidy("a\x1b[2J\n\n  b\u202e\tc") == "a [2J b c"
    assert len(tidy("x" * 1000)) == 300
