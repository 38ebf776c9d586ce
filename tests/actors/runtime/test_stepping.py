"""Stepping handlers by hand: the contract with trio's private attributes, what a handler sees in its asker's task, and the way without them."""

from __future__ import annotations

import contextvars
import math
from typing import Any

import pytest
import trio
import trio.lowlevel
from trio.testing import MockClock

import retinue as rt
from core_hosts import conserved
from core_puppet import Call, Do, Puppet, nothing, state_of
from retinue.actors.runtime import stepping


def make(**options: Any) -> rt.ActorSystem:
    return rt.ActorSystem("steps", block_warning=math.inf, **options)


# -- the contract with trio ------------------------------------------------------------------------------------------------------------------------------


async def state_of_itself(actor: Puppet) -> int:
    return len(actor.log)


async def test_this_trio_has_the_private_attributes() -> None:
    assert stepping.supported() is True


@pytest.mark.parametrize("missing", ["run context", "other task", "no status", "no parent setter", "scope without status"])
async def test_a_trio_without_one_of_them_is_noticed(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Status:
        parent = property(lambda self: None)

    class Task:
        _cancel_status: Any = trio.lowlevel.current_task()._cancel_status  # type: ignore[attr-defined]
        _activate_cancel_status = None

    class Context:
        task = Task()

    monkeypatch.setattr(stepping, "current_task", lambda: Context.task)
    monkeypatch.setattr(stepping, "run_context", Context)
    assert stepping.supported() is True  # the stand-ins are complete
    if missing == "run context":
        monkeypatch.setattr(stepping, "run_context", None)
    elif missing == "other task":
        monkeypatch.setattr(Context, "task", Task(), raising=False)
        monkeypatch.setattr(stepping, "current_task", Task)
    elif missing == "no status":
        monkeypatch.setattr(Task, "_cancel_status", None)
    elif missing == "no parent setter":
        monkeypatch.setattr(Task, "_cancel_status", Status())
    else:
        monkeypatch.setattr(stepping.trio, "CancelScope", object)
    assert stepping.supported() is False


async def test_enclose_enters_a_scope_around_nothing() -> None:
    task: Any = trio.lowlevel.current_task()
    base = task._cancel_status
    scope = trio.CancelScope()
    stepping.enclose(scope, base)
    assert task._cancel_status is scope._cancel_status  # type: ignore[attr-defined]
    scope.__exit__(None, None, None)
    assert task._cancel_status is base


async def test_enclose_slides_a_scope_around_those_that_are_open() -> None:
    task: Any = trio.lowlevel.current_task()
    base = task._cancel_status
    around = trio.CancelScope()
    with trio.CancelScope() as outer, trio.CancelScope() as inner:
        stepping.enclose(around, base)
        around.cancel()
        with pytest.raises(trio.Cancelled) as caught:
            await trio.sleep_forever()
        assert not outer.cancel_called and not inner.cancel_called
    assert task._cancel_status is around._cancel_status  # type: ignore[attr-defined]
    assert around.__exit__(trio.Cancelled, caught.value, None) is True
    assert task._cancel_status is base
    assert around.cancelled_caught


async def test_enclose_leaves_the_scopes_of_others_alone() -> None:
    task: Any = trio.lowlevel.current_task()
    with trio.CancelScope() as mine:
        base = task._cancel_status
        around = trio.CancelScope()
        with trio.CancelScope() as inside:
            stepping.enclose(around, base)
            inside.cancel()
            await trio.sleep(1)
        assert inside.cancelled_caught
        around.__exit__(None, None, None)
        await trio.lowlevel.checkpoint()
    assert not mine.cancelled_caught and not around.cancel_called


async def test_enclose_refuses_where_the_base_is_no_longer_open() -> None:
    task: Any = trio.lowlevel.current_task()
    with trio.CancelScope():  # noqa: ASYNC100 - only opened and closed
        gone = task._cancel_status
    before = task._cancel_status
    with pytest.raises(RuntimeError, match="closed where they were opened"):
        stepping.enclose(trio.CancelScope(), gone)
    assert task._cancel_status is before


# -- what a handler sees ------------------------------------------------------------------------------------------------------------------------------


async def runs_here(system: rt.ActorSystem) -> bool:
    """Whether this system's asks are handled in the asker's own task."""
    ref = await system.spawn(Puppet)
    tasks: list[Any] = []

    async def note_task(_: Any) -> None:
        tasks.append(trio.lowlevel.current_task())

    await ref.ask(Do(note_task))
    return tasks == [trio.lowlevel.current_task()]


@pytest.fixture(params=["inline", "without private attributes", "seeded"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How an ask of an idle actor is handled; each must behave alike."""
    if request.param == "without private attributes":
        monkeypatch.setattr(stepping, "supported", lambda: False)
    return str(request.param)


def made(way: str) -> rt.ActorSystem:
    return make(seed=5) if way == "seeded" else make()


async def test_only_the_inline_way_handles_in_the_askers_task(way: str) -> None:
    async with made(way) as system:
        assert await runs_here(system) is (way == "inline")


async def cut_after_one(system: rt.ActorSystem, script: Any) -> rt.AskTimeout:
    """Asks with a second's time-out, and demands that exactly that happens, and that the actor keeps its state."""
    ref = await system.spawn(Puppet)
    await ref.ask(Call(lambda actor: actor.log.append("kept")))
    began = trio.current_time()
    with pytest.raises(rt.AskTimeout) as caught:
        await ref.ask(Do(script), timeout=1)
    assert trio.current_time() == began + 1
    assert (await state_of(ref))[0] == "kept"
    await trio.lowlevel.checkpoint()  # the asker is not cancelled itself
    assert conserved(system)
    return caught.value


async def test_a_handler_that_sleeps_is_cut_by_the_deadline(way: str, autojump_clock: MockClock) -> None:
    async with made(way) as system:

        async def script(_: Puppet) -> None:
            await trio.sleep(10)

        await cut_after_one(system, script)


async def test_a_handler_in_nested_scopes_is_cut_by_the_deadline(way: str, autojump_clock: MockClock) -> None:
    async with made(way) as system:

        async def script(actor: Puppet) -> None:
            with trio.CancelScope() as outer, trio.move_on_after(100), trio.fail_after(200) as inner:
                try:
                    await trio.sleep(10)
                finally:
                    actor.log.append((outer.cancel_called, inner.cancel_called))

        await cut_after_one(system, script)
        ref = system.registry.get("/user/Puppet-1")
        assert ref is not None
        assert await state_of(ref) == ["kept", (False, False)]


async def test_a_handler_in_a_nursery_is_cut_with_its_children(way: str, autojump_clock: MockClock) -> None:
    async with made(way) as system:
        ended: list[str] = []

        async def child(name: str) -> None:
            try:
                await trio.sleep_forever()
            finally:
                ended.append(name)

        async def script(_: Puppet) -> None:
            async with trio.open_nursery() as outer, trio.open_nursery() as inner:
                outer.start_soon(child, "outer")
                inner.start_soon(child, "inner")

        await cut_after_one(system, script)
        assert sorted(ended) == ["inner", "outer"]


async def test_a_scope_opened_after_the_first_suspension_is_cut_too(way: str, autojump_clock: MockClock) -> None:
    async with made(way) as system:

        async def script(_: Puppet) -> None:
            await trio.sleep(0.5)
            with trio.CancelScope():
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(trio.sleep_forever)

        await cut_after_one(system, script)


async def test_a_shielded_clean_up_is_finished(way: str, autojump_clock: MockClock) -> None:
    async with made(way) as system:
        ref = await system.spawn(Puppet)

        async def script(actor: Puppet) -> None:
            try:
                await trio.sleep(10)
            finally:
                with trio.CancelScope(shield=True):
                    await trio.sleep(2)
                    actor.log.append("cleaned up")

        with pytest.raises(rt.AskTimeout):
            await ref.ask(Do(script), timeout=1)
        assert await state_of(ref) == ["cleaned up"]
        assert trio.current_time() == 3
        assert [actor.failures for actor in system.actors()] == [0]
        assert conserved(system)


async def test_a_handler_that_outlives_its_deadline_under_a_shield_keeps_its_state(way: str, autojump_clock: MockClock) -> None:
    async with made(way) as system:
        ref = await system.spawn(Puppet)

        async def script(actor: Puppet) -> str:
            actor.log.append("kept")
            with trio.CancelScope(shield=True):
                await trio.sleep(2)
            return "late"

        with pytest.raises(rt.AskTimeout):
            await ref.ask(Do(script), timeout=1)
        assert await state_of(ref) == ["kept"]
        assert system.dead_letters.counts["late_reply"] == 1
        assert [(actor.failures, actor.restarts) for actor in system.actors()] == [(0, 0)]
        assert conserved(system)


async def test_an_asker_that_is_cancelled_cuts_the_handler_and_stays_cancelled(way: str, autojump_clock: MockClock) -> None:
    async with made(way) as system:
        ref = await system.spawn(Puppet)

        async def script(actor: Puppet) -> None:
            try:
                await trio.sleep(10)
            except trio.Cancelled:
                actor.log.append("cut")
                raise

        with trio.move_on_after(1) as scope:
            await ref.ask(Do(script))
        assert scope.cancelled_caught
        assert await state_of(ref) == ["cut"]
        assert [actor.failures for actor in system.actors()] == [0]
        assert conserved(system)


async def test_an_asker_that_is_cancelled_already_cuts_the_handler_at_its_first_suspension(way: str) -> None:
    async with made(way) as system:
        ref = await system.spawn(Puppet)
        reached: list[str] = []

        async def script(_: Puppet) -> None:
            reached.append("began")
            await trio.lowlevel.checkpoint()
            reached.append("went on")

        with trio.CancelScope() as scope:
            scope.cancel()
            await ref.ask(Do(script))
        assert scope.cancelled_caught
        await system.wait_quiet()
        assert "went on" not in reached
        assert conserved(system)


async def test_the_stop_of_the_actor_cuts_the_handler_and_not_its_asker(way: str, autojump_clock: MockClock) -> None:
    async with made(way) as system, trio.open_nursery() as nursery:
        ref = await system.spawn(Puppet)

        async def script(_: Puppet) -> None:
            await trio.sleep(10)

        async def stop_soon() -> None:
            await trio.sleep(1)
            await ref.stop(grace=0)

        nursery.start_soon(stop_soon)
        with pytest.raises(rt.ActorStopped):
            await ref.ask(Do(script))
        assert trio.current_time() == 1
        await trio.sleep(1)  # the asker goes on
        assert conserved(system)


async def test_chained_asks_are_cut_from_the_outside_in(way: str, autojump_clock: MockClock) -> None:
    async with made(way) as system:
        refs = [await system.spawn(Puppet) for _ in range(20)]  # deeper than handlers are nested in one task

        def hop(number: int) -> Any:
            async def script(actor: Puppet) -> Any:
                if number == len(refs) - 1:
                    await trio.sleep(10)
                return await refs[number + 1].ask(Do(hop(number + 1)))

            return script

        with pytest.raises(rt.AskTimeout):
            await refs[0].ask(Do(hop(0)), timeout=1)
        assert trio.current_time() == 1
        await system.wait_quiet()
        assert all(actor.failures == 0 for actor in system.actors())
        assert conserved(system)


async def test_a_deep_chain_of_asks_is_answered(way: str) -> None:
    async with made(way) as system:
        refs = [await system.spawn(Puppet) for _ in range(200)]

        def hop(number: int) -> Any:
            async def script(_: Puppet) -> Any:
                return number if number == len(refs) - 1 else await refs[number + 1].ask(Do(hop(number + 1)))

            return script

        assert await refs[0].ask(Do(hop(0))) == 199


async def test_an_inner_time_out_does_not_cut_the_outer_handler(way: str, autojump_clock: MockClock) -> None:
    async with made(way) as system:
        front, back = await system.spawn(Puppet), await system.spawn(Puppet)

        async def long(_: Puppet) -> None:
            await trio.sleep(10)

        async def patient(_: Puppet) -> str:
            with pytest.raises(rt.AskTimeout):
                await back.ask(Do(long), timeout=1)
            await trio.sleep(1)
            return "went on"

        assert await front.ask(Do(patient)) == "went on"
        assert trio.current_time() == 2


async def test_a_handlers_own_time_out_is_its_own_business(way: str, autojump_clock: MockClock) -> None:
    async with made(way) as system:
        ref = await system.spawn(Puppet)

        async def script(_: Puppet) -> str:
            with trio.move_on_after(1):
                await trio.sleep(10)
            return "moved on"

        assert await ref.ask(Do(script)) == "moved on"


async def test_context_variables_of_the_handler_stay_in_the_actor(way: str, autojump_clock: MockClock) -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")
    async with made(way) as system:
        ref = await system.spawn(Puppet)
        variable.set("the asker's")

        async def script(_: Puppet) -> str:
            before = variable.get()
            variable.set("the actor's")
            await trio.sleep(1)
            return f"{before}, then {variable.get()}"

        assert await ref.ask(Do(script)) == "unset, then the actor's"
        assert variable.get() == "the asker's"


async def test_a_handler_that_leaves_a_scope_open_is_told_and_harms_nobody_else(way: str, autojump_clock: MockClock) -> None:
    if way == "without private attributes":
        pytest.skip("nobody can tell then")
    async with made(way) as system:
        ref, other = await system.spawn(Puppet, name="careless"), await system.spawn(Puppet)

        async def script(_: Puppet) -> None:
            trio.CancelScope().__enter__()
            await trio.sleep(1)

        with pytest.raises(RuntimeError, match=r"/user/careless for Do entered a cancel scope and never left it"):
            await ref.ask(Do(script), timeout=5)
        assert await other.ask(Call(lambda _: "fine")) == "fine"
        assert await ref.ask(Call(lambda _: "fine again")) == "fine again"
        await trio.sleep(1)
        assert conserved(system)


async def test_a_handler_that_never_suspends_costs_no_pass_of_the_scheduler() -> None:
    async with make() as system:
        ref = await system.spawn(Puppet)
        passes: list[int] = []

        class Count(trio.abc.Instrument):
            def before_task_step(self, task: trio.lowlevel.Task) -> None:
                passes.append(1)

        async def script(_: Puppet) -> int:
            return 1

        await ref.ask(Do(script))
        count = Count()
        trio.lowlevel.add_instrument(count)
        try:
            for _ in range(40):
                assert await ref.ask(Do(script)) == 1
                await ref.ask(Call(nothing))
        finally:
            trio.lowlevel.remove_instrument(count)
        assert len(passes) <= 4  # a breath now and then


@pytest.mark.parametrize("message", [Call(nothing), Do(state_of_itself)], ids=["plain", "async"])
async def test_a_loop_of_asks_can_be_cancelled_although_none_of_them_suspends(message: Any) -> None:
    async with make() as system:
        ref, front = await system.spawn(Puppet), await system.spawn(Puppet)

        async def ask_for_ever(_: Any) -> None:
            while True:
                await ref.ask(message)

        with trio.move_on_after(0.05) as scope:  # of real time: nothing is ever idle here
            await ask_for_ever(None)
        assert scope.cancelled_caught
        with pytest.raises(rt.AskTimeout):
            await front.ask(Do(ask_for_ever), timeout=0.05)
        assert conserved(system)


async def test_a_loop_of_sends_can_be_cancelled(way: str) -> None:
    async with made(way) as system:
        ref, gone = await system.spawn(Puppet), await system.spawn(Puppet)
        await gone.stop()
        for target in (ref, gone):
            with trio.move_on_after(0.05) as scope:
                while True:
                    await target.send(Call(nothing))
            assert scope.cancelled_caught
        await system.wait_quiet()
        assert conserved(system)


class Foreign:
    """An awaitable of another framework."""

    def __await__(self) -> Any:
        yield "something that trio does not know"


async def test_awaiting_what_belongs_to_another_framework_fails_that_message_alone(way: str) -> None:
    async with made(way) as system:
        ref = await system.spawn(Puppet)

        async def script(_: Puppet) -> None:
            await Foreign()

        with pytest.raises(TypeError, match="framework"):
            await ref.ask(Do(script))
        assert await ref.ask(Call(lambda _: "fine")) == "fine"
        assert conserved(system)


async def test_a_handler_that_closes_a_scope_of_its_asker_fails_and_its_actor_goes_on() -> None:
    async with make() as system:
        ref = await system.spawn(Puppet)
        scope = trio.CancelScope()
        scope.__enter__()

        async def script(_: Puppet) -> None:
            scope.__exit__(None, None, None)
            await trio.sleep(0.01)

        with pytest.raises(RuntimeError, match="closed where they were opened"):
            await ref.ask(Do(script))
        assert await ref.ask(Call(lambda _: "fine"), timeout=5) == "fine"
        assert conserved(system)


async def test_an_actor_that_always_has_mail_does_not_starve_the_others(way: str) -> None:
    async with made(way) as system:
        ref, other = await system.spawn(Puppet), await system.spawn(Puppet)

        def again(actor: Any) -> None:
            actor.ctx.ref.tell(Call(again))

        ref.tell(Call(again))
        with trio.fail_after(60):
            await trio.sleep(0.01)  # of real time: nothing is ever idle here
            assert await other.ask(Call(lambda _: "my turn")) == "my turn"
            await ref.stop()
        assert conserved(system)


@pytest.fixture
async def running() -> Any:
    """A system that a fixture holds, as people's tests will have it."""
    async with make() as system:
        yield system


async def test_a_system_that_a_fixture_holds_is_the_tests_to_use(running: rt.ActorSystem) -> None:
    ref = await running.spawn(Puppet)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ref.ask, Call(nothing))
        nursery.start_soon(ref.ask, Do(state_of_itself))
    assert running.statistics().handled == 2
