"""Pykka actors that exist already join a system: they are addressed, asked, told and counted like any other actor."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from typing import Any, cast

import pykka
import pytest
import trio
from pykka.typing import ActorMemberMixin, proxy_method

import retinue as rt
from core_authority import error_of
from core_hosts import conserved, reasons
from pykka_program import MESSAGES, Balance, Clerk, Deposit, Do, Note, Till, waits_for
from quiet_threads import PATIENCE, open_after, until
from retinue.actors.hosts import adopted


@pytest.fixture(autouse=True)
def _the_program_ends() -> Iterator[None]:
    yield
    pykka.ActorRegistry.stop_all(timeout=PATIENCE)


async def test_it_is_asked_and_told_like_any_actor() -> None:
    async with rt.ActorSystem() as system:
        till = await system.adopt(Till.start(5), messages=MESSAGES, name="till")
        assert till.path == "/user/till"
        assert await till.ask(Deposit(3)) == 8
        assert till.tell(Deposit(2)).accepted
        assert await till.send(Note("hello"))
        assert await till.ask(Balance()) == 10
        assert conserved(system)
        assert reasons(system) == {}
        assert [actor.path for actor in system.actors()] == ["/user/till"]


async def test_messages_are_handled_one_at_a_time_in_the_order_they_came() -> None:
    actor = Till.start()
    async with rt.ActorSystem() as system:
        till = await system.adopt(actor, messages=MESSAGES)
        for number in range(50):
            till.tell(Deposit(number))
        assert actor.actor_inbox.qsize() <= 1  # they wait where they can be counted and withdrawn
        received = await till.ask(Do(lambda till: list(till.received)))
        assert [message.cents for message in received[:-1]] == list(range(50))


async def test_without_a_name_it_is_called_after_its_pykka_class() -> None:
    async with rt.ActorSystem() as system:
        till = await system.adopt(Till.start(), messages=[Deposit])
        assert till.path == "/user/Till-1"
        with pytest.raises(rt.NameTaken):
            await system.adopt(Till.start(), messages=[Deposit], name="Till-1")
        assert len(system.actors()) == 1


async def test_a_payload_of_any_kind_arrives_as_it_is() -> None:
    payload = {"command": ["sum", 1, 2]}
    async with rt.ActorSystem() as system:
        actor = Till.start()
        till = await system.adopt(actor, messages=[rt.PykkaMessage, Do])
        assert await till.ask(rt.PykkaMessage(payload)) is None
        (received, _) = await till.ask(Do(lambda till: till.received))
        assert received == payload


async def test_the_loop_goes_on_while_the_pykka_actor_works() -> None:
    gate = open_after(PATIENCE)
    async with rt.ActorSystem() as system:
        till = await system.adopt(Till.start(), messages=MESSAGES)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(till.ask, waits_for(gate))
            for _ in range(20):
                await trio.lowlevel.checkpoint()
            assert adopted.working(system._kernel) == 1
            gate.set()
        assert adopted.working(system._kernel) == 0


async def test_a_message_that_it_was_not_adopted_for_is_refused_where_it_is_sent() -> None:
    async with rt.ActorSystem() as system:
        till = await system.adopt(Till.start(), messages=[Deposit])
        with pytest.raises(rt.Unhandled):
            till.tell(Balance())
        with pytest.raises(rt.Unhandled):
            await till.ask(rt.PykkaMessage(1))


async def test_actors_with_methods_take_messages_by_the_names_of_these() -> None:
    proxy = Clerk.start().proxy()
    async with rt.ActorSystem() as system:
        clerk = await system.adopt(proxy, messages={Deposit: "deposit", Balance: "balance"})
        assert await clerk.ask(Deposit(cents=7)) == 7
        assert proxy.deposit(1).get() == 8  # the program's own way, past the system
        assert await clerk.ask(Balance()) == 8


class Signatures(pykka.ThreadingActor):
    use_daemon_thread = True

    def exact(self, cents: int) -> int:
        return cents

    def more(self, cents: int, currency: str = "EUR", *rest: Any, **others: Any) -> str:
        return f"{cents} {currency} {rest} {others}"

    def other_name(self, amount: int) -> int:
        return amount

    def more_wanted(self, cents: int, currency: str) -> str:
        return f"{cents} {currency}"

    def none(self) -> int:
        return 0

    def positional(self, cents: int, /) -> int:
        return cents

    @staticmethod
    def static(cents: int) -> int:
        return cents

    @classmethod
    def of_class(cls, cents: int) -> int:
        return cents

    @functools.wraps(exact)
    def wrapped(self, **fields: Any) -> Any:
        return fields


@pytest.mark.parametrize(
    ("method", "answer"),
    [("exact", 7), ("more", "7 EUR () {}"), ("static", 7), ("of_class", 7), ("wrapped", {"cents": 7})],
)
async def test_methods_that_can_take_a_messages_fields_get_them(method: str, answer: Any) -> None:
    async with rt.ActorSystem() as system:
        assert await (await system.adopt(Signatures.start(), messages={Deposit: method}, stop=True)).ask(Deposit(cents=7)) == answer


@pytest.mark.parametrize("method", ["other_name", "more_wanted", "none", "positional"])
async def test_methods_that_cannot_are_refused_when_it_is_adopted(method: str) -> None:
    actor = Signatures.start()
    async with rt.ActorSystem() as system:
        with pytest.raises(rt.DefinitionError, match=rf"Signatures\.{method} cannot take Deposit.*the fields cents"):
            await system.adopt(actor, messages={Deposit: method})
    actor.stop()


class Typed(pykka.ThreadingActor):
    use_daemon_thread = True

    def deposit(self, cents: int) -> int:
        return cents


class TypedProxy(ActorMemberMixin, pykka.ActorProxy[Typed]):
    deposit = proxy_method(Typed.deposit)


async def test_typed_proxies_are_adopted_too() -> None:
    async with rt.ActorSystem() as system:
        ref = await system.adopt(cast("TypedProxy", Typed.start().proxy()), messages={Deposit: "deposit"})
        assert await ref.ask(Deposit(4)) == 4


async def test_what_it_raises_reaches_the_asker_and_it_lives_on() -> None:
    def fail(_: Any) -> None:
        raise LookupError("no such account")

    async with rt.ActorSystem() as system:
        till = await system.adopt(Till.start(), messages=MESSAGES)
        with pytest.raises(LookupError, match="no such account"):
            await till.ask(Do(fail))
        assert till.tell(Do(fail))
        await system.wait_quiet()
        assert reasons(system) == {"poison": 1}
        assert await till.ask(Deposit(1)) == 1
        (counts,) = system.actors()
        assert (counts.failures, counts.restarts) == (2, 0)  # resumed: a stand-in has no state that a restart would mend
        assert conserved(system)


async def test_an_error_about_another_dead_actor_is_an_answer_and_no_end() -> None:
    other = Till.start()
    other.stop()
    async with rt.ActorSystem() as system:
        till = await system.adopt(Till.start(), messages=MESSAGES)
        with pytest.raises(pykka.ActorDeadError):
            await till.ask(Do(lambda _: other.ask(1)))
        assert await till.ask(Balance()) == 0


async def test_an_answer_that_comes_after_the_deadline_is_a_late_reply_and_the_next_one_waits_for_it() -> None:
    gate = open_after(PATIENCE)
    async with rt.ActorSystem() as system:
        till = await system.adopt(Till.start(), messages=MESSAGES)
        timeout = await error_of(till.ask(waits_for(gate), timeout=0.02))
        assert isinstance(timeout, rt.AskTimeout) and timeout.begun
        unbegun = await error_of(till.ask(Deposit(100), timeout=0.02))
        assert isinstance(unbegun, rt.AskTimeout) and unbegun.begun is False  # it never left the stand-in's mailbox
        gate.set()
        assert await till.ask(Balance()) == 0
        assert reasons(system) == {"late_reply": 1, "expired": 1}
        assert conserved(system)


async def test_one_that_never_replies_holds_its_stand_in_and_nobody_else() -> None:
    gate = open_after(PATIENCE)
    actor = Till.start()
    async with rt.ActorSystem(grace=0.05) as system:
        till = await system.adopt(actor, messages=MESSAGES, mailbox=rt.Mailbox.bounded(3))
        other = await system.adopt(Till.start(), messages=MESSAGES)
        assert isinstance(await error_of(till.ask(waits_for(gate), timeout=0.02)), rt.AskTimeout)
        assert [till.tell(Deposit(1)).reason for _ in range(4)] == [None, None, None, "mailbox_full"]
        assert await other.ask(Balance()) == 0
    assert actor.is_alive()  # neither joined nor ended: the thread is the program's
    assert conserved(system)
    found = reasons(system)
    assert found.pop("mailbox_full") == 1
    assert sum(found.values()) == 3 and set(found) <= {"system_closed", "cancelled"}
    gate.set()


async def test_a_full_inbox_of_the_programs_own_is_only_a_wait() -> None:
    actor = Till.start()
    gate = open_after(PATIENCE)
    actor.tell(waits_for(gate))
    for _ in range(5000):
        actor.tell(Deposit(1))
    async with rt.ActorSystem() as system:
        till = await system.adopt(actor, messages=MESSAGES)
        waiting = await error_of(till.ask(Balance(), timeout=0.02))
        assert isinstance(waiting, rt.AskTimeout)
        gate.set()
        assert await till.ask(Balance()) == 5000


async def test_a_future_that_it_answers_with_is_waited_for() -> None:
    bank = Till.start(9)
    gate = open_after(PATIENCE)
    async with rt.ActorSystem() as system:
        till = await system.adopt(Till.start(), messages=MESSAGES)
        assert await till.ask(Do(lambda _: bank.ask(Balance(), block=False))) == 9
        mapped = Do(lambda _: bank.ask(Balance(), block=False).map(lambda cents: (cents * 2, rt.__name__)))
        assert await till.ask(mapped) == (18, "retinue")
        with pytest.raises(LookupError):
            await till.ask(Do(lambda _: bank.ask(Do(lambda _: _raise(LookupError())), block=False)))
        slow = Do(lambda _: bank.ask(waits_for(gate), block=False))
        assert isinstance(await error_of(till.ask(slow, timeout=0.05)), rt.AskTimeout)
        assert await till.ask(Balance()) == 0  # the wait for the future has ended with its asker's
        gate.set()
        assert till.tell(slow)  # told: nobody wants to know what it comes to
        assert await till.ask(Balance()) == 0


async def test_a_time_out_that_the_future_holds_is_an_answer() -> None:
    bank = Till.start()
    async with rt.ActorSystem() as system:
        till = await system.adopt(Till.start(), messages=MESSAGES)
        with pytest.raises(pykka.Timeout):
            await till.ask(Do(lambda _: bank.ask(Do(lambda _: _raise(pykka.Timeout())), block=False)))


async def test_functions_of_the_pykka_program_act_under_no_authority_of_the_system() -> None:
    actor = Till.start()
    async with rt.ActorSystem() as system:
        till = await system.adopt(actor, messages=MESSAGES)
        other = await system.adopt(Till.start(), messages=MESSAGES)

        def tell(_: Any) -> Any:
            return other.tell(Deposit(1))

        with pytest.raises(rt.NoContext):
            await till.ask(Do(tell))
        with pytest.raises(rt.NoContext):
            await till.ask(Do(lambda till: till.actor_ref.ask(Balance(), block=False).map(tell)))
        assert await other.ask(Balance()) == 0


async def test_requests_that_still_wait_are_withdrawn_with_their_askers() -> None:
    gate = open_after(PATIENCE)
    async with rt.ActorSystem() as system:
        till = await system.adopt(Till.start(), messages=MESSAGES)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(till.ask, waits_for(gate))
            await until(lambda: adopted.working(system._kernel))
            with trio.move_on_after(0.02):
                await till.ask(Deposit(1))
            gate.set()
        assert await till.ask(Balance()) == 0
        assert conserved(system)


async def test_other_kinds_of_mailbox_work_before_it() -> None:
    gate = open_after(PATIENCE)
    async with rt.ActorSystem() as system:
        actor = Till.start()
        box = rt.Mailbox.priority(lambda message: getattr(message, "cents", 0))
        till = await system.adopt(actor, messages=MESSAGES, mailbox=box)
        till.tell(waits_for(gate))
        await until(lambda: adopted.working(system._kernel))
        for cents in (3, 1, 2):
            till.tell(Deposit(cents))
        gate.set()
        await system.wait_quiet()
        received = await till.ask(Do(lambda till: till.received))
        assert [message.cents for message in received[1:-1]] == [1, 2, 3]


async def test_other_actors_ask_it_and_are_asked_by_the_same_rules() -> None:
    @rt.message
    class Total(rt.Request[int]):
        pass

    class Accountant(rt.Actor):
        def __init__(self, till: rt.Ref[Any]) -> None:
            self.till = till

        @rt.handler
        async def total(self, _: Total) -> int:
            return await self.till.ask(Deposit(1)) + await self.till.ask(Balance())

    async with rt.ActorSystem() as system:
        till = await system.adopt(Till.start(), messages=MESSAGES)
        accountant = await system.spawn(Accountant, till)
        assert await accountant.ask(Total()) == 2


@pytest.mark.parametrize("options", [{"seed": 3}, {"events": 8}, {"loopback": True}], ids=str)
async def test_it_joins_every_kind_of_system(options: dict[str, Any]) -> None:
    async with rt.ActorSystem(**options) as system:
        till = await system.adopt(Till.start(), messages=[Deposit, Balance])
        assert await till.ask(Deposit(2)) == 2
        assert till.tell(Deposit(2))
        assert await till.ask(Balance()) == 4
        await system.wait_quiet()
        assert conserved(system)


async def test_two_systems_may_adopt_the_same_actor() -> None:
    actor = Till.start()
    async with rt.ActorSystem("one") as one, rt.ActorSystem("two") as two:
        first, second = await one.adopt(actor, messages=MESSAGES), await two.adopt(actor, messages=MESSAGES)
        assert await first.ask(Deposit(1)) == 1
        assert await second.ask(Deposit(1)) == 2


def _raise(error: Exception) -> Any:
    raise error


class Bounded(Till):
    @staticmethod
    def _create_actor_inbox() -> Any:
        import queue

        return queue.Queue(maxsize=3)


@pytest.mark.parametrize(
    ("actor", "options", "text"),
    [
        (lambda: Till, {"messages": MESSAGES}, "Till"),
        (lambda: None, {"messages": MESSAGES}, "NoneType"),
        (Bounded.start, {"messages": MESSAGES}, "inbox .* bound"),
        (Till.start, {"messages": ()}, "at least one"),
        (Till.start, {"messages": Deposit}, "tuple of message classes"),
        (Till.start, {"messages": [int]}, "takes message classes, not int"),
        (Till.start, {"messages": [Till.start]}, "takes message classes"),
        (Till.start, {"messages": [Deposit], "requires": {Balance: "till.read"}}, "Balance, which is not among"),
        (Till.start, {"messages": [Deposit], "approval": {Balance: True}}, "Balance, which is not among"),
        (Till.start, {"messages": [Deposit], "requires": "no such pattern!"}, "no such pattern"),
        (Till.start, {"messages": [Deposit], "approval": "yes"}, "approval"),
        (Till.start, {"messages": [Deposit], "stop": 1}, "stop=1"),
        (Till.start, {"messages": [Deposit], "mailbox": 3}, "mailbox"),
        (Clerk.start, {"messages": [Deposit]}, "has no on_receive"),
        (Clerk.start, {"messages": {Deposit: "pay"}}, "no public method 'pay'"),
        (Clerk.start, {"messages": {Deposit: "_secret"}}, "no public method '_secret'"),
        (Clerk.start, {"messages": {Deposit: "stop"}}, "no public method 'stop'"),
        (Clerk.start, {"messages": {Deposit: 5}}, "no public method 5"),
    ],
)
async def test_a_wrong_call_is_refused_with_what_to_write_instead(actor: Any, options: dict[str, Any], text: str) -> None:
    async with rt.ActorSystem() as system:
        with pytest.raises((rt.DefinitionError, rt.PatternError), match=text):
            await system.adopt(actor(), **options)
        assert system.actors() == []
        assert not [thread for thread in threading.enumerate() if thread.name.endswith(" pykka")]


async def test_a_stream_cannot_be_adopted() -> None:
    @rt.message
    class Ticks(rt.Stream[int]):
        pass

    async with rt.ActorSystem() as system:
        with pytest.raises(rt.DefinitionError, match="gives one answer"):
            await system.adopt(Till.start(), messages=[Ticks])


async def test_only_a_system_that_runs_adopts() -> None:
    with pytest.raises(rt.SystemClosed):
        await rt.ActorSystem().adopt(Till.start(), messages=[Deposit])


async def test_nothing_is_started_for_a_system_that_adopts_nobody() -> None:
    async with rt.ActorSystem() as system:
        assert system._kernel.adopted is None
        assert adopted.working(system._kernel) == 0
