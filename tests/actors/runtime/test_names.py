"""The registry of names: what is found is alive, and a name is free in the step in which its actor ends."""

from __future__ import annotations

import math
from typing import Any

import pytest
import trio
from trio.testing import MockClock

import retinue as rt
from core_puppet import Call, Do, Puppet, nothing


def make(name: str = "names") -> rt.ActorSystem:
    return rt.ActorSystem(name, block_warning=math.inf)


async def test_an_actor_is_found_by_its_path_while_it_lives() -> None:
    class Family(Puppet):
        async def on_start(self) -> None:
            await self.ctx.spawn(Puppet, name="child")

    async with make() as system:
        ref = await system.spawn(Family, name="family")
        unnamed = await system.spawn(Puppet)
        assert system.registry.get("/user/family") == ref
        child = system.registry.get("/user/family/child")
        assert child is not None and child.path == "/user/family/child"
        assert system.registry.get(unnamed.path) == unnamed
        await ref.stop()
        assert system.registry.get("/user/family") is None
        assert system.registry.get("/user/family/child") is None


@pytest.mark.parametrize(
    "path", ["/user/nobody", "/", "", "/system/x", "/user/Puppet-99", "/user/Puppet-01", "/user/Puppet-²", "/user/x/y", "user"]
)
async def test_what_is_not_there_is_none(path: str) -> None:
    async with make() as system:
        await system.spawn(Puppet)
        assert system.registry.get(path) is None


async def test_a_registered_name_finds_its_actor() -> None:
    async with make() as system:
        ref = await system.spawn(Puppet)
        system.registry.register("till", ref)
        system.registry.register("cashier", ref)
        assert system.registry.get("till") == ref == system.registry.get("cashier")
        assert system.registry.names() == ["cashier", "till"]
        system.registry.unregister("till")
        system.registry.unregister("till")  # is no error
        assert system.registry.get("till") is None
        assert system.registry.names() == ["cashier"]


async def test_a_name_belongs_to_one_living_actor() -> None:
    async with make() as system:
        first, second = await system.spawn(Puppet, name="first"), await system.spawn(Puppet)
        system.registry.register("till", first)
        system.registry.register("till", first)  # again: nothing changes
        with pytest.raises(rt.NameTaken, match="/user/first"):
            system.registry.register("till", second)
        await first.stop()
        system.registry.register("till", second)
        assert system.registry.get("till") == second


async def test_a_name_is_given_up_in_the_step_in_which_its_actor_ends() -> None:
    async with make() as system:
        for number in range(200):
            ref = await system.spawn(Puppet, name="same")
            system.registry.register("till", ref)
            found = system.registry.get("till")
            assert found == ref
            watch = await system.watch(ref)
            ref.tell(Call(lambda actor: actor.ctx.stop()))
            await watch.wait()
            assert system.registry.get("till") is None and system.registry.get("/user/same") is None, number
        assert system.registry.names() == []


async def test_a_look_up_never_returns_a_dead_actor(autojump_clock: MockClock) -> None:
    async with make() as system:

        async def slow(_: Any) -> None:
            await trio.sleep(1)

        ref = await system.spawn(Puppet, name="dying")
        system.registry.register("till", ref)
        ref.tell(Do(slow))
        await trio.sleep(0.5)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ref.stop)
            await trio.sleep(0.1)
            found = system.registry.get("till")
            assert found is None or found.tell(Call(nothing)).reason in (None, "stopped")
        assert system.registry.get("till") is None


async def test_a_restart_keeps_the_name(autojump_clock: MockClock) -> None:
    def fail(_: Any) -> None:
        raise ValueError("restart me")

    async with make() as system:
        ref = await system.spawn(Puppet)
        system.registry.register("till", ref)
        ref.tell(Call(fail))
        await trio.sleep(1)
        assert system.registry.get("till") == ref


async def test_a_stopped_actor_is_not_registered_silently() -> None:
    async with make() as system:
        ref = await system.spawn(Puppet, name="gone")
        await ref.stop()
        with pytest.raises(rt.ActorStopped, match="/user/gone"):
            system.registry.register("till", ref)
        assert system.registry.names() == []


@pytest.mark.parametrize("name", ["", "a/b", "-x", " x", "x" * 129, 1, None, "ü"])
async def test_an_illegal_name_is_refused(name: Any) -> None:
    async with make() as system:
        ref = await system.spawn(Puppet)
        with pytest.raises(rt.DefinitionError, match="name"):
            system.registry.register(name, ref)


@pytest.mark.parametrize("wrong", ["/user/x", None, Puppet])
async def test_what_is_no_ref_is_not_registered(wrong: Any) -> None:
    async with make() as system:
        with pytest.raises(rt.DefinitionError, match="ref"):
            system.registry.register("till", wrong)


async def test_an_actor_of_another_system_is_not_registered() -> None:
    async with make("one") as one, make("two") as two:
        with pytest.raises(rt.DefinitionError, match="another system"):
            one.registry.register("till", await two.spawn(Puppet))


async def test_what_is_no_name_is_not_found_but_told() -> None:
    async with make() as system:
        for wrong in (1, None, Puppet):
            with pytest.raises(rt.DefinitionError, match="name"):
                system.registry.get(wrong)  # type: ignore[arg-type]


async def test_an_actor_finds_others_through_its_view_of_the_system() -> None:
    async with make() as system:
        ref, other = await system.spawn(Puppet), await system.spawn(Puppet, name="other")
        system.registry.register("till", other)
        assert await ref.ask(Call(lambda actor: [actor.ctx.system.find(name) for name in ("till", "/user/other", "nobody")])) == [
            other,
            other,
            None,
        ]


async def test_refs_of_one_actor_are_equal_and_those_of_two_are_not() -> None:
    async with make() as system:
        ref, other = await system.spawn(Puppet, name="a"), await system.spawn(Puppet, name="b")
        assert ref == await ref.ask(Call(lambda actor: actor.ctx.ref)) == system.registry.get("/user/a")
        assert ref != other and len({ref, other, system.registry.get("/user/a")}) == 2
        await ref.stop()
        again = await system.spawn(Puppet, name="a")
        assert again != ref  # another actor at the same address


async def test_ten_thousand_unnamed_actors_come_and_go() -> None:
    async with make() as system:
        for _ in range(10_000):
            ref = await system.spawn(Puppet)
            await ref.stop()
            assert system.registry.get(ref.path) is None
        assert system.statistics().actors == 0
