"""The receptionist: services by typed keys. Nobody finds an actor that has ended, and a look-up shows what its authority may address."""

from __future__ import annotations

import gc
from typing import Any

import pytest
import trio
import trio.testing

import retinue as rt
from core_actors import Break, Plain
from core_authority import tie_clock
from core_hosts import Host, conserved, reasons
from core_puppet import Call, Do, Puppet
from topic_actors import plain_system


@rt.message
class Pay(rt.Request[int]):
    cents: int


class Till(rt.Actor):
    """Takes money from whoever may."""

    @rt.handler(requires="till.pay")
    def pay(self, message: Pay) -> int:
        return message.cents

    @rt.handler(requires="till.break")
    def fail(self, _: Break) -> int:
        raise ValueError


class OwnTill(Till):
    """Registers itself."""

    def on_start(self) -> None:
        self.ctx.receptionist.register(TILLS)


class ThreadTill(Till, blocking=True):
    """The same in a thread."""

    def on_start(self) -> None:
        self.ctx.receptionist.register(TILLS)
        self.ctx.receptionist.register(TILLS)
        assert self.ctx.receptionist.find(TILLS)[-1] == self.ctx.ref

    @rt.handler
    def pay(self, message: Pay) -> int:
        return Till.pay(self, message)

    @rt.handler
    def fail(self, message: Break) -> int:
        return Till.fail(self, message)


TILLS = rt.ServiceKey("tills", Till)
PLAINS = rt.ServiceKey("plains", Plain)


class Clerk(Puppet):
    """Follows a service, and does what it is told."""

    @rt.handler
    def listed(self, message: rt.Listing) -> None:
        self.log.append((message.key, message.refs))


def script(function: Any) -> Call:
    """A puppet's work at the receptionist; its answer is a count or a list, not an object."""
    return Call(lambda actor: function(actor.ctx.receptionist))


# -- finding -------------------------------------------------------------------------------------------------------------------------------------------


async def test_who_is_registered_is_found_in_that_order(host: Host) -> None:
    async with host.system() as system:
        assert system.receptionist.find(TILLS) == ()
        refs = [await system.spawn(ThreadTill if host.blocking else OwnTill) for _ in range(3)]
        assert system.receptionist.find(TILLS) == tuple(refs)
        assert system.receptionist.keys() == ["tills"]
        system.receptionist.register(TILLS, refs[0])
        assert system.receptionist.find(TILLS) == tuple(refs)
        assert system.receptionist.unregister(TILLS, refs[0]) is True
        assert system.receptionist.unregister(TILLS, refs[0]) is False
        assert system.receptionist.find(TILLS) == tuple(refs[1:])
        assert system.receptionist.find(rt.ServiceKey("tills", Till)) == tuple(refs[1:])
        await refs[1].stop()
        assert system.receptionist.find(TILLS) == (refs[2],)
        await refs[2].stop()
        assert system.receptionist.keys() == []
        assert conserved(system)


@pytest.mark.parametrize("times", [500, pytest.param(10_000, marks=pytest.mark.slow)])
async def test_no_look_up_ever_gives_an_actor_that_has_ended(times: int) -> None:
    async with plain_system() as system:
        for _ in range(times):
            found = system.receptionist.find(TILLS)
            assert found == ()
            ref = await system.spawn(OwnTill, name="till")  # the name is free again, too
            (found_ref,) = system.receptionist.find(TILLS)
            assert found_ref == ref and found_ref.alive
            assert await found_ref.ask(Pay(1)) == 1
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ref.stop)
                await trio.lowlevel.checkpoint()
                assert all(one.alive for one in system.receptionist.find(TILLS))
        assert conserved(system)


async def test_an_actor_that_is_to_stop_is_not_found_while_it_goes_on() -> None:
    key = rt.ServiceKey("busy", Puppet)
    async with plain_system() as system:
        ref = await system.spawn(Puppet)
        system.receptionist.register(key, ref)
        done = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ref.ask, Do(lambda _: done.wait()))
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(ref.stop)
            await trio.testing.wait_all_tasks_blocked()
            assert system.receptionist.find(key) == ()
            with pytest.raises(rt.ActorStopped, match="is not registered"):
                system.receptionist.register(key, ref)
            done.set()
        assert system.receptionist.keys() == []


