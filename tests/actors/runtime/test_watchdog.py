"""Contract point 15: a watchdog that names the actor and prints the stack when a handler blocks the loop. Real time, for that is what it is about."""

# ruff: noqa: ASYNC251 - blocking is the subject

from __future__ import annotations

import logging
import math
import time
from typing import Any

import pytest
import trio

import retinue as rt
from core_puppet import Call, Do, Puppet, nothing

BLOCK = 1.2  # seconds: four times the limit, for machines that are busy with something else


def reports(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.name == "retinue.watchdog"]


def block_the_loop(_: Any) -> None:
    time.sleep(BLOCK)


async def block_the_loop_async(_: Any) -> None:
    await trio.sleep(0.01)
    time.sleep(BLOCK)


@pytest.mark.parametrize("script", [block_the_loop, block_the_loop_async])
@pytest.mark.parametrize("ask", [True, False])
async def test_a_handler_that_blocks_is_named_once_with_its_stack(script: Any, ask: bool, caplog: pytest.LogCaptureFixture) -> None:
    async with rt.ActorSystem("blocked") as system:
        ref = await system.spawn(Puppet, name="sleeper")
        message = Call(script) if script is block_the_loop else Do(script)
        if ask:
            await ref.ask(message)
        else:
            ref.tell(message)
            await system.wait_quiet()
    (record,) = reports(caplog)
    text = record.getMessage()
    assert record.levelname == "WARNING"
    assert "/user/sleeper" in text and type(message).__name__ in text
    assert script.__name__ in text and "time.sleep(BLOCK)" in text  # where it is
    assert "blocking=True" in text  # and what to do


async def test_the_actor_that_blocks_is_named_and_not_the_one_that_it_asked_before(caplog: pytest.LogCaptureFixture) -> None:
    async with rt.ActorSystem("blocked") as system:
        guilty, innocent = await system.spawn(Puppet, name="guilty"), await system.spawn(Puppet, name="innocent")

        async def ask_and_block(_: Any) -> None:
            await innocent.ask(Call(nothing))
            time.sleep(BLOCK)

        await guilty.ask(Do(ask_and_block))
        guilty.tell(Do(ask_and_block))
        await system.wait_quiet()
    assert len(reports(caplog)) == 2
    assert all("/user/guilty" in record.getMessage() and "innocent" not in record.getMessage() for record in reports(caplog))


async def test_a_task_of_an_actors_own_that_blocks_is_named_and_one_that_is_busy_is_not(caplog: pytest.LogCaptureFixture) -> None:
    class Resident(rt.Actor):
        def __init__(self, blocks: bool) -> None:
            self.blocks = blocks

        async def run(self) -> None:
            await trio.lowlevel.checkpoint()
            if self.blocks:
                time.sleep(BLOCK)
            until = trio.current_time() + BLOCK
            while trio.current_time() < until:
                await trio.lowlevel.checkpoint()

    async with rt.ActorSystem("blocked") as system:
        await system.spawn(Resident, False, name="busy")
        await trio.sleep(BLOCK)
        assert not reports(caplog)
        await system.spawn(Resident, True, name="sleeper")
        await trio.sleep(BLOCK)
    (record,) = reports(caplog)
    assert "/user/sleeper" in record.getMessage() and "a task of its own" in record.getMessage()


async def test_a_constructor_and_a_hook_that_block_are_named_too(caplog: pytest.LogCaptureFixture) -> None:
    class Slow(rt.Actor):
        def __init__(self) -> None:
            time.sleep(BLOCK)

        def on_start(self) -> None:
            time.sleep(BLOCK)

    async with rt.ActorSystem("blocked") as system:
        await system.spawn(Slow, name="slow")
    assert ["/user/slow" in record.getMessage() and "hook" in record.getMessage() for record in reports(caplog)] == [True, True]


async def test_a_handler_that_tells_while_it_blocks_is_named_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    async with rt.ActorSystem("blocked") as system:
        ref = await system.spawn(Puppet, name="busy")
        other = await system.spawn(Puppet, mailbox=rt.Mailbox.unbounded())

        def spin(_: Any) -> None:
            until = time.monotonic() + BLOCK
            while time.monotonic() < until:
                other.tell(Call(nothing))
                time.sleep(0.001)

        await ref.ask(Call(spin))
    assert ["/user/busy" in record.getMessage() for record in reports(caplog)] == [True]


async def test_handlers_that_wait_are_not_reported(caplog: pytest.LogCaptureFixture) -> None:
    async with rt.ActorSystem("blocked", block_warning=0.5) as system:
        ref = await system.spawn(Puppet)

        async def wait(_: Any) -> None:
            await trio.sleep(BLOCK)

        async def work_in_slices(_: Any) -> None:
            for _number in range(int(BLOCK / 0.01)):
                time.sleep(0.01)
                await trio.lowlevel.checkpoint()

        await ref.ask(Do(wait))
        await ref.ask(Do(work_in_slices))
        ref.tell(Do(work_in_slices))
        await system.wait_quiet()
        assert reports(caplog) == []


async def test_many_short_handlers_are_not_reported(caplog: pytest.LogCaptureFixture) -> None:
    async with rt.ActorSystem("blocked", block_warning=0.5) as system:
        ref = await system.spawn(Puppet, mailbox=rt.Mailbox.unbounded())
        for _ in range(int(BLOCK / 0.01)):
            ref.tell(Call(lambda _: time.sleep(0.01)))
        await system.wait_quiet()
        for _ in range(int(BLOCK / 0.01)):
            await ref.ask(Call(lambda _: time.sleep(0.01)))
        assert reports(caplog) == []


async def test_the_holder_may_block_its_own_loop_as_it_likes(caplog: pytest.LogCaptureFixture) -> None:
    async with rt.ActorSystem("blocked"):
        time.sleep(BLOCK)
    assert reports(caplog) == []


async def test_the_limit_can_be_set_and_the_watchdog_be_left_out(caplog: pytest.LogCaptureFixture) -> None:
    for limit in (10, math.inf):
        async with rt.ActorSystem("blocked", block_warning=limit) as system:
            await (await system.spawn(Puppet)).ask(Call(block_the_loop))
    assert reports(caplog) == []


@pytest.mark.parametrize("wrong", [0, -1, "1", True, math.nan])
def test_a_wrong_limit_is_told_at_once(wrong: Any) -> None:
    with pytest.raises(rt.DefinitionError, match="block_warning"):
        rt.ActorSystem(block_warning=wrong)
