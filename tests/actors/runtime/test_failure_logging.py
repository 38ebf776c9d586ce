"""Contract point 15: what is logged, where, how loud, and what never is."""

from __future__ import annotations

import logging
import math
from typing import Any

import pytest
import trio
from trio.testing import MockClock

import retinue as rt
from core_puppet import Call, Do, Puppet, nothing


@rt.message
class Secret(rt.Request[int]):
    token: str


class Leaky(rt.Actor):
    @rt.handler
    def use(self, message: Secret) -> int:
        raise ValueError("something else")


def make(**options: Any) -> rt.ActorSystem:
    return rt.ActorSystem("logs", block_warning=math.inf, **options)


def fail(_: Any) -> None:
    raise ValueError("on purpose")


def lines(caplog: pytest.LogCaptureFixture, name: str) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.name == name]


async def test_a_failed_tell_is_an_error_with_its_traceback(autojump_clock: MockClock, caplog: pytest.LogCaptureFixture) -> None:
    async def fail_later(_: Any) -> None:
        await trio.sleep(1)
        fail(None)

    async with make() as system:
        ref = await system.spawn(Puppet, name="teller")
        ref.tell(Call(fail))
        ref.tell(Do(fail_later))
        await trio.sleep(5)
    errors = lines(caplog, "retinue.runtime")
    assert [record.levelname for record in errors] == ["ERROR", "ERROR"]
    for record, label in zip(errors, ("Call", "Do"), strict=True):
        assert "/user/teller" in record.getMessage() and label in record.getMessage()
        assert record.exc_info is not None and isinstance(record.exc_info[1], ValueError)


async def test_a_failed_ask_is_its_askers_business(caplog: pytest.LogCaptureFixture) -> None:
    async with make() as system:
        ref = await system.spawn(Puppet)
        with pytest.raises(ValueError, match="on purpose"):
            await ref.ask(Call(fail))
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_a_dead_letter_is_a_warning_without_its_content(caplog: pytest.LogCaptureFixture) -> None:
    async with make() as system:
        ref = await system.spawn(Leaky, name="gone")
        await ref.stop()
        ref.tell(Secret("hunter2"))
    (record,) = lines(caplog, "retinue.deadletters")
    assert record.levelname == "WARNING"
    assert "Secret" in record.getMessage() and "/user/gone" in record.getMessage() and "stopped" in record.getMessage()
    assert "hunter2" not in caplog.text


async def test_no_log_line_holds_the_content_of_a_message(autojump_clock: MockClock, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with make() as system:
        ref = await system.spawn(Leaky, mailbox=rt.Mailbox.bounded(1))
        for _ in range(20):
            ref.tell(Secret("hunter2"))
        with pytest.raises(ValueError, match="something else"):
            await ref.ask(Secret("hunter2"))
        await trio.sleep(100)
    assert "Secret" in caplog.text
    assert "hunter2" not in caplog.text


async def test_a_flood_of_dead_letters_is_summed_up(caplog: pytest.LogCaptureFixture) -> None:
    async with make() as system:
        ref = await system.spawn(Puppet)
        await ref.stop()
        for _ in range(5000):
            ref.tell(Call(nothing))
    warnings = lines(caplog, "retinue.deadletters")
    assert len(warnings) < 50
    assert any("more dead letters" in record.getMessage() for record in warnings)  # the stop sums up what was not told one by one
    assert system.dead_letters.count == 5000


async def test_a_denied_tell_is_a_warning_and_no_error(caplog: pytest.LogCaptureFixture) -> None:
    class Keeper(rt.Actor):
        @rt.handler(requires="logs.use")
        def use(self, _: Secret) -> int:
            return 1

    async with make() as system:
        (await system.spawn(Keeper, grant=[])).tell(Secret("hunter2"))
        await system.wait_quiet()
    assert [record.levelname for record in caplog.records if record.levelno >= logging.WARNING] == ["WARNING"]


async def test_too_many_restarts_are_an_error_that_says_so(autojump_clock: MockClock, caplog: pytest.LogCaptureFixture) -> None:
    async with make() as system:
        ref = await system.spawn(Puppet, name="hopeless", supervision=rt.Supervision(intensity=(2, 60), backoff=(0, 0)))
        for _ in range(3):
            ref.tell(Call(fail))
        await trio.sleep(10)
        assert not ref.alive
    assert any(
        "/user/hopeless" in record.getMessage() and "more than 2 times" in record.getMessage()
        for record in lines(caplog, "retinue.runtime")
    )


async def test_an_actor_that_does_not_come_up_again_is_an_error(autojump_clock: MockClock, caplog: pytest.LogCaptureFixture) -> None:
    class Once(Puppet):
        def on_start(self) -> None:
            starts.append(1)
            if len(starts) > 1:
                raise KeyError("not again")

    starts: list[int] = []
    async with make() as system:
        ref = await system.spawn(Once, name="once", supervision=rt.Supervision(intensity=(2, 60), backoff=(0, 0)))
        ref.tell(Call(fail))
        await trio.sleep(10)
        assert not ref.alive
    texts = [record.getMessage() for record in lines(caplog, "retinue.runtime")]
    assert any("/user/once failed to start again" in text for text in texts)


async def test_a_system_in_good_order_says_nothing(autojump_clock: MockClock, caplog: pytest.LogCaptureFixture) -> None:
    async with make() as system:
        ref = await system.spawn(Puppet)
        await ref.ask(Call(nothing))
        ref.tell(Call(nothing))
        await system.wait_quiet()
        await ref.stop()
    assert [record for record in caplog.records if record.name.startswith("retinue")] == []


async def test_the_library_neither_configures_logging_nor_prints(capsys: pytest.CaptureFixture[str]) -> None:
    before = list(logging.getLogger("retinue").handlers)
    async with make() as system:
        await (await system.spawn(Puppet)).ask(Call(nothing))
    assert logging.getLogger("retinue").handlers == before
    assert logging.getLogger("retinue").level == logging.NOTSET
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err == ""
