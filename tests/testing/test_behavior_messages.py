"""`BehaviorTest`: one message in, effects out, without a loop."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

import retinue as rt
import retinue.testing as rtt
from behavior_actors import Bank, Do, Lines, Note, Order, Pay, Puppet, shop


def test_a_request_is_answered_and_its_effects_are_there_in_order() -> None:
    test, bank, log = shop()
    test.answer(Pay, "receipt 7")
    assert test.ask(Order("tea")) == "receipt 7"
    assert test.effects == [
        rtt.Asked(bank, Pay(100)),
        rtt.Told(log, Note("sold tea")),
        rtt.Replied(Order("tea"), "receipt 7"),
    ]
    assert test.actor.sold == ["tea"]
    assert test.effects[0].timeout == 5  # type: ignore[attr-defined]


def test_effects_are_those_of_the_last_call_and_history_has_all() -> None:
    test, bank, log = shop()
    test.answer(Pay, "receipt")
    test.tell(Order("tea"))
    assert test.tell(Order("milk", 80)) == [rtt.Asked(bank, Pay(80)), rtt.Told(log, Note("sold milk"))]
    assert test.history == [
        rtt.Asked(bank, Pay(100)),
        rtt.Told(log, Note("sold tea")),
        rtt.Asked(bank, Pay(80)),
        rtt.Told(log, Note("sold milk")),
    ]


def test_answers_may_be_functions_and_errors_and_the_latest_that_fits_counts() -> None:
    test, bank, _ = shop()
    test.answer(Pay, lambda pay: f"paid {pay.cents}")
    test.answer(lambda asked: asked.cents > 1000, LookupError("too much"), to=bank)
    test.answer(Pay, rt.AskTimeout("no answer"), times=1)
    with pytest.raises(rt.AskTimeout):
        test.ask(Order("tea"))
    assert not [effect for effect in test.effects if isinstance(effect, rtt.Failed)]  # an answer that is let through is no failure
    assert test.ask(Order("tea")) == "paid 100"
    with pytest.raises(LookupError):
        test.ask(Order("car", 2_000_000))


def test_an_ask_that_no_answer_stands_ready_for_says_so_whatever_the_handler_catches() -> None:
    async def careless(actor: Puppet) -> str:
        try:
            return await ref.ask(Pay(1))
        except Exception:
            return "caught"

    test = rtt.BehaviorTest(Puppet)
    ref = test.ref("bank")
    with pytest.raises(rt.DefinitionError, match=r"asks /user/bank for Pay, and no answer stands ready: test\.answer\(Pay, value\)"):
        test.ask(Do(careless))


def test_what_a_handler_raises_reaches_the_test_and_is_noted_with_what_supervision_would_do() -> None:
    error = RuntimeError("broken")

    def fail(_: Puppet) -> None:
        raise error

    test = rtt.BehaviorTest(Puppet, supervision=rt.Supervision(on={RuntimeError: "stop"}))
    with pytest.raises(RuntimeError, match="broken"):
        test.tell(Do(fail))
    assert test.effects == [rtt.Failed(Do(fail), error, "stop")]

    def declared(_: Puppet) -> None:
        raise ValueError

    with pytest.raises(ValueError):
        test.tell(Do(declared))
    assert test.effects == []


def test_the_sender_is_a_stand_in() -> None:
    test = rtt.BehaviorTest(Puppet)
    ada = test.ref("ada")
    assert test.ask(Do(lambda actor: actor.ctx.sender), sender=ada) is ada
    assert test.ask(Do(lambda actor: actor.ctx.sender)) is None
    assert test.ref("ada") is ada
    assert ada.path == "/user/ada"


def test_a_message_without_a_handler_is_refused_here_and_at_a_stand_in_of_a_class() -> None:
    test = rtt.BehaviorTest(Puppet)
    with pytest.raises(rt.Unhandled, match="it takes Do, Note"):
        test.tell(Pay(1))
    bank = test.ref("bank", Bank)
    with pytest.raises(rt.Unhandled, match="it takes Pay"):
        test.ask(Do(lambda _: bank.tell(Note("x"))))


def test_a_stream_is_a_list() -> None:
    class Reader(rt.Actor):
        @rt.handler
        async def lines(self, message: Lines) -> AsyncIterator[str]:
            for number in range(message.count):
                yield f"line {number}"
                self.ctx.ref.tell(Lines(0)) if number > 5 else None

        @rt.handler
        async def do(self, message: Do) -> list[str]:
            async with message.what.stream(Lines()) as items:
                return [item async for item in items]

    test = rtt.BehaviorTest(Reader)
    assert test.stream(Lines(3)) == ["line 0", "line 1", "line 2"]
    other = test.ref("other")
    test.answer(Lines, ["a", "b"])
    assert test.ask(Do(other)) == ["a", "b"]
    assert test.effects[0] == rtt.Asked(other, Lines())
    test.answer(Lines, ["a", KeyError("b")])
    with pytest.raises(KeyError):
        test.ask(Do(other))
