"""A publisher that asks for it is told what became of its message at each subscriber."""

from __future__ import annotations

import logging
import math
from typing import Any

import pytest
import trio
import trio.testing

import retinue as rt
from core_actors import Boom
from core_hosts import Host, conserved, reasons
from topic_actors import PRICES, Fatal, Gated, Price, Publisher, Reader, Report, ThreadReader, plain_system


async def test_every_subscriber_has_its_outcome(host: Host) -> None:
    class Picky(rt.Actor):
        @rt.handler(requires="prices.see")
        def price(self, _: Price) -> None: ...

    async with host.system() as system:
        reader = await system.spawn(ThreadReader if host.blocking else Reader, name="reader")
        picky = await system.spawn(Picky, name="picky")
        system.topics.subscribe(PRICES, picky)
        context = system.authority.mint("ada", ["prices.other"])
        report = await system.topics.publish_and_report(PRICES, Price(1), context=context)
        assert report.topic == "prices"
        assert report.outcomes == {"/user/reader": "handled", "/user/picky": "denied"}
        assert isinstance(report.errors["/user/picky"], rt.Denied)
        assert (report.handled, report.denied, report.failed, report.dropped, report.stopped, report.timed_out) == (1, 1, 0, 0, 0, 0)
        assert not report
        report = await system.topics.publish_and_report(PRICES, Fatal(2))
        assert report.outcomes == {"/user/reader": "failed", "/user/picky": "handled"}
        assert isinstance(report.errors["/user/reader"], Boom)
        report = await system.topics.publish_and_report(PRICES, Price(3))
        assert report
        assert report.outcomes == {"/user/reader": "handled", "/user/picky": "handled"}
        assert {actor.path: actor.restarts for actor in system.actors()} == {reader.path: 1, picky.path: 0}
        assert reasons(system) == {}
        assert conserved(system)


async def test_an_actor_waits_for_the_report_and_is_no_failure_for_what_is_in_it() -> None:
    async with plain_system() as system:
        await system.spawn(Reader)
        publisher = await system.spawn(Publisher)
        report = await publisher.ask(Report(Fatal(1)))
        assert report.failed == 1
        assert conserved(system)


async def test_who_is_not_done_in_time_is_reported_so_and_goes_on(autojump_clock: trio.testing.MockClock) -> None:
    async with plain_system() as system:
        log: list[Any] = []
        permits = trio.Semaphore(0)
        await system.spawn(Gated, log, permits)
        await system.spawn(Reader)
        began = trio.current_time()
        report = await system.topics.publish_and_report(PRICES, Price(1), timeout=2.5)
        assert trio.current_time() - began == pytest.approx(2.5)
        assert sorted(report.outcomes.values()) == ["handled", "timeout"]
        assert report.timed_out == 1
        permits.release()
        await system.wait_quiet()
        assert log == [1]
        assert reasons(system) == {}
        assert conserved(system)


async def test_the_time_is_thirty_seconds_or_what_is_left_to_the_asker(autojump_clock: trio.testing.MockClock) -> None:
    async with plain_system() as system:
        await system.spawn(Gated, [], trio.Semaphore(0))
        began = trio.current_time()
        assert (await system.topics.publish_and_report(PRICES, Price(1))).timed_out == 1
        assert trio.current_time() - began == pytest.approx(30)
        publisher = await system.spawn(Publisher)
        began = trio.current_time()
        with pytest.raises(rt.AskTimeout):
            await publisher.ask(Report(Price(2), math.inf), timeout=5)
        assert trio.current_time() - began == pytest.approx(5)


@pytest.mark.parametrize("timeout", [-1, math.nan, True, "3", None])
async def test_the_time_is_a_number_of_seconds(timeout: Any) -> None:
    async with plain_system() as system:
        with pytest.raises(rt.DefinitionError, match="give seconds"):
            await system.topics.publish_and_report(PRICES, Price(1), timeout=timeout)


