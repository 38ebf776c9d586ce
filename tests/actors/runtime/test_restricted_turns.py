"""A turn that restricts itself: what comes of it may do less from there on, and nothing gives that back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from trio.testing import MockClock

import retinue as rt


@rt.message
class Do(rt.Request[Any]):
    work: Callable[[Any], Awaitable[Any]]


@rt.message
class Write(rt.Request[str]):
    pass


@rt.message
class Later(rt.Message):
    pass


class File(rt.Actor):
    def __init__(self) -> None:
        self.written: list[str] = []

    @rt.handler(requires="fs.write")
    def write(self, message: Write) -> str:
        self.written.append("ask")
        return "written"

    @rt.handler(requires="fs.write")
    def later(self, message: Later) -> None:
        self.written.append("later")


class Puppet(rt.Actor):
    @rt.handler
    async def do(self, message: Do) -> Any:
        return await message.work(self)


class Forwarding(rt.Actor):
    def __init__(self, file: rt.Ref[File]) -> None:
        self.file = file

    @rt.handler
    def write(self, message: Write) -> Any:
        self.ctx.restrict(rt.deny("fs.**"))
        self.ctx.forward(self.file, message)


async def test_what_is_sent_after_it_may_do_less_and_a_context_from_before_gives_nothing_back() -> None:
    async with rt.ActorSystem() as system:
        file, puppet = await system.spawn(File), await system.spawn(Puppet)

        async def work(actor: Puppet) -> Any:
            before = actor.ctx.security
            assert await file.ask(Write()) == "written"
            actor.ctx.restrict(rt.deny("fs.write"))
            assert actor.ctx.security.descends_from(before) and not before.descends_from(actor.ctx.security)
            with pytest.raises(rt.Denied, match="fs.write"):
                await file.ask(Write())
            for stale in (before, before.narrow(rt.deny("net.**"))):
                with pytest.raises(rt.Denied) as caught:
                    await file.ask(Write(), context=stale)
                assert caught.value.reason == "lineage"
            child = await actor.ctx.spawn(Puppet)

            async def within(inner: Puppet) -> Any:
                return await file.ask(Write())

            with pytest.raises(rt.Denied, match="fs.write"):
                await child.ask(Do(within))
            return "restricted"

        assert await puppet.ask(Do(work)) == "restricted"
        assert len(await system.audit.entries(allowed=False)) >= 4  # each refusal is on record

        async def plain(actor: Puppet) -> Any:
            return await file.ask(Write())

        assert await puppet.ask(Do(plain)) == "written"  # the next turn has what it was sent with


async def test_timers_and_what_is_handed_on_are_under_less_too(autojump_clock: MockClock) -> None:
    async with rt.ActorSystem() as system:
        file, puppet = await system.spawn(File), await system.spawn(Puppet)
        forwarding = await system.spawn(Forwarding, file)
        for _ in range(2):  # by a worker, and in the asker's own task
            with pytest.raises(rt.Denied, match="fs.write"):
                await forwarding.ask(Write())

        async def work(actor: Puppet) -> Any:
            actor.ctx.restrict(rt.deny("fs.write"))
            actor.ctx.start_soon(told, file)

        async def told(ref: rt.Ref[File]) -> None:
            ref.tell(Later())

        await puppet.ask(Do(work))
        await system.wait_quiet()
        assert file._cell.actor.written == []
        assert {entry.operation for entry in await system.audit.entries(allowed=False)} == {"fs.write"}


async def test_a_limit_counts_what_the_turn_does_from_there_on() -> None:
    async with rt.ActorSystem() as system:
        file, puppet = await system.spawn(File), await system.spawn(Puppet)

        async def work(actor: Puppet) -> Any:
            await file.ask(Write())
            actor.ctx.restrict(rt.limit(calls=2))
            done = [await file.ask(Write()) for _ in range(2)]
            with pytest.raises(rt.BudgetExceeded):
                await file.ask(Write())
            return done

        assert await puppet.ask(Do(work)) == ["written", "written"]


async def test_what_is_no_restriction_is_refused_and_so_is_a_turn_that_is_not_its_own() -> None:
    async with rt.ActorSystem() as system:
        puppet = await system.spawn(Puppet)

        async def work(actor: Puppet) -> Any:
            before = actor.ctx.security
            with pytest.raises(rt.RetinueError):
                actor.ctx.restrict(7)  # type: ignore[arg-type]
            actor.ctx.restrict()
            return actor.ctx.security.permissions == before.permissions

        assert await puppet.ask(Do(work)) is True
        with pytest.raises(rt.NoContext):
            puppet._cell.actor.ctx.restrict(rt.deny("fs.**"))
