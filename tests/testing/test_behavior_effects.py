"""`BehaviorTest`: what an actor may do with its `self.ctx`, noted, and its life."""

from __future__ import annotations

from typing import Any

import pytest

import retinue as rt
import retinue.testing as rtt
from behavior_actors import Bank, Do, Note, Order, Pay, Puppet, played

# -- what an actor may do ----------------------------------------------------------------------------------------------------------------------------------


def test_deferred_forwarded_and_stashed_requests_are_not_answered_yet() -> None:
    test = rtt.BehaviorTest(Puppet)
    other = test.ref("other")
    slots: list[Any] = []

    def later(actor: Puppet) -> None:
        slots.append(actor.ctx.defer())

    assert test.request(Do(later)) == [rtt.Deferred(Do(later))]
    assert test.request(Do(slots[0].reply)) == [rtt.Replied(Do(later), test.actor), rtt.Replied(Do(slots[0].reply), True)]

    def over(actor: Puppet) -> None:
        actor.ctx.forward(other, Pay(1))

    assert test.request(Do(over)) == [rtt.Forwarded(other, Pay(1))]
    assert test.tell(Do(over)) == [rtt.Told(other, Pay(1))]
    with pytest.raises(rt.DefinitionError, match="has not answered Do yet"):
        test.ask(Do(over))


def test_what_is_taken_out_of_the_stash_is_handled_next() -> None:
    class Gate(rt.Actor):
        opened = False

        @rt.handler
        def order(self, message: Order) -> str:
            if not self.opened:
                self.ctx.stash()
            return message.item

        @rt.handler
        def note(self, message: Note) -> None:
            self.opened = True
            self.ctx.unstash_all()

    test = rtt.BehaviorTest(Gate)
    assert test.request(Order("tea")) == [rtt.Stashed(Order("tea"))]
    assert test.tell(Order("milk")) == [rtt.Stashed(Order("milk"))]
    assert test.tell(Note("open")) == [rtt.Unstashed(Order("tea")), rtt.Replied(Order("tea"), "tea"), rtt.Unstashed(Order("milk"))]
    assert test.ask(Order("coffee")) == "coffee"


async def _spawn(actor: Puppet) -> Any:
    return await actor.ctx.spawn(Bank, name="till", grant=["payments.*"])


def test_children_are_stand_ins_under_the_grant_that_they_would_have() -> None:
    child, effects, test = played(_spawn)
    assert effects == [rtt.Spawned(Bank)]
    spawned = effects[0]
    assert isinstance(spawned, rtt.Spawned)
    assert (spawned.ref, spawned.name, child.path) == (child, "till", f"{test.own_ref.path}/till")
    assert spawned.grant.allows("payments.send")
    assert not spawned.grant.allows("files.read")
    assert test.ask(Do(lambda actor: actor.ctx.children)) == (child,)
    assert test.request(Do(lambda actor: child.stop()))[0] == rtt.Stopped(child)
    assert test.ask(Do(lambda actor: actor.ctx.children)) == ()


def test_pools_and_regions_are_stand_ins_too() -> None:
    two = rt.Pool.round_robin(2)

    async def spawn(actor: Puppet) -> Any:
        pool = await actor.ctx.spawn_pool(Bank, pool=two)
        sessions = await actor.ctx.spawn_virtual(Bank)
        pool.tell(Pay(1))
        sessions["alice"].tell(Pay(2))
        return pool, sessions["alice"]

    (pool, alice), effects, test = played(spawn)
    assert effects == [rtt.Spawned(Bank), rtt.Spawned(Bank), rtt.Told(pool, Pay(1)), rtt.Told(alice, Pay(2))]
    assert effects[0].pool is two  # type: ignore[attr-defined]
    with pytest.raises(rt.Unhandled):
        test.ask(Do(lambda _: alice.tell(Note("x"))))


def test_who_is_watched_may_be_ended() -> None:
    class Guard(rt.Actor):
        @rt.handler
        def do(self, message: Do) -> None:
            self.ctx.watch(message.what)

        @rt.handler
        def ended(self, message: rt.Terminated) -> None:
            self.ctx.ref.tell(Note(f"{message.ref.path}: {message.reason}"))

        @rt.handler
        def note(self, message: Note) -> None: ...

    test = rtt.BehaviorTest(Guard)
    bank, other = test.ref("bank"), test.ref("other")
    assert test.tell(Do(bank)) == [rtt.Watched(bank)]
    assert test.terminate(other) == []
    assert test.terminate(bank, rt.StopReason.FAILED) == [rtt.Told(test.own_ref, Note("/user/bank: failed"))]
    assert not bank.alive


