"""`BehaviorTest`: what needs a loop, authority, actors in threads."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import trio

import retinue as rt
import retinue.testing as rtt
from behavior_actors import Bank, Do, Note, Order, Pay, Puppet

# -- what needs a loop -------------------------------------------------------------------------------------------------------------------------------------


async def _event(_: Puppet) -> None:
    await trio.Event().wait()


async def _nursery(_: Puppet) -> None:
    async with trio.open_nursery():
        pass


async def _sleep(_: Puppet) -> None:
    await trio.sleep(1)


async def _checkpoint(_: Puppet) -> None:
    await trio.lowlevel.checkpoint()


NEEDS_LOOP = {
    "trio.sleep": _sleep,
    "trio.Event.wait": _event,
    "trio.open_nursery": _nursery,
    "trio.lowlevel.checkpoint": _checkpoint,
}


@pytest.mark.parametrize("name", NEEDS_LOOP)
def test_what_needs_a_loop_is_named(name: str) -> None:
    test = rtt.BehaviorTest(Puppet)
    with pytest.raises(rtt.NeedsLoop, match=rf"^Puppet\.do waits on {name}.*give it a system") as caught:
        test.ask(Do(NEEDS_LOOP[name]))
    assert isinstance(caught.value, rt.DefinitionError)
    assert test.effects == []


@pytest.mark.parametrize("name", NEEDS_LOOP)
async def test_also_where_the_test_itself_has_one(name: str) -> None:
    test = rtt.BehaviorTest(Puppet)
    with pytest.raises(rtt.NeedsLoop, match=rf"^Puppet\.do waits on {name}"):
        test.ask(Do(NEEDS_LOOP[name]))
    await trio.lowlevel.checkpoint()


def test_another_library_is_named_too() -> None:
    test = rtt.BehaviorTest(Puppet)
    with pytest.raises(rtt.NeedsLoop, match=r"waits on asyncio\.sleep"):
        test.ask(Do(lambda _: asyncio.sleep(0)))
    with pytest.raises(rtt.NeedsLoop, match=r"waits on asyncio\.sleep"):
        test.ask(Do(lambda _: asyncio.sleep(1)))


# -- authority ---------------------------------------------------------------------------------------------------------------------------------------------


def test_requires_is_checked_by_a_real_gate() -> None:
    test = rtt.BehaviorTest(Bank)
    ada = test.authority.mint("ada", ["payments.*"])
    assert test.ask(Pay(5), context=ada) == "paid 5 for ada"
    eve = test.authority.mint("eve", ["files.read"])
    with pytest.raises(rt.Denied) as denied:
        test.ask(Pay(5), context=eve)
    assert (denied.value.operation, denied.value.subject) == ("payments.send", "eve")
    lent = ada.narrow(rt.where("payments.send", cents=rt.at_most(3)))
    with pytest.raises(rt.Denied):
        test.tell(Pay(5), context=lent)
    assert test.tell(Pay(3), context=lent) == []
    assert not [effect for effect in test.history if isinstance(effect, rtt.Failed)]


def test_a_grant_holds_whoever_asks() -> None:
    test = rtt.BehaviorTest(Bank, grant=["files.*"])
    with pytest.raises(rt.Denied):
        test.ask(Pay(1))


def test_the_contexts_of_effects_are_never_wider() -> None:
    test = rtt.BehaviorTest(Puppet)
    bank = test.ref("bank")
    ada = test.authority.mint("ada", ["payments.*", "files.read"])

    async def send(actor: Puppet) -> None:
        bank.tell(Pay(1))
        bank.tell(Pay(2), context=actor.ctx.security.narrow("payments.*"))
        actor.ctx.taint("web")
        await bank.ask(Pay(3))
        await actor.ctx.spawn(Bank)
        actor.ctx.timers.once("x", Note("x"), 1)

    test.answer(Pay, "paid")
    effects = test.tell(Do(send), context=ada)
    contexts: list[Any] = [getattr(effect, "context", None) or effect.grant for effect in effects]  # type: ignore[attr-defined]
    assert len(contexts) == 5
    assert all(context.descends_from(ada) for context in contexts)
    assert [context.allows("files.read") for context in contexts] == [True, False, True, True, True]
    assert [context.labels for context in contexts] == [frozenset(), frozenset(), {"web"}, {"web"}, {"web"}]


def test_nothing_wider_can_be_sent_minted_or_stopped_inside() -> None:
    test = rtt.BehaviorTest(Puppet)
    bank = test.ref("bank")
    ada, wide = test.authority.mint("ada", ["files.read"]), test.authority.mint("root", ["**"])
    deeds = (
        lambda _: bank.tell(Pay(1), context=wide),
        lambda _: test.authority.mint("me", ["**"]),
        lambda _: bank.stop(),
        lambda actor: actor.ctx.own_authority("files.read"),
    )
    for deed in deeds:
        with pytest.raises(rt.Denied):
            test.ask(Do(deed), context=ada)
    assert not [effect for effect in test.history if isinstance(effect, rtt.Told | rtt.Stopped)]

    def remember(actor: Puppet) -> None:
        bank.tell(Note("x"), context=actor.ctx.own_authority("memory.write"))

    [told] = test.tell(Do(remember), context=ada)
    assert told.context.allows("memory.write")  # type: ignore[attr-defined]
    assert test.tell(Do(lambda _: bank.stop())) == [rtt.Stopped(bank)]  # the root context permits actor.stop


def test_what_needs_consent_is_refused_with_the_request() -> None:
    class Careful(rt.Actor):
        @rt.handler(requires="payments.send", approval=True)
        def pay(self, message: Pay) -> str:
            return "paid"

    with pytest.raises(rt.ApprovalRequired):
        rtt.BehaviorTest(Careful).ask(Pay(1))


# -- actors in threads -------------------------------------------------------------------------------------------------------------------------------------


class Blocking(rt.Actor, blocking=True):
    @rt.handler
    def order(self, message: Order) -> str:
        self.ctx.ref.tell(Note(message.item))
        return self.ctx.ask(self.ctx.system.find("/user/bank"), Pay(message.cents))  # type: ignore[no-any-return, arg-type]

    @rt.handler
    def note(self, message: Note) -> None:
        if message.text == "spawn":
            self.ctx.start_soon(trio.sleep, 1)
        self.ctx.stash()


def test_blocking_actors_are_played_in_the_calling_thread_and_refuse_what_they_would_refuse() -> None:
    test = rtt.BehaviorTest(Blocking)
    bank = test.ref("bank")
    test.answer(Pay, "paid")
    assert test.ask(Order("tea")) == "paid"
    assert test.effects == [rtt.Told(test.own_ref, Note("tea")), rtt.Asked(bank, Pay(100)), rtt.Replied(Order("tea"), "paid")]
    assert test.tell(Note("later")) == [rtt.Stashed(Note("later"))]
    with pytest.raises(rt.DefinitionError, match="cannot own trio tasks"):
        test.tell(Note("spawn"))
    plain = rtt.BehaviorTest(Puppet)
    with pytest.raises(rt.WrongThread):
        plain.ask(Do(lambda actor: actor.ctx.ask(plain.ref("bank"), Pay(1))))


def test_a_ref_of_another_world_is_no_ref_here() -> None:
    test, other = rtt.BehaviorTest(Puppet), rtt.BehaviorTest(Puppet)
    stranger = other.ref("bank")
    with pytest.raises(rt.RetinueError):
        test.ask(Do(lambda actor: actor.ctx.watch(stranger)))