async def test_a_message_that_is_dropped_for_later_ones_is_reported_so() -> None:
    async with plain_system() as system:
        permits = trio.Semaphore(0)
        ref = await system.spawn(Gated, [], permits, 2)
        system.topics.publish(PRICES, Price(0))
        await trio.testing.wait_all_tasks_blocked()
        reports: list[rt.DeliveryReport] = []

        async def report(number: int) -> None:
            reports.append(await system.topics.publish_and_report(PRICES, Price(number)))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(report, 1)
            await trio.testing.wait_all_tasks_blocked()
            for number in (2, 3):
                system.topics.publish(PRICES, Price(number))
            await trio.testing.wait_all_tasks_blocked()
            assert [dict(one.outcomes) for one in reports] == [{ref.path: "dropped"}]
            nursery.start_soon(report, 4)
            await trio.testing.wait_all_tasks_blocked()
            system.topics.unsubscribe(PRICES, ref)
        assert [dict(one.outcomes) for one in reports] == [{ref.path: "dropped"}] * 2
        permits.release()
        await system.wait_quiet()
        assert conserved(system)


async def test_a_subscriber_that_stops_is_reported_so_queued_or_in_progress() -> None:
    async with plain_system() as system:
        ref = await system.spawn(Gated, [], trio.Semaphore(0))
        reports: list[rt.DeliveryReport] = []

        async def report(number: int) -> None:
            reports.append(await system.topics.publish_and_report(PRICES, Price(number)))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(report, 1)
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(report, 2)
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(ref.stop)
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(report, 3)
            await trio.testing.wait_all_tasks_blocked()
            await ref.stop(grace=0)
        assert [one.outcomes for one in reports] == [{ref.path: "stopped"}] * 3
        assert conserved(system)


async def test_the_end_of_the_system_completes_the_report() -> None:
    reports: list[rt.DeliveryReport] = []

    async def report(system: rt.ActorSystem) -> None:
        reports.append(await system.topics.publish_and_report(PRICES, Price(1), timeout=math.inf))

    async with trio.open_nursery() as nursery:
        async with plain_system() as system:
            await system.spawn(Gated, [], trio.Semaphore(0))
            nursery.start_soon(report, system)
            await trio.testing.wait_all_tasks_blocked()
            await system.stop(grace=0)
        await trio.testing.wait_all_tasks_blocked()
    assert reports[0].stopped == 1


async def test_a_publisher_that_is_cancelled_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    class Late(Gated):
        @rt.handler
        async def price(self, message: Price) -> None:
            await self.permits.acquire()
            if isinstance(message, Fatal):
                raise Boom("late")
            self.log.append(message.number)

    async with plain_system() as system:
        log: list[Any] = []
        permits = trio.Semaphore(0)
        await system.spawn(Late, log, permits)
        for message in (Price(1), Fatal(2), Price(3)):
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(system.topics.publish_and_report, PRICES, message)
                    await trio.testing.wait_all_tasks_blocked()
                    scope.cancel()
        with caplog.at_level(logging.ERROR, "retinue.topics"):
            for _ in range(3):
                permits.release()
            await system.wait_quiet()
        assert log == [1, 3]
        assert ["/user/Late-1 failed on Fatal" in record.message for record in caplog.records] == [True]
        assert reasons(system) == {}
        assert conserved(system)


async def test_a_handler_that_defers_or_stashes_is_done_when_it_is() -> None:
    class Patient(rt.Actor):
        def __init__(self) -> None:
            self.later: list[Any] = []
            self.open = False

        @rt.handler
        def price(self, message: Price) -> None:
            if message.number == 1:
                self.later.append(self.ctx.defer())
            elif message.number == 2 and not self.open:
                self.ctx.stash()
            elif message.number == 3:
                self.open = True
                self.ctx.unstash_all()
                for later in self.later:
                    later.reply(None)

    async with plain_system() as system:
        ref = await system.spawn(Patient)
        system.topics.subscribe(PRICES, ref)
        reports: dict[int, rt.DeliveryReport] = {}

        async def report(number: int) -> None:
            reports[number] = await system.topics.publish_and_report(PRICES, Price(number))

        async with trio.open_nursery() as nursery:
            for number in (1, 2):
                nursery.start_soon(report, number)
                await trio.testing.wait_all_tasks_blocked()
            assert reports == {}
            await report(3)
        assert all(reports[number] for number in (1, 2, 3))
        assert conserved(system)


