"""Fault injection: which messages are struck, and installing."""

from __future__ import annotations

import math
from typing import Any

import pytest
import trio
import trio.testing

import retinue as rt
import retinue.testing as rtt
from fault_actors import Add, Blocking, Other, Pass, Sum, since

# -- which messages ----------------------------------------------------------------------------------------------------------------------------------------


async def test_rules_are_for_types_predicates_receivers_and_senders(actor_system: rt.ActorSystem, virtual_clock: Any) -> None:
    a, b = await actor_system.spawn(Sum, name="a"), await actor_system.spawn(Sum, name="b")
    with rtt.Faults(actor_system) as faults:
        for which, lost in (
            ({"match": Add}, "ab"),
            ({"match": Other}, ""),
            ({"match": (Other, Add)}, "ab"),
            ({"match": lambda message: message.number == 2}, ""),
            ({"to": a}, "a"),
            ({"to": "/user/b"}, "b"),
            ({"to": "/user/*"}, "ab"),
            ({"to": Blocking}, ""),
            ({"to": Sum, "sender": "outside"}, "ab"),
            ({"sender": a}, ""),
            ({"sender": Sum}, ""),
        ):
            before = actor_system.dead_letters.count
            rule = faults.drop(**which)  # type: ignore[arg-type]
            a.tell(Add(1))
            b.tell(Add(1))
            assert "".join(letter.target[-1] for letter in actor_system.dead_letters.recent[before:]) == lost, which
            assert rule.hits == len(lost)
            rule.remove()
            rule.remove()
        faults.drop(Other, sender=a, to=b)
        with pytest.raises(rt.AskTimeout):
            await a.ask(Pass(b, Other(1)))
        assert faults.log[-1].sender == "/user/a"
        faults.clear()
        assert (await a.ask(Pass(b, Other(9))))[-1] == 9


async def test_the_first_rule_that_strikes_is_the_one(actor_system: rt.ActorSystem) -> None:
    ref = await actor_system.spawn(Sum)
    with rtt.Faults(actor_system) as faults:
        faults.duplicate(Other)
        faults.drop(Add)
        ref.tell(Other(1))
        ref.tell(Add(2))
        await actor_system.wait_quiet()
        assert [entry.fault for entry in faults.log] == ["duplicate", "drop"]
        assert repr(faults._rules[0]) == "<FaultRule duplicate: 1>"


async def test_pools_and_virtual_actors_are_struck_as_any(actor_system: rt.ActorSystem, virtual_clock: Any) -> None:
    pool = await actor_system.spawn_pool(Sum, pool=rt.Pool.round_robin(2), name="pool")
    pulling = await actor_system.spawn_pool(Sum, pool=rt.Pool.work_pulling(2, retries=1), name="pulling")
    sums = await actor_system.spawn_virtual(Sum, name="sums", idle=5)
    with rtt.Faults(actor_system) as faults:
        for ref in (pool, pulling, sums["ada"]):
            lost = faults.drop(Add, to=ref, times=1)
            with pytest.raises(rt.AskTimeout):
                await ref.ask(Add(1), timeout=1)
            faults.delay(Add, 2, to=ref, times=1)
            start = trio.current_time()
            assert (await ref.ask(Add(2)))[-1] == 2
            assert since(start) == 2
            faults.duplicate(Add, to=ref, times=1)
            assert (await ref.ask(Add(3)))[-1] == 3
            await actor_system.wait_quiet()
            rtt.assert_conserved(actor_system)
            assert lost.hits == 1
        faults.clear()
        await trio.sleep(20)  # Ada's sum is passivated meanwhile
        faults.delay(Add, 20, to=sums["ada"], times=1)
        assert await sums["ada"].ask(Add(4)) == [4]
        assert faults.kill(sums["ada"])
        assert await sums["ada"].ask(Add(5)) == [5]
        killed = faults.kill(Add, to=pulling, times=1)
        assert (await pulling.ask(Add(6)))[-1] == 6  # by another worker
        assert killed.hits == 1
    rtt.assert_conserved(actor_system)


async def test_a_seed_repeats_what_is_struck(actor_system: rt.ActorSystem) -> None:
    async def struck(seed: int) -> list[int]:
        ref = await actor_system.spawn(Sum)
        with rtt.Faults(actor_system, seed=seed) as faults:
            faults.drop(Add, probability=0.5)
            for number in range(40):
                ref.tell(Add(number))
            await actor_system.wait_quiet()
        return await ref.ask(Add(-1))

    assert await struck(1) == await struck(1) != await struck(2)