async def test_a_restart_keeps_the_entry(autojump_clock: trio.testing.MockClock) -> None:
    async with plain_system() as system:
        ref = await system.spawn(Till, supervision=rt.Supervision(backoff=(10, 10)))
        system.receptionist.register(TILLS, ref)
        for _ in range(2):
            with pytest.raises(ValueError):
                await ref.ask(Break())
            assert system.receptionist.find(TILLS) == (ref,)
        await trio.sleep(20)
        assert system.receptionist.find(TILLS) == (ref,)
        assert await ref.ask(Pay(2)) == 2


async def test_an_actor_whose_start_fails_after_it_has_registered_is_not_found() -> None:
    class Failing(OwnTill):
        def on_start(self) -> None:
            super().on_start()
            assert self.ctx.receptionist.find(TILLS) == (self.ctx.ref,)
            raise ValueError("no")

    async with plain_system() as system:
        with pytest.raises(ValueError, match="no"):
            await system.spawn(Failing)
        assert system.receptionist.find(TILLS) == ()
        assert system._kernel.receptionist._services == {}


async def test_one_actor_offers_several_services() -> None:
    other = rt.ServiceKey("other", Till)
    async with plain_system() as system:
        ref = await system.spawn(OwnTill)
        system.receptionist.register(other, ref)
        assert system.receptionist.keys() == ["other", "tills"]
        system.receptionist.unregister(TILLS, ref)
        assert system.receptionist.find(other) == (ref,)
        await ref.stop()
        assert system.receptionist.keys() == []


async def test_names_that_nobody_uses_take_no_room() -> None:
    async with plain_system() as system:
        for number in range(100):
            assert system.receptionist.find(rt.ServiceKey(f"k{number}", Till)) == ()
        gc.collect()
        assert len(system._kernel.receptionist.agreed._known) <= 2
        assert system._kernel.receptionist._services == {}


# -- authority -----------------------------------------------------------------------------------------------------------------------------------------


async def test_an_actor_finds_whom_its_authority_may_address() -> None:
    async with plain_system() as system:
        till = await system.spawn(OwnTill)
        puppet = await system.spawn(Puppet)
        look = script(lambda desk: [ref.path for ref in desk.find(TILLS)])
        assert await puppet.ask(look) == [till.path]
        assert await puppet.ask(look, context=system.authority.mint("ada", ["till.pay"])) == [till.path]
        assert await puppet.ask(look, context=system.authority.mint("eve", ["files.*"])) == []
        narrow = await system.spawn(Puppet, grant=["files.*"])
        assert await narrow.ask(look) == []


async def test_an_actor_registers_itself_and_its_children_and_nobody_else() -> None:
    class Shop(Puppet):
        async def on_start(self) -> None:
            self.till = await self.ctx.spawn(Till, name="till")

    shops = rt.ServiceKey("shops", Puppet)
    async with plain_system() as system:
        shop = await system.spawn(Shop, name="shop")
        stranger = await system.spawn(Till)
        await shop.ask(Call(lambda actor: actor.ctx.receptionist.register(TILLS, actor.till)))
        await shop.ask(script(lambda desk: desk.register(shops)))
        assert [ref.path for ref in system.receptionist.find(TILLS)] == ["/user/shop/till"]
        assert system.receptionist.find(shops) == (shop,)
        for call in (lambda desk: desk.register(TILLS, stranger), lambda desk: desk.unregister(TILLS, stranger)):
            with pytest.raises(rt.Denied, match="may register itself and its children"):
                await shop.ask(script(call))
        assert len(await system.audit.entries(allowed=False)) == 2
        assert await shop.ask(Call(lambda actor: actor.ctx.receptionist.unregister(TILLS, actor.till))) is True
        assert system.receptionist.find(TILLS) == ()
        await shop.stop()
        assert system.receptionist.find(shops) == ()


async def test_registering_may_need_an_operation() -> None:
    guarded = rt.ServiceKey("guarded", Puppet, register="tills.open")
    async with plain_system() as system:
        puppet = await system.spawn(Puppet)
        with pytest.raises(rt.Denied) as caught:
            await puppet.ask(script(lambda desk: desk.register(guarded)), context=system.authority.mint("eve", ["files.*"]))
        assert (caught.value.operation, caught.value.path) == ("tills.open", "/services/guarded")
        await puppet.ask(script(lambda desk: desk.register(guarded)), context=system.authority.mint("ada", ["tills.open"]))
        assert system.receptionist.find(guarded) == (puppet,)
        assert len(await system.audit.entries(allowed=False, operation="tills.open")) == 1


