"""Policies that have to be waited for: the wait is part of the turn, so whatever ends a turn ends it, and nothing is handled before the answer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import attrs
import pytest
import trio
import trio.lowlevel
from trio.testing import MockClock, wait_all_tasks_blocked

import retinue as rt
from consent_actors import Async, Many, Plain
from core_authority import error_of, tie_clock
from core_hosts import conserved, reasons
from core_puppet import Call


@rt.message
class Free(rt.Request[str]):
    """Of an operation that no policy is asked about."""


class Worker(rt.Actor):
    def __init__(self) -> None:
        self.log: list[str] = []

    @rt.handler(requires="work.plain")
    def plain(self, message: Plain) -> str:
        self.log.append(message.text)
        return f"{message.text} for {self.ctx.security.subject}"

    @rt.handler(requires="work.async", raises=ValueError)
    async def coroutine(self, message: Async) -> str:
        await trio.lowlevel.checkpoint()
        if message.text == "fail":
            raise ValueError("as asked")
        self.log.append(message.text)
        return f"{message.text} for {self.ctx.security.subject}"

    @rt.handler(requires="work.stream")
    async def many(self, message: Many) -> AsyncIterator[str]:
        for number in range(3):
            yield f"{message.text} {number} for {self.ctx.security.subject}"
        self.log.append(message.text)

    @rt.handler(requires="free.work")
    def free(self, _: Free) -> str:
        return "free"

    @rt.handler
    def call(self, message: Call) -> Any:
        return message.script(self)


class Held:
    """A policy that waits until a test opens it."""

    name = "held"
    operations = ("work.**",)

    def __init__(self, answer: Any = None) -> None:
        self.gate = trio.Event()
        self.waiting = 0
        self.cancelled = 0
        self.answer = rt.Verdict.allow() if answer is None else answer

    async def decide(self, call: rt.PolicyCall) -> rt.Verdict:
        self.waiting += 1
        try:
            await self.gate.wait()
        except trio.Cancelled:
            self.cancelled += 1
            raise
        return self.answer(call) if callable(self.answer) else self.answer


async def all_of(worker: rt.Ref[Worker], **options: Any) -> list[Any]:
    """What the three kinds of handlers answer."""

    async def streamed() -> list[str]:
        async with worker.stream(Many(), **options) as items:
            return [item async for item in items]

    return [await error_of(worker.ask(Plain(), **options)), await error_of(worker.ask(Async(), **options)), await error_of(streamed())]


async def log_of(worker: rt.Ref[Worker]) -> list[str]:
    return list(await worker.ask(Call(lambda actor: actor.log)))


async def test_each_kind_of_handler_runs_after_a_yes_and_only_then() -> None:
    held = Held()
    async with rt.ActorSystem(policies=[held]) as system:
        worker = await system.spawn(Worker)
        ada = system.authority.mint("ada", ["work.**"])
        found: list[Any] = []

        async def ask() -> None:
            found.extend(await all_of(worker, context=ada))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await wait_all_tasks_blocked()
            assert held.waiting == 1
            assert system.statistics().queued == 1
            held.gate.set()
        assert found == ["plain for ada", "async for ada", [f"stream {number} for ada" for number in range(3)]]
        assert await log_of(worker) == ["plain", "async", "stream"]
        assert conserved(system)


async def test_each_kind_of_handler_is_refused_by_a_no() -> None:
    held = Held(rt.Verdict.refuse("not today"))
    held.gate.set()
    async with rt.ActorSystem(policies=[held]) as system:
        worker = await system.spawn(Worker)
        found = await all_of(worker)
        assert [type(error) for error in found] == [rt.Denied] * 3
        assert {error.reason for error in found} == {"policy"}
        for message in (Plain(), Async()):
            assert worker.tell(message)
        assert await log_of(worker) == []
        assert reasons(system) == {"denied": 2}
        assert len(await system.audit.entries(allowed=False, operation="work.*")) == 5
        assert conserved(system)


async def test_what_it_rewrites_is_what_each_kind_of_handler_gets() -> None:
    held = Held(lambda call: rt.Verdict.rewrite(attrs.evolve(call.message, text="rewritten")))
    held.gate.set()
    async with rt.ActorSystem(policies=[held]) as system:
        worker = await system.spawn(Worker)
        found = await all_of(worker)
        assert found == ["rewritten for root", "rewritten for root", [f"rewritten {number} for root" for number in range(3)]]


async def test_what_a_handler_raises_is_what_its_asker_gets() -> None:
    held = Held()
    held.gate.set()
    async with rt.ActorSystem(policies=[held]) as system:
        worker = await system.spawn(Worker)
        with pytest.raises(ValueError, match="as asked"):
            await worker.ask(Async("fail"))
        assert await log_of(worker) == []


async def test_operations_that_it_is_not_asked_about_do_not_wait() -> None:
    held = Held()
    async with rt.ActorSystem(policies=[held]) as system:
        worker = await system.spawn(Worker)
        assert await worker.ask(Free()) == "free"
        assert held.waiting == 0


async def test_an_asker_that_gives_up_ends_the_wait(autojump_clock: MockClock) -> None:
    held = Held()
    async with rt.ActorSystem(policies=[held], policy_timeout=60) as system:
        worker = await system.spawn(Worker)
        for ask in (lambda: worker.ask(Plain(), timeout=3), lambda: worker.ask(Async(), timeout=3)):
            began = trio.current_time()
            with pytest.raises(rt.AskTimeout) as caught:
                await ask()
            assert caught.value.begun is True
            assert trio.current_time() - began == pytest.approx(3)
        with trio.move_on_after(3):
            await worker.ask(Plain())
        with pytest.raises(rt.AskTimeout):
            async with worker.stream(Many(), timeout=3) as items:
                async for _ in items:
                    raise AssertionError("nothing was admitted")
        await wait_all_tasks_blocked()
        assert held.waiting == held.cancelled == 4
        held.gate.set()
        assert await log_of(worker) == []
        assert await worker.ask(Plain()) == "plain for root"
        assert conserved(system)


async def test_a_stop_of_the_actor_ends_the_wait(autojump_clock: MockClock) -> None:
    held = Held()
    async with rt.ActorSystem(policies=[held], policy_timeout=60) as system:
        worker = await system.spawn(Worker)
        found: list[Any] = []

        async def ask() -> None:
            found.append(await error_of(worker.ask(Async())))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await wait_all_tasks_blocked()
            worker.tell(Plain())
            began = trio.current_time()
            await worker.stop(grace=2)
            assert trio.current_time() - began == pytest.approx(2)
        (error,) = found
        assert isinstance(error, rt.ActorStopped)
        assert (held.waiting, held.cancelled) == (1, 1)
        assert reasons(system) == {"stopped": 1}
        assert conserved(system)


async def test_the_end_of_the_system_ends_the_wait(autojump_clock: MockClock) -> None:
    held = Held()
    found: list[Any] = []

    async def ask(worker: rt.Ref[Worker]) -> None:
        found.append(await error_of(worker.ask(Async())))

    async with trio.open_nursery() as nursery:
        async with rt.ActorSystem(policies=[held], policy_timeout=60, grace=2) as system:
            worker, other = await system.spawn(Worker), await system.spawn(Worker)
            nursery.start_soon(ask, worker)
            await wait_all_tasks_blocked()
            other.tell(Plain())
            await wait_all_tasks_blocked()
            began = trio.current_time()
        assert trio.current_time() - began == pytest.approx(2)
    (error,) = found
    assert isinstance(error, rt.ActorStopped)
    assert (held.waiting, held.cancelled) == (2, 2)


async def test_one_that_hangs_is_refused_after_its_time_for_asked_and_told(autojump_clock: MockClock) -> None:
    held = Held()
    async with rt.ActorSystem(policies=[held], policy_timeout=4) as system:
        worker = await system.spawn(Worker)
        began = trio.current_time()
        error = await error_of(worker.ask(Plain()))
        assert trio.current_time() - began == pytest.approx(4)
        assert isinstance(error, rt.Denied)
        assert error.reason == "policy"
        worker.tell(Async())
        await system.wait_quiet()
        assert reasons(system) == {"denied": 1}
        assert await log_of(worker) == []
        assert conserved(system)


async def test_the_authority_may_expire_or_be_revoked_while_it_is_waited_for(autojump_clock: MockClock) -> None:
    held = Held()
    async with rt.ActorSystem(policies=[held], policy_timeout=60) as system:
        tie_clock(system)
        worker = await system.spawn(Worker)
        ada = system.authority.mint("ada", ["work.**", rt.expires(seconds=3)])
        with pytest.raises(rt.AskTimeout) as caught:
            await worker.ask(Plain(), context=ada)
        assert isinstance(caught.value.__cause__, rt.Expired)
        bob = system.authority.mint("bob", ["work.**"])
        found: list[Any] = []

        async def ask() -> None:
            found.append(await error_of(worker.ask(Async(), context=bob)))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await wait_all_tasks_blocked()
            system.authority.revoke(bob)
            held.gate.set()
        (error,) = found
        assert isinstance(error, rt.Revoked)
        assert await log_of(worker) == []


async def test_a_told_message_that_expires_while_it_is_waited_for_is_an_expired_dead_letter(autojump_clock: MockClock) -> None:
    held = Held()
    async with rt.ActorSystem(policies=[held], policy_timeout=60) as system:
        tie_clock(system)
        worker = await system.spawn(Worker)
        worker.tell(Plain(), context=system.authority.mint("ada", ["work.**", rt.expires(seconds=3)]))
        await system.wait_quiet()
        assert reasons(system) == {"expired": 1}
        assert (held.waiting, held.cancelled) == (1, 1)
        assert await log_of(worker) == []


async def test_it_may_ask_an_actor_and_acts_under_the_messages_authority() -> None:
    seen: list[str] = []

    @rt.message
    class May(rt.Request[bool]):
        operation: str

    class Judge(rt.Actor):
        @rt.handler
        async def may(self, message: May) -> bool:
            seen.append(f"{message.operation} for {self.ctx.security.subject}")
            await trio.lowlevel.checkpoint()
            return message.operation == "work.plain"

    holder: dict[str, rt.Ref[Judge]] = {}

    @rt.policy(operations=["work.**"])
    async def ask_the_judge(call: rt.PolicyCall) -> rt.Verdict:
        return rt.Verdict.allow() if await holder["judge"].ask(May(call.operation)) else rt.Verdict.refuse("the judge says no")

    async with rt.ActorSystem(policies=[ask_the_judge]) as system:
        holder["judge"] = await system.spawn(Judge)
        worker = await system.spawn(Worker)
        ada = system.authority.mint("ada", ["work.**"])
        assert await worker.ask(Plain(), context=ada) == "plain for ada"
        assert isinstance(await error_of(worker.ask(Async(), context=ada)), rt.Denied)
        assert seen == ["work.plain for ada", "work.async for ada"]


async def test_a_judge_that_asks_the_waiting_actor_back_is_told_of_the_ring() -> None:
    holder: dict[str, Any] = {}

    class Judge(rt.Actor):
        @rt.handler
        async def may(self, _: Free) -> str:
            return str(await holder["worker"].ask(Call(lambda _: "never")))

    @rt.policy(operations=["work.**"])
    async def ask_the_judge(_: rt.PolicyCall) -> rt.Verdict:
        await holder["judge"].ask(Free())
        return rt.Verdict.allow()

    async with rt.ActorSystem(policies=[ask_the_judge]) as system:
        holder["judge"], holder["worker"] = await system.spawn(Judge), await system.spawn(Worker)
        error = await error_of(holder["worker"].ask(Plain()))
        assert isinstance(error, rt.Denied)
        assert isinstance(error.__cause__ or error.__context__, Exception)
        assert await log_of(holder["worker"]) == []