async def test_a_predicate_that_fails_is_raised_at_the_send_site_and_nothing_was_sent(actor_system: rt.ActorSystem) -> None:
    ref = await actor_system.spawn(Sum)
    with rtt.Faults(actor_system) as faults:
        faults.drop(lambda message: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            ref.tell(Add(1))
        with pytest.raises(ZeroDivisionError):
            await ref.ask(Add(1))
    assert actor_system.statistics().sent == 0
    rtt.assert_conserved(actor_system)


async def test_the_household_is_not_touched_unless_asked(virtual_clock: Any) -> None:
    class Careful(rt.Actor):
        @rt.handler(requires="work.do", approval=True)
        def add(self, message: Add) -> list[int]:
            return [message.number]

    async with rt.ActorSystem("consent") as system:
        ref = await system.spawn(Careful)
        with rtt.Faults(system) as faults:
            faults.drop(to="/system/*")
            faults.drop_reply(to="/system/*")
            with pytest.raises(rt.ApprovalRequired):
                await ref.ask(Add(1))
            assert not faults.log
            faults.delay(None, 5, to="/system/*", household=True)
            start = trio.current_time()
            with pytest.raises(rt.ApprovalRequired):
                await ref.ask(Add(2))
            assert since(start) >= 5


async def test_other_threads_and_loopbacks_are_on_links_too(virtual_clock: Any) -> None:
    async with rt.ActorSystem("far", loopback=True) as system:
        ref = await system.spawn(Sum)
        with rtt.Faults(system) as faults:
            faults.duplicate(Add)
            context = system.authority.root
            assert await ref.ask(Add(1)) == [1]
            await trio.to_thread.run_sync(lambda: ref.tell(Add(2), context=context))
            await system.wait_quiet()
            faults.clear()
            assert await ref.ask(Add(3)) == [1, 1, 2, 2, 3]


# -- installing --------------------------------------------------------------------------------------------------------------------------------------------


async def test_without_faults_everything_is_as_before(actor_system: rt.ActorSystem) -> None:
    kernel = actor_system._kernel
    assert kernel.plain
    with rtt.Faults(actor_system):
        assert not kernel.plain
        with pytest.raises(rt.DefinitionError, match="has faults already"):
            rtt.Faults(actor_system).__enter__()
    assert kernel.plain and kernel.faults is None


async def test_a_system_that_does_not_run_has_no_faults() -> None:
    system = rt.ActorSystem("later")
    with pytest.raises(rt.SystemClosed, match="not running"):
        rtt.Faults(system).__enter__()
    async with system:
        with pytest.raises(rt.WrongThread):
            await trio.to_thread.run_sync(rtt.Faults(system).__enter__)
    with pytest.raises(rt.SystemClosed):
        rtt.Faults(system).__enter__()
    with pytest.raises(rt.DefinitionError, match=r"takes an rt\.ActorSystem"):
        rtt.Faults("system")  # type: ignore[arg-type]


async def test_malformed_rules_say_what_to_give(actor_system: rt.ActorSystem) -> None:
    ref = await actor_system.spawn(Sum)
    faults = rtt.Faults(actor_system)
    wrong: list[tuple[Any, str]] = [
        (lambda: faults.drop(Sum), "actors go with to="),
        (lambda: faults.drop(()), "matches no message"),
        (lambda: faults.drop(7), "a function of the message, or None"),
        (lambda: faults.drop(Add(1)), "is a message; give its class"),
        (lambda: faults.drop(to="bank"), "a path such as"),
        (lambda: faults.drop(sender=7), "'outside' is whatever no actor sent"),
        (lambda: faults.drop(probability=1.5), "a number from 0 to 1"),
        (lambda: faults.drop(times=0), "1 or more"),
        (lambda: faults.drop(form=Add), "it takes to=, sender=, probability=, times=, household="),
        (lambda: faults.delay(Add, -1), "0 or more"),
        (lambda: faults.delay_reply(Add, math.inf), "give seconds"),
        (lambda: faults.kill(Add, hard=True), "hard=True goes with a ref"),
        (lambda: faults.kill(ref), "works inside the block"),
    ]
    for call, text in wrong:
        with pytest.raises(rt.DefinitionError) as caught:
            call()
        assert text in str(caught.value)
