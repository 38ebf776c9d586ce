"""`rt.run`, and entering a system where it cannot work."""

from __future__ import annotations

import asyncio
import gc
import math
import threading
from typing import Any

import pytest
import trio
from trio.testing import MockClock

import retinue as rt
from core_puppet import Call, Puppet


def test_run_returns_what_main_returns() -> None:
    async def main(a: int, b: int) -> int:
        await trio.lowlevel.checkpoint()
        return a + b

    assert rt.run(main, 1, 2) == 3


def test_a_main_that_takes_a_system_gets_one_that_runs() -> None:
    async def main(system: rt.ActorSystem, factor: int) -> Any:
        ref = await system.spawn(Puppet)
        return factor * await ref.ask(Call(lambda _: 21))

    assert rt.run(main, 2) == 42


def test_a_main_gets_a_system_only_where_it_says_so() -> None:
    async def named(system: Any = None) -> Any:
        return system

    async def annotated(bank: rt.ActorSystem, owner: str) -> Any:
        return bank, owner

    async def other(path: Any = None) -> Any:
        return path

    async def forgotten(path: str) -> Any:
        return path

    assert isinstance(rt.run(named), rt.ActorSystem)
    bank, owner = rt.run(annotated, "ada")
    assert isinstance(bank, rt.ActorSystem)
    assert owner == "ada"
    assert rt.run(other) is None
    with pytest.raises(TypeError, match="path"):
        rt.run(forgotten)


def test_what_is_no_async_function_is_refused_with_advice() -> None:
    async def main() -> None: ...

    def plain() -> None: ...

    with pytest.raises(rt.DefinitionError, match=r"rt.run\(main\), not what calling it gave"):
        rt.run(main())
    with pytest.raises(rt.DefinitionError, match="async def plain"):
        rt.run(plain)
    with pytest.raises(rt.DefinitionError, match="async function"):
        rt.run(3)


def test_an_error_of_main_leaves_unwrapped_with_its_cause() -> None:
    cause = KeyError("cause")

    async def main() -> None:
        raise ValueError("mine") from cause

    async def with_system(system: rt.ActorSystem) -> None:
        raise ValueError("mine") from cause

    for function in (main, with_system):
        with pytest.raises(ValueError, match="mine") as caught:
            rt.run(function)
        assert caught.value.__cause__ is cause


def test_a_group_of_mains_own_stays_a_group() -> None:
    async def main() -> None:
        raise ExceptionGroup("mine", [ValueError("only one")])

    with pytest.raises(ExceptionGroup, match="mine") as caught:
        rt.run(main)
    assert len(caught.value.exceptions) == 1


def test_a_system_exit_in_a_handler_leaves_run() -> None:
    def leave(_: Any) -> None:
        raise SystemExit(7)

    async def main(system: rt.ActorSystem) -> None:
        (await system.spawn(Puppet)).tell(Call(leave))
        await trio.sleep_forever()

    with pytest.raises(SystemExit) as caught:
        rt.run(main)
    assert caught.value.code == 7


def test_run_works_in_another_thread() -> None:
    found: list[Any] = []

    async def main(system: rt.ActorSystem) -> Any:
        return await (await system.spawn(Puppet)).ask(Call(lambda _: "in a thread"))

    async def fails() -> None:
        raise ExceptionGroup("mine", [ValueError("only one")])

    def work() -> None:
        found.append(rt.run(main))
        try:
            rt.run(fails)
        except BaseException as error:
            found.append(type(error))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == ["in a thread", ExceptionGroup]


def test_run_takes_a_clock_and_a_grace() -> None:
    ends: list[float] = []

    class Slow(rt.Actor):
        async def on_stop(self, reason: str) -> None:
            try:
                await trio.sleep(100)
            finally:
                ends.append(trio.current_time())

    async def main(system: rt.ActorSystem) -> None:
        await system.spawn(Slow)

    rt.run(main, grace=2, clock=MockClock(autojump_threshold=0))
    assert ends == [2]


