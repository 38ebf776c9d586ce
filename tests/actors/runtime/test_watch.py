"""Contract point 8: a watch yields exactly one Terminated, at once for an actor that is gone already."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

import pytest
import trio
import trio.testing

import retinue as rt
from core_actors import Boom, Break, Double, Hold, Leave, Note, Notes, Plain
from core_hosts import Host, conserved
from core_latch import Latch


@rt.message
class Look(rt.Request[int]):
    """Watch that actor, so many times."""

    ref: rt.Ref  # type: ignore[type-arg]
    times: int = 1


class Watcher(Plain):
    @rt.handler
    def look(self, message: Look) -> int:
        for _ in range(message.times):
            self.ctx.watch(message.ref)
        return message.times

    @rt.handler
    def ended(self, message: rt.Terminated) -> None:
        self.log.append((message.ref, str(message.reason), message.error))


async def test_a_watch_ends_when_the_actor_does(host: Host) -> None:
    async with host.system() as system:
        ref = await system.spawn(host.plain)
        watch = await system.watch(ref)
        assert watch.terminated is None
        ref.tell(Leave())
        terminated = await watch.wait()
        assert (terminated.ref, terminated.reason, terminated.error) == (ref, "stopped", None)
        assert watch.terminated is terminated


async def test_an_actor_that_is_gone_is_reported_at_once(host: Host) -> None:
    async with host.system() as system:
        ref = await system.spawn(host.plain)
        await ref.stop()
        watch = await system.watch(ref)
        assert watch.terminated is not None
        assert (await watch.wait()).ref == ref


async def test_waiting_twice_gives_the_same_terminated(host: Host) -> None:
    async with host.system() as system:
        ref = await system.spawn(host.plain)
        watch = await system.watch(ref)
        got: list[rt.Terminated] = []

        async def wait() -> None:
            got.append(await watch.wait())

        async with trio.open_nursery() as nursery:
            for _ in range(5):
                nursery.start_soon(wait)
            await trio.testing.wait_all_tasks_blocked()
            await ref.stop()
        got.append(await watch.wait())
        assert len(got) == 6
        assert all(each is got[0] for each in got)


async def test_a_cancelled_wait_leaves_the_watch_usable(host: Host) -> None:
    async with host.system() as system:
        ref = await system.spawn(host.plain)
        watch = await system.watch(ref)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch.wait)
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        await ref.stop()
        assert (await watch.wait()).reason == "stopped"


async def test_a_failure_is_reported_with_its_error(host: Host) -> None:
    async with host.system() as system:
        ref = await system.spawn(host.plain, supervision=rt.Supervision(restart="temporary"))
        watch = await system.watch(ref)
        with pytest.raises(Boom) as caught:
            await ref.ask(Break())
        terminated = await watch.wait()
        assert terminated.reason == "failed"
        assert terminated.error is caught.value


async def test_an_actor_that_stops_after_it_had_failed_once_has_simply_stopped(host: Host) -> None:
    async with host.system() as system:
        ref = await system.spawn(host.plain)
        ref.tell(Break())
        assert await ref.ask(Notes()) == []
        watch = await system.watch(ref)
        await ref.stop()
        terminated = await watch.wait()
        assert (terminated.reason, terminated.error) == ("stopped", None)


async def test_the_end_of_the_system_is_a_reason_too(host: Host) -> None:
    async with host.system() as system:
        watch = await system.watch(await system.spawn(host.plain))
    assert watch.terminated is not None
    assert watch.terminated.reason == "system_closed"


async def test_a_closed_watch_hears_nothing(host: Host) -> None:
    async with host.system() as system:
        ref = await system.spawn(host.plain)
        watch = await system.watch(ref)
        watch.close()
        watch.close()
        await ref.stop()
        assert watch.terminated is None


# -- watching actors ---------------------------------------------------------------------------------------------------------------------------------


async def test_an_actor_gets_a_terminated_as_a_message(loop_host: Host) -> None:
    async with loop_host.system() as system:
        log: list[Any] = []
        watcher = await system.spawn(Watcher, log)
        ref = await system.spawn(loop_host.plain)
        await watcher.ask(Look(ref))
        await ref.stop()
        await system.wait_quiet()
        assert log == [(ref, "stopped", None)]
        assert conserved(system)


async def test_an_actor_gets_it_at_once_for_one_that_is_gone(loop_host: Host) -> None:
    async with loop_host.system() as system:
        log: list[Any] = []
        watcher = await system.spawn(Watcher, log)
        failing = await system.spawn(loop_host.plain, supervision=rt.Supervision(restart="temporary"), name="gone")
        watch = await system.watch(failing)
        failing.tell(Break("why"))
        await watch.wait()

        class Late(Watcher):
            def on_start(self) -> None:
                self.ctx.watch(failing)

        del watcher
        await system.spawn(Late, log)
        await system.wait_quiet()
        assert [(ref, reason, str(error)) for ref, reason, error in log] == [(failing, "failed", "why")]


async def test_each_watch_gives_exactly_one(loop_host: Host) -> None:
    async with loop_host.system() as system:
        log: list[Any] = []
        watcher = await system.spawn(Watcher, log)
        ref = await system.spawn(loop_host.plain)
        await watcher.ask(Look(ref, times=3))
        await ref.stop()
        await ref.stop()
        await system.wait_quiet()
        assert len(log) == 3
        assert conserved(system)


async def test_a_terminated_comes_before_the_ordinary_mail(loop_host: Host) -> None:
    class Held(Watcher):
        @rt.handler
        async def hold(self, _: Hold) -> int:
            assert self.latch is not None
            await self.latch.wait()
            return 0

    async with loop_host.system() as system:
        log: list[Any] = []
        latch = Latch()
        watcher = await system.spawn(Held, log, latch, mailbox=rt.Mailbox.bounded(2))
        ref = await system.spawn(loop_host.plain)
        await watcher.ask(Look(ref))
        watcher.tell(Hold())
        await latch.until(entered=1)
        assert watcher.tell(Note(1)) and watcher.tell(Note(2))
        assert not watcher.tell(Note(3))  # full, and yet:
        await ref.stop()
        latch.open()
        await system.wait_quiet()
        assert log == [(ref, "stopped", None), 1, 2]
        assert conserved(system)


async def test_the_ends_of_several_actors_are_reported_in_their_order(loop_host: Host) -> None:
    class Held(Watcher):
        @rt.handler
        async def hold(self, _: Hold) -> int:
            assert self.latch is not None
            await self.latch.wait()
            self.latch = Latch()
            latches.append(self.latch)
            return 0

    async with loop_host.system() as system:
        log: list[Any] = []
        latches = [Latch()]
        watcher = await system.spawn(Held, log, latches[0])
        for _ in range(2):  # the second time there were notices before
            log.clear()
            refs = [await system.spawn(loop_host.plain) for _ in range(5)]
            for ref in refs:
                await watcher.ask(Look(ref))
            latch = latches[-1]
            watcher.tell(Hold())
            await latch.until(entered=1)
            for number in range(3):
                watcher.tell(Note(number))
            for ref in refs:
                await ref.stop()
            latch.open()
            await system.wait_quiet()
            assert log == [*((ref, "stopped", None) for ref in refs), 0, 1, 2]


async def test_an_actor_without_a_handler_for_it_waits_on_its_watch(loop_host: Host) -> None:
    class Waiting(Plain):
        @rt.handler
        async def look(self, message: Look) -> int:
            watch = await self.ctx.watch(message.ref)
            self.log.append(str((await watch.wait()).reason))
            return 1

    async with loop_host.system() as system:
        log: list[Any] = []
        waiting = await system.spawn(Waiting, log)
        ref = await system.spawn(loop_host.plain)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(waiting.ask, Look(ref))
            await trio.testing.wait_all_tasks_blocked()
            await ref.stop()
        assert log == ["stopped"]
        assert conserved(system)


async def test_a_watcher_that_is_gone_is_no_trouble(loop_host: Host) -> None:
    async with loop_host.system() as system:
        log: list[Any] = []
        watcher = await system.spawn(Watcher, log)
        ref = await system.spawn(loop_host.plain)
        await watcher.ask(Look(ref))
        await watcher.stop()
        await ref.stop()
        await system.wait_quiet()
        assert log == []
        assert conserved(system)


async def test_a_watch_outlives_the_restart_of_the_watched(loop_host: Host) -> None:
    async with loop_host.system() as system:
        log: list[Any] = []
        watcher = await system.spawn(Watcher, log)
        ref = await system.spawn(loop_host.plain)
        await watcher.ask(Look(ref))
        ref.tell(Break())
        assert await ref.ask(Notes()) == []
        await ref.stop()
        await system.wait_quiet()
        assert log == [(ref, "stopped", None)]


OFTEN = rt.Supervision(backoff=(0, 0), intensity=(1000, 60))


async def test_the_watches_of_an_actor_end_with_its_restart(loop_host: Host) -> None:
    async with loop_host.system() as system:
        log: list[Any] = []
        watcher = await system.spawn(Watcher, log, supervision=OFTEN)
        ref = await system.spawn(loop_host.plain)
        for _ in range(100):
            await watcher.ask(Look(ref))
            watcher.tell(Break())
        await system.wait_quiet()
        assert len(ref._cell.extras().watchers) < 50  # those of ended instances are not kept for ever
        await ref.stop()
        await system.wait_quiet()
        assert log == []
        assert conserved(system)


async def test_a_supervisor_that_replaces_its_children_gets_no_notice_of_those_that_its_own_restart_ended(loop_host: Host) -> None:
    class Pool(Watcher):
        async def on_start(self) -> None:
            await self.add()

        async def add(self) -> None:
            self.ctx.watch(await self.ctx.spawn(Plain, name="worker"))

        @rt.handler
        async def ended(self, message: rt.Terminated) -> None:
            self.log.append(message.reason)
            await self.add()

    async with loop_host.system() as system:
        log: list[Any] = []
        pool = await system.spawn(Pool, log, name="pool", supervision=OFTEN)
        pool.tell(Break())
        await system.wait_quiet()
        assert log == []
        worker = system.registry.get("/user/pool/worker")
        assert worker is not None
        await worker.stop()
        await system.wait_quiet()
        assert log == ["stopped"]
        assert [actor.failures for actor in system.actors()] == [1, 0]
        assert conserved(system)


async def test_a_watch_of_an_instance_that_was_replaced_can_still_be_awaited(loop_host: Host) -> None:
    held: list[rt.Watch] = []

    class Holder(Plain):
        @rt.handler
        def look(self, message: Look) -> int:
            held.append(self.ctx.watch(message.ref))
            return 0

    async with loop_host.system() as system:
        ref = await system.spawn(Plain)
        holder = await system.spawn(Holder, supervision=OFTEN)
        for _ in range(40):
            await holder.ask(Look(ref))
            holder.tell(Break())
            await system.wait_quiet()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(held[0].wait)
            await trio.testing.wait_all_tasks_blocked()
            await ref.stop()
        assert [watch.terminated is not None for watch in held[:1]] == [True]
        assert (await held[1].wait()).ref == ref


async def test_a_parent_that_watches_learns_of_a_child_that_failed(loop_host: Host) -> None:
    class Parent(Watcher):
        async def on_start(self) -> None:
            self.child = await self.ctx.spawn(Plain, name="child", supervision=rt.Supervision(restart="temporary"))
            self.ctx.watch(self.child)

    async with loop_host.system() as system:
        log: list[Any] = []
        await system.spawn(Parent, log, name="parent")
        child = system.registry.get("/user/parent/child")
        assert child is not None
        child.tell(Break("oh"))
        await system.wait_quiet()
        assert [(ref, reason, str(error)) for ref, reason, error in log] == [(child, "failed", "oh")]
        assert conserved(system)


async def test_a_terminated_cannot_be_mistaken_for_mail_from_anybody(loop_host: Host) -> None:
    """It tells of the actor's end under the watcher's own authority, and says that nobody sent it."""
    senders: list[Any] = []

    class Curious(Watcher):
        @rt.handler
        def ended(self, message: rt.Terminated) -> None:
            senders.append((self.ctx.sender, self.ctx.security.allows("core.other"), self.ctx.security.allows("core.more")))

    async with loop_host.system() as system:
        watcher = await system.spawn(Curious, grant=["core.other"])
        ref = await system.spawn(loop_host.plain)
        await watcher.ask(Look(ref))
        await ref.stop()
        await system.wait_quiet()
        assert senders == [(None, True, False)]


async def test_nobody_can_send_a_terminated_but_the_runtime(loop_host: Host) -> None:
    """Else whoever holds a watcher's ref could tell it that anybody has died."""
    async with loop_host.system() as system:
        log: list[Any] = []
        watcher = await system.spawn(Watcher, log)
        ref = await system.spawn(loop_host.plain)
        await watcher.ask(Look(ref))
        forged = rt.Terminated(ref, "stopped", None)  # type: ignore[arg-type]
        with pytest.raises(rt.Unhandled, match="Terminated"):
            watcher.tell(forged)
        with pytest.raises(rt.Unhandled, match="Terminated"):
            await watcher.ask(forged)
        assert log == []