async def test_inside_a_handler_the_systems_own_is_refused() -> None:
    async with plain_system() as system:
        puppet = await system.spawn(Puppet)
        for call in (
            lambda _: system.receptionist.find(TILLS),
            lambda _: system.receptionist.keys(),
            lambda _: system.receptionist.listen(TILLS),
            lambda _: system.receptionist.declare(TILLS),
        ):
            with pytest.raises(rt.DefinitionError, match=r"self\.ctx\.receptionist"):
                await puppet.ask(Call(call))


# -- following -----------------------------------------------------------------------------------------------------------------------------------------


async def test_a_follower_is_told_at_once_and_whenever_somebody_comes_or_goes() -> None:
    async with plain_system() as system:
        first = await system.spawn(OwnTill)
        clerk = await system.spawn(Clerk)
        await clerk.ask(script(lambda desk: desk.subscribe(TILLS)))
        await system.wait_quiet()
        second = await system.spawn(OwnTill)
        await system.wait_quiet()
        await first.stop()
        await system.wait_quiet()
        assert await clerk.ask(script(lambda desk: desk.unsubscribe(TILLS))) is True
        assert await clerk.ask(script(lambda desk: desk.unsubscribe(TILLS))) is False
        await second.stop()
        await system.wait_quiet()
        log = await clerk.ask(Call(lambda actor: actor.log))
        assert log == [("tills", (first,)), ("tills", (first, second)), ("tills", (second,))]
        assert reasons(system) == {}
        assert conserved(system)


async def test_listings_are_conflated_to_the_latest_and_take_no_room_in_the_mailbox() -> None:
    async with plain_system() as system:
        clerk = await system.spawn(Clerk, mailbox=rt.Mailbox.bounded(1))
        await clerk.ask(script(lambda desk: desk.subscribe(TILLS)))
        await system.wait_quiet()
        refs = [await system.spawn(Till) for _ in range(50)]
        clerk.tell(Call(lambda _: None))
        for ref in refs:  # no checkpoint: nothing is handled meanwhile
            system.receptionist.register(TILLS, ref)
        await system.wait_quiet()
        log = await clerk.ask(Call(lambda actor: actor.log))
        assert log == [("tills", ()), ("tills", tuple(refs))]
        assert conserved(system)


async def test_a_listing_shows_whom_the_follower_may_address() -> None:
    async with plain_system() as system:
        await system.spawn(OwnTill)
        clerk = await system.spawn(Clerk)
        eve = system.authority.mint("eve", ["files.*"])
        await clerk.ask(script(lambda desk: desk.subscribe(TILLS)), context=eve)
        await system.spawn(OwnTill)
        await system.wait_quiet()
        assert await clerk.ask(Call(lambda actor: actor.log)) == [("tills", ())]


async def test_a_follower_is_told_again_when_it_subscribes_after_a_restart() -> None:
    class Steady(Clerk):
        def on_start(self) -> None:
            self.ctx.receptionist.subscribe(TILLS)

        @rt.handler
        def fail(self, _: Break) -> int:
            raise ValueError

    async with plain_system() as system:
        till = await system.spawn(OwnTill)
        clerk = await system.spawn(Steady)
        await system.wait_quiet()
        clerk.tell(Break())
        await system.wait_quiet()
        assert await clerk.ask(Call(lambda actor: actor.log)) == [("tills", (till,))]
        assert conserved(system)


@pytest.mark.parametrize("ends", ["expires", "is revoked"])
async def test_it_is_told_nothing_any_more_when_its_authority_has_ended(ends: str, autojump_clock: trio.testing.MockClock) -> None:
    async with plain_system() as system:
        tie_clock(system)
        clerk = await system.spawn(Clerk)
        ada = system.authority.mint("ada", ["till.*", rt.expires(seconds=60)])
        await clerk.ask(script(lambda desk: desk.subscribe(TILLS)), context=ada)
        await system.wait_quiet()
        if ends == "expires":
            await trio.sleep(61)
        else:
            system.authority.revoke(ada)
        for _ in range(3):
            await system.spawn(OwnTill)
        await system.wait_quiet()
        assert await clerk.ask(Call(lambda actor: actor.log)) == [("tills", ())]
        assert len(await system.audit.entries(allowed=False)) == 1
        assert conserved(system)