def test_run_raises_the_collectors_threshold_and_gives_it_back() -> None:
    before = gc.get_threshold()

    async def main() -> int:
        return gc.get_threshold()[0]

    assert rt.run(main) >= 20_000
    assert rt.run(main, gc_threshold=None) == before[0]
    assert gc.get_threshold() == before


@pytest.mark.parametrize("wrong", [None, 1, "module:main", lambda: 1])
def test_what_is_no_async_function_is_told(wrong: Any) -> None:
    with pytest.raises(TypeError):
        rt.run(wrong)


def test_under_asyncio_the_error_names_the_twin() -> None:
    async def main() -> None:
        with pytest.raises(rt.WrongEventLoop, match=r"asyncio.*retinue\.aio"):
            async with rt.ActorSystem():
                pass

    asyncio.run(main())


async def _seven() -> int:
    await trio.lowlevel.checkpoint()
    return 7


def test_run_under_asyncio_names_the_twin_and_works_in_a_thread_of_its_own() -> None:
    async def main() -> int:
        with pytest.raises(rt.WrongEventLoop, match=r"asyncio.*retinue\.aio.*to_thread"):
            rt.run(_seven)
        refused: list[BaseException] = []

        def plain_callback() -> None:  # in no task
            try:
                rt.run(_seven)
            except rt.WrongEventLoop as error:
                refused.append(error)

        asyncio.get_running_loop().call_soon(plain_callback)
        await asyncio.sleep(0)
        assert len(refused) == 1
        return await asyncio.to_thread(rt.run, _seven)

    assert asyncio.run(main()) == 7
    assert rt.run(_seven) == 7


def test_run_inside_a_run_of_trio_says_to_await_main_itself() -> None:
    async def main() -> int:
        with pytest.raises(rt.WrongEventLoop, match=r"await _seven\(\) itself"):
            rt.run(_seven)
        return await trio.to_thread.run_sync(rt.run, _seven)

    assert trio.run(main) == 7
    assert rt.run(main) == 7


def test_without_a_loop_the_error_names_the_twin() -> None:
    coroutine = rt.ActorSystem().__aenter__()
    with pytest.raises(rt.WrongEventLoop, match=r"retinue\.sync"):
        coroutine.send(None)


async def test_a_systems_tasks_do_not_run_in_the_holders_nurseries() -> None:
    async with rt.ActorSystem(block_warning=math.inf) as system:
        await system.spawn(Puppet)
        task: Any = trio.lowlevel.current_task()
        assert all(not nursery.child_tasks for nursery in task.child_nurseries)


async def test_two_systems_of_one_name_live_side_by_side() -> None:
    async with rt.ActorSystem("same") as one, rt.ActorSystem("same") as two:
        first, second = await one.spawn(Puppet, name="x"), await two.spawn(Puppet, name="x")
        assert first != second and first.path == second.path
        await first.ask(Call(lambda actor: actor.log.append(1)))
        assert await second.ask(Call(lambda actor: actor.log)) == []


async def test_using_a_system_from_another_thread_is_refused_with_the_way() -> None:
    async with rt.ActorSystem(block_warning=math.inf) as system:
        ref = await system.spawn(Puppet)

        def foreign() -> list[Any]:
            found: list[Any] = []
            for make in (lambda: system.spawn(Puppet), lambda: ref.ask(Call(lambda _: 1)), lambda: ref.stop(), system.wait_quiet):
                try:
                    make().send(None)
                except Exception as error:
                    found.append((type(error), "sync" in str(error)))
            return found

        assert await trio.to_thread.run_sync(foreign) == [(rt.WrongThread, True)] * 4
        assert ref.alive


async def test_a_thread_may_ask_through_trios_own_bridge() -> None:
    async with rt.ActorSystem(block_warning=math.inf) as system:
        ref = await system.spawn(Puppet)

        def foreign() -> Any:
            return trio.from_thread.run(ref.ask, Call(lambda _: "bridged"))

        assert await trio.to_thread.run_sync(foreign) == "bridged"