@pytest.mark.parametrize("overflow", ["drop_oldest", "drop_newest"])
async def test_a_terminated_is_never_dropped_to_make_room(loop_host: Host, overflow: Any) -> None:
    class Held(Watcher):
        @rt.handler
        async def hold(self, _: Hold) -> int:
            assert self.latch is not None
            await self.latch.wait()
            return 0

    async with loop_host.system() as system:
        log: list[Any] = []
        latch = Latch()
        watcher = await system.spawn(Held, log, latch, mailbox=rt.Mailbox.bounded(2, overflow=overflow))
        refs = [await system.spawn(loop_host.plain) for _ in range(3)]
        for ref in refs:
            await watcher.ask(Look(ref))
        watcher.tell(Hold())
        await latch.until(entered=1)
        for ref in refs:
            await ref.stop()
        for number in range(5):
            watcher.tell(Note(number))
        latch.open()
        await system.wait_quiet()
        assert log[:3] == [(ref, "stopped", None) for ref in refs]
        assert conserved(system)


@pytest.mark.parametrize("make", [rt.Mailbox.priority, rt.Mailbox.conflate], ids=["priority", "conflate"])
async def test_a_terminated_needs_no_key(loop_host: Host, make: Any) -> None:
    async with loop_host.system() as system:
        log: list[Any] = []
        watcher = await system.spawn(Watcher, log, mailbox=make(lambda message: message.number if isinstance(message, Note) else 0))
        refs = [await system.spawn(loop_host.plain) for _ in range(3)]
        for ref in refs:
            await watcher.ask(Look(ref))
        for ref in refs:
            await ref.stop()
        watcher.tell(Note(1))
        await system.wait_quiet()
        assert log == [*((ref, "stopped", None) for ref in refs), 1]


