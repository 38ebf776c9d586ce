"""`BehaviorTest`: a test does not pass where a system would fail."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

import pytest
import trio

import retinue as rt
import retinue.testing as rtt
from behavior_actors import Bank, Do, Lines, Note, Pay, Puppet, played


class Child(rt.Actor):
    def __init__(self, need: int) -> None: ...

    @rt.handler
    def note(self, message: Note) -> None: ...


@pytest.mark.parametrize("arguments", [((), {}), ((1, 2), {}), ((1,), {"odd": 2})], ids=["too few", "too many", "unknown"])
def test_a_child_is_not_spawned_with_arguments_that_its_constructor_does_not_take(arguments: Any) -> None:
    given, named = arguments
    spawns: dict[str, Any] = {"pool": rt.Pool.round_robin(2)}
    for name in ("spawn", "spawn_pool", "spawn_virtual"):
        more = spawns if name == "spawn_pool" else {}
        test = rtt.BehaviorTest(Puppet)
        with pytest.raises(TypeError, match=r"Child\.__init__"):
            test.tell(Do(lambda actor, name=name, more=more: getattr(actor.ctx, name)(Child, *given, **named, **more)))
        assert not [effect for effect in test.effects if isinstance(effect, rtt.Spawned)]
        assert played(lambda actor, name=name, more=more: getattr(actor.ctx, name)(Child, need=1, **more))[1] == [
            rtt.Spawned(Child, (), {"need": 1})
        ]


def test_an_ask_that_nobody_awaits_is_not_made_and_python_warns() -> None:
    class Hasty(rt.Actor):
        @rt.handler
        def do(self, message: Do) -> Any:
            return message.what.ask(Pay(1))

        @rt.handler
        async def note(self, message: Note) -> None:
            bank.ask(Pay(1))  # type: ignore[unused-coroutine]

    test = rtt.BehaviorTest(Hasty)
    bank = test.ref("bank", Bank)
    test.answer(Pay, "paid")
    with pytest.raises(rt.DefinitionError, match="nobody awaits: make it `async def`"):
        test.ask(Do(bank))
    with pytest.warns(RuntimeWarning, match="was never awaited"):  # as soon as CPython counts no reference any more
        test.tell(Note("x"))
    assert test.effects == []


def test_a_need_of_a_loop_is_told_whatever_errors_the_actor_catches() -> None:
    class Careful(rt.Actor):
        @rt.handler
        async def do(self, message: Do) -> Any:
            try:
                return await message.what()
            except Exception:
                return "something else"

        @rt.handler
        async def pay(self, message: Pay) -> str:
            try:
                await trio.sleep(1)
            except BaseException:
                pass
            return "paid"

    async def sleep() -> None:
        await trio.sleep(1)

    async def limited() -> None:
        with trio.move_on_after(1):
            await test.ref("bank").send(Note("x"))

    test = rtt.BehaviorTest(Puppet)
    waits: list[Any] = [sleep, limited, trio.lowlevel.checkpoint, trio.Lock().acquire]
    for wait in waits:
        with pytest.raises(rtt.NeedsLoop):
            rtt.BehaviorTest(Careful).ask(Do(wait))
    with pytest.raises(rtt.NeedsLoop, match=r"trio\.sleep|trio\.current_time"):
        rtt.BehaviorTest(Careful).ask(Pay(1))


async def _wait(_: Puppet) -> None:
    await trio.sleep_forever()


async def test_so_it_is_within_a_loop_of_the_tests_own() -> None:
    with pytest.raises(rtt.NeedsLoop, match=r"trio\.sleep_forever"):
        rtt.BehaviorTest(Puppet).tell(Do(_wait))
    await trio.lowlevel.checkpoint()


def test_the_door_of_whom_the_actor_asks_is_the_real_one_where_the_test_names_a_class() -> None:
    test = rtt.BehaviorTest(Puppet)
    test.answer(Pay, "paid")
    guest = test.authority.mint("guest", ["something.else"])
    bank, any_bank = test.ref("bank", Bank), test.ref("any_bank")

    def pay(ref: rt.Ref[Any]) -> Do:
        def deed(_: Any) -> Awaitable[Any]:
            return ref.ask(Pay(1))

        return Do(deed)

    with pytest.raises(rt.Denied, match=r"payments\.send"):
        test.ask(pay(bank), context=guest)
    assert rtt.Asked(bank, Pay(1)) in test.effects
    assert test.ask(pay(any_bank), context=guest) == "paid"
    assert test.ask(pay(bank)) == "paid"


def test_items_that_stand_ready_are_there_for_each_stream() -> None:
    async def read(_: Puppet) -> list[Any]:
        async with lines.stream(Lines()) as items:
            return [item async for item in items]

    test = rtt.BehaviorTest(Puppet)
    lines = test.ref("lines")
    test.answer(Lines, (text for text in "ab"))
    assert test.ask(Do(read)) == test.ask(Do(read)) == ["a", "b"]


@pytest.mark.parametrize("kind", [StopIteration, GeneratorExit])
def test_an_error_that_means_something_to_the_runtime_is_a_runtime_error(kind: type[BaseException]) -> None:
    class Odd(rt.Actor):
        @rt.handler
        def do(self, message: Do) -> None:
            raise kind

        @rt.handler
        async def pay(self, message: Pay) -> str:
            raise kind

    for message in (Do(None), Pay(1)):
        test = rtt.BehaviorTest(Odd)
        with pytest.raises(RuntimeError, match=kind.__name__):
            test.ask(message)
        assert [type(effect) for effect in test.effects][-1] is rtt.Failed