def test_an_ask_of_one_that_has_ended_fails_and_a_tell_is_refused() -> None:
    test = rtt.BehaviorTest(Puppet)
    bank = test.ref("bank")
    test.terminate(bank)
    with pytest.raises(rt.ActorStopped):
        test.ask(Do(lambda _: bank.ask(Pay(1))))
    assert not test.ask(Do(lambda _: bank.tell(Pay(1)).accepted))


def test_asking_oneself_is_a_ring() -> None:
    test = rtt.BehaviorTest(Puppet)
    with pytest.raises(rt.AskCycle):
        test.ask(Do(lambda actor: actor.ctx.ref.ask(Do(None))))


def test_tasks_run_when_the_test_says_so() -> None:
    test = rtt.BehaviorTest(Puppet)
    bank = test.ref("bank")

    async def work(cents: int) -> None:
        test.actor.ctx.ref.tell(Note(await bank.ask(Pay(cents))))

    [started] = test.tell(Do(lambda actor: actor.ctx.start_soon(work, 7)))
    assert started == rtt.Started(work.__qualname__, work, (7,))
    test.answer(Pay, "paid")
    assert test.run(started) == [rtt.Asked(bank, Pay(7)), rtt.Told(test.own_ref, Note("paid"))]  # type: ignore[arg-type]
    with pytest.raises(rt.DefinitionError, match="still to be run"):
        test.run(started)  # type: ignore[arg-type]

    [piped] = test.tell(Do(lambda actor: actor.ctx.pipe_to_self(bank.ask(Pay(8)), then=Note)))
    assert test.run(piped) == [rtt.Asked(bank, Pay(8)), rtt.Told(test.own_ref, Note("paid"))]  # type: ignore[arg-type]


def test_timers_tick_when_the_test_says_so() -> None:
    test = rtt.BehaviorTest(Puppet)

    def arm(actor: Puppet) -> None:
        actor.ctx.timers.once("soon", Note("once"), 5)
        actor.ctx.timers.every("often", Note("again"), 2.0, first=0)

    assert test.tell(Do(arm)) == [rtt.TimerSet("soon", Note("once"), 5.0), rtt.TimerSet("often", Note("again"), 0.0, 2.0)]
    assert test.tick("soon") == []
    with pytest.raises(rt.DefinitionError, match="no timer 'soon'; it has 'often'"):
        test.tick("soon")
    test.tick("often")
    assert test.ask(Do(lambda actor: actor.ctx.timers.keys())) == ("often",)
    assert test.request(Do(lambda actor: actor.ctx.timers.cancel("often")))[0] == rtt.TimerCancelled("often")
    assert test.ask(Do(lambda actor: actor.ctx.timers.cancel("often"))) is False
    with pytest.raises(rt.Unhandled):
        test.tell(Do(lambda actor: actor.ctx.timers.once("wrong", Pay(1), 1)))


PRICES = rt.Topic("prices", Note, publish="prices.publish")


def test_topics_are_noted_and_their_operations_checked() -> None:
    def publish(actor: Puppet) -> None:
        actor.ctx.topics.subscribe(PRICES)
        actor.ctx.topics.publish(PRICES, Note("up"))
        actor.ctx.topics.unsubscribe(PRICES)

    test = rtt.BehaviorTest(Puppet)
    assert test.tell(Do(publish)) == [rtt.Subscribed(PRICES), rtt.Published(PRICES, Note("up")), rtt.Unsubscribed(PRICES)]
    nobody = test.authority.mint("nobody", ["nothing"])
    with pytest.raises(rt.Denied):
        test.tell(Do(publish), context=nobody)
    assert test.effects == [rtt.Subscribed(PRICES)]


def test_services_are_registered() -> None:
    key = rt.ServiceKey("puppets", Puppet)

    def register(actor: Puppet) -> Any:
        actor.ctx.receptionist.register(key)
        return actor.ctx.receptionist.find(key)

    found, effects, test = played(register)
    assert effects == [rtt.Registered(key, test.own_ref)]
    assert found == (test.own_ref,)


def test_stopping_oneself_is_an_effect_and_the_end() -> None:
    test = rtt.BehaviorTest(Puppet)
    assert test.tell(Do(lambda actor: actor.ctx.stop())) == [rtt.Stopped(test.own_ref)]
    assert not test.running
    with pytest.raises(rt.DefinitionError, match="has stopped"):
        test.tell(Note("more"))
    test.restart()
    assert test.tell(Note("more")) == []


