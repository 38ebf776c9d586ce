"""An actor's own authority goes with the messages that are sent under it, however many actors on, and nothing that outlasts them is begun under it."""

from __future__ import annotations

from typing import Any

import pytest
import trio

import retinue as rt
from core_authority import Touch, Vault, error_of
from core_hosts import conserved
from core_puppet import Do, Puppet


@rt.message
class Tick(rt.Message):
    pass


@rt.message
class Begin(rt.Request[Any]):
    """Have it take its own authority, and ask that actor (None: tell itself) to carry the script out under it."""

    script: Any
    other: Any = None


@rt.message
class Carry(rt.Message):
    script: Any


class Keeper(Puppet):
    """May touch the vault in its own name."""

    internal_operations = ("vault.touch",)

    def __init__(self, vault: rt.Ref[Vault]) -> None:
        super().__init__()
        self.vault = vault
        self.outcomes: list[Any] = []
        self.carried = trio.Event()

    @rt.handler
    async def begin(self, message: Begin) -> Any:
        own = self.ctx.own_authority("vault.touch")
        if message.other is not None:
            return await error_of(message.other.ask(Do(message.script), context=own))
        self.ctx.ref.tell(Carry(message.script), context=own)
        return None

    @rt.handler
    async def carry(self, message: Carry) -> None:
        self.outcomes.append(await outcome_of(self, message.script))
        self.carried.set()

    @rt.handler
    def tick(self, _: Tick) -> None:
        self.outcomes.append("ticked")

    @rt.handler
    def listed(self, _: rt.Listing) -> None:
        self.outcomes.append("listed")


async def outcome_of(actor: Any, script: Any) -> Any:
    try:
        return await script(actor)
    except Exception as error:
        return error


async def use(actor: Any) -> Any:
    return await actor.vault.ask(Touch())


TICKS = rt.Topic("ticks", Tick)
KEEPERS = rt.ServiceKey("keepers", Keeper)


async def tells_itself_later(actor: Any) -> None:
    async def work() -> None:
        actor.outcomes.append("worked")

    await actor.ctx.pipe_to_self(work()).wait()


async def starts_a_task(actor: Any) -> None:
    async def work() -> None:
        actor.outcomes.append("worked")

    await actor.ctx.start_soon(work).wait()


WAYS: dict[str, Any] = {
    "once": lambda actor: sync(lambda: actor.ctx.timers.once("k", Tick(), 0)),
    "every": lambda actor: sync(lambda: actor.ctx.timers.every("k", Tick(), 0.01)),
    "narrower": lambda actor: sync(lambda: actor.ctx.timers.once("k", Tick(), 0, context=actor.ctx.security.narrow(rt.deny("x.y")))),
    "task": starts_a_task,
    "pipe": tells_itself_later,
    "topic": lambda actor: sync(lambda: actor.ctx.topics.subscribe(TICKS)),
    "service": lambda actor: sync(lambda: actor.ctx.receptionist.subscribe(KEEPERS)),
    "child": lambda actor: actor.ctx.spawn(Vault),
    "pool": lambda actor: actor.ctx.spawn_pool(Vault, pool=rt.Pool.round_robin(1)),
    "group": lambda actor: actor.ctx.spawn_group([actor.vault], pool=rt.Pool.round_robin()),
    "region": lambda actor: actor.ctx.spawn_virtual(Vault, name="vaults"),
}


async def sync(call: Any) -> Any:
    return call()


async def tainted(actor: Any, way: Any) -> Any:
    actor.ctx.taint("web")
    return await way(actor)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("route", ["itself", "another", "two on", "labelled"])
async def test_nothing_that_outlasts_its_messages_begins_under_it(way: str, route: str) -> None:
    script = WAYS[way]
    async with rt.ActorSystem() as system:
        vault = await system.spawn(Vault)
        grant = None if route == "labelled" else ["**"]
        keeper, other = (
            await system.spawn(Keeper, vault, name="keeper", grant=grant),
            await system.spawn(Keeper, vault, name="other", grant=grant),
        )

        async def sent_on(actor: Any) -> Any:
            return await error_of(other.ask(Do(script)))

        if route == "itself":
            await keeper.ask(Begin(script))
            await system.wait_quiet()
            (error,) = await keeper.ask(Do(lambda actor: sync(lambda: actor.outcomes)))
        elif route == "another":
            error = await keeper.ask(Begin(script, other))
        elif route == "labelled":
            error = await keeper.ask(Begin(lambda actor: tainted(actor, script), other))
        else:
            third = await system.spawn(Keeper, vault, name="third")
            error = await keeper.ask(Begin(sent_on, third))
        assert isinstance(error, rt.Denied) and error.reason == "lineage", error
        assert "own authority" in str(error)
        assert len(await system.audit.entries(allowed=False)) == 1
        assert system.statistics().timers == 0
        assert await outcome_of(other._cell.actor, lambda actor: sync(lambda: actor.outcomes)) == []
        assert conserved(system)


@pytest.mark.parametrize("way", WAYS)
async def test_under_its_askers_authority_each_of_them_goes_on_as_ever(way: str) -> None:
    async with rt.ActorSystem() as system:
        keeper = await system.spawn(Keeper, await system.spawn(Vault), name="keeper")

        async def first(actor: Any) -> Any:
            own = actor.ctx.own_authority("vault.touch")
            assert await actor.vault.ask(Touch(), context=own) == "root"
            return (await outcome_of(actor, WAYS[way])).__class__.__name__

        assert await keeper.ask(Do(first)) not in {"Denied", "TypeError", "AttributeError"}


async def test_a_child_that_writes_for_its_parent_does_so_under_it() -> None:
    class Writer(Keeper):
        @rt.handler
        async def tick(self, _: Tick) -> None:
            self.outcomes.append(await self.vault.ask(Touch()))

    class Store(Keeper):
        async def on_start(self) -> None:
            self.writer = await self.ctx.spawn(Writer, self.vault)

        @rt.handler
        async def begin(self, message: Begin) -> Any:
            own = self.ctx.own_authority("vault.touch")
            self.writer.tell(Tick(), context=own)
            return await self.writer.ask(Do(use), context=own)

    async with rt.ActorSystem() as system:
        store = await system.spawn(Store, await system.spawn(Vault))
        eve = system.authority.mint("eve", [])
        assert await store.ask(Begin(None), context=eve) == "root"
        assert conserved(system)