async def test_mail_behind_several_terminated_still_comes_in_the_order_of_its_keys(loop_host: Host) -> None:
    class Held(Watcher):
        @rt.handler
        async def hold(self, _: Hold) -> int:
            assert self.latch is not None
            await self.latch.wait()
            return 0

    async with loop_host.system() as system:
        log: list[Any] = []
        latch = Latch()
        mailbox = rt.Mailbox.priority(lambda message: message.number if isinstance(message, Note) else 0, 6)
        watcher = await system.spawn(Held, log, latch, mailbox=mailbox)
        refs = [await system.spawn(loop_host.plain) for _ in range(3)]
        for ref in refs:
            await watcher.ask(Look(ref))
        watcher.tell(Hold())
        await latch.until(entered=1)
        for ref in refs:
            await ref.stop()
        assert [bool(watcher.tell(Note(number))) for number in (5, 3, 1, 6, 2, 4, 7)] == [True] * 6 + [False]
        latch.open()
        await system.wait_quiet()
        assert log == [*((ref, "stopped", None) for ref in refs), 1, 2, 3, 4, 5, 6]
        assert conserved(system)


async def test_a_strict_system_takes_a_watcher_for_nobody_can_send_it_a_terminated(loop_host: Host) -> None:
    class Strict(rt.Actor):
        @rt.handler(requires="core.other")
        def note(self, _: Note) -> None:
            pass

        @rt.handler
        def ended(self, _: rt.Terminated) -> None:
            pass

    async with loop_host.system(strict=True) as system:
        assert (await system.spawn(Strict)).alive
        with pytest.raises(rt.DefinitionError, match="strict"):
            await system.spawn(Watcher, [])


# -- what cannot be watched --------------------------------------------------------------------------------------------------------------------------


async def test_only_refs_of_the_same_system_can_be_watched(loop_host: Host) -> None:
    class Odd(Plain):
        @rt.handler
        def double(self, message: Double) -> int:
            for wrong in wrongs:
                with pytest.raises(rt.DefinitionError):
                    self.ctx.watch(wrong)
            return len(wrongs)

    async with loop_host.system("one") as system, loop_host.system("two") as other:
        foreign = await other.spawn(loop_host.plain)
        wrongs: list[Any] = [None, "/user/x", 5, Plain, foreign]
        for wrong in wrongs:
            with pytest.raises(rt.DefinitionError):
                await system.watch(wrong)
        assert await (await system.spawn(Odd)).ask(Double(1)) == 5


async def test_a_system_that_has_not_started_watches_nothing(loop_host: Host) -> None:
    async with loop_host.system() as other:
        ref = await other.spawn(loop_host.plain)
        watching: Awaitable[Any] = loop_host.system("early").watch(ref)
        with pytest.raises(rt.SystemClosed, match="'early'"):
            await watching
