"""`BehaviorTest`: one message in, effects out, without a loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import trio

import retinue as rt
import retinue.testing as rtt


@rt.message
class Order(rt.Request[str]):
    item: str
    cents: int = 100


@rt.message
class Pay(rt.Request[str]):
    cents: int


@rt.message
class Note(rt.Message):
    text: str


@rt.message
class Do(rt.Request[Any]):
    what: Any


@rt.message
class Lines(rt.Stream[str]):
    count: int = 2


class Puppet(rt.Actor):
    """Does what the message says."""

    internal_operations = ("memory.write",)

    @rt.handler(raises=ValueError)
    async def do(self, message: Do) -> Any:
        value = message.what(self)
        return await value if hasattr(value, "__await__") else value

    @rt.handler
    def note(self, message: Note) -> None: ...


def played(what: Any, **options: Any) -> tuple[Any, list[rtt.Effect], rtt.BehaviorTest[Puppet]]:
    """What came of one deed: the answer, the effects without that, and the test."""
    test = rtt.BehaviorTest(Puppet, **options)
    value = test.ask(Do(what))
    *effects, replied = test.effects
    assert isinstance(replied, rtt.Replied)
    return value, effects, test


class Shop(rt.Actor):
    def __init__(self, bank: rt.Ref[Any], log: rt.Ref[Any], *, opened: bool = True) -> None:
        self.bank = bank
        self.log = log
        self.sold: list[str] = []
        self.opened = opened

    @rt.handler(raises=LookupError)
    async def order(self, message: Order) -> str:
        receipt = await self.bank.ask(Pay(message.cents), timeout=5)
        self.sold.append(message.item)
        self.log.tell(Note(f"sold {message.item}"))
        return receipt


class Bank(rt.Actor):
    @rt.handler(requires="payments.send")
    def pay(self, message: Pay) -> str:
        return f"paid {message.cents} for {self.ctx.security.subject}"


# -- messages ----------------------------------------------------------------------------------------------------------------------------------------------


def shop() -> tuple[rtt.BehaviorTest[Shop], rt.Ref[Any], rt.Ref[Any]]:
    """A shop between stand-ins."""
    test = rtt.BehaviorTest(Shop, rtt.StandIn("bank", Bank), log=rtt.StandIn("log"))
    return test, test.ref("bank"), test.ref("log")


def test_a_request_is_answered_and_its_effects_are_there_in_order() -> None:
    test, bank, log = shop()
    test.answer(Pay, "receipt 7")
    assert test.ask(Order("tea")) == "receipt 7"
    assert test.effects == [
        rtt.Asked(bank, Pay(100)),
        rtt.Told(log, Note("sold tea")),
        rtt.Replied(Order("tea"), "receipt 7"),
    ]
    assert test.actor.sold == ["tea"]
    assert test.effects[0].timeout == 5  # type: ignore[attr-defined]


def test_effects_are_those_of_the_last_call_and_history_has_all() -> None:
    test, bank, log = shop()
    test.answer(Pay, "receipt")
    test.tell(Order("tea"))
    assert test.tell(Order("milk", 80)) == [rtt.Asked(bank, Pay(80)), rtt.Told(log, Note("sold milk"))]
    assert test.history == [
        rtt.Asked(bank, Pay(100)),
        rtt.Told(log, Note("sold tea")),
        rtt.Asked(bank, Pay(80)),
        rtt.Told(log, Note("sold milk")),
    ]


def test_answers_may_be_functions_and_errors_and_the_latest_that_fits_counts() -> None:
    test, bank, _ = shop()
    test.answer(Pay, lambda pay: f"paid {pay.cents}")
    test.answer(lambda asked: asked.cents > 1000, LookupError("too much"), to=bank)
    test.answer(Pay, rt.AskTimeout("no answer"), times=1)
    with pytest.raises(rt.AskTimeout):
        test.ask(Order("tea"))
    assert not [effect for effect in test.effects if isinstance(effect, rtt.Failed)]  # an answer that is let through is no failure
    assert test.ask(Order("tea")) == "paid 100"
    with pytest.raises(LookupError):
        test.ask(Order("car", 2_000_000))


def test_an_ask_that_no_answer_stands_ready_for_says_so_whatever_the_handler_catches() -> None:
    async def careless(actor: Puppet) -> str:
        try:
            return await ref.ask(Pay(1))
        except Exception:
            return "caught"

    test = rtt.BehaviorTest(Puppet)
    ref = test.ref("bank")
    with pytest.raises(rt.DefinitionError, match=r"asks /user/bank for Pay, and no answer stands ready: test\.answer\(Pay, value\)"):
        test.ask(Do(careless))


def test_what_a_handler_raises_reaches_the_test_and_is_noted_with_what_supervision_would_do() -> None:
    error = RuntimeError("broken")

    def fail(_: Puppet) -> None:
        raise error

    test = rtt.BehaviorTest(Puppet, supervision=rt.Supervision(on={RuntimeError: "stop"}))
    with pytest.raises(RuntimeError, match="broken"):
        test.tell(Do(fail))
    assert test.effects == [rtt.Failed(Do(fail), error, "stop")]

    def declared(_: Puppet) -> None:
        raise ValueError

    with pytest.raises(ValueError):
        test.tell(Do(declared))
    assert test.effects == []


def test_the_sender_is_a_stand_in() -> None:
    test = rtt.BehaviorTest(Puppet)
    ada = test.ref("ada")
    assert test.ask(Do(lambda actor: actor.ctx.sender), sender=ada) is ada
    assert test.ask(Do(lambda actor: actor.ctx.sender)) is None
    assert test.ref("ada") is ada
    assert ada.path == "/user/ada"


def test_a_message_without_a_handler_is_refused_here_and_at_a_stand_in_of_a_class() -> None:
    test = rtt.BehaviorTest(Puppet)
    with pytest.raises(rt.Unhandled, match="it takes Do, Note"):
        test.tell(Pay(1))
    bank = test.ref("bank", Bank)
    with pytest.raises(rt.Unhandled, match="it takes Pay"):
        test.ask(Do(lambda _: bank.tell(Note("x"))))


def test_a_stream_is_a_list() -> None:
    class Reader(rt.Actor):
        @rt.handler
        async def lines(self, message: Lines) -> AsyncIterator[str]:
            for number in range(message.count):
                yield f"line {number}"
                self.ctx.ref.tell(Lines(0)) if number > 5 else None

        @rt.handler
        async def do(self, message: Do) -> list[str]:
            async with message.what.stream(Lines()) as items:
                return [item async for item in items]

    test = rtt.BehaviorTest(Reader)
    assert test.stream(Lines(3)) == ["line 0", "line 1", "line 2"]
    other = test.ref("other")
    test.answer(Lines, ["a", "b"])
    assert test.ask(Do(other)) == ["a", "b"]
    assert test.effects[0] == rtt.Asked(other, Lines())
    test.answer(Lines, ["a", KeyError("b")])
    with pytest.raises(KeyError):
        test.ask(Do(other))


# -- what an actor may do ------------------------------------------------------------------------------------------------------------------------------------


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


# -- what needs a loop -----------------------------------------------------------------------------------------------------------------------------------------


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


# -- authority ---------------------------------------------------------------------------------------------------------------------------------------------------


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


# -- actors in threads -------------------------------------------------------------------------------------------------------------------------------------------


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
