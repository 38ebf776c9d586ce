"""How timers end by themselves: with the first tick that the gate refuses; and what odd keys do, which is nothing to others."""

from __future__ import annotations

import math
from typing import Any

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

import retinue as rt
from core_actors import Boom
from core_authority import tie_clock
from core_hosts import conserved, reasons
from core_puppet import Call, Puppet


@rt.message
class Pay(rt.Message):
    amount: int = 1


@rt.message
class Buy(rt.Message):
    pass


class Shop(Puppet):
    @rt.handler(requires="shop.pay")
    def pay(self, message: Pay) -> None:
        self.log.append(message.amount)

    @rt.handler(requires="shop.buy")
    async def buy(self, _: Buy) -> None:
        self.log.append("buy")
        raise rt.Denied("somebody else refused it", operation="till.pay", path="/user/till")


def make(**options: Any) -> rt.ActorSystem:
    return rt.ActorSystem("shop", block_warning=math.inf, **options)


def every(message: rt.Message, interval: float = 1.0) -> Call:
    return Call(lambda actor: actor.ctx.timers.every("key", message, interval))


CONTEXTS: dict[str, list[Any]] = {
    "permission": ["files.*"],
    "argument": ["shop.*", rt.where("shop.pay", amount=rt.at_most(0))],
    "budget": ["shop.*", rt.limit(calls=3)],
    "deadline": ["shop.*", rt.expires(seconds=0.5)],
}


@pytest.mark.parametrize("why", CONTEXTS)
async def test_a_timer_ends_with_the_first_tick_that_is_refused(why: str, autojump_clock: MockClock) -> None:
    async with make() as system:
        tie_clock(system)
        shop = await system.spawn(Shop)
        await shop.ask(every(Pay()), context=system.authority.mint("ada", CONTEXTS[why]))
        await trio.sleep(100)
        assert system.statistics().timers == 0
        assert await shop.ask(Call(lambda actor: ("key" in actor.ctx.timers, len(actor.ctx.timers)))) == (False, 0)
        assert sum(reasons(system).values()) == 1
        assert len(await system.audit.entries(allowed=False)) == 1
        await shop.ask(every(Pay()))
        await trio.sleep(5.5)
        assert system.statistics().timers == 1, "the key is free again"
        assert conserved(system)


async def test_a_refusal_that_its_handler_got_from_somebody_else_ends_nothing(autojump_clock: MockClock) -> None:
    async with make() as system:
        shop = await system.spawn(Shop)
        await shop.ask(every(Buy()))
        await trio.sleep(5.5)
        assert await shop.ask(Call(lambda actor: actor.log)) == ["buy"] * 5
        assert system.statistics().timers == 1
        assert conserved(system)


async def test_the_refusal_of_another_message_ends_no_timer(autojump_clock: MockClock) -> None:
    async with make() as system:
        shop = await system.spawn(Shop)
        eve = system.authority.mint("eve", ["files.*"])
        await shop.ask(every(Pay()))
        for _ in range(5):
            await trio.sleep(0.7)
            shop.tell(Pay(2), context=eve)
        await trio.sleep(1)
        assert system.statistics().timers == 1 and reasons(system) == {"denied": 5}
        assert conserved(system)


async def test_a_consent_that_nobody_can_give_ends_it_too(autojump_clock: MockClock) -> None:
    class Risky(Puppet):
        @rt.handler(requires="shop.sell", approval=True)
        def sell(self, _: Pay) -> None: ...

    async with make() as system:
        ref = await system.spawn(Risky)
        await ref.ask(every(Pay()), context=system.authority.mint("ada", ["shop.sell"]))
        await trio.sleep(30)
        assert system.statistics().timers == 0 and sum(reasons(system).values()) == 1
        assert conserved(system)


# -- odd keys ------------------------------------------------------------------------------------------------------------------------------------------


class Key:
    """All of them have one hash; how their methods behave changes."""

    mode = "fine"

    def __init__(self, number: int) -> None:
        self.number = number

    def __hash__(self) -> int:
        if Key.mode == "no hash":
            raise ValueError("no hash")
        return 7

    def __eq__(self, other: object) -> bool:
        if Key.mode == "no eq":
            raise ValueError("no eq")
        if Key.mode == "boom":
            raise Boom
        if Key.mode == "never":
            return False
        return isinstance(other, Key) and self.number == other.number


@pytest.fixture(autouse=True)
def fine() -> Any:
    Key.mode = "fine"
    yield
    Key.mode = "fine"