async def test_a_handler_that_forwards_leaves_the_outcome_to_the_other() -> None:
    class Forwards(rt.Actor):
        @rt.handler
        def price(self, message: Price) -> None:
            self.ctx.forward(target, message)

    async with plain_system() as system:
        target = await system.spawn(Reader, None, None)
        front = await system.spawn(Forwards)
        system.topics.subscribe(PRICES, front)
        assert (await system.topics.publish_and_report(PRICES, Price(1))).outcomes == {front.path: "handled"}
        report = await system.topics.publish_and_report(PRICES, Fatal(1))
        assert report.outcomes == {front.path: "failed"}
        assert conserved(system)


# -- rings ---------------------------------------------------------------------------------------------------------------------------------------------


async def test_a_publisher_that_would_wait_for_itself_is_told_at_once() -> None:
    class Vain(Publisher):
        def on_start(self) -> None:
            self.ctx.topics.subscribe(PRICES)

        @rt.handler
        def price(self, _: Price) -> None:
            raise AssertionError("nothing was sent")

    async with plain_system() as system:
        vain = await system.spawn(Vain, name="vain")
        with pytest.raises(rt.AskCycle, match="/user/vain -> /user/vain"):
            await vain.ask(Report(Price(1)))
        assert conserved(system)


async def test_a_subscriber_that_asks_the_publisher_back_is_told_at_once(autojump_clock: trio.testing.MockClock) -> None:
    class Asks(rt.Actor):
        @rt.handler
        async def price(self, message: Price) -> None:
            await publisher.ask(Report(message))

    async with plain_system() as system:
        publisher = await system.spawn(Publisher, name="publisher")
        for name in ("first", "second"):
            system.topics.subscribe(PRICES, await system.spawn(Asks, name=name))
        await system.spawn(Gated, [], trio.Semaphore(1))
        began = trio.current_time()
        report = await publisher.ask(Report(Price(1)))
        assert trio.current_time() == began
        assert sorted(report.outcomes.values()) == ["failed", "failed", "handled"]
        assert all(isinstance(error, rt.AskCycle) for error in report.errors.values())
        assert conserved(system)


async def test_a_publisher_whose_subscriber_waits_for_it_is_told_at_once(autojump_clock: trio.testing.MockClock) -> None:
    class Asks(rt.Actor):
        def on_start(self) -> None:
            self.ctx.topics.subscribe(PRICES)

        @rt.handler
        async def ask(self, message: Report) -> Any:
            return await publisher.ask(message)

        @rt.handler
        def price(self, _: Price) -> None: ...

    async with plain_system() as system:
        publisher = await system.spawn(Publisher, name="publisher")
        asks = await system.spawn(Asks, name="asks")
        began = trio.current_time()
        with pytest.raises(rt.AskCycle, match="/user/publisher -> /user/asks"):
            await asks.ask(Report(Price(1)))
        assert trio.current_time() == began
        assert conserved(system)


async def test_a_blocking_actor_cannot_await_a_report() -> None:
    class Blocked(rt.Actor, blocking=True):
        @rt.handler
        def report(self, message: Report) -> str:
            coroutine = self.ctx.topics.publish_and_report(PRICES, message.message)
            try:
                coroutine.send(None)
            except rt.DefinitionError as error:
                return str(error)
            return "went on"

    async with plain_system() as system:
        blocked = await system.spawn(Blocked)
        assert "cannot await a report" in await blocked.ask(Report(Price(1)))