def test_the_key_of_a_virtual_actor() -> None:
    assert played(lambda actor: actor.ctx.key, key="alice")[0] == "alice"
    assert played(lambda actor: actor.ctx.key)[0] is None


# -- life --------------------------------------------------------------------------------------------------------------------------------------------------


class Lively(rt.Actor):
    def __init__(self, log: list[str]) -> None:
        self.log = log
        log.append("made")

    async def on_start(self) -> None:
        self.log.append(await self.ctx.system.find("/user/names").ask(Pay(0)))  # type: ignore[union-attr]

    def on_stop(self, reason: rt.StopReason) -> None:
        self.log.append(str(reason))
        self.ctx.ref.tell(Note("bye"))

    async def run(self) -> None: ...

    @rt.handler
    def note(self, message: Note) -> None:
        self.log.append(message.text)

    @rt.handler
    def do(self, message: Do) -> Any:
        return message.what(self)


def test_hooks_run_in_their_order_and_the_first_message_starts_the_actor() -> None:
    log: list[str] = []
    test = rtt.BehaviorTest(Lively, log)
    names = test.ref("names")
    test.answer(Pay, "Ada")
    assert test.tell(Note("hello")) == []
    assert log == ["made", "Ada", "hello"]
    assert test.history == [rtt.Asked(names, Pay(0)), rtt.Started("run", Lively.run, (test.actor,))]
    old = test.actor
    test.tell(Do(lambda actor: actor.ctx.timers.once("x", Note("tick"), 1)))
    held: list[Any] = []
    test.request(Do(lambda actor: held.append(actor.ctx.defer())))
    effects = test.restart()
    assert [type(effect) for effect in effects] == [rtt.Told, rtt.Replied, rtt.Asked, rtt.Started]
    assert isinstance(effects[1].error, rt.ActorStopped)  # type: ignore[attr-defined]
    assert test.actor is not old
    assert test.ask(Do(lambda actor: len(actor.ctx.timers))) == 0
    assert test.stop() == [rtt.Told(test.own_ref, Note("bye"))]
    assert log[3:] == ["restart", "made", "Ada", "stopped"]


def test_started_explicitly_its_effects_are_seen() -> None:
    test = rtt.BehaviorTest(Lively, [])
    names = test.ref("names")
    with pytest.raises(rt.DefinitionError, match="no answer stands ready"):
        test.start()
    test = rtt.BehaviorTest(Lively, [])
    names = test.ref("names")
    test.answer(Pay, "Ada")
    assert test.start()[0] == rtt.Asked(names, Pay(0))
    with pytest.raises(rt.DefinitionError, match="started before"):
        test.start()


def test_a_constructor_that_fails_or_takes_something_else_says_so() -> None:
    with pytest.raises(rt.DefinitionError, match="takes no arguments"):
        rtt.BehaviorTest(Puppet, 1)
    with pytest.raises(rt.DefinitionError, match="not an instance"):
        rtt.BehaviorTest(Puppet())  # type: ignore[arg-type]

    class Broken(rt.Actor):
        def __init__(self) -> None:
            raise LookupError("no such file")

    with pytest.raises(LookupError):
        rtt.BehaviorTest(Broken)


def test_a_child_that_takes_the_place_of_another_is_noted_with_that_ones_grant() -> None:
    test = rtt.BehaviorTest(rt.Sequential, {"w": rt.Agent.spec(model="scripted:x", grant=["model.complete"])})
    former = test.start()[0]
    changed, *_ = test.request(rt.EditMember("w", options={"instructions": "Be brief."}))
    assert isinstance(former, rtt.Spawned) and isinstance(changed, rtt.Spawned)
    assert (changed.name, changed.keywords["instructions"]) == ("w~~1", "Be brief.")
    assert changed.grant is former.grant


def test_such_a_child_has_the_labels_of_who_changes_it_too() -> None:
    test = rtt.BehaviorTest(rt.Sequential, {"w": rt.Agent.spec(model="scripted:x", grant=["model.complete"])})
    former = test.start()[0]
    boss = test.authority.mint("boss", ["**", rt.label("web")])
    changed, *_ = test.request(rt.EditMember("w", options={"instructions": "Be brief."}), context=boss)
    assert isinstance(former, rtt.Spawned) and isinstance(changed, rtt.Spawned)
    assert (former.grant.labels, changed.grant.labels) == (frozenset(), {"web"})