@pytest.mark.parametrize("mode", ["no hash", "no eq", "boom", "never"])
@pytest.mark.parametrize("way", ["once", "every, refused", "cancel_all", "stop"])
async def test_a_timer_whose_key_has_gone_odd_ends_all_the_same(mode: str, way: str, autojump_clock: MockClock) -> None:
    def begin(actor: Any) -> None:
        timers = actor.ctx.timers
        for number in range(3):
            if way == "every, refused":
                timers.every(Key(number), Pay(), 1)
            else:
                timers.once(Key(number), Pay(), 1)
        timers.once(Key(3), Pay(), 1000)

    async with make() as system:
        shop = await system.spawn(Shop)
        context = system.authority.mint("ada", ["files.*"]) if way == "every, refused" else None
        await shop.ask(Call(begin), context=context)
        Key.mode = mode
        if way == "cancel_all":
            assert await shop.ask(Call(lambda actor: actor.ctx.timers.cancel_all())) == 4
        elif way == "stop":
            await shop.stop()
        else:
            await trio.sleep(5)
            Key.mode = "fine"
            assert system.statistics().timers == 1
            keys = await shop.ask(Call(lambda actor: [key.number for key in actor.ctx.timers.keys()]))  # noqa: SIM118
            assert keys == [3]
            assert await shop.ask(Call(lambda actor: actor.ctx.timers.cancel(Key(3)))) is True
        assert system.statistics().timers == system.statistics().deadlines == 0
        assert conserved(system)


async def test_a_key_that_raises_where_it_is_set_leaves_what_was_there(autojump_clock: MockClock) -> None:
    outcomes: list[Any] = []

    def script(actor: Any) -> None:
        timers = actor.ctx.timers
        timers.once(Key(1), Pay(1), 10)
        for mode in ("no eq", "no hash"):
            Key.mode = mode
            try:
                timers.once(Key(2), Pay(2), 10)
            except Exception as error:
                outcomes.append(type(error))
        Key.mode = "fine"
        outcomes.extend(key.number for key in timers.keys())  # noqa: SIM118

    async with make() as system:
        shop = await system.spawn(Shop)
        await shop.ask(Call(script))
        assert outcomes == [ValueError, rt.DefinitionError, 1]
        assert system.statistics().timers == 1
        await trio.sleep(11)
        assert await shop.ask(Call(lambda actor: actor.log)) == [1]
        assert system.statistics().timers == 0


async def test_a_key_that_cancels_timers_while_it_is_compared_leaves_no_zombie(autojump_clock: MockClock) -> None:
    class Meddler:
        actor: Any = None

        def __hash__(self) -> int:
            return 7

        def __eq__(self, other: object) -> bool:
            if Meddler.actor is not None:
                actor, Meddler.actor = Meddler.actor, None
                actor.ctx.timers.cancel_all()
                actor.ctx.timers.once("new", Pay(3), 1)
            return True

    def script(actor: Any) -> None:
        actor.ctx.timers.once(Meddler(), Pay(1), 1)
        Meddler.actor = actor
        actor.ctx.timers.once(Meddler(), Pay(2), 1)

    async with make() as system:
        shop = await system.spawn(Shop)
        await shop.ask(Call(script))
        assert await shop.ask(Call(lambda actor: len(actor.ctx.timers))) == system.statistics().timers == 2
        await trio.sleep(2)
        assert sorted(await shop.ask(Call(lambda actor: actor.log))) == [2, 3]
        assert system.statistics().timers == 0 and conserved(system)


@settings(max_examples=30)
@given(
    st.lists(st.tuples(st.sampled_from(["set", "cancel"]), st.sampled_from([0, False, 1, 1.0, True, 2, "1", (1,), (True,)])), max_size=30)
)
def test_keys_are_those_of_a_dict(steps: list[tuple[str, Any]]) -> None:
    async def run() -> None:
        async with make() as system:
            shop = await system.spawn(Shop)

            def script(actor: Any) -> None:
                model: dict[Any, int] = {}
                timers = actor.ctx.timers
                for number, (step, key) in enumerate(steps):
                    assert (key in timers) == (key in model)
                    if step == "set":
                        model[key] = number
                        timers.once(key, Pay(number), 1000)
                    else:
                        assert timers.cancel(key) == (model.pop(key, None) is not None)
                    assert [(type(one), one) for one in timers.keys()] == [(type(one), one) for one in model]  # noqa: SIM118

            await shop.ask(Call(script))
            left = len(dict.fromkeys(key for step, key in steps if step == "set")) if all(step == "set" for step, _ in steps) else None
            assert left is None or system.statistics().timers == left

    trio.run(run)
