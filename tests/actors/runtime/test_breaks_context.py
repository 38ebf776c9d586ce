"""What an actor's context withstands: reply slots in other threads, cancellations as answers, refs of other systems, mailboxes that refuse."""

from __future__ import annotations

import copy
import math
import pickle
import threading
from typing import Any

import pytest
import trio
import trio.testing

import retinue as rt
from core_hosts import conserved, reasons
from core_puppet import Call, Do, Puppet
from retinue.actors.runtime import receipts
from retinue.actors.runtime.asking import check_timeout


@rt.message
class Finish(rt.Message):
    slot: Any


class Finisher(rt.Actor, blocking=True):
    """Answers in its thread what another actor has deferred."""

    def __init__(self) -> None:
        self.told: list[bool] = []

    @rt.handler
    def finish(self, request: Finish) -> None:
        self.told += [request.slot.reply(threading.get_ident()), request.slot.fail(ValueError("twice"))]


async def test_a_blocking_actor_answers_a_slot_that_another_one_deferred() -> None:
    async with rt.ActorSystem("slots") as system:
        finisher, front = await system.spawn(Finisher), await system.spawn(Puppet)

        def hand(actor: Puppet) -> None:
            finisher.tell(Finish(actor.ctx.defer()))

        with trio.fail_after(10):
            assert await front.ask(Call(hand)) != threading.get_ident()
            await system.wait_quiet()
        assert reasons(system) == {"late_reply": 1}
        assert conserved(system)


async def test_a_slot_is_failed_from_any_thread_and_answers_false_after_the_end() -> None:
    slots: list[Any] = []
    async with rt.ActorSystem("slots") as system:
        front = await system.spawn(Puppet)

        def defer(actor: Puppet) -> None:
            slots.append(actor.ctx.defer())
            threading.Thread(target=slots[0].fail, args=(KeyError("from a thread"),)).start()

        with trio.fail_after(10), pytest.raises(KeyError, match="from a thread"):
            await front.ask(Call(defer))
    assert await trio.to_thread.run_sync(slots[0].reply, "late") is False


async def test_a_task_is_cancelled_from_a_thread() -> None:
    async with rt.ActorSystem("slots") as system:
        front = await system.spawn(Puppet)
        task = await front.ask(Call(lambda actor: actor.ctx.start_soon(trio.sleep_forever)))
        await trio.to_thread.run_sync(task.cancel)
        with trio.fail_after(10):
            await task.wait()
        assert task.done


async def test_a_cancellation_does_not_cross_a_reply_slot() -> None:
    async with rt.ActorSystem("slots") as system:
        front = await system.spawn(Puppet)

        def defer(actor: Puppet) -> None:
            slot = actor.ctx.defer()

            async def work() -> None:
                try:
                    await trio.sleep_forever()
                except BaseException as error:
                    slot.fail(error)
                    raise

            actor.log.append(actor.ctx.start_soon(work))

        async def ask() -> None:
            with pytest.raises(rt.AskCancelled, match=r"what worked on Call for /user/Puppet-1 was cancelled") as caught:
                await front.ask(Call(defer))
            assert (caught.value.path, caught.value.begun) == (front.path, True)
            went_on.append(1)

        went_on: list[int] = []
        with trio.fail_after(10):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ask)
                await trio.testing.wait_all_tasks_blocked()
                await front.ask(Call(lambda actor: actor.log[0].cancel()))
        assert went_on == [1]
        await system.wait_quiet()
        assert conserved(system)


async def test_a_forward_that_the_mailbox_refuses_leaves_the_request_with_its_actor() -> None:
    def no_key(_: Any) -> int:
        raise ZeroDivisionError

    async with rt.ActorSystem("slots") as system:
        front, back = await system.spawn(Puppet), await system.spawn(Puppet, mailbox=rt.Mailbox.priority(no_key))

        def forward(actor: Puppet) -> str:
            with pytest.raises(rt.DefinitionError):
                actor.ctx.forward(back, Call(lambda _: "from the back"))
            return "fallback"

        async def forward_late(actor: Puppet) -> str:
            await trio.lowlevel.checkpoint()
            return forward(actor)

        with trio.fail_after(10):
            assert await front.ask(Call(forward)) == "fallback"
            assert await front.ask(Do(forward_late)) == "fallback"
            async with trio.open_nursery() as nursery:  # the second one goes by the queue
                nursery.start_soon(front.ask, Do(forward_late))
                nursery.start_soon(front.ask, Do(forward_late))
        await system.wait_quiet()
        assert conserved(system)
        assert system.statistics().deadlines == 0


@pytest.mark.parametrize("told", [False, True])
async def test_nothing_is_forwarded_to_another_system(told: bool) -> None:
    async with rt.ActorSystem("here") as here, rt.ActorSystem("there") as there:
        front, back = await here.spawn(Puppet), await there.spawn(Puppet)
        permitted = there.authority.mint("anybody", ["**"])
        seen: list[str] = []

        def forward(actor: Puppet) -> str:
            with pytest.raises(
                rt.DefinitionError, match=r"belongs to another system \('there', and this is 'here'\): ask it and answer, or tell it"
            ):
                actor.ctx.forward(back, Call(lambda _: seen.append("forwarded")), context=permitted)
            return "mine"

        if told:
            front.tell(Call(forward))
        else:
            assert await front.ask(Call(forward)) == "mine"
        for system in (here, there):
            await system.wait_quiet()
            assert conserved(system)
        assert seen == []
        assert reasons(here) == {}


@pytest.mark.parametrize("receipt", [receipts.ACCEPTED, receipts.HANDED_OVER, receipts.FULL], ids=repr)
def test_a_receipt_is_its_own_copy_and_survives_pickling(receipt: rt.Receipt) -> None:
    assert copy.copy(receipt) is receipt
    assert copy.deepcopy([receipt])[0] is receipt
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.loads(pickle.dumps(receipt, protocol))
        assert (again.accepted, again.reason) == (receipt.accepted, receipt.reason)
        assert again == receipt
        assert hash(again) == hash(receipt)
    assert receipt != receipts.STOPPED
    assert receipt != (receipt.accepted, receipt.reason)


@pytest.mark.parametrize(
    "timeout",
    [10**400, 10**5000, -(10**5000), -1, math.nan, True, "1"],
    ids=["huge", "unprintable", "hugely negative", "negative", "nan", "bool", "str"],
)
def test_a_timeout_that_is_no_number_of_seconds_is_refused(timeout: Any) -> None:
    with pytest.raises(rt.DefinitionError, match="timeout"):
        check_timeout(timeout)