async def test_nobody_else_can_send_a_listing_and_who_has_no_handler_for_it_cannot_follow() -> None:
    async with plain_system() as system:
        clerk, puppet = await system.spawn(Clerk), await system.spawn(Puppet)
        with pytest.raises(rt.Unhandled):
            clerk.tell(rt.Listing("tills", ()))
        with pytest.raises(rt.Unhandled, match=r"no handler for rt\.Listing"):
            await puppet.ask(script(lambda desk: desk.subscribe(TILLS)))


async def test_the_holder_listens_to_the_latest() -> None:
    async with plain_system() as system:
        async with system.receptionist.listen(TILLS) as listings:
            assert await anext(listings) == rt.Listing("tills", ())
            refs = [await system.spawn(OwnTill) for _ in range(3)]
            assert await anext(listings) == rt.Listing("tills", tuple(refs))
            async with trio.open_nursery() as nursery:
                got: list[Any] = []

                async def follow() -> None:
                    got.append(await anext(listings))

                nursery.start_soon(follow)
                await trio.testing.wait_all_tasks_blocked()
                await refs[0].stop()
            assert got == [rt.Listing("tills", tuple(refs[1:]))]
        assert listings.closed
        with pytest.raises(StopAsyncIteration):
            await anext(listings)
        with pytest.raises(rt.DefinitionError, match="enter it first"):
            await anext(system.receptionist.listen(TILLS))
        with pytest.raises(rt.DefinitionError, match="entered once"):
            async with listings:
                pass


async def test_the_end_of_the_system_ends_the_listings() -> None:
    seen: list[Any] = []

    async def follow(system: rt.ActorSystem) -> None:
        async with system.receptionist.listen(TILLS) as listings:
            async for listing in listings:
                seen.append(len(listing.refs))
        seen.append("over")

    async with trio.open_nursery() as nursery:
        async with plain_system() as system:
            clerk = await system.spawn(Clerk)
            await clerk.ask(script(lambda desk: desk.subscribe(TILLS)))
            await system.spawn(OwnTill)
            nursery.start_soon(follow, system)
            await trio.testing.wait_all_tasks_blocked()
    assert (seen[0], seen[-1]) == (1, "over")
    assert reasons(system) == {}


# -- what is refused -----------------------------------------------------------------------------------------------------------------------------------


async def test_an_actor_of_another_class_is_refused() -> None:
    async with plain_system() as system:
        ref = await system.spawn(Plain)
        with pytest.raises(rt.DefinitionError, match="/user/Plain-1 is a Plain, and 'tills' is for Till"):
            system.receptionist.register(TILLS, ref)  # type: ignore[arg-type]
        system.receptionist.register(PLAINS, ref)
        with pytest.raises(rt.DefinitionError, match="Define each name once"):
            system.receptionist.find(rt.ServiceKey("plains", Till))
        with pytest.raises(rt.DefinitionError, match="Define each name once"):
            system.receptionist.listen(rt.ServiceKey("plains", Plain, register="a.b"))
        with pytest.raises(rt.DefinitionError, match="is no service key"):
            system.receptionist.find("plains")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("a/b", Till), "a service's name"),
        ((1, Till), "a service's name"),
        (("a", int), "derived from rt.Actor"),
        (("a", Till, "Not One"), "operation"),
    ],
)
def test_a_key_is_a_name_and_an_actor_class(arguments: Any, text: str) -> None:
    with pytest.raises(rt.RetinueError, match=text):
        rt.ServiceKey(*arguments)


async def test_an_actor_offers_and_follows_a_bounded_number_of_services(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("retinue.actors.runtime.receptionist.MOST_SERVICES", 2)
    async with plain_system() as system:
        ref = await system.spawn(Clerk)
        for number in range(2):
            system.receptionist.register(rt.ServiceKey(f"k{number}", Clerk), ref)
        with pytest.raises(rt.DefinitionError, match="may not be for more"):
            system.receptionist.register(rt.ServiceKey("k2", Clerk), ref)
        with pytest.raises(rt.DefinitionError, match="may not be for more"):
            await ref.ask(script(lambda desk: desk.subscribe(TILLS)))


async def test_what_is_declared_is_kept() -> None:
    async with plain_system() as system:
        system.receptionist.declare(rt.ServiceKey("own", Till, register="own.offer"))
        gc.collect()
        with pytest.raises(rt.DefinitionError):
            system.receptionist.find(rt.ServiceKey("own", Till))
